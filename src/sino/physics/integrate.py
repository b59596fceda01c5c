"""Time integrators: SSP-RK3 for hyperbolic terms, ETDRK4 for stiff diagonal linear terms."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sino.physics.solver import Time


def ssp_rk3(f: Callable[[Array, Time], Array], u: Array, t: Time, dt: float) -> Array:
    """One step of the third-order strong-stability-preserving Runge-Kutta method for `du/dt = f(u, t)`.

    In Shu-Osher form (convex combinations of Euler steps), with stage times `t`, `t + dt`, `t + dt/2`.
    Shu & Osher, J. Comput. Phys. 77 (1988), 439; also called TVD-RK3.
    """
    u1 = u + dt * f(u, t)
    u2 = 0.75 * u + 0.25 * (u1 + dt * f(u1, t + dt))
    return u / 3 + 2 / 3 * (u2 + dt * f(u2, t + 0.5 * dt))


class ETDRK4(NamedTuple):
    """Coefficients of the fourth-order exponential Runge-Kutta method for `du/dt = L u + N(u, t)`, L diagonal.

    With `z = dt L`:  `decay = e^z`,  `half_decay = e^(z/2)`,  `half_weight = dt (e^(z/2) - 1)/z`  and
    `first`, `middle`, `last` the weights of N at the start, at the two midpoints and at the end.
    Cox & Matthews, J. Comput. Phys. 176 (2002), 430, eqs. 26-29.
    """

    decay: Array
    half_decay: Array
    half_weight: Array
    first: Array
    middle: Array
    last: Array

    def step(self, nonlinear: Callable[[Array, Time], Array], u: Array, t: Time, dt: float) -> Array:
        """One step from `u` at time `t`; `nonlinear` is called at `t`, twice at `t + dt/2`, and at `t + dt`."""
        n0 = nonlinear(u, t)
        a = self.half_decay * u + self.half_weight * n0
        na = nonlinear(a, t + 0.5 * dt)
        b = self.half_decay * u + self.half_weight * na
        nb = nonlinear(b, t + 0.5 * dt)
        c = self.half_decay * a + self.half_weight * (2 * nb - n0)
        nc = nonlinear(c, t + dt)
        return self.decay * u + self.first * n0 + 2 * self.middle * (na + nb) + self.last * nc


def etdrk4(linear: np.ndarray, dt: float, dtype, points: int = 32) -> ETDRK4:
    """Coefficients for the real symbol `linear`, cast to `dtype`.

    Near `z = 0` the closed forms cancel, so each coefficient is the mean of its values on `points` points of a
    unit circle around z (Kassam & Trefethen, SIAM J. Sci. Comput. 26 (2005), 1214). The symbol is real, so the
    upper half circle and the real part suffice.
    """
    z = dt * np.asarray(linear, np.float64)
    circle = np.exp(1j * np.pi * (np.arange(1, points + 1) - 0.5) / points)
    w = z[..., None] + circle
    e = np.exp(w)

    def mean(values: np.ndarray) -> np.ndarray:
        return dt * values.mean(axis=-1).real

    coefficients = (
        np.exp(z),
        np.exp(z / 2),
        mean((np.exp(w / 2) - 1) / w),
        mean((-4 - w + e * (4 - 3 * w + w**2)) / w**3),
        mean((2 + w + e * (w - 2)) / w**3),
        mean((-4 - 3 * w - w**2 + e * (4 - w)) / w**3),
    )
    return ETDRK4(*(jnp.asarray(c, dtype) for c in coefficients))
