"""The same mix of channels everywhere, `y(x) = M h(x)`, as an accelerator likes it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core import fast
from sino.core.batching import for_batches


@jax.custom_vjp
def mix_channels(h: Float[Array, "ci *n"], matrix: Float[Array, "co ci"]) -> Float[Array, "co *n"]:
    """`M h`. A batch is a product per sample: a single one for all would put the channels first, and copy the fields
    there and back."""
    return for_batches(_batched)(h, matrix)


def _batched(h: Float[Array, "b ci *n"], matrix: Float[Array, "co ci"]) -> Float[Array, "b co *n"]:
    flat = h.reshape(*h.shape[:2], -1)
    many = jnp.broadcast_to(matrix, (len(h), *matrix.shape))
    return jnp.matmul(many, flat, precision=_precision(h)).reshape(len(h), len(matrix), *h.shape[2:])


def _forward(h: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return mix_channels(h, matrix), (h, matrix)


def _backward(kept: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    h, matrix = kept
    gradient = jnp.matmul(d.reshape(len(d), -1), h.reshape(len(h), -1).T, precision=_precision(h))
    return mix_channels(d, matrix.T), gradient


mix_channels.defvjp(_forward, _backward)


def _precision(h: Array) -> jax.lax.DotAlgorithmPreset | None:
    """On a GPU its matrix units."""
    return fast.PRODUCTS if fast.kernels(h.dtype) else None
