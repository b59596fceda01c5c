"""The random velocity field of the benchmarks, against its recipe written out in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.physics.initial import filtered_velocity
from sino.physics.staggered import divergence

GRID = Grid((64, 64), (2 * np.pi, 2 * np.pi))
MAX_SPEED = 7.0


@functools.cache
def field(seed, peak=3.0):
    return filtered_velocity(seed, GRID, MAX_SPEED, peak)


def recipe(seed, n=64, max_speed=MAX_SPEED):
    """One key per component, normal float32 noise; its transform times `p(k)/k`; then three times: project, scale."""
    keys = jax.random.split(jax.random.PRNGKey(seed))
    noise = np.stack([jax.random.normal(key, (n, n), jnp.float32) for key in keys]).astype(np.float64)
    index = np.fft.fftfreq(n, 1 / n)
    kx, ky = np.meshgrid(index, index, indexing="ij")  # the box is 2 pi: indices are wavenumbers
    k = np.hypot(kx, ky)
    k[0, 0] = 1
    p = np.exp(-((np.log(3) + 0.25 - np.log(k)) ** 2) / 0.5 - np.log(k))
    band = p / k
    band[0, 0] = 0
    v = np.fft.ifft2(np.fft.fft2(noise) * band).real
    h = 2 * np.pi / n
    symbol = -((2 / h * np.sin(kx * h / 2)) ** 2 + (2 / h * np.sin(ky * h / 2)) ** 2)
    symbol[0, 0] = 1
    for _ in range(3):
        div = (v[0] - np.roll(v[0], 1, 0) + v[1] - np.roll(v[1], 1, 1)) / h
        pressure = np.fft.ifft2(np.fft.fft2(div) / symbol).real
        v = v - np.stack([np.roll(pressure, -1, 0) - pressure, np.roll(pressure, -1, 1) - pressure]) / h
        v = v * max_speed / np.sqrt((v**2).sum(axis=0)).max()
    return v


def energy_by_shell(v):
    index = np.fft.fftfreq(64, 1 / 64)
    shell = np.round(np.hypot(index[:, None], index[None, :])).astype(int)
    return np.bincount(shell.ravel(), (np.abs(np.fft.fft2(v)) ** 2).sum(axis=0).ravel())


@pytest.mark.parametrize("seed", [0, 17])
def test_field_is_the_recipe(seed):
    """To what float32 leaves after three projections. Measured: 1.2e-5 of a largest speed of 7."""
    np.testing.assert_allclose(field(seed), recipe(seed), rtol=0, atol=3e-5)


def test_largest_speed_is_the_one_asked_for():
    assert np.sqrt((field(0) ** 2).sum(axis=0)).max() == pytest.approx(MAX_SPEED, rel=1e-6)


def test_field_has_no_divergence_and_no_mean():
    v = field(0)
    unit = np.finfo(np.float32).eps * MAX_SPEED * sum(1 / h for h in GRID.dx)
    assert np.abs(divergence(jnp.asarray(v), GRID)).max() < 2 * unit
    assert np.abs(v.mean(axis=(1, 2))).max() < 1e-6


def test_field_is_float32_numpy_in_either_working_precision():
    """A seed names the same flow whether 64-bit numbers are on (as in this suite) or off."""
    with jax.enable_x64(False):
        single = filtered_velocity(0, GRID, MAX_SPEED)
    for v in (single, field(0)):
        assert isinstance(v, np.ndarray)
        assert v.dtype == np.float32
    np.testing.assert_array_equal(single, field(0))


def test_energy_sits_around_the_peak():
    """Its density in k, `k (p(k)/k)^2`, is largest at `3 e^(-1/8) = 2.6`, with mean 3. Doubling `peak` doubles both."""
    low, high = (sum(energy_by_shell(field(seed, peak)) for seed in range(4)) for peak in (3.0, 6.0))
    shells = np.arange(low.size)
    assert np.argmax(low) in (2, 3)
    assert (shells * low).sum() / low.sum() == pytest.approx(3, abs=0.3)
    assert (shells * high).sum() / high.sum() == pytest.approx(6, abs=0.6)


def test_seeds_differ():
    a, b = field(0).ravel(), field(1).ravel()
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.5
    assert not np.allclose(field(0)[0], field(0)[1].T, atol=0.1)  # and so do the components
