"""The U-Net: convolutions on three resolutions, joined by skips."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.errors import UserError
from sino.models.layers import ACTIVATIONS, OUT_STD, Conv, ConvTranspose, Key, Linear
from sino.models.model import AbstractModel, Operator


class DoubleConv(eqx.Module):
    """Two circular convolutions, `ci → co → co`, each followed by a ReLU."""

    convs: tuple[Conv, Conv]

    def __init__(self, ci: int, co: int, kernel: int, dim: int, *, key: Key):
        first, second = jax.random.split(key)
        self.convs = (Conv(ci, co, kernel, dim, key=first), Conv(co, co, kernel, dim, key=second))

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        for conv in self.convs:
            x = ACTIVATIONS["relu"](conv(x))
        return x


class UNet(AbstractModel):
    """`a = E1 x`, `b = E2 pool a`, `c = B pool b`, then back: `e = D2[b, U2 c]`, `f = D1[a, U1 e]`, `y = W f + w`.

    `E`, `B`, `D` are two convolutions each, circular, kernel 9 (9 × 9 in 2D), ReLU after each; `pool` is the maximum
    over 2 points per axis; `U` is a transposed convolution with kernel and stride 2; `[., .]` joins channels. With
    `width` 4 they carry 4, 8, 16, 8, 4 channels: 7,077 parameters in 1D (1 channel in and out), 61,006 in 2D (2). The
    last layer starts small. Prose and count agree.

    Grids: every axis divisible by 4. Pooling leaves the symmetry under shifts by multiples of 4 points only.

    O. Ronneberger, P. Fischer, T. Brox: U-Net, convolutional networks for biomedical image segmentation, MICCAI 2015.
    """

    encoders: tuple[DoubleConv, DoubleConv]
    bottleneck: DoubleConv
    ups: tuple[ConvTranspose, ConvTranspose]
    decoders: tuple[DoubleConv, DoubleConv]
    out: Linear
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        *,
        key: Key,
        channels_in: int | None = None,
        channels_out: int | None = None,
        width: int | None = None,
        kernel: int | None = None,
    ):
        if dim not in (1, 2):
            raise UserError(f"U-Net exists in 1 and 2 dimensions, not in {dim}")
        ci, co, d, k = channels_in or dim, channels_out or dim, width or 4, kernel or 9
        e1, e2, b, u2, d2, u1, d1, out_key = jax.random.split(key, 8)
        self.dim = dim
        self.encoders = (DoubleConv(ci, d, k, dim, key=e1), DoubleConv(d, 2 * d, k, dim, key=e2))
        self.bottleneck = DoubleConv(2 * d, 4 * d, k, dim, key=b)
        self.ups = (ConvTranspose(4 * d, 2 * d, 2, dim, key=u2), ConvTranspose(2 * d, d, 2, dim, key=u1))
        self.decoders = (DoubleConv(4 * d, 2 * d, k, dim, key=d2), DoubleConv(2 * d, d, k, dim, key=d1))
        self.out = Linear(d, co, key=out_key, std=OUT_STD)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """Nothing depends on the grid but its right size: the network itself."""
        if len(n) != self.dim or any(m % 4 for m in n):
            raise UserError(f"U-Net in {self.dim}D needs every axis divisible by 4, and the grid is {n}")
        return self._apply

    def _apply(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        skips = []
        for encoder in self.encoders:
            skips.append(encoder(x))
            x = max_pool(skips[-1])
        x = self.bottleneck(x)
        for up, decoder, skip in zip(self.ups, self.decoders, reversed(skips), strict=True):
            x = decoder(jnp.concatenate([skip, up(x)]))
        return self.out(x)


def max_pool(x: Float[Array, "c *n"]) -> Float[Array, "c *m"]:
    """The maximum over blocks of 2 points per axis; every axis is halved."""
    halves = [size for n in x.shape[1:] for size in (n // 2, 2)]
    return x.reshape(x.shape[0], *halves).max(axis=tuple(range(2, 2 * x.ndim, 2)))
