"""Operators of the staggered (marker-and-cell, Arakawa C) grid in two dimensions, second order, periodic.

Cell `(i, j)` has its centre at `((i+1/2) dx, (j+1/2) dy)`. A velocity `(2, nx, ny)` holds `u` on the cell's right
face `((i+1) dx, (j+1/2) dy)` and `v` on its top face `((i+1/2) dx, (j+1) dy)`; pressure and divergence live at
centres, vorticity and streamfunction at corners `((i+1) dx, (j+1) dy)`.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.grid import Grid
from sino.core.hartley import even_filter

Velocity = Float[Array, "2 x y"]
Scalar = Float[Array, "x y"]

U_OFFSET = (1.0, 0.5)
V_OFFSET = (0.5, 1.0)


def ahead(a: Array, axis: int) -> Array:
    """The periodic neighbour at index + 1 along one of the last two axes (`axis` 0 is x, 1 is y)."""
    return jnp.roll(a, -1, axis=axis - 2)


def behind(a: Array, axis: int) -> Array:
    """The periodic neighbour at index - 1 along one of the last two axes."""
    return jnp.roll(a, 1, axis=axis - 2)


def divergence(v: Velocity, grid: Grid) -> Scalar:
    """`du/dx + dv/dy` at cell centres."""
    dx, dy = grid.dx
    return (v[0] - behind(v[0], 0)) / dx + (v[1] - behind(v[1], 1)) / dy


def gradient(p: Scalar, grid: Grid) -> Velocity:
    """Gradient of a cell-centred scalar, on the faces; minus the adjoint of `divergence`."""
    dx, dy = grid.dx
    return jnp.stack([(ahead(p, 0) - p) / dx, (ahead(p, 1) - p) / dy])


def vorticity(v: Velocity, grid: Grid) -> Scalar:
    """`dv/dx - du/dy` at cell corners."""
    dx, dy = grid.dx
    return (ahead(v[1], 0) - v[1]) / dx - (ahead(v[0], 1) - v[0]) / dy


def from_streamfunction(psi: Scalar, grid: Grid) -> Velocity:
    """`(d psi/dy, -d psi/dx)` on the faces, from a streamfunction at the corners: exactly free of divergence."""
    dx, dy = grid.dx
    return jnp.stack([(psi - behind(psi, 1)) / dy, (behind(psi, 0) - psi) / dx])


def laplacian(a: Float[Array, "... x y"], grid: Grid) -> Float[Array, "... x y"]:
    """Five-point Laplacian over the last two axes."""
    dx, dy = grid.dx
    along_x = (ahead(a, 0) - 2 * a + behind(a, 0)) / dx**2
    return along_x + (ahead(a, 1) - 2 * a + behind(a, 1)) / dy**2


def laplacian_eigenvalues(grid: Grid) -> np.ndarray:
    """Symbol of `laplacian` on the half spectrum: `-sum_d (2 sin(k_d dx_d / 2) / dx_d)^2`."""
    symbols = ((2 / h * np.sin(0.5 * k * h)) ** 2 for k, h in zip(grid.wavenumbers(), grid.dx, strict=True))
    return -np.asarray(sum(symbols))


def solenoidal(v: Velocity, grid: Grid, diffusion: float = 0.0, *, mean: Float[Array, "2 1 1"]) -> Velocity:
    """`(I - diffusion Lap)^-1 P v`: exact discrete projection, then an implicit diffusion step, in one visit.

    On this grid a field is free of divergence if and only if it is a constant plus the curl of a streamfunction, and
    both operators are diagonal in Fourier space. So the whole map is: take the vorticity of `v`, divide its spectrum
    by `-Lap (1 - diffusion Lap)`, take the curl of the result, and put the `mean` of `v` back. That is two scalar
    transforms where pressure and two implicit solves would need six.
    """
    eigenvalues = laplacian_eigenvalues(grid)
    eigenvalues[0, 0] = -1.0  # a vorticity has no mean
    symbol = 1 / (-eigenvalues * (1 - diffusion * eigenvalues))
    symbol[0, 0] = 0.0
    psi = even_filter(vorticity(v, grid), symbol)
    return from_streamfunction(psi, grid) + mean


def project(v: Velocity, grid: Grid) -> Velocity:
    """The part of `v` that is free of divergence: `v - grad Lap^-1 div v`."""
    return solenoidal(v, grid, mean=mean_velocity(v))


def mean_velocity(v: Velocity) -> Float[Array, "2 1 1"]:
    """Mean of each component over the grid."""
    return v.mean(axis=(1, 2), keepdims=True)


def relax_divergence(v: Velocity, grid: Grid) -> Velocity:
    """A local correction that is zero on fields free of divergence and shrinks the divergence of all others.

    `c grad div v` with the largest `c` that overshoots no mode. Rounding leaves some divergence in every step; this
    keeps it from adding up, at the price of a stencil instead of a transform.
    """
    dx, dy = grid.dx
    return gradient(divergence(v, grid), grid) / (4 / dx**2 + 4 / dy**2)
