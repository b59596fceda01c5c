"""Vorticity and divergence of velocities on the faces of a staggered grid, as functions of NumPy arrays.

The stencils are those of the solver (`sino.physics.staggered`), on a square periodic box.
"""

import numpy as np
from jaxtyping import Float


def vorticity(v: Float[np.ndarray, "*b 2 x y"], length: float) -> Float[np.ndarray, "*b x y"]:
    """`dv/dx - du/dy` at the corners of the cells, per unit of time."""
    u, w = v[..., 0, :, :], v[..., 1, :, :]
    dx, dy = (length / n for n in v.shape[-2:])
    return (np.roll(w, -1, axis=-2) - w) / dx - (np.roll(u, -1, axis=-1) - u) / dy


def divergence(v: Float[np.ndarray, "*b 2 x y"], length: float) -> Float[np.ndarray, "*b x y"]:
    """`du/dx + dv/dy` at the centres of the cells, per unit of time."""
    u, w = v[..., 0, :, :], v[..., 1, :, :]
    dx, dy = (length / n for n in v.shape[-2:])
    return (u - np.roll(u, 1, axis=-2)) / dx + (w - np.roll(w, 1, axis=-1)) / dy


def relative_divergence(v: Float[np.ndarray, "t 2 x y"], length: float) -> float:
    """Root mean square of the divergence over cells and frames, in units of the root mean square of the vorticity.

    0 for an incompressible flow, about the round-off of its numbers for a simulated one, 1 where the flow swells as
    much as it turns. Not a number for a fluid at rest. The stencil is that of the finite volumes: a pseudo-spectral
    flow, free of divergence by its own derivative, shows the difference of the two.
    """
    swelling = np.square(divergence(v, length)).mean(dtype=np.float64)
    turning = np.square(vorticity(v, length)).mean(dtype=np.float64)
    return float(np.sqrt(swelling / turning)) if turning > 0 else float("nan")
