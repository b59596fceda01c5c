import numpy as np
import pytest

from sino.metrics.drift import energy, energy_drift, mean_drift

X = 2 * np.pi * np.arange(32) / 32


def test_energy_is_half_the_mean_square_of_all_components():
    u = np.stack([3 * np.sin(X), 4 * np.cos(X)])[None, None]
    assert energy(u) == pytest.approx(np.array([[(9 / 2 + 16 / 2) / 2]]))


def test_energy_drift_of_a_known_decay():
    """The reference decays as exp(-t), the simulation twice as fast: energies exp(-2t) and exp(-4t)."""
    t = np.array([0.0, 0.5, 1.0])
    truth = np.exp(-t)[None, :, None, None] * np.sin(X)
    prediction = np.exp(-2 * t)[None, :, None, None] * np.sin(X)
    expected = (1 + np.exp(-2) + np.exp(-4)) / (1 + np.exp(-1) + np.exp(-2)) - 1
    both = energy_drift(np.concatenate([prediction, truth]), np.concatenate([truth, truth]))
    np.testing.assert_allclose(both, [expected, 0.0], atol=1e-14)
    assert expected < 0
    assert energy_drift(2 * truth, truth) == pytest.approx([3.0])


def test_mean_drift_of_a_known_shift():
    """Means off by (3, 4) at one frame of two and by nothing at the other: rms 5/sqrt 2, in units of 1/sqrt 2."""
    truth = np.broadcast_to(np.stack([np.sin(X), np.cos(X)]), (1, 2, 2, 32))
    prediction = truth.copy()
    prediction[0, 1] += np.array([[3.0], [4.0]])
    assert mean_drift(prediction, truth) == pytest.approx([5.0])
    assert mean_drift(truth, truth) == pytest.approx([0.0])
    wrong_but_centred = truth + np.sin(2 * X)
    assert mean_drift(wrong_but_centred, truth) == pytest.approx([0.0], abs=1e-15)
