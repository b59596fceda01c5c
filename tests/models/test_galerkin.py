"""The Galerkin transformer: sizes, attention against plain loops, symmetry, resolution, gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.galerkin import GalerkinAttention, GalerkinTransformer
from sino.models.layers import OUT_STD
from sino.models.model import count_parameters


@eqx.filter_jit
def run(model, *arguments):
    """The model, compiled."""
    return model(*arguments)


def random(*shape, seed=0, dtype=np.float64):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def filled(kind, *sizes, **named):
    """A network with parameters drawn by NumPy in float64: none is zero or tiny, and nothing is compiled for it."""
    rng = np.random.default_rng(1)

    def fill(a):
        return rng.uniform(0.4, 1, a.shape) if a.ndim == 1 else rng.standard_normal(a.shape) / np.sqrt(a.shape[1])

    shapes = eqx.filter_eval_shape(kind, *sizes, key=jax.random.PRNGKey(0), **named)
    return jax.tree.map(lambda a: jnp.asarray(fill(a)), shapes)


def field(n):
    """Wavenumbers up to 3 per axis, one channel per axis."""
    x = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in n), indexing="ij")
    channels = [np.cos(x[0] + 0.3) + 0.5 * np.sin(3 * x[-1]), np.sin(2 * x[0]) * np.cos(x[-1])]
    return jnp.asarray(np.stack(channels[: len(n)]))


def plain_linear(layer, x):
    y = np.zeros((layer.weight.shape[0], x.shape[1]))
    for row in range(y.shape[0]):
        y[row] = np.asarray(layer.weight)[row] @ x + np.asarray(layer.bias)[row]
    return y


@pytest.mark.parametrize(("dim", "count"), [(1, 36_449), (2, 151_874)])
def test_the_published_counts(dim, count, getkey):
    model = eqx.filter_eval_shape(GalerkinTransformer, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))


def test_attention_against_loops():
    """Every pair of points, one head after the other: `y_i = sum_j (q_i . k_j) v_j / N`."""
    attention = filled(GalerkinAttention, 12, 3)
    x = np.asarray(random(12, 7))
    q, k, v = (plain_linear(layer, x) for layer in (attention.query, attention.key, attention.value))
    joined = np.zeros_like(x)
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        for i in range(7):
            for j in range(7):
                joined[part, i] += (q[part, i] @ k[part, j]) * v[part, j] / 7
    np.testing.assert_allclose(
        run(attention, jnp.asarray(x)), plain_linear(attention.out, joined), rtol=1e-12, atol=1e-12
    )


def test_query_key_and_value_start_small_and_near_a_multiple_of_the_identity(getkey):
    attention = GalerkinAttention(16, 8, key=getkey())
    for layer in (attention.query, attention.key, attention.value):
        off = np.asarray(layer.weight) - 0.01 * np.eye(16)
        assert 0 < np.abs(off).max() <= 0.01 * np.sqrt(6 / 32) * (1 + 1e-5)
        assert not np.any(layer.bias)


def test_permuting_the_points_permutes_the_result():
    model = filled(GalerkinTransformer, 1)
    x = random(1, 20)
    order = np.random.default_rng(2).permutation(20)
    np.testing.assert_allclose(run(model, x[:, order]), run(model, x)[:, order], rtol=1e-11, atol=1e-11)


def test_attention_is_exact_on_band_limited_features():
    """Products of two channels have wavenumbers up to 6, which 16 points sum exactly: twice the points, same values."""
    attention = filled(GalerkinAttention, 2, 1)
    coarse, fine = (field((n, n)).reshape(2, -1) for n in (16, 32))
    at_coarse = run(attention, fine).reshape(2, 32, 32)[:, ::2, ::2].reshape(2, -1)
    np.testing.assert_allclose(at_coarse, run(attention, coarse), rtol=1e-11, atol=1e-12)


def test_twice_the_resolution_changes_little():
    """At the common points, in relative L2: the feed-forward layers have kinks, so the mean is no longer exact."""
    model = filled(GalerkinTransformer, 2)
    coarse, fine = run(model, field((32, 32))), run(model, field((64, 64)))
    common = fine[:, ::2, ::2]
    assert jnp.linalg.norm(common - coarse) < 5e-3 * jnp.linalg.norm(coarse)


@pytest.mark.parametrize(("n", "dtype"), [((6, 10), jnp.float64), ((12, 20), jnp.float32)])
def test_unequal_channels_any_grid_both_precisions(n, dtype):
    model = filled(GalerkinTransformer, len(n), channels_in=3, channels_out=5, width=12, depth=1, heads=2)
    model = jax.tree.map(lambda a: a.astype(dtype), model)
    x = random(3, *n, dtype=dtype)
    y = run(model.prepare(n), x)
    assert y.shape == (5, *n) and y.dtype == dtype and bool(jnp.isfinite(y).all())


def test_the_last_layer_starts_small(getkey):
    """64 small weights and no bias, so the first results are small, in float32."""
    model = GalerkinTransformer(1, key=getkey(), channels_out=4, depth=1)
    assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {jnp.dtype(jnp.float32)}
    assert 0.7 * OUT_STD < np.std(model.regressor.layers[-1].weight[:, :16]) < 1.3 * OUT_STD
    assert not np.any(model.regressor.layers[-1].bias)
    y = run(model.prepare((12,)), random(1, 12, dtype=np.float32))
    assert y.shape == (4, 12) and y.dtype == jnp.float32 and 0 < float(jnp.abs(y).max()) < 1


def test_mistakes(getkey):
    with pytest.raises(UserError, match="1 or 2 dimensions, not 3"):
        GalerkinTransformer(3, key=getkey())
    with pytest.raises(UserError, match="16, must be a multiple of its heads, 3"):
        GalerkinTransformer(1, key=getkey(), heads=3)


def test_every_parameter_receives_a_gradient():
    model = filled(GalerkinTransformer, 2, depth=1)
    x, cotangent = random(2, 2, 6, 8)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(m(x) * cotangent)))(model)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        assert jnp.abs(leaf).sum() > 0, jax.tree_util.keystr(path)
