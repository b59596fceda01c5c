"""Convection in one pass: the kernel and its gradient are those of the plain form."""

import jax
import numpy as np

from sino.core.grid import Grid
from sino.core.stencil import TILE
from sino.physics import transport
from sino.physics.transport import by_fluxes, by_kernel

GRID = Grid((2 * TILE[0], TILE[1]), (2.0, 3.0))


def test_the_kernel_equals_the_plain_form(getkey):
    """Interpreted, over a batch. Some cells have slopes of one sign, others not, and the box is wrapped around."""
    v = jax.random.normal(getkey(), (2, 2, *GRID.n))
    kernel, plain = (
        jax.vmap(lambda v, f=f: f(v))(v)
        for f in (lambda v: by_kernel(v, GRID, 0.01, 1e-2, interpret=True), lambda v: by_fluxes(v, GRID, 0.01, 1e-2))
    )
    np.testing.assert_allclose(kernel, plain, rtol=1e-12, atol=1e-12)


def test_its_gradient_is_that_of_the_plain_form(getkey, monkeypatch):
    monkeypatch.setattr(transport.fast, "kernels", lambda dtype: True)
    monkeypatch.setattr(transport, "by_kernel", lambda v, *options: by_kernel(v, *options, interpret=True))
    v, d = jax.random.normal(getkey(), (2, *GRID.n)), jax.random.normal(getkey(), (2, *GRID.n))
    mine = jax.vjp(lambda v: transport.transport(v, GRID, 0.01, 1e-2), v)
    plain = jax.vjp(lambda v: by_fluxes(v, GRID, 0.01, 1e-2), v)
    np.testing.assert_allclose(mine[0], plain[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(mine[1](d)[0], plain[1](d)[0])
