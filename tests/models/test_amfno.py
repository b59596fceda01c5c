"""The written kernels against networks evaluated by hand, and the layers against full complex transforms."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.amfno import AMFNO
from sino.models.model import count_parameters

gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))


def network(make, *args, dtype=jnp.float64, **sizes):
    """A network with random parameters, without compiling its initialisation."""
    shapes = eqx.filter_eval_shape(make, *args, key=jax.random.PRNGKey(0), **sizes)
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: jnp.asarray(rng.normal(size=s.shape) / math.prod(s.shape[1:]) ** 0.5, dtype), shapes)


@eqx.filter_jit
def apply(model, x):
    return model(x)


@eqx.filter_jit
def prepare(model, n):
    return model.prepare(n)


def field(*shape, seed=1, dtype=jnp.float64):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def mlp(network, x):
    """A two-layer network at one point, in NumPy."""
    first, second = ([np.asarray(layer.weight), np.asarray(layer.bias)] for layer in network.layers)
    return second[0] @ gelu(first[0] @ x + first[1]) + second[1]


def matrix(network, f, d):
    """The kernel of one axis at one frequency; Chebyshev polynomials by their definition."""
    features = np.array([np.cos(np.arccos(f)), np.cos(2 * np.arccos(f))])
    return (mlp(network.real, features) + 1j * mlp(network.imag, features)).reshape(d, d)


@pytest.mark.parametrize(("dim", "count"), [(1, 9_489), (2, 120_162)])
def test_parameter_count_is_the_papers(dim, count, getkey):
    model = eqx.filter_eval_shape(AMFNO, dim, key=getkey())
    assert count_parameters(model) == count
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))


@pytest.mark.parametrize("n", [8, 9])
def test_kernels_in_1d_by_hand(n):
    model = network(AMFNO, 1, width=3)
    kernels = prepare(model, (n,)).args[0]
    assert [kernel.shape for kernel in kernels] == [(3, 3, n // 2 + 1)] * 2
    for kernel, (writer,) in zip(kernels, model.kernels, strict=True):
        for k in range(n // 2 + 1):
            np.testing.assert_allclose(kernel[:, :, k], matrix(writer, k / n, 3), atol=1e-14)


def test_kernels_in_2d_are_products_by_hand():
    model = network(AMFNO, 2, width=3, depth=1)
    n = (6, 5)
    (kernel,) = prepare(model, n).args[0]
    assert kernel.shape == (3, 3, 6, 3)
    along_x, along_y = model.kernels[0]
    for kx in range(-3, 3):
        for ky in range(3):
            expected = matrix(along_x, kx / 6, 3) * matrix(along_y, ky / 5, 3)
            np.testing.assert_allclose(kernel[:, :, kx, ky], expected, atol=1e-14)


@pytest.mark.parametrize("n", [(8,), (9,), (6, 8), (5, 7)])
def test_layers_are_full_transforms_side_by_side(n):
    """The half spectrum completed by `K(-k) = conj K(k)`, a full complex FFT, and its real part."""
    dim = len(n)
    model = network(AMFNO, dim, width=3, depth=2, hidden=())
    x = np.asarray(field(dim, *n))
    axes = tuple(range(1, dim + 1))
    linear = lambda layer, a: np.asarray(apply(layer, jnp.asarray(a)))  # noqa: E731
    grid = np.stack(np.meshgrid(*(np.arange(m) / m for m in n), indexing="ij"))
    v = linear(model.lift, np.concatenate([x, grid]))
    for layer in range(2):
        v_hat = np.fft.fftn(v, axes=axes)
        y_hat = np.zeros(v.shape, complex)
        for index in np.ndindex(*n):
            f = [(i if i <= (m - 1) // 2 else i - m) / m for i, m in zip(index, n, strict=True)]
            sign = -1 if f[-1] < 0 and f[-1] != -0.5 else 1  # the half that is not stored
            f = [sign * value for value in f[:-1]] + [abs(f[-1])]
            f = [-0.5 if value == 0.5 else value for value in f[:-1]] + f[-1:]
            kernel = math.prod(matrix(writer, g, 3) for writer, g in zip(model.kernels[layer], f, strict=True))
            y_hat[(slice(None), *index)] = (kernel if sign > 0 else np.conj(kernel)) @ v_hat[(slice(None), *index)]
        pointwise = linear(model.pointwise[layer], v)
        v = v + np.real(np.fft.ifftn(y_hat, axes=axes)) + pointwise
        v = gelu(v) if layer == 0 else v
    np.testing.assert_allclose(apply(model, jnp.asarray(x)), linear(model.head, v), atol=1e-13)


@pytest.mark.parametrize("dim", [1, 2])
def test_prepared_once_it_is_the_same_and_can_be_passed_around(dim):
    model = network(AMFNO, dim, width=4)
    n = (8, 6)[:dim]
    x = field(3, dim, *n)
    operator = prepare(model, n)
    many = eqx.filter_jit(lambda op, fields: jax.vmap(op)(fields))(operator, x)
    np.testing.assert_allclose(many[1], apply(model, x[1]), rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 2])
def test_shifts_do_not_commute(dim):
    model = network(AMFNO, dim, width=4)
    x = field(dim, *(8, 12)[:dim])
    assert jnp.abs(apply(model, jnp.roll(x, 2, 1)) - jnp.roll(apply(model, x), 2, 1)).max() > 1e-2


@pytest.mark.parametrize("n", [(8,), (1,), (6, 10), (5, 3)])
def test_any_grid_and_unequal_channels(n):
    model = network(AMFNO, len(n), channels_in=3, channels_out=5, width=4, dtype=jnp.float32)
    y = eqx.filter_jit(model.prepare(n))(field(3, *n, dtype=jnp.float32))
    assert y.shape == (5, *n) and y.dtype == jnp.float32 and jnp.isfinite(y).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_every_parameter_has_a_gradient(dim):
    model = network(AMFNO, dim, width=4)
    x, cotangent = (field(dim, *(12, 8)[:dim], seed=seed) for seed in (1, 2))
    gradient = jax.jit(jax.grad(lambda m: (m(x) * cotangent).sum()))(model)
    assert all(jnp.abs(leaf).sum() > 0 for leaf in jax.tree.leaves(gradient))


def test_wrong_dimensions_are_named(getkey):
    with pytest.raises(UserError, match="AM-FNO.*3"):
        AMFNO(3, key=getkey())
    with pytest.raises(UserError, match=r"AM-FNO.*\(8, 8\)"):
        network(AMFNO, 1).prepare((8, 8))
