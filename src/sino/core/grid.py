"""Uniform periodic grids."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """A uniform grid of `n[d]` cells over a periodic box of size `length[d]`, in any dimension d.

    A field on the grid is a plain array `(c, *n)`: channels first, one sample. The grid is hashable and
    holds no arrays, so it can be a static field of a solver. What it returns is NumPy float64; solvers cast
    it to the precision of the state.
    """

    n: tuple[int, ...]
    length: tuple[float, ...]

    def __post_init__(self):
        if len(self.n) != len(self.length):
            raise ValueError(f"a grid needs one length per axis: n={self.n}, length={self.length}")
        if not self.n or min(self.n) < 1 or min(self.length) <= 0:
            raise ValueError(f"a grid needs positive sizes: n={self.n}, length={self.length}")

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.n)

    @property
    def dx(self) -> tuple[float, ...]:
        """Cell size along each axis."""
        return tuple(length / n for length, n in zip(self.length, self.n, strict=True))

    def axis(self, d: int, offset: float = 0.0) -> np.ndarray:
        """Coordinates `(i + offset) dx` along axis `d`: offset 0 for collocation points, 1/2 for cell centres."""
        return (np.arange(self.n[d]) + offset) * self.dx[d]

    def indices(self) -> tuple[np.ndarray, ...]:
        """Signed integer mode indices of `rfftn`, one array per axis, shaped to broadcast against each other."""
        per_axis = [np.fft.fftfreq(n, 1 / n) for n in self.n[:-1]] + [np.fft.rfftfreq(self.n[-1], 1 / self.n[-1])]
        return tuple(np.round(k) for k in np.meshgrid(*per_axis, indexing="ij", sparse=True))

    def wavenumbers(self) -> tuple[np.ndarray, ...]:
        """Angular wavenumbers `2 pi index / length`, laid out as `indices`."""
        return tuple(2 * np.pi / length * k for length, k in zip(self.length, self.indices(), strict=True))
