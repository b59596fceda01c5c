"""Convection and diffusion of a velocity on the staggered grid, by finite volumes."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from sino.core import fast
from sino.core.grid import Grid
from sino.core.stencil import Neighbour, fits, stencil_kernel
from sino.physics.solver import State


def convection(v: State, grid: Grid, dt: float) -> State:
    """`-div(v v)` on the faces, by upwind fluxes with a limited Lax-Wendroff correction."""
    return transport(v, grid, dt, viscosity=0.0)


def transport(v: State, grid: Grid, dt: float, viscosity: float) -> State:
    """`-div(v v - viscosity grad v)` on the faces: convection and five-point diffusion by one set of fluxes."""
    if fits(grid.n) and fast.kernels(v.dtype):
        return _by_kernel(v, grid, dt, viscosity)
    # Without the barrier XLA computes the fluxes anew for each neighbour that whoever takes them needs.
    return jax.lax.optimization_barrier(by_fluxes(v, grid, dt, viscosity))


def by_fluxes(v: State, grid: Grid, dt: float, viscosity: float) -> State:
    """`transport`, with every flux computed once."""
    padded = jnp.pad(v, ((0, 0), (2, 2), (2, 2)), mode="wrap")
    return jnp.stack([sum(_differences(padded, c, axis, grid, dt, viscosity) for axis in (0, 1)) for c in (0, 1)])


def by_kernel(v: State, grid: Grid, dt: float, viscosity: float, *, interpret: bool = False) -> State:
    """`transport` in one pass over memory: each cell computes the fluxes through its faces.

    Every flux is computed twice, which costs less than to store it. `interpret` is for tests on a CPU.
    """

    def cells(at: Neighbour) -> list[Array]:
        def flux(component: int, axis: int, face: int) -> Array:
            """Through the far face along `axis` of the control volume, moved by `face`."""

            def window(field: int, ahead: int = 0, aside: int = 0) -> Array:
                shift = [0, 0]
                shift[axis] += face + ahead
                shift[component] += aside
                return at(0, field, (shift[0], shift[1]))

            return _flux(window, component, axis, grid, dt, viscosity)

        def rate(component: int) -> Array:
            along = [(flux(component, axis, -1) - flux(component, axis, 0)) / grid.dx[axis] for axis in (0, 1)]
            return along[0] + along[1]

        return [rate(0), rate(1)]

    return stencil_kernel(cells, [v], name="transport", interpret=interpret)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _by_kernel(v: State, grid: Grid, dt: float, viscosity: float) -> State:
    return by_kernel(v, grid, dt, viscosity)


# The gradient is that of the plain form: it is taken on coarse grids only, where it costs little.
_by_kernel.defvjp(
    lambda v, *options: (by_kernel(v, *options), v),
    lambda grid, dt, viscosity, v, d: jax.vjp(lambda v: by_fluxes(v, grid, dt, viscosity), v)[1](d),
)


def _differences(padded: Array, component: int, axis: int, grid: Grid, dt: float, viscosity: float) -> Array:
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

    return jnp.diff(_flux(window, component, axis, grid, dt, viscosity), axis=axis) / -dx


def _flux(window: Callable[..., Array], component: int, axis: int, grid: Grid, dt: float, viscosity: float) -> Array:
    """Flux of a component through the far face along `axis`: `window(field, ahead, aside)` is a field, moved along
    `axis` and along the direction of the component."""
    dx = grid.dx[axis]
    # The advecting velocity at the face, by linear interpolation.
    speed = 0.5 * (window(axis) + window(axis, aside=1))
    behind, here, ahead, beyond = (window(component, ahead=shift) for shift in (-1, 0, 1, 2))
    return _limited_flux(behind, here, ahead, beyond, speed, dt / dx) - viscosity / dx * (ahead - here)


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
