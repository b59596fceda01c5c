"""Forcings of the two-dimensional flows: their formulas at the faces, one pytree per trajectory, any resolution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import repeat
from sino.physics.exact import taylor_green
from sino.physics.forcing import KolmogorovForcing, LinearDrag, Sum, TaylorGreenForcing
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import clocked
from sino.physics.staggered import divergence, from_streamfunction
from sino.physics.vorticity import SpectralNavierStokes

AMPLITUDE, WAVENUMBER, LENGTH = 1.7, 3.0, 5.0
at_any_resolution = pytest.mark.parametrize("n", [(16, 16), (15, 15)], ids=lambda n: "x".join(map(str, n)))


def build(kind, amplitude=AMPLITUDE):
    return kind(jnp.asarray(amplitude), jnp.asarray(WAVENUMBER), LENGTH)


def faces(n):
    """The `u` faces `((i+1) dx, (j+1/2) dy)` and the `v` faces `((i+1/2) dx, (j+1) dy)`, spelled out."""
    i, j = np.meshgrid(np.arange(n[0]), np.arange(n[1]), indexing="ij")
    dx, dy = LENGTH / n[0], LENGTH / n[1]
    return ((i + 1) * dx, (j + 0.5) * dy), ((i + 0.5) * dx, (j + 1) * dy)


def random_velocity(n, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal((2, *n)))


@at_any_resolution
def test_kolmogorov_forcing_is_its_formula_at_the_faces(n):
    (_, y), _ = faces(n)
    expected = np.stack([AMPLITUDE * np.sin(2 * np.pi * WAVENUMBER * y / LENGTH), np.zeros(n)])
    np.testing.assert_allclose(build(KolmogorovForcing)(jnp.zeros((2, *n)), 0.0), expected, rtol=0, atol=1e-14)


@at_any_resolution
def test_taylor_green_forcing_is_its_formula_at_the_faces(n):
    (xu, yu), (xv, yv) = faces(n)
    k = 2 * np.pi * WAVENUMBER / LENGTH
    expected = AMPLITUDE * np.stack([np.sin(k * xu) * np.cos(k * yu), -np.cos(k * xv) * np.sin(k * yv)])
    np.testing.assert_allclose(build(TaylorGreenForcing)(jnp.zeros((2, *n)), 0.0), expected, rtol=0, atol=1e-14)


def test_taylor_green_forcing_pushes_the_taylor_green_flow():
    grid = Grid((16, 16), (2 * np.pi, 2 * np.pi))
    forcing = TaylorGreenForcing(jnp.asarray(1.0), jnp.asarray(2.0), 2 * np.pi)
    result = forcing(jnp.zeros((2, 16, 16)), 0.0)
    np.testing.assert_allclose(result, taylor_green(grid, 0.0, 0.1, wavenumber=2), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", [KolmogorovForcing, TaylorGreenForcing])
@at_any_resolution
def test_forcings_have_no_discrete_divergence(kind, n):
    """On square cells, where the forcing's box is the grid's: the projection has nothing to remove."""
    f = build(kind)(jnp.zeros((2, *n)), 0.0)
    div = divergence(f, Grid(n, (LENGTH, LENGTH)))
    assert np.abs(div).max() < 1e-14 * AMPLITUDE * 4 * n[0] / LENGTH


def test_drag_is_proportional_to_the_velocity():
    u = random_velocity((16, 16))
    np.testing.assert_array_equal(LinearDrag(jnp.asarray(0.25))(u, 0.0), -0.25 * u)


def test_sum_adds_every_term():
    u = random_velocity((16, 16))
    terms = (build(KolmogorovForcing), build(TaylorGreenForcing), LinearDrag(jnp.asarray(0.25)), lambda u, t: t * u)
    expected = sum(np.asarray(term(u, 0.5)) for term in terms)
    np.testing.assert_allclose(Sum(terms)(u, 0.5), expected, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(Sum(terms[:1])(u, 0.5), terms[0](u, 0.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("parameter_dtype", [np.float32, np.float64])
def test_result_has_the_precision_of_the_state(dtype, parameter_dtype):
    """Whatever that of the parameters: they are drawn in 64 bits and used in 32."""
    a, k, rate = (jnp.asarray(p, parameter_dtype) for p in (AMPLITUDE, WAVENUMBER, 0.1))
    source = Sum((KolmogorovForcing(a, k, LENGTH), TaylorGreenForcing(a, k, LENGTH), LinearDrag(rate)))
    assert source(random_velocity((16, 16)).astype(dtype), jnp.asarray(0.1, dtype)).dtype == dtype


@pytest.mark.parametrize("solver_class", [FiniteVolumeNavierStokes, SpectralNavierStokes])
def test_each_trajectory_has_its_own_forcing(solver_class):
    """`vmap` over the forcing's leaves, with the states: the same as one trajectory after the other."""
    solver = solver_class(Grid((16, 16), (LENGTH, LENGTH)), 0.02, 0.01)
    flows = jnp.stack([from_streamfunction(random_velocity((16, 16), seed)[0], solver.grid) for seed in (0, 1)])
    amplitudes, rates = jnp.asarray([0.5, 3.0]), jnp.asarray([0.1, 0.7])
    wavenumbers = jnp.asarray([1.0, 2.0])

    @eqx.filter_jit
    def advance(v, amplitude, wavenumber, rate):
        source = Sum((KolmogorovForcing(amplitude, wavenumber, LENGTH), LinearDrag(rate)))
        return repeat(clocked(solver, source, t0=0.0), 5)(v, 0)

    parameters = (amplitudes, wavenumbers, rates)
    batch = jax.vmap(advance)(flows, *parameters)
    loop = np.stack([advance(v, *p) for v, *p in zip(flows, *parameters, strict=True)])
    assert np.abs(loop[0] - advance(flows[0], amplitudes[1], wavenumbers[1], rates[1])).max() > 1e-2
    np.testing.assert_allclose(batch, loop, rtol=0, atol=1e-13)


def test_a_forcing_is_a_pytree_of_its_parameters():
    source = Sum((build(KolmogorovForcing), LinearDrag(jnp.asarray(0.1))))
    assert len(jax.tree.leaves(source)) == 3
