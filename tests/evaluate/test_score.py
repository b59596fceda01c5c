import jax
import numpy as np

from sino.core.grid import Grid
from sino.evaluate.score import free_run, window_error
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
