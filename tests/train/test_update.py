"""One update: seeds alone and together, devices one and four, weights, rates, and what happens when a seed fails."""

import functools
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import QUICK, largest_difference, made_up, mixer, quickly, relaxed, row_of, statistics, tiny_sino, toy

from sino.coupling.closure import Closure
from sino.data.windows import Batch
from sino.models.hypernetwork import Hypernetwork
from sino.train.curriculum import Recipe, Stage, paper_stages
from sino.train.loss import Reference, gather, mean_loss, rollout_errors, summed_loss
from sino.train.soap import REFRESH
from sino.train.update import RETRIES, Turn, initial_state, make_update

FRAMES = 3
RECIPE = Recipe((Stage(FRAMES, 3),), batch=3, learning_rate=1e-2, windows="random", weight_decay=1e-2, loss="log")
OPTIMISERS = pytest.mark.parametrize("recipe", [RECIPE, replace(RECIPE, optimiser="soap")], ids=["adam", "soap"])
ROUNDING = {"adam": 1e-10, "soap": 1e-8}
"""Along axes of small gradients SOAP makes large steps, of their rounding errors too."""
DATA = made_up(QUICK, frames=6)
BATCH = Batch(np.array([2, 0, 3], np.int32), np.array([1, 0, 0], np.int32), np.array([1, 1, 0], np.float32))


@pytest.fixture(autouse=True)
def settings():
    with relaxed():
        yield


def updater(recipe=RECIPE, data=DATA, *, recompute=False):
    if data is not DATA:
        return make_update(QUICK, statistics(), data, recipe, recompute=False)
    return shared_updater(recipe, recompute)


@functools.cache
def shared_updater(recipe, recompute):
    return make_update(QUICK, statistics(), DATA, recipe, recompute=recompute)


def turn(index=0, rate=1e-2, fresh=False, frames=FRAMES):
    return Turn(frames, rate, index, fresh)


def copied(tree):
    """Updates use up the state that they are given."""
    return jax.tree.map(lambda leaf: leaf + jnp.zeros_like(leaf), tree)


def train(update, state, turns, batch=BATCH):
    """States and reports after each of several updates."""
    states, reports = [], []
    for which in turns:
        state, report = update(copied(state), batch, which)
        states.append(state)
        reports.append(report)
    return states, reports


def loss_of_batch(model, recipe=RECIPE, data=DATA, batch=BATCH):
    segments = gather(data, jnp.asarray(batch.rows), jnp.asarray(batch.starts), FRAMES)
    errors = rollout_errors(QUICK, Closure(model, statistics(), recipe.zero_mean), segments)
    weights = jnp.asarray(batch.weights, errors.dtype)
    return mean_loss(summed_loss(errors, weights, FRAMES, recipe.loss), weights.sum(), recipe.loss)


@pytest.mark.parametrize("loss", ["log", "rms"])
def test_an_update_is_a_step_of_adamw_on_the_mean_loss(loss):
    rates = [1e-2, 3e-3, 1e-3]
    recipe = replace(RECIPE, loss=loss)
    states, reports = train(updater(recipe), initial_state([toy()], recipe), [turn(i, r) for i, r in enumerate(rates)])
    model = toy()
    adam = optax.adamw(lambda count: jnp.asarray(rates)[count], weight_decay=recipe.weight_decay)
    moments = adam.init(model)
    loss_and_gradient = quickly(jax.value_and_grad(lambda model: loss_of_batch(model, recipe)))
    for state, report in zip(states, reports, strict=True):
        loss, gradient = loss_and_gradient(model)
        step, moments = adam.update(gradient, moments, model)
        model = optax.apply_updates(model, step)
        assert float(report.loss[0]) == pytest.approx(float(loss), rel=1e-12)
        assert float(report.gradient_norm[0]) == pytest.approx(float(optax.tree.norm(gradient)), rel=1e-12)
        assert bool(report.finite[0]) and int(report.frame[0]) == -1
        assert largest_difference(row_of(state.now.model, 0), model) < 1e-12


def assert_seeds_do_not_mix(models, recipe=RECIPE, **options):
    update = updater(recipe, **options)
    turns, close = [turn(i) for i in (0, 1, REFRESH)], ROUNDING[recipe.optimiser]
    together = train(update, initial_state(models, recipe), turns)
    for i, model in enumerate(models):
        alone = train(update, initial_state([model], recipe), turns)
        for mine, other in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(mine[i], other[0], rtol=close, atol=close * np.abs(other).max())
        assert largest_difference(alone[0][-1].now.model, alone[0][0].now.model) > 1e-3


def test_seeds_together_are_seeds_alone():
    assert_seeds_do_not_mix([tiny_sino(seed, depth=1) for seed in range(2)])


@OPTIMISERS
def test_matrices_of_seeds_together_are_those_of_seeds_alone(recipe):
    assert_seeds_do_not_mix([mixer(seed) for seed in range(3)], recipe)


def test_seeds_together_are_seeds_alone_when_computed_again():
    assert_seeds_do_not_mix([toy(), toy(0.5), toy(-0.2, 0.4)], recompute=True)


SHARDED = """
import sys
import jax
import numpy as np
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
sys.path.insert(0, sys.argv[1])
from small import QUICK, largest_difference, made_up, mixer, statistics
from sino.data.windows import Batch
from sino.train.curriculum import Recipe, Stage
from sino.train.update import Turn, initial_state, make_update

rows, starts = np.array([4, 2, 0, 1, 3, 0, 0, 0], np.int32), np.array([0, 1, 2, 3, 1, 0, 0, 0], np.int32)
batch = Batch(rows, starts, np.array([1, 1, 1, 1, 1, 0, 0, 0], np.float32))
recipe = Recipe((Stage(3, 1),), loss="rms", noise=0.1, average=0.9, clip=1.0, optimiser=sys.argv[2])
data, models = made_up(QUICK, trajectories=5, frames=6), [mixer(0), mixer(1)]
found = []
assert len(jax.devices()) == 4
for devices in (jax.devices()[:1], jax.devices()):
    state = initial_state(models, recipe)
    update = make_update(QUICK, statistics(), data, recipe, recompute=False, devices=devices)
    reports = []
    for index in (0, 1, 5):
        state, report = update(state, batch, Turn(3, 1e-2, index, index == 0))
        reports.append(jax.tree.map(np.asarray, (report.loss, report.gradient_norm, report.finite)))
    assert len(state.scale.sharding.device_set) == len(devices)
    found.append((jax.tree.map(np.asarray, state), reports))
print(largest_difference(found[1], found[0]), largest_difference(found[0][0].now.model, found[0][0].good.model))
"""


@pytest.mark.parametrize("optimiser", ["adam", "soap"])
def test_four_devices_are_one_device(optimiser):
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SHARDED, str(Path(__file__).parent), optimiser]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    difference, moved = map(float, done.stdout.split())
    assert difference < ROUNDING[optimiser] and moved > 1e-3


def test_padding_changes_nothing():
    other = Batch(np.array([2, 0, 1], np.int32), np.array([1, 0, 3], np.int32), BATCH.weights)
    update = updater()
    results = [train(update, initial_state([toy()], RECIPE), [turn()], batch) for batch in (BATCH, other)]
    assert largest_difference(results[0][0], results[1][0]) < 1e-14


def blown(model):
    """Weights from which every rollout overflows."""
    return jax.tree.map(lambda leaf: leaf * 1e300, model)


def with_failure(state, seed):
    model = jax.tree.map(lambda leaf: leaf.at[seed].set(1e300), state.now.model)
    return state._replace(now=state.now._replace(model=model))


@OPTIMISERS
def test_a_seed_that_fails_goes_back_and_its_neighbour_does_not_notice(recipe):
    update = updater(recipe)
    (begun, moved), _ = train(update, initial_state([mixer(0), mixer(1)], recipe), [turn(0, fresh=True), turn(1)])
    later = [turn(REFRESH - 1), turn(REFRESH)]
    healthy, _ = train(update, moved, later)
    failed, reports = train(update, with_failure(moved, 0), later)
    assert reports[0].finite.tolist() == [False, True] and reports[1].finite.tolist() == [True, True]
    for mine, good in zip(*(jax.tree.leaves(row_of(tree, 0)) for tree in (failed[0].now, begun.good)), strict=True):
        np.testing.assert_array_equal(mine, good)
    assert failed[0].scale.tolist() == [0.5, 1.0] and failed[0].failures.tolist() == [1, 0]
    for mine, other in zip(jax.tree.leaves(failed), jax.tree.leaves(healthy), strict=True):
        np.testing.assert_array_equal(mine[1], other[1])
    assert largest_difference(row_of(failed[1].now.model, 0), row_of(failed[0].now.model, 0)) > 1e-4
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(failed[1]))


def test_a_seed_that_went_back_takes_half_the_step():
    update = updater(replace(RECIPE, weight_decay=0.0))
    (begun,), _ = train(update, initial_state([toy()], RECIPE), [turn(0, rate=0.0, fresh=True)])
    (back,), _ = train(update, with_failure(begun, 0), [turn(1)])
    (slow,), _ = train(update, back, [turn(2)])
    (fast,), _ = train(update, back._replace(scale=jnp.ones_like(back.scale)), [turn(2)])
    whole, half = (float(s.now.model.slope[0] - back.now.model.slope[0]) for s in (fast, slow))
    assert half == pytest.approx(0.5 * whole, rel=1e-6) and whole != 0


def test_bad_data_is_named_by_trajectory_and_frame():
    frames = DATA.frames.at[0, 2].set(jnp.nan)
    data = Reference(frames, DATA.forcing, DATA.t0, DATA.substeps)
    _, (report,) = train(updater(data=data), initial_state([toy(), toy(0.5)], RECIPE), [turn()])
    assert report.finite.tolist() == [False, False]
    assert report.row.tolist() == [0, 0] and report.frame.tolist() == [2, 2]


def test_bad_weights_are_named_by_trajectory_and_frame():
    state = initial_state([toy(), blown(toy())], RECIPE)
    _, (report,) = train(updater(), state, [turn()])
    assert report.finite.tolist() == [True, False]
    assert report.row[1] == 2 and report.frame[1] == 1 and report.frame[0] == -1


def test_after_too_many_failures_a_seed_no_longer_changes():
    update = updater()
    state = initial_state([blown(toy()), toy()], RECIPE)
    before = row_of(copied(state.now), 0)
    states, _ = train(update, state, [turn(i, fresh=True) for i in range(RETRIES + 3)])
    assert [int(s.failures[0]) for s in states] == [*range(1, RETRIES + 2), RETRIES + 1, RETRIES + 1]
    assert float(states[-1].scale[0]) == 0.5 ** (RETRIES + 1)
    for mine, other in zip(jax.tree.leaves(row_of(states[-1].now, 0)), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(mine, other)
    stopped = jax.tree.map(lambda leaf: leaf.at[0].set(0.3), states[-1].now.model)
    (after,), (report,) = train(update, states[-1]._replace(now=states[-1].now._replace(model=stopped)), [turn()])
    assert bool(report.finite[0]) and largest_difference(row_of(after.now.model, 0), row_of(stopped, 0)) == 0
    assert int(after.failures[1]) == 0 and float(after.scale[1]) == 1


@OPTIMISERS
def test_good_weights_are_those_at_the_start_of_an_epoch_that_began_well(recipe):
    update = updater(recipe)
    states, _ = train(update, initial_state([mixer()], recipe), [turn(0), turn(1, fresh=True), turn(2)])
    assert largest_difference(states[0].good.model, initial_state([mixer()], recipe).now.model) == 0
    for state in states[1:]:
        for good, then in zip(jax.tree.leaves(state.good), jax.tree.leaves(states[0].now), strict=True):
            np.testing.assert_array_equal(good, then)
    (failed,), _ = train(update, with_failure(states[2], 0), [turn(3, fresh=True)])
    assert largest_difference(failed.good.model, states[0].now.model) == 0


def test_without_decay_the_average_is_the_weights():
    states, _ = train(updater(), initial_state([toy()], RECIPE), [turn(0), turn(1)])
    for state in states:
        assert largest_difference(state.now.average, state.now.model) == 0


def test_the_average_follows_its_recursion():
    states, _ = train(
        updater(replace(RECIPE, average=0.15)), initial_state([toy()], RECIPE), [turn(i) for i in range(3)]
    )
    average = 0.3
    for index, state in enumerate(states):
        decay = min(0.15, (1 + index) / (10 + index))
        average = decay * average + (1 - decay) * float(state.now.model.slope[0])
        assert float(state.now.average.slope[0]) == pytest.approx(average, rel=1e-7)


def test_the_kernel_rate_scales_the_layers_of_hypernetworks_only():
    model = tiny_sino(depth=1)
    moved = []
    for rate in (1.0, 0.25):
        recipe = replace(RECIPE, kernel_rate=rate)
        (state,), _ = train(updater(recipe), initial_state([model], recipe), [turn()])
        moved.append(jax.tree.map(lambda a, b: a[0] - b, state.now.model, model))
    is_net = lambda node: isinstance(node, Hypernetwork)  # noqa: E731
    ratio = jax.tree.map(lambda a, b: float(np.linalg.norm(b) / np.linalg.norm(a)), *moved)
    nets = [node for node in jax.tree.leaves(ratio, is_leaf=is_net) if is_net(node)]
    inside = [value for net in nets for value in jax.tree.leaves(net.layers)]
    assert len(inside) == 12 and inside == pytest.approx([0.25] * 12, rel=1e-6)
    outside = jax.tree.leaves(eqx.tree_at(lambda r: [b.layers for b in hypernetworks(r)], ratio, [None, None]))
    assert outside == pytest.approx([1.0] * len(outside), rel=1e-6) and len(outside) > 8


def hypernetworks(model):
    return [net for block in model.blocks for net in (block.frequency, block.spatial)]


def test_the_clip_bounds_the_gradient_that_moves_the_weights():
    norms = []
    for clip in (0.0, 1e-3):
        recipe = replace(RECIPE, clip=clip)
        (state,), (report,) = train(updater(recipe), initial_state([toy()], recipe), [turn()])
        (adam,) = [part for part in state.now.moments if hasattr(part, "mu")]
        norms.append(float(optax.tree.norm(adam.mu)) / 0.1)
        assert float(report.gradient_norm[0]) > 1e-2
    assert norms[1] == pytest.approx(1e-3, rel=1e-9) and norms[0] > 1e-2


def test_the_statistics_are_no_parameters():
    """Weight decay reaches every leaf of the state, so the statistics must not be among them."""
    stats = statistics()
    update = make_update(QUICK, stats, DATA, RECIPE, recompute=False)
    state = initial_state([toy()], RECIPE)
    states, _ = train(update, state, [turn(i) for i in range(3)])
    assert len(jax.tree.leaves(state.now.model)) == len(jax.tree.leaves(toy()))
    assert largest_difference(stats, statistics()) == 0
    assert largest_difference(states[-1].now.model, states[0].now.model) > 1e-4


def test_noise_depends_on_the_update_and_the_trajectory_alone():
    recipe = replace(RECIPE, noise=1.0)
    update = updater(recipe)
    swapped = Batch(*(field[[1, 0, 2]] for field in BATCH))
    losses = [
        float(train(update, initial_state([toy()], recipe), [turn(index)], batch)[1][0].loss[0])
        for index, batch in ((0, BATCH), (0, swapped), (1, BATCH))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12) and abs(losses[0] - losses[2]) > 1e-4


def test_four_programs_serve_the_papers_21_lengths(caplog):
    recipe = Recipe(paper_stages(300), batch=2)
    data = made_up(QUICK, trajectories=1, frames=300, substeps=1)
    update = updater(recipe, data)
    state = initial_state([toy()], recipe)
    batch = Batch(np.zeros(2, np.int32), np.zeros(2, np.int32), np.array([1, 0], np.float32))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for index, stage in enumerate(recipe.stages):
            state, report = update(state, batch, turn(index, frames=stage.frames, fresh=index % 2 == 0))
    compiled = [line for line in caplog.messages if line.startswith("Finished XLA compilation of jit(update)")]
    assert len(recipe.stages) == 21 and 1 <= len(compiled) <= 4
    assert bool(report.finite[0])


def test_a_longer_program_gives_the_same_update():
    recipe = Recipe(paper_stages(100, epochs=70), batch=3)
    short, long = 10, recipe.bucket(10)
    assert long > short
    data = made_up(QUICK, frames=100, substeps=1)
    alone = Recipe((Stage(10, 1),), batch=3)
    states = [
        train(updater(one, data), initial_state([toy()], one), [turn(frames=short)])[0][0] for one in (recipe, alone)
    ]
    assert largest_difference(states[0].now.model, states[1].now.model) < 1e-12
