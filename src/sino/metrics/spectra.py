"""Energy and enstrophy by wavenumber, and how far a spectrum is from the reference's."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

ROUND_OFF = 1e-14
"""Share of all energy below which numbers stored in float32 say nothing."""


def energy_spectrum(u: Float[np.ndarray, "c *n"]) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Energy `E(k)` in shells of integer mode index, in any dimension; `sum E(k) = mean(|u|^2) / 2`.

    Shell `k` holds the modes whose index vector has a length that rounds to `k`; corner shells, which a box does not
    fill, are included so that the sum is exact.
    """
    n = u.shape[1:]
    axes = tuple(range(1, u.ndim))
    energy = 0.5 * (np.abs(np.fft.fftn(u, axes=axes) / np.prod(n)) ** 2).sum(axis=0)
    total = np.bincount(_shells(n).ravel(), weights=energy.ravel())
    return np.arange(len(total), dtype=float), total


def enstrophy_spectrum(vorticity: Float[np.ndarray, "x y"]) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Enstrophy `Z(k)` of a vorticity `w` in the shells of `energy_spectrum`; `sum Z(k) = mean(w^2) / 2`."""
    return energy_spectrum(vorticity[None])


def resolved_shells(n: tuple[int, ...]) -> slice:
    """The shells that a grid of `n` cells fills, the mean left out: `1 <= k < n/2`."""
    return slice(1, (min(n) + 1) // 2)


def spectral_distance(spectrum: Float[np.ndarray, " k"], reference: Float[np.ndarray, " k"]) -> float:
    """Root mean square over shells of `log10(E / E of the reference)`: 1 is a factor of ten in a typical shell.

    Shells in which the reference has no more than round-off do not count; where only the spectrum has none, round-off
    stands in for it, so that a mode that a solver masks counts much, but not infinitely so.
    """
    floor = ROUND_OFF * reference.sum()
    counted = reference > floor
    if not counted.any():
        return float("nan")
    ratio = np.log10(np.maximum(spectrum[counted], floor) / reference[counted])
    return float(np.sqrt(np.square(ratio).mean()))


@lru_cache
def _shells(n: tuple[int, ...]) -> Int[np.ndarray, "*n"]:
    """The shell of every mode of `fftn`."""
    index = np.meshgrid(*(np.fft.fftfreq(m, 1 / m) for m in n), indexing="ij")
    return np.rint(np.sqrt(sum(i**2 for i in index))).astype(int)
