from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.evaluate.kernels import (
    explained_variance,
    kernel_components,
    kernel_families,
    matrix_rank,
    singular_values,
)
from sino.models.sino import SINO

pytestmark = pytest.mark.usefixtures("quick_to_compile")


@cache
def sino(dim=1, seed=0, **sizes):
    sizes = {"width": 3, "depth": 2, "kernel": 5} | sizes
    return SINO(dim, key=jax.random.PRNGKey(seed), **sizes)


def orthonormal(rows, columns, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(rows, columns)))[0]


def test_a_family_of_rank_three_has_three_components_with_their_shares():
    """Deviations 3, 2 and 1 along three directions, and a mean, which is no component but counts for the rank."""
    scores = orthonormal(40, 4, 0)
    scores = np.linalg.qr(np.concatenate([np.ones((40, 1)), scores], axis=1))[0][:, 1:4]  # of zero mean
    directions = orthonormal(25, 4, 1).T
    samples = scores @ np.diag([3.0, 2.0, 1.0]) @ directions[:3] + 7 * directions[3]
    explained = explained_variance(samples)
    np.testing.assert_allclose(explained[:3], [9 / 14, 13 / 14, 1.0])
    np.testing.assert_allclose(explained[2:], 1.0)
    assert matrix_rank(samples) == 4
    assert matrix_rank(samples - samples.mean(axis=0)) == 3


@pytest.mark.parametrize("rank", [1, 5, 110])
def test_the_shortcut_for_low_rank_gives_the_singular_values_of_the_whole_matrix(rank):
    a = orthonormal(130, rank, 0) @ np.diag(np.geomspace(1, 1e-6, rank)) @ orthonormal(120, rank, 1).T
    found = singular_values(a, sketch=80)
    assert len(found) == (80 if rank < 80 else 120)
    np.testing.assert_allclose(found[:rank], np.geomspace(1, 1e-6, rank), rtol=1e-8)
    assert matrix_rank(a) == rank


@pytest.mark.parametrize("n", [2, 5])
def test_the_rank_is_the_bottleneck_plus_one_and_the_centred_rank_is_the_bottleneck(n):
    model = sino(dim=2, frequency_bottleneck=n, spatial_bottleneck=n)
    rows = kernel_components(model, (8, 8))
    assert [(row["block"], row["branch"]) for row in rows] == [
        (block, branch) for block in (0, 1) for branch in ("frequency", "spatial")
    ]
    for row in rows:
        assert row["bottleneck"] == n
        assert row["rank"] == row["rank_bound"] == n + 1
        assert (row["samples"], row["features"]) == ((8 * 5, 2 * 9) if row["branch"] == "frequency" else (25, 9))
        np.testing.assert_allclose(row["explained"][n - 1 :], 1.0)
        assert row["explained"][n - 2] < 1 - 1e-6


def test_single_branches_have_one_family_per_block():
    for branch in ("frequency", "spatial"):
        families = kernel_families(sino(dim=2, branch=branch), (8, 8))
        assert [(family.block, family.branch) for family in families] == [(0, branch), (1, branch)]


def test_samples_are_the_kernels_that_the_network_applies():
    model = sino(dim=2)
    for family in kernel_families(model, (6, 6)):
        block = model.blocks[family.block]
        rows = family.samples()
        if family.branch == "spatial":
            applied = np.moveaxis(np.asarray(block.spatial_kernel()), (0, 1), (-2, -1)).reshape(25, 9)
        else:
            m = np.moveaxis(np.asarray(block.frequency_filter((6, 6))), (0, 1), (-2, -1))
            applied = np.concatenate([m.real, m.imag], axis=-2).reshape(6, 4, 18)
            rows, applied = rows.reshape(6, 4, 18)[:, 1:3], applied[:, 1:3]  # where k and -k are not both stored
        np.testing.assert_allclose(rows, applied, atol=1e-6)


def test_a_family_that_does_not_vary_has_no_components():
    model = sino()
    heads = lambda model: [block.spatial.heads[0].weight for block in model.blocks]  # noqa: E731
    constant = eqx.tree_at(heads, model, replace_fn=jnp.zeros_like)
    for row in kernel_components(constant, (16,)):
        if row["branch"] == "spatial":
            assert (row["explained"], row["rank"]) == ([], 1)
        else:
            assert row["rank"] == 3


def test_with_channel_pairs_as_samples_more_components_are_possible():
    """A pair's features are then the real and the imaginary part of each mode, so real and imaginary heads add up."""
    family = next(kernel_families(sino(), (32,)))
    z = family.features.reshape(3, -1).T
    pairs = np.concatenate([z @ head.reshape(3, -1) for head in family.matrices]).T
    assert matrix_rank(family.samples()) == 3
    assert matrix_rank(pairs) == matrix_rank(pairs - pairs.mean(axis=0)) == 2 * 3
