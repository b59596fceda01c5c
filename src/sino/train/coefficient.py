"""The one coefficient of a classical closure, fitted on the training window."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from sino.coupling.classical import build_classical
from sino.physics.solver import AbstractSolver
from sino.train.loss import Reference, gather, rollout_errors

POINTS, ROUNDS = 13, 3
SEARCHED = POINTS * ROUNDS
"""Coefficients that are tried."""


def fit_coefficient(
    name: str,
    solver: AbstractSolver,
    data: Reference,
    *,
    watch: Callable[[int], object] = lambda done: None,
) -> tuple[float, float]:
    """The coefficient of least mean squared error over the whole training window, and that error.

    A search on a logarithmic grid that is refined around its lowest point; coefficients that blow a rollout up lose.
    """
    channels, length = data.frames.shape[2], solver.grid.length[0]
    dtype = data.frames.dtype

    @jax.jit
    def error(coefficient):
        rows = jnp.arange(len(data))
        segments = gather(data, rows, jnp.zeros_like(rows), data.frames.shape[1] - 1)
        return rollout_errors(solver, build_classical(name, coefficient, channels, length), segments)[1:].mean()

    low, high = (np.log(edge) for edge in bracket(name, solver.dt))
    done = 0
    best = (np.inf, 0.0)
    for _ in range(ROUNDS):
        grid = np.linspace(low, high, POINTS)
        for value in grid:
            found = float(error(jnp.asarray(np.exp(value), dtype)))
            best = min(best, (found if np.isfinite(found) else np.inf, float(value)))
            done += 1
            watch(done)
        width = grid[1] - grid[0]
        low, high = best[1] - width, best[1] + width
    return float(np.exp(best[1])), best[0]


def bracket(name: str, dt: float) -> tuple[float, float]:
    """The range of coefficients that is searched: damping rates are limited by the time step."""
    return (0.005, 1.0) if name == "smagorinsky" else (1e-4 / dt, 2.0 / dt)
