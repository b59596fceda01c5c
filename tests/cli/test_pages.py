"""Large pages: when they are asked for, and that the process which asks is the same one with the same arguments."""

import os
import subprocess
import sys

import pytest

from sino.cli import pages


@pytest.fixture
def on_request(tmp_path, monkeypatch):
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never\n")
    monkeypatch.setattr(pages, "ON_REQUEST", file)
    return file


def test_they_are_asked_for_once(on_request, monkeypatch):
    monkeypatch.setattr(pages, "_asks", lambda: True)
    asked = pages.with_large_pages({"HOME": "/home"})
    assert asked == {"HOME": "/home", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    assert pages.with_large_pages(asked) is None
    kept = pages.with_large_pages({"GLIBC_TUNABLES": "glibc.malloc.check=1"})
    assert kept == {"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}


def test_nobody_who_said_otherwise_is_overruled(on_request, monkeypatch):
    monkeypatch.setattr(pages, "_asks", lambda: True)
    assert pages.with_large_pages({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}) is None


@pytest.mark.parametrize("enabled", ["[always] madvise never", "always madvise [never]", None])
def test_they_are_not_asked_for_where_that_changes_nothing(enabled, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_asks", lambda: True)
    file = tmp_path / "enabled"
    if enabled is not None:
        file.write_text(enabled)
    monkeypatch.setattr(pages, "ON_REQUEST", file)
    assert pages.with_large_pages({}) is None


@pytest.mark.parametrize(
    "version, able", [("glibc 2.35", True), ("glibc 3.0", True), ("glibc 2.31", False), ("musl", False), (None, False)]
)
def test_only_a_library_that_can_ask_is_asked(version, able, on_request, monkeypatch):
    monkeypatch.setattr(os, "confstr", lambda name: version)
    assert (pages.with_large_pages({}) is not None) == able


def test_a_system_without_that_library_is_left_alone(on_request, monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", unknown)
    assert pages.with_large_pages({}) is None


def test_the_process_goes_on_with_its_number_and_arguments(on_request):
    program = f"""
import os, sys
from pathlib import Path
from sino.cli import pages
pages._asks = lambda: True
pages.ON_REQUEST = Path({str(on_request)!r})
print(os.getpid(), os.environ.get("GLIBC_TUNABLES"), *sys.argv[1:])
pages.use_large_pages()
print("done")
"""
    environment = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"}
    command = [sys.executable, "-c", program, "one", "two words"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    number = told[0].split()[0]
    assert told == [f"{number} None one two words", f"{number} glibc.malloc.hugetlb=1 one two words", "done"]
