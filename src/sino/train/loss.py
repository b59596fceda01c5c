"""Rollout losses: errors of a batch of windows, frame by frame, and three ways to make one number of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sino.core.rollout import repeat, scan_in_chunks
from sino.coupling.closure import Closure, PreparedClosure
from sino.coupling.hybrid import Coupling, hybrid_step
from sino.models.modes import Slots, empty_slots, with_slots
from sino.physics.solver import AbstractSolver, Source
from sino.train.curriculum import Gradient, Loss


class Reference(eqx.Module):
    """Trajectories to learn from or to compare with: frames of the reference solution on the solver's grid.

    `forcing` is a source whose array leaves have a leading axis over trajectories; `t0` is the time of frame 0, and
    `substeps` the steps of the solver per frame.
    """

    frames: Float[Array, "b t c *n"]
    forcing: Source | None
    t0: float = eqx.field(static=True)
    substeps: int = eqx.field(static=True, default=1)

    def __len__(self) -> int:
        return self.frames.shape[0]


class Segments(eqx.Module):
    """Initial states and targets of a batch, gathered from the data; time leads, for the scan."""

    targets: Float[Array, "t_plus_1 b c *n"]
    forcing: Source | None
    starts: Int[Array, " b"]
    """The frame of the data at which each begins; `t0` and `substeps` are those of the data."""
    t0: float = eqx.field(static=True)
    substeps: int = eqx.field(static=True)


def gather(data: Reference, rows: Int[Array, " b"], starts: Int[Array, " b"], frames: int) -> Segments:
    """Frames `start..start + frames` of the chosen trajectories. Past the end of the data the last frame repeats."""
    index = jnp.minimum(starts[None, :] + jnp.arange(frames + 1, dtype=starts.dtype)[:, None], data.frames.shape[1] - 1)
    forcing = jax.tree.map(lambda leaf: leaf[rows], data.forcing)
    return Segments(data.frames[rows[None, :], index], forcing, starts, data.t0, data.substeps)


def rollout_errors(
    solver: AbstractSolver,
    closure: Closure | None,
    segments: Segments,
    *,
    noise: Float[Array, "b c *n"] | None = None,
    count: Any = None,
    chunk: int = 1,
    recompute: bool = False,
    coupling: Coupling = "frozen",
    gradient: Gradient = "full",
) -> Float[Array, "t_plus_1 b"]:
    """Mean squared error over cells and components, for frames `0..` of every window.

    `count` frames are computed (all by default), in chunks; the others are zero. `noise` is added to the initial state,
    which then is constrained to what the solver may start from. `gradient`: `full` goes back through the whole rollout;
    `stopped` is the same rollout with the gradient stopped at the start of every frame; `one-step` starts every frame
    from the reference.
    """
    tau = None if closure is None else closure.on_grid(solver.grid.n)
    u0 = segments.targets[0]
    if noise is not None:
        u0 = jax.vmap(solver.constrain)(u0 + noise)

    frames = len(segments.targets) - 1
    slots = rollout_slots(tau, frames, u0, segments.substeps, coupling)

    def advance(u, forcing, i, slots):
        closure = with_slots(tau, slots) if slots else tau
        step = hybrid_step(solver, closure, t0=segments.t0, forcing=forcing, coupling=coupling)
        return repeat(step, segments.substeps)(u, i)

    def body(u, item):
        frame, before, target, slots = item
        if gradient == "stopped":
            u = jax.lax.stop_gradient(u)
        if gradient == "one-step":
            u = before
        u = jax.vmap(advance)(u, segments.forcing, segments.substeps * (segments.starts + frame), slots)
        return u, _mean_square(u - target)

    items = (jnp.arange(frames, dtype=segments.starts.dtype), segments.targets[:-1], segments.targets[1:], slots)
    _, errors = scan_in_chunks(body, u0, items, chunk=chunk, count=count, recompute=recompute)
    return jnp.concatenate([_mean_square(u0 - segments.targets[0])[None], errors])


def rollout_slots(
    tau: PreparedClosure | None, frames: int, states: Float[Array, "b c *n"], substeps: int, coupling: Coupling
) -> list[Slots]:
    """Slots for the products of a closure in a rollout, if it is evaluated once per frame."""
    once = substeps == 1 and coupling != "stages"
    return empty_slots(tau, frames, len(states), states.shape[2:], states.dtype) if once else []


def summed_loss(errors: Float[Array, "t_plus_1 b"], weights: Float[Array, " b"], count: Any, kind: Loss) -> Array:
    """The part of the loss that adds up over trajectories, and so over devices: `sum_b w_b f(e_b)`.

    `e_b` is the mean error of a trajectory over frames `1..count`, and `f` its logarithm for `log`, its root for `rms`.
    For `mse`, the paper's, it is the mean over frames `0..count`, the initial one included, as it is.
    """
    count = jnp.asarray(count, errors.dtype)
    if kind == "mse":
        return (weights * errors.sum(axis=0)).sum() / (count + 1)
    mean = errors[1:].sum(axis=0) / count + jnp.finfo(errors.dtype).tiny
    return (weights * (jnp.log(mean) if kind == "log" else jnp.sqrt(mean))).sum()


def mean_loss(total: Array, weight: Array, kind: Loss) -> Array:
    """The loss of a batch from its sum: `total / weight`, and for `rms` `log((total / weight)^2)`.

    With a logarithm small and large errors, and short and long rollouts, weigh alike: `log` trajectory by trajectory,
    `rms` batch by batch, so that the trajectories with large errors count for more.
    """
    mean = total / weight
    return 2 * jnp.log(mean) if kind == "rms" else mean


def error_alone(solver: AbstractSolver, data: Reference) -> float:
    """Root mean square of the error of the solver without a closure over the whole of the trajectories.

    Those in which the solver alone blows up do not count; if it always does, 0.
    """
    rows = jnp.arange(len(data), dtype=jnp.int32)
    frames = data.frames.shape[1] - 1
    errors = jax.jit(lambda data: rollout_errors(solver, None, gather(data, rows, 0 * rows, frames)))(data)
    means = errors[1:].mean(axis=0)
    finite = jnp.isfinite(means)
    return float(jnp.sqrt(jnp.where(finite, means, 0).sum() / jnp.maximum(finite.astype(means.dtype).sum(), 1)))


def first_failure(errors: Float[Array, "t_plus_1 b"]) -> tuple[Bool[Array, " b"], Int[Array, " b"]]:
    """Which windows went non-finite, and at which frame."""
    bad = ~jnp.isfinite(errors)
    return bad.any(axis=0), jnp.argmax(bad, axis=0)


def _mean_square(difference: Float[Array, "b c *n"]) -> Float[Array, " b"]:
    return jnp.square(difference).mean(axis=tuple(range(1, difference.ndim)))
