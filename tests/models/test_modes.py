"""A matrix per mode on Hartley spectra: a filter, kernels equal to the plain form, gradients at once and by slots."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sino.core.hartley as hartley_module
import sino.models.factors as factors_module
import sino.models.modes as modes_module
from sino.core import fast
from sino.core.hartley import hartley, transform
from sino.core.orbits import modes, orbits, share, spectrum
from sino.models import mode_kernels
from sino.models.modes import ModeMix, adjoint, correlated, empty_slots, mix, mixed, with_slots
from sino.models.sino import SINO

GRIDS = [(16, 32), (9, 8), (7, 9)]
BATCH, INPUTS, OUTPUTS = 3, 5, 4


def normal(getkey, *shape):
    return jax.random.normal(getkey(), shape)


@pytest.fixture(params=GRIDS, ids=str)
def n(request):
    return request.param


@pytest.fixture
def arrays(getkey, n):
    """Spectra, gradients of the result, and the matrices of a filter."""
    m = jnp.fft.rfft2(normal(getkey, OUTPUTS, INPUTS, *n))
    return normal(getkey, BATCH, INPUTS, *n), normal(getkey, BATCH, OUTPUTS, *n), ModeMix.of(m).matrices


def test_modes_are_those_of_fourier(getkey, n):
    x = normal(getkey, 1, *n)
    x_hat = jnp.fft.fft2(x[0]) / math.sqrt(n[0] * n[1])
    kx, ky = np.meshgrid(*map(np.arange, orbits(n)), indexing="ij")
    real, imaginary = modes(hartley(x))
    for sign in (1, -1):
        part = (1 - sign) // 2
        expected = np.asarray(x_hat)[kx, sign * ky % n[1]].reshape(-1)
        np.testing.assert_allclose(real[part, 0], expected.real, atol=1e-12)
        np.testing.assert_allclose(imaginary[part, 0], expected.imag, atol=1e-12)


def test_a_spectrum_comes_back_from_its_modes(getkey, n):
    h = normal(getkey, 2, *n)
    np.testing.assert_allclose(spectrum(modes(h), n), h, atol=1e-13)


def test_orbits_share_out_all_wavenumbers(n):
    assert 4 * share(n).sum() == n[0] * n[1]


def test_it_is_a_filter(getkey, n):
    m, x = jnp.fft.rfft2(normal(getkey, OUTPUTS, INPUTS, *n)), normal(getkey, INPUTS, *n)
    expected = jnp.fft.irfft2(jnp.einsum("oixk,ixk->oxk", m, jnp.fft.rfft2(x)), s=n)
    np.testing.assert_allclose(hartley(ModeMix.of(m)(hartley(x))), expected, atol=1e-11)


def test_the_adjoint_is_the_adjoint(arrays):
    h, d, matrices = arrays
    there, back = mixed(h[0], matrices), mixed(d[0], adjoint(matrices))
    np.testing.assert_allclose(jnp.vdot(there, d[0]), jnp.vdot(h[0], back), rtol=1e-12)


@pytest.mark.parametrize("inputs, outputs", [(INPUTS, OUTPUTS), (8, 2), (2, 9)])
def test_the_kernels_equal_the_plain_form(getkey, inputs, outputs):
    """Interpreted, over a batch: what a GPU runs, operation by operation."""
    n = GRIDS[0]
    h, d = normal(getkey, BATCH, inputs, *n), normal(getkey, BATCH, outputs, *n)
    matrices = normal(getkey, 2, 2, outputs, inputs, orbits(n)[0] * orbits(n)[1])
    there = mode_kernels.mix_kernel(h, matrices, interpret=True)
    for mine, plain in zip(there, h, strict=True):
        # On coinciding reflections random matrices, which belong to no map of real fields, say two things.
        inner = (slice(None), slice(1, n[0] // 2), slice(1, n[1] // 2))
        np.testing.assert_allclose(mine[inner], mixed(plain, matrices)[inner], atol=1e-11)
    back = mode_kernels.mix_kernel(d, matrices, transposed=True, interpret=True)
    np.testing.assert_allclose(back, jax.vmap(lambda d: mixed(d, adjoint(matrices)))(d), atol=1e-11)
    gradient = mode_kernels.correlate_kernel(h, d, interpret=True)
    np.testing.assert_allclose(gradient, jax.vmap(correlated)(h, d).sum(axis=0), atol=1e-11)


def gradients(product, h, filters, d):
    """Of a batch of products with the matrices of one filter: the result, and the gradients of fields and filter."""

    def batch(h, filters):
        matrices = ModeMix.of(jnp.fft.rfft2(filters)).matrices
        return jax.vmap(lambda h: product(h, matrices))(h)

    value, pull = jax.vjp(batch, h, filters)
    return value, *pull(d)


@pytest.fixture
def interpreted(monkeypatch):
    """Take the kernels, interpreted; tells which were taken."""
    taken = set()

    def interpret(module, name):
        kernel = getattr(module, name)

        def run(*arguments, **options):
            taken.add(name)
            return kernel(*arguments, **options, interpret=True)

        monkeypatch.setattr(modes_module, name, run)

    monkeypatch.setattr(fast, "kernels", lambda dtype: True)
    monkeypatch.setattr(fast, "PRODUCTS", None)  # a CPU has no such units
    interpret(mode_kernels, "mix_kernel")
    interpret(mode_kernels, "correlate_kernel")
    interpret(factors_module, "factor_kernel")
    monkeypatch.setattr(hartley_module, "transform", partial(transform, interpret=True))
    return taken


@pytest.mark.parametrize("by_kernels", [False, True])
def test_gradients_are_those_of_the_plain_form(getkey, request, by_kernels):
    n = (9, 8)
    h, d = normal(getkey, BATCH, INPUTS, *n), normal(getkey, BATCH, OUTPUTS, *n)
    filters = normal(getkey, OUTPUTS, INPUTS, *n)
    plain = gradients(mixed, h, filters, d)
    if by_kernels:
        request.getfixturevalue("interpreted")
    for mine, expected in zip(gradients(lambda h, m: mix(h, m, None), h, filters, d), plain, strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-10)


@pytest.mark.parametrize("seeds", [None, 2])
def test_slots_give_the_gradient_of_a_rollout(getkey, seeds):
    """Two products in a scan over a batch, for one filter or for several at once."""
    n, steps = (9, 8), 4
    h = normal(getkey, BATCH, INPUTS, *n)
    leading = () if seeds is None else (seeds,)
    there, back = normal(getkey, *leading, OUTPUTS, INPUTS, *n), normal(getkey, *leading, INPUTS, OUTPUTS, *n)

    def operator(there, back):
        return [ModeMix.of(jnp.fft.rfft2(0.03 * filters)) for filters in (there, back)]

    def loss(there, back, by_slots):
        products = operator(there, back)
        slots = empty_slots(products, steps, BATCH, n, h.dtype) if by_slots else []

        def step(h, slots):
            def one(h, slots):
                first, second = with_slots(products, slots) if by_slots else products
                return h + second(jnp.tanh(first(h)))

            return jax.vmap(one)(h, slots), None

        return jnp.square(jax.lax.scan(step, h, slots, length=steps)[0]).mean()

    def gradient(by_slots):
        one = jax.value_and_grad(lambda there, back: loss(there, back, by_slots), (0, 1))
        return jax.tree.leaves((one if seeds is None else jax.vmap(one))(there, back))

    for mine, expected in zip(gradient(True), gradient(False), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("sizes", [{}, {"branch": "frequency"}, {"frequency_bottleneck": 16}], ids=str)
def test_a_network_by_kernels_is_the_network(getkey, interpreted, sizes):
    """All that a GPU runs of SINO, in value and gradient, over a batch."""
    key, n, batch = getkey(), (16, 16), 2
    x, d = normal(getkey, batch, 2, *n), normal(getkey, batch, 2, *n)

    def results(form):
        network = SINO(2, key=key, width=16, depth=3, form=form, **sizes)
        network = jax.tree.map(lambda leaf: 3 * leaf.astype(x.dtype), network)  # the last layer starts near zero

        def apply(network, x):
            operator = network.prepare(n)
            return jax.vmap(operator)(x)

        value, pull = jax.vjp(apply, network, x)
        return jax.tree.leaves((value, pull(d)))

    for mine, plain in zip(results("hartley"), results("dense"), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-8, atol=1e-9 * float(jnp.abs(plain).max()))
    by_factors = sizes.get("frequency_bottleneck", 2) <= 8
    assert interpreted == {"mix_kernel", "correlate_kernel"} | ({"factor_kernel"} if by_factors else set())


def test_slots_belong_to_products_alone(getkey):
    product = ModeMix.of(jnp.fft.rfft2(normal(getkey, OUTPUTS, INPUTS, 9, 8)))
    operator = {"a": product, "b": jnp.ones(3)}
    slots = empty_slots(operator, 2, BATCH, (9, 8), jnp.float64)
    assert [part.shape for part in slots[0]] == [(2, BATCH, INPUTS, 9, 8), (2, BATCH, OUTPUTS, 9, 8)]
    assert empty_slots(jnp.ones(3), 2, BATCH, (9, 8), jnp.float64) == empty_slots(None, 2, BATCH, (9, 8), "f8") == []
    filled = with_slots(operator, slots)
    assert filled["a"].slots is slots[0] and eqx.tree_equal(filled["b"], operator["b"])
