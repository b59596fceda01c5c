"""The Hartley transform: its own inverse and adjoint, and kernels equal to the plain form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core import fast
from sino.core.hartley import (
    FEW_CHANNELS,
    LARGEST_PLANE,
    ROWS,
    activated,
    added,
    cas_matrix,
    even_filter,
    hartley,
    transform,
)

GRIDS = [(16, 16), (16, 12), (9, 8), (7, 9)]


def normal(getkey, *shape):
    return jax.random.normal(getkey(), shape)


@pytest.mark.parametrize("n", [1, 2, 7, 16])
def test_the_matrix_is_symmetric_and_orthogonal(n):
    a = cas_matrix(n)
    np.testing.assert_allclose(a, a.T, atol=1e-14)
    np.testing.assert_allclose(a @ a, np.eye(n), atol=1e-13)


def test_along_one_axis_it_is_the_real_minus_the_imaginary_part_of_the_fourier_transform(getkey):
    x = normal(getkey, 1, 12, 1)
    x_hat = np.fft.fft(x[0, :, 0]) / np.sqrt(12)
    np.testing.assert_allclose(hartley(x)[0, :, 0], x_hat.real - x_hat.imag, atol=1e-13)


@pytest.mark.parametrize("n", GRIDS, ids=str)
def test_it_is_its_own_inverse_and_adjoint(getkey, n):
    x, y = normal(getkey, 2, *n), normal(getkey, 2, *n)
    np.testing.assert_allclose(hartley(hartley(x)), x, atol=1e-12)
    np.testing.assert_allclose(jnp.vdot(hartley(x), y), jnp.vdot(x, hartley(y)), atol=1e-10)


def test_gradients_are_those_of_the_plain_form(getkey):
    h, x, bias, d = normal(getkey, 3, 8, 6), normal(getkey, 3, 8, 6), normal(getkey, 3), normal(getkey, 3, 8, 6)
    for mine, plain, arguments in (
        (hartley, lambda x: transform(x), (x,)),
        (activated, lambda h, bias: transform(h, bias=bias), (h, bias)),
        (added, lambda h, x: transform(x, onto=h), (h, x)),
    ):
        value, pull = jax.vjp(mine, *arguments)
        expected, pull_plain = jax.vjp(plain, *arguments)
        np.testing.assert_array_equal(value, expected)
        for one, other in zip(pull(d), pull_plain(d), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("channels", [3, FEW_CHANNELS + 1])
@pytest.mark.parametrize("extra", ["nothing", "mask", "bias", "onto"])
def test_the_kernel_equals_the_plain_form(getkey, extra, channels):
    """Interpreted, over a batch: what a GPU runs, operation by operation."""
    shape = (2, channels, 2 * ROWS, 16)
    x, other, bias = normal(getkey, *shape), normal(getkey, *shape), normal(getkey, channels)

    def apply(interpret):
        def one(x, other):
            given = {"nothing": {}, "mask": {"mask": other}, "bias": {"bias": bias}, "onto": {"onto": other}}[extra]
            return transform(x, **given, interpret=interpret)

        return jax.vmap(one)(x, other)

    np.testing.assert_allclose(apply(True), apply(False), atol=1e-13)


@pytest.mark.parametrize("n", [(16, 32), (66, 70), (65, 67)], ids=str)
def test_an_even_filter_is_the_same_on_an_accelerator(getkey, monkeypatch, n):
    """One by one, and in batches: by matrix products on small grids, two by two on large ones."""
    kx, ky = np.fft.fftfreq(n[0])[:, None], np.fft.rfftfreq(n[1])[None, :]
    symbol = 1 / (0.1 + kx**2 + 2 * ky**4)
    w, d = normal(getkey, 2, 3, 4, *n), normal(getkey, 2, 3, 4, *n)

    def one(w):
        return even_filter(w, symbol)

    def results():
        found = []
        for function, part in ((one, 0), (jax.vmap(one), slice(4)), (jax.vmap(one), slice(3))):
            at = (0, 0, part)
            found += [function(w[at]), jax.vjp(function, w[at])[1](d[at])[0]]
        return [*found, jax.vmap(jax.vmap(jax.vmap(one)))(w)]

    plain = results()
    monkeypatch.setattr(fast, "accelerated", lambda: True)
    for mine, other in zip(results(), plain, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-11)
    transforms = str(jax.make_jaxpr(lambda w: jax.vmap(one)(w))(w[0, 0]))
    assert ("fft_type=0" in transforms) == (max(n) > LARGEST_PLANE), "the pairs are complex"
