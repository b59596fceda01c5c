"""The U-Net: pooling, wiring of the skips, and the shifts that pooling respects."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.model import count_parameters
from sino.models.unet import UNet, max_pool


def network(make, *args, dtype=jnp.float64, **sizes):
    """A network with random parameters, without compiling its initialisation."""
    shapes = eqx.filter_eval_shape(make, *args, key=jax.random.PRNGKey(0), **sizes)
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: jnp.asarray(rng.normal(size=s.shape) / math.prod(s.shape[1:]) ** 0.5, dtype), shapes)


@eqx.filter_jit
def apply(model, x):
    return model(x)


def field(*shape, seed=1, dtype=jnp.float64):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def conv(layer, x):
    """Circular correlation in 1D with NumPy, and the ReLU."""
    half = layer.weight.shape[-1] // 2
    y = sum(np.asarray(layer.weight[..., j]) @ np.roll(x, half - j, axis=1) for j in range(2 * half + 1))
    return np.maximum(y + np.asarray(layer.bias)[:, None], 0)


def upsample(layer, x):
    """Kernel 2, stride 2: point `i` writes to `2i` and `2i + 1`."""
    y = np.stack([np.asarray(layer.weight[..., j]) @ x for j in (0, 1)], axis=-1).reshape(-1, 2 * x.shape[1])
    return y + np.asarray(layer.bias)[:, None]


def test_last_layer_starts_small():
    model = eqx.filter_jit(UNet)(1, key=jax.random.key(0, impl="unsafe_rbg"))
    assert 0 < jnp.abs(model.out.weight).max() < 0.04 and (model.out.bias == 0).all()


@pytest.mark.parametrize(("dim", "count"), [(1, 7_077), (2, 61_006)])
def test_parameter_count_is_the_papers(dim, count, getkey):
    model = eqx.filter_eval_shape(UNet, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))


def test_pooling_takes_the_largest_of_a_block():
    x = jnp.asarray([[1.0, 3.0, -2.0, -5.0]])
    np.testing.assert_array_equal(max_pool(x), [[3.0, -2.0]])
    y = jnp.asarray(np.arange(24.0).reshape(1, 4, 6)[:, ::-1])
    np.testing.assert_array_equal(max_pool(y), [[[19, 21, 23], [7, 9, 11]]])


def test_one_dimension_by_hand():
    model = network(UNet, 1)
    x = np.asarray(field(1, 16))
    double = lambda block, v: conv(block.convs[1], conv(block.convs[0], v))  # noqa: E731
    pool = lambda v: np.maximum(v[:, ::2], v[:, 1::2])  # noqa: E731
    a = double(model.encoders[0], x)
    b = double(model.encoders[1], pool(a))
    c = double(model.bottleneck, pool(b))
    assert (a.shape, b.shape, c.shape) == ((4, 16), (8, 8), (16, 4))
    e = double(model.decoders[0], np.concatenate([b, upsample(model.ups[0], c)]))
    f = double(model.decoders[1], np.concatenate([a, upsample(model.ups[1], e)]))
    y = np.asarray(model.out.weight) @ f + np.asarray(model.out.bias)[:, None]
    np.testing.assert_allclose(apply(model, jnp.asarray(x)), y, atol=1e-14)


def test_skips_carry_what_the_bottleneck_does_not():
    """With the way through the bottleneck shut, the output depends on the input through the skips only."""
    model = network(UNet, 2)
    x = field(2, 8, 12)
    shut = eqx.tree_at(lambda m: m.ups, model, jax.tree.map(jnp.zeros_like, model.ups))
    skips = [lambda m: m.decoders[0].convs[0].weight, lambda m: m.decoders[1].convs[0].weight]
    for where, kept in zip(skips, (8, 4), strict=True):
        shut = eqx.tree_at(where, shut, where(shut).at[:, kept:].set(0.0))
    assert jnp.abs(apply(shut, x) - apply(shut, 2 * x)).max() > 1e-6
    for where, kept in zip(skips, (8, 4), strict=True):
        shut = eqx.tree_at(where, shut, where(shut).at[:, :kept].set(0.0))
    np.testing.assert_array_equal(apply(shut, x), apply(shut, 2 * x))


@pytest.mark.parametrize("dim", [1, 2])
def test_shifts_by_four_commute_and_others_do_not(dim):
    model = network(UNet, dim, kernel=5)
    x = field(dim, *(16, 12)[:dim])

    def error(shift):
        return max(
            jnp.abs(apply(model, jnp.roll(x, shift, axis)) - jnp.roll(apply(model, x), shift, axis)).max()
            for axis in (1, dim)
        )

    assert error(4) < 1e-14 and error(8) < 1e-14
    assert all(error(shift) > 1e-6 for shift in (1, 2, 3))


@pytest.mark.parametrize("n", [(4,), (12,), (4, 8)])
def test_small_grids_and_unequal_channels(n):
    model = network(UNet, len(n), channels_in=3, channels_out=5, dtype=jnp.float32)
    y = eqx.filter_jit(model.prepare(n))(field(3, *n, dtype=jnp.float32))
    assert y.shape == (5, *n) and y.dtype == jnp.float32 and jnp.isfinite(y).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_every_parameter_has_a_gradient(dim):
    model = network(UNet, dim, kernel=5)
    x, cotangent = (field(dim, *(16, 12)[:dim], seed=seed) for seed in (1, 2))
    gradient = jax.jit(jax.grad(lambda m: (m(x) * cotangent).sum()))(model)
    assert all(jnp.abs(leaf).sum() > 0 for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(("dim", "n"), [(1, (6,)), (2, (8, 10)), (2, (9, 8)), (1, (8, 8))])
def test_wrong_sizes_are_named(dim, n, getkey):
    with pytest.raises(UserError, match=rf"U-Net.*divisible by 4.*\({n[0]},"):
        network(UNet, dim).prepare(n)
    with pytest.raises(UserError, match="U-Net.*3"):
        UNet(3, key=getkey())
