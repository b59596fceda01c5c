"""The Fourier neural operator with a small U-Net beside its later layers."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.errors import UserError
from sino.models.fno import SpectralConv
from sino.models.layers import ACTIVATIONS, MLP, OUT_STD, Conv, ConvTranspose, Key, Linear, with_coordinates
from sino.models.model import AbstractModel, Operator


class OneLevel(eqx.Module):
    """The 1D U-Net: `s = c2 c1 x`, `y = out[s, up c4 c3 s]`, all convolutions `d → d` but `out: 2d → d`.

    `c3` has stride 2 and `up` (kernel 4) undoes it. Leaky ReLU (0.1) after every layer but `out`.
    """

    convs: tuple[Conv, ...]
    up: ConvTranspose
    out: Conv

    def __init__(self, d: int, kernel: int, *, key: Key):
        *keys, up_key, out_key = jax.random.split(key, 6)
        self.convs = tuple(Conv(d, d, kernel, 1, key=k, stride=s) for k, s in zip(keys, (1, 1, 2, 1), strict=True))
        self.up = ConvTranspose(d, d, 4, 1, key=up_key)
        self.out = Conv(2 * d, d, kernel, 1, key=out_key)

    def __call__(self, x: Float[Array, "d n"]) -> Float[Array, "d n"]:
        skip = _chain(self.convs[:2], x)
        return self.out(jnp.concatenate([skip, _chain((*self.convs[2:], self.up), skip)]))


class ThreeLevels(eqx.Module):
    """The 2D U-Net, halving three times: `a = A x`, `b = B2 B1 a`, `c = C2 C1 b`, then back with the skips,
    `y = out[x, U0[a, U1[b, U2 c]]]`.

    `A`, `B1`, `C1` have stride 2; `U` have kernel 4 and double; everything maps to `d` channels. Leaky ReLU (0.1) after
    every layer but `out`. Without the batch norm of the original, for which the parameter count has no room.
    """

    down: tuple[tuple[Conv, ...], ...]
    up: tuple[ConvTranspose, ...]
    out: Conv

    def __init__(self, d: int, kernel: int, *, key: Key):
        ka, kb1, kb2, kc1, kc2, k2, k1, k0, out_key = jax.random.split(key, 9)

        def conv(k: Key, stride: int) -> Conv:
            return Conv(d, d, kernel, 2, key=k, stride=stride)

        self.down = ((conv(ka, 2),), (conv(kb1, 2), conv(kb2, 1)), (conv(kc1, 2), conv(kc2, 1)))
        self.up = tuple(ConvTranspose(ci, d, 4, 2, key=k) for ci, k in ((d, k2), (2 * d, k1), (2 * d, k0)))
        self.out = Conv(2 * d, d, kernel, 2, key=out_key)

    def __call__(self, x: Float[Array, "d nx ny"]) -> Float[Array, "d nx ny"]:
        a = _chain(self.down[0], x)
        b = _chain(self.down[1], a)
        y = _chain((*self.down[2], self.up[0]), b)
        for skip, up in ((b, self.up[1]), (a, self.up[2])):
            y = _chain((up,), jnp.concatenate([skip, y]))
        return self.out(jnp.concatenate([x, y]))


class UFNO(AbstractModel):
    """`v <- GELU(W v + b + F^-1(R F(v)) + U v)`, with a U-Net `U` in layers from `start` on; no GELU at the end.

    | | lift | layers | U-Net in | modes | kernel | head | parameters |
    |---|---|---|---|---|---|---|---|
    | 1D | 1 → 16 | 0, 1 | 1 | 16 | 9 | 16 → 128 → 1, GELU | 26,017 |
    | 2D | 2 + 2 coordinates → 32 | 0 .. 3 | 2, 3 | 8 × 16, two blocks | 3 | 32 → 2 | 1,346,466 |

    The last linear layer starts small. Prose and count disagree, and the count is followed: in
    1D it has no coordinate (`coordinates=True` puts it back) and one halving (the prose also says "to N/4"; where the
    four convolutions stand is our choice, see `OneLevel`); in 2D it has half the stated modes, read as 16 `kx` in all,
    8 of each sign. The activation inside `U` is not stated; it is the original's.

    Grids: every axis even in 1D, divisible by 8 in 2D; `SpectralConv` says what becomes of modes that a grid lacks.
    Without coordinates the network commutes with shifts by multiples of 2 (1D) or 8 (2D) points; with them it does not.

    G. Wen, Z. Li, K. Azizzadenesheli, A. Anandkumar, S. Benson: U-FNO, an enhanced Fourier neural operator-based deep-
    learning model for multiphase flow, Advances in Water Resources, 2022.
    """

    lift: Linear
    spectral: tuple[SpectralConv, ...]
    pointwise: tuple[Linear, ...]
    refine: tuple[OneLevel | ThreeLevels | None, ...]
    head: MLP
    dim: int = eqx.field(static=True)
    coordinates: bool = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        *,
        key: Key,
        channels_in: int | None = None,
        channels_out: int | None = None,
        width: int | None = None,
        depth: int | None = None,
        start: int | None = None,
        modes: tuple[int, ...] | None = None,
        kernel: int | None = None,
        hidden: tuple[int, ...] | None = None,
        coordinates: bool | None = None,
    ):
        if dim not in (1, 2):
            raise UserError(f"UFNO exists in 1 and 2 dimensions, not in {dim}")
        ci, co = channels_in or dim, channels_out or dim
        d, depth, start = width or 16 * dim, depth or 2 * dim, dim if start is None else start
        modes, kernel = modes or {1: (16,), 2: (8, 16)}[dim], kernel or {1: 9, 2: 3}[dim]
        hidden = {1: (128,), 2: ()}[dim] if hidden is None else hidden
        unet = OneLevel if dim == 1 else ThreeLevels
        lift_key, head_key, *keys = jax.random.split(key, 2 + 3 * depth)
        self.dim = dim
        self.coordinates = dim == 2 if coordinates is None else coordinates
        self.lift = Linear(ci + dim * self.coordinates, d, key=lift_key)
        self.spectral = tuple(SpectralConv(d, d, modes, key=k) for k in keys[:depth])
        self.pointwise = tuple(Linear(d, d, key=k) for k in keys[depth : 2 * depth])
        self.refine = tuple(unet(d, kernel, key=k) if i >= start else None for i, k in enumerate(keys[2 * depth :]))
        self.head = MLP((d, *hidden, co), "gelu", key=head_key, last_std=OUT_STD)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """Nothing depends on the grid but its right size: the network itself."""
        step = {1: 2, 2: 8}[self.dim]
        if len(n) != self.dim or any(m % step for m in n):
            raise UserError(f"UFNO in {self.dim}D needs every axis divisible by {step}, and the grid is {n}")
        return self._apply

    def _apply(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        v = self.lift(with_coordinates(x) if self.coordinates else x)
        layers = zip(self.spectral, self.pointwise, self.refine, strict=True)
        for layer, (spectral, pointwise, refine) in enumerate(layers, start=1):
            v = spectral(v) + pointwise(v) + (0 if refine is None else refine(v))
            if layer < len(self.spectral):
                v = ACTIVATIONS["gelu"](v)
        return self.head(v)


def _chain(layers: tuple[Conv | ConvTranspose, ...], x: Array) -> Array:
    """One layer after the other, each followed by a leaky ReLU."""
    for layer in layers:
        x = ACTIVATIONS["leaky_relu"](layer(x))
    return x
