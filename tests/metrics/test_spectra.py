import numpy as np
import pytest

from sino.metrics.spectra import energy_spectrum


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
