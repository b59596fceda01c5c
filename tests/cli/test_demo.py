"""The demo tells the whole story, and tells it when the closure does not win."""

from dataclasses import replace

import pytest

from sino.cli import demo, main

SHORT = {"preset": "tiny", "stages": ((2, 1),), "sizes": {"width": "4", "depth": "1"}, "evaluate_every": 1}


@pytest.fixture
def tiny(monkeypatch):
    """The same story with hardly any training."""
    monkeypatch.setattr(demo, "PRESET", "tiny")
    for name, model in (("CHAOS", "sino"), ("BASELINE", "sino-spa"), ("TURBULENCE", "sino")):
        monkeypatch.setattr(demo, name, replace(getattr(demo, name), model=model, **SHORT))


def test_the_demo_trains_compares_and_reports(tiny, tmp_path, capsys):
    status = main(["demo", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert status == 1 and "did NOT win by the factor 2" in printed
    table = printed[printed.index("mean squared error, unseen") :].splitlines()[1:6]
    starts = ["Kuramoto-Sivashinsky (tiny): "] * 3 + ["Decaying NS (tiny): "] * 2
    assert [line.startswith(start) for line, start in zip(table, starts, strict=True)] == [True] * 5
    assert "coarse grid alone" in table[0] and "coarse grid alone" in table[3]
    assert {line.split(":")[1].split()[0] for line in table[1:3]} == {"SINO", "SINO-SPA"}
    page = (tmp_path / "report.html").read_text()
    assert "Two small flows" in page and "Decaying NS" in page


def test_the_verdict_says_by_how_much():
    assert demo._sentence(11.52) == (
        "On unseen trajectories the closure makes 11.5 times smaller errors than the coarse grid alone."
    )
    assert demo._sentence(1.9).startswith("The closure did NOT win")
