import numpy as np
import pytest

from sino.metrics.correlation import correlation, correlation_times

X = 2 * np.pi * np.arange(32) / 32


def test_a_shifted_sine_correlates_as_the_cosine_of_the_shift_whatever_its_size_and_mean():
    shifts = np.array([0.0, 0.3, np.pi / 2, 2.0, np.pi])
    truth = np.broadcast_to(np.sin(X), (1, 5, 1, 32))
    moved = 7 + 3 * np.sin(X - shifts[:, None])[None, :, None]
    np.testing.assert_allclose(correlation(moved, truth)[0], np.cos(shifts), atol=1e-14)


def test_components_are_taken_together():
    """One component agrees and holds 9 tenths of the variance, the other is reversed: 0.9 - 0.1."""
    truth = np.stack([3 * np.sin(X), np.sin(X)])[None, None]
    prediction = np.stack([3 * np.sin(X), -np.sin(X)])[None, None]
    assert correlation(prediction, truth)[0, 0] == pytest.approx(0.8)


def test_the_time_at_which_a_sine_that_drifts_away_is_lost():
    """Shift 0.1 t: the correlation is cos(0.1 t), and falls under 0.95 at t = 10 arccos 0.95 = 3.1756."""
    times = 40 + 0.01 * np.arange(501)
    shifts = 0.1 * (times - 40)
    truth = np.broadcast_to(np.sin(X), (1, 501, 1, 32))
    moved = np.sin(X - shifts[:, None])[None, :, None]
    found, never = correlation_times(correlation(moved, truth), times)
    assert found[0] == pytest.approx(10 * np.arccos(0.95), abs=1e-5)
    assert found[0] == pytest.approx(3.1756, abs=1e-4)
    assert not never[0]


def test_between_two_frames_the_correlation_is_a_straight_line():
    """0.98 at 2, 0.90 at 4: 0.95 is passed at 2.75, which is 1.75 after frame 0 at time 1."""
    correlations = np.array([[1.0, 0.98, 0.90, 1.0, 0.0]])
    found, never = correlation_times(correlations, np.array([1.0, 2.0, 4.0, 5.0, 6.0]))
    assert found == pytest.approx([1.75]) and not never.any()


def test_what_is_never_lost_counts_to_the_end_and_what_never_agreed_to_zero():
    correlations = np.array([[1.0, 0.96, 0.95], [0.5, 1.0, 1.0], [1.0, 1.0, 0.0]])
    found, never = correlation_times(correlations, np.array([10.0, 11.0, 12.0]))
    np.testing.assert_allclose(found, [2.0, 0.0, 1.05])
    np.testing.assert_array_equal(never, [True, False, False])


def test_a_simulation_that_blew_up_is_lost():
    truth = np.broadcast_to(np.sin(X), (1, 4, 1, 32))
    prediction = truth.copy()
    prediction[0, 2] = np.inf
    prediction[0, 3, 0, 5] = np.nan
    np.testing.assert_allclose(correlation(prediction, truth), [[1, 1, 0, 0]])
    np.testing.assert_array_equal(correlation(np.ones_like(truth), truth), np.zeros((1, 4)))
    huge = (1e30 * truth).astype(np.float32)
    np.testing.assert_allclose(correlation(huge, truth), 1.0, rtol=1e-6)
