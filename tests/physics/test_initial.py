import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.physics.initial import random_phases, sine_forcing, sine_modes, zero

SEEDS = [0, 1, 63]


def uniform(key, count, low, high):
    return np.asarray(jax.random.uniform(key, (count,), jnp.float64, low, high))


def integers(key, count, low, high):
    """From `low` to `high - 1`."""
    return np.asarray(jax.random.randint(key, (count,), low, high, jnp.int64))


# Each test below writes the draws of the protocol out again: a seed names a trajectory of the benchmark, for good.


@pytest.mark.parametrize("seed", SEEDS)
def test_sine_modes(seed):
    k1, k2, k3 = jax.random.split(jax.random.PRNGKey(seed), 3)
    amplitude, phase, mode = uniform(k1, 10, -0.5, 0.5), uniform(k2, 10, 0.0, 2 * np.pi), integers(k3, 10, 1, 4)
    n, length = 48, 64.0
    x = np.arange(n) * length / n
    waves = [a * np.sin(2 * np.pi * k * x / length + p) for a, k, p in zip(amplitude, mode, phase, strict=True)]
    u = sine_modes(seed, Grid((n,), (length,)))
    assert u.shape == (1, n) and u.dtype == np.float64
    np.testing.assert_allclose(u, np.sum(waves, axis=0)[None], rtol=0, atol=1e-14)


def test_sine_modes_are_the_same_on_every_grid():
    fine, coarse = (sine_modes(3, Grid((n,), (64.0,))) for n in (256, 64))
    np.testing.assert_allclose(fine[:, ::4], coarse, rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_phases(seed):
    n, peak = 64, 10
    phase = uniform(jax.random.PRNGKey(seed), n // 2 - 1, 0.0, 2 * np.pi)
    x = 2 * np.pi * np.arange(n) / n
    expected = np.zeros(n)
    for k in range(1, n // 2):
        energy = 2 / (3 * np.sqrt(np.pi)) * k**4 / peak**5 * np.exp(-((k / peak) ** 2))
        expected += 2 * np.sqrt(2 * energy) * np.cos(k * x + phase[k - 1])
    u = random_phases(seed, Grid((n,), (2 * np.pi,)))
    assert u.shape == (1, n) and u.dtype == np.float64
    np.testing.assert_allclose(u, expected[None], rtol=0, atol=1e-13)


def test_the_size_of_random_phases():
    """Standard deviation 1 (the mean energy is 1/2) and |u| up to about 3.7, as the benchmark's grid has them."""
    u = np.concatenate([random_phases(seed, Grid((2048,), (2 * np.pi,))) for seed in range(64)])
    assert u.std(axis=-1) == pytest.approx(np.ones(64), abs=1e-13)  # the spectrum is fixed, only phases are random
    assert np.abs(u).max() == pytest.approx(3.7, abs=0.1)  # measured: 3.73
    assert np.abs(u.mean(axis=-1)).max() < 1e-14


@pytest.mark.parametrize("seed", SEEDS)
def test_sine_forcing(seed):
    k1, k2, k3, k4 = jax.random.split(jax.random.PRNGKey(seed), 4)
    f = sine_forcing(seed, 2 * np.pi)
    np.testing.assert_array_equal(f.amplitude, uniform(k1, 20, -0.5, 0.5))
    np.testing.assert_array_equal(f.frequency, uniform(k2, 20, -0.4, 0.4))
    np.testing.assert_array_equal(f.mode, integers(k3, 20, 3, 7))
    np.testing.assert_array_equal(f.phase, uniform(k4, 20, 0.0, 2 * np.pi))
    assert f.length == 2 * np.pi and not f.cell_average


@pytest.mark.parametrize("sample", [zero, sine_modes, random_phases])
def test_states_do_not_depend_on_the_working_precision(sample):
    grid = Grid((32,), (2 * np.pi,))
    expected = sample(5, grid)
    with jax.enable_x64(False):
        u = sample(5, grid)
        assert not jax.config.jax_enable_x64  # and the setting is left alone
    assert u.dtype == np.float64
    np.testing.assert_array_equal(u, expected)


def test_forcings_do_not_depend_on_the_working_precision():
    expected = sine_forcing(5, 2 * np.pi)
    with jax.enable_x64(False):
        f = sine_forcing(5, 2 * np.pi)
        assert f(jnp.zeros((1, 8)), 0.5).dtype == jnp.float32
    for a, b in zip(jax.tree.leaves(f), jax.tree.leaves(expected), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_array_equal(a, b)


def test_seeds_differ():
    grid = Grid((64,), (2 * np.pi,))
    for sample in (sine_modes, random_phases):
        assert np.abs(sample(0, grid) - sample(1, grid)).max() > 0.1
    assert not np.any(zero(0, grid)) and zero(0, grid).shape == (1, 64)
