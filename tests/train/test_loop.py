"""The loop: fits get better, every network trains, interrupted loops go on, and untrained closures are harmless."""

import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import QUICK, largest_difference, mixer, quickly, relaxed, simulated, statistics, tiny_sino, toy

from sino.benchmarks import benchmark
from sino.core.rollout import rollout
from sino.coupling.closure import Closure, measure_statistics
from sino.coupling.hybrid import hybrid_step
from sino.data.windows import epoch_batches
from sino.models import MODELS, build_model, model_sizes
from sino.physics.solver import clocked
from sino.train.curriculum import Recipe, Stage
from sino.train.loop import fit, live_units, make_evaluate, updates
from sino.train.loss import Reference
from sino.train.update import Turn, initial_state, make_update

SIZES = {"depth": 1, "width": 8}


@pytest.fixture(autouse=True)
def settings():
    with relaxed():
        yield


def small_network(name):
    sizes = {size: value for size, value in SIZES.items() if size in model_sizes(name)}
    sizes |= {"heads": 2} if "heads" in model_sizes(name) else {}
    return build_model(name, dim=1, key=jax.random.PRNGKey(0), dtype=jnp.float64, **sizes)


def stacked(*models):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)


def copied(tree):
    """Updates use up the state that they are given."""
    return jax.tree.map(jnp.array, tree)


def evaluator(recipe):
    return make_evaluate(QUICK, statistics(), recipe)


def learnable():
    """Data of the solver with a closure that a toy can represent."""
    tau = Closure(toy(0.8, 0.3), statistics()).prepare(QUICK.grid.n)
    return simulated(QUICK, frames=6, step=hybrid_step(QUICK, tau, t0=0.0))


def test_a_fit_finds_the_closure_that_made_the_data():
    data = learnable()
    recipe = Recipe((Stage(3, 40), Stage(6, 20)), batch=4, learning_rate=0.1, windows="random")
    steps = []
    closure = fit(toy(0.0, 0.0), QUICK, np.asarray(data.frames), recipe, watch=steps.append)
    alone, trained = (
        make_evaluate(QUICK, stats, recipe)(model, data)
        for stats, model in ((None, None), (closure.stats, stacked(closure.model)))
    )
    assert alone.shape == trained.shape == (1, 4, 7)
    assert trained.mean() < 0.05 * alone.mean()
    assert [step.update for step in steps] == list(range(1, 61)) and steps[-1].total == 60
    assert [step.frames for step in steps] == [3] * 40 + [6] * 20 and all(step.ends_epoch for step in steps)
    assert steps[0].rate == 0.1 and steps[30].rate == pytest.approx(0.05)


@pytest.mark.parametrize("optimiser", ["adam", "soap"])
def test_a_loop_that_was_interrupted_goes_on_as_if_it_had_not_been(optimiser):
    data = learnable()
    stages = (Stage(2, 2), Stage(4, 2))
    recipe = Recipe(stages, optimiser=optimiser, batch=3, windows="random", noise=0.1, average=0.9)
    update = make_update(QUICK, statistics(), data, recipe, recompute=False)

    def run(state, done, until):
        for step in updates(update, data, recipe, state, done):
            if step.update == until:
                return step.state
        raise AssertionError

    whole = run(initial_state([mixer()], recipe), 0, 8)
    middle = run(initial_state([mixer()], recipe), 0, 3)
    for mine, other in zip(jax.tree.leaves(run(middle, 3, 8)), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(mine, other)


@functools.cache
def coarse(name, preset="tiny", count=8):
    """Frames of a benchmark's truth on its coarse grid, without the warm-up."""
    b = benchmark(name, preset)
    seeds = range(2)
    fine, target = b.sizes.fine, (b.sizes.coarse,) * b.dim

    def one(u, forcing):
        step = clocked(b.solver(fine), forcing, t0=0.0)
        observe = lambda u: b.coarsen(u, target)  # noqa: E731
        frames = rollout(step, u, count, substeps=b.substeps(fine), observe=observe)[1]
        return jnp.concatenate([observe(u)[None], frames])

    states, forcing = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), (b.initial_states(seeds), b.forcings(seeds)))
    frames = quickly(jax.vmap(one))(states, forcing)
    return b.solver(b.sizes.coarse), Reference(frames, forcing, 0.0, b.substeps(b.sizes.coarse))


RECIPE = Recipe((Stage(8, 2),), batch=2, zero_mean=True, out_scale="defect", learning_rate=1e-2, loss="log")


@functools.cache
def error_of_the_solver(*flow):
    solver, data = coarse(*flow)
    stats = measure_statistics(solver, data.frames, data.forcing, t0=data.t0, substeps=data.substeps)
    return stats, make_evaluate(solver, None, RECIPE, len(data))(None, data)


def assert_harmless(model, *flow):
    solver, data = coarse(*flow)
    stats, alone = error_of_the_solver(*flow)
    error = make_evaluate(solver, stats, RECIPE, len(data))(stacked(model), data)
    assert np.isfinite(error).all() and (error != alone).any()
    assert error.mean() <= 2 * alone.mean()


@pytest.mark.parametrize("name", ["burgers-forced", "burgers-decaying", "ns-forced-re1000"])
def test_an_untrained_sino_is_harmless(name):
    dim = benchmark(name).dim
    assert_harmless(tiny_sino(dim=dim), name)


def test_an_untrained_sino_of_the_papers_size_is_harmless_over_a_whole_chaotic_rollout():
    assert_harmless(build_model("sino", dim=1, key=jax.random.PRNGKey(3), dtype=jnp.float64), "ks", "paper", 1000)


@pytest.mark.parametrize("name", MODELS)
def test_every_network_is_harmless_at_first_and_trains(name):
    """The first loss is that of the untrained network."""
    model = small_network(name)
    solver, data = coarse("ks")
    _, alone = error_of_the_solver("ks")
    steps = []
    closure = fit(model, solver, data.frames, RECIPE, watch=steps.append)
    assert len(steps) == 2 and all(step.report.finite[0] and np.isfinite(step.report.loss[0]) for step in steps)
    assert float(steps[0].report.loss[0]) <= np.log(2 * alone[0, :, 1:].mean(axis=1)).mean()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(closure.model))
    assert largest_difference(closure.model, model) > 1e-4


def test_evaluation_is_of_all_seeds_and_trajectories():
    data = learnable()
    recipe = Recipe((Stage(2, 1),))
    evaluate = make_evaluate(QUICK, statistics(), recipe)
    models = [toy(), toy(0.8, 0.3)]
    together = evaluate(stacked(*models), data)
    assert together.shape == (2, 4, 7) and together.dtype == np.float64
    np.testing.assert_allclose(together[1], 0, atol=1e-20)
    for i, model in enumerate(models):
        np.testing.assert_allclose(evaluate(stacked(model), data)[0], together[i], rtol=1e-12, atol=1e-28)
    in_two_parts = make_evaluate(QUICK, statistics(), recipe, 3)(stacked(*models), data)
    np.testing.assert_allclose(in_two_parts, together, rtol=1e-12, atol=1e-28)
    many = Reference(jnp.concatenate([data.frames] * 17), None, 0.0)
    np.testing.assert_allclose(evaluate(stacked(*models), many)[0], np.tile(together[0], (17, 1)), rtol=1e-12)


@pytest.fixture
def compilations(caplog):
    """Compiled programs of a name since the test began."""
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        yield lambda name: sum(line.startswith(f"Finished XLA compilation of jit({name})") for line in caplog.messages)


def test_programs_can_be_compiled_beforehand(compilations):
    data = learnable()
    recipe = Recipe((Stage(2, 1), Stage(4, 1)), batch=3)
    update, evaluate = (make_update(QUICK, statistics(), data, recipe, recompute=False), evaluator(recipe))
    state = initial_state([toy()], recipe)
    batch = next(epoch_batches(0, 0, len(data), 3, frames=4, last=6, windows="first"))
    turns = [Turn(frames, 1e-2, 0, True) for frames in (2, 4)]
    for turn in turns:
        update.compile(state, batch, turn)
    evaluate.compile(state.now.average, data)
    assert (compilations("update"), compilations("errors")) == (2, 1)
    for turn in turns:
        state, report = update(state, batch, turn)
        assert bool(report.finite[0])
    evaluate(state.now.average, data)
    assert (compilations("update"), compilations("errors")) == (2, 1)


def test_fresh_trained_and_loaded_models_share_a_program(compilations):
    data = learnable()
    recipe = Recipe((Stage(2, 1),), batch=3)
    evaluate, state = evaluator(recipe), initial_state([toy()], recipe)
    *_, last = updates(make_update(QUICK, statistics(), data, recipe, recompute=False), data, recipe, copied(state))
    loaded = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), last.state.now.model)
    found = [evaluate(model, data) for model in (state.now.average, last.state.now.model, loaded)]
    assert compilations("errors") == 1
    np.testing.assert_array_equal(found[1], found[2])
    assert np.abs(found[0] - found[1]).max() > 0


def test_live_units_are_counted_per_seed():
    assert live_units(stacked(toy())) == []
    assert live_units(stacked(tiny_sino(0), tiny_sino(1))) == [(8, 8), (8, 8)]
