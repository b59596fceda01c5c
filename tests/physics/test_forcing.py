import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import rollout
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.burgers_spectral import SpectralBurgers
from sino.physics.forcing import SineForcing
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.solver import clocked

LENGTH = 3.0
GRID, LONG_GRID = Grid((16,), (LENGTH,)), Grid((16,), (32.0,))
SOLVERS = {
    "finite volumes": FiniteVolumeBurgers(GRID, dt=0.125, viscosity=0.01),
    "spectral": SpectralBurgers(GRID, dt=0.125, viscosity=0.01),
    "Kuramoto-Sivashinsky": KuramotoSivashinsky(LONG_GRID, dt=0.125),
}
every_solver = pytest.mark.parametrize("name", SOLVERS)


def forcing(seed=0, waves=4, **options):
    rng = np.random.default_rng(seed)
    amplitude, frequency, phase = (jnp.asarray(rng.normal(size=waves)) for _ in range(3))
    return SineForcing(amplitude, frequency, jnp.asarray(1.0 + np.arange(waves)), phase, length=LENGTH, **options)


def formula(f, x, t):
    """The definition, wave by wave, at points x."""
    waves = zip(*(np.asarray(p) for p in (f.amplitude, f.frequency, f.mode, f.phase)), strict=True)
    return sum(a * np.sin(w * t + 2 * np.pi * k * x / LENGTH + phase) for a, w, k, phase in waves)


# ---------------------------------------------------------------------------------------------- the clock


@every_solver
def test_a_source_is_called_at_the_stage_times(name):
    solver, times = SOLVERS[name], []

    def source(u, t):
        times.append(float(t))
        assert u.shape == (1, 16) and u.dtype == jnp.float64
        return jnp.zeros_like(u)

    clocked(solver, source, t0=2.0)(jnp.ones((1, 16)), 4)  # not compiled, so the times are numbers
    t, dt = 2.5, 0.125
    middle = [t + dt / 2, t + dt / 2] if name == "Kuramoto-Sivashinsky" else []
    expected = [t, *middle, t + dt] if middle else [t, t + dt, t + dt / 2]
    assert times == expected


@every_solver
def test_a_source_in_time_is_integrated_exactly_over_a_rollout(name):
    """A uniform state is at rest under each equation, so that `du/dt = 4 t^3` only: `u = 1 + t^4 - t0^4`.

    Every integrator is exact for it (Simpson's rule), if each stage of each step has its own time.
    """
    t0, frames, substeps = 2.0, 3, 4
    step = clocked(SOLVERS[name], lambda u, t: jnp.full_like(u, 4.0) * t**3, t0=t0)
    _, u = jax.jit(lambda u: rollout(step, u, frames, substeps=substeps))(jnp.ones((1, 16)))
    t = t0 + 0.125 * substeps * np.arange(1, frames + 1)
    np.testing.assert_allclose(u, np.broadcast_to((1 + t**4 - t0**4)[:, None, None], (3, 1, 16)), rtol=1e-14)


@every_solver
def test_a_source_sees_the_state_of_its_stage(name):
    """`du/dt = -u` from a uniform state gives the Taylor polynomial of e^-dt, to the order of the integrator."""
    order = 4 if name == "Kuramoto-Sivashinsky" else 3
    u = SOLVERS[name].step(jnp.full((1, 16), 2.0), lambda u, t: -u, 0.0)
    polynomial = np.polynomial.Polynomial([1.0, 1.0, 1 / 2, 1 / 6, 1 / 24][: order + 1])
    np.testing.assert_allclose(u, 2 * polynomial(-0.125), rtol=1e-14)


@every_solver
def test_restarting_the_clock_changes_the_flow(name):
    """The slip of the published benchmark. A forced run continued with its index is the long run; from 0 it is not."""
    step = clocked(SOLVERS[name], forcing(), t0=2.0)
    run = jax.jit(lambda u, start: rollout(step, u, 4, start=start)[0])
    half = run(jnp.zeros((1, 16)), 0)
    whole = jax.jit(lambda u: rollout(step, u, 8)[0])(jnp.zeros((1, 16)))
    np.testing.assert_allclose(run(half, 4), whole, rtol=0, atol=1e-13)
    assert np.abs(run(half, 0) - whole).max() > 0.1


@every_solver
def test_the_clock_is_t0_plus_index_times_dt(name):
    step = clocked(SOLVERS[name], forcing(), t0=2.0)
    later = clocked(SOLVERS[name], forcing(), t0=2.5)
    u = jnp.zeros((1, 16))
    np.testing.assert_allclose(step(u, 4), later(u, 0), rtol=0, atol=1e-15)


# ---------------------------------------------------------------------------------------------- SineForcing


@pytest.mark.parametrize("n", [16, 17])
@pytest.mark.parametrize("t", [0.0, 1.7, 12.0])
def test_sine_forcing_is_its_formula(n, t):
    x = (np.arange(n) + 0.5) * LENGTH / n
    np.testing.assert_allclose(forcing()(jnp.zeros((1, n)), t), formula(forcing(), x, t)[None], rtol=0, atol=1e-13)


def test_the_cell_average_is_the_mean_over_each_cell():
    """By Gauss' quadrature, exact to round-off for waves as long as these; and by the factor it should be."""
    n, t = 16, 1.7
    averaged = forcing(cell_average=True)(jnp.zeros((1, n)), t)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x = (np.arange(n)[:, None] + 0.5 + nodes[None] / 2) * LENGTH / n
    np.testing.assert_allclose(averaged[0], formula(forcing(), x, t) @ (weights / 2), rtol=0, atol=1e-13)
    f = forcing()
    reduced = dataclasses.replace(f, amplitude=f.amplitude * np.sinc(np.asarray(f.mode) / n))
    np.testing.assert_allclose(averaged, reduced(jnp.zeros((1, n)), t), rtol=0, atol=1e-15)


def test_cell_averages_nest():
    """The mean of the fine cells in a coarse cell is the coarse value: the same forcing on every grid."""
    f, t = forcing(cell_average=True), 0.9
    fine, coarse = (f(jnp.zeros((1, n)), t)[0] for n in (48, 12))
    np.testing.assert_allclose(fine.reshape(12, 4).mean(axis=1), coarse, rtol=0, atol=1e-14)
    fine, coarse = (forcing()(jnp.zeros((1, n)), t)[0] for n in (48, 12))
    assert np.abs(fine.reshape(12, 4).mean(axis=1) - coarse).max() > 0.01  # point values do not


def test_point_values_agree_where_centres_coincide():
    """The centre of a coarse cell is the centre of the middle one of three fine cells."""
    fine, coarse = (forcing()(jnp.zeros((1, n)), 0.9)[0] for n in (36, 12))
    np.testing.assert_allclose(fine[1::3], coarse, rtol=0, atol=1e-14)


def test_every_trajectory_may_have_its_own_forcing():
    forcings = [forcing(seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *forcings)
    u = jnp.zeros((1, 16))
    batched = jax.vmap(lambda f: f(u, 0.4))(stacked)
    np.testing.assert_allclose(batched, jnp.stack([f(u, 0.4) for f in forcings]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("cell_average", [False, True])
def test_sine_forcing_has_the_precision_of_the_state(cell_average):
    """Its parameters are 64-bit whatever the state; in float32 it is right to a few units of the last place."""
    f = forcing(cell_average=cell_average)
    single = f(jnp.zeros((1, 16), jnp.float32), jnp.asarray(12.0, jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, f(jnp.zeros((1, 16)), 12.0), rtol=0, atol=1e-5)
