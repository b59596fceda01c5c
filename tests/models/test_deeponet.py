"""The inner product of branch and trunk by hand, and one function whatever the resolution."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.deeponet import DeepONet
from sino.models.layers import OUT_STD
from sino.models.model import count_parameters


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


def tanh_network(network, x):
    """A vector through the layers, in NumPy."""
    for layer in network.layers[:-1]:
        x = np.tanh(np.asarray(layer.weight) @ x + np.asarray(layer.bias))
    return np.asarray(network.layers[-1].weight) @ x + np.asarray(network.layers[-1].bias)


def harmonics(s):
    return [f(2 * np.pi * m * s) for m in (1, 2, 3, 4) for f in (np.cos, np.sin)]


def test_last_layer_starts_small():
    model = eqx.filter_jit(DeepONet)(1, key=jax.random.key(0, impl="unsafe_rbg"))
    assert model.branch.layers[-1].weight.std() == pytest.approx(OUT_STD, rel=0.1)


@pytest.mark.parametrize(("dim", "count"), [(1, 14_913), (2, 269_153)])
def test_parameter_count_is_the_papers(dim, count, getkey):
    model = eqx.filter_eval_shape(DeepONet, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))
    assert len(model.branch.layers) == len(model.trunk.layers) == 4


def test_one_dimension_by_hand():
    model = network(DeepONet, 1, sensors=(12,))
    u = np.asarray(field(1, 12))
    b = tanh_network(model.branch, u[0])
    y = [b @ tanh_network(model.trunk, np.array([s, 1, *harmonics(s)])) + float(model.bias) for s in np.arange(12) / 12]
    np.testing.assert_allclose(apply(model, jnp.asarray(u))[0], y, atol=1e-13)


def test_two_dimensions_by_hand():
    """Three outputs share 6 features, two each, and one bias."""
    model = network(DeepONet, 2, channels_in=1, channels_out=3, features=6, sensors=(4, 6))
    u = np.asarray(field(1, 4, 6))
    y = model.prepare((4, 6))(jnp.asarray(u))
    assert y.shape == (3, 4, 6)
    b = tanh_network(model.branch, u.ravel())
    for i, j in np.ndindex(4, 6):
        t = tanh_network(model.trunk, np.array([i / 4, j / 6, 1, *harmonics(i / 4), *harmonics(j / 6)]))
        expected = [b[2 * c : 2 * c + 2] @ t[2 * c : 2 * c + 2] + float(model.bias) for c in range(3)]
        np.testing.assert_allclose(y[:, i, j], expected, atol=1e-13)


@pytest.mark.parametrize("sizes", [(16, 32, 64), (32, 16, 48), (15, 30, 60)])
def test_one_function_at_every_resolution_in_1d(sizes):
    """A field with modes below 7, on grids coarser and finer than the sensors and equal to them."""
    model = network(DeepONet, 1, sensors=(sizes[1],))
    outputs = []
    for n in sizes:
        x = 2 * np.pi * np.arange(n) / n
        outputs.append(np.asarray(model(jnp.asarray((np.sin(3 * x) + np.cos(6 * x + 1) + 0.3)[None]))))
    step = np.gcd.reduce(sizes)
    for n, y in zip(sizes, outputs, strict=True):
        np.testing.assert_allclose(y[:, :: n // step], outputs[0][:, :: sizes[0] // step], atol=1e-13)
    assert np.abs(outputs[0] - outputs[0].mean()).max() > 1e-4


def test_one_function_at_every_resolution_in_2d():
    model = network(DeepONet, 2, sensors=(16, 12))
    outputs = []
    for n in [(8, 8), (16, 12), (16, 24), (32, 16)]:
        x, y = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in n), indexing="ij")
        u = model(jnp.asarray(np.stack([np.sin(3 * x - 2 * y), np.cos(x + 3 * y) + np.sin(2 * x)])))
        outputs.append(np.asarray(u[:, :: n[0] // 8, :: n[1] // 4]))
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], atol=1e-13)


@pytest.mark.parametrize("dim", [1, 2])
def test_shifts_do_not_commute(dim):
    model = network(DeepONet, dim, sensors=(8, 12)[:dim])
    x = field(dim, *(8, 12)[:dim])
    assert jnp.abs(apply(model, jnp.roll(x, 2, 1)) - jnp.roll(apply(model, x), 2, 1)).max() > 1e-3


@pytest.mark.parametrize("n", [(8,), (9,), (6, 10)])
def test_the_papers_network_on_small_grids(n):
    model = network(DeepONet, len(n), channels_in=3, channels_out=4, dtype=jnp.float32)
    y = eqx.filter_jit(model.prepare(n))(field(3, *n, dtype=jnp.float32))
    assert y.shape == (4, *n) and y.dtype == jnp.float32 and jnp.isfinite(y).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_every_parameter_has_a_gradient(dim):
    model = network(DeepONet, dim, sensors=(16, 12)[:dim])
    x, cotangent = (field(dim, *(12, 8)[:dim], seed=seed) for seed in (1, 2))
    gradient = jax.jit(jax.grad(lambda m: (m(x) * cotangent).sum()))(model)
    assert all(jnp.abs(leaf).sum() > 0 for leaf in jax.tree.leaves(gradient))


def test_wrong_sizes_are_named(getkey):
    with pytest.raises(UserError, match="DeepONet.*3"):
        DeepONet(3, key=getkey())
    with pytest.raises(UserError, match=r"DeepONet.*\(8, 8\)"):
        network(DeepONet, 1).prepare((8, 8))
    with pytest.raises(UserError, match="32 features between 3"):
        DeepONet(2, key=getkey(), channels_out=3)
