"""The loop: batches in, updates out; and rollouts that tell how good the result is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.coupling.closure import Closure, Statistics, measure_statistics
from sino.data.windows import batches_per_epoch, epoch_batches
from sino.models.hypernetwork import Hypernetwork
from sino.models.model import AbstractModel
from sino.physics.solver import AbstractSolver, Source
from sino.train.curriculum import Recipe, check_recipe
from sino.train.loss import Reference, Segments, gather, rollout_errors
from sino.train.memory import plan_memory
from sino.train.update import Report, State, Turn, Update, initial_state, make_update, one_seed


class Step(NamedTuple):
    """One update, done."""

    update: int
    """Updates so far, this one included."""
    total: int
    epoch: int
    """Of this update, from 0."""
    ends_epoch: bool
    frames: int
    rate: float
    state: State
    report: Report


def updates(update: Update, data: Reference, recipe: Recipe, state: State, done: int = 0) -> Iterator[Step]:
    """Carry a training on after `done` updates, to its end. Which windows come next depends on the update's number
    alone, so a training that was interrupted goes on as if it had not been."""
    per_epoch = batches_per_epoch(len(data), recipe.batch, recipe.passes)
    total = per_epoch * recipe.epochs
    for epoch in range(done // per_epoch, recipe.epochs):
        frames = recipe.frames(epoch)
        batches = epoch_batches(
            recipe.data_seed,
            epoch,
            len(data),
            recipe.batch,
            frames=frames,
            last=data.frames.shape[1] - 1,
            windows=recipe.windows,
            passes=recipe.passes,
        )
        for position, batch in enumerate(batches):
            index = epoch * per_epoch + position
            if index < done:
                continue
            rate = recipe.rate(index / total)
            state, report = update(state, batch, Turn(frames, rate, index, position == 0))
            yield Step(index + 1, total, epoch, position + 1 == per_epoch, frames, rate, state, report)


def fit(
    model: AbstractModel,
    solver: AbstractSolver,
    frames: Float[Any, "b t c *n"],
    recipe: Recipe,
    *,
    t0: float = 0.0,
    substeps: int = 1,
    forcing: Source | None = None,
    watch: Callable[[Step], object] = lambda step: None,
) -> Closure:
    """Train a closure for any solver on any trajectories, in memory, and return it.

    `frames` are reference trajectories on the solver's grid, `substeps` steps apart; `forcing`, if any, is a source
    with a leading trajectory axis on its array leaves. `watch` is called after every update.
    """
    data = Reference(jnp.asarray(frames), forcing, t0, substeps)
    check_recipe(recipe, data.frames.shape[1] - 1)
    stats = measure_statistics(solver, data.frames, forcing, t0=t0, substeps=substeps, out_scale=recipe.out_scale)
    recompute = plan_memory(solver, stats, data, recipe, model, seeds=1).recompute
    update = make_update(solver, stats, data, recipe, recompute=recompute)
    state = initial_state([model], recipe)
    for step in updates(update, data, recipe, state):
        state = step.state
        watch(step)
    return Closure(one_seed(state.now.average, 0), stats, recipe.zero_mean)


TOGETHER = 64
"""Trajectories that are rolled out together, at most: their frames lie on the device."""


@dataclass(frozen=True)
class Evaluate:
    """`evaluate(models, reference)`: mean squared errors `(seed, trajectory, frame)` of rollouts from frame 0.

    The models of several seeds are stacked along a leading axis of every leaf; None where the solver is alone.
    """

    program: Any
    together: int
    """Trajectories of a batch; the last batch is filled up with its last trajectory, so that one compiled program
    serves references of any length."""

    def __call__(self, models: AbstractModel | None, reference: Reference) -> np.ndarray:
        found, count = [], len(reference)
        for first in range(0, count, self.together):
            errors = self.program(*self._arguments(models, reference, first))
            found.append(np.asarray(errors)[:, : count - first])
        return np.concatenate(found, axis=1)

    def compile(self, models: AbstractModel | None, reference: Reference) -> None:
        """Make the program that such a call will take. Threads can make others meanwhile."""
        self.program.lower(*self._arguments(models, reference, 0)).compile()

    def _arguments(self, models: AbstractModel | None, reference: Reference, first: int) -> tuple[Any, Segments]:
        rows = np.minimum(np.arange(first, first + self.together, dtype=np.int32), len(reference) - 1)
        starts = jnp.zeros(self.together, jnp.int32)
        segments = gather(reference, jnp.asarray(rows), starts, reference.frames.shape[1] - 1)
        # Fresh, trained and loaded models lie in different places, and for each a program would be compiled.
        return jax.device_get(models), segments


def make_evaluate(
    solver: AbstractSolver, stats: Statistics | None, recipe: Recipe, together: int = TOGETHER
) -> Evaluate:
    """Of a closure with these statistics; without, of the solver alone. A batch has at most `TOGETHER` trajectories."""

    @jax.jit
    def errors(models, segments: Segments):
        def one(model):
            closure = Closure(model, stats, recipe.zero_mean) if stats is not None else None
            return rollout_errors(solver, closure, segments, coupling=recipe.coupling)

        return jnp.moveaxis(one(None)[None] if stats is None else jax.vmap(one)(models), 1, 2)

    return Evaluate(errors, min(together, TOGETHER))


@jax.jit
def live_shares(models: AbstractModel) -> list[Array]:
    """For each hypernetwork of stacked models, `(seed, unit)`: which bottleneck units are live. Empty without any."""
    nodes = jax.tree.leaves(models, is_leaf=lambda node: isinstance(node, Hypernetwork))
    return [jax.vmap(Hypernetwork.live)(node) for node in nodes if isinstance(node, Hypernetwork)]


def live_units(models: AbstractModel) -> list[tuple[int, int]]:
    """For each of several stacked models: its live bottleneck units, and all of them. Empty without hypernetworks."""
    live = live_shares(models)
    if not live:
        return []
    units = np.concatenate([np.asarray(net) for net in live], axis=1)
    return [(int(seed.sum()), len(seed)) for seed in units]
