"""Burgers' equation by finite volumes."""

import equinox as eqx
import jax.numpy as jnp

from sino.core.grid import Grid
from sino.physics.integrate import ssp_rk3
from sino.physics.solver import AbstractSolver, Source, State, Time
from sino.physics.weno import godunov_flux, reconstruct


class FiniteVolumeBurgers(AbstractSolver):
    """`u_t + (u^2/2)_x = viscosity u_xx + source`, `u` of shape `(1, n)`: averages over cells centred at `(i+1/2) dx`.

    WENO5 reconstruction, Godunov flux, central diffusion, SSP-RK3. Shock capturing; the mean of `u` changes by the
    mean of the source only. Stable while `dt <= dx/max|u|` and `dt <= dx^2/(2 viscosity)`, roughly; use 0.4 of each.
    """

    grid: Grid = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    viscosity: float = eqx.field(static=True)

    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """`-(F_{i+1/2} - F_{i-1/2})/dx + source`, with `F` the sum of convective and diffusive flux."""
        (dx,) = self.grid.dx
        flux = godunov_flux(*reconstruct(u)) - self.viscosity * (jnp.roll(u, -1, axis=-1) - u) / dx
        dudt = (jnp.roll(flux, 1, axis=-1) - flux) / dx
        return dudt if source is None else dudt + source(u, t)

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """One step of SSP-RK3."""
        return ssp_rk3(lambda v, s: self.tendency(v, source, s), u, t, self.dt)

    def constrain(self, u: State) -> State:
        """Any field will do."""
        return u
