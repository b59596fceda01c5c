"""`sino evaluate`: trained closures and the coarse grid alone, measured on training and on unseen trajectories."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from sino.benchmarks import Benchmark, benchmark
from sino.cli.datasets import find_dataset, forcings_in, shard_hashes
from sino.cli.evaluation_plan import Setting, Subject, find_runs, make_subject
from sino.cli.evaluation_table import print_table
from sino.cli.progress import progress
from sino.cli.start import start_jax
from sino.cli.verbs import Evaluate
from sino.core.files import save_arrays, write_json
from sino.core.provenance import source
from sino.coupling.closure import Closure
from sino.data.well import Trajectories
from sino.evaluate.measure import short
from sino.evaluate.score import FreeRun, make_free_run, score
from sino.models import count_parameters
from sino.physics.solver import Source
from sino.train.run import FORMAT_VERSION, Run, plain

PICTURED = {1: 400, 2: 60}
"""By dimension: the most frames of the sample that is kept for pictures."""


@dataclass(frozen=True)
class Ground:
    """What a setting needs to be simulated, in memory."""

    benchmark: Benchmark
    run: FreeRun
    sets: dict[str, tuple[Trajectories, Source | None]]
    """By name: `paper`, the training trajectories to their end, and `test`, unseen ones; with their forcings."""
    hashes: dict[str, str]

    @property
    def first(self) -> int:
        """First frame after the training window."""
        return self.benchmark.sizes.train_frames + 1

    @property
    def pictured(self) -> np.ndarray:
        """The frames of the sample."""
        last, most = self.benchmark.sizes.frames, PICTURED[self.benchmark.dim]
        return np.unique(np.linspace(0, last, min(last + 1, most)).astype(int))


@dataclass(frozen=True)
class Trial:
    """How a closure, or none, did."""

    scores: dict[str, Any]
    """By set."""
    sample: np.ndarray
    """The first unseen trajectory, `(t, c, *n)`, at the pictured frames."""


def evaluate(options: Evaluate) -> None:
    """Run `sino evaluate`."""
    start_jax()
    subjects = [make_subject(run, options) for run in find_runs(options.runs)]
    results = {}
    for setting, members in groupby(sorted(subjects, key=lambda s: s.setting), key=lambda s: s.setting):
        results |= _evaluate_all(setting, list(members), options.data)
    print_table([(subject.run.path, results[subject.run.path]) for subject in subjects])
    print(f"wrote {', '.join(str(subject.file) for subject in subjects)}")


def _load(setting: Setting, data: Path | None) -> Ground:
    """Read the trajectories of a setting, or generate them."""
    own = benchmark(setting.benchmark, setting.preset)
    b, s = own.scheme_variant(setting.scheme), own.sizes
    dataset = find_dataset(own, setting.preset, setting.coarse, data)
    print(f"reading {dataset.path}")
    sets = {}
    for name, seeds in {"paper": s.train[: setting.trajectories], "test": s.test}.items():
        trajectories = dataset.load(setting.coarse, seeds)
        sets[name] = trajectories, forcings_in(b, trajectories.seeds, setting.precision)
    run = make_free_run(
        b.solver(setting.coarse),
        s.frames,
        t0=b.start,
        substeps=b.substeps(setting.coarse),
        coupling=setting.coupling,
    )
    return Ground(b, run, sets, shard_hashes(dataset, setting.coarse, {*s.train[: setting.trajectories], *s.test}))


def _evaluate_all(setting: Setting, subjects: list[Subject], data: Path | None) -> dict[Path, dict[str, Any]]:
    """Score the coarse grid alone once and all weights of all runs; write the results of each."""
    ground = _load(setting, data)
    tries = 1 + sum(len(subject.closures) for subject in subjects)
    count = sum(len(trajectories.seeds) for trajectories, _ in ground.sets.values())
    results, done = {}, 0
    with progress(f"{setting.benchmark}, {setting.coarse} cells", tries * count, "trajectories") as report:

        def tell(trajectories: int) -> None:
            nonlocal done
            done += trajectories
            report(done)

        alone = _try(ground, setting, None, tell)
        for subject in subjects:
            trials = {"none": alone}
            for name, closure in subject.closures.items():
                trials[name] = _try(ground, setting, closure, tell)
            results[subject.run.path] = _write(subject, ground, trials)
    return results


def _try(ground: Ground, setting: Setting, closure: Closure | None, tell: Callable[[int], None]) -> Trial:
    """Score a closure, or none, on every set of trajectories."""
    scores, seen = {}, {}
    for name, (trajectories, forcing) in ground.sets.items():

        def watch(prediction: np.ndarray, name: str = name) -> None:
            seen.setdefault(name, prediction[0, ground.pictured].astype(np.float32))
            tell(len(prediction))

        scores[name] = score(
            ground.run,
            closure,
            trajectories,
            forcing,
            grid=ground.benchmark.grid(setting.coarse),
            first=ground.first,
            precision=setting.precision,
            watch=watch,
        )
    return Trial(scores, seen["test"])


def _write(subject: Subject, ground: Ground, trials: dict[str, Trial]) -> dict[str, Any]:
    """Write the evaluation of a run and, if it is at home, a sample for pictures; return what was written."""
    setting, sizes = subject.setting, ground.benchmark.sizes
    result = {
        "format_version": FORMAT_VERSION,
        "kind": "evaluation",
        "configuration": subject.configuration,
        "provenance": source(),
        "benchmark": setting.benchmark,
        "preset": setting.preset,
        "coarse": setting.coarse,
        "scheme": setting.scheme,
        "model": subject.configuration["model"],
        "seed": subject.configuration["seed"],
        "trained_on": subject.trained_on,
        "data": ground.hashes,
        "parameters": count_parameters(next(iter(subject.closures.values())).model),
        "train_seconds": subject.train_seconds,
        "times": short(ground.sets["test"][0].times, digits=9),
        "first": ground.first,
        "last": sizes.frames,
        "scores": {name: trial.scores for name, trial in trials.items()},
    }
    if subject.at_home:
        result["samples"] = _save_samples(subject.run, ground, trials)
    result = plain(result)
    write_json(subject.file, result)
    return result


def _save_samples(run: Run, ground: Ground, trials: dict[str, Trial]) -> dict[str, Any]:
    """The first unseen trajectory: reference, coarse grid alone, and with the best weights that there are."""
    data, _ = ground.sets["test"]
    weights = next(name for name in ("best", "final", "selected") if name in trials)
    sample = {name: trials[name].sample for name in ("none", weights)}
    save_arrays(run.path / "samples.safetensors", sample | {"reference": data.frames[0, ground.pictured]})
    return {"seed": data.seeds[0], "frames": ground.pictured.tolist()}
