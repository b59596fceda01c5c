import numpy as np
import pytest

from sino.evaluate.approximation import approximation_errors, smooth_family
from sino.models.hypernetwork import box


@pytest.fixture(scope="module")
def rows():
    return approximation_errors((1, 3, 6), hidden=8, steps=200)


def test_the_limit_is_the_distance_to_the_best_plane(rows):
    """By the theorem of Eckart and Young, from all singular values of the centred family."""
    family = smooth_family(box(2))
    centred = family - family.mean(axis=0)
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    for row in rows:
        n = row["bottleneck"]
        best = (left[:, :n] * values[:n]) @ right[:n]
        assert row["limit"] == pytest.approx(np.linalg.norm(centred - best) / np.linalg.norm(centred), rel=1e-6)


def test_no_fit_beats_the_limit_and_more_units_come_closer(rows):
    for row in rows:
        assert row["limit"] <= row["fitted"] <= row["fitted_largest"]
    fitted = [row["fitted"] for row in rows]
    assert 1.0 > fitted[0] > fitted[1] > fitted[2]  # 1 is the error of a constant


def test_the_family_is_what_it_says():
    family = smooth_family(np.array([[[0.3]], [[-0.2]]]), seed=4)
    centres = np.random.default_rng(4).uniform(-1, 1, (64, 2))
    assert family.shape == (1, 64)
    assert family[0, 5] == pytest.approx(np.exp(-((0.3 - centres[5, 0]) ** 2 + (-0.2 - centres[5, 1]) ** 2) / 2))
