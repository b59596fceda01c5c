"""Two-dimensional incompressible flow by a pseudo-spectral method: the best classical one for smooth periodic flow."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex

from sino.core.fourier import irfft, laplacian_symbol, rfft, two_thirds_mask
from sino.core.grid import Grid
from sino.physics.integrate import etdrk4
from sino.physics.solver import AbstractSolver, Source, State, Time
from sino.physics.staggered import U_OFFSET, V_OFFSET

Spectrum = Complex[Array, "kx ky"]


class SpectralNavierStokes(AbstractSolver):
    """`w_t + v . grad w = viscosity Lap w + curl source`, `w = curl v`, by Fourier collocation and ETDRK4.

    The state is the velocity `(2, nx, ny)` on the same staggered faces as the finite-volume solver's (a shift by half a
    cell is exact in Fourier space), so forcing, closures, coarsening and errors are interchangeable. Inside, the state
    is the spectrum of the vorticity; its `k = 0` entry, where a vorticity is always zero, carries the mean velocity as
    `U + i V`. Products are dealiased by the 2/3 rule; the source is added after it, unmasked. The Nyquist modes,
    which a half-cell shift cannot represent, are zero.
    """

    grid: Grid = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    viscosity: float = eqx.field(static=True)

    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """`-P (v . grad) v + viscosity Lap v + P source` on the faces."""
        w = self.to_spectrum(u)
        diffusion = jnp.asarray(self.viscosity * laplacian_symbol(self.grid), w.dtype)
        return self.from_spectrum(self._nonlinear(w, source, t) + diffusion * w)

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """One step of ETDRK4. For many steps without a source, stay in Fourier space with `spectral_step`."""
        return self.from_spectrum(self.spectral_step(self.to_spectrum(u), source, t))

    def constrain(self, u: State) -> State:
        """The part free of divergence, as the spectrum sees it."""
        return self.from_spectrum(self.to_spectrum(u))

    def spectral_step(self, w: Spectrum, source: Source | None, t: Time) -> Spectrum:
        """`step` on the spectrum that `to_spectrum` makes."""
        integrator = etdrk4(self.viscosity * laplacian_symbol(self.grid), self.dt, w.dtype)
        return integrator.step(lambda a, s: self._nonlinear(a, source, s), w, t, self.dt)

    def to_spectrum(self, u: State) -> Spectrum:
        """Spectrum of the vorticity of a velocity on the faces, with the mean velocity in its `k = 0` entry."""
        u_hat = rfft(u)
        to_u, to_v = (jnp.asarray(s, u_hat.dtype) for s in self._velocity_symbols())
        scale = jnp.asarray(-laplacian_symbol(self.grid), u_hat.dtype)
        # The symbols map a vorticity to a velocity; their conjugates times |k|^2 take the curl.
        w = (jnp.conj(to_u) * u_hat[0] + jnp.conj(to_v) * u_hat[1]) * scale
        return w.at[0, 0].set(u_hat[0, 0, 0] + 1j * u_hat[1, 0, 0])

    def from_spectrum(self, w: Spectrum) -> State:
        """Velocity on the faces."""
        to_u, to_v = (jnp.asarray(s, w.dtype) for s in self._velocity_symbols())
        return irfft(_with_mean(to_u * w, to_v * w, w), self.grid.n)

    def _velocity_symbols(self, shifted: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """`i ky/|k|^2` and `-i kx/|k|^2`, shifted to the faces on request; zero for the mean and the Nyquist modes."""
        kx, ky = self.grid.wavenumbers()
        (dx, dy), (ix, iy), (nx, ny) = self.grid.dx, self.grid.indices(), self.grid.n
        squared = kx**2 + ky**2
        squared[0, 0] = 1.0
        regular = (2 * np.abs(ix) < nx) & (2 * np.abs(iy) < ny)
        symbols = []
        for symbol, offset in ((1j * ky, U_OFFSET), (-1j * kx, V_OFFSET)):
            shift = np.exp(1j * (kx * offset[0] * dx + ky * offset[1] * dy)) if shifted else 1.0
            symbols.append(np.where(regular, shift * symbol / squared, 0))
        return symbols[0], symbols[1]

    def _nonlinear(self, w: Spectrum, source: Source | None, t: Time) -> Spectrum:
        """`-div(v w) + curl source`, the convective part as `(kx^2 - ky^2) F[uv] - kx ky F[u^2 - v^2]`: four
        transforms (Basdevant, J. Comput. Phys. 50 (1983), 209)."""
        kx, ky = self.grid.wavenumbers()
        mask = two_thirds_mask(self.grid)
        to_u, to_v = (jnp.asarray(s * mask, w.dtype) for s in self._velocity_symbols(shifted=False))
        u, v = irfft(_with_mean(to_u * w, to_v * w, w), self.grid.n)
        product, difference = rfft(jnp.stack([u * v, u * u - v * v]))
        dwdt = jnp.asarray((kx**2 - ky**2) * mask, w.dtype) * product
        dwdt = dwdt - jnp.asarray(kx * ky * mask, w.dtype) * difference
        return dwdt if source is None else dwdt + self.to_spectrum(source(self.from_spectrum(w), t))


def _with_mean(u_hat: Spectrum, v_hat: Spectrum, w: Spectrum) -> Complex[Array, "2 kx ky"]:
    """Stack two velocity spectra and put the mean velocity, carried by `w`, back into them."""
    mean = w[0, 0]
    u_hat = u_hat.at[0, 0].set(mean.real.astype(w.dtype))
    return jnp.stack([u_hat, v_hat.at[0, 0].set(mean.imag.astype(w.dtype))])
