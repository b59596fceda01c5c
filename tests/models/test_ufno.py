"""The U-Nets beside the Fourier layers: their wiring, and what is left without them."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.models.fno import FNO
from sino.models.layers import OUT_STD
from sino.models.model import count_parameters
from sino.models.ufno import UFNO, OneLevel, ThreeLevels


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


def leaky(x):
    return np.where(x > 0, x, 0.1 * np.asarray(x))


def conv(layer, x):
    """Circular correlation as a sum over offsets, then every second point where the stride is 2."""
    weight, dim = np.asarray(layer.weight), x.ndim - 1
    k = weight.shape[-1]
    y = np.zeros((weight.shape[0], *x.shape[1:])) + np.asarray(layer.bias).reshape(-1, *(1,) * dim)
    for j in np.ndindex(*(k,) * dim):
        shifted = np.roll(x, [(k - 1) // 2 - i for i in j], axis=range(1, dim + 1))
        y += np.tensordot(weight[(..., *j)], shifted, axes=1)
    return y[(slice(None),) + (slice(None, None, layer.stride),) * dim]


def transposed(layer, x):
    """Every input point adds its kernel to the doubled grid, around the two points that it covers."""
    weight, dim = np.asarray(layer.weight), x.ndim - 1
    k = weight.shape[-1]
    spread = np.zeros((x.shape[0], *(2 * m for m in x.shape[1:])))
    spread[(slice(None),) + (slice(None, None, 2),) * dim] = x
    y = np.zeros((weight.shape[0], *spread.shape[1:])) + np.asarray(layer.bias).reshape(-1, *(1,) * dim)
    for j in np.ndindex(*(k,) * dim):
        y += np.tensordot(weight[(..., *j)], np.roll(spread, [i - (k - 2) // 2 for i in j], range(1, dim + 1)), axes=1)
    return y


def test_one_level_by_hand():
    unet = network(OneLevel, 3, 9)
    x = np.asarray(field(3, 12))
    c1, c2, c3, c4 = unet.convs
    skip = leaky(conv(c2, leaky(conv(c1, x))))
    low = leaky(conv(c4, leaky(conv(c3, skip))))
    assert low.shape == (3, 6)
    y = conv(unet.out, np.concatenate([skip, leaky(transposed(unet.up, low))]))
    np.testing.assert_allclose(apply(unet, jnp.asarray(x)), y, atol=1e-14)


def test_three_levels_by_hand():
    unet = network(ThreeLevels, 2, 3)
    x = np.asarray(field(2, 16, 8))
    a = leaky(conv(unet.down[0][0], x))
    b = leaky(conv(unet.down[1][1], leaky(conv(unet.down[1][0], a))))
    c = leaky(conv(unet.down[2][1], leaky(conv(unet.down[2][0], b))))
    assert (a.shape, b.shape, c.shape) == ((2, 8, 4), (2, 4, 2), (2, 2, 1))
    d2 = leaky(transposed(unet.up[0], c))
    d1 = leaky(transposed(unet.up[1], np.concatenate([b, d2])))
    d0 = leaky(transposed(unet.up[2], np.concatenate([a, d1])))
    np.testing.assert_allclose(apply(unet, jnp.asarray(x)), conv(unet.out, np.concatenate([x, d0])), atol=1e-14)


def test_last_layer_starts_small():
    model = eqx.filter_jit(UFNO)(1, key=jax.random.key(0, impl="unsafe_rbg"))
    assert model.head.layers[-1].weight.std() == pytest.approx(OUT_STD, rel=0.3)


@pytest.mark.parametrize(("dim", "count", "refined"), [(1, 26_017, (1,)), (2, 1_346_466, (2, 3))])
def test_parameter_count_is_the_papers(dim, count, refined, getkey):
    model = eqx.filter_eval_shape(UFNO, dim, key=getkey())
    assert count_parameters(model) == count
    assert tuple(i for i, unet in enumerate(model.refine) if unet is not None) == refined
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(model))


@pytest.mark.parametrize("n", [(12,), (8, 16)])
def test_without_its_unets_it_is_an_fno(n):
    dim = len(n)
    model = network(UFNO, dim, width=4, modes=(4,) * dim, hidden=(8,))
    fno = network(FNO, dim, width=4, modes=(4,) * dim, hidden=8)
    parts = lambda m: (m.lift, m.spectral, m.pointwise, m.head)  # noqa: E731
    fno = eqx.tree_at(parts, fno, parts(model))
    silent = eqx.tree_at(lambda m: m.refine, model, jax.tree.map(jnp.zeros_like, model.refine))
    x = field(dim, *n)
    np.testing.assert_allclose(apply(silent, x), apply(fno, x), atol=1e-15)
    assert jnp.abs(apply(model, x) - apply(fno, x)).max() > 1e-5


def test_the_unet_adds_to_the_last_sum():
    """One layer, linear head: the output with the U-Net differs by the head of the U-Net's output."""
    model = network(UFNO, 1, width=4, depth=1, start=0, hidden=())
    silent = eqx.tree_at(lambda m: m.refine, model, jax.tree.map(jnp.zeros_like, model.refine))
    x = field(1, 16)
    assert isinstance(unet := model.refine[0], OneLevel)
    np.testing.assert_allclose(
        apply(model, x) - apply(silent, x), model.head.layers[0].weight @ unet(model.lift(x)), atol=1e-15
    )


@pytest.mark.parametrize(("dim", "coordinates"), [(1, False), (1, True), (2, False), (2, True)])
def test_shifts_by_whole_blocks_commute_unless_coordinates_are_inputs(dim, coordinates):
    model = network(UFNO, dim, width=4, modes=(4,) * dim, coordinates=coordinates)
    n, axes = (16, 24)[:dim], tuple(range(1, dim + 1))
    x = field(dim, *n)

    def error(shift):
        return jnp.abs(apply(model, jnp.roll(x, shift, axes)) - jnp.roll(apply(model, x), shift, axes)).max()

    block = ((2,), (8, 16))[dim - 1]
    assert error(block) > 1e-4 if coordinates else error(block) < 1e-14
    assert error((1, 1)[:dim]) > 1e-6


@pytest.mark.parametrize("n", [(8,), (8, 16)])
def test_grids_smaller_than_the_modes_and_unequal_channels(n):
    model = network(UFNO, len(n), channels_in=3, channels_out=5, width=4, dtype=jnp.float32)
    y = eqx.filter_jit(model.prepare(n))(field(3, *n, dtype=jnp.float32))
    assert y.shape == (5, *n) and y.dtype == jnp.float32 and jnp.isfinite(y).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_every_parameter_has_a_gradient(dim):
    model = network(UFNO, dim, width=4, modes=(4,) * dim, depth=2, start=1)
    x, cotangent = (field(dim, *(16, 8)[:dim], seed=seed) for seed in (1, 2))
    gradient = jax.jit(jax.grad(lambda m: (m(x) * cotangent).sum()))(model)
    assert all(jnp.abs(leaf).sum() > 0 for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(("dim", "n", "step"), [(1, (9,), 2), (2, (16, 12), 8), (2, (12, 16), 8), (1, (8, 8), 2)])
def test_wrong_sizes_are_named(dim, n, step, getkey):
    with pytest.raises(UserError, match=rf"UFNO.*divisible by {step}.*\({n[0]},"):
        network(UFNO, dim).prepare(n)
    with pytest.raises(UserError, match="UFNO.*3"):
        UFNO(3, key=getkey())
