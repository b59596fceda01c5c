"""`sino report`: what it writes and prints, and one sentence for every mistake."""

import json
import shutil
from pathlib import Path

import pytest

from sino.cli import main
from sino.report.names import number

RUNS = Path(__file__).parent.parent / "report" / "runs"


def test_report_writes_a_page_tables_and_figures(tmp_path, capsys):
    page, parts = tmp_path / "deep" / "page.html", tmp_path / "parts"
    options = ["--out", str(page), "--tables", str(parts), "--title", "Ours & theirs"]
    assert main(["report", str(RUNS), *options]) == 0
    printed = capsys.readouterr().out
    assert "the closure beats the coarse grid on 2 of 2 flows: Decaying Burgers (31 ×)" in printed
    assert f"wrote {page}, and 45 tables and figures in {parts}" in printed
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "<h1>Ours &amp; theirs</h1>" in text
    names = {path.name for path in parts.iterdir()}
    assert {
        "results-1d.md",
        "results-2d.tex",
        "bottleneck.md",
        "architecture.svg",
        "animation-ns-decaying.gif",
    } <= names
    assert len(names) == 45 and all(path.stat().st_size > 100 for path in parts.iterdir())
    line = next(row for row in (parts / "results-1d.md").read_text().splitlines() if row.startswith("| SINO |"))
    assert line.startswith(
        "| SINO | **5.00e-3** (paper 4.37e-3) | **4.00e-3** (paper 2.90e-3) | **5.50e-3** | **4.40e-3**"
    )


def test_a_single_seed_is_enough(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["report", str(RUNS / "burgers-decaying" / "hyperviscosity" / "seed-1"), "--out", str(out)]) == 0
    assert f"wrote {out}\n" in capsys.readouterr().out and not (tmp_path / "parts").exists()


def test_from_training_to_report(trained, tmp_path, capsys):
    """What `sino train` and `sino evaluate` write is what `sino report` reads."""
    runs, out = tmp_path / "sino", tmp_path / "page.html"
    shutil.copytree(trained.out, runs)
    assert main(["report", str(runs), "--out", str(out)]) == 0
    assert "Nothing can be said yet" in capsys.readouterr().out
    assert main(["evaluate", str(runs), "--data", str(trained.data)]) == 0
    capsys.readouterr()
    assert main(["report", str(runs), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    score = json.loads((runs / "seed-1" / "evaluation.json").read_text())["scores"]["none"]["test"]["mse"]["mean"]
    assert f"against {number(score)} of the coarse grid alone, over 2 unseen trajectories" in printed
    assert "figure-animation-ks-tiny" in out.read_text()


def complaint(capsys, *arguments) -> str:
    assert main(["report", *map(str, arguments)]) == 2
    text = capsys.readouterr().err
    assert text.startswith("sino: ") and text.count("\n") == 1
    return text


def test_mistakes_are_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "give at least one run" in complaint(capsys)
    assert "there is no such folder" in complaint(capsys, "nowhere")
    assert "there are no runs in empty" in complaint(capsys, "empty")
    assert "no run has results yet" in complaint(capsys, RUNS / "burgers-decaying" / "unet")
    run = tmp_path / "run"
    shutil.copytree(RUNS / "burgers-decaying" / "hyperviscosity" / "seed-1", run)
    assert "is a folder; give the name of a file" in complaint(capsys, run, "--out", "empty")
    (tmp_path / "file").write_text("")
    assert "cannot make the folder file" in complaint(capsys, run, "--out", "file/page.html")
    assert "cannot make the folder file" in complaint(capsys, run, "--tables", "file")
    text = (run / "evaluation.json").read_text()
    (run / "evaluation.json").write_text(text.replace('"format_version": 1', '"format_version": 7', 1))
    assert "evaluation.json has format 7; this sino reads up to 1" in complaint(capsys, run)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["--nonsense"]])
def test_options(arguments):
    with pytest.raises(SystemExit) as caught:
        main(["report", str(RUNS), *arguments])
    assert caught.value.code == (0 if arguments == ["--help"] else 2)
