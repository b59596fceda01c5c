"""Exact solutions, shared by tests, validation and documentation."""

import numpy as np

from sino.core.grid import Grid
from sino.physics.staggered import U_OFFSET, V_OFFSET


def burgers_wave(x: np.ndarray, t: float, viscosity: float, steepness: float = 0.9, drift: float = 0.0) -> np.ndarray:
    """A 2 pi-periodic solution of `u_t + u u_x = viscosity u_xx` by the Cole-Hopf transform.

    `u = drift - 2 viscosity phi_x/phi` with `phi = 1 + steepness exp(-viscosity t) cos(x - drift t)`, a solution of the
    heat equation; `steepness` below 1, the closer the steeper.
    """
    y = x - drift * t
    decay = steepness * np.exp(-viscosity * t)
    return drift + 2 * viscosity * decay * np.sin(y) / (1 + decay * np.cos(y))


def burgers_wave_average(grid: Grid, t: float, viscosity: float, steepness: float = 0.9, drift: float = 0.0):
    """Cell averages of `burgers_wave` over the cells of a 2 pi grid, from the primitive `-2 viscosity ln phi`."""
    faces = np.arange(grid.n[0] + 1) * grid.dx[0] - drift * t
    phi = 1 + steepness * np.exp(-viscosity * t) * np.cos(faces)
    return drift - 2 * viscosity * np.diff(np.log(phi)) / grid.dx[0]


def kuramoto_sivashinsky_growth(k: np.ndarray | float) -> np.ndarray | float:
    """Growth rate of an infinitesimal wave `exp(ikx)`: `k^2 - k^4`."""
    return np.square(k) - np.square(np.square(k))


def taylor_green(grid: Grid, t: float, viscosity: float, wavenumber: int = 1) -> np.ndarray:
    """Decaying Taylor-Green vortices on the staggered faces of a 2 pi box: `(2, nx, ny)`.

    `(sin kx cos ky, -cos kx sin ky) exp(-2 viscosity k^2 t)`, an exact solution of the Navier-Stokes equations.
    """
    x_u, y_u = (wavenumber * grid.axis(d, U_OFFSET[d]) for d in (0, 1))
    x_v, y_v = (wavenumber * grid.axis(d, V_OFFSET[d]) for d in (0, 1))
    vortices = [np.outer(np.sin(x_u), np.cos(y_u)), -np.outer(np.cos(x_v), np.sin(y_v))]
    return np.stack(vortices) * np.exp(-2 * viscosity * wavenumber**2 * t)
