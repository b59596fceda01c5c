"""Transolver: sizes, attention against plain loops, resolution, gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.layers import OUT_STD
from sino.models.model import count_parameters
from sino.models.transolver import PhysicsAttention, Transolver


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


def softmax(a):
    """Of one vector."""
    return np.exp(a) / np.exp(a).sum()


def plain_attention(attention, x, heads, temperature):
    """One head after the other, one point and one token at a time."""
    p = jax.tree.map(np.asarray, attention)
    assigned = p.assigned.weight @ x + p.assigned.bias[:, None]
    content = p.content.weight @ x + p.content.bias[:, None]
    d, n, slices = x.shape[0] // heads, x.shape[1], p.slice.weight.shape[0]
    joined = np.zeros_like(x)
    for head in range(heads):
        part = slice(d * head, d * head + d)
        w = np.stack(
            [softmax((p.slice.weight @ assigned[part, i] + p.slice.bias) / temperature[head]) for i in range(n)]
        )
        tokens = [sum(w[i, g] * content[part, i] for i in range(n)) / (w[:, g].sum() + 1e-5) for g in range(slices)]
        q, k, v = ([matrix @ z for z in tokens] for matrix in (p.query.weight, p.key.weight, p.value.weight))
        for g in range(slices):
            share = softmax(np.array([q[g] @ k[other] for other in range(slices)]) / np.sqrt(d))
            attended = sum(share[other] * v[other] for other in range(slices))
            for i in range(n):
                joined[part, i] += w[i, g] * attended
    return p.out.weight @ joined + p.out.bias[:, None]


@pytest.mark.parametrize(("dim", "count"), [(1, 8_601), (2, 54_306)])
def test_the_published_counts(dim, count, getkey):
    model = eqx.filter_eval_shape(Transolver, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))


@pytest.mark.parametrize("learned", [True, False])
def test_attention_against_loops(learned):
    """A learned temperature is kept within 0.1 and 5."""
    attention = filled(PhysicsAttention, 12, 3, 5, learned)
    temperature = [0.5] * 3
    if learned:
        given = jnp.asarray([-0.2, 0.7, 9.0])
        attention = eqx.tree_at(lambda a: a.temperature, attention, given)
        temperature = [0.1, 0.7, 5.0]
    x = np.asarray(random(12, 7))
    expected = plain_attention(attention, x, 3, temperature)
    np.testing.assert_allclose(run(attention, jnp.asarray(x)), expected, rtol=1e-11, atol=1e-12)


def test_the_slice_layer_starts_orthogonal(getkey):
    weight = np.asarray(PhysicsAttention(16, 8, 32, True, key=getkey()).slice.weight)
    np.testing.assert_allclose(weight.T @ weight, np.eye(2), atol=1e-6)


def test_attention_on_twice_the_points():
    """Smooth periodic features: sums over points converge fast. What is left is the 1e-5 in the denominator."""
    attention = filled(PhysicsAttention, 2, 1, 4, True)
    coarse, fine = (field((n, n)).reshape(2, -1) for n in (32, 64))
    at_coarse = run(attention, fine).reshape(2, 64, 64)[:, ::2, ::2].reshape(2, -1)
    np.testing.assert_allclose(at_coarse, run(attention, coarse), rtol=1e-6, atol=1e-6)


def test_the_network_converges_with_the_first_order():
    """The coordinates jump where the domain closes, so the means over points err as `1/n`.

    Measured at the common points in relative L2, for one field with wavenumbers up to 3 on 128, 256, 512 points.
    """
    model = filled(Transolver, 1)
    results = [run(model, field((n,))) for n in (128, 256, 512)]
    errors = [
        float(jnp.linalg.norm(fine[:, ::2] - coarse) / jnp.linalg.norm(coarse))
        for coarse, fine in zip(results[:-1], results[1:], strict=True)
    ]
    assert errors[0] < 0.01
    assert 1.6 < errors[0] / errors[1] < 2.4, errors


@pytest.mark.parametrize(("n", "dtype"), [((6, 10), jnp.float64), ((12, 20), jnp.float32)])
def test_unequal_channels_any_grid_both_precisions(n, dtype):
    model = filled(Transolver, len(n), channels_in=3, channels_out=5, width=12, depth=1, heads=2, slices=4)
    model = jax.tree.map(lambda a: a.astype(dtype), model)
    x = random(3, *n, dtype=dtype)
    y = run(model.prepare(n), x)
    assert y.shape == (5, *n) and y.dtype == dtype and bool(jnp.isfinite(y).all())


def test_the_last_layer_starts_small(getkey):
    """64 small weights and no bias, so the first results are small, in float32."""
    model = Transolver(1, key=getkey(), channels_out=4, depth=1)
    assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {jnp.dtype(jnp.float32)}
    assert 0.7 * OUT_STD < np.std(model.head.layers[-1].weight[:, :16]) < 1.3 * OUT_STD
    assert not np.any(model.head.layers[-1].bias)
    y = run(model.prepare((12,)), random(1, 12, dtype=np.float32))
    assert y.shape == (4, 12) and y.dtype == jnp.float32 and 0 < float(jnp.abs(y).max()) < 1


def test_mistakes(getkey):
    with pytest.raises(UserError, match="1 or 2 dimensions, not 3"):
        Transolver(3, key=getkey())
    with pytest.raises(UserError, match="16, must be a multiple of its heads, 3"):
        Transolver(1, key=getkey(), heads=3)


@pytest.mark.parametrize("n", [(16,), (6, 8)])
def test_every_parameter_receives_a_gradient(n):
    model = filled(Transolver, len(n), depth=1)
    x, cotangent = random(2, len(n), *n)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(m(x) * cotangent)))(model)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        assert jnp.abs(leaf).sum() > 0, jax.tree_util.keystr(path)
