import numpy as np
import pytest

from sino.metrics.spectra import energy_spectrum, enstrophy_spectrum, resolved_shells, spectral_distance


@pytest.mark.parametrize("shape", [(1, 33), (1, 64), (2, 16, 24), (3, 8, 9, 10)])
def test_parseval(shape):
    u = np.random.default_rng(0).normal(size=shape)
    _, energy = energy_spectrum(u)
    assert energy.sum() == pytest.approx(0.5 * (u**2).sum(axis=0).mean(), rel=1e-12)


def test_one_mode_lands_in_one_shell_with_its_energy():
    x = 2 * np.pi * np.arange(64) / 64
    k, energy = energy_spectrum(3 * np.cos(5 * x + 0.3)[None])
    assert energy[5] == pytest.approx(9 / 4)
    assert np.delete(energy, 5).max() < 1e-25
    assert k[5] == 5


def test_taylor_green_puts_all_its_energy_in_one_shell():
    x = 2 * np.pi * np.arange(32) / 32
    u = np.stack([np.outer(np.sin(x), np.cos(x)), -np.outer(np.cos(x), np.sin(x))])
    _, energy = energy_spectrum(u)
    assert energy[1] == pytest.approx(0.25)  # |k| = sqrt(2) rounds to 1


def test_axes_are_treated_alike():
    u = np.random.default_rng(0).normal(size=(2, 16, 16))
    np.testing.assert_allclose(energy_spectrum(u)[1], energy_spectrum(u.transpose(0, 2, 1))[1], rtol=1e-12)


def test_a_single_mode_has_k_squared_times_its_energy_as_enstrophy():
    """psi = cos(3x) cos(4y): |k| = 5, energy 25/8, vorticity 25 psi, enstrophy 25^2/8."""
    x = 2 * np.pi * np.arange(32) / 32
    psi = np.outer(np.cos(3 * x), np.cos(4 * x))
    u = np.stack([-4 * np.outer(np.cos(3 * x), np.sin(4 * x)), 3 * np.outer(np.sin(3 * x), np.cos(4 * x))])
    assert energy_spectrum(u)[1][5] == pytest.approx(25 / 8)
    k, enstrophy = enstrophy_spectrum(25 * psi)
    assert k[5] == 5 and enstrophy[5] == pytest.approx(25**2 / 8)
    assert np.delete(enstrophy, 5).max() < 1e-24


@pytest.mark.parametrize("n, shells", [((64,), range(1, 32)), ((33,), range(1, 17)), ((16, 24), range(1, 8))])
def test_resolved_shells_end_before_nyquist(n, shells):
    assert list(np.arange(100)[resolved_shells(n)]) == list(shells)


def test_spectral_distance_of_known_factors():
    reference = np.array([1.0, 1e-2, 1e-4, 1e-6])
    assert spectral_distance(reference, reference) == 0
    assert spectral_distance(10 * reference, reference) == pytest.approx(1)
    assert spectral_distance(reference / 100, reference) == pytest.approx(2)
    assert spectral_distance(reference * np.array([1, 10, 1, 0.1]), reference) == pytest.approx(np.sqrt(0.5))


def test_spectral_distance_where_there_is_nothing():
    reference = np.array([1.0, 1e-4, 1e-20])
    assert spectral_distance(np.array([1.0, 1e-4, 1e3]), reference) == 0, "there the reference is round-off"
    masked = spectral_distance(np.array([1.0, 0.0, 0.0]), reference)
    assert masked == pytest.approx(10 / np.sqrt(2), rel=1e-3), "from 1e-4 to round-off, in one shell of two"
    assert np.isnan(spectral_distance(reference, 0 * reference))
    assert np.isnan(spectral_distance(np.full(3, np.nan), reference))
