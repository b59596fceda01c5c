"""Simulate a batch of trajectories and observe them frame by frame. No files here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

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


Simulator = Callable[[np.ndarray, Source | None], Iterator[Block]]


def simulator(
    solver: AbstractSolver,
    *,
    warmup_steps: int,
    frames: int,
    substeps: int,
    observe: Callable[[State], dict[str, Array]],
) -> Simulator:
    """A function that simulates a batch from time 0 and yields blocks of it, compiled once for all its calls.

    It takes initial states `(b, c, *n)` and a forcing with a leading batch axis on every leaf (or None). After a
    warm-up that is not observed come the frames `0..frames`, `substeps` steps apart; the forcing clock runs on from the
    warm-up. What the blocks hold does not depend on how they are consumed.
    """

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

    observe_batch = jax.jit(jax.vmap(observe))

    def simulate(initial: np.ndarray, forcing: Source | None) -> Iterator[Block]:
        u = jnp.asarray(initial)
        if u.dtype != initial.dtype:
            raise ValueError("float64 simulations need jax.config.update('jax_enable_x64', True)")
        for start in range(0, warmup_steps, WARMUP_BLOCK):
            stop = min(start + WARMUP_BLOCK, warmup_steps)
            u = jax.block_until_ready(warm_up(u, forcing, jnp.asarray(start), jnp.asarray(stop)))
            yield Block(stop)
        yield Block(warmup_steps, 0, jax.tree.map(lambda a: np.asarray(a)[:, None], observe_batch(u)))
        for done in range(0, frames, FRAME_BLOCK):
            kept = min(FRAME_BLOCK, frames - done)  # the last block is computed whole, so that one program serves all
            u, seen = record(u, forcing, jnp.asarray(warmup_steps + done * substeps))
            observed = {name: np.asarray(a)[:, :kept] for name, a in seen.items()}
            yield Block(warmup_steps + (done + kept) * substeps, done + 1, observed)

    return simulate
