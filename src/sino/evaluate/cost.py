"""Cost at equal accuracy: wall clock and error of the closure, of finer grids and of a better classical scheme."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sino.benchmarks import Benchmark, Scheme
from sino.core.errors import UserError
from sino.coupling.closure import Closure
from sino.coupling.hybrid import Coupling
from sino.data.coarsen import check_divides
from sino.evaluate.contenders import Contender, doubled_frame_zero, frame_zero, simulate
from sino.evaluate.equal_error import Match, Tried, match_error
from sino.evaluate.timing import Stopwatch, seconds_per_time
from sino.metrics.errors import mean_squared_error

TRUTHS = ("dataset", "spectral")


@dataclass(frozen=True)
class CostPlan:
    """What to compare, and how carefully."""

    benchmark: Benchmark
    coarse: int
    scheme: Scheme
    """Of the solver that the closure was trained in."""
    closure: Closure
    coupling: Coupling
    precision: str
    """Of all that is timed; the two truths are computed in the benchmark's own."""
    grids: tuple[int, ...]
    """Finer grids, cells per axis, between the coarse one and the fine one."""
    seeds: tuple[int, ...]
    """Trajectories whose errors count: unseen ones."""
    batch: int
    """Trajectories that are simulated side by side when the clock is read."""
    first: int
    last: int
    """Frames over which errors are taken."""
    call_seconds: float = 0.2
    """Length of a timed call, at least."""
    repeats: int = 5

    @property
    def strong_name(self) -> str:
        """What the better classical scheme is called in the rows."""
        return "spectral" if self.benchmark.dim == 2 else "strong"

    def contenders(self) -> list[Contender]:
        """The coarse solver, the closure, finer grids, the strong scheme on all of these, and the dataset's solver."""
        b, fine = self.benchmark, self.benchmark.sizes.fine
        base, strong = b.scheme_variant(self.scheme), b.scheme_variant("strong")
        rows = [
            Contender("coarse", base, self.coarse),
            Contender("closure", base, self.coarse, self.closure, self.coupling),
        ]
        rows += [Contender(f"fine-{n}", base, n) for n in self.grids]
        rows.append(Contender(f"fine-{fine}", b, fine))
        if self.scheme == "paper":
            rows += [Contender(f"{self.strong_name}-{n}", strong, n) for n in (self.coarse, *self.grids)]
        return rows


def check_plan(plan: CostPlan) -> None:
    """Refuse what makes no sense, in one sentence."""
    b = plan.benchmark
    for n in plan.grids:
        check_divides(b.sizes.fine, n)
        if not plan.coarse < n < b.sizes.fine or n % plan.coarse:
            raise UserError(
                f"a finer grid of {n} is no multiple of {plan.coarse} below {b.sizes.fine}; choose others with --grids"
            )
    if not plan.seeds or plan.batch < 1:
        raise UserError("the cost needs at least one trajectory and a batch of at least one")
    if not 1 <= plan.first <= plan.last <= b.sizes.frames:
        raise UserError(f"the frames {plan.first}..{plan.last} are not among 1..{b.sizes.frames}")


def measure_cost(
    plan: CostPlan, train_seconds: float | None, watch: Callable[[str], object] = lambda line: None
) -> dict[str, Any]:
    """Rows of cost and error, the speed-up at equal error, and what it takes to earn data and training back.

    - `seconds_per_time`: wall clock per simulated time unit and trajectory, in a batch; jitted rollouts, compiled and
      warmed up before, the contenders taking turns, the median of several. Kernels are generated once per rollout.
    - `error`: mean squared error over frames `first..last`, on the coarse grid, against two truths: `dataset`, the
      benchmark's fine solver from the same frame 0; and `spectral`, the strong scheme (pseudo-spectral in 2D) on twice
      as many cells per axis with at most half the time step, from the same frame 0. `doubling_error` is the distance of
      that truth from the same scheme on the fine grid: where it is small, doubling once more would change nothing.
    - `speedup_at_equal_error`: the time that the closure's own solver would need on a grid with the closure's error,
      divided by the closure's time; against the strong scheme in `speedup_against_strong`. None with a `reason` if
      the closure's error is not between those of the grids.
    - `break_even_time_units`: simulated time, over all trajectories, after which the time saved equals that of
      generating the training and validation data (at the speed measured here) and of training.
    """
    check_plan(plan)
    contenders = plan.contenders()
    watch(f"timing {len(contenders)} ways to simulate {plan.batch} trajectories at once")
    stopwatch = Stopwatch(plan.batch, plan.last, plan.call_seconds, plan.repeats)
    seconds = seconds_per_time(contenders, list(plan.seeds), plan.precision, stopwatch)
    watch(f"their errors: about {_work(plan, seconds):.0f} s of simulation follow")
    errors, truth, excluded = _errors(contenders, plan, watch)
    rows = [
        {"what": c.what, "cells": c.cells, "steps_per_frame": c.substeps, "seconds_per_time": seconds[c.what]}
        | {"error": {name: errors[name][c.what] for name in TRUTHS}}
        for c in contenders
    ]
    device = jax.devices()[0]
    cost: dict[str, Any] = {"device": device.device_kind, "platform": device.platform, "precision": plan.precision}
    cost |= {"batch": plan.batch, "seeds": list(plan.seeds), "excluded": excluded, "window": [plan.first, plan.last]}
    cost |= {"truth": truth, "rows": rows}
    return cost | summarise(plan, rows, train_seconds)


def summarise(plan: CostPlan, rows: list[dict[str, Any]], train_seconds: float | None) -> dict[str, Any]:
    """Speed-ups and break-even, from the rows."""
    b = plan.benchmark
    by_name = {row["what"]: row for row in rows}
    closure, fine = by_name["closure"], by_name[f"fine-{b.sizes.fine}"]
    matches = {name: _match(rows, closure, name, ("coarse", "fine"), "the solver alone") for name in TRUTHS}
    strong = {name: _match(rows, closure, name, (plan.strong_name,), "the strong scheme") for name in TRUTHS}
    if plan.scheme == "strong":
        strong = {name: Match(None, None, "the closure's own solver is the strong scheme") for name in TRUTHS}
    trajectories = len(b.sizes.train) + len(b.sizes.validation)
    data_seconds = fine["seconds_per_time"] * (b.start + b.sizes.frames * b.frame) * trajectories
    units, unpaid = _break_even(matches["dataset"], closure["seconds_per_time"], data_seconds, train_seconds)
    return {
        "speedup_at_equal_error": _ratios(matches, closure),
        "equal_error_grid": {name: match.cells for name, match in matches.items()},
        "reason": {name: match.reason for name, match in matches.items()},
        "speedup_against_strong": _ratios(strong, closure),
        "reason_strong": {name: match.reason for name, match in strong.items()},
        "break_even_time_units": units,
        "reason_break_even": unpaid,
        "data_seconds": data_seconds,
        "train_seconds": train_seconds,
    }


def _break_even(
    match: Match, closure_seconds: float, data_seconds: float, train_seconds: float | None
) -> tuple[float | None, str | None]:
    """Simulated time after which the closure has paid for itself, or the reason why it never does."""
    if match.seconds is None:
        return None, match.reason
    if match.seconds <= closure_seconds:
        return None, "the closure takes longer than the grid of equal error"
    if train_seconds is None:
        return None, "the run has not ended, so the time of its training is not known"
    return (data_seconds + train_seconds) / (match.seconds - closure_seconds), None


def _work(plan: CostPlan, rate: dict[str, float]) -> float:
    """Roughly how many seconds the simulations will take: everything to the last frame, and the two truths."""
    b, strong = plan.benchmark, plan.benchmark.scheme_variant("strong")
    fine = rate[f"fine-{b.sizes.fine}"]
    stronger = fine * rate.get(f"{plan.strong_name}-{plan.coarse}", rate["coarse"]) / rate["coarse"]
    doubled = stronger * 2**b.dim * max(2, strong.substeps(2 * b.sizes.fine) / strong.substeps(b.sizes.fine))
    recorded = plan.last * b.frame
    return len(plan.seeds) * (fine * b.start + recorded * (stronger + doubled + sum(rate.values())))


def _errors(
    contenders: list[Contender], plan: CostPlan, watch: Callable[[str], object]
) -> tuple[dict[str, dict[str, float | None]], dict[str, Any], list[int]]:
    """Errors by truth and contender, a description of the truths, and the seeds that the fine solver lost."""
    b, seeds = plan.benchmark, list(plan.seeds)
    fine, strong = b.sizes.fine, b.scheme_variant("strong")
    watch(f"simulating {len(seeds)} trajectories to frame 0 on {fine} cells")
    start = frame_zero(b, seeds)

    def frames_of(c: Contender, start: np.ndarray, precision: str) -> np.ndarray:
        watch(f"simulating {c.what} to frame {plan.last}")
        return simulate(c, start, seeds, plan.last, plan.coarse, precision)[:, plan.first :]

    by_solver = {"dataset": frames_of(Contender(f"fine-{fine}", b, fine), start, b.precision)}
    steps = max(strong.substeps(2 * fine), 2 * strong.substeps(fine))
    doubled = Contender(f"{plan.strong_name}-{2 * fine}", strong, 2 * fine, steps=steps)
    by_solver["spectral"] = frames_of(doubled, doubled_frame_zero(strong, start, seeds), b.precision)
    undoubled = frames_of(Contender(f"{plan.strong_name}-{fine}", strong, fine), start, b.precision)
    finite = np.all([np.isfinite(f).reshape(len(seeds), -1).all(axis=1) for f in by_solver.values()], axis=0)
    if not finite.any():
        raise UserError(f"the fine solver of {b.name} lost every trajectory that was asked for; take others")

    def errors_of(frames: np.ndarray) -> dict[str, float | None]:
        with np.errstate(over="ignore", invalid="ignore"):
            found = {k: mean_squared_error(frames[finite], v[finite]).mean() for k, v in by_solver.items()}
        return {name: float(error) if np.isfinite(error) else None for name, error in found.items()}

    errors: dict[str, dict[str, float | None]] = {name: {} for name in TRUTHS}
    for c in contenders:
        is_truth = c.what == f"fine-{fine}"
        measured = errors_of(by_solver["dataset"] if is_truth else frames_of(c, start, plan.precision))
        for name in TRUTHS:
            errors[name][c.what] = None if is_truth and name == "dataset" else measured[name]
    truth = {
        "dataset": {"scheme": b.scheme, "cells": fine, "steps_per_frame": b.substeps(fine)},
        "spectral": {
            "scheme": "pseudo-spectral" if b.dim == 2 else f"{b.scheme}; its strong variant",
            "cells": 2 * fine,
            "steps_per_frame": steps,
            "doubling_error": errors_of(undoubled)["spectral"],
            "variance": float(by_solver["spectral"][finite].var()),
        },
    }
    return errors, truth, [seed for seed, ok in zip(seeds, finite, strict=True) if not ok]


def _match(
    rows: list[dict[str, Any]], closure: dict[str, Any], truth: str, kinds: tuple[str, ...], solver: str
) -> Match:
    """The grid among rows of these kinds that has the closure's error."""
    chosen = [row for row in rows if row["what"].split("-")[0] in kinds]
    tried = [Tried(row["cells"], row["seconds_per_time"], row["error"][truth]) for row in chosen]
    return match_error(tried, closure["error"][truth], solver)


def _ratios(matches: dict[str, Match], closure: dict[str, Any]) -> dict[str, float | None]:
    own = closure["seconds_per_time"]
    return {name: None if match.seconds is None else match.seconds / own for name, match in matches.items()}
