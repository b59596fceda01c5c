"""What the pseudo-spectral solvers in one dimension share."""

import jax.numpy as jnp
from jaxtyping import Array, Complex

from sino.core.fourier import Dealias, derivative_symbol, irfft, rfft, square
from sino.core.grid import Grid
from sino.physics.solver import Source, Time

Spectrum = Complex[Array, "c *k"]


def advection_and_source(
    u_hat: Spectrum, grid: Grid, dealias: Dealias, source: Source | None, t: Time
) -> Complex[Array, "c *k"]:
    """Spectrum of `-(u^2/2)_x + source(u, t)`.

    The product is dealiased; the source is added after it, unmasked, so that a closure can reach every mode.
    """
    gradient = jnp.asarray(-0.5 * derivative_symbol(grid, 0), u_hat.dtype)[None]
    dudt = gradient * square(u_hat, grid, dealias)
    return dudt if source is None else dudt + rfft(source(irfft(u_hat, grid.n), t))
