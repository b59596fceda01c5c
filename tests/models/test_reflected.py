"""The channel mix on Hartley spectra: kernels equal to the plain form, gradients, and thin filters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.hartley import hartley, reflected_filter
from sino.models.reflected import ACTIVE, ReflectedMix, Term, ThinFilter, bundles, mix, mix_gradient

N, CHANNELS, BATCH = (16, 32), 16, 2
TERMS = tuple(
    Term(0, group, ACTIVE[kind])
    for group, kind in ((0, "real"), (0, "imaginary"), *[(0, "complex")] * 5, (1, "complex"), *[(1, "real")] * 3)
)
BACK = tuple(Term(term.target, term.source, term.active) for term in TERMS)


@pytest.fixture
def arrays(getkey):
    """Spectra, gradients of the result, fields that are zero where they have to be, and matrices."""
    normal = lambda *shape: jax.random.normal(getkey(), shape)  # noqa: E731
    mask = jnp.asarray([[float(s in term.active) for s in range(4)] for term in TERMS])[:, :, None, None]
    h, d = normal(BATCH, CHANNELS, *N), normal(BATCH, 2 * CHANNELS, *N)
    return h, d, mask * normal(len(TERMS), 4, *N), normal(len(TERMS), CHANNELS, CHANNELS)


def test_the_kernels_equal_the_plain_form(arrays):
    """Interpreted, over a batch: what a GPU runs, operation by operation."""
    h, d, fields, matrices = arrays

    def apply(interpret):
        there = jax.vmap(lambda h: mix(h, fields, matrices, TERMS, interpret=interpret))(h)
        back = jax.vmap(lambda d: mix(d, fields, matrices, BACK, interpret=interpret))(d)
        gradient = jax.vmap(lambda h, d: mix_gradient(h, d, fields, matrices, TERMS, interpret=interpret))(h, d)
        return there, back, *gradient

    for kernel, plain in zip(apply(True), apply(False), strict=True):
        np.testing.assert_allclose(kernel, plain, atol=1e-11)


def test_equal_terms_in_a_row_are_bundled():
    assert [(bundle.first, bundle.count) for bundle in bundles(TERMS)] == [
        (0, 1),
        (1, 1),
        (2, 4),
        (6, 1),
        (7, 1),
        (8, 3),
    ]
    for bundle in bundles(TERMS):
        for term in TERMS[bundle.first : bundle.first + bundle.count]:
            assert term == Term(0, bundle.target, bundle.active)


def test_the_gradient_is_that_of_the_plain_form(getkey, arrays):
    """The adjoint needs fields with the parities of a filter, which `of` gives and random fields have not."""
    h, d, _, matrices = arrays
    fields = reflected_filter(jnp.fft.rfft2(jax.random.normal(getkey(), (len(TERMS), *N))), N[1])
    terms = tuple(term._replace(active=ACTIVE["complex"]) for term in TERMS)
    value, pull = jax.vjp(lambda *arrays: mix(*arrays, terms), h[0], fields, matrices)
    mine, my_pull = jax.vjp(
        lambda h, fields, matrices: ReflectedMix(fields, matrices, terms)(h), h[0], fields, matrices
    )
    np.testing.assert_array_equal(mine, value)
    for one, other in zip(my_pull(d[0]), pull(d[0]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


@pytest.mark.parametrize("inputs, outputs", [(2, 5), (5, 2)])
def test_a_thin_filter_is_a_filter(getkey, inputs, outputs):
    x = jax.random.normal(getkey(), (inputs, *N))
    m = jnp.fft.rfft2(jax.random.normal(getkey(), (outputs, inputs, *N)))
    expected = jnp.fft.irfft2(jnp.einsum("oixk,ixk->oxk", m, jnp.fft.rfft2(x)), s=N)
    np.testing.assert_allclose(hartley(ThinFilter.of(m, N[1])(hartley(x))), expected, atol=1e-10)
