"""The memory plan: linear in frames and seeds, of the size that XLA takes, and careful when memory is short."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from small import FLOW, QUICK, made_up, statistics, tiny_sino, toy

from sino.coupling.closure import Closure
from sino.train.curriculum import Recipe, Stage
from sino.train.loss import gather, rollout_errors
from sino.train.memory import plan_memory

DATA = made_up(QUICK, frames=40)
RECIPE = Recipe((Stage(20, 1), Stage(40, 1)), batch=4)


def plan(recipe=RECIPE, **options):
    return plan_memory(QUICK, statistics(), DATA, recipe, toy(), **{"seeds": 1} | options)


def test_everything_is_kept_if_it_fits():
    free = plan(budget=10**12)
    assert not free.recompute and free.predicted == free.kept < free.budget == 10**12
    assert not plan(budget=free.kept).recompute
    short = plan(budget=free.kept - 1)
    assert short.recompute and short.predicted < short.kept == free.kept


def test_the_budget_of_this_machine_is_large_enough():
    assert not plan().recompute and plan().budget > 10**8


def test_kept_memory_is_linear_in_frames_and_seeds():
    frame = RECIPE.batch * DATA.frames[0, 0].nbytes

    def kept(frames, seeds):
        found = plan(replace(RECIPE, stages=(Stage(frames, 1),)), seeds=seeds, budget=10**12)
        return found.kept - (frames + 1) * frame  # the targets are shared by the seeds

    assert kept(20, 1) - kept(10, 1) >= 10 * frame
    assert kept(40, 1) - kept(10, 1) == 3 * (kept(20, 1) - kept(10, 1))
    assert kept(10, 5) == 5 * kept(10, 1)


def test_devices_share_the_batch():
    assert plan(devices=4, budget=10**12).kept == plan(replace(RECIPE, batch=1), budget=10**12).kept
    assert plan(devices=3, budget=10**12).kept == plan(replace(RECIPE, batch=2), budget=10**12).kept


@pytest.mark.parametrize("recompute", [False, True])
def test_the_prediction_is_of_the_size_that_xla_takes(recompute):
    def loss(model):
        rows = jnp.arange(RECIPE.batch)
        segments = gather(DATA, rows, jnp.zeros_like(rows), RECIPE.longest)
        options = {"chunk": RECIPE.chunk, "recompute": recompute}
        return rollout_errors(QUICK, Closure(model, statistics()), segments, **options).sum()

    taken = jax.jit(jax.grad(loss)).lower(toy()).compile().memory_analysis().temp_size_in_bytes
    predicted = plan(budget=0 if recompute else 10**12).predicted
    assert predicted / 4 < taken < 4 * predicted


def test_the_prediction_grows_with_the_rollout_as_xla_does():
    """What is kept for the kernels' gradient counts, too: in two dimensions it is half of all."""
    data, model = made_up(FLOW, trajectories=2, frames=12), tiny_sino(dim=2, depth=3)

    def taken_and_predicted(frames):
        def loss(model):
            segments = gather(data, jnp.arange(2), jnp.zeros(2, int), frames)
            return rollout_errors(FLOW, Closure(model, statistics(2)), segments).sum()

        found = plan_memory(FLOW, statistics(2), data, Recipe((Stage(frames, 1),), batch=2), model, seeds=1, budget=1)
        return jax.jit(jax.grad(loss)).lower(model).compile().memory_analysis().temp_size_in_bytes, found.kept

    (taken, predicted), (more_taken, more_predicted) = taken_and_predicted(4), taken_and_predicted(12)
    assert 0.75 < (more_predicted - predicted) / (more_taken - taken) < 1.5
