"""Work in several processes: order, what is missing, what fails, and one thread each."""

import time
from pathlib import Path

import pytest

from sino.cli.pool import Job, Limits, Step, last_words, run_jobs
from sino.cli.worker import remaining

FREE = Limits(2, None)


def collect(jobs: list[Job], limits: Limits = FREE) -> tuple[bool, list[tuple[str, int]]]:
    heard: list[tuple[str, int]] = []
    finished = run_jobs(jobs, limits, lambda job, status: heard.append((job.name, status)))
    return finished, heard


def test_a_job_waits_for_what_it_needs_and_is_dropped_without(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    version, wrong = Step(("--version",)), Step(("moon",))
    jobs = [
        Job("needs good", (version,), tmp_path / "1.log", needs=(good,)),
        Job("needs bad", (version,), tmp_path / "2.log", needs=(bad,)),
        Job("makes good", (version,), tmp_path / "3.log", makes=good),
        Job("makes bad", (version, wrong, version), tmp_path / "4.log", makes=bad),
    ]
    finished, heard = collect(jobs)
    assert finished and dict(heard) == {"needs good": 0, "needs bad": 1, "makes good": 0, "makes bad": 2}
    names = [name for name, _ in heard]
    assert names.index("makes good") < names.index("needs good")
    assert last_words(tmp_path / "2.log") == f"{bad} could not be made"
    assert last_words(tmp_path / "4.log").startswith("there is no command 'moon'")
    assert (tmp_path / "4.log").read_text().count("sino 0.") == 1  # what comes after the failure is not done


def test_time_that_is_up_starts_nothing_more(tmp_path):
    started = time.monotonic()
    finished, heard = collect(
        [Job(str(n), (Step(("--version",)),), tmp_path / f"{n}.log") for n in range(20)], Limits(1, None, seconds=0.0)
    )
    assert not finished and len(heard) <= 1 and time.monotonic() - started < 30


def test_a_process_gets_one_core_and_one_thread(tmp_path, monkeypatch):
    """Shown by the program that is started in its place."""
    script = tmp_path / "python"
    script.write_text('#!/bin/sh\nread task\necho "$task"\necho "$XLA_FLAGS $OMP_NUM_THREADS"\n')
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    monkeypatch.setenv("XLA_FLAGS", "--before")
    job, data = Job("a", (), tmp_path / "a.log"), Job("data", (), tmp_path / "data.log", makes=tmp_path / "data")
    assert collect([job, data], Limits(1, (7,)))[0]
    assert (
        tmp_path / "a.log"
    ).read_text() == '{"cores": [7], "steps": []}\n--before --xla_cpu_multi_thread_eigen=false 1\n'
    assert (tmp_path / "data.log").read_text().startswith('{"cores": null, "steps": []}\n--before ')


@pytest.mark.parametrize("there, left", [((), ["1"]), (("made-1",), None), (("made-1", "needed-2"), ["2"])])
def test_a_step_does_what_it_can_and_has_not_done(there, left, tmp_path):
    for name in (*there, "needed-1"):
        (tmp_path / name).touch()
    each = [(n, str(tmp_path / f"needed-{n}"), str(tmp_path / f"made-{n}")) for n in ("1", "2")]
    assert remaining(Step(("train", "--seeds"), tuple(each))) == (left and ["train", "--seeds", *left])


def test_a_log_without_a_word(tmp_path):
    assert last_words(tmp_path / "none.log") == "it did not come to say why"
    assert last_words(Path("/dev/null")) == "it did not come to say why"
