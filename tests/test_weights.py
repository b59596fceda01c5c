"""Weights that come with the package: those that are there do what their card says, and how they are made."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import sino
from commands import status
from sino.benchmarks import BENCHMARKS, benchmark
from sino.cli.generation import observer
from sino.core.errors import UserError
from sino.data.generate import simulator
from sino.evaluate.spot import load_spot, spot_errors
from sino.train import run as runs
from sino.train.run import Run, load_closure

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the package `scripts`, which is not installed

from scripts.weights import LARGEST, best_runs, describe, export

SHIPPED = sorted(path.name for path in runs.WEIGHTS.iterdir()) if runs.WEIGHTS.is_dir() else []


def facts(folder: Path) -> tuple[dict, dict]:
    return json.loads((folder / "card.json").read_text()), Run(folder).configuration()


def errors_again(folder: Path, closure) -> dict[str, float]:
    card, configuration = facts(folder)
    b = benchmark(configuration["benchmark"], configuration["preset"])
    how = {"scheme": configuration["scheme"], "coupling": configuration["recipe"]["coupling"]}
    return spot_errors(b, closure, load_spot(folder / "spot.safetensors"), precision=configuration["precision"], **how)


def reference_again(folder: Path) -> np.ndarray:
    """The frames of the spot check, simulated on the fine grid."""
    _, configuration = facts(folder)
    spot, b = load_spot(folder / "spot.safetensors"), benchmark(configuration["benchmark"], configuration["preset"])
    last, coarse, seeds = spot.frames[-1], configuration["coarse"], list(spot.seeds)
    b = replace(b, sizes=replace(b.sizes, frames=last))
    run = simulator(
        b.solver(b.sizes.fine),
        warmup_steps=b.warmup_steps,
        frames=last,
        substeps=b.substeps(b.sizes.fine),
        observe=observer(b, (coarse,)),
    )
    blocks = run(b.initial_states(seeds), b.forcings(seeds))  # those of the warm-up hold no frames
    return np.concatenate([block.observed[str(coarse)] for block in blocks if block.observed], axis=1)[
        :, list(spot.frames)
    ]


def test_what_is_listed_is_what_is_there():
    """Also when nothing is."""
    assert set(SHIPPED) <= BENCHMARKS.keys()
    assert sorted(runs.shipped()) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_do_what_their_card_says(name):
    folder = runs.WEIGHTS / name
    card, configuration = facts(folder)
    assert configuration["benchmark"] == name and card["preset"] == "paper" and card["licence"] == "Apache-2.0"
    assert (folder / "arrays.safetensors").stat().st_size <= LARGEST
    assert (folder / "card.md").read_text() == describe(card)
    found = errors_again(folder, load_closure(name))
    for key, value in card["spot"]["errors"].items():
        assert found[key] == pytest.approx(value, rel=0.05), key


@pytest.mark.parametrize("name", [name for name in SHIPPED if BENCHMARKS[name].dim == 1])
def test_the_frames_beside_shipped_weights_are_the_fine_solution(name):
    spot = load_spot(runs.WEIGHTS / name / "spot.safetensors")
    again = reference_again(runs.WEIGHTS / name)
    assert np.allclose(again[:, 0], spot.start, atol=1e-4) and np.allclose(again[:, 1:], spot.truth, atol=1e-4)


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The tiny training, as a part of the package."""
    weights = tmp_path_factory.mktemp("weights")
    run, candidates = best_runs((trained.out,))["ks"]
    assert export(run, candidates, trained.data, weights) == weights / "ks"
    return weights


def test_validation_alone_chooses(trained, tmp_path):
    """Change the errors on unseen trajectories as you like; the errors on validation trajectories decide."""
    for seed in (1, 2):
        shutil.copytree(trained.run(seed), tmp_path / f"seed-{seed}")

    def set_errors(seed: int, judge: str, mean: float | None) -> None:
        file = tmp_path / f"seed-{seed}" / "results.json"
        results = json.loads(file.read_text())
        results["errors"]["best"][judge]["mean"] = mean
        file.write_text(json.dumps(results))

    for worse, better in ((1, 2), (2, 1)):
        set_errors(worse, "validation", 2.0)
        set_errors(better, "validation", 1.0)
        set_errors(worse, "test", 1e-9)
        set_errors(worse, "paper", 1e-9)
        assert best_runs((tmp_path,))["ks"] == (Run(tmp_path / f"seed-{better}"), 2)
    set_errors(1, "validation", None)
    assert best_runs((tmp_path,))["ks"] == (Run(tmp_path / "seed-2"), 1)
    set_errors(2, "validation", None)
    with pytest.raises(UserError, match="none of the runs"):
        best_runs((tmp_path,))


def test_a_closure_loads_by_the_name_of_its_benchmark(exported, trained, monkeypatch):
    monkeypatch.setattr(runs, "WEIGHTS", exported)
    run, _ = best_runs((trained.out,))["ks"]
    u = jnp.sin(jnp.arange(32, dtype=jnp.float32))[None]
    assert np.array_equal(sino.load_closure("ks")(u), load_closure(run.path, "best")(u))


def test_an_exported_folder_does_what_its_card_says(exported):
    card, configuration = facts(exported / "ks")
    assert set(path.name for path in (exported / "ks").iterdir()) == {
        "config.json",
        "arrays.safetensors",
        "manifest.json",
        "spot.safetensors",
        "card.json",
        "card.md",
    }
    assert card["chosen"] == {"by": "validation", "from": 2, "seed": configuration["seed"]}
    assert "data" not in configuration and card["training"]["data"]
    closure = runs._finite(exported, runs.checkpoint.load(exported / "ks", runs.closure_skeleton(configuration)))
    assert errors_again(exported / "ks", closure) == pytest.approx(card["spot"]["errors"])
    worse = replace_scale(closure, 1e4)
    assert errors_again(exported / "ks", worse)["closure"] > 2 * card["spot"]["errors"]["closure"]


def replace_scale(closure, factor: float):
    import equinox as eqx

    return eqx.tree_at(lambda c: c.stats.scale_out, closure, closure.stats.scale_out * np.float32(factor))


def test_the_frames_of_an_export_are_the_fine_solution(exported):
    spot = load_spot(exported / "ks" / "spot.safetensors")
    again = reference_again(exported / "ks")
    assert spot.seeds == (6, 7) and spot.frames[-1] == 20
    assert np.allclose(again[:, 0], spot.start, atol=1e-6) and np.allclose(again[:, 1:], spot.truth, atol=1e-6)


def test_the_card_is_shown(exported, monkeypatch, capsys):
    monkeypatch.setattr(runs, "WEIGHTS", exported)
    assert status("list", "--weights") == 0
    text = capsys.readouterr().out
    assert "# SINO for ks" in text and "unseen trajectories of seeds 6-7" in text and "Apache-2.0" in text


@pytest.mark.parametrize("there", [True, False])
def test_a_benchmark_without_weights_is_named(there, exported, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "WEIGHTS", exported if there else tmp_path)
    with pytest.raises(UserError, match="there are some for ks;" if there else "there are none yet;"):
        load_closure("ks-32")
    with pytest.raises(UserError, match="moon is not a run: there is no such folder"):
        load_closure("moon")
    if there:
        with pytest.raises(UserError, match="are the only ones, not 'final'"):
            load_closure("ks", "final")
    else:
        assert status("list", "--weights") == 0 and "no trained closures" in capsys.readouterr().out


def test_damage_is_noticed(exported, tmp_path, monkeypatch):
    shutil.copytree(exported / "ks", tmp_path / "ks")
    monkeypatch.setattr(runs, "WEIGHTS", tmp_path)
    file = tmp_path / "ks" / "arrays.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        load_closure("ks")


def test_an_export_that_is_too_large_is_refused(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.weights.LARGEST", 100)
    run, candidates = best_runs((trained.out,))["ks"]
    with pytest.raises(UserError, match="too large to be part of the package"):
        export(run, candidates, trained.data, tmp_path)
    assert list(tmp_path.iterdir()) == []
