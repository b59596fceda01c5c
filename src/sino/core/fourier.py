"""Real Fourier transforms over the grid axes, and what is diagonal in them.

Conventions. A field `(c, *n)` has the half spectrum `(c, *n[:-1], n[-1]//2 + 1)` of `rfftn`. Where an axis has
an even number of points its Nyquist mode is half a mode: it holds a cosine but no sine. Odd derivatives of it
are not defined and are set to zero, as is the mode itself when a spectrum is cut to a smaller grid.
"""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

from sino.core import fast
from sino.core.grid import Grid

Dealias = Literal["two-thirds", "padded", "none"]


LONGEST_PRODUCT = 256
"""Points of a grid in one dimension up to which an accelerator transforms by a matrix product. A library's transform
is a launch, or several, that cannot be recorded together with its neighbours; on grids this small that costs most."""


def rfft(u: Float[Array, "c *n"]) -> Complex[Array, "c *k"]:
    """Transform every channel over all grid axes."""
    if u.ndim == 2 and _by_product(u.shape[1]):
        real, imaginary = jnp.split(_product(u, np.concatenate(_waves(u.shape[1]), axis=1)), 2, axis=1)
        return lax.complex(real, imaginary)
    return jnp.fft.rfftn(u, axes=tuple(range(1, u.ndim)))


def irfft(u_hat: Complex[Array, "c *k"], n: tuple[int, ...]) -> Float[Array, "c *n"]:
    """Invert `rfft` onto a grid of `n` points."""
    if len(n) == 1 and _by_product(n[0]):
        waves = _waves(n[0])
        twice = np.where(2 * np.arange(waves[0].shape[1]) % n[0] == 0, 1, 2) / n[0]  # for what is not stored
        parts = jnp.concatenate([u_hat.real, u_hat.imag], axis=1)
        return _product(parts, np.concatenate([twice * wave for wave in waves], axis=1).T)
    return jnp.fft.irfftn(u_hat, s=n, axes=tuple(range(1, u_hat.ndim)))


def _by_product(n: int) -> bool:
    return n <= LONGEST_PRODUCT and fast.accelerated()


def _waves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary part of `exp(-2 pi i x k / n)`, `(n, n//2 + 1)` each."""
    turns = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n  # exact: the angles stay small
    angle = 2 * np.pi * turns / n
    return np.cos(angle), -np.sin(angle)


def _product(u: Float[Array, "c m"], matrix: Float[np.ndarray, "m k"]) -> Float[Array, "c k"]:
    return jnp.dot(u, jnp.asarray(matrix, u.dtype), precision=lax.Precision.HIGHEST)


def derivative_symbol(grid: Grid, axis: int, order: int = 1) -> np.ndarray:
    """`(i k)^order` along `axis`, shaped to broadcast; zero at the Nyquist mode when `order` is odd."""
    k = grid.wavenumbers()[axis]
    symbol = (1j * k) ** order
    if order % 2:
        symbol = np.where(2 * np.abs(grid.indices()[axis]) == grid.n[axis], 0, symbol)
    return symbol


def derivative(u: Float[Array, "c *n"], grid: Grid, axis: int = 0, order: int = 1) -> Float[Array, "c *n"]:
    """Spectral derivative of every channel along one grid axis."""
    u_hat = rfft(u)
    return irfft(u_hat * jnp.asarray(derivative_symbol(grid, axis, order), u_hat.dtype)[None], grid.n)


def laplacian_symbol(grid: Grid) -> np.ndarray:
    """`-|k|^2` on the half spectrum."""
    return -np.asarray(sum(k**2 for k in grid.wavenumbers()))


def two_thirds_mask(grid: Grid) -> np.ndarray:
    """True on the modes with `|index| < n/3` along every axis, which their own products cannot alias into."""
    mask = np.array(True)
    for index, n in zip(grid.indices(), grid.n, strict=True):
        mask = mask & (3 * np.abs(index) < n)
    return mask


def truncate(u_hat: Complex[Array, "c *k"], n: tuple[int, ...], to: tuple[int, ...]) -> Complex[Array, "c *m"]:
    """Move the half spectrum of an `n`-point field onto a grid of `to` points.

    Modes that the other grid cannot hold are dropped, new ones are zero, and amplitudes are rescaled so that
    the values of what remains are kept. Along each axis whose size changes, the Nyquist mode of the smaller
    grid (if even) is set to zero.
    """
    for d, (old, new) in enumerate(zip(n, to, strict=True)):
        if old == new:
            continue
        small = min(old, new)
        kept = (small - 1) // 2  # the largest index that both grids hold with sine and cosine
        axis = d + 1
        positive = jnp.take(u_hat, np.arange(kept + 1), axis=axis)
        half = d == len(n) - 1
        size = new // 2 + 1 if half else new
        negative = None if half else jnp.take(u_hat, np.arange(old - kept, old), axis=axis)
        gap_shape = list(u_hat.shape)
        gap_shape[axis] = size - (kept + 1) - (0 if half else kept)
        parts = [positive, jnp.zeros(gap_shape, u_hat.dtype)] + ([] if negative is None else [negative])
        u_hat = jnp.concatenate(parts, axis=axis) * (new / old)
    return u_hat


def square(u_hat: Complex[Array, "c *k"], grid: Grid, dealias: Dealias) -> Complex[Array, "c *k"]:
    """Spectrum of the pointwise square `u^2`.

    - `two-thirds`: modes from `n/3` up are removed before and after (the paper's rule);
    - `padded`: the product is formed on a grid of 3/2 as many points: exact for every mode below Nyquist;
    - `none`: the plain collocation product, with its aliases.
    """
    if dealias == "two-thirds":
        mask = jnp.asarray(two_thirds_mask(grid), u_hat.dtype)[None]
        return rfft(irfft(u_hat * mask, grid.n) ** 2) * mask
    if dealias == "padded":
        fine = tuple(-(-3 * n // 2) for n in grid.n)
        u = irfft(truncate(u_hat, grid.n, fine), fine)
        return truncate(rfft(u**2), fine, grid.n)
    return rfft(irfft(u_hat, grid.n) ** 2)
