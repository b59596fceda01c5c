"""A small network over normalised coordinates that generates convolution kernels."""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sino.models.layers import Key, Linear

Initialisation = Literal["live", "plain"]


class Hypernetwork(eqx.Module):
    """Kernels `W(x) = B_0 + sum_j z_j(x) B_j` over coordinates `x` in `[-1, 1]^d`, each `B` a `width x width` matrix.

    The features `z` come from an MLP `d -> w -> w -> n` with ReLU after each layer; the heads, linear layers
    `n -> width^2`, hold the matrices: their bias is `B_0`, their weights are the `B_j`. So the kernels of all
    coordinates span `n + 1` matrices, and a convolution with them is `n + 1` scalar filters and one channel mix.
    """

    layers: tuple[Linear, Linear, Linear]
    heads: tuple[Linear, ...]

    def __init__(self, dim: int, hidden: int, bottleneck: int, width: int, heads: int, *, key: Key):
        """With the plain initialisation, uniform by fan-in."""
        keys = jax.random.split(key, 3 + heads)
        sizes = (dim, hidden, hidden, bottleneck)
        self.layers = tuple(Linear(ci, co, key=k) for ci, co, k in zip(sizes[:-1], sizes[1:], keys[:3], strict=True))  # pyright: ignore
        self.heads = tuple(Linear(bottleneck, width**2, key=k) for k in keys[3:])

    def features(self, x: Float[Array, "d *p"]) -> Float[Array, "n_plus_1 *p"]:
        """`(1, z_1, ..., z_n)` at each coordinate."""
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return jnp.concatenate([jnp.ones_like(x[:1]), x])

    def matrices(self, head: int) -> Float[Array, "n_plus_1 co ci"]:
        """`(B_0, B_1, ..., B_n)` of one head."""
        layer = self.heads[head]
        width = math.isqrt(layer.weight.shape[0])
        stacked = jnp.concatenate([layer.bias[None], layer.weight.T])  # pyright: ignore[reportOptionalSubscript]
        return stacked.reshape(-1, width, width)

    def live(self) -> Bool[Array, " n"]:
        """Which bottleneck units are positive somewhere in the box. A dead one gives no gradient, ever."""
        dim = self.layers[0].weight.shape[1]
        z = self.features(jnp.asarray(box(dim), self.layers[0].weight.dtype))[1:]
        return z.reshape(z.shape[0], -1).max(axis=1) > 0

    def live_units(self) -> int:
        """How many bottleneck units are live."""
        return int(self.live().sum())


def make_live(net: Hypernetwork, energy: float, at: Float[np.ndarray, "d *p"], *, key: Key) -> Hypernetwork:
    """Draw the parameters anew so that no unit is dead and the kernels have a known size.

    Every unit is scaled to unit variance over the box. A hidden unit has its kink at a random quantile of its values,
    so that it is active on a part of the box and zero on the rest; a bottleneck unit is positive on the whole box. The
    heads are normal, scaled so that the entries of the kernel, summed over heads, have the mean square `energy` at the
    coordinates `at`.
    """
    keys = iter(jax.random.split(key, 5 + 2 * len(net.heads)))

    def normal(shape: tuple[int, ...]) -> Array:
        return jax.random.normal(next(keys), shape, jnp.float32)

    over_box, there = (jnp.asarray(x.reshape(len(at), -1), jnp.float32) for x in (box(len(at)), at))
    layers = []
    for position, layer in enumerate(net.layers):
        weight = normal(layer.weight.shape)
        weight = weight / (weight @ over_box).std(axis=1, keepdims=True)
        raw = weight @ over_box
        if position < 2:
            ranks = jax.random.uniform(next(keys), (len(raw),), jnp.float32, 0.2, 0.8) * raw.shape[1]
            bias = -jnp.sort(raw, axis=1)[np.arange(len(raw)), ranks.astype(int)]
        else:
            bias = 0.1 - raw.min(axis=1)
        layers.append(_replaced(layer, weight, bias))
        over_box, there = (jax.nn.relu(weight @ x + bias[:, None]) for x in (over_box, there))
    scale = jnp.sqrt(energy / len(net.heads) / (1 + jnp.square(there).mean(axis=1).sum()))
    shapes = [head.weight.shape for head in net.heads]
    heads = [_replaced(h, scale * normal(s), scale * normal(s[:1])) for h, s in zip(net.heads, shapes, strict=True)]
    return eqx.tree_at(lambda one: (one.layers, one.heads), net, (tuple(layers), tuple(heads)))


def _replaced(layer: Linear, weight: Array, bias: Array) -> Linear:
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, bias))


def box(dim: int) -> Float[np.ndarray, "d *p"]:
    """A regular sample of `[-1, 1]^dim`, corners included."""
    points = {1: 65, 2: 33, 3: 17}[dim]
    axes = np.meshgrid(*[np.linspace(-1, 1, points)] * dim, indexing="ij")
    return np.stack(axes)


def frequency_coordinates(n: tuple[int, ...]) -> np.ndarray:
    """Normalised frequencies of the half spectrum of `n` points: `(d, *k)` in `[-1, 1]`.

    Along the last axis `4k/n - 1` for `k = 0 .. n/2`; along the others `2k/n` for the signed `k`, so that a filter can
    tell `k` from `-k` (with `|k|` it could not, and no kernel could be skew). Both are fractions of the grid's Nyquist
    frequency: the same filter in units of the grid, at any resolution.
    """
    signed = [2 * np.fft.fftfreq(m) for m in n[:-1]]
    half = 4 * np.arange(n[-1] // 2 + 1) / n[-1] - 1
    return np.stack(np.meshgrid(*signed, half, indexing="ij"))


def offset_coordinates(kernel: int, dim: int) -> np.ndarray:
    """Normalised offsets `j/R` of a kernel of `2R + 1` points per axis: `(d, *K)` in `[-1, 1]`."""
    return np.stack(np.meshgrid(*[np.linspace(-1, 1, kernel)] * dim, indexing="ij"))
