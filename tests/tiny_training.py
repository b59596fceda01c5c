"""A training that takes seconds, for the tests of `sino train` and of what it leaves behind."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from safetensors.numpy import load_file

from sino.cli import main, training

EPOCHS = 40
NETWORK = ("--sizes", "width", "4", "depth", "1", "frequency_hidden", "4", "spatial_hidden", "4")
ONCE = ("ks", "--preset", "tiny", "--passes", "1", "--evaluate-every", "1", "--learning-rate", "0.01", *NETWORK)
OPTIONS = (*ONCE, "--stages", "5", str(EPOCHS))
"""One update per epoch, an evaluation after each, and a checkpoint every ten."""
TIMES = {"seconds", "train_seconds", "evaluate_seconds", "provenance"}
"""What may differ between two runs of the same command."""


@dataclass(frozen=True)
class Finished:
    """A finished training of seeds 1 and 2."""

    data: Path
    out: Path

    def run(self, seed: int = 1) -> Path:
        return self.out / f"seed-{seed}"


def keep_every_program() -> None:
    """Keep all compiled programs, small ones too: for this process, and for those that it starts."""
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "sino" / "jax"
    for name, value in {"min_compile_time_secs": 0, "min_entry_size_bytes": -1}.items():
        jax.config.update(f"jax_persistent_cache_{name}", value)
        os.environ[f"JAX_PERSISTENT_CACHE_{name.upper()}"] = str(value)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    compilation_cache.reset_cache()


def arguments(data: Path, out: Path, *more: object, seeds: tuple[int, ...] = (1, 2)) -> list[str]:
    given = ("train", *OPTIONS, "--seeds", *seeds, "--data", data, "--out", out, *more)
    return [str(argument) for argument in given]


def make_finished(root: Path) -> Finished:
    keep_every_program()
    # Tests that compile without optimising leave programs in memory that round otherwise than those of a new process.
    jax.clear_caches()
    made = Finished(root / "data", root / "runs")
    assert main(["generate", "ks", "--preset", "tiny", "--out", str(made.data)]) == 0
    assert main(arguments(made.data, made.out)) == 0
    return made


def start_process(data: Path, out: Path, *more: object, seeds: tuple[int, ...] = (1, 2)) -> subprocess.Popen:
    command = [sys.executable, "-m", "sino", *arguments(data, out, *more, seeds=seeds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def arrays(run: Path, checkpoint: str) -> dict[str, np.ndarray]:
    return load_file(run / "checkpoints" / checkpoint / "arrays.safetensors")


def lasting(value: object) -> object:
    """A JSON value without the times, and without hashes of what they are part of."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in TIMES and "sha256" not in key}
    return [lasting(item) for item in value] if isinstance(value, list) else value


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_same_weights(run: Path, reference: Path, names: tuple[str, ...] = ("final", "best", "selected", "last")):
    for name in names:
        found, expected = arrays(run, name), arrays(reference, name)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert (found[key].dtype, found[key].shape) == (value.dtype, value.shape)
            assert found[key].tobytes() == value.tobytes(), f"{name}: {key}"


def assert_same_run(run: Path, reference: Path) -> None:
    """Bit for bit the same, apart from how long it took."""
    assert_same_weights(run, reference)
    for file in ("config.json", "results.json"):
        assert lasting(json.loads((run / file).read_text())) == lasting(json.loads((reference / file).read_text()))
    for name in ("final", "best", "selected", "last"):
        manifests = [json.loads((r / "checkpoints" / name / "manifest.json").read_text()) for r in (run, reference)]
        assert lasting(manifests[0]) == lasting(manifests[1])
    assert lasting(lines(run)) == lasting(lines(reference))


def everything_under(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


_REMEMBERED: dict = {}


def remember_programs(monkeypatch) -> None:
    """Let `sino train` take the data and the compiled programs of an earlier, equal call in this process."""
    load, prepare, evaluate = training.load_problem, training._prepare, training.make_evaluate

    def remembered(key, make):
        if key not in _REMEMBERED:
            _REMEMBERED[key] = make()
        return _REMEMBERED[key]

    def load_problem(plan):
        files = tuple(sorted(plan.configuration(0)["data"].items()))
        key = ("data", files, plan.coarse, plan.trajectories, plan.scheme, plan.precision, plan.recipe.out_scale)
        return remembered(key, lambda: load(plan))

    def _prepare(plan, problem, models, *, whole=True):
        key = ("update", id(problem), plan.recipe, plan.model, tuple(plan.sizes.items()), len(models), whole)
        return remembered(key, lambda: prepare(plan, problem, models, whole=whole))

    def make_evaluate(solver, stats, recipe, together):
        key = ("evaluate", id(solver), id(stats), recipe.zero_mean, recipe.coupling, together)
        return remembered(key, lambda: (evaluate(solver, stats, recipe, together), solver, stats))[0]

    monkeypatch.setattr(training, "load_problem", load_problem)
    monkeypatch.setattr(training, "_prepare", _prepare)
    monkeypatch.setattr(training, "make_evaluate", make_evaluate)
