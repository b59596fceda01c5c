"""Maps from a fine grid to a coarse one. The coarse solution that a closure should reproduce is what they return.

All are linear, keep constants, and compose: fine to medium to coarse equals fine to coarse.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.errors import UserError
from sino.core.fourier import irfft, rfft, truncate


def cell_average(u: Float[Array, "c *n"], n: tuple[int, ...]) -> Float[Array, "c *m"]:
    """Exact average of fine cells over each coarse cell; keeps the mean."""
    for axis, factor in enumerate(_factors(u, n), start=1):
        u = _blocks(u, axis, factor).mean(axis=axis + 1)
    return u


def spectral_truncation(u: Float[Array, "c *n"], n: tuple[int, ...]) -> Float[Array, "c *m"]:
    """Values at `i dx` of the field without the modes that `n` points cannot hold; keeps the mean.

    The Nyquist mode of an even coarse grid could hold a cosine but no sine; it is set to zero.
    """
    return irfft(truncate(rfft(u), u.shape[1:], n), n)


def subsample(u: Float[Array, "c *n"], n: tuple[int, ...]) -> Float[Array, "c *m"]:
    """Every r-th value at `i dx`: what the coarse grid cannot hold is aliased onto what it can. For comparison only."""
    for axis, factor in enumerate(_factors(u, n), start=1):
        u = jnp.take(u, np.arange(0, u.shape[axis], factor), axis=axis)
    return u


def face_average(v: Float[Array, "d *n"], n: tuple[int, ...]) -> Float[Array, "d *m"]:
    """Staggered velocity: keep the fine faces that lie on coarse faces and average along the face.

    The flux through every coarse face is the sum of the fine ones, so a field free of divergence stays so exactly, and
    the mean of each component is kept for such fields.
    """
    factors = _factors(v, n)
    components = []
    for d, component in enumerate(v):
        for axis, factor in enumerate(factors):
            blocks = _blocks(component, axis, factor)
            across = jnp.take(blocks, factor - 1, axis=axis + 1)
            component = across if axis == d else blocks.mean(axis=axis + 1)
        components.append(component)
    return jnp.stack(components)


def check_divides(fine: int, coarse: int) -> None:
    """Raise unless a grid of `coarse` cells nests in one of `fine`."""
    if coarse < 1 or fine % coarse:
        nearby = [m for m in range(1, fine + 1) if fine % m == 0 and m >= 4]
        raise UserError(f"a coarse grid of {coarse} does not divide the fine grid of {fine}; choose among {nearby}")


def _factors(u: Array, n: tuple[int, ...]) -> tuple[int, ...]:
    for fine, coarse in zip(u.shape[1:], n, strict=True):
        check_divides(fine, coarse)
    return tuple(fine // coarse for fine, coarse in zip(u.shape[1:], n, strict=True))


def _blocks(u: Array, axis: int, factor: int) -> Array:
    """Split one axis into (coarse, factor)."""
    return u.reshape(*u.shape[:axis], u.shape[axis] // factor, factor, *u.shape[axis + 1 :])
