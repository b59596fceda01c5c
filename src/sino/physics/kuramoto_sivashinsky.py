"""The Kuramoto-Sivashinsky equation."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from sino.core.fourier import Dealias, irfft, laplacian_symbol, rfft
from sino.core.grid import Grid
from sino.physics.integrate import etdrk4
from sino.physics.solver import AbstractSolver, Source, State, Time
from sino.physics.spectral import Spectrum, advection_and_source


class KuramotoSivashinsky(AbstractSolver):
    """`u_t + u u_x + u_xx + u_xxxx = source`, `u` of shape `(1, n)`: values at `i dx`.

    Pseudo-spectral, `u u_x = (u^2/2)_x`; the linear part `k^2 - k^4` exactly and the rest to fourth order by ETDRK4.
    `dealias` treats the product; the source is added after it, unmasked. A source that is frozen over the step
    contributes exactly `dt phi_1(dt L) source`, `phi_1(z) = (e^z - 1)/z`.
    """

    grid: Grid = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    dealias: Dealias = eqx.field(static=True, default="two-thirds")

    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """`-(u^2/2)_x - u_xx - u_xxxx + source` at the grid points."""
        u_hat = rfft(u)
        linear = jnp.asarray(self.linear_symbol(), u_hat.dtype)[None]
        return irfft(linear * u_hat + self._nonlinear(u_hat, source, t), self.grid.n)

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """One step of ETDRK4, taken in Fourier space."""
        u_hat = rfft(u)
        integrator = etdrk4(self.linear_symbol()[None], self.dt, u_hat.dtype)
        advanced = integrator.step(lambda v, s: self._nonlinear(v, source, s), u_hat, t, self.dt)
        return irfft(advanced, self.grid.n)

    def constrain(self, u: State) -> State:
        """Any field will do."""
        return u

    def linear_symbol(self) -> np.ndarray:
        """Growth rate `k^2 - k^4` of each mode of the half spectrum."""
        laplacian = laplacian_symbol(self.grid)
        return -laplacian - laplacian**2

    def _nonlinear(self, u_hat: Spectrum, source: Source | None, t: Time) -> Spectrum:
        return advection_and_source(u_hat, self.grid, self.dealias, source, t)
