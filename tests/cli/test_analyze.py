"""`sino analyze`: what it prints and writes, and one sentence for every mistake."""

import json
import shutil
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from commands import status
from sino.benchmarks import benchmark
from sino.cli import analysis
from sino.core.files import write_json
from sino.coupling.classical import CLASSICAL, build_classical
from sino.coupling.closure import Closure, Statistics
from sino.evaluate.approximation import approximation_errors
from sino.evaluate.cost import CostPlan
from sino.models import build_model, count_parameters
from sino.report.analyses import read_analysis, read_scaling
from sino.train.run import Run

SMALL = {"width": 3, "depth": 1, "kernel": 3, "frequency_hidden": 3, "spatial_hidden": 3}


pytestmark = pytest.mark.usefixtures("quick_to_compile")


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """A short fit, and one look at the clock."""
    monkeypatch.setattr(analysis, "approximation_errors", partial(approximation_errors, (1, 2), hidden=4, steps=2))
    monkeypatch.setattr(analysis, "CostPlan", partial(CostPlan, call_seconds=0.0, repeats=1))


@pytest.fixture
def shallow(monkeypatch):
    """No look into the kernels, for tests that are about something else."""
    for name in ("kernel_components", "sino_bounds"):
        monkeypatch.setattr(analysis, name, lambda *given: [])


def make_run(path, name="ks", model="sino", sizes=SMALL, seed=1, error=0.5, seconds=10.0):
    """A run as a training leaves it, with a network that was not trained and an error that was not measured."""
    b = benchmark(name, "tiny")
    recipe = {"coupling": "frozen", "zero_mean": True}
    configuration = {"benchmark": name, "preset": "tiny", "coarse": b.sizes.coarse, "scheme": "paper", "model": model}
    configuration |= {"sizes": sizes, "seed": seed, "schedule": "ours", "precision": "float32", "recipe": recipe}
    run, channels = Run(path / f"seed-{seed}"), len(b.offsets)
    run.start(configuration)
    one = jnp.ones((), jnp.float32)
    if model in CLASSICAL:
        closure = build_classical(model, one, channels, b.length)
    else:
        network = build_model(model, dim=b.dim, key=jax.random.PRNGKey(seed), **sizes)
        closure = Closure(network, Statistics(jnp.zeros(channels, jnp.float32), one, one), zero_mean=True)
    run.save_closure("best", closure, {"update": 1})
    score = {"mean": error, "median": error, "blown_up": 0, "trajectories": 2}
    results = {"format_version": 1, "configuration": configuration, "train_seconds": seconds}
    write_json(run.results_file, results | {"errors": {"best": {"test": score}}})
    return run.path


def parameters(sizes):
    return count_parameters(build_model("sino", dim=1, key=jax.random.PRNGKey(0), **sizes))


def test_runs_get_their_kernels_and_bounds_written_and_printed(tmp_path, capsys):
    folder = tmp_path / "runs"
    for seed in (1, 2):
        make_run(folder, seed=seed)
    assert status("analyze", folder) == 0
    printed = capsys.readouterr().out
    for seed in (1, 2):
        file = folder / f"seed-{seed}" / "analysis.json"
        assert f"wrote {file}" in printed
        record = json.loads(file.read_text())
        assert (record["format_version"], record["kind"], record["weights"]["name"]) == (1, "analysis", "best")
        assert record["configuration"] == Run(folder / f"seed-{seed}").configuration()
        assert [(row["block"], row["branch"]) for row in record["kernels"]] == [(0, "frequency"), (0, "spatial")]
        for row in record["kernels"]:
            assert row["rank"] <= row["rank_bound"] == row["bottleneck"] + 1 == 3
            assert row["explained"][1] == pytest.approx(1.0)
        assert all(row["holds"] for row in record["bounds"]) and len(record["bounds"]) == 2
        assert [row["bottleneck"] for row in record["approximation"]] == [1, 2]
        assert "cost" not in record and "commit" in record["provenance"]
        assert len(read_analysis(file).kernels) == 2  # the report can read it
    assert "two components hold everything by construction" in printed
    assert "holds" in printed and not (folder / "scaling.json").exists()


def test_networks_without_generated_kernels_are_told_in_one_line(tmp_path, capsys):
    make_run(tmp_path / "fno", model="fno", sizes={"width": 2, "depth": 1, "hidden": 2})
    make_run(tmp_path / "damped", model="hyperviscosity", sizes={})
    assert status("analyze", tmp_path / "fno", tmp_path / "damped") == 0
    printed = capsys.readouterr().out
    for model in ("fno", "hyperviscosity"):
        assert f"{model} has no generated kernels" in printed
    fno, damped = (json.loads((tmp_path / m / "seed-1" / "analysis.json").read_text()) for m in ("fno", "damped"))
    assert fno["kernels"] == damped["kernels"] == damped["bounds"] == []
    assert [(row["norm"] > 0, row["lipschitz_bound"], row["holds"]) for row in fno["bounds"]] == [(True, None, True)]


def test_the_cost_is_measured_on_request_and_kept_until_the_weights_change(tmp_path, shallow, capsys):
    run = make_run(tmp_path)
    file = run / "analysis.json"
    assert status("analyze", run, "--cost", "--trajectories", 1, "--window", 2, 3) == 0
    printed = capsys.readouterr().out
    cost = json.loads(file.read_text())["cost"]
    assert [row["what"] for row in cost["rows"]] == ["coarse", "closure", "fine-64", "strong-32"]
    assert (cost["window"], cost["seeds"], cost["batch"], cost["train_seconds"]) == ([2, 3], [6], 1, 10.0)
    assert read_analysis(file).cost is not None
    assert "seconds per time unit" in printed and "data and training paid back after" in printed
    assert status("analyze", run) == 0  # without measuring again
    assert json.loads(file.read_text())["cost"] == cost
    other = make_run(tmp_path / "other", seed=2)
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    assert status("analyze", run) == 0
    assert "cost" not in json.loads(file.read_text())


def test_runs_of_several_sizes_make_a_scaling_law(tmp_path, shallow, capsys):
    """The errors are those of 20 / parameters^0.7, so that is what must come out."""
    for width in (2, 3, 4):
        sizes = SMALL | {"width": width}
        error = 20.0 * parameters(sizes) ** -0.7
        for seed in (1, 2):
            make_run(tmp_path / f"w{width}", sizes=sizes, seed=seed, error=error, seconds=100.0 * width**2)
    assert status("analyze", tmp_path) == 0
    printed = capsys.readouterr().out
    file = tmp_path / "scaling.json"
    assert printed.splitlines()[-1] == f"wrote {file}"
    record = json.loads(file.read_text())
    assert (record["kind"], record["benchmark"], len(record["fits"])) == ("scaling", "ks", 2)
    law, seconds = record["fits"]
    assert (law["model"], law["against"], seconds["against"]) == ("sino", "parameters", "seconds")
    assert law["exponent"] == pytest.approx(0.7) and law["prefactor"] == pytest.approx(20.0)
    assert law["interval"] == pytest.approx([0.7, 0.7]) and len(law["points"]) == 6
    assert seconds["exponent"] > 0 and sorted({x for x, _ in seconds["points"]}) == [400.0, 900.0, 1600.0]
    assert len(read_scaling(file).fits) == 2


def test_an_evaluation_counts_before_the_results_and_what_blew_up_is_left_out(tmp_path, shallow):
    for width, error in ((2, 1.0), (3, None), (4, 0.5), (6, 0.25)):
        run = make_run(tmp_path / f"w{width}", sizes=SMALL | {"width": width}, error=77.0)
        scores = {"best": {"test": {"mse": {"mean": error}}}, "none": {}}
        write_json(run / "evaluation.json", {"format_version": 1, "scores": scores})
    out = tmp_path / "laws" / "x.json"
    out.parent.mkdir()
    assert status("analyze", tmp_path, "--out", out) == 0
    fit = json.loads(out.read_text())["fits"][0]
    assert [error for _, error in fit["points"]] == [1.0, 0.5, 0.25]
    assert fit["left_out"] == 1
    assert [one["against"] for one in json.loads(out.read_text())["fits"]] == ["parameters"]  # all took 10 seconds


@pytest.mark.parametrize(
    ("spoil", "arguments", "message"),
    [
        (lambda run: shutil.rmtree(run / "checkpoints"), (), "has no weights yet"),
        (lambda run: newer(run / "config.json"), (), "has format 2; this sino reads up to 1"),
        (lambda run: write_json(run / "analysis.json", {"format_version": 2}), (), "has format 2"),
        (lambda run: None, ("--cost", "--trajectories", 0), "--trajectories must be among 1..2"),
        (lambda run: None, ("--cost", "--grids", 48), "a coarse grid of 48 does not divide the fine grid of 64"),
        (lambda run: None, ("--cost", "--window", 5, 50), "the frames 5..50 are not among 1..20"),
        (lambda run: None, ("--cost", "--batch", 0), "a batch of at least one"),
        (lambda run: None, ("--out", "x.json"), "there is no scaling law for x.json: it needs runs of one"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, capsys, spoil, arguments, message):
    run = make_run(tmp_path)
    spoil(run)
    capsys.readouterr()
    assert status("analyze", run, *arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("sino: ") and message in told and told.count("\n") == 1


def newer(file):
    write_json(file, json.loads(file.read_text()) | {"format_version": 2})


def test_without_runs_there_is_nothing_to_analyse(tmp_path, capsys):
    for given in ((), (tmp_path / "nowhere",), (tmp_path,)):
        assert status("analyze", *given) == 2
        assert capsys.readouterr().err


def test_runs_of_different_benchmarks_make_no_scaling_law(tmp_path, shallow, capsys):
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", sizes=SMALL | {"width": 4})]
    runs.append(make_run(tmp_path / "c", name="burgers-forced"))
    assert status("analyze", *runs, "--out", tmp_path / "x.json") == 2
    told = capsys.readouterr().err
    assert "it needs runs of one benchmark" in told and "burgers-forced" in told and "ks" in told
    assert not list(tmp_path.rglob("analysis.json"))  # it is said before the work
    assert status("analyze", *runs) == 0
    assert "no scaling law: it needs runs of one benchmark" in capsys.readouterr().out
    assert not list(tmp_path.rglob("scaling.json"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "results.json").unlink(), "has no results.json"),
        (lambda run: newer(run / "results.json"), "has format 2"),
        (lambda run: write_json(run / "evaluation.json", {"format_version": 2}), "has format 2"),
        (lambda run: write_json(run / "evaluation.json", {"format_version": 1}), "holds no error on unseen"),
    ],
)
def test_a_run_that_cannot_be_a_point_is_named(tmp_path, capsys, spoil, message):
    make_run(tmp_path / "a")
    spoil(make_run(tmp_path / "b", sizes=SMALL | {"width": 4}))
    assert status("analyze", tmp_path) == 2
    told = capsys.readouterr().err
    assert message in told and str(tmp_path / "b") in told


def test_too_few_points_are_no_law(tmp_path, shallow, capsys):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", sizes=SMALL | {"width": 4})
    assert status("analyze", tmp_path, "--out", tmp_path / "x.json") == 2
    assert "it needs 3 runs of one network, at two sizes or more" in capsys.readouterr().err
    assert status("analyze", tmp_path) == 0
    assert "no scaling law: it needs 3 runs" in capsys.readouterr().out
