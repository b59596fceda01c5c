"""Operators of the staggered (marker-and-cell, Arakawa C) grid in two dimensions, second order, periodic.

Cell `(i, j)` has its centre at `((i+1/2) dx, (j+1/2) dy)`. A velocity `(2, nx, ny)` holds `u` on the cell's right
face `((i+1) dx, (j+1/2) dy)` and `v` on its top face `((i+1/2) dx, (j+1) dy)`; pressure and divergence live at
centres, vorticity and streamfunction at corners `((i+1) dx, (j+1) dy)`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core import fast
from sino.core.grid import Grid
from sino.core.hartley import even_filter
from sino.core.stencil import Neighbour, fits, stencil_kernel

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


def streamfunction(v: Velocity, grid: Grid, *, diffusion: float = 0.0, scale: float = 1.0) -> Scalar:
    """That of `scale (I - diffusion Lap)^-1 P v`: exact discrete projection, then an implicit diffusion step, in one
    visit.

    On this grid a field is free of divergence if and only if it is a constant plus the curl of a streamfunction, and
    both operators are diagonal in Fourier space. So the whole map is: take the vorticity of `v`, and divide its
    spectrum by `-Lap (1 - diffusion Lap)`. That is two scalar transforms where pressure and two implicit solves would
    need six. What is missing is the mean of `v`, which has no streamfunction.
    """
    eigenvalues = laplacian_eigenvalues(grid)
    eigenvalues[0, 0] = -1.0  # a vorticity has no mean
    symbol = scale / (-eigenvalues * (1 - diffusion * eigenvalues))
    symbol[0, 0] = 0.0
    return even_filter(vorticity(v, grid), symbol)


def project(v: Velocity, grid: Grid) -> Velocity:
    """The part of `v` that is free of divergence: `v - grad Lap^-1 div v`."""
    return from_streamfunction(streamfunction(v, grid), grid) + mean_velocity(v)


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


def advanced(v: Velocity, psi: Scalar, mean: Float[Array, "2 1 1"], grid: Grid) -> Velocity:
    """`v + curl psi + mean`, its divergence relaxed: the end of a step from `v`, by an increment that is free of
    divergence."""
    if fits(grid.n) and fast.kernels(v.dtype):
        return _advanced_by_kernel(v, psi, mean, grid)
    return advanced_plainly(v, psi, mean, grid)


def advanced_plainly(v: Velocity, psi: Scalar, mean: Float[Array, "2 1 1"], grid: Grid) -> Velocity:
    """`advanced`, as it is written."""
    return v + (from_streamfunction(psi, grid) + mean) + relax_divergence(v, grid)


def advanced_by_kernel(
    v: Velocity, psi: Scalar, mean: Float[Array, "2 1 1"], grid: Grid, *, interpret: bool = False
) -> Velocity:
    """`advanced` in one pass over memory. `interpret` is for tests on a CPU."""
    dx, dy = grid.dx
    overshoots_nothing = 1 / (4 / dx**2 + 4 / dy**2)

    def cells(at: Neighbour) -> list[Array]:
        def source(i: int, j: int) -> Array:
            """The divergence of a cell."""
            return (at(0, 0, (i, j)) - at(0, 0, (i - 1, j))) / dx + (at(0, 1, (i, j)) - at(0, 1, (i, j - 1))) / dy

        here, near_x, near_y = (at(1, 0, shift) for shift in ((0, 0), (-1, 0), (0, -1)))
        curl = (here - near_y) / dy, (near_x - here) / dx
        relaxed = [overshoots_nothing * (source(*far) - source(0, 0)) / h for far, h in (((1, 0), dx), ((0, 1), dy))]
        return [at(0, c, (0, 0)) + (curl[c] + at(2, c, (0, 0))) + relaxed[c] for c in (0, 1)]

    return stencil_kernel(cells, [v, psi[None], mean], name="advance", interpret=interpret)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _advanced_by_kernel(v: Velocity, psi: Scalar, mean: Float[Array, "2 1 1"], grid: Grid) -> Velocity:
    return advanced_by_kernel(v, psi, mean, grid)


def _advanced_backward(grid: Grid, _: None, d: Velocity) -> tuple[Velocity, Scalar, Float[Array, "2 1 1"]]:
    """The map is linear: its gradient needs nothing that was computed before."""
    taken = (jax.ShapeDtypeStruct(shape, d.dtype) for shape in (d.shape, d.shape[1:], (2, 1, 1)))
    return jax.linear_transpose(partial(advanced_plainly, grid=grid), *taken)(d)


_advanced_by_kernel.defvjp(lambda *given: (advanced_by_kernel(*given), None), _advanced_backward)
