"""Orbits of wavenumbers: Fourier modes of real fields by their separable Hartley spectra.

The four reflections of a wavenumber make an orbit. Their values in a Hartley spectrum are, up to sums and differences,
the real and imaginary parts of two Fourier modes, `(kx, ky)` and `(kx, -ky)`. Orbits are numbered row by row,
`0 <= kx <= nx/2`, `0 <= ky <= ny/2`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.hartley import REFLECTIONS, reflected


def modes(h: Float[Array, "c x y"]) -> Float[Array, "2 2 c q"]:
    """Real and imaginary parts of the modes `(kx, ky)` and `(kx, -ky)` of every orbit of a Hartley spectrum.

    `h(kx, ky)` is `Re F(kx, -ky) - Im F(kx, ky)`, and so on for its reflections.
    """
    x, y = orbits(h.shape[1:])
    four = (reflected(h, along)[:, :x, :y].reshape(len(h), -1) for along in REFLECTIONS)
    return 0.5 * jnp.stack([jnp.stack(part) for part in twice_modes(*four)])


def spectrum(z: Float[Array, "2 2 c q"], n: tuple[int, ...]) -> Float[Array, "c x y"]:
    """The Hartley spectrum on `n` points with these modes: undoes `modes`."""
    here, turned_x, turned_y, opposite = reflections(*z.reshape(2, 2, -1, *orbits(n)))

    def joined(near: Array, far: Array, axis: int) -> Array:
        """What lies past the Nyquist frequency comes from the reflection, in reverse order."""
        behind = jax.lax.slice_in_dim(far, 1, 1 + (n[axis - 1] - 1) // 2, axis=axis)
        return jnp.concatenate([near, jnp.flip(behind, axis)], axis=axis)

    return joined(joined(here, turned_x, 1), joined(turned_y, opposite, 1), 2)


def orbits(n: tuple[int, ...]) -> tuple[int, ...]:
    """How many orbits there are along each axis."""
    return tuple(m // 2 + 1 for m in n)


def twice_modes(here: Any, turned_x: Any, turned_y: Any, opposite: Any) -> Any:
    """Twice the real and the imaginary parts of both modes, from the four reflections."""
    return (turned_x + turned_y, here + opposite), (opposite - here, turned_x - turned_y)


def reflections(real: Any, imaginary: Any) -> Any:
    """The four reflections from the real and imaginary parts of both modes."""
    (re, re_), (im, im_) = real, imaginary
    return re_ - im, re + im_, re - im_, re_ + im


def share(n: tuple[int, ...]) -> Float[np.ndarray, " q"]:
    """Part of each orbit that is its own: half of it for each component that is 0 or Nyquist, where reflections
    coincide and an orbit says the same twice."""
    alone = [np.where(2 * np.arange(count) % m == 0, 0.5, 1.0) for m, count in zip(n, orbits(n), strict=True)]
    return np.outer(*alone).reshape(-1)
