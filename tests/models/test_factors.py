"""The product of modes by its factors: filters by reflections, the kernel equal to the plain form, and the adjoint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.hartley import REFLECTIONS, hartley, reflected
from sino.models.factors import ACTIVE, TURNED, Factors, Term, applied, factor_kernel, reflected_filter
from sino.models.generated import Factorised, merged_filter
from sino.models.modes import ModeMix

GRIDS = [(16, 16), (16, 12), (9, 8), (7, 9)]


def normal(getkey, *shape):
    return jax.random.normal(getkey(), shape)


def act(fields, h):
    return sum(fields[s] * reflected(h, along) for s, along in enumerate(REFLECTIONS))


@pytest.mark.parametrize("n", GRIDS, ids=str)
def test_a_filter_acts_on_four_reflections(getkey, n):
    """A convolution, with a kernel that has no symmetry, by way of Hartley and of Fourier space."""
    kernel, x = normal(getkey, *n), normal(getkey, 1, *n)
    m = jnp.fft.rfft2(kernel)
    by_fourier = jnp.fft.irfft2(m * jnp.fft.rfft2(x[0]), s=n)
    by_hartley = hartley(act(reflected_filter(m, n[1]), hartley(x)[0])[None])[0]
    np.testing.assert_allclose(by_hartley, by_fourier, atol=1e-11)


@pytest.mark.parametrize("n", GRIDS, ids=str)
def test_turned_fields_are_those_of_the_adjoint(getkey, n):
    fields = reflected_filter(jnp.fft.rfft2(normal(getkey, *n)), n[1])
    x, y = normal(getkey, *n), normal(getkey, *n)
    turned = fields * jnp.asarray(TURNED)[:, None, None]
    np.testing.assert_allclose(jnp.vdot(act(fields, x), y), jnp.vdot(x, act(turned, y)), atol=1e-9)


@pytest.fixture
def branches(getkey):
    """Two branches, as filters of half spectra: one of real terms and imaginary ones, one of complex terms."""
    n, channels = (16, 32), 16
    filters = jnp.fft.rfft2(normal(getkey, 7, *n))
    even, odd = filters[:2].real, filters[2:4].imag
    frequency = jnp.concatenate([jax.lax.complex(even, 0 * even), jax.lax.complex(0 * odd, odd)])
    first = Factorised(frequency, normal(getkey, 4, channels, channels), ("real",) * 2 + ("imaginary",) * 2)
    return [first, Factorised(filters[4:], normal(getkey, 3, channels, channels), ("complex",) * 3)]


def test_factors_are_those_of_the_matrices(getkey, branches):
    h = normal(getkey, 16, 16, 32)
    matrices = ModeMix.of(jnp.concatenate([merged_filter(branch) for branch in branches]))
    np.testing.assert_allclose(applied(Factors.of(branches, 32), h), matrices(h), atol=1e-10)


def test_the_adjoint_is_the_adjoint(getkey, branches):
    factors, h, d = Factors.of(branches, 32), normal(getkey, 16, 16, 32), normal(getkey, 32, 16, 32)
    np.testing.assert_allclose(jnp.vdot(applied(factors, h), d), jnp.vdot(h, applied(factors.adjoint, d)), rtol=1e-10)
    assert factors.adjoint.terms[-1] == Term(1, 0, ACTIVE["complex"])


def test_the_kernel_equals_the_plain_form(getkey, branches):
    """Interpreted, over a batch: what a GPU runs, operation by operation."""
    for factors, channels in ((Factors.of(branches, 32), 16), (Factors.of(branches, 32).adjoint, 32)):
        h = normal(getkey, 2, channels, 16, 32)
        kernel = jax.vmap(lambda h, factors=factors: factor_kernel(factors, h, interpret=True))(h)
        np.testing.assert_allclose(kernel, jax.vmap(lambda h, factors=factors: applied(factors, h))(h), atol=1e-11)
