"""Convolutions whose kernels a hypernetwork generates, made ready for one grid."""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from sino.core.fourier import rfft
from sino.models.hypernetwork import Hypernetwork, frequency_coordinates, offset_coordinates
from sino.models.layers import Linear, negated

Form = Literal["auto", "merged", "filters", "hartley", "factorised", "dense"]


Kind = Literal["real", "imaginary", "complex"]


class Factorised(eqx.Module):
    """`y_hat = sum_j filter_j (M_j h_hat)`: channel mixes with real matrices, then scalar filters."""

    filters: Complex[Array, "j *k"]
    mix: Float[Array, "j co ci"]
    kinds: tuple[Kind, ...] = eqx.field(static=True)
    """What is known beforehand of each filter."""

    def __call__(self, h_hat: Complex[Array, "ci *k"]) -> Complex[Array, "co *k"]:
        """Apply to a spectrum."""
        mixed = _real_times_complex(self.mix.reshape(-1, self.mix.shape[-1]), h_hat)
        mixed = mixed.reshape(*self.mix.shape[:2], *h_hat.shape[1:])
        return (self.filters[:, None] * mixed).sum(axis=0)


class DenseFilter(eqx.Module):
    """`y_hat(k) = m(k) h_hat(k)`, a matrix per mode."""

    kernel: Complex[Array, "co ci *k"]

    def __call__(self, h_hat: Complex[Array, "ci *k"]) -> Complex[Array, "co *k"]:
        """Apply to a spectrum."""
        if min(self.kernel.shape[:2]) <= THIN:
            return (self.kernel * h_hat[None]).sum(axis=1)
        return jnp.einsum("oi...,i...->o...", self.kernel, h_hat)


class DenseKernel(eqx.Module):
    """Circular convolution with a matrix per offset."""

    kernel: Float[Array, "co ci *K"]

    def __call__(self, h: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        """Apply to a field."""
        size, dim = self.kernel.shape[-1], h.ndim - 1
        radius = size // 2
        padded = jnp.pad(h, [(0, 0)] + [(radius, radius)] * dim, mode="wrap")
        # A convolution, where the primitive is a correlation.
        flipped = jnp.flip(self.kernel, axis=tuple(range(2, 2 + dim)))
        return jax.lax.conv_general_dilated(padded[None], flipped, (1,) * dim, "VALID")[0]


def frequency_operator(
    net: Hypernetwork, bypass: Linear, n: tuple[int, ...], form: Form, clip: float | None
) -> Factorised | DenseFilter:
    """The frequency branch with its bypass, which is a filter too, merged into it."""
    bottleneck = net.layers[-1].weight.shape[0]
    dense = form == "dense" or clip is not None or (form == "auto" and bottleneck > FACTORISED_UP_TO)
    if dense:
        m = generated_filter(net, n)
        m = m if clip is None else m * clip_factor(m, clip)
        weight = bypass.weight.reshape(*bypass.weight.shape, *[1] * len(n))
        return DenseFilter(m + weight.astype(m.dtype))
    even, odd, real, imag = _frequency_factors(net, n)
    real = real.at[0].add(bypass.weight)  # the first filter is the constant 1
    filters = jnp.concatenate([jax.lax.complex(even, jnp.zeros_like(even)), jax.lax.complex(jnp.zeros_like(odd), odd)])
    return Factorised(filters, jnp.concatenate([real, imag]), ("real",) * len(even) + ("imaginary",) * len(odd))


def spatial_operator(net: Hypernetwork, n: tuple[int, ...], kernel: int, form: Form) -> Factorised | DenseKernel:
    """The spatial branch: by transfer functions, or as a convolution with a dense kernel."""
    z, matrices = spatial_factors(net, kernel, len(n))
    offsets = kernel ** len(n)
    if form == "dense" or (form == "auto" and offsets <= DENSE_KERNEL_UP_TO * len(matrices)):
        return DenseKernel(jnp.tensordot(jnp.moveaxis(matrices, 0, -1), z, axes=1))
    # The transfer function of each scalar kernel: its transform on the grid, offset 0 at the origin, wrapped if larger.
    radius = kernel // 2
    on_grid = jnp.zeros((len(z), *n), z.dtype)
    index = np.meshgrid(*[np.arange(-radius, radius + 1) % m for m in n], indexing="ij")
    return Factorised(rfft(on_grid.at[(slice(None), *index)].add(z)), matrices, ("complex",) * len(z))


def merged_filter(
    branch: Factorised | DenseFilter,
    *,
    before: Float[Array, "m ci"] | None = None,
    after: Float[Array, "co m"] | None = None,
) -> Complex[Array, "co ci *k"]:
    """The filter of `after . branch . before`, as a matrix per mode."""

    def surround(matrices: Array) -> Array:
        """Matrices are in axes 1 and 2 from the left of what follows the leading axis."""
        if before is not None:
            matrices = jnp.moveaxis(jnp.tensordot(matrices, before.astype(matrices.dtype), axes=(2, 0)), -1, 2)
        if after is not None:
            matrices = jnp.moveaxis(jnp.tensordot(after.astype(matrices.dtype), matrices, axes=(1, 1)), 0, 1)
        return matrices

    if isinstance(branch, DenseFilter):
        return surround(branch.kernel[None])[0]
    mix = surround(branch.mix).astype(branch.filters.dtype)
    return jnp.tensordot(jnp.moveaxis(mix, 0, -1), branch.filters, axes=1)


THIN = 4
"""A filter of at most so many inputs or outputs is a few products per mode rather than a matrix product."""
FACTORISED_UP_TO = 8
"""Largest bottleneck for which the frequency branch is factorised by default, as measured by `make bench`."""
DENSE_KERNEL_UP_TO = 2
"""The spatial branch is dense by default if it has at most this many offsets per factor."""


def _frequency_factors(net: Hypernetwork, n: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
    """Filters for the real and for the imaginary head, and their matrices.

    The filter must map real fields to real fields: `m(-k) = conj m(k)`. Where both `k` and `-k` are stored (the zero
    and Nyquist columns of the last axis), it is replaced by `(m(k) + conj m(-k)) / 2`: the even part of the features
    for the real head, the odd part for the imaginary one. That equals the real part of a full complex transform.
    """
    dtype = net.layers[0].weight.dtype
    z = net.features(jnp.asarray(frequency_coordinates(n), dtype))
    mirrored = negated(z, axes=range(1, z.ndim - 1))
    shared = np.zeros(n[-1] // 2 + 1, bool)
    shared[0] = True
    shared[-1] |= n[-1] % 2 == 0
    shared = shared.reshape(*[1] * (z.ndim - 1), -1)
    even = jnp.where(shared, 0.5 * (z + mirrored), z)
    odd = jnp.where(shared, 0.5 * (z - mirrored), z)
    real, imag = net.matrices(0), net.matrices(1)
    scale = 1 / math.sqrt(real.shape[-1])
    return even, odd, scale * real, scale * imag


def generated_filter(net: Hypernetwork, n: tuple[int, ...]) -> Complex[Array, "co ci *k"]:
    """`m(xi)` as a matrix per mode."""
    even, odd, real, imag = _frequency_factors(net, n)
    parts = (jnp.tensordot(jnp.moveaxis(b, 0, -1), z, axes=1) for b, z in ((real, even), (imag, odd)))
    return jax.lax.complex(*parts)


def clip_factor(m: Complex[Array, "..."], percentile: float) -> Complex[Array, "..."]:
    """Factors that bring the magnitudes down to their own percentile."""
    magnitude = jnp.abs(m)
    limit = jax.lax.stop_gradient(jnp.percentile(magnitude, percentile))
    return jnp.minimum(1.0, limit / jnp.maximum(magnitude, jnp.finfo(magnitude.dtype).tiny)).astype(m.dtype)


def spatial_factors(net: Hypernetwork, kernel: int, dim: int) -> tuple[Array, Array]:
    """Scalar kernels `(n+1, *K)` and their matrices, scaled."""
    dtype = net.layers[0].weight.dtype
    matrices = net.matrices(0)
    z = net.features(jnp.asarray(offset_coordinates(kernel, dim), dtype))
    return z, matrices / math.sqrt(kernel**dim * matrices.shape[-1])


def _real_times_complex(a: Float[Array, "o i"], b: Complex[Array, "i *k"]) -> Complex[Array, "o *k"]:
    """`a @ b` without multiplying by the zero imaginary part of `a`."""
    stacked = jnp.concatenate([b.real, b.imag], axis=-1)
    real, imag = jnp.split(jnp.tensordot(a, stacked, axes=1), 2, axis=-1)
    return jax.lax.complex(real, imag)
