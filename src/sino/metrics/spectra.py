"""Energy by wavenumber."""

import numpy as np
from jaxtyping import Float


def energy_spectrum(u: Float[np.ndarray, "c *n"]) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Energy `E(k)` in shells of integer mode index, in any dimension; `sum E(k) = mean(|u|^2) / 2`.

    Shell `k` holds the modes whose index vector has a length that rounds to `k`; corner shells, which a box does not
    fill, are included so that the sum is exact.
    """
    n = u.shape[1:]
    axes = tuple(range(1, u.ndim))
    energy = 0.5 * (np.abs(np.fft.fftn(u, axes=axes) / np.prod(n)) ** 2).sum(axis=0)
    index = np.meshgrid(*(np.fft.fftfreq(m, 1 / m) for m in n), indexing="ij")
    shell = np.rint(np.sqrt(sum(i**2 for i in index))).astype(int)
    total = np.bincount(shell.ravel(), weights=energy.ravel())
    return np.arange(len(total), dtype=float), total
