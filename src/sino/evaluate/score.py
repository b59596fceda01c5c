"""Rollouts of a solver from frame 0, compared with the coarsened fine solution."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sino.core.rollout import rollout
from sino.metrics.errors import mean_squared_error
from sino.physics.solver import AbstractSolver, Source, State, clocked


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

    @eqx.filter_jit
    def run(frame0, forcing):
        def one(u, forcing):
            step = clocked(solver, forcing, t0=t0)
            _, seen = rollout(step, u, frames, substeps=substeps, observe=observe)
            return jnp.concatenate([observe(u)[None], seen])

        return jax.vmap(one)(frame0, forcing)

    return np.asarray(run(jnp.asarray(frame0), forcing))


def window_error(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"], first: int
) -> Float[np.ndarray, " b"]:
    """Mean squared error of each trajectory over frames `first..` (frame 0 is the first in both arrays)."""
    return mean_squared_error(prediction[:, first:], truth[:, first:]).mean(axis=1)
