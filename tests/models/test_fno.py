"""The spectral convolution against a direct sum of waves, and the network around it."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.fno import FNO, SpectralConv
from sino.models.layers import OUT_STD, ComplexWeight
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


def direct_sum(conv: SpectralConv, v: np.ndarray) -> np.ndarray:
    """`Re sum_k c_k R(k) v_hat(k) exp(i k x) / N` over the stored modes; `c_k` is 2 where `-k` is not stored."""
    n = v.shape[1:]
    v_hat = np.fft.fftn(v, axes=range(1, v.ndim))
    points = np.meshgrid(*(np.arange(m) for m in n), indexing="ij")
    blocks = [np.asarray(w.value()) for w in conv.weights]
    y = np.zeros((blocks[0].shape[0], *n))
    rows = [None] if len(n) == 1 else range(-(n[0] // 2), (n[0] + 1) // 2)
    for kx, ky in itertools.product(rows, range(n[-1] // 2 + 1)):
        if ky >= conv.modes[-1] or (kx is not None and not -conv.modes[0] <= kx < conv.modes[0]):
            continue
        if kx is None:
            matrix, k = blocks[0][:, :, ky], (ky,)
        else:
            matrix, k = (blocks[0][:, :, kx, ky] if kx >= 0 else blocks[1][:, :, kx + conv.modes[0], ky]), (kx, ky)
        wave = np.exp(2j * np.pi * sum(index * x / m for index, x, m in zip(k, points, n, strict=True)))
        amplitude = matrix @ v_hat[(slice(None), *k)]
        once = ky == 0 or 2 * ky == n[-1]
        y += (1 if once else 2) * np.real(np.multiply.outer(amplitude, wave)) / np.prod(n)
    return y


@pytest.mark.parametrize(
    ("modes", "n"),
    [((5,), (16,)), ((5,), (9,)), ((5,), (8,)), ((5,), (4,)), ((5,), (1,))]
    + [((3, 4), n) for n in [(12, 10), (7, 9), (6, 6), (4, 12), (12, 5), (3, 2)]],
)
def test_spectral_convolution_is_a_sum_of_waves(modes, n):
    conv = network(SpectralConv, 2, 3, modes)
    v = field(2, *n)
    np.testing.assert_allclose(conv(v), direct_sum(conv, np.asarray(v)), atol=1e-14)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_weights_ik_to_the_p_differentiate(order):
    conv = network(SpectralConv, 1, 1, (6,))
    symbol = (1j * np.arange(6)) ** order
    weight = ComplexWeight(jnp.asarray(symbol.real[None, None]), jnp.asarray(symbol.imag[None, None]))
    conv = eqx.tree_at(lambda c: c.weights[0], conv, weight)
    x = 2 * np.pi * np.arange(16) / 16
    u, exact = np.sin(2 * x) + np.cos(5 * x), np.sin(2 * x + order * np.pi / 2) * 2**order
    exact += np.cos(5 * x + order * np.pi / 2) * 5**order
    np.testing.assert_allclose(conv(jnp.asarray(u[None]))[0], exact, atol=1e-11)


@pytest.mark.parametrize("n", [(16, 12), (8, 16)])
def test_weights_ik_differentiate_in_both_directions(n):
    """`(d/dx + 3 d/dy)` of a wave that runs against the x axis."""
    conv = network(SpectralConv, 1, 1, (6, 5))
    blocks = []
    for kx in (np.arange(6), np.arange(-6, 0)):
        symbol = np.asarray(kx[:, None] + 3 * np.arange(5)[None], float)[None, None]
        blocks.append(ComplexWeight(jnp.zeros(symbol.shape), jnp.asarray(symbol)))
    conv = eqx.tree_at(lambda c: c.weights, conv, tuple(blocks))
    x, y = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in n), indexing="ij")
    u = np.sin(-3 * x + 2 * y) + np.cos(2 * x) + np.sin(x + 4 * y)
    exact = 3 * np.cos(-3 * x + 2 * y) - 2 * np.sin(2 * x) + 13 * np.cos(x + 4 * y)
    np.testing.assert_allclose(conv(jnp.asarray(u[None]))[0], exact, atol=1e-12)


def test_spectral_weights_start_uniform_and_small():
    conv = SpectralConv(4, 8, (16, 16), key=jax.random.key(0, impl="unsafe_rbg"))
    for weight in conv.weights:
        for part in (weight.real, weight.imag):
            assert part.dtype == jnp.float32 and part.shape == (8, 4, 16, 16)
            assert part.min() >= 0 and part.max() < 1 / 32
            np.testing.assert_allclose(part.mean(), 1 / 64, rtol=0.05)


def test_last_layer_starts_small():
    model = eqx.filter_jit(FNO)(1, key=jax.random.key(0, impl="unsafe_rbg"))
    assert model.head.layers[-1].weight.std() == pytest.approx(OUT_STD, rel=0.3)


@pytest.mark.parametrize(("dim", "count"), [(1, 11_073), (2, 2_106_018)])
def test_parameter_count_is_the_papers(dim, count, getkey):
    model = eqx.filter_eval_shape(FNO, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))


def test_two_layers_by_hand():
    model = network(FNO, 1, width=3, modes=(4,), hidden=5)
    x = field(1, 12)
    gelu = lambda a: jax.nn.gelu(a, approximate=False)  # noqa: E731
    linear = lambda layer, a: layer.weight @ a + layer.bias[:, None]  # noqa: E731
    v = linear(model.lift, x)
    v = gelu(direct_sum(model.spectral[0], np.asarray(v)) + linear(model.pointwise[0], v))
    v = direct_sum(model.spectral[1], np.asarray(v)) + linear(model.pointwise[1], v)
    y = linear(model.head.layers[1], gelu(linear(model.head.layers[0], v)))
    np.testing.assert_allclose(apply(model, x), y, atol=1e-14)


@pytest.mark.parametrize(("dim", "coordinates"), [(1, False), (1, True), (2, False), (2, True)])
def test_shifts_commute_unless_coordinates_are_inputs(dim, coordinates):
    model = network(FNO, dim, width=4, modes=(4,) * dim, coordinates=coordinates)
    n = (12, 10)[:dim]
    x = field(dim, *n)
    shift, axes = (3, 5)[:dim], tuple(range(1, dim + 1))
    error = jnp.abs(apply(model, jnp.roll(x, shift, axes)) - jnp.roll(apply(model, x), shift, axes)).max()
    assert error > 1e-4 if coordinates else error < 1e-14


@pytest.mark.parametrize("n", [(8,), (6, 10)])
def test_grids_smaller_than_the_modes_and_unequal_channels(n):
    model = network(FNO, len(n), channels_in=3, channels_out=5, width=4, dtype=jnp.float32)
    y = eqx.filter_jit(model.prepare(n))(field(3, *n, dtype=jnp.float32))
    assert y.shape == (5, *n) and y.dtype == jnp.float32 and jnp.isfinite(y).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_every_parameter_has_a_gradient(dim):
    model = network(FNO, dim, width=4, modes=(4,) * dim)
    x, cotangent = (field(dim, *(12, 16)[:dim], seed=seed) for seed in (1, 2))
    gradient = jax.jit(jax.grad(lambda m: (m(x) * cotangent).sum()))(model)
    assert all(jnp.abs(leaf).sum() > 0 for leaf in jax.tree.leaves(gradient))


def test_wrong_dimensions_are_named(getkey):
    with pytest.raises(UserError, match="FNO.*3"):
        FNO(3, key=getkey())
    with pytest.raises(UserError, match=r"FNO.*\(8, 8\)"):
        network(FNO, 1).prepare((8, 8))
