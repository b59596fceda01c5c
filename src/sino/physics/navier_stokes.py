"""Two-dimensional incompressible flow by finite volumes on a staggered grid."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from sino.core.grid import Grid
from sino.physics.solver import AbstractSolver, Source, State, Time
from sino.physics.staggered import project, relax_divergence, solenoidal


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
        return project(self._rate(u, source, t), self.grid)

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """Advance a field that is free of divergence.

        For such a field `(I - dt viscosity Lap)^-1 P (u + dt f) = u + (I - dt viscosity Lap)^-1 P dt (f + viscosity
        Lap u)`. The right-hand side transforms only the small increment: its rounding error is that of storing `u`.
        """
        # Without the barrier XLA computes the fluxes anew for each of the neighbours that the vorticity needs.
        change = jax.lax.optimization_barrier(self.dt * self._rate(u, source, t))
        increment = solenoidal(change, self.grid, diffusion=self.dt * self.viscosity)
        return u + increment + relax_divergence(u, self.grid)

    def constrain(self, u: State) -> State:
        """The part free of divergence."""
        return project(u, self.grid)

    def _rate(self, u: State, source: Source | None, t: Time) -> State:
        dudt = transport(u, self.grid, self.dt, self.viscosity)
        return dudt if source is None else dudt + source(u, t)


def convection(v: State, grid: Grid, dt: float) -> State:
    """`-div(v v)` on the faces, by upwind fluxes with a limited Lax-Wendroff correction."""
    return transport(v, grid, dt, viscosity=0.0)


def transport(v: State, grid: Grid, dt: float, viscosity: float) -> State:
    """`-div(v v - viscosity grad v)` on the faces: convection and five-point diffusion by one set of fluxes."""
    padded = jnp.pad(v, ((0, 0), (2, 2), (2, 2)), mode="wrap")
    return jnp.stack([sum(_transport(padded, c, axis, grid, dt, viscosity) for axis in (0, 1)) for c in (0, 1)])


def _transport(padded: Array, component: int, axis: int, grid: Grid, dt: float, viscosity: float) -> Array:
    """Minus the difference of fluxes along `axis`, for one component, over control volumes centred where it lives."""
    dx = grid.dx[axis]

    def window(field: int, ahead: int = 0, aside: int = 0) -> Array:
        """`v[field]` at the `n + 1` indices `-1 .. n-1` along `axis`, moved by `ahead` along `axis` and by `aside`
        along the direction of the component."""
        start = [2, 2]
        start[axis] += ahead - 1
        start[component] += aside
        stop = [s + n for s, n in zip(start, grid.n, strict=True)]
        stop[axis] += 1
        return padded[field, start[0] : stop[0], start[1] : stop[1]]

    # The advecting velocity at the control volume's far face along `axis`, by linear interpolation.
    speed = 0.5 * (window(axis) + window(axis, aside=1))
    behind, here, ahead, beyond = (window(component, ahead=shift) for shift in (-1, 0, 1, 2))
    flux = _limited_flux(behind, here, ahead, beyond, speed, dt / dx) - viscosity / dx * (ahead - here)
    return jnp.diff(flux, axis=axis) / -dx


def _limited_flux(behind: Array, here: Array, ahead: Array, beyond: Array, speed: Array, dt_over_dx: float) -> Array:
    """Flux of a scalar through the face between `here` and `ahead`, two of four cells in a row.

    Upwind value plus `(1 - |courant|)/2` times van Leer's harmonic mean of the slope across the face and the slope
    upwind of it: second order where the scalar is smooth and monotone, first order at extrema.
    """
    rightward = speed > 0
    upwind = jnp.where(rightward, here, ahead)
    upwind_slope = jnp.where(rightward, here - behind, beyond - ahead)
    magnitude = jnp.abs(speed)
    correction = 0.5 * (1 - dt_over_dx * magnitude) * _harmonic_mean(ahead - here, upwind_slope)
    return speed * upwind + magnitude * correction


def _harmonic_mean(a: Array, b: Array) -> Array:
    """`2ab/(a+b)` where `a` and `b` have one sign, else 0. Subnormal products count as 0: no gradient overflows."""
    same_sign = a * b > jnp.finfo(a.dtype).tiny
    return jnp.where(same_sign, 2 * a * b, 0) / jnp.where(same_sign, a + b, 1)
