"""How much memory a training rollout takes, and whether to compute forward steps again in the backward pass."""

import os
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from sino.core.rollout import repeat
from sino.coupling.closure import Closure, Statistics
from sino.coupling.hybrid import hybrid_step
from sino.models.model import AbstractModel
from sino.physics.solver import AbstractSolver
from sino.train.curriculum import Recipe
from sino.train.loss import Reference, rollout_slots

CPU_SHARE, DEVICE_SHARE = 0.4, 0.75
"""Part of the memory that a rollout may take: on a CPU others live there too."""
WORKING_FRAMES = 2
"""Besides what is kept, a backward pass works in the memory of about so many frames, as measured in 2D."""


@dataclass(frozen=True)
class MemoryPlan:
    """A choice, and the bytes that go with it."""

    recompute: bool
    predicted: int
    kept: int
    """What keeping everything would take."""
    budget: int


def plan_memory(
    solver: AbstractSolver,
    stats: Statistics,
    data: Reference,
    recipe: Recipe,
    model: AbstractModel,
    *,
    seeds: int,
    devices: int = 1,
    budget: int | None = None,
) -> MemoryPlan:
    """Keep what the longest rollout needs for its backward pass if it fits the budget, else compute it again in chunks.

    A frame keeps the residuals of its reverse-mode derivative, which JAX can name without computing them. In chunks, a
    rollout keeps one state per chunk and the residuals of one chunk.
    """
    batch = -(-recipe.batch // devices)
    frame = seeds * batch * _residual_bytes(solver, stats, data, recipe, model)
    slots = seeds * batch * _slot_bytes(solver, stats, data, recipe, model)
    state = batch * _size(jax.eval_shape(lambda: data.frames[0, 0]))
    always = WORKING_FRAMES * frame + (recipe.longest + 1) * state + recipe.longest * slots
    kept = always + recipe.longest * frame
    chunked = always + recipe.chunk * frame + recipe.longest // recipe.chunk * seeds * state
    limit = _memory_budget() if budget is None else budget
    recompute = kept > limit
    return MemoryPlan(recompute, chunked if recompute else kept, kept, limit)


def _residual_bytes(solver, stats, data: Reference, recipe: Recipe, model: AbstractModel) -> int:
    """What one frame of one trajectory leaves for the backward pass, of the state and of the kernels."""
    forcing = jax.tree.map(lambda leaf: leaf[0], data.forcing)

    def residuals(model, states):
        def advance(model, states):
            tau = Closure(model, stats, recipe.zero_mean).prepare(solver.grid.n)
            step = hybrid_step(solver, tau, t0=data.t0, forcing=forcing, coupling=recipe.coupling)
            return jax.vmap(lambda u: repeat(step, data.substeps)(u, jnp.int32(0)))(states)

        return jax.vjp(advance, model, states)[1]

    # What two trajectories leave more than one does: kernels, and how they were made, are there once for all.
    one, two = (_size(jax.eval_shape(residuals, model, data.frames[:1, 0].repeat(count, 0))) for count in (1, 2))
    return two - one


def _slot_bytes(solver, stats, data: Reference, recipe: Recipe, model: AbstractModel) -> int:
    """What the backward pass of one frame of one trajectory leaves for the gradient of the weights."""

    def slots(model, states):
        tau = Closure(model, stats, recipe.zero_mean).on_grid(solver.grid.n)
        return rollout_slots(tau, 1, states, data.substeps, recipe.coupling)

    return _size(jax.eval_shape(slots, model, data.frames[:1, 0]))


def _memory_budget() -> int:
    """Bytes that a rollout may take on one device here."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(DEVICE_SHARE * stats["bytes_limit"])
    return int(CPU_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _size(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
