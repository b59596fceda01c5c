"""One update of the weights: loss and gradient of a batch of rollouts, and what happens when they are not finite."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from sino.coupling.closure import Closure, Statistics
from sino.data.windows import Batch
from sino.models.hypernetwork import Hypernetwork
from sino.models.model import AbstractModel
from sino.physics.solver import AbstractSolver
from sino.train.curriculum import Recipe
from sino.train.loss import Reference, error_alone, first_failure, gather, mean_loss, rollout_errors, summed_loss
from sino.train.optimiser import optimiser

RETRIES = 8
"""How often a seed may go back before it is stopped."""
BACK_OFF = 0.5
"""Factor on the learning rate of a seed each time it goes back."""


class Weights(NamedTuple):
    """What an update changes."""

    model: AbstractModel
    moments: Any
    average: AbstractModel


class State(NamedTuple):
    """All that a training has learnt. Every leaf is an array; several seeds are stacked along a leading axis."""

    now: Weights
    good: Weights
    """As they were at the start of the last epoch that began well: where a seed goes back to."""
    scale: Array
    """Factor on the learning rate."""
    failures: Array
    """How often this seed went back. Above the limit it is stopped: its weights no longer change."""


class Report(NamedTuple):
    """What one update tells, per seed."""

    loss: Array
    gradient_norm: Array
    finite: Array
    row: Array
    """If not finite: the trajectory where it began,"""
    frame: Array
    """and the frame of the rollout; -1 when the rollout was finite and only the gradient was not."""


class Turn(NamedTuple):
    """Which update it is. All of it may be traced: it changes from update to update, and nothing is compiled anew."""

    frames: Any
    rate: Any
    index: Any
    """Updates before this one."""
    fresh: Any
    """Whether an epoch begins: weights that survive such an update are where a seed goes back to."""


def initial_state(models: list[AbstractModel], recipe: Recipe) -> State:
    """The state before the first update, of one model per seed."""

    def one(model: AbstractModel) -> State:
        weights = Weights(model, optimiser(recipe).init(eqx.filter(model, eqx.is_array)), model)
        return State(weights, weights, jnp.ones((), jnp.float32), jnp.zeros((), jnp.int32))

    return stack_seeds([one(model) for model in models])


def stack_seeds(parts: list[Any]) -> Any:
    """Stack what several seeds hold, along a new leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def one_seed(stacked: Any, position: int) -> Any:
    """The part of a stacked pytree that belongs to one seed."""
    return jax.tree.map(lambda leaf: leaf[position], stacked)


Update = Callable[[State, Batch, Turn], tuple[State, Report]]


@dataclass(frozen=True)
class UpdateProgram:
    """An `Update` of several seeds at once. The state that is passed in is used up."""

    program: Any
    """Compiled once per bucket."""
    data: Reference
    placement: NamedSharding
    recipe: Recipe

    def __call__(self, state: State, batch: Batch, turn: Turn) -> tuple[State, Report]:
        return self.program(*self._arguments(state, batch, turn))

    def compile(self, state: State, batch: Batch, turn: Turn) -> None:
        """Make the program that such a call will take. Several can be made at once, by threads."""
        self.program.lower(*self._arguments(state, batch, turn)).compile()

    def _arguments(self, state: State, batch: Batch, turn: Turn) -> tuple[Any, ...]:
        if state.scale.sharding != self.placement:  # the first call; it would be compiled for another placement
            state = jax.device_put(state, self.placement)
        rate = np.asarray(turn.rate, self.data.frames.dtype)
        now = Turn(np.int32(turn.frames), rate, np.int32(turn.index), turn.fresh)
        return state, self.data, batch, now, self.recipe.bucket(turn.frames)


def make_update(
    solver: AbstractSolver, stats: Statistics, data: Reference, recipe: Recipe, *, recompute: bool, devices: Any = None
) -> UpdateProgram:
    """The update of a training. The batch is shared out over the devices, all by default; losses and gradients are
    summed over them."""
    mesh = Mesh(np.asarray(jax.devices() if devices is None else devices), ("batch",))
    whole, shared = PartitionSpec(), PartitionSpec("batch")
    everywhere = NamedSharding(mesh, whole)
    placed = jax.device_put(data, everywhere)
    deviation = recipe.noise * error_alone(solver, data) if recipe.noise else 0.0
    loss_and_gradient = jax.value_and_grad(_loss, has_aux=True)

    def of_one_seed(model: AbstractModel, data: Reference, batch: Batch, turn: Turn, bucket: int):
        """Loss and gradient on the part of the batch that this device holds, summed over devices."""
        weight = jax.lax.psum(batch.weights.sum(), "batch").astype(data.frames.dtype)
        (part, errors), gradient = loss_and_gradient(
            model, solver, stats, data, batch, turn, recipe, deviation, recompute, bucket
        )
        total, gradient = jax.lax.psum((part, gradient), "batch")
        loss, slope = jax.value_and_grad(mean_loss)(total, weight, recipe.loss)
        return loss, jax.tree.map(lambda leaf: slope.astype(leaf.dtype) * leaf, gradient), first_failure(errors)

    @partial(
        jax.jit,
        static_argnums=4,
        donate_argnums=0,
        in_shardings=(everywhere, everywhere, NamedSharding(mesh, shared), everywhere),
        out_shardings=everywhere,
    )
    def update(state: State, data: Reference, batch: Batch, turn: Turn, bucket: int):
        of_all_seeds = jax.shard_map(
            lambda *args: jax.vmap(partial(of_one_seed, bucket=bucket), (0, None, None, None))(*args),
            mesh=mesh,
            in_specs=(whole, whole, shared, whole),
            out_specs=(whole, whole, PartitionSpec(None, "batch")),
            check_vma=False,
        )
        found = of_all_seeds(state.now.model, data, batch, turn)
        return jax.vmap(partial(_apply, recipe), (0, 0, None, None))(state, found, batch, turn)

    return UpdateProgram(update, placed, everywhere, recipe)


def _loss(
    model: AbstractModel,
    solver: AbstractSolver,
    stats: Statistics,
    data: Reference,
    batch: Batch,
    turn: Turn,
    recipe: Recipe,
    deviation: float,
    recompute: bool,
    bucket: int,
) -> tuple[Array, Array]:
    """What adds up of the loss of a batch, and its errors."""
    segments = gather(data, jnp.asarray(batch.rows), jnp.asarray(batch.starts), bucket)
    noise = None
    if recipe.noise:  # depends on the update and the trajectory, not on the place in the batch or on the device
        u0 = segments.targets[0]
        key = jax.random.fold_in(jax.random.key(recipe.data_seed), turn.index)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, batch.rows)
        unit = jax.vmap(lambda key: jax.random.normal(key, u0.shape[1:], u0.dtype))(keys)
        noise = deviation * unit
    errors = rollout_errors(
        solver,
        Closure(model, stats, recipe.zero_mean),
        segments,
        noise=noise,
        count=turn.frames,
        chunk=recipe.chunk,
        recompute=recompute,
        coupling=recipe.coupling,
        gradient=recipe.gradient,
    )
    return summed_loss(errors, jnp.asarray(batch.weights, errors.dtype), turn.frames, recipe.loss), errors


def _apply(recipe: Recipe, state: State, found, batch: Batch, turn: Turn) -> tuple[State, Report]:
    """Take the step of one seed, or go back."""
    loss, gradient, (bad, frame) = found
    norm = optax.tree.norm(gradient)
    finite = jnp.isfinite(loss) & jnp.isfinite(norm)
    weights: Any = state.now.model
    with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
        directions, moments = optimiser(recipe).update(gradient, state.now.moments, weights, index=turn.index)
    rate = turn.rate * state.scale.astype(turn.rate.dtype)
    model = jax.tree.map(
        lambda p, d, factor: (p - rate.astype(p.dtype) * factor * d).astype(p.dtype),
        state.now.model,
        directions,
        _rate_factors(state.now.model, recipe.kernel_rate),
    )
    # The average of the first updates is over few of them, so that it forgets where it began.
    decay = jnp.minimum(recipe.average, (1 + turn.index) / (10 + turn.index))
    average = jax.tree.map(lambda a, p: p + decay.astype(p.dtype) * (a - p), state.now.average, model)
    running = state.failures <= RETRIES
    after = State(
        now=_choose(running, _choose(finite, Weights(model, moments, average), state.good), state.now),
        good=_choose(turn.fresh & finite, state.now, state.good),
        scale=jnp.where(~finite & running, BACK_OFF * state.scale, state.scale),
        failures=state.failures + (~finite & running).astype(state.failures.dtype),
    )
    worst = jnp.argmax(bad)
    return after, Report(loss, norm, finite, batch.rows[worst], jnp.where(bad.any(), frame[worst], -1))


def _rate_factors(model: AbstractModel, kernel_rate: float) -> Any:
    """A factor for every leaf: `kernel_rate` in the layers of hypernetworks, 1 elsewhere."""

    def factors(node):
        if isinstance(node, Hypernetwork):
            ones = jax.tree.map(lambda _: 1.0, node)
            return eqx.tree_at(lambda n: n.layers, ones, jax.tree.map(lambda _: kernel_rate, node.layers))
        return 1.0

    return jax.tree.map(factors, model, is_leaf=lambda node: isinstance(node, Hypernetwork))


def _choose(condition, yes, no):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
