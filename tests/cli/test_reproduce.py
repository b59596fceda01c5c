"""`sino reproduce`: files of runs, what is skipped, what is stopped and goes on, and what fails."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import status
from sino.cli.experiment import find_experiment, read_experiment
from sino.report.reproduction import read_results
from tiny_training import NETWORK, assert_same_run, everything_under, keep_every_program

SIZES = dict(zip(NETWORK[1::2], map(int, NETWORK[2::2]), strict=True))
TABLE = ", ".join(f"{key} = {value}" for key, value in SIZES.items())
COMMON = f'preset = "tiny"\npasses = 1\nlearning_rate = 0.01\nevaluate_every = 1\nsizes = {{{TABLE}}}\n'
ROOT = Path(__file__).parents[2]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def command(file: Path, where: Path, *more: object) -> list[str]:
    given = ("reproduce", file, "--out", where / "out", "--data", where / "data", "--processes", 2, *more)
    return [str(word) for word in given]


def start(arguments: list[str]) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "sino", *arguments], **pipes)


def runs_below(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.rglob("config.json"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An experiment of two seeds and a classical closure, tried elsewhere too."""
    keep_every_program()
    where = tmp_path_factory.mktemp("reproduce")
    classical = 'preset = "tiny"\nmodel = "hyperviscosity"\nbenchmark = "ks"\nevaluate = [{on = "ks-32"}]\n'
    file = write(
        where / "small.toml",
        f'title = "Small"\n[[runs]]\nbenchmarks = ["ks"]\nseeds = [1, 2]\nstages = [[5, 40]]\n{COMMON}'
        f"[[runs]]\n{classical}",
    )
    done = start(command(file, where))
    output, errors = done.communicate()
    assert done.returncode == 0, output + errors
    return where, file, output


def networks(where: Path) -> list[Path]:
    return [run for run in runs_below(where / "out") if "hyperviscosity" not in str(run)]


def test_every_run_is_trained_evaluated_and_told_of(finished):
    where, _, output = finished
    assert {run.name for run in networks(where)} == {"seed-1", "seed-2"}
    assert len(runs_below(where / "out")) == 3
    for run in runs_below(where / "out"):
        assert (run / "results.json").is_file() and (run / "evaluation.json").is_file()
    assert len(list((where / "out").rglob("evaluation-on-ks-32-*.json"))) == 1
    assert output.count("as the paper measures") == 3 and "[3 of 3]" in output


def test_the_results_are_small_and_those_of_the_runs(finished):
    where, _, _ = finished
    file = where / "out" / "small.json"
    record = read_results(file)
    found = {(c["configuration"]["model"], run["seed"]): run for c in record["configurations"] for run in c["runs"]}
    assert set(found) == {("sino", 1), ("sino", 2), ("hyperviscosity", 1)}
    for run in networks(where):
        evaluation = json.loads((run / "evaluation.json").read_text())["scores"]
        row = found["sino", int(run.name[-1])]
        for weights in ("none", "final", "best", "selected"):
            for judge in ("paper", "test"):
                mean = evaluation[weights][judge]["mse"]["mean"]
                assert row["errors"][weights][judge]["mean"] == pytest.approx(mean, rel=1e-4)
        assert row["train_seconds"] > 0 and len(row["data"]) == 64 and row["provenance"]["jax"]
    (transfer,) = found["hyperviscosity", 1]["transfers"]
    assert transfer["benchmark"] == "ks-32" and transfer["errors"]["final"]["test"]["mean"] > 0
    assert file.stat().st_size < 3 * 8000


def test_what_is_done_is_not_done_again(finished, capfd):
    where, file, _ = finished
    before = everything_under(where / "out")
    assert status(*command(file, where, "--dry-run")) == 0
    assert capfd.readouterr().out.count(": done") == 3
    assert status(*command(file, where)) == 0
    assert "3 runs, 3 done" in capfd.readouterr().out
    assert everything_under(where / "out") == before


def test_runs_of_another_machine_stay_in_the_results(finished, tmp_path):
    """And those of another configuration do not."""
    where, file, _ = finished
    results = write(tmp_path / "results.json", (where / "out" / "small.json").read_text())
    wanted = read_experiment(file)
    from sino.report.reproduction import write_results

    asked = {f"{e.name}/seed-{s}": e.request.configuration_without_data(s) for e in wanted.entries for s in (1,)}
    assert write_results(results, "Small", asked, tmp_path / "nothing") == 2
    name = next(name for name in asked if "sino" in name)
    other = asked | {name: asked[name] | {"precision": "float64"}}
    assert write_results(results, "Small", other, tmp_path / "nothing") == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, "seconds"])
def test_a_stopped_experiment_goes_on_and_ends_alike(finished, how, tmp_path):
    where, _, _ = finished
    file = write(tmp_path / "small.toml", (where / "small.toml").read_text())
    (tmp_path / "data").symlink_to(where / "data")
    seconds = ("--seconds", 1) if how == "seconds" else ()
    stopped = start(command(file, tmp_path, "--only", "ks-tiny/sino", *seconds))
    if how != "seconds":
        until = time.monotonic() + 120
        while not any((tmp_path / "out").rglob("checkpoints/last/manifest.json")):
            assert stopped.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        stopped.send_signal(how)
    output, errors = stopped.communicate(timeout=120)
    expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130, "seconds": 0}[how]
    assert stopped.returncode == expected, output + errors
    if how != signal.SIGKILL:
        assert "the same command goes on" in output
    again = start(command(file, tmp_path, "--only", "ks-tiny/sino"))
    output, errors = again.communicate(timeout=300)
    assert again.returncode == 0, output + errors
    assert len(networks(tmp_path)) == 2
    for run in networks(tmp_path):
        assert_same_run(run, where / "out" / run.relative_to(tmp_path / "out"))


def test_a_run_that_fails_does_not_hold_up_the_others(finished, tmp_path):
    """Its data are damaged: the training says so in its own process."""
    where, _, _ = finished
    classical = '[[runs]]\nbenchmarks = ["ks", "ks-32"]\nmodel = "hyperviscosity"\npreset = "tiny"\n'
    file = write(tmp_path / "two.toml", classical)
    (tmp_path / "data" / "ks-32-tiny").mkdir(parents=True)
    (tmp_path / "data" / "ks-32-tiny" / "manifest.json").write_text("{}")
    (tmp_path / "data" / "ks-tiny").symlink_to(where / "data" / "ks-tiny")
    done = start(command(file, tmp_path))
    output, errors = done.communicate(timeout=300)
    assert done.returncode == 1
    assert "ks-32-tiny/hyperviscosity seed 1: FAILED" in errors and "manifest.json" in errors
    assert "ks-tiny/hyperviscosity seed 1: as the paper measures" in output and "1 of 2 runs" in output


def test_seeds_train_together_on_a_gpu_and_one_that_diverges_is_told(finished, tmp_path, monkeypatch, capfd):
    """It is not tried again, and what else there is goes on."""
    where, _, _ = finished
    monkeypatch.setattr("sino.cli.reproduction._platform", lambda: "gpu")
    runs = f'[[runs]]\nbenchmark = "ks"\nseeds = [1, 2]\nstages = [[5, 40]]\n{COMMON.replace("0.01", "1e30")}'
    file = write(
        tmp_path / "wild.toml", runs + '[[runs]]\nbenchmark = "ks"\nmodel = "hyperviscosity"\npreset = "tiny"\n'
    )
    (tmp_path / "data").symlink_to(where / "data")
    before: dict[str, int] = {}
    for fresh in (True, False):
        assert status(*command(file, tmp_path)) == 1
        output, errors = capfd.readouterr()
        assert errors.count("FAILED: the training was stopped, not finite again and again, at update") == 2
        assert output.count("as the paper measures") == fresh and "3 of 3 runs" in output
        logs = {log.name: log.stat().st_mtime_ns for log in (tmp_path / "out" / "logs").iterdir()}
        assert len(logs) == 2 and (fresh or logs == before)
        before = logs
    record = read_results(tmp_path / "out" / "wild.json")
    states = [run["state"] for entry in record["configurations"] for run in entry["runs"]]
    assert [state.partition(":")[0] for state in states] == ["stopped", "stopped", "finished"]


def test_another_configuration_in_the_folder_is_refused_before_anything_starts(finished, capsys, tmp_path):
    where, file, _ = finished
    other = write(tmp_path / "small.toml", file.read_text().replace("0.01", "0.02"))
    moved = next(run for run in networks(where)).parent
    target = tmp_path / "out" / read_experiment(other).entries[0].name
    target.parent.mkdir(parents=True)
    target.symlink_to(moved)
    before = everything_under(where / "out")
    assert status(*command(other, tmp_path)) == 2
    assert "learning_rate is 0.01 there and 0.02 here" in capsys.readouterr().err
    assert everything_under(where / "out") == before


RUNS = '[[runs]]\nbenchmarks = ["ks"]\n'


@pytest.mark.parametrize(
    "text, message",
    [
        ("[[runs", "is not TOML"),
        ("", "lists no runs"),
        ("runs = 3", "lists no runs"),
        ("seeds = [1]\n" + RUNS, "'seeds' outside of [[runs]]"),
        ("[[runs]]\nmodels = ['sino']", "without `benchmarks`"),
        (RUNS + "modles = ['sino']", "did you mean 'model"),
        (RUNS + "models = ['sinus']", "there is no network 'sinus'"),
        (RUNS + "models = []", "must be a list of names"),
        (RUNS + "models = ['fno']\nmodel = 'sino'", "gives both"),
        ("[[runs]]\nbenchmarks = ['kss']", "there is no benchmark 'kss'"),
        (RUNS + "seeds = [1, 1]", "each only once"),
        (RUNS + "batch = 'many'", "batch = 'many' is not what `sino train --batch` takes"),
        (RUNS + "loss = 'mae'", "is not what `sino train --loss` takes"),
        (RUNS + "trajectories = [0]", "--trajectories must be between 1 and 64"),
        (RUNS + "sizes = {depth = -1}", "cannot be built with --sizes"),
        (RUNS + "out = 'here'", "has a key 'out'"),
        (RUNS + RUNS, "names the run ks/sino twice"),
        (RUNS + "evaluate = ['ks-32']", "'evaluate' must be a list such as"),
        (RUNS + "evaluate = [{at = 'ks-32'}]", "has `on` or `coarse`"),
        (RUNS + "evaluate = [{on = 'ns-decaying'}]", "has 2"),
        (RUNS + "evaluate = [{coarse = 64}]", "which is always evaluated"),
    ],
)
def test_a_bad_file_is_one_sentence_and_nothing_starts(text, message, tmp_path, capsys):
    file = write(tmp_path / "bad.toml", text)
    assert status(*command(file, tmp_path)) == 2
    said = capsys.readouterr().err
    assert said.startswith("sino: ") and said.count("\n") == 1 and message in said, said
    assert os.listdir(tmp_path) == ["bad.toml"]


@pytest.mark.parametrize(
    "given, message",
    [
        (("reproduce", "moon"), "there is no experiment 'moon'; there are 1d"),
        (("reproduce", "nowhere/moon.toml"), "cannot read nowhere/moon.toml"),
        (("reproduce", "transfer", "--only", "moon"), "has 'moon' in its name"),
        (("reproduce", "transfer", "--only", "sino", "moon"), "has 'moon' in its name"),
        (("reproduce", "transfer", "--seeds", "77"), "none of these runs has one of the seeds (77,)"),
        (("reproduce", "transfer", "--processes", "0"), "--processes must be at least 1"),
    ],
)
def test_a_bad_request_is_one_sentence(given, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert status(*given) == 2
    assert message in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_some_runs_and_seeds_can_be_chosen(tmp_path, monkeypatch, capsys):
    """A whole name is that run alone, without `ks/fno-paper`; any other text is part of names."""
    monkeypatch.chdir(tmp_path)
    chosen = ("ks/fno", "burgers-decaying/sino-sp")
    assert status("reproduce", "1d", "--only", *chosen, "--seeds", "2", "3", "--dry-run") == 0
    listed = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if ": missing" in line]
    entries = ("ks/fno", "burgers-decaying/sino-spe", "burgers-decaying/sino-spa")
    assert listed == [f"{entry} seed {seed}" for entry in entries for seed in (2, 3)]


def test_without_the_repository_a_path_is_asked_for(monkeypatch, capsys):
    monkeypatch.setattr("sino.cli.experiment.checkout", lambda: None)
    assert status("reproduce", "1d") == 2
    assert "give the path of a TOML file instead of '1d'" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_the_experiments_of_the_repository_are_sound(path):
    experiment = read_experiment(path)
    assert find_experiment(path.stem).resolve() == path.resolve()
    assert experiment.title and len(experiment.entries) > 2


def test_names_of_folders_tell_what_is_unusual(tmp_path):
    text = RUNS + 'schedules = ["ours", "paper"]\nsizes = [{}, {width = 8}]\nscheme = "strong"\ntrajectories = 8\n'
    names = [entry.name for entry in read_experiment(write(tmp_path / "a.toml", text)).entries]
    assert names == [
        "ks/sino-strong-trajectories-8",
        "ks/sino-strong-width-8-trajectories-8",
        "ks/sino-paper-strong-trajectories-8",
        "ks/sino-paper-strong-width-8-trajectories-8",
    ]
