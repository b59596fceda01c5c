"""The separable Hartley transform: a Fourier transform of real fields in real numbers.

`H = A X A` over the last two axes, with `A_kx = cas(2 pi k x / n) / sqrt(n)` and `cas t = cos t + sin t`. `A` is
symmetric and orthogonal, so the transform is its own inverse and its own adjoint: one routine serves both directions
and their gradients. On grids of up to some hundred points it is two matrix products per plane, which an accelerator
does faster than a complex transform with the copies and scalings around it.

How the Fourier modes of a field are found in its spectrum says `sino.core.orbits`. Bracewell, *The Hartley Transform*,
Oxford 1986.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Inexact

from sino.core import fast

LARGEST_PLANE = 64
"""Largest plane, points per axis, whose three operands fit the on-chip memory of a GPU."""
FEW_CHANNELS, ROWS = 4, 16
"""A plane is one program of the kernel, or, if there are only so few channels, one for so many of its rows."""
PRODUCTS = jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X6
"""Precision of its products on a GPU: numbers of float32 in three parts of 16 bits. In TF32 parts it takes half as long
again and is less exact."""


def cas_matrix(n: int) -> Float[np.ndarray, "n n"]:
    """`A_kx = (cos + sin)(2 pi k x / n) / sqrt(n)`."""
    angle = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    return (np.cos(angle) + np.sin(angle)) / np.sqrt(n)


def reflected(h: Inexact[Array, "... x y"], along: tuple[bool, bool]) -> Inexact[Array, "... x y"]:
    """`h(-kx, ky)`, `h(kx, -ky)` or both: index `i` becomes `-i` modulo the size along the chosen axes."""
    for axis, chosen in zip((-2, -1), along, strict=True):
        if chosen:
            h = jnp.roll(jnp.flip(h, axis), 1, axis)
    return h


REFLECTIONS = ((False, False), (True, False), (False, True), (True, True))
"""The four reflections of a wavenumber."""


@jax.custom_vjp
def hartley(x: Float[Array, "c x y"]) -> Float[Array, "c x y"]:
    """`A X A` of every channel."""
    return transform(x)


hartley.defvjp(lambda x: (transform(x), None), lambda _, d: (transform(d),))


@jax.custom_vjp
def activated(h: Float[Array, "c x y"], bias: Float[Array, " c"]) -> Float[Array, "c x y"]:
    """`relu(A H A + bias)`: back to the grid, and the nonlinearity there."""
    return transform(h, bias=bias)


def _activated_forward(h: Array, bias: Array) -> tuple[Array, Array]:
    y = transform(h, bias=bias)
    return y, y


def _activated_backward(y: Array, d: Array) -> tuple[Array, Array]:
    back = transform(d, mask=y)
    points = math.sqrt(y.shape[-2] * y.shape[-1])
    return back, points * back[:, 0, 0]  # a sum over the grid is the constant mode


activated.defvjp(_activated_forward, _activated_backward)


@jax.custom_vjp
def added(h: Float[Array, "c x y"], x: Float[Array, "c x y"]) -> Float[Array, "c x y"]:
    """`H + A X A`: what a block adds to its input."""
    return transform(x, onto=h)


added.defvjp(lambda h, x: (transform(x, onto=h), None), lambda _, d: (d, transform(d)))


def transform(
    x: Float[Array, "c x y"],
    *,
    mask: Float[Array, "c x y"] | None = None,
    bias: Float[Array, " c"] | None = None,
    onto: Float[Array, "c x y"] | None = None,
    interpret: bool = False,
) -> Float[Array, "c x y"]:
    """`A X A` with what is done on the way in and out: `x` where `mask > 0`; `relu(. + bias)`; `onto + .`.

    On a GPU one kernel does all of it. `interpret` runs that kernel on a CPU, for tests.
    """
    n = x.shape[1:]
    sides = [jnp.asarray(cas_matrix(m), x.dtype) for m in n]
    fits = max(n) <= LARGEST_PLANE and min(n) >= 16 and all(m & (m - 1) == 0 for m in n)
    if not (interpret or (fits and fast.kernels(x.dtype))):
        x = x if mask is None else jnp.where(mask > 0, x, 0)
        y = jnp.einsum("kx,cxy,yl->ckl", sides[0], x, sides[1])
        y = y if bias is None else jax.nn.relu(y + bias[:, None, None])
        return y if onto is None else onto + y

    precision = jax.lax.Precision.HIGHEST if interpret else PRODUCTS  # a CPU has no such units

    def kernel(x_ref, left_ref, right_ref, *refs):
        extras, out_ref = iter(refs[:-1]), refs[-1]
        plane = x_ref[...]
        if mask is not None:
            plane = jnp.where(next(extras)[...] > 0, plane, 0)
        y = jax.lax.dot(jax.lax.dot(left_ref[...], plane, precision=precision), right_ref[...], precision=precision)
        if bias is not None:
            y = jnp.maximum(y + next(extras)[0], 0)
        if onto is not None:
            y = next(extras)[...] + y
        out_ref[...] = y

    rows = min(ROWS, n[0]) if len(x) <= FEW_CHANNELS else n[0]
    plane = pl.BlockSpec((None, *n), lambda c, r: (c, 0, 0))
    part = pl.BlockSpec((None, rows, n[1]), lambda c, r: (c, r, 0))
    left = pl.BlockSpec((rows, n[0]), lambda c, r: (r, 0))
    right = pl.BlockSpec((n[1], n[1]), lambda c, r: (0, 0))
    extras = [(mask, plane), (bias, pl.BlockSpec((1,), lambda c, r: (c,))), (onto, part)]
    given = [(array, spec) for array, spec in extras if array is not None]
    return pl.pallas_call(
        kernel,
        grid=(len(x), n[0] // rows),
        in_specs=[plane, left, right, *[spec for _, spec in given]],
        out_specs=part,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="hartley",
    )(x, *sides, *[array for array, _ in given])


def even_filter(w: Float[Array, "x y"], symbol: Float[np.ndarray, "x k"]) -> Float[Array, "x y"]:
    """`F^-1[symbol F w]` for a real symbol on the half spectrum that is even in each component.

    Such a filter is its own adjoint, and diagonal in Hartley space too. On accelerators it is two Hartley transforms by
    matrix products on small grids. On others the fields of a batch go in pairs, as real and imaginary part of one
    complex field, which such a filter keeps apart; and only by forward transforms, since the inverse real one comes
    with a copy of its input and a scaling of its output.
    """

    def alone(w: Array) -> Array:
        w_hat = jnp.fft.rfft2(w)
        return jnp.fft.irfft2(w_hat * jnp.asarray(symbol, w_hat.dtype), s=w.shape)

    if not fast.accelerated():
        return alone(w)
    whole = np.concatenate([symbol, symbol[:, 1 : (w.shape[1] + 1) // 2][:, ::-1]], axis=1)
    if max(w.shape) <= LARGEST_PLANE:
        return hartley(jnp.asarray(whole, w.dtype)[None] * hartley(w[None]))[0]

    apply = custom_vmap(alone)

    @apply.def_vmap
    def _(size: int, _, w: Array) -> tuple[Array, bool]:
        return _in_pairs(w, whole) if size % 2 == 0 else jax.vmap(alone)(w), True

    linear = jax.custom_vjp(apply)
    linear.defvjp(lambda w: (apply(w), None), lambda _, d: (apply(d),))
    return linear(w)


def _in_pairs(w: Float[Array, "b x y"], symbol: Float[np.ndarray, "x y"]) -> Float[Array, "b x y"]:
    """`F^-1[symbol F w]` of an even number of fields, by `F^-1 z = conj(F conj z) / n`."""
    first, second = jnp.split(w, 2)
    spectra = jnp.fft.fft2(jax.lax.complex(first, second))
    filtered = jnp.fft.fft2(jnp.conj(spectra * jnp.asarray(symbol / symbol.size, spectra.dtype)[None]))
    return jnp.concatenate([filtered.real, -filtered.imag])
