"""Runs are found, grouped and labelled; whatever is wrong with them is one sentence that names the culprit."""

import json
import shutil
from pathlib import Path

import pytest

from conftest import FOLDER
from sino.core.errors import UserError
from sino.report.collect import collect


@pytest.fixture
def copy(tmp_path) -> Path:
    """The run folders of SINO on Burgers, to be changed."""
    shutil.copytree(FOLDER / "burgers-decaying" / "sino", tmp_path / "sino")
    return tmp_path / "sino"


def change(path: Path, edit) -> None:
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))


def complaint(*paths: Path) -> str:
    with pytest.raises(UserError) as caught:
        collect(list(paths))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_seeds_of_one_configuration_belong_together(runs):
    found = [(g.setting.benchmark, g.label, [run.seed for run in g.runs], len(g.finished)) for g in runs.groups]
    assert found == [
        ("burgers-decaying", "U-Net", [1], 0),
        ("burgers-decaying", "FNO", [1, 2], 2),
        ("burgers-decaying", "SINO", [1, 2, 3], 3),
        ("burgers-decaying", "SINO, paper's schedule", [1], 1),
        ("burgers-decaying", "Hyperviscosity", [1], 1),
        ("ns-decaying", "AM-FNO", [1], 0),
        ("ns-decaying", "SINO", [1], 1),
        ("ns-decaying", "SINO, n = 8", [1], 1),
        ("ns-decaying", "Smagorinsky", [1], 1),
    ]
    assert [s.title for s in runs.settings] == ["Decaying Burgers", "Decaying NS"]
    assert [s.benchmark for s in runs.scalings] == ["ns-decaying"]


def test_states(runs):
    states = {(g.model, run.seed): run.state for g in runs.groups for run in g.runs}
    assert states["unet", 1] == "unfinished"
    assert states["amfno", 1] == "stopped: not finite at update 240"
    assert states["sino", 1] == "finished"


def test_a_run_and_its_parents_are_read_once(runs):
    one = FOLDER / "burgers-decaying" / "sino" / "seed-1"
    again = collect([one, one.parent, FOLDER / "burgers-decaying" / "sino" / ".." / "sino"])
    assert [run.seed for run in again.runs] == [1, 2, 3]
    assert collect([one]).runs[0].path == one  # as it was given


def test_results_of_training_are_enough(copy):
    for file in copy.glob("seed-*/evaluation*.json"):
        file.unlink()
    runs = collect([copy])
    (group,) = runs.groups
    assert [score.mean for score in group.scores("paper")] == [4e-3, 5e-3, 6e-3]
    assert group.parameters == 6681  # the paper's sizes, so it is known
    assert runs.coarse(group.setting, "test") is None


def test_other_sizes_need_a_file_to_tell_their_parameters(copy):
    for file in copy.glob("seed-*/evaluation*.json"):
        file.unlink()
    for file in copy.glob("seed-*/config.json"):
        change(file, lambda record: record["configuration"].update(sizes={"width": 8}))
    (group,) = collect([copy]).groups
    assert group.label == "SINO, width 8" and group.parameters is None and not group.plain


def test_groups_of_one_name_are_told_apart_by_their_recipes(copy):
    def slower(record):
        record["configuration"]["recipe"] |= {"learning_rate": 0.001, "stages": [[10, 5]]}

    change(copy / "seed-3" / "config.json", slower)
    labels = [group.label for group in collect([copy]).groups]
    assert labels == ["SINO, stages 20x10 60x20, learning rate 0.005", "SINO, stages 10x5, learning rate 0.001"]


def test_what_has_no_runs(tmp_path):
    assert "give at least one run" in complaint()
    assert complaint(tmp_path / "nowhere") == f"{tmp_path / 'nowhere'} is not a run: there is no such folder"
    assert f"there are no runs in {tmp_path}" in complaint(tmp_path)
    (tmp_path / "config.json.d").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.json").write_text("{}")  # of something else
    assert "there are no runs" in complaint(tmp_path)


def test_runs_without_results(tmp_path):
    assert "no run has results yet" in complaint(FOLDER / "burgers-decaying" / "unet")
    assert "stopped: not finite at update 240" in complaint(FOLDER / "ns-decaying" / "amfno")


@pytest.mark.parametrize("name", ["config.json", "results.json", "evaluation.json", "analysis.json"])
def test_newer_formats_are_refused(copy, name):
    change(copy / "seed-1" / name, lambda record: record.update(format_version=2))
    assert complaint(copy) == f"{copy / 'seed-1' / name} has format 2; this sino reads up to 1"


@pytest.mark.parametrize("name", ["config.json", "results.json", "evaluation.json", "analysis.json"])
@pytest.mark.parametrize("content", ["{", "[]", "", '{"format_version": 1}'])
def test_damaged_files_are_named(copy, name, content):
    (copy / "seed-1" / name).write_text(content)
    assert complaint(copy).startswith(f"{copy / 'seed-1' / name} is damaged")


@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("evaluation.json", lambda r: r["scores"].pop("none"), "no errors of the coarse solver alone"),
        ("evaluation.json", lambda r: r["scores"]["best"]["test"].pop("mse"), "it holds no mse"),
        ("evaluation.json", lambda r: r.update(times="soon"), "is damaged"),
        ("evaluation.json", lambda r: r["scores"]["none"]["test"]["spectrum"].update(energy=[1.0]), "is damaged"),
        ("evaluation.json", lambda r: r.update(kind="analysis"), "not of the kind 'evaluation'"),
        ("evaluation-on-burgers-decaying-128.json", lambda r: r.pop("coarse"), "it holds no coarse"),
        ("analysis.json", lambda r: r["kernels"][0].pop("rank"), "it holds no rank"),
        ("config.json", lambda r: r["configuration"].pop("seed"), "it holds no seed"),
        ("config.json", lambda r: r["configuration"].update(coarse="many"), "it holds no coarse"),
        ("config.json", lambda r: r["configuration"].update(model="sino9"), "which this sino does not know"),
        ("config.json", lambda r: r["configuration"].update(benchmark="euler"), "which this sino does not know"),
        ("config.json", lambda r: r["configuration"].update(preset="huge"), "which this sino does not know"),
    ],
)
def test_misshapen_entries_are_named(copy, name, edit, words):
    change(copy / "seed-1" / name, edit)
    text = complaint(copy)
    assert str(copy / "seed-1" / name) in text and words in text


def test_damaged_metrics_and_scaling(copy, tmp_path):
    (copy / "seed-1" / "results.json").unlink()
    (copy / "seed-1" / "evaluation.json").unlink()
    (copy / "seed-1" / "metrics.jsonl").write_text('{"update": 1}\nnonsense\n{"update": 2}\n')
    assert "metrics.jsonl is damaged at line 2" in complaint(copy)
    (tmp_path / "scaling.json").write_text('{"format_version": 1, "kind": "scaling", "benchmark": "ks"}')
    assert "scaling.json is damaged: it holds no fits" in complaint(FOLDER, tmp_path / "scaling.json")


def test_the_same_run_twice_is_a_mistake(copy, tmp_path):
    shutil.copytree(copy, tmp_path / "again")
    text = complaint(copy, tmp_path / "again")
    assert f"{copy / 'seed-1'} and {tmp_path / 'again' / 'seed-1'} are the same run" in text
