"""Forcings: sources with parameters. Each is a pytree, so `vmap` gives every trajectory its own.

A forcing knows the box but not the grid: it evaluates on whatever resolution the state has.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.grid import Grid
from sino.physics.solver import Source, State, Time
from sino.physics.staggered import U_OFFSET, V_OFFSET

Parameter = Array | np.ndarray


class SineForcing(eqx.Module):
    """`f(x, t) = sum_i A_i sin(omega_i t + 2 pi l_i x / length + phi_i)` at the centres of cells, shape `(1, n)`.

    With `cell_average` it is the exact mean over each cell instead, a factor `sinc(l_i / n)`: what a finite-volume
    scheme should use.
    """

    amplitude: Float[Parameter, " m"]
    frequency: Float[Parameter, " m"]
    mode: Float[Parameter, " m"]
    phase: Float[Parameter, " m"]
    length: float = eqx.field(static=True)
    cell_average: bool = eqx.field(static=True, default=False)

    def __call__(self, u: State, t: Time) -> State:
        n = u.shape[-1]
        dtype = u.dtype
        amplitude, frequency, mode, phase = (
            jnp.asarray(p, dtype) for p in (self.amplitude, self.frequency, self.mode, self.phase)
        )
        if self.cell_average:
            amplitude = amplitude * jnp.sinc(mode / n)
        # sin(a + b) = sin a cos b + cos a sin b: the part in x is the same at every step.
        x = jnp.asarray(2 * np.pi * (np.arange(n) + 0.5) / n, dtype)
        angle = mode[:, None] * x[None, :]
        clock = frequency * t + phase
        rows = jnp.concatenate([amplitude * jnp.sin(clock), amplitude * jnp.cos(clock)])
        waves = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])
        return jnp.dot(rows, waves, precision=jax.lax.Precision.HIGHEST)[None]


class KolmogorovForcing(eqx.Module):
    """`f = (amplitude sin(2 pi wavenumber y / length), 0)` on the staggered faces, shape `(2, nx, ny)`."""

    amplitude: Float[Parameter, ""]
    wavenumber: Float[Parameter, ""]
    length: float = eqx.field(static=True)

    def __call__(self, u: State, t: Time) -> State:
        _, y = _angles(u, self.wavenumber, self.length, U_OFFSET)
        along_x = jnp.broadcast_to(jnp.asarray(self.amplitude, u.dtype) * jnp.sin(y), u.shape[1:])
        return jnp.stack([along_x, jnp.zeros_like(along_x)])


class TaylorGreenForcing(eqx.Module):
    """`f = amplitude (sin(kx) cos(ky), -cos(kx) sin(ky))`, `k = 2 pi wavenumber / length`, on the staggered faces."""

    amplitude: Float[Parameter, ""]
    wavenumber: Float[Parameter, ""]
    length: float = eqx.field(static=True)

    def __call__(self, u: State, t: Time) -> State:
        x_u, y_u = _angles(u, self.wavenumber, self.length, U_OFFSET)
        x_v, y_v = _angles(u, self.wavenumber, self.length, V_OFFSET)
        vortices = jnp.stack([jnp.sin(x_u) * jnp.cos(y_u), -jnp.cos(x_v) * jnp.sin(y_v)])
        return jnp.asarray(self.amplitude, u.dtype) * vortices


class LinearDrag(eqx.Module):
    """`f = -rate u`."""

    rate: Float[Parameter, ""]

    def __call__(self, u: State, t: Time) -> State:
        return -jnp.asarray(self.rate, u.dtype) * u


class Sum(eqx.Module):
    """Several sources, added."""

    terms: tuple[Source, ...]

    def __call__(self, u: State, t: Time) -> State:
        total = self.terms[0](u, t)
        for term in self.terms[1:]:
            total = total + term(u, t)
        return total


def _angles(u: State, wavenumber: Parameter, length: float, offset: tuple[float, float]) -> tuple[Array, Array]:
    """`2 pi wavenumber x / length` and the same for y at one set of faces, shaped `(nx, 1)` and `(1, ny)`."""
    grid = Grid(u.shape[1:], (length, length))
    k = 2 * np.pi / length * jnp.asarray(wavenumber, u.dtype)
    x, y = (jnp.asarray(grid.axis(d, offset[d]), u.dtype) for d in (0, 1))
    return (k * x)[:, None], (k * y)[None, :]
