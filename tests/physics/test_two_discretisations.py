"""Two solvers that share nothing but the equation: their solutions approach each other as the grid is refined."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.fourier import truncate
from sino.core.grid import Grid
from sino.core.rollout import repeat
from sino.physics.forcing import KolmogorovForcing, LinearDrag, Sum
from sino.physics.initial import filtered_velocity
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import clocked
from sino.physics.staggered import project
from sino.physics.vorticity import SpectralNavierStokes

VISCOSITY, TIME, SPEED = 1e-2, 0.5, 1.0
FINE = 64  # resolves the flow: the spectral solution changes by 6e-5 from here to 128 points


def grid(n):
    return Grid((n, n), (2 * np.pi, 2 * np.pi))


def spectral(n, dt=0.1):
    return SpectralNavierStokes(grid(n), dt, VISCOSITY)


@functools.partial(jax.jit, static_argnums=1)
def resample(v, n):
    """The same flow, band-limited to 32 points, at the faces of a grid of `n`."""
    old = v.shape[1]
    spectrum = truncate(spectral(old).to_spectrum(v)[None], (old, old), (n, n))[0]
    return spectral(n).from_spectrum(spectrum)


@functools.partial(jax.jit, static_argnums=1)
def discretely_solenoidal(v, n):
    """The same, made free of divergence in the sense of the finite-volume solver: a change of second order."""
    return project(resample(v, n), grid(n))


@eqx.filter_jit
def advance(solver, v, steps, source):
    return repeat(clocked(solver, source, t0=0.0), steps)(v, 0)


def rms(a):
    return float(np.sqrt(np.mean(np.square(a))))


def kolmogorov_with_drag(amplitude, rate):
    """With zeros for a decaying flow: both flows then share their compiled steps."""
    forcing = KolmogorovForcing(jnp.asarray(amplitude), jnp.asarray(4.0), 2 * np.pi)
    return Sum((forcing, LinearDrag(jnp.asarray(rate))))


@pytest.mark.parametrize("amplitude, rate", [(0.0, 0.0), (1.0, 0.1)], ids=["decaying", "forced"])
def test_finite_volume_approaches_spectral(amplitude, rate):
    """With dt in proportion to dx the finite-volume scheme is of first order in time, of second in space. Measured:
    errors 4.7e-2, 1.5e-2, 5.5e-3 (decaying), 4.1e-2, 1.4e-2, 5.2e-3 (forced), orders 1.64, 1.47 and 1.57, 1.38."""
    source = kolmogorov_with_drag(amplitude, rate)
    v = jnp.asarray(filtered_velocity(0, grid(32), SPEED), jnp.float64)
    truth = advance(spectral(FINE, TIME / 20), resample(v, FINE), 20, source)
    errors = []
    for n in (32, 64, 128):
        solver = FiniteVolumeNavierStokes(grid(n), TIME / (n // 4), VISCOSITY)
        result = advance(solver, discretely_solenoidal(v, n), n // 4, source)
        errors.append(rms(result - resample(truth, n)) / rms(truth))
    assert rms(truth - resample(v, FINE)) > 0.2 * rms(truth)  # the flow has changed by much more than the errors
    assert errors[-1] < 7e-3
    for coarse, fine in zip(errors, errors[1:], strict=False):
        assert np.log2(coarse / fine) > 1.2
