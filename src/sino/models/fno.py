"""The Fourier neural operator, and the spectral convolution it is made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.errors import UserError
from sino.core.fourier import rfft
from sino.models.layers import ACTIVATIONS, MLP, OUT_STD, ComplexWeight, Key, Linear, real_irfft, with_coordinates
from sino.models.model import AbstractModel, Operator


class SpectralConv(eqx.Module):
    """`F^-1(R(k) F(v)(k))`: a complex matrix `(co, ci)` for each of the lowest modes, zero for the others.

    1D, `modes = (K,)`: one block `(co, ci, K)` for `k = 0 .. K-1`. 2D, `modes = (Kx, Ky)`: two blocks
    `(co, ci, Kx, Ky)`, for `kx = 0 .. Kx-1` and for `kx = -Kx .. -1`, both with `ky = 0 .. Ky-1`.

    A grid that lacks some of these modes uses the ones it has, each once: `k` up to `n // 2` along the last axis,
    `-(n // 2) <= kx < n / 2` along the first, where an even grid's Nyquist mode is negative. The rest of `R` is idle.
    """

    weights: tuple[ComplexWeight, ...]
    modes: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, ci: int, co: int, modes: tuple[int, ...], *, key: Key):
        draws = jax.random.uniform(key, (len(modes), 2, co, ci, *modes), jnp.float32) / (ci * co)
        self.weights = tuple(ComplexWeight(real, imag) for real, imag in draws)
        self.modes = modes

    def __call__(self, v: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        n, size = v.shape[1:], v.shape[-1] // 2 + 1
        columns = min(self.modes[-1], size)
        v_hat = rfft(v)[..., :columns]
        blocks = [weight.value()[..., :columns] for weight in self.weights]
        if len(n) == 1:
            y_hat = _mix(blocks[0], v_hat)
        else:
            up, down = min(self.modes[0], (n[0] + 1) // 2), min(self.modes[0], n[0] // 2)
            positive = _mix(blocks[0][:, :, :up], v_hat[:, :up])
            negative = _mix(blocks[1][:, :, self.modes[0] - down :], v_hat[:, n[0] - down :])
            gap = jnp.zeros((positive.shape[0], n[0] - up - down, columns), positive.dtype)
            y_hat = jnp.concatenate([positive, gap, negative], axis=1)
        return real_irfft(jnp.pad(y_hat, [(0, 0)] * len(n) + [(0, size - columns)]), n)


class FNO(AbstractModel):
    """`v <- GELU(W v + b + F^-1(R F(v)))`, no GELU after the last layer; pointwise lift before and MLP after.

    | | lift | layers | modes | head | parameters |
    |---|---|---|---|---|---|
    | 1D | 1 → 16 | 2 | 16 | 16 → 128 → 1, GELU | 11,073 |
    | 2D | 2 + 2 coordinates → 32 | 4 | 16 × 16, two blocks | 32 → 128 → 2, GELU | 2,106,018 |

    The last linear layer starts small. In 1D the paper's prose appends the coordinate, but its
    count is that of a biased lift from one channel: no coordinate, which `coordinates=True` puts back.

    Any grid is accepted; `SpectralConv` says what becomes of modes that it lacks. Without coordinates the network
    commutes with shifts by grid points; with them it does not.

    Z. Li, N. Kovachki, K. Azizzadenesheli, B. Liu, K. Bhattacharya, A. Stuart, A. Anandkumar: Fourier neural operator
    for parametric partial differential equations, ICLR 2021.
    """

    lift: Linear
    spectral: tuple[SpectralConv, ...]
    pointwise: tuple[Linear, ...]
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
        modes: tuple[int, ...] | None = None,
        hidden: int | None = None,
        coordinates: bool | None = None,
    ):
        if dim not in (1, 2):
            raise UserError(f"FNO exists in 1 and 2 dimensions, not in {dim}")
        ci, co = channels_in or dim, channels_out or dim
        d, depth = width or 16 * dim, depth or 2 * dim
        lift_key, head_key, *keys = jax.random.split(key, 2 + 2 * depth)
        self.dim = dim
        self.coordinates = dim == 2 if coordinates is None else coordinates
        self.lift = Linear(ci + dim * self.coordinates, d, key=lift_key)
        self.spectral = tuple(SpectralConv(d, d, modes or (16,) * dim, key=k) for k in keys[:depth])
        self.pointwise = tuple(Linear(d, d, key=k) for k in keys[depth:])
        self.head = MLP((d, hidden or 128, co), "gelu", key=head_key, last_std=OUT_STD)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """Nothing depends on the grid: the network itself."""
        if len(n) != self.dim:
            raise UserError(f"FNO was made for {self.dim} axes and the grid is {n}")
        return self._apply

    def _apply(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        v = self.lift(with_coordinates(x) if self.coordinates else x)
        for layer, (spectral, pointwise) in enumerate(zip(self.spectral, self.pointwise, strict=True), start=1):
            v = spectral(v) + pointwise(v)
            if layer < len(self.spectral):
                v = ACTIVATIONS["gelu"](v)
        return self.head(v)


def _mix(weight: Array, v_hat: Array) -> Array:
    """Apply the matrix of every mode."""
    return jnp.einsum("oi...,i...->o...", weight, v_hat)
