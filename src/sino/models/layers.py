"""What the networks share. Every layer maps `(ci, *n)` to `(co, *n)`: channels first, one sample, periodic.

Parameters are drawn in float32 whatever the working precision, so a key names the same network everywhere.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, PRNGKeyArray

from sino.core.fourier import irfft

Key = PRNGKeyArray | Array


OUT_STD = 1e-4
"""Deviation of the last layer's weights at the start. The paper has 0.01, from which an untrained closure already
spoils a rollout of a thousand steps (Kuramoto-Sivashinsky: 0.7 against 0.0035 of the solver alone)."""


def uniform_by_fan_in(key: Key, shape: tuple[int, ...], fan_in: int) -> Float[Array, "..."]:
    """Uniform in `±1/sqrt(fan_in)`: the usual plain initialisation of linear layers and convolutions."""
    bound = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)


class Linear(eqx.Module):
    """`y = W x + b` on the channels of every point.

    With `std` the weights are normal with that deviation and the bias is zero: the small last layer of most networks.
    """

    weight: Float[Array, "co ci"]
    bias: Float[Array, " co"] | None

    def __init__(self, ci: int, co: int, *, key: Key, bias: bool = True, std: float | None = None):
        weight_key, bias_key = jax.random.split(key)
        if std is None:
            self.weight = uniform_by_fan_in(weight_key, (co, ci), ci)
            self.bias = uniform_by_fan_in(bias_key, (co,), ci) if bias else None
        else:
            self.weight = std * jax.random.normal(weight_key, (co, ci), jnp.float32)
            self.bias = jnp.zeros(co, jnp.float32) if bias else None

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        y = jnp.tensordot(self.weight, x, axes=1)
        return y if self.bias is None else y + _per_channel(self.bias, y)


class MLP(eqx.Module):
    """Linear layers with an activation between them (none after the last)."""

    layers: tuple[Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], activation: str, *, key: Key, last_std: float | None = None):
        keys = jax.random.split(key, len(sizes) - 1)
        stds = [None] * (len(sizes) - 2) + [last_std]
        pairs = zip(sizes[:-1], sizes[1:], keys, stds, strict=True)
        self.layers = tuple(Linear(ci, co, key=k, std=std) for ci, co, k, std in pairs)
        self.activation = activation

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x)


ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "leaky_relu": lambda x: jax.nn.leaky_relu(x, 0.1),
}


class LayerNorm(eqx.Module):
    """Normalise the channels of every point to mean 0 and variance 1, then scale and shift."""

    scale: Float[Array, " c"]
    shift: Float[Array, " c"]

    def __init__(self, c: int):
        self.scale, self.shift = jnp.ones(c, jnp.float32), jnp.zeros(c, jnp.float32)

    def __call__(self, x: Float[Array, "c *n"]) -> Float[Array, "c *n"]:
        centred = x - x.mean(axis=0, keepdims=True)
        normal = centred / jnp.sqrt((centred**2).mean(axis=0, keepdims=True) + 1e-5)
        return normal * _per_channel(self.scale, x) + _per_channel(self.shift, x)


class Conv(eqx.Module):
    """Circular convolution (in the sense of deep learning: correlation) with an odd kernel of `k` points per axis."""

    weight: Float[Array, "co ci *k"]
    bias: Float[Array, " co"]
    stride: int = eqx.field(static=True)

    def __init__(self, ci: int, co: int, k: int, dim: int, *, key: Key, stride: int = 1):
        weight_key, bias_key = jax.random.split(key)
        self.weight = uniform_by_fan_in(weight_key, (co, ci) + (k,) * dim, ci * k**dim)
        self.bias = uniform_by_fan_in(bias_key, (co,), ci * k**dim)
        self.stride = stride

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *m"]:
        k, dim = self.weight.shape[-1], x.ndim - 1
        padded = jnp.pad(x, [(0, 0)] + [((k - 1) // 2, (k - 1) // 2)] * dim, mode="wrap")
        y = jax.lax.conv_general_dilated(padded[None], self.weight, (self.stride,) * dim, "VALID")[0]
        return y + _per_channel(self.bias, y)


class ConvTranspose(eqx.Module):
    """Circular transposed convolution with stride 2 and an even kernel of `k` points per axis: doubles every axis.

    The adjoint (up to bias) of a circular convolution with stride 2, centred: output `2i + j - (k - 2)/2` receives
    `weight[j] x_i`.
    """

    weight: Float[Array, "co ci *k"]
    bias: Float[Array, " co"]

    def __init__(self, ci: int, co: int, k: int, dim: int, *, key: Key):
        weight_key, bias_key = jax.random.split(key)
        self.weight = uniform_by_fan_in(weight_key, (co, ci) + (k,) * dim, co * k**dim)
        self.bias = uniform_by_fan_in(bias_key, (co,), co * k**dim)

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *m"]:
        k, dim = self.weight.shape[-1], x.ndim - 1
        margin = (k - 2) // 2
        wide = jnp.pad(x, [(0, 0)] + [(margin, margin)] * dim, mode="wrap")
        flipped = jnp.flip(self.weight, axis=tuple(range(2, 2 + dim)))
        full = [(k - 1, k - 1)] * dim
        y = jax.lax.conv_general_dilated(wide[None], flipped, (1,) * dim, full, lhs_dilation=(2,) * dim)[0]
        # The full output starts at index -2 margin - margin of the grid; keep 2n points from index 0.
        start = 3 * margin
        for axis, n in enumerate(x.shape[1:], start=1):
            y = jax.lax.slice_in_dim(y, start, start + 2 * n, axis=axis)
        return y + _per_channel(self.bias, y)


class ComplexWeight(eqx.Module):
    """A complex parameter as two real arrays. It counts once in the paper's counts."""

    real: Float[Array, "..."]
    imag: Float[Array, "..."]

    def value(self) -> Complex[Array, "..."]:
        """The complex array."""
        return jax.lax.complex(self.real, self.imag)


def coordinates(n: tuple[int, ...], dtype) -> Float[Array, "d *n"]:
    """Normalised coordinates `x/L = i/n` of every point, one channel per axis."""
    axes = np.meshgrid(*(np.arange(m) / m for m in n), indexing="ij")
    return jnp.asarray(np.stack(axes), dtype)


def with_coordinates(x: Float[Array, "c *n"]) -> Float[Array, "c_plus_d *n"]:
    """Append the normalised coordinates as channels."""
    return jnp.concatenate([x, coordinates(x.shape[1:], x.dtype)])


def real_irfft(u_hat: Complex[Array, "c *k"], n: tuple[int, ...]) -> Float[Array, "c *n"]:
    """Inverse transform of a half spectrum that need not belong to a real field, well defined everywhere.

    It is the real part of the full complex transform of the spectrum completed by `F(-k) = conj F(k)`. On the columns
    of the last axis where both `k` and `-k` are stored (zero and Nyquist), the two may disagree, and libraries differ
    in which they take: here each is replaced by `(F(k) + conj F(-k)) / 2`.
    """
    columns = [0] + ([n[-1] // 2] if n[-1] % 2 == 0 else [])
    for column in columns:
        values = jax.lax.slice_in_dim(u_hat, column, column + 1, axis=-1)
        even = 0.5 * (values + jnp.conj(negated(values, axes=range(1, u_hat.ndim - 1))))
        u_hat = jax.lax.dynamic_update_slice_in_dim(u_hat, even, column, axis=-1)
    return irfft(u_hat, n)


def negated(values: Array, axes) -> Array:
    """`F(-k)` along full-spectrum axes: index `i` becomes `-i` modulo the size."""
    for axis in axes:
        values = jnp.roll(jnp.flip(values, axis), 1, axis)
    return values


def _per_channel(a: Array, like: Array) -> Array:
    """Shape `(c,)` as `(c, 1, ..., 1)`."""
    return a.reshape(a.shape + (1,) * (like.ndim - 1))
