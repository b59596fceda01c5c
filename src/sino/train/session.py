"""A training that survives: several runs side by side, checkpoints, evaluations, metrics, and a way back."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import jax
import numpy as np

from sino.coupling.closure import Closure, Statistics
from sino.models.model import AbstractModel
from sino.physics.solver import AbstractSolver
from sino.train.curriculum import Recipe
from sino.train.loop import Evaluate, Step, live_units, updates
from sino.train.loss import Reference
from sino.train.run import Run, plain
from sino.train.update import RETRIES, Update, initial_state, one_seed, stack_seeds


@dataclass(frozen=True)
class Problem:
    """What is learnt, and on what it is judged."""

    solver: AbstractSolver
    stats: Statistics
    train: Reference
    """The training window."""
    judges: dict[str, Reference]
    """`validation` chooses the `best` weights; `paper`, the training trajectories to their end, the `selected` ones."""
    test: Reference | None
    """Unseen trajectories, touched once, at the end."""
    seeds: tuple[int, ...]
    """Seeds of the training trajectories, to name the one that fails."""
    first: int
    """First frame after the training window: errors are reported from there on."""

    @property
    def references(self) -> dict[str, Reference]:
        """All that results are reported on: the judges and, if there is one, the test."""
        return self.judges | ({"test": self.test} if self.test is not None else {})

    @property
    def together(self) -> int:
        """Trajectories of the longest of these: batches of that size are evaluated."""
        return max(map(len, self.references.values()))


CHOICES = {"validation": "best", "paper": "selected"}
"""Which judge chooses which weights."""


@dataclass(frozen=True)
class Cadence:
    """How often."""

    evaluate_epochs: int = 10
    checkpoint_epochs: int = 10
    checkpoint_seconds: float = 60.0


@dataclass
class Tally:
    """What a run knows besides its weights. Saved with every checkpoint."""

    update: int = 0
    train_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By judge: the lowest error so far, and its update."""
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """What a watcher sees after every update."""

    step: Step
    losses: np.ndarray
    norms: np.ndarray
    live: list[tuple[int, int]]
    """Live bottleneck units and all of them, per run; empty for networks without hypernetworks."""
    lines: list[dict[str, Any]]
    """New evaluations and events, each with the position of its `run`."""
    frames_left: int
    """Frames of rollouts until the end."""


def groups(runs: list[Run]) -> list[tuple[list[Run], int]]:
    """Runs that can go on together, and the update from which: the latest that all of them have saved.

    A kill between two saves leaves runs one checkpoint apart, and the previous one is kept: they go on together, from
    the beginning if it was the first one. Runs that have got further apart, as when a seed is added later, go on one by
    one.
    """
    saved = [{0} | set(run.saved_updates()) for run in runs]
    common = max(set.intersection(*saved))
    if common > 0 or max(map(len, saved)) <= 2:
        return [(runs, common)]
    return [([run], max(points)) for run, points in zip(runs, saved, strict=True)]


def train_together(
    problem: Problem,
    runs: list[Run],
    models: list[AbstractModel],
    recipe: Recipe,
    update: Update,
    evaluate: Evaluate,
    *,
    start: int = 0,
    cadence: Cadence,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], object] = lambda progress: None,
) -> bool:
    """Train the models, one per run, from a saved update to the end. False if `stop` asked to end before: the state
    is saved then, and the same call goes on from there."""
    state = initial_state(models, recipe)
    tallies = [Tally() for _ in runs]
    if start:
        restored = [run.load(run.saved_updates()[start], one_seed(state, i)) for i, run in enumerate(runs)]
        state = stack_seeds([part for part, _ in restored])
        tallies = [Tally(**facts["tally"]) for _, facts in restored]
    for run in runs:
        run.cut_metrics(start or -1)  # the evaluation before the first update is made again
    live = live_units(state.now.model)
    if start == 0:
        _evaluate(problem, evaluate, state.now.average, runs, tallies, 0, recipe)
    saved = clock = time.monotonic()
    for step in updates(update, problem.train, recipe, state, start):
        state = step.state
        report = jax.tree.map(np.asarray, step.report)
        now = time.monotonic()
        lines = []
        if step.ends_epoch:
            live = live_units(state.now.model)
        for i, (run, tally) in enumerate(zip(runs, tallies, strict=True)):
            tally.update = step.update
            tally.train_seconds += now - clock
            line = {"kind": "update", "update": step.update, "epoch": step.epoch, "frames": step.frames}
            line |= {"rate": step.rate, "loss": report.loss[i], "gradient_norm": report.gradient_norm[i]}
            if step.ends_epoch and live:
                line["live_units"] = live[i][0]
            fresh = [line | {"seconds": round(tally.train_seconds, 3)}]
            if not report.finite[i] and state.failures[i] <= RETRIES + 1 and not _stopped(tally):
                event = _event(problem, step, report, i, int(state.failures[i]), float(state.scale[i]))
                tally.events.append(event)
                fresh.append(event)
                lines.append(event | {"run": i})
            run.append_metrics(fresh)
        clock = now
        last = step.update == step.total
        if step.ends_epoch and ((step.epoch + 1) % cadence.evaluate_epochs == 0 or last):
            lines += _evaluate(problem, evaluate, state.now.average, runs, tallies, step.update, recipe)
            clock = time.monotonic()
        watch(Progress(step, report.loss, report.gradient_norm, live, lines, _frames_left(recipe, step)))
        stopping = stop() and not last
        due = step.ends_epoch and (step.epoch + 1) % cadence.checkpoint_epochs == 0
        if due or last or stopping or time.monotonic() - saved > cadence.checkpoint_seconds:
            for i, (run, tally) in enumerate(zip(runs, tallies, strict=True)):
                run.save(one_seed(state, i), {"update": step.update, "tally": plain(vars(tally))})
            saved = clock = time.monotonic()
        if stopping:
            return False
    _finish(problem, evaluate, state.now.average, runs, tallies, recipe)
    return True


def _frames_left(recipe: Recipe, step: Step) -> int:
    per_epoch = step.total // recipe.epochs
    ends = accumulate(stage.epochs for stage in recipe.stages)
    whole = sum(
        k * min(epochs, max(0, end - step.epoch - 1)) for (k, epochs), end in zip(recipe.stages, ends, strict=True)
    )
    return per_epoch * whole + ((step.epoch + 1) * per_epoch - step.update) * step.frames


def _stopped(tally: Tally) -> bool:
    return any(event["event"] == "stopped" for event in tally.events)


def _event(problem: Problem, step: Step, report, i: int, failures: int, scale: float) -> dict[str, Any]:
    """What happened to a seed whose loss or gradient was not finite."""
    return {
        "kind": "event",
        "event": "stopped" if failures > RETRIES else "went back",
        "update": step.update,
        "epoch": step.epoch,
        "frames": step.frames,
        "trajectory": problem.seeds[int(report.row[i])],
        "frame": int(report.frame[i]),
        "failures": failures,
        "rate_factor": scale,
    }


def _evaluate(
    problem: Problem, evaluate: Evaluate, models, runs, tallies: list[Tally], update: int, recipe: Recipe
) -> list:
    """Roll out on every judge's trajectories; keep the weights that are the best so far."""
    started = time.monotonic()
    lines: list[dict[str, Any]] = [{"kind": "evaluation", "update": update} for _ in runs]
    for judge, reference in problem.judges.items():
        for i, errors in enumerate(evaluate(models, reference)):
            score = summary(errors, problem.first)
            lines[i][judge] = score
            best = tallies[i].chosen.get(judge)
            value = np.inf if score["mean"] is None else score["mean"]
            if update and value < (np.inf if best is None else best["mean"]):
                tallies[i].chosen[judge] = {"mean": value, "update": update}
                facts = {"update": update, "judge": judge, "score": plain(score)}
                runs[i].save_closure(CHOICES[judge], closure_of(problem, recipe, models, i), facts)
    seconds = time.monotonic() - started
    for i, (run, tally) in enumerate(zip(runs, tallies, strict=True)):
        tally.evaluate_seconds += seconds
        run.append_metrics([lines[i] | {"seconds": round(seconds, 3)}])
        lines[i]["run"] = i
    return lines


def closure_of(problem: Problem, recipe: Recipe, models: AbstractModel, i: int) -> Closure:
    """The closure of one of several stacked models."""
    return Closure(one_seed(models, i), problem.stats, recipe.zero_mean)


def summary(errors: np.ndarray, first: int) -> dict[str, Any]:
    """Errors `(trajectory, frame)` in a few numbers: over the frames from `first` on, and over all.

    A trajectory that went non-finite is counted, and makes the mean None: it is never left out.
    """
    late, whole = errors[:, first:].mean(axis=1), errors[:, 1:].mean(axis=1)
    blown = int((~np.isfinite(whole)).sum())
    return {
        "mean": None if blown else float(late.mean()),
        "median": float(np.median(np.where(np.isfinite(late), late, np.inf))),
        "mean_all_frames": None if blown else float(whole.mean()),
        "blown_up": blown,
        "trajectories": len(errors),
    }


def _finish(problem: Problem, evaluate: Evaluate, models, runs, tallies: list[Tally], recipe: Recipe) -> None:
    """Save the final weights, judge final and chosen ones on unseen trajectories, and write the results."""
    final = [closure_of(problem, recipe, models, i) for i in range(len(runs))]
    closures: list[dict[str, Closure]] = [{"final": closure} for closure in final]
    for run, tally, own in zip(runs, tallies, closures, strict=True):
        if _stopped(tally):
            continue
        run.save_closure("final", own["final"], {"update": tally.update})
        own |= {name: run.load_closure(name, own["final"]) for judge, name in CHOICES.items() if judge in tally.chosen}
    scores: list[dict[str, Any]] = [{name: {} for name in own} for own in closures]
    for name in ("final", *CHOICES.values()):  # all runs at once, as during the training: nothing is compiled anew
        stacked = stack_seeds([own.get(name, own["final"]).model for own in closures])
        for judge, reference in problem.references.items():
            for own, errors in zip(scores, evaluate(stacked, reference), strict=True):
                if name in own:
                    own[name][judge] = summary(errors, problem.first)
    for run, tally, own in zip(runs, tallies, scores, strict=True):
        if not _stopped(tally):
            chosen = {CHOICES[judge]: best["update"] for judge, best in tally.chosen.items()}
            facts = {"chosen_at": chosen, "evaluate_seconds": tally.evaluate_seconds, "events": tally.events}
            run.finish(own, tally.train_seconds, facts)
