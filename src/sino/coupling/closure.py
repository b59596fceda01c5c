"""A closure: a network with the statistics that turn states into its inputs and its outputs into tendencies."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.rollout import repeat
from sino.models.model import AbstractModel, Operator
from sino.physics.solver import AbstractSolver, Source, State, clocked

OutScale = Literal["defect", "sigma"]
Tendency = Callable[[Array], Array]


class Statistics(eqx.Module):
    """What normalises a state and scales a tendency. Array leaves: they are saved with the weights."""

    mean: Float[Array, " c"]
    scale_in: Float[Array, ""]
    scale_out: Float[Array, ""]


class Closure(eqx.Module):
    """`tau(u) = scale_out model((u - mean) / scale_in)`, a contribution to `du/dt` on the grid of `u`.

    With `zero_mean` the mean of each component over the grid is taken off `tau`: the closure then moves what the flow
    has from place to place and cannot feed or drain it.
    """

    model: AbstractModel
    stats: Statistics
    zero_mean: bool = eqx.field(static=True, default=False)

    def prepare(self, n: tuple[int, ...]) -> Tendency:
        """All that depends on weights and grid only, computed once: a pure function of a state on `n` cells."""
        prepared = self.on_grid(n)

        def tau(u: State) -> State:
            return prepared(u)

        return tau

    def on_grid(self, n: tuple[int, ...]) -> "PreparedClosure":
        """The same as a pytree, whose leaves are arrays: what a rollout in training takes apart."""
        return PreparedClosure(self.model.prepare(n), self.stats, self.zero_mean)

    def __call__(self, u: State) -> State:
        """Prepare for the grid of `u` and apply."""
        return self.prepare(u.shape[1:])(u)


class PreparedClosure(eqx.Module):
    """A closure made ready for one grid: a pure function of a state."""

    operator: Operator
    stats: Statistics
    zero_mean: bool = eqx.field(static=True)

    def __call__(self, u: State) -> State:
        """The tendency of a state."""
        axes = tuple(range(1, u.ndim))
        mean = self.stats.mean.astype(u.dtype).reshape(-1, *[1] * len(axes))
        scale_in, scale_out = self.stats.scale_in.astype(u.dtype), self.stats.scale_out.astype(u.dtype)
        tendency = scale_out * self.operator((u - mean) / scale_in)
        return tendency - tendency.mean(axis=axes, keepdims=True) if self.zero_mean else tendency


def measure_statistics(
    solver: AbstractSolver,
    frames: Float[Array, "b t c *n"],
    forcing: Source | None,
    *,
    t0: float,
    substeps: int = 1,
    out_scale: OutScale = "defect",
) -> Statistics:
    """Statistics of a training window, as the paper takes them, and the scale of `tau`.

    In one dimension mean and standard deviation; in two and three the mean is zero and all components share one
    standard deviation. `out_scale` is `sigma`, that deviation (the paper, whose `tau` then has the units of `u`), or
    `defect`: the deviation of `(u^{n+1} - step(u^n)) / dt`, what a perfect closure would have to supply in one frame.
    """
    scalar = frames.ndim == 4
    mean = frames.mean(axis=(0, 1, 3)) if scalar else jnp.zeros(frames.shape[2], frames.dtype)
    sigma = frames.std()
    if out_scale == "sigma":
        return Statistics(mean, sigma, sigma)

    def defects(trajectory):
        frames, forcing = trajectory
        advance = repeat(clocked(solver, forcing, t0=t0), substeps)
        starts = substeps * jnp.arange(len(frames) - 1)
        missed = (frames[1:] - jax.vmap(advance)(frames[:-1], starts)) / (substeps * solver.dt)
        return jnp.square(jax.vmap(solver.constrain)(missed)).mean()

    return Statistics(mean, sigma, jnp.sqrt(jax.jit(lambda *data: jax.lax.map(defects, data))(frames, forcing).mean()))
