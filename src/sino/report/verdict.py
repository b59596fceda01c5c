"""The verdict: by what factor a closure beats the coarse grid it works on, on trajectories that it has not seen."""

from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from sino.coupling.classical import CLASSICAL
from sino.report.names import number, ratio
from sino.report.runs import Collection, Group, Setting

Outcome = Literal["wins", "level", "loses", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """What a closure is worth in one setting."""

    setting: Setting
    group: Group
    outcome: Outcome
    factor: float | None
    """Coarse error over the closure's, mean over unseen trajectories and seeds."""
    interval: tuple[float, float] | None
    """95 % of bootstrap resamples of the trajectories."""
    sentence: str
    """For people."""
    remarks: tuple[str, ...] = ()
    """Who else did well, and what a closure without a network gives."""


def verdicts(runs: Collection) -> list[Verdict]:
    """One verdict per setting that has a finished run: on SINO if it was run, else on whatever was."""
    return [_verdict(runs, setting) for setting in runs.settings if any(g.finished for g in runs.of(setting))]


def _verdict(runs: Collection, setting: Setting) -> Verdict:
    group = lead(runs, setting)
    scores = group.scores("test")
    coarse = runs.coarse(setting, "test")
    who = f"{group.label} ({len(scores)} seed{'s' if len(scores) != 1 else ''})"
    if group.model in CLASSICAL:
        who = group.label
    blown, count = sum(s.blown_up for s in scores), sum(s.trajectories for s in scores)
    remarks = _remarks(runs, setting, group)
    if blown:
        text = f"{who} blew up on {blown} of {count} rollouts of unseen trajectories."
        return Verdict(setting, group, "loses", None, None, text, remarks)
    error = fmean(s.mean for s in scores if s.mean is not None) if scores else None
    if error is None or coarse is None:
        has = "" if error is None else f" has the error {number(error)} on unseen trajectories;"
        text = f"{who}{has} what the coarse grid alone gives is not known yet: run sino evaluate."
        return Verdict(setting, group, "unknown", None, None, text, remarks)
    if coarse.mean is None:
        text = (
            f"{who} stays finite, with the error {number(error)}; the coarse grid alone blows up on {coarse.blown_up}"
        )
        return Verdict(setting, group, "wins", None, None, f"{text} of {coarse.trajectories} trajectories.", remarks)
    factor = coarse.mean / error
    interval = _interval(coarse.per_trajectory, [s.per_trajectory for s in scores])
    clear = interval is None or interval[0] > 1 or interval[1] < 1
    outcome: Outcome = "level" if not clear else "wins" if factor > 1 else "loses"
    verb = {
        "wins": f"makes the error {ratio(factor)} times smaller",
        "loses": f"makes the error {ratio(1 / factor)} times larger",
        "level": f"makes no clear difference (factor {ratio(factor)})",
    }[outcome]
    within = (
        " (no interval)"
        if interval is None
        else f", 95 % interval of the factor {ratio(interval[0])} to {ratio(interval[1])}"
    )
    numbers = f"{number(error)} against {number(coarse.mean)} of the coarse grid alone"
    text = f"{who} {verb}: {numbers}, over {coarse.trajectories} unseen trajectories{within}."
    return Verdict(setting, group, outcome, factor, interval, text, remarks)


def lead(runs: Collection, setting: Setting) -> Group:
    """The group that a verdict is about. Among several it is chosen on validation, never on the test."""
    groups = [g for g in runs.of(setting) if g.finished]
    for candidates in ([g for g in groups if g.model == "sino"], [g for g in groups if g.model not in CLASSICAL]):
        if candidates:
            return min(candidates, key=_known_beforehand)
    return min(groups, key=_known_beforehand)


def _known_beforehand(group: Group) -> float:
    """The error on validation, or, where it was not kept, on the training trajectories; infinite if one blew up."""
    scores = group.scores("validation") or group.scores("paper")
    means = [float("inf") if s.mean is None else s.mean for s in scores]
    return fmean(means) if means else float("inf")


def _interval(coarse: tuple[float | None, ...], closures: list[tuple[float | None, ...]]) -> tuple[float, float] | None:
    """Percentile bootstrap of the ratio of means; coarse and closure are resampled together, by trajectory."""
    rows = [row for row in (coarse, *closures) if row and len(row) == len(coarse) and None not in row]
    if len(rows) != 1 + len(closures) or len(coarse) < 2:
        return None
    values = np.array(rows, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(coarse), (10_000, len(coarse)))
    means = values[:, picks].mean(axis=-1)
    low, high = np.quantile(means[0] / means[1:].mean(axis=0), [0.025, 0.975])
    return float(low), float(high)


def _remarks(runs: Collection, setting: Setting, group: Group) -> tuple[str, ...]:
    """The lowest error of the others, networks and classical ways apart; and runs that are not finished."""
    found = {g.label: fmean(m) for g in runs.of(setting) if g is not group and (m := _means(g)) is not None}
    classical = {g.label for g in runs.of(setting) if g.model in CLASSICAL}
    remarks = []
    for words, labels in (("Best of the other networks", found.keys() - classical), ("Without a network", classical)):
        if labels & found.keys():
            best = min(labels & found.keys(), key=lambda label: found[label])
            remarks.append(f"{words}: {best}, {number(found[best])}.")
    better = _better_scheme(runs, setting)
    if better is not None:
        remarks.append(f"A better classical scheme on the same grid, without a closure: {number(better)}.")
    unfinished = sum(not run.finished for g in runs.of(setting) for run in g.runs)
    if unfinished:
        remarks.append(f"{unfinished} run{'s have' if unfinished > 1 else ' has'} no results yet.")
    return tuple(remarks)


def _better_scheme(runs: Collection, setting: Setting) -> float | None:
    """The error of the strong scheme alone: from runs with it or, on a few trajectories, from a cost analysis."""
    if setting.scheme != "paper":
        return None
    score = runs.coarse(replace(setting, scheme="strong"), "test")
    if score is not None:
        return score.mean
    costs = [run.analysis.cost for g in runs.of(setting) for run in g.runs if run.analysis and run.analysis.cost]
    strong = [row for cost in costs for row in cost.rows if row.what.startswith(("spectral", "strong"))]
    return next((row.errors["dataset"] for row in strong if row.cells == setting.coarse), None)


def _means(group: Group) -> list[float] | None:
    """The errors of all seeds on unseen trajectories, if there are any and none blew up."""
    scores = group.scores("test")
    means = [s.mean for s in scores if s.mean is not None]
    return means if means and len(means) == len(scores) else None
