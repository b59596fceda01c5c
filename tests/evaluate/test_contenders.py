import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flows import damping, flow

from sino.core.grid import Grid
from sino.coupling.hybrid import rollout
from sino.evaluate.contenders import Contender, doubled_frame_zero, frame_zero, simulate
from sino.evaluate.timing import Stopwatch, seconds_per_time
from sino.physics.staggered import U_OFFSET, V_OFFSET

pytestmark = pytest.mark.usefixtures("quick_to_compile")


def vortices(n):
    """A smooth flow `(1, 2, n, n)`, exact at the faces: `psi = sin x cos 2y + 0.3 cos(3x + y)`, and a mean velocity."""
    grid = Grid((n, n), (2 * math.pi,) * 2)
    (x, y), (s, t) = (np.meshgrid(grid.axis(0, a), grid.axis(1, b), indexing="ij") for a, b in (U_OFFSET, V_OFFSET))
    u = 0.3 - 2 * np.sin(x) * np.sin(2 * y) - 0.3 * np.sin(3 * x + y)
    v = -0.2 - np.cos(s) * np.cos(2 * t) + 0.9 * np.sin(3 * s + t)
    return np.stack([u, v])[None]


@pytest.mark.parametrize("coupled", [False, True])
def test_a_simulation_is_the_rollout_of_the_coupled_solver_seen_on_the_coarse_grid(coupled):
    b = flow("burgers-forced", 32, 8)
    closure = damping(0.7, 1) if coupled else None
    start = np.random.default_rng(0).normal(size=(1, 1, 32))
    seen = simulate(Contender("x", b, 16, closure), start, [7], 3, 8, "float64")
    forcing = b.force(7)
    u0 = b.coarsen(jnp.asarray(start[0]), (16,))
    frames = rollout(b.solver(16), closure, u0, 3, t0=b.start, forcing=forcing, substeps=b.substeps(16))
    expected = [np.asarray(b.coarsen(u, (8,))) for u in (u0, *frames)]
    np.testing.assert_allclose(seen[0], expected, rtol=1e-12)


def test_the_spectral_solver_in_fourier_space_takes_the_same_steps():
    b = flow("ns-forced-re1000", 16, 8).scheme_variant("strong")
    start = vortices(16)
    seen = simulate(Contender("x", b, 16, steps=2), start, [0], 2, 16, "float64")
    solver = b.build(b.grid(16), b.frame / 2)
    u, forcing = jnp.asarray(start[0]), b.force(0)
    step = jax.jit(lambda u, t: solver.step(u, forcing, t))
    for i in range(4):
        u = step(u, b.start + i * solver.dt)
    np.testing.assert_allclose(seen[0, -1], u, atol=1e-12)


def test_frame_zero_is_the_initial_state_after_the_warm_up():
    b = flow("burgers-forced", 32, 8, warmup=0.05)
    found = frame_zero(b, [3, 4])
    assert b.warmup_steps == 5 and found.shape == (2, 1, 32)
    for row, seed in enumerate((3, 4)):
        u0, forcing = jnp.asarray(b.sample(seed, b.grid(32))), b.force(seed)
        expected = rollout(b.solver(32), None, u0, 5, t0=0.0, forcing=forcing, substeps=b.substeps(32))[-1]
        np.testing.assert_allclose(found[row], expected, atol=1e-12)


def test_a_doubled_field_is_the_same_field_at_more_points():
    """Of a velocity on staggered faces: the shift by half a cell changes with the grid."""
    doubled = doubled_frame_zero(flow("ns-decaying", 16, 8), vortices(16), [0])
    np.testing.assert_allclose(doubled, vortices(32), atol=1e-12)


def test_doubling_keeps_values_at_points_and_starts_cell_averages_anew():
    x = 2 * np.pi * np.arange(16) / 16
    start = (1 + np.sin(3 * x))[None, None]
    spectral = doubled_frame_zero(flow("burgers-decaying", 16, 8), start, [0])
    np.testing.assert_allclose(spectral[0, 0], 1 + np.sin(3 * 2 * np.pi * np.arange(32) / 32), atol=1e-12)
    b = flow("burgers-forced", 16, 8)
    averages = doubled_frame_zero(b, start, [4])
    np.testing.assert_array_equal(averages, frame_zero(replace(b, sizes=replace(b.sizes, fine=32)), [4]))


def test_more_steps_per_frame_take_more_time():
    b = flow("burgers-decaying", 64, 16)
    cheap, dear = Contender("cheap", b, 16), Contender("dear", b, 64, steps=40)
    seconds = seconds_per_time([cheap, dear], [0], "float32", Stopwatch(2, longest=64, call_seconds=0.02, repeats=3))
    assert 0 < 4 * seconds["cheap"] < seconds["dear"]
