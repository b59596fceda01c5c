import numpy as np
import pytest

from sino.core.errors import UserError
from sino.evaluate.scaling import fit_power_law

SIZES = np.array([1e3, 1e3, 4e3, 4e3, 2e4, 2e4, 1e5])


def test_an_exact_power_law_is_recovered():
    law = fit_power_law(SIZES, 3.0 * SIZES**-0.568)
    assert law.exponent == pytest.approx(0.568)
    assert law.prefactor == pytest.approx(3.0)
    np.testing.assert_allclose(law.interval, 0.568, rtol=1e-6)
    np.testing.assert_allclose(law(SIZES), 3.0 * SIZES**-0.568)


def test_the_interval_of_three_points_is_the_textbooks():
    """log2 x = 0, 1, 2 and log2 error = 0, -1, -1: slope -1/2, residual squares 1/6, one degree of freedom."""
    law = fit_power_law(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.5, 0.5]))
    margin = 12.7062047 * np.sqrt((1 / 6) / 1 / 2)
    assert law.exponent == pytest.approx(0.5)
    np.testing.assert_allclose(law.interval, (0.5 - margin, 0.5 + margin), rtol=1e-7)


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_the_interval_covers_the_truth_as_often_as_it_says(level):
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        error = 2.0 * SIZES**-0.3 * np.exp(0.4 * rng.normal(size=len(SIZES)))
        low, high = fit_power_law(SIZES, error, level).interval
        covered += low <= 0.3 <= high
    assert covered / 2000 == pytest.approx(level, abs=0.015 if level > 0.9 else 0.035)


@pytest.mark.parametrize(
    ("x", "error"),
    [([1.0, 2.0], [1.0, 0.5]), ([2.0, 2.0, 2.0], [1.0, 0.5, 0.7]), ([1.0, 2.0, 3.0], [1.0, 0.0, 0.1])]
    + [([1.0, 2.0, 3.0], [1.0, np.nan, 0.1]), ([-1.0, 2.0, 3.0], [1.0, 0.5, 0.1])],
)
def test_what_has_no_power_law_is_refused(x, error):
    with pytest.raises(UserError, match="a power law needs"):
        fit_power_law(np.array(x), np.array(error))
