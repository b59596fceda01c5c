"""Which runs make a scaling law: one benchmark, several sizes of a network."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sino.core.errors import UserError
from sino.evaluate.scaling import fit_power_law
from sino.models import count_parameters
from sino.train import checkpoint
from sino.train.run import FORMAT_VERSION, Run, closure_skeleton

WEIGHTS = ("best", "final")
"""Whose error counts: those that validation chose or, without any, the last ones. Never those chosen on the test."""


class Point(NamedTuple):
    """One run: what was spent, and the error on unseen trajectories (None if any blew up)."""

    parameters: int
    seconds: float
    error: float | None


@dataclass(frozen=True)
class ScalingPlan:
    """Runs of one benchmark, by network and schedule."""

    benchmark: str
    points: dict[tuple[str, str], list[Point]]
    out: Path


def plan_scaling(runs: list[tuple[Run, dict[str, Any]]], out: Path | None) -> ScalingPlan | None:
    """The points of all networks with at least two sizes and three errors; None if there are none.

    With `out` a law was asked for: what stands in its way is then an error. Without, it is said in a line.
    """
    sizes: dict[tuple[str, str], dict[Path, int]] = {}
    for run, configuration in runs:
        count = count_parameters(closure_skeleton(configuration).model)
        sizes.setdefault((configuration["model"], configuration["schedule"]), {})[run.path] = count
    several = {key: paths for key, paths in sizes.items() if len(set(paths.values())) > 1}
    flows = {tuple(configuration[key] for key in SAME): configuration["benchmark"] for _, configuration in runs}
    if not several:
        return _refuse(out, "it needs runs of one network at two sizes or more") if out else None
    if len(flows) > 1:
        differing = " and ".join(sorted(" ".join(map(str, flow)) for flow in flows))
        return _refuse(out, f"it needs runs of one benchmark at one size, and these are {differing}")
    points = {key: [_point(Run(path), count) for path, count in paths.items()] for key, paths in several.items()}
    enough = {key: found for key, found in points.items() if _is_enough(_sound(found), "parameters")}
    if not enough:
        return _refuse(out, f"it needs {LEAST} runs of one network, at two sizes or more, that did not blow up")
    beside = Path(os.path.commonpath([run.path.resolve().parent for run, _ in runs])) / "scaling.json"
    return ScalingPlan(next(iter(flows.values())), enough, out or beside)


def _sound(points: list[Point]) -> list[Point]:
    return [point for point in points if point.error is not None]


def _is_enough(points: list[Point], against: str) -> bool:
    return len(points) >= LEAST and len({getattr(point, against) for point in points}) > 1


def _refuse(out: Path | None, reason: str) -> None:
    if out:
        raise UserError(f"there is no scaling law for {out}: {reason}")
    print(f"no scaling law: {reason}")


LEAST = 3
"""Points of a power law, at least."""
SAME = ("benchmark", "preset", "coarse", "scheme")
"""What runs must have in common."""


def fit_scaling(plan: ScalingPlan) -> list[dict[str, Any]]:
    """A power law of error against parameters, and one against seconds of training, for each network.

    Seeds that trained together have the wall clock of the whole training. Runs that blew up have no error and are
    left out, which is recorded.
    """
    fits = []
    for (model, schedule), points in plan.points.items():
        sound = _sound(points)
        for against in ("parameters", "seconds"):
            if not _is_enough(sound, against):
                continue
            x = np.array([getattr(point, against) for point in sound], float)
            error = np.array([point.error for point in sound], float)
            law = fit_power_law(x, error)
            fit = {"model": model, "schedule": schedule, "against": against, "left_out": len(points) - len(sound)}
            fit |= {"points": np.stack([x, error], axis=1).tolist(), "exponent": law.exponent}
            fits.append(fit | {"interval": list(law.interval), "prefactor": law.prefactor})
    return fits


def _point(run: Run, parameters: int) -> Point:
    """Size, time and error of a run: from `evaluation.json` if it was evaluated, else from `results.json`."""
    if not run.finished:
        raise UserError(f"{run.path} has no results.json: the run has not ended, so it has no point in a scaling law")
    results = run.results()
    file = run.path / "evaluation.json"
    try:
        if file.is_file():
            scores = checkpoint.read_json(file, FORMAT_VERSION)["scores"]
            error = scores[_chosen(scores)]["test"]["mse"]["mean"]
        else:
            file, scores = run.results_file, results["errors"]
            error = scores[_chosen(scores)]["test"]["mean"]
        return Point(parameters, float(results["train_seconds"]), None if error is None else float(error))
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise UserError(f"{file} holds no error on unseen trajectories, or no time of training") from error


def _chosen(scores: dict[str, Any]) -> str:
    return next(name for name in WEIGHTS if name in scores)
