from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.evaluate import bounds
from sino.evaluate.bounds import (
    branch_operator,
    fno_bounds,
    kept_mode_norms,
    largest_slope,
    lipschitz_bound,
    multiplier,
    operator_norm,
    sino_bounds,
)
from sino.evaluate.kernels import kernel_families, precise
from sino.models import build_model
from sino.models.fno import SpectralConv

GRIDS = {1: (8,), 2: (4, 6)}

pytestmark = pytest.mark.usefixtures("quick_to_compile")


@cache
def network(name="sino", dim=1, seed=0, **sizes):
    sizes = {"width": 3, "depth": 1} | ({"kernel": 3} if name.startswith("sino") else {}) | sizes
    return build_model(name, dim=dim, key=jax.random.PRNGKey(seed), **sizes)


def dense(operator, shape):
    """The matrix of a linear map, column by column."""
    identity = jnp.eye(int(np.prod(shape))).reshape(-1, *shape)
    return np.asarray(jax.jit(jax.vmap(operator))(identity)).reshape(len(identity), -1).T


def linear_hypernetwork(model):
    """The first block's spatial hypernetwork made linear on the box, of gain 2 * 3 * 0.5 * 4 = 12 everywhere."""
    net = model.blocks[0].spatial
    gains = [2.0, 3.0, 0.5]
    for i, gain in enumerate(gains):
        net = eqx.tree_at(lambda n: n.layers[i].weight, net, gain * jnp.eye(2))  # noqa: B023
        net = eqx.tree_at(lambda n: n.layers[i].bias, net, jnp.full(2, 100.0))  # noqa: B023
    net = eqx.tree_at(lambda n: n.heads[0].weight, net, 4 * jnp.eye(9, 2))
    return eqx.tree_at(lambda m: m.blocks[0].spatial, model, net)


def test_a_linear_networks_lipschitz_constant_is_the_product_of_its_gains():
    model = linear_hypernetwork(network("sino-spa", dim=2, spatial_hidden=2))
    (family,) = kernel_families(model, (6, 6))
    expected = 12 / np.sqrt(3**2 * 3)  # the kernel is scaled by 1/sqrt(offsets * width)
    assert lipschitz_bound(family) == pytest.approx(expected, rel=1e-9)
    assert largest_slope(family, points=10) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dim", [1, 2])
def test_slopes_between_pairs_of_points_stay_below_the_largest_and_reach_it(dim):
    for family in kernel_families(network(dim=dim), GRIDS[dim]):
        rng = np.random.default_rng(1)
        x = rng.uniform(-1, 1, (dim, 2000))
        y = np.clip(x + 1e-4 * rng.normal(size=x.shape), -1, 1)
        kernels = [
            np.concatenate([head.reshape(len(head), -1).T @ np.asarray(family.net.features(jnp.asarray(p)))])
            for head in family.matrices
            for p in (x, y)
        ]
        differences = [b - a for a, b in zip(kernels[::2], kernels[1::2], strict=True)]
        slopes = np.linalg.norm(np.concatenate(differences), axis=0) / np.linalg.norm(y - x, axis=0)
        largest = largest_slope(family)
        assert 0.9 * largest < slopes.max() <= lipschitz_bound(family)
        assert largest <= lipschitz_bound(family)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("branch", ["frequency", "spatial"])
@pytest.mark.parametrize("form", ["factorised", "dense"])
def test_both_norms_of_a_branch_are_the_largest_singular_value_of_its_matrix(dim, branch, form):
    n = GRIDS[dim]
    block = precise(network(dim=dim, form=form)).blocks[0]
    operator = branch_operator(block, branch, n)
    expected = np.linalg.svd(dense(operator, (3, *n)), compute_uv=False)[0]
    assert np.linalg.norm(multiplier(operator, 3, n), 2, axis=(-2, -1)).max() == pytest.approx(expected, rel=1e-10)
    assert operator_norm(operator, (3, *n), tolerance=1e-12, iterations=20_000) == pytest.approx(expected, rel=1e-5)


def test_power_iteration_finds_the_norm_of_any_matrix_and_of_zero():
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(7, 5)))
    expected = np.linalg.norm(np.asarray(matrix), 2)
    assert operator_norm(lambda x: matrix @ x, (5,), tolerance=1e-14) == pytest.approx(expected, rel=1e-6)
    assert operator_norm(lambda x: 0 * x, (5,)) == 0.0


def test_the_multiplier_of_a_shift_is_a_phase():
    shift = multiplier(lambda x: jnp.roll(2 * x, 1, axis=-1), 2, (8,))
    expected = 2 * np.exp(-2j * np.pi * np.arange(5) / 8)
    np.testing.assert_allclose(shift, expected[:, None, None] * np.eye(2), atol=1e-12)


WIDE = {"frequency_bottleneck": 9, "spatial_bottleneck": 5}


@pytest.mark.parametrize("factor", [1.0, 10.0])
@pytest.mark.parametrize(("dim", "sizes"), [(1, {}), (1, {"clip": 80.0}), (2, WIDE)])
def test_bounds_hold_for_random_and_for_scaled_up_weights(dim, factor, sizes):
    model = jax.tree.map(lambda leaf: factor * leaf, network(dim=dim, **sizes))
    rows = sino_bounds(model, GRIDS[dim])
    assert [row["branch"] for row in rows] == ["frequency", "spatial"]
    for row in rows:
        assert row["holds"] is True
        assert 0 < row["largest_slope"] <= row["lipschitz_bound"]
        assert 0 < row["norm"] <= row["norm_exact"] * (1 + 1e-9)
        assert row["norm"] > 0.98 * row["norm_exact"]
        assert row["norm_exact"] <= row["norm_bound"]


def test_scaling_the_heads_scales_the_norm_and_every_bound():
    model = network()
    heads = lambda m: [m.blocks[0].frequency.heads, m.blocks[0].spatial.heads]  # noqa: E731
    doubled = eqx.tree_at(heads, model, replace_fn=lambda layers: jax.tree.map(lambda leaf: 2 * leaf, layers))
    for before, after in zip(sino_bounds(model, (8,)), sino_bounds(doubled, (8,)), strict=True):
        for key in ("lipschitz_bound", "largest_slope", "norm_bound", "norm", "norm_exact", "paper_bound"):
            assert after[key] == pytest.approx(2 * before[key], rel=1e-6), key


def test_the_check_fails_when_a_bound_is_broken(monkeypatch):
    def holds():
        (row,) = sino_bounds(network("sino-spa"), (8,))
        return row["holds"]

    original = bounds.branch_operator
    assert holds()
    monkeypatch.setattr(bounds, "branch_operator", lambda *given: lambda h: 100 * original(*given)(h))
    assert not holds()  # the operator is larger than its bound
    monkeypatch.setattr(bounds, "branch_operator", original)
    monkeypatch.setattr(bounds, "lipschitz_bound", lambda family: 0.9 * largest_slope(family))
    assert not holds()  # a slope is larger than its bound


def test_the_printed_bound_forgets_the_bias_of_the_heads():
    """With dead units the kernel is its bias: the printed bound is zero, the norm is not; the corrected one holds."""
    model = network()
    last = lambda m: [m.blocks[0].frequency.layers[2].bias, m.blocks[0].spatial.layers[2].bias]  # noqa: E731
    dead = eqx.tree_at(last, model, replace_fn=lambda bias: bias - 1e4)
    for row in sino_bounds(dead, (8,)):
        assert row["paper_bound"] == 0.0 < row["norm"]
        assert (row["holds"], row["paper_holds"]) == (True, False)


def test_the_norm_of_fno_is_a_maximum_over_modes_not_a_sum():
    """Matrices k I on modes 0..K-1: the norm is K - 1, the sum over modes is quadratic in K."""
    for modes in (3, 6):
        model = network("fno", modes=(modes,))
        ramp = jnp.asarray(np.arange(modes) * np.eye(3)[..., None])
        model = eqx.tree_at(lambda m: m.spectral[0].weights[0].real, model, ramp)
        model = eqx.tree_at(lambda m: m.spectral[0].weights[0].imag, model, 0 * ramp)
        (row,) = fno_bounds(model, (16,))
        assert row["norm_bound"] == row["norm_exact"] == pytest.approx(modes - 1)
        assert row["norm"] == pytest.approx(modes - 1, rel=1e-3)
        assert row["sum_over_modes"] == pytest.approx(modes * (modes - 1) / 2)
        assert (row["modes"], row["lipschitz_bound"], row["holds"]) == (modes, None, True)


def test_fno_in_two_dimensions_is_bounded_by_its_kept_modes():
    conv = precise(SpectralConv(2, 2, (2, 3), key=jax.random.PRNGKey(0)))
    assert kept_mode_norms(conv).shape == (2 * 2 * 3,)  # positive and negative kx
    expected = np.linalg.svd(dense(conv, (2, 6, 8)), compute_uv=False)[0]
    assert expected <= kept_mode_norms(conv).max() * (1 + 1e-9)
    assert np.linalg.norm(multiplier(conv, 2, (6, 8)), 2, axis=(-2, -1)).max() == pytest.approx(expected, rel=1e-10)
