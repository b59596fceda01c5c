import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.coupling.classical import Hyperviscosity, build_classical
from sino.coupling.closure import Closure, Statistics
from sino.coupling.hybrid import rollout
from sino.data.well import Trajectories
from sino.evaluate import score as scores
from sino.evaluate.score import free_run, make_free_run, score, window_error
from sino.physics.burgers_spectral import SpectralBurgers
from sino.physics.exact import burgers_wave
from sino.physics.forcing import SineForcing

GRID = Grid((64,), (2 * np.pi,))


def test_a_free_run_is_the_exact_solution_at_every_frame():
    solver = SpectralBurgers(GRID, 0.005, 0.1)
    x = GRID.axis(0)
    frame0 = np.stack([burgers_wave(x, 0.0, 0.1, steepness=s)[None] for s in (0.3, 0.5)])
    run = free_run(solver, frame0, None, 5, t0=0.0, substeps=4)
    assert run.shape == (2, 6, 1, 64)
    for row, steepness in enumerate((0.3, 0.5)):
        for frame in range(6):
            exact = burgers_wave(x, frame * 0.02, 0.1, steepness=steepness)
            np.testing.assert_allclose(run[row, frame, 0], exact, atol=1e-7)


def test_the_clock_starts_at_t0():
    """Forcing with frequency 1 and one mode: its mean over the box is zero, its value depends on the time."""
    solver = SpectralBurgers(GRID, 1e-4, 0.1)
    one = SineForcing(np.ones(1), np.ones(1), np.ones(1), np.zeros(1), length=2 * np.pi)
    forcing = jax.tree.map(lambda leaf: leaf[None], one)
    frame0 = np.zeros((1, 1, 64))
    for t0 in (0.0, 3.0):
        run = free_run(solver, frame0, forcing, 1, t0=t0)
        expected = np.sin(t0 + GRID.axis(0, 0.5))
        np.testing.assert_allclose(run[0, 1, 0] / solver.dt, expected, atol=1e-3)


def test_the_window_leaves_out_early_frames():
    truth = np.zeros((2, 4, 1, 8))
    prediction = truth.copy()
    prediction[0, 1] = 5.0  # before the window
    prediction[1, 3] = 2.0  # inside
    np.testing.assert_allclose(window_error(prediction, truth, 2), [0.0, 2.0])


def test_observe_maps_every_frame():
    solver = SpectralBurgers(GRID, 0.005, 0.1)
    frame0 = burgers_wave(GRID.axis(0), 0.0, 0.1)[None, None]
    run = free_run(solver, frame0, None, 2, t0=0.0, observe=lambda u: u[:, ::2])
    assert run.shape == (1, 3, 1, 32)


def trajectories(frames, first_seed=5):
    count, last = len(frames), frames.shape[1] - 1
    seeds = tuple(range(first_seed, first_seed + count))
    return Trajectories(frames, seeds, 0.02 * np.arange(last + 1), {})


def two_forcings():
    """One trajectory is pushed with the amplitude 1, the other with 3."""
    one = SineForcing(np.ones(1), np.ones(1), np.ones(1), np.zeros(1), length=2 * np.pi)
    three = SineForcing(3 * np.ones(1), np.ones(1), np.ones(1), np.zeros(1), length=2 * np.pi)
    return jax.tree.map(lambda *leaves: np.stack(leaves), one, three)


@pytest.mark.parametrize("per_batch", [1, 2])
def test_a_score_is_that_of_a_rollout_of_every_trajectory_in_batches_of_any_size(monkeypatch, per_batch):
    solver = SpectralBurgers(GRID, 0.01, 0.1)
    truth = np.random.default_rng(0).normal(size=(2, 4, 1, 64)).astype(np.float32)
    monkeypatch.setattr(scores, "BATCH_BYTES", per_batch * truth[0].nbytes)
    run = make_free_run(solver, 3, t0=1.0, substeps=2)
    seen = []
    found = score(run, None, trajectories(truth), two_forcings(), grid=GRID, first=2, watch=seen.append)
    direct = free_run(solver, truth[:, 0], two_forcings(), 3, t0=1.0, substeps=2)
    assert [len(batch) for batch in seen] == [per_batch] * (2 // per_batch)
    np.testing.assert_allclose(np.concatenate(seen), direct, atol=1e-6)
    np.testing.assert_allclose(found["mse"]["per_trajectory"], window_error(direct, truth, 2), rtol=1e-5)
    assert found["seeds"] == [5, 6]


def test_a_closure_is_scored_as_it_is_coupled():
    solver = SpectralBurgers(GRID, 0.01, 0.1)
    closure = build_classical("hyperviscosity", jnp.asarray(30.0), 1, 2 * np.pi)
    truth = np.random.default_rng(0).normal(size=(2, 4, 1, 64))
    per_coupling = {}
    for coupling in ("frozen", "after"):
        run = make_free_run(solver, 3, t0=0.0, coupling=coupling)
        per_coupling[coupling] = score(run, closure, trajectories(truth), None, grid=GRID, first=1, precision="float64")
        rolled = [rollout(solver, closure, jnp.asarray(u), 3, t0=0.0, coupling=coupling) for u in truth[:, 0]]
        expected = np.square(np.stack(rolled) - truth[:, 1:]).mean()
        assert per_coupling[coupling]["mse"]["mean"] == pytest.approx(expected, rel=1e-12)
    assert per_coupling["frozen"]["mse"]["mean"] != per_coupling["after"]["mse"]["mean"]


def test_one_program_serves_all_weights(monkeypatch):
    """Tracing evaluates the kernels; a second coefficient must not trace again."""
    traced = []

    class Counted(Hyperviscosity):
        def prepare(self, n):
            traced.append(n)
            return Hyperviscosity(self.coefficient).prepare(n)

    run = make_free_run(SpectralBurgers(GRID, 0.01, 0.1), 1, t0=0.0)
    one = jnp.ones(())
    frame0 = np.random.default_rng(0).normal(size=(1, 1, 64))
    results = [
        run(Closure(Counted(jnp.asarray(c)), Statistics(jnp.zeros(1), one, one)), frame0, None) for c in (1.0, 90.0)
    ]
    assert len(traced) == 1
    assert np.abs(results[0] - results[1]).max() > 1e-3
