"""Rollouts of a solver from frame 0, with or without a closure, compared with the coarsened fine solution."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sino.core.cores import usable_cores
from sino.core.grid import Grid
from sino.core.rollout import rollout
from sino.coupling.closure import Closure
from sino.coupling.hybrid import Coupling, hybrid_step
from sino.data.well import Trajectories
from sino.evaluate.measure import measure, summarise
from sino.metrics.errors import mean_squared_error
from sino.physics.solver import AbstractSolver, Source, State

BATCH_BYTES = 2**28
"""Trajectories are rolled out and measured together up to about this size: a full 2D dataset is gigabytes."""

FreeRun = Callable[[Closure | None, np.ndarray, Source | None], np.ndarray]
"""From a closure, states `(b, c, *n)` at frame 0 and forcings with a leading batch axis to frames `(b, t, c, *n)`."""


def make_free_run(
    solver: AbstractSolver,
    frames: int,
    *,
    t0: float,
    substeps: int = 1,
    coupling: Coupling = "frozen",
    observe: Callable[[State], State] = lambda u: u,
) -> FreeRun:
    """A function that computes frames `0..frames`, frame 0 being at time `t0`; compiled once for all weights."""

    @eqx.filter_jit
    def run(closure, frame0, forcing):
        tau = None if closure is None else closure.prepare(solver.grid.n)

        def one(u, forcing):
            step = hybrid_step(solver, tau, t0=t0, forcing=forcing, coupling=coupling)
            _, seen = rollout(step, u, frames, substeps=substeps, observe=observe)
            return jnp.concatenate([observe(u)[None], seen])

        return jax.vmap(one)(frame0, forcing)

    return lambda closure, frame0, forcing: np.asarray(run(closure, jnp.asarray(frame0), forcing))


def free_run(
    solver: AbstractSolver,
    frame0: Float[np.ndarray, "b c *n"],
    forcing: Source | None,
    frames: int,
    *,
    t0: float,
    substeps: int = 1,
    observe: Callable[[State], State] = lambda u: u,
) -> Float[np.ndarray, "b t c *m"]:
    """Frames `0..frames` of the solver on its own, from frame 0 at time `t0`; `forcing` has a leading batch axis."""
    return make_free_run(solver, frames, t0=t0, substeps=substeps, observe=observe)(None, frame0, forcing)


def window_error(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"], first: int
) -> Float[np.ndarray, " b"]:
    """Mean squared error of each trajectory over frames `first..` (frame 0 is the first in both arrays)."""
    return mean_squared_error(prediction[:, first:], truth[:, first:]).mean(axis=1)


def score(
    run: FreeRun,
    closure: Closure | None,
    data: Trajectories,
    forcing: Source | None,
    *,
    grid: Grid,
    first: int,
    precision: str = "float32",
    watch: Callable[[np.ndarray], object] = lambda prediction: None,
) -> dict[str, Any]:
    """Roll out every trajectory from its frame 0 and say, in plain values, how good the result is.

    Errors are reported over the frames from `first` on. `forcing` has a leading axis over the trajectories; `precision`
    is that of the rollouts; `watch` is shown every batch of them, `(b, t, c, *n)`. See `summarise` for the result.
    """
    parts: list[dict[str, np.ndarray]] = []
    # On a GPU the metrics take longer than the rollouts: every core measures a trajectory while the next ones run.
    with ThreadPoolExecutor(len(usable_cores())) as pool:
        pending: list[Future] = []
        for rows in _batches(len(data.seeds), data.frames[0].nbytes):
            truth = data.frames[rows]
            prediction = run(
                closure, truth[:, 0].astype(precision), jax.tree.map(lambda leaf, rows=rows: leaf[rows], forcing)
            )
            parts += [future.result() for future in pending]
            pairs = zip(prediction[:, None], truth[:, None], strict=True)
            pending = [pool.submit(measure, *pair, grid, first) for pair in pairs]
            watch(prediction)
        parts += [future.result() for future in pending]
    measured = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return summarise(measured, data.seeds, data.times, grid, first)


def _batches(count: int, trajectory_bytes: int) -> Iterator[slice]:
    size = max(1, BATCH_BYTES // trajectory_bytes)
    return (slice(at, at + size) for at in range(0, count, size))
