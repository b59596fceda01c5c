"""Closures without a network: one coefficient each."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.fourier import irfft, rfft
from sino.core.grid import Grid
from sino.coupling.closure import Closure, Statistics
from sino.models.model import AbstractModel, Operator
from sino.physics.staggered import ahead, behind


class Hyperviscosity(AbstractModel):
    """`tau_hat = -coefficient (|k|/k_N)^4 u_hat`, `k_N` the grid's Nyquist wavenumber: damping at the end of the
    spectrum, at the rate `coefficient` at `k_N`. Any dimension; each component alone, so divergence stays zero."""

    coefficient: Float[Array, ""]

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """The damping rates of all modes."""
        relative = np.meshgrid(*[2 * np.fft.fftfreq(m) for m in n[:-1]], 2 * np.fft.rfftfreq(n[-1]), indexing="ij")
        fourth = sum(k**2 for k in relative) ** 2

        def tau(u):
            u_hat = rfft(u)
            rates = self.coefficient.astype(u.dtype) * jnp.asarray(fourth, u.dtype)
            return irfft(-rates[None].astype(u_hat.dtype) * u_hat, n)

        return tau


class Smagorinsky(AbstractModel):
    """`tau_i = d_j (2 nu_t S_ij)`, `nu_t = (coefficient dx)^2 |S|`, `|S| = sqrt(2 S_ij S_ij)`, on the staggered grid.

    Normal strain lives at cell centres, shear at corners. Smagorinsky, Mon. Weather Rev. 91 (1963), 99.
    """

    coefficient: Float[Array, ""]
    length: float = eqx.field(static=True)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """A pure function of a velocity `(2, nx, ny)` on the faces."""
        dx, dy = Grid(n, (self.length,) * 2).dx

        def tau(v):
            u, w = v
            strain_xx, strain_yy = (u - behind(u, 0)) / dx, (w - behind(w, 1)) / dy  # at centres
            shear = 0.5 * ((ahead(u, 1) - u) / dy + (ahead(w, 0) - w) / dx)  # at corners
            square = shear**2
            shear_at_centre = 0.25 * (square + behind(square, 0) + behind(square, 1) + behind(behind(square, 0), 1))
            magnitude = _root(2 * (strain_xx**2 + strain_yy**2 + 2 * shear_at_centre))
            viscosity = (self.coefficient.astype(v.dtype) ** 2 * dx * dy) * magnitude
            at_corner = 0.25 * (viscosity + ahead(viscosity, 0) + ahead(viscosity, 1) + ahead(ahead(viscosity, 0), 1))
            stress_xx, stress_yy, stress_xy = (
                2 * viscosity * strain_xx,
                2 * viscosity * strain_yy,
                2 * at_corner * shear,
            )
            along_x = (ahead(stress_xx, 0) - stress_xx) / dx + (stress_xy - behind(stress_xy, 1)) / dy
            along_y = (stress_xy - behind(stress_xy, 0)) / dx + (ahead(stress_yy, 1) - stress_yy) / dy
            return jnp.stack([along_x, along_y])

        return tau


CLASSICAL = ("smagorinsky", "hyperviscosity")
"""Names, beside those of the networks."""


def build_classical(name: str, coefficient: Float[Array, ""], channels: int, length: float) -> Closure:
    """A classical closure with its coefficient, in physical units: nothing is normalised."""
    model = Smagorinsky(coefficient, length) if name == "smagorinsky" else Hyperviscosity(coefficient)
    one = jnp.ones_like(coefficient)
    return Closure(model, Statistics(jnp.zeros(channels, coefficient.dtype), one, one))


def _root(x: Array) -> Array:
    """Square root with a zero derivative at zero, where the flow is at rest."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)
