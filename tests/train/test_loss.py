"""Rollout losses and their gradients are those of a plain loop, in every mode."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import KS, QUICK, SOLVERS, largest_difference, made_up, quickly, row_of, statistics, tiny_sino, toy

from sino.coupling.closure import Closure
from sino.data.windows import Batch
from sino.train.loss import error_alone, first_failure, gather, mean_loss, rollout_errors, summed_loss

FRAMES, CHUNK, BUCKET = 4, 2, 6
BATCH = Batch(np.array([2, 0, 2, 1]), np.array([3, 0, 1, 2]), np.array([1.0, 1.0, 1.0, 0.0]))
COUPLINGS, GRADIENTS, LOSSES = ("frozen", "stages", "after"), ("full", "stopped", "one-step"), ("mse", "log", "rms")


@functools.cache
def plain_step(solver, coupling, zero_mean):
    """One step with a closure, written out."""

    def step(model, stats, u, forcing, t):
        def tau(v):
            mean = stats.mean.reshape(-1, *[1] * (v.ndim - 1))
            tendency = stats.scale_out * model((v - mean) / stats.scale_in)
            return tendency - tendency.mean(axis=tuple(range(1, v.ndim)), keepdims=True) if zero_mean else tendency

        def force(v, s):
            return jnp.zeros_like(v) if forcing is None else forcing(v, s)

        if coupling == "after":
            v = solver.step(u, force, t)
            return solver.constrain(v + solver.dt * tau(v))
        once = tau(u)
        return solver.step(u, lambda v, s: force(v, s) + (once if coupling == "frozen" else tau(v)), t)

    return jax.jit(step)


def loss_by_hand(model, solver, data, stats, *, coupling, gradient, loss, zero_mean=False, batch=BATCH, frames=FRAMES):
    """No scan, no vmap, no padding: trajectories, frames and steps in Python loops."""
    step = plain_step(solver, coupling, zero_mean)
    losses = []
    for row, start, weight in zip(*batch, strict=True):
        if weight == 0:
            continue
        u = data.frames[row, start]
        errors = [0.0]
        for k in range(start, start + frames):
            if gradient == "stopped":
                u = jax.lax.stop_gradient(u)
            if gradient == "one-step":
                u = data.frames[row, k]
            for i in range(k * data.substeps, (k + 1) * data.substeps):
                u = step(model, stats, u, row_of(data.forcing, row), data.t0 + i * solver.dt)
            errors.append(((u - data.frames[row, k + 1]) ** 2).mean())
        mean = sum(errors) / frames
        losses.append({"mse": sum(errors) / (frames + 1), "log": jnp.log(mean), "rms": jnp.sqrt(mean)}[loss])
    of_all = sum(losses) / len(losses)
    return jnp.log(of_all**2) if loss == "rms" else of_all


def loss_of_batch(model, solver, data, stats, *, loss, zero_mean=False, bucket=FRAMES, **options):
    segments = gather(data, jnp.asarray(BATCH.rows), jnp.asarray(BATCH.starts), bucket)
    errors = rollout_errors(solver, Closure(model, stats, zero_mean), segments, **options)
    count = options.get("count", FRAMES)
    weights = jnp.asarray(BATCH.weights)
    return mean_loss(summed_loss(errors, weights, count, loss), weights.sum(), loss)


def assert_equal_to_the_loop(
    model, solver, data, *, losses=LOSSES, zero_mean=False, coupling, gradient, recomputed=True
):
    stats = statistics(data.frames.shape[2])
    modes = {"coupling": coupling, "gradient": gradient, "zero_mean": zero_mean}

    @quickly
    def batched(model, count):
        variants = [{}, {"bucket": BUCKET, "count": count, "chunk": CHUNK, "recompute": True}][: 1 + recomputed]
        return [
            jax.value_and_grad(loss_of_batch)(model, solver, data, stats, loss=loss, **modes, **variant)
            for loss, variant in itertools.product(losses, variants)
        ]

    found = iter(batched(model, jnp.asarray(FRAMES)))
    for loss in losses:
        expected = jax.value_and_grad(loss_by_hand)(model, solver, data, stats, loss=loss, **modes)
        assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected[1])) > 1e-3
        for _ in range(1 + recomputed):
            assert largest_difference(next(found), expected) < 1e-10


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_loss_and_gradient_are_those_of_a_loop(coupling, gradient):
    assert_equal_to_the_loop(toy(), QUICK, made_up(QUICK), coupling=coupling, gradient=gradient)


def test_loss_and_gradient_are_those_of_a_loop_without_forcing():
    data = made_up(QUICK, forced=False, substeps=1)
    modes = {"coupling": "frozen", "gradient": "full", "zero_mean": True}
    assert_equal_to_the_loop(toy(), QUICK, data, losses=["mse"], **modes)


@pytest.mark.parametrize("name, coupling", [("ks", "frozen"), ("flow", "after")])
def test_loss_and_gradient_are_those_of_a_loop_for_real_solvers(name, coupling):
    solver = SOLVERS[name]
    modes = {"losses": ["mse"], "coupling": coupling, "gradient": "full", "recomputed": name == "ks"}
    assert_equal_to_the_loop(toy(), solver, made_up(solver), **modes)


def off_the_kinks(model):
    """At the start some hidden units have their kink at a coordinate of the grid, where no derivative exists."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda p: p + 0.01 * rng.normal(size=p.shape), model)


def test_the_gradient_is_that_of_finite_differences_and_reaches_every_parameter():
    data, stats, model = made_up(KS), statistics(), off_the_kinks(tiny_sino())
    function = quickly(jax.value_and_grad(lambda model: loss_of_batch(model, KS, data, stats, loss="log")))
    _, gradient = function(model)
    rng = np.random.default_rng(0)
    direction = jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape)), model)
    ahead, behind = (function(jax.tree.map(lambda p, d, h=h: p + h * d, model, direction))[0] for h in (1e-6, -1e-6))
    slope = sum(float((g * d).sum()) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    assert abs(slope) > 1e-2 and all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient))
    assert slope == pytest.approx(float(ahead - behind) / 2e-6, rel=1e-5)


def test_only_the_gradient_tells_a_stopped_rollout_from_a_full_one():
    data, stats = made_up(QUICK), statistics()

    @quickly
    def both(model):
        return [
            jax.value_and_grad(loss_of_batch)(model, QUICK, data, stats, loss="mse", gradient=gradient)
            for gradient in GRADIENTS
        ]

    full, stopped, one_step = both(toy())
    assert full[0] == stopped[0] != one_step[0]
    assert largest_difference(full[1], stopped[1]) > 1e-3


def test_windows_start_at_their_own_time():
    """The forcing moves: the same states at other frames give other errors."""
    data = made_up(KS, trajectories=1)
    moved = made_up(KS, trajectories=1)
    moved = type(data)(jnp.roll(data.frames, 1, axis=1), data.forcing, data.t0 - KS.dt * data.substeps, data.substeps)
    run = quickly(lambda data, start: rollout_errors(KS, None, gather(data, jnp.array([0]), start, 3)))
    expected = run(data, jnp.array([2]))
    np.testing.assert_allclose(run(moved, jnp.array([3])), expected, rtol=1e-12)
    assert np.abs(run(data, jnp.array([3])) - expected).max() > 1e-3


def test_windows_are_gathered_and_the_last_frame_repeats():
    data = made_up(KS, trajectories=3, frames=5)
    segments = gather(data, jnp.array([2, 0]), jnp.array([1, 3]), 4)
    assert segments.targets.shape == (5, 2, 1, 16)
    np.testing.assert_array_equal(segments.targets[:, 0], data.frames[2, 1:6])
    np.testing.assert_array_equal(segments.targets[:, 1], data.frames[0, [3, 4, 5, 5, 5]])
    np.testing.assert_array_equal(segments.forcing.phase, data.forcing.phase[np.array([2, 0])])


def test_losses_by_their_formulas():
    errors = np.random.default_rng(0).uniform(size=(4, 3))
    errors[0] = 0.25
    weights = np.array([1.0, 0.0, 1.0])
    late = errors[1:, [0, 2]].mean(axis=0)
    expected = {"mse": errors[:, [0, 2]].mean(), "log": np.log(late).mean(), "rms": np.log(np.sqrt(late).mean() ** 2)}
    for kind, value in expected.items():
        total = summed_loss(jnp.asarray(errors), jnp.asarray(weights), 3, kind)
        assert float(mean_loss(total, jnp.asarray(2.0), kind)) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("name", ["ks", "flow"])
def test_noise_is_added_to_the_initial_state_and_constrained(name):
    solver = SOLVERS[name]
    data = made_up(solver, trajectories=2)
    segments = gather(data, jnp.array([0, 1]), jnp.array([0, 1]), 2)
    noise = jnp.asarray(0.1 * np.random.default_rng(0).normal(size=segments.targets[0].shape))
    errors = quickly(lambda noise: rollout_errors(solver, None, segments, noise=noise))(noise)
    kept = jnp.stack([solver.constrain(field) for field in noise])
    np.testing.assert_allclose(errors[0], (kept**2).mean(axis=tuple(range(1, kept.ndim))), rtol=1e-12)
    start = gather(data, jnp.array([0]), jnp.array([0]), 0).targets[0, 0] + kept[0]
    step = plain_step(solver, "after", False)
    for i in range(data.substeps):
        start = step(toy(0.0, 0.0), statistics(len(start)), start, row_of(data.forcing, 0), data.t0 + i * solver.dt)
    np.testing.assert_allclose(errors[1, 0], ((start - data.frames[0, 1]) ** 2).mean(), rtol=1e-10)


def test_the_error_of_the_solver_alone_is_a_root_mean_square():
    data = made_up(KS, trajectories=3)
    segments = gather(data, jnp.arange(3), jnp.zeros(3, int), data.frames.shape[1] - 1)
    errors = quickly(lambda: rollout_errors(KS, None, segments))()
    assert error_alone(KS, data) == pytest.approx(float(jnp.sqrt(errors[1:].mean())), rel=1e-10)
    blown = type(data)(data.frames.at[1].set(jnp.inf), data.forcing, data.t0, data.substeps)
    assert error_alone(KS, blown) == pytest.approx(float(jnp.sqrt(errors[1:, ::2].mean())), rel=1e-10)
    assert error_alone(KS, type(data)(data.frames * jnp.inf, data.forcing, data.t0, data.substeps)) == 0


def test_the_first_failure_is_the_frame_where_a_window_went_wrong():
    errors = jnp.zeros((5, 3)).at[2:, 1].set(jnp.nan).at[4, 2].set(jnp.inf)
    bad, frame = first_failure(errors)
    assert bad.tolist() == [False, True, True] and frame[1:].tolist() == [2, 4]
