"""`sino evaluate`: what it writes and prints, at home and elsewhere, and one sentence for every mistake."""

import json
import shutil
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from commands import status
from sino import load_closure
from sino.benchmarks import benchmark
from sino.cli import evaluation
from sino.cli.evaluation_plan import find_runs
from sino.cli.training_plan import make_training_plan
from sino.cli.verbs import Train
from sino.coupling.classical import build_classical
from sino.coupling.closure import Closure, Statistics
from sino.coupling.hybrid import rollout
from sino.data.store import open_dataset
from sino.evaluate.score import free_run, window_error
from sino.metrics.velocity import vorticity
from sino.train.run import Run
from tiny_training import everything_under, lasting


def read(run, name="evaluation"):
    return json.loads((run / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def evaluated(trained, tmp_path_factory):
    """The two seeds of a tiny training, evaluated once; and what was printed. Copy it before you change it."""
    runs = tmp_path_factory.mktemp("evaluated") / "sino"
    shutil.copytree(trained.out, runs)
    assert status("evaluate", runs, "--data", trained.data) == 0
    return runs


@pytest.fixture
def runs(trained, tmp_path):
    """A copy of the two seeds, not evaluated."""
    return shutil.copytree(trained.out, tmp_path / "sino")


def write_run(run, model, data, name, closure=None, **options):
    """A run whose weights nobody trained: quick to make, and as good as any to be measured."""
    plan = make_training_plan(Train(name, model=model, preset="tiny", data=data, **options))
    if closure is None:
        random, shapes = np.random.default_rng(0), eqx.filter_eval_shape(plan.build, 1)
        network = jax.tree.map(lambda leaf: jnp.asarray(random.normal(0, 0.1, leaf.shape), leaf.dtype), shapes)
        one = jnp.float32(1.0)
        closure = Closure(network, Statistics(jnp.zeros(plan.benchmark.dim, jnp.float32), one, one))
    Run(run).start(plan.configuration(1))
    Run(run).save_closure("final", closure, {"update": 0})


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    """Two-dimensional data, and runs of a network and of a classical closure on it."""
    root = tmp_path_factory.mktemp("flow")
    data = root / "data"
    assert status("generate", "ns-decaying", "--preset", "tiny", "--out", data) == 0
    sizes = {"width": "4", "depth": "1", "frequency_hidden": "4", "spatial_hidden": "4"}
    write_run(root / "sino" / "seed-1", "sino", data, "ns-decaying", sizes=sizes)
    closure = build_classical("smagorinsky", jnp.float32(0.2), 2, 2 * np.pi)
    write_run(root / "smagorinsky" / "seed-1", "smagorinsky", data, "ns-decaying", closure)
    return root


def test_the_file_says_what_was_evaluated_on_what(trained, evaluated):
    run = evaluated / "seed-2"
    found, config = read(run), json.loads((run / "config.json").read_text())
    assert (found["format_version"], found["kind"]) == (1, "evaluation")
    assert found["configuration"] == config["configuration"]
    facts = ("benchmark", "preset", "coarse", "scheme", "model", "seed", "first", "last")
    assert [found[key] for key in facts] == ["ks", "tiny", 32, "paper", "sino", 2, 11, 20]
    assert found["trained_on"] == {"benchmark": "ks", "coarse": 32}
    assert found["parameters"] == sum(leaf.size for leaf in jax.tree.leaves(load_closure(run).model))
    assert found["train_seconds"] == read(run, "results")["train_seconds"]
    assert found["times"] == pytest.approx((0.5 + 0.01 * np.arange(21)).tolist())
    assert set(found["scores"]) == {"none", "final", "best", "selected"}
    assert all(set(sets) == {"paper", "test"} for sets in found["scores"].values())
    assert found["scores"]["none"]["paper"]["seeds"] == [0, 1, 2, 3]
    assert found["scores"]["none"]["test"]["seeds"] == [6, 7]
    assert {"jax", "device", "commit"} <= set(found["provenance"])
    hashes = {s["file"]: s["sha256"] for s in json.loads((trained.data / "manifest.json").read_text())["shards"]}
    assert found["data"] and set(found["data"].items()) < set(hashes.items()), "validation shards play no part"


def test_the_scores_are_those_of_the_training_and_of_the_solver_alone(trained, evaluated):
    for seed in (1, 2):
        run = evaluated / f"seed-{seed}"
        results, scores = read(run, "results")["errors"], read(run)["scores"]
        for weights in ("final", "best", "selected"):
            for judge in ("paper", "test"):
                expected, found = results[weights][judge], scores[weights][judge]
                assert found["mse"]["mean"] == pytest.approx(expected["mean"], rel=1e-4)
                assert found["mse"]["median"] == pytest.approx(expected["median"], rel=1e-4)
                assert found["mse_all_frames"]["mean"] == pytest.approx(expected["mean_all_frames"], rel=1e-4)
        b, data = benchmark("ks", "tiny"), open_dataset(trained.data).load(32, [6, 7])
        alone = free_run(b.solver(32), data.frames[:, 0], None, 20, t0=b.start)
        error = window_error(alone, data.frames, 11)
        assert scores["none"]["test"]["mse"]["per_trajectory"] == pytest.approx(error.tolist(), rel=1e-4)


def test_the_sample_is_the_first_unseen_trajectory(trained, evaluated):
    run = evaluated / "seed-1"
    sample, about = load_file(run / "samples.safetensors"), read(run)["samples"]
    assert about == {"seed": 6, "frames": list(range(21))}
    assert set(sample) == {"reference", "none", "best"}
    assert all(array.shape == (21, 1, 32) and array.dtype == np.float32 for array in sample.values())
    truth = open_dataset(trained.data).load(32, [6]).frames[0]
    np.testing.assert_array_equal(sample["reference"], truth)
    b = benchmark("ks", "tiny")
    for name, closure in {"none": None, "best": load_closure(run, "best")}.items():
        expected = jax.jit(lambda u, c=closure: rollout(b.solver(32), c, u, 20, t0=b.start))(jnp.asarray(truth[0]))
        np.testing.assert_allclose(sample[name][1:], expected, atol=1e-4)
        np.testing.assert_array_equal(sample[name][0], truth[0])


def test_a_long_sample_keeps_evenly_spaced_frames_and_both_ends():
    b = benchmark("ks", "paper")
    ground = evaluation.Ground(b, lambda *_: np.zeros(0), {}, {})
    assert len(ground.pictured) == 400 and ground.pictured[0] == 0 and ground.pictured[-1] == 1000
    flat = replace(ground, benchmark=benchmark("ns-decaying"))
    assert len(flat.pictured) == 60 and np.ptp(np.diff(flat.pictured)) <= 1


def test_the_table_shows_every_weight_and_over_seeds_mean_best_and_spread(trained, evaluated, tmp_path, capsys):
    runs = shutil.copytree(evaluated, tmp_path / "sino")
    assert status("evaluate", runs, "--data", trained.data) == 0
    lines = capsys.readouterr().out.splitlines()
    for seed in ("seed-1", "seed-2"):  # the same command gives the same numbers
        assert lasting(read(runs / seed)) == lasting(read(evaluated / seed))
        samples = [(folder / seed / "samples.safetensors").read_bytes() for folder in (runs, evaluated)]
        assert samples[0] == samples[1]
    assert lines[0] == f"reading {trained.data}"
    assert any(line.startswith("ks, 32 cells: 42/42 trajectories") for line in lines), "none and 3 of each seed, 6 each"
    at = lines.index("sino: sino on ks, 32 cells")
    assert lines[at + 1] == "mean squared error over frames 11..20 (factor won over the coarse grid)"
    scores = [read(runs / f"seed-{seed}")["scores"] for seed in (1, 2)]
    coarse = scores[0]["none"]["test"]["mse"]["mean"]
    assert lines[at + 3].startswith("coarse grid alone ") and f"{coarse:.3e}" in lines[at + 3]
    rows = [f"seed-{seed} {weights}" for seed in (1, 2) for weights in ("final", "best", "selected")]
    rows += [
        f"{word} of 2, {weights}" for weights in ("final", "best", "selected") for word in ("AVE", "Best", "spread")
    ]
    assert [line[:24].strip() for line in lines[at + 4 : at + 19]] == rows
    error = scores[1]["best"]["test"]["mse"]["mean"]
    assert f"{error:.3e} ({coarse / error:.3g}x)" in lines[at + 8]
    final = [score["final"]["test"]["mse"]["mean"] for score in scores]
    assert f"{sum(final) / 2:.3e} " in lines[at + 10]
    assert f"{min(final):.3e} " in lines[at + 11]
    assert lines[at + 12].endswith(f"{abs(final[0] - final[1]) / np.sqrt(2):.3e}")
    assert lines[-1] == f"wrote {runs / 'seed-1' / 'evaluation.json'}, {runs / 'seed-2' / 'evaluation.json'}"


def test_one_kind_of_weights_of_one_seed(trained, runs, capsys):
    assert status("evaluate", runs / "seed-2", "--weights", "selected", "--data", trained.data) == 0
    assert set(read(runs / "seed-2")["scores"]) == {"none", "selected"}
    assert set(load_file(runs / "seed-2" / "samples.safetensors")) == {"reference", "none", "selected"}
    assert not (runs / "seed-1" / "evaluation.json").exists()
    assert "AVE" not in capsys.readouterr().out


def test_on_another_grid_with_data_that_nobody_made_yet(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert status("evaluate", runs / "seed-1", "--coarse", 16, "--weights", "final") == 0
    printed = capsys.readouterr().out
    assert "data/ks-tiny-to-16 is not there yet: generating it" in printed
    assert "sino: sino on ks, 16 cells, trained on ks, 32 cells" in printed
    found = read(runs / "seed-1", "evaluation-on-ks-16")
    assert found["coarse"] == 16 and found["trained_on"] == {"benchmark": "ks", "coarse": 32}
    assert "samples" not in found and not (runs / "seed-1" / "samples.safetensors").exists()
    assert not (runs / "seed-1" / "evaluation.json").exists()
    b, closure = benchmark("ks", "tiny"), load_closure(runs / "seed-1", "final")
    truth = open_dataset(tmp_path / "data" / "ks-tiny-to-16").load(16, [7]).frames[0]
    rolled = jax.jit(lambda u: rollout(b.solver(16), closure, u, 20, t0=b.start))(jnp.asarray(truth[0]))
    error = np.square(rolled[10:] - truth[11:]).mean()
    assert found["scores"]["final"]["test"]["mse"]["per_trajectory"][1] == pytest.approx(error, rel=1e-3)
    assert status("evaluate", runs / "seed-1", "--coarse", 16, "--weights", "final") == 0
    assert "generating" not in capsys.readouterr().out


def test_on_another_benchmark_its_solver_and_forcing_are_used(runs, tmp_path, capsys):
    data = tmp_path / "burgers"
    assert status("generate", "burgers-forced", "--preset", "tiny", "--out", data) == 0
    assert status("evaluate", runs / "seed-1", "--on", "burgers-forced", "--weights", "best", "--data", data) == 0
    found = read(runs / "seed-1", "evaluation-on-burgers-forced-32")
    assert (found["benchmark"], found["coarse"]) == ("burgers-forced", 32)
    assert found["configuration"]["benchmark"] == found["trained_on"]["benchmark"] == "ks"
    b, stored = benchmark("burgers-forced", "tiny"), open_dataset(data).load(32, [6, 7])
    alone = free_run(b.solver(32), stored.frames[:, 0], b.forcings([6, 7]), 20, t0=b.start, substeps=b.substeps(32))
    error = window_error(alone, stored.frames, 11)
    assert found["scores"]["none"]["test"]["mse"]["per_trajectory"] == pytest.approx(error.tolist(), rel=1e-3)
    assert found["scores"]["best"]["test"]["mse"]["mean"] != found["scores"]["none"]["test"]["mse"]["mean"]


def test_two_dimensional_runs_share_the_coarse_grid_and_have_the_metrics_of_a_flow(flow, capsys):
    assert status("evaluate", flow / "sino", flow / "smagorinsky", "--data", flow / "data") == 0
    printed = capsys.readouterr().out
    assert "ns-decaying, 16 cells: 18/18 trajectories" in printed, "none once, and the weights of two runs, 6 each"
    assert "sino: sino on ns-decaying, 16 cells" in printed
    assert "smagorinsky: smagorinsky on ns-decaying, 16 cells" in printed
    network, classical = read(flow / "sino" / "seed-1"), read(flow / "smagorinsky" / "seed-1")
    assert set(classical["scores"]) == {"none", "final"} and classical["parameters"] == 1
    assert network["scores"]["none"] == classical["scores"]["none"]
    for scores in (network["scores"]["final"], classical["scores"]["final"]):
        for score in scores.values():
            assert score["divergence"] < 1e-5
            assert score["enstrophy_spectrum"]["wavenumber"] == score["spectrum"]["wavenumber"] == list(range(1, 8))
    sample = load_file(flow / "smagorinsky" / "seed-1" / "samples.safetensors")
    assert set(sample) == {"reference", "none", "final"} and sample["final"].shape == (21, 2, 16, 16)
    b, closure = benchmark("ns-decaying", "tiny"), load_closure(flow / "smagorinsky" / "seed-1")
    truth = open_dataset(flow / "data").load(16, [6, 7]).frames
    run = jax.jit(jax.vmap(lambda u: rollout(b.solver(16), closure, u, 20, t0=b.start)))
    rolled = np.asarray(run(jnp.asarray(truth[:, 0])))
    np.testing.assert_allclose(sample["final"][1:], rolled[0], atol=1e-5)
    score = classical["scores"]["final"]["test"]
    assert score["mse"]["mean"] == pytest.approx(np.square(rolled - truth[:, 1:])[:, 10:].mean(), rel=1e-4)
    turning, expected = (vorticity(field.astype(float), 2 * np.pi).reshape(40, -1) for field in (rolled, truth[:, 1:]))
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(turning, expected, strict=True)]
    expected = np.reshape(correlations, (2, 20)).mean(axis=0)
    assert score["correlation_over_time"] == pytest.approx([1.0, *expected], rel=1e-4)


def test_the_same_weights_at_another_reynolds_number(flow, tmp_path, capsys):
    data = tmp_path / "data"
    assert status("generate", "ns-forced-re4000", "--preset", "tiny", "--out", data) == 0
    run = shutil.copytree(flow / "smagorinsky" / "seed-1", tmp_path / "run")
    assert status("evaluate", run, "--on", "ns-forced-re4000", "--data", data) == 0
    found = read(run, "evaluation-on-ns-forced-re4000-16")
    stored, b = open_dataset(data).load(16, [6]), benchmark("ns-forced-re4000", "tiny")
    alone = free_run(b.solver(16), stored.frames[:, 0], b.forcings([6]), 20, t0=b.start)
    error = window_error(alone, stored.frames, 11)[0]
    assert found["scores"]["none"]["test"]["mse"]["per_trajectory"][0] == pytest.approx(error, rel=1e-3)


def test_a_run_on_the_strong_scheme_keeps_it(trained, tmp_path):
    out = tmp_path / "runs"
    closure = build_classical("hyperviscosity", jnp.float32(10.0), 1, 64.0)
    write_run(out / "seed-1", "hyperviscosity", trained.data, "ks", closure, scheme="strong")
    assert status("evaluate", out, "--data", trained.data) == 0
    found = read(out / "seed-1")
    assert found["scheme"] == "strong"
    data, errors = open_dataset(trained.data).load(32, [6, 7]), {}
    for scheme in ("strong", "paper"):
        b = benchmark("ks", "tiny").scheme_variant(scheme)
        alone = free_run(b.solver(32), data.frames[:, 0], None, 20, t0=b.start)
        errors[scheme] = window_error(alone, data.frames, 11).mean()
    assert found["scores"]["none"]["test"]["mse"]["mean"] == pytest.approx(errors["strong"], rel=1e-3)
    assert errors["strong"] != pytest.approx(errors["paper"], rel=1e-2)


def test_what_blows_up_is_in_the_file_and_in_the_table(trained, runs, capsys):
    run = Run(runs / "seed-1")
    closure = load_closure(run.path, "final")
    wild = replace(closure, stats=replace(closure.stats, scale_out=jnp.float32(1e12)))
    run.save_closure("final", wild, {"update": 40})
    assert status("evaluate", runs, "--weights", "final", "--data", trained.data) == 0
    printed = capsys.readouterr().out
    score = read(run.path)["scores"]["final"]["test"]
    assert score["mse"]["mean"] is None and score["blown_up"]["count"] == 2
    assert [one["seed"] for one in score["blown_up"]["trajectories"]] == [6, 7]
    row = next(line for line in printed.splitlines() if line.startswith("seed-1 final"))
    assert "4 of 4 blew up" in row and "2 of 2 blew up" in row
    frames = [f"seed {one['seed']} at frame {one['frame']}" for one in score["blown_up"]["trajectories"]]
    assert f"blew up: seed-1 final, unseen trajectories: {', '.join(frames)}" in printed
    average = next(line for line in printed.splitlines() if line.startswith("AVE of 2, final"))
    assert average.count("1 of 2 seeds blew up") == 2, "a mean over the seeds that survived would flatter"
    best = next(line for line in printed.splitlines() if line.startswith("Best of 2, final"))
    assert f"{read(runs / 'seed-2')['scores']['final']['test']['mse']['mean']:.3e}" in best


def test_seeds_without_weights_are_left_out_of_a_folder_and_said_so(runs, capsys):
    shutil.copytree(runs / "seed-2", runs / "seed-10")
    shutil.rmtree(runs / "seed-1" / "checkpoints")
    found = find_runs((runs, runs / "seed-2"))
    assert [run.path.name for run in found] == ["seed-2", "seed-10"]
    assert capsys.readouterr().out == f"{runs / 'seed-1'} has no weights yet and is left out\n"


def test_a_run_that_has_not_ended_is_evaluated_with_what_it_has(trained, runs):
    shutil.rmtree(runs / "seed-1" / "checkpoints" / "final")
    (runs / "seed-1" / "results.json").unlink()
    assert status("evaluate", runs / "seed-1", "--data", trained.data, "--weights", "best") == 0
    assert read(runs / "seed-1")["train_seconds"] is None


def newer(file):
    value = json.loads(file.read_text())
    file.write_text(json.dumps(value | {"format_version": 99}))


MISTAKES = {
    "no runs": ((), lambda root: None, "name at least one run"),
    "no such run": (("nowhere",), lambda root: None, "nowhere is not a run: there is no such folder"),
    "a folder without runs": (("empty",), lambda root: (root / "empty").mkdir(), "empty holds no run with weights"),
    "a run without weights": (
        ("seed-1",),
        lambda root: shutil.rmtree(root / "seed-1" / "checkpoints"),
        "seed-1 has no weights yet",
    ),
    "weights that are not there": (
        ("seed-1", "--weights", "best"),
        lambda root: shutil.rmtree(root / "seed-1" / "checkpoints" / "best"),
        "seed-1 has no 'best' weights, only final, selected",
    ),
    "another dimension": (
        ("seed-1", "--on", "ns-decaying"),
        lambda root: None,
        "seed-1 was trained in 1 dimensions, and ns-decaying has 2",
    ),
    "no such benchmark": (("seed-1", "--on", "kz"), lambda root: None, "there is no benchmark 'kz'"),
    "a grid that the data lack": (("seed-1", "--coarse", 16), lambda root: None, "holds no grid of 16, only 32"),
    "a grid of nothing": (("seed-1", "--coarse", 0), lambda root: None, "--coarse must be a number of cells, not 0"),
    "data of another flow": (
        ("seed-1", "--on", "burgers-decaying"),
        lambda root: None,
        "is another dataset: benchmark is 'ks' there and 'burgers-decaying' here",
    ),
    "results of a newer format": (
        ("seed-1",),
        lambda root: newer(root / "seed-1" / "results.json"),
        "results.json has format 99; this sino reads up to 1",
    ),
    "a run of a newer format": (
        ("seed-1",),
        lambda root: newer(root / "seed-1" / "config.json"),
        "config.json has format 99; this sino reads up to 1",
    ),
    "damaged weights": (
        ("seed-1",),
        lambda root: (root / "seed-1" / "checkpoints" / "final" / "arrays.safetensors").write_bytes(b"what?"),
        "arrays.safetensors is not a whole safetensors file",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_nothing_is_written(trained, runs, monkeypatch, capsys, name):
    given, spoil, complaint = MISTAKES[name]
    spoil(runs)
    monkeypatch.chdir(runs)
    before = everything_under(runs)
    assert status("evaluate", *given, "--data", trained.data) == 2
    told = capsys.readouterr().err
    assert told.startswith("sino: ") and told.count("\n") == 1 and complaint in told, told
    assert everything_under(runs) == before


def test_data_that_were_named_are_never_generated(runs, tmp_path, capsys):
    assert status("evaluate", runs, "--data", tmp_path / "data") == 2
    assert "is not a dataset: there is no such folder" in capsys.readouterr().err


def test_a_network_that_cannot_take_a_grid_says_so_before_any_work(trained, tmp_path, monkeypatch, capsys):
    out = tmp_path / "unet"
    write_run(out / "seed-1", "unet", trained.data, "ks")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert status("evaluate", out, "--coarse", 2) == 2
    assert "U-Net in 1D needs every axis divisible by 4, and the grid is (2,)" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_the_runs_can_stand_in_a_file(trained, runs, tmp_path):
    file = tmp_path / "evaluate.toml"
    file.write_text(f'runs = ["{runs / "seed-1"}"]\ndata = "{trained.data}"\nweights = "final"\n')
    assert status("evaluate", "--config", file) == 0
    assert set(read(runs / "seed-1")["scores"]) == {"none", "final"}
