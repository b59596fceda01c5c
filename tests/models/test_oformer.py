"""OFormer: sizes, attention against plain loops, rotary positions, resolution, gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.layers import OUT_STD, coordinates
from sino.models.model import count_parameters
from sino.models.oformer import OFormer, RotaryAttention


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


def plain_rotation(position, frequencies, scale):
    """The orthogonal matrix that turns the channels of one head at one point."""
    pairs, dim = len(frequencies), len(position)
    matrix = np.zeros((2 * pairs * dim,) * 2)
    for axis in range(dim):
        for j, frequency in enumerate(frequencies):
            angle = position[axis] * scale * 64 * frequency
            a = axis * 2 * pairs + j
            b = a + pairs
            matrix[a, a] = matrix[b, b] = np.cos(angle)
            matrix[b, a], matrix[a, b] = np.sin(angle), -np.sin(angle)
    return matrix


def plain_attention(attention, x, z, where, heads):
    """One head after the other, every pair of points: `y_i = sum_j (R_i q_i . R_j k_j) v_j / n`."""
    p = jax.tree.map(np.asarray, attention)
    q, k, v = p.query.weight @ x, p.key.weight @ z, p.value.weight @ z
    for a in (k, v):
        for channel in range(a.shape[0]):
            a[channel] = (a[channel] - a[channel].mean()) / np.sqrt(a[channel].var() + 1e-5)
    d, n = x.shape[0] // heads, x.shape[1]
    turns = [plain_rotation(where[:, i], p.frequency, {1: 1, 2: 16}[len(where)]) for i in range(n)]
    joined = np.zeros_like(x)
    for head in range(heads):
        part = slice(d * head, d * head + d)
        for i in range(n):
            for j in range(n):
                joined[part, i] += (turns[i] @ q[part, i]) @ (turns[j] @ k[part, j]) * v[part, j] / n
    return p.out.weight @ joined


@pytest.mark.parametrize(("dim", "count"), [(1, 5_444), (2, 38_087)])
def test_the_published_counts(dim, count, getkey):
    model = eqx.filter_eval_shape(OFormer, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))
    assert model.cross.frequency.shape == (1,)


@pytest.mark.parametrize("n", [(9,), (3, 4)])
def test_attention_against_loops(n):
    """Cross attention, with two frequencies per axis."""
    attention = filled(RotaryAttention, 24, 3, len(n), (True, False, True))
    assert attention.frequency.shape == ({1: 4, 2: 2}[len(n)],)
    where = coordinates(n, jnp.float64).reshape(len(n), -1)
    x, z = random(2, 24, where.shape[1])
    expected = plain_attention(attention, np.asarray(x), np.asarray(z), np.asarray(where), 3)
    np.testing.assert_allclose(run(attention, x, z, attention.turn(where)), expected, rtol=1e-10, atol=1e-11)


def test_the_rotation_makes_scores_depend_on_distance():
    """Moving all points by the same amount changes nothing, when the features stay where they are."""
    attention = filled(RotaryAttention, 16, 2, 2, (True, True, True))
    where = random(2, 11, seed=2)
    x, z = random(2, 16, 11)
    moved = run(attention, x, z, attention.turn(where + 0.37))
    np.testing.assert_allclose(moved, run(attention, x, z, attention.turn(where)), rtol=1e-9, atol=1e-11)


def test_initial_projections(getkey):
    """`(Q + I)/d_h` with `Q` orthogonal: three in the cross attention, the query in the propagators."""
    model = OFormer(2, key=getkey(), depth=1)
    assert model.cross.frequency == model.layers[0].attention.frequency == 1
    layers = [model.cross.query, model.cross.key, model.cross.value, *(p.attention.query for p in model.layers)]
    for layer in layers:
        orthogonal = 4 * np.asarray(layer.weight, np.float64) - np.eye(32)
        np.testing.assert_allclose(orthogonal @ orthogonal.T, np.eye(32), atol=1e-5)


def test_the_1d_network_converges_with_the_first_order():
    """Angles and coordinates jump where the domain closes, so the means over points err as `1/n`.

    Measured at the common points in relative L2, for one field with wavenumbers up to 3 on 128, 256, 512 points.
    """
    model = filled(OFormer, 1)
    results = [run(model, field((n,))) for n in (128, 256, 512)]
    errors = [
        float(jnp.linalg.norm(fine[:, ::2] - coarse) / jnp.linalg.norm(coarse))
        for coarse, fine in zip(results[:-1], results[1:], strict=True)
    ]
    assert errors[0] < 0.05
    assert 1.6 < errors[0] / errors[1] < 2.4, errors


@pytest.mark.parametrize(("n", "dtype"), [((6, 10), jnp.float64), ((12, 20), jnp.float32)])
def test_unequal_channels_any_grid_both_precisions(n, dtype):
    model = filled(OFormer, len(n), channels_in=3, channels_out=5, width=16, depth=1, heads=2)
    model = jax.tree.map(lambda a: a.astype(dtype), model)
    x = random(3, *n, dtype=dtype)
    y = run(model.prepare(n), x)
    assert y.shape == (5, *n) and y.dtype == dtype and bool(jnp.isfinite(y).all())


def test_the_last_layer_starts_small(getkey):
    """64 small weights and no bias, so the first results are small, in float32."""
    model = OFormer(1, key=getkey(), channels_out=4, depth=1)
    assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {jnp.dtype(jnp.float32)}
    assert 0.7 * OUT_STD < np.std(model.decoder.weight[:, :16]) < 1.3 * OUT_STD
    assert not np.any(model.decoder.bias)
    y = run(model.prepare((12,)), random(1, 12, dtype=np.float32))
    assert y.shape == (4, 12) and y.dtype == jnp.float32 and 0 < float(jnp.abs(y).max()) < 1


def test_mistakes(getkey):
    with pytest.raises(UserError, match="1 or 2 dimensions, not 3"):
        OFormer(3, key=getkey())
    with pytest.raises(UserError, match="16, must be a multiple of 2 times its heads, 3"):
        OFormer(1, key=getkey(), heads=3)
    with pytest.raises(UserError, match="16, must be a multiple of 4 times its heads, 8"):
        OFormer(2, key=getkey(), width=16)


def test_every_parameter_receives_a_gradient():
    """The rotary frequencies too: they are trained."""
    model = filled(OFormer, 2, depth=1)
    x, cotangent = random(2, 2, 6, 8)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(m(x) * cotangent)))(model)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        assert jnp.abs(leaf).sum() > 0, jax.tree_util.keystr(path)
