"""Simulate a batch of trajectories and observe them frame by frame. No files here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.rollout import rollout
from sino.physics.solver import AbstractSolver, Source, State, clocked

WARMUP_BLOCK = 200
FRAME_BLOCK = 20


@dataclass(frozen=True)
class Block:
    """A piece of a simulation: how far it is, and the frames it observed (none during the warm-up)."""

    steps: int
    first_frame: int = 0
    observed: dict[str, np.ndarray] = field(default_factory=dict)
    """By name, arrays of shape `(trajectory, frame, ...)`."""


def simulate(
    solver: AbstractSolver,
    initial: Float[Array | np.ndarray, "b c *n"],
    forcing: Source | None,
    *,
    warmup_steps: int,
    frames: int,
    substeps: int,
    observe: Callable[[State], dict[str, Array]],
) -> Iterator[Block]:
    """Advance a batch from time 0: a warm-up that is not observed, then frames `0..frames`, `substeps` steps apart.

    `forcing` has a leading batch axis on every leaf. The forcing clock runs on through the warm-up. Blocks arrive as
    they are computed; what they hold does not depend on how they are consumed.
    """
    u = jnp.asarray(initial)
    if u.dtype != initial.dtype:
        raise ValueError("float64 simulations need jax.config.update('jax_enable_x64', True)")
    observe_batch = jax.jit(jax.vmap(observe))

    @partial(jax.jit, donate_argnums=0)
    def warm_up(u, forcing, start, stop):
        def one(u, forcing):
            step = clocked(solver, forcing, t0=0.0)
            return jax.lax.fori_loop(start, stop, lambda i, u: step(u, i), u)

        return jax.vmap(one)(u, forcing)

    @partial(jax.jit, donate_argnums=0)
    def record(u, forcing, start):
        def one(u, forcing):
            step = clocked(solver, forcing, t0=0.0)
            return rollout(step, u, FRAME_BLOCK, substeps=substeps, start=start, observe=observe)

        return jax.vmap(one)(u, forcing)

    for start in range(0, warmup_steps, WARMUP_BLOCK):
        stop = min(start + WARMUP_BLOCK, warmup_steps)
        u = jax.block_until_ready(warm_up(u, forcing, jnp.asarray(start), jnp.asarray(stop)))
        yield Block(stop)

    first = jax.tree.map(lambda a: np.asarray(a)[:, None], observe_batch(u))
    yield Block(warmup_steps, 0, first)

    for done in range(0, frames, FRAME_BLOCK):
        kept = min(FRAME_BLOCK, frames - done)  # the last block is computed whole, so that one program serves all
        u, seen = record(u, forcing, jnp.asarray(warmup_steps + done * substeps))
        observed = jax.tree.map(lambda a, kept=kept: np.asarray(a)[:, :kept], seen)
        yield Block(warmup_steps + (done + kept) * substeps, done + 1, observed)
