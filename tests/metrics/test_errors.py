import numpy as np
import pytest

from sino.metrics.errors import bootstrap_interval, mean_squared_error, normalised_rmse, standard_error


def test_mean_squared_error_by_hand():
    truth = np.zeros((2, 3, 1, 4))
    prediction = truth.copy()
    prediction[1, 2, 0, 1] = 2.0
    expected = np.zeros((2, 3))
    expected[1, 2] = 1.0
    np.testing.assert_array_equal(mean_squared_error(prediction, truth), expected)


def test_a_failed_trajectory_does_not_poison_its_neighbours():
    truth = np.zeros((2, 2, 1, 4))
    prediction = np.stack([np.full((2, 1, 4), np.nan), np.ones((2, 1, 4))])
    error = mean_squared_error(prediction, truth)
    assert np.isnan(error[0]).all()
    np.testing.assert_array_equal(error[1], 1)


def test_normalised_rmse_is_in_standard_deviations_of_the_reference():
    x = 2 * np.pi * np.arange(32) / 32
    truth = np.broadcast_to(5 + 4 * np.sin(x), (3, 2, 1, 32))
    prediction = np.stack([truth[0], np.full_like(truth[1], 5.0), truth[2]])
    prediction[2, 1] += 4.0  # wrong by the square root of 2 times the deviation, in one frame of two
    found = normalised_rmse(mean_squared_error(prediction, truth), truth)
    np.testing.assert_allclose(found, [0, 1, 1], atol=1e-14)


def test_standard_error_of_known_values():
    assert standard_error(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(np.sqrt(5 / 3) / 2)


def test_bootstrap_interval_matches_the_normal_theory_and_repeats():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = bootstrap_interval(values)
    assert low < values.mean() < high
    assert (high - low) / 2 == pytest.approx(1.96 * standard_error(values), rel=0.05)
    assert bootstrap_interval(values) == (low, high)
