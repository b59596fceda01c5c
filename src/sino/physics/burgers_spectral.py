"""Burgers' equation by Fourier collocation."""

import equinox as eqx
import jax.numpy as jnp

from sino.core.fourier import Dealias, irfft, laplacian_symbol, rfft
from sino.core.grid import Grid
from sino.physics.integrate import ssp_rk3
from sino.physics.solver import AbstractSolver, Source, State, Time
from sino.physics.spectral import Spectrum, advection_and_source


class SpectralBurgers(AbstractSolver):
    """`u_t + (u^2/2)_x = viscosity u_xx + source`, `u` of shape `(1, n)`: values at `i dx`.

    Pseudo-spectral in space, TVD-RK3 (= SSP-RK3) in time, diffusion explicit. `dealias` treats the product; the
    source is added after it, unmasked.
    """

    grid: Grid = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    viscosity: float = eqx.field(static=True)
    dealias: Dealias = eqx.field(static=True, default="two-thirds")

    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """`-(u^2/2)_x + viscosity u_xx + source` at the grid points."""
        return irfft(self._spectral_tendency(rfft(u), source, t), self.grid.n)

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """One step of TVD-RK3, taken in Fourier space."""
        advanced = ssp_rk3(lambda v, s: self._spectral_tendency(v, source, s), rfft(u), t, self.dt)
        return irfft(advanced, self.grid.n)

    def constrain(self, u: State) -> State:
        """Any field will do."""
        return u

    def _spectral_tendency(self, u_hat: Spectrum, source: Source | None, t: Time) -> Spectrum:
        diffusion = jnp.asarray(self.viscosity * laplacian_symbol(self.grid), u_hat.dtype)[None]
        return advection_and_source(u_hat, self.grid, self.dealias, source, t) + diffusion * u_hat
