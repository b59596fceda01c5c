"""Two-dimensional incompressible flow by finite volumes on a staggered grid."""

import equinox as eqx
import jax.numpy as jnp

from sino.core.grid import Grid
from sino.physics.solver import AbstractSolver, Source, State, Time
from sino.physics.staggered import advanced, mean_velocity, project, streamfunction
from sino.physics.transport import transport


class FiniteVolumeNavierStokes(AbstractSolver):
    """`v_t + (v . grad) v = -grad p + viscosity Lap v + source`, `div v = 0`, `v` of shape `(2, nx, ny)` on the faces.

    One step is `v* = v + dt (convection + source)`, exact discrete projection, then
    `(I - dt viscosity Lap) v_new = P v*`: first order in time, as in Kochkov et al., PNAS 118 (2021), e2101784118.
    Convection is conservative, with van Leer's limiter on Lax-Wendroff fluxes, and so depends on `dt`.
    Stable for a Courant number `dt (|u|/dx + |v|/dy)` below one; use `dt = 0.5 dx / max|v|`.
    """

    grid: Grid = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    viscosity: float = eqx.field(static=True)

    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """Projected convection and source, plus diffusion."""
        rate = self._fluxes(u)
        return project(rate if source is None else rate + source(u, t), self.grid)

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """Advance a field that is free of divergence.

        For such a field `(I - dt viscosity Lap)^-1 P (u + dt f) = u + (I - dt viscosity Lap)^-1 P dt (f + viscosity
        Lap u)`. The right-hand side transforms only the small increment: its rounding error is that of storing `u`.
        """
        rate, mean = self._fluxes(u), jnp.zeros((2, 1, 1), u.dtype)  # what leaves a cell enters its neighbour
        if source is not None:
            pushed = source(u, t)
            rate, mean = rate + pushed, self.dt * mean_velocity(pushed)
        psi = streamfunction(rate, self.grid, diffusion=self.dt * self.viscosity, scale=self.dt)
        return advanced(u, psi, mean, self.grid)

    def constrain(self, u: State) -> State:
        """The part free of divergence."""
        return project(u, self.grid)

    def _fluxes(self, u: State) -> State:
        """Convection and diffusion."""
        return transport(u, self.grid, self.dt, self.viscosity)
