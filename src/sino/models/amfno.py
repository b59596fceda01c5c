"""The amortised Fourier neural operator: small networks of the frequency write the spectral weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from sino.core.errors import UserError
from sino.core.fourier import rfft
from sino.models.layers import ACTIVATIONS, MLP, OUT_STD, Key, Linear, real_irfft, with_coordinates
from sino.models.model import AbstractModel, Operator


class KernelNetwork(eqx.Module):
    """`K(f) = r(T(f)) + i s(T(f))`, a complex `(d, d)` matrix for each frequency `f` of one axis.

    `f` is in cycles per point, `|f| <= 1/2`; `T = [f, 2 f^2 - 1]` are its first two Chebyshev polynomials; `r` and `s`
    are GELU networks 2 → 4 → d².
    """

    real: MLP
    imag: MLP

    def __init__(self, d: int, hidden: int, *, key: Key):
        real_key, imag_key = jax.random.split(key)
        self.real = MLP((2, hidden, d * d), "gelu", key=real_key)
        self.imag = MLP((2, hidden, d * d), "gelu", key=imag_key)

    def __call__(self, f: np.ndarray) -> Complex[Array, "d d k"]:
        features = jnp.asarray(np.stack([f, 2 * f**2 - 1]), self.real.layers[0].weight.dtype)
        kernel = jax.lax.complex(self.real(features), self.imag(features))
        d = round(kernel.shape[0] ** 0.5)
        return kernel.reshape(d, d, f.size)


class AMFNO(AbstractModel):
    """`v <- GELU(v + F^-1(K F(v)) + MLP(v))`, no GELU after the last layer, every mode kept.

    1D: `K(k) = K_1(f)`. 2D: `K(k) = K_1(f_x) K_2(f_y)`, entry by entry. `f` is the frequency in cycles per point:
    -1/2 .. 1/2 along the first axis of a 2D grid, 0 .. 1/2 along the last; see `KernelNetwork`.

    | | lift | layers | MLP | head | parameters |
    |---|---|---|---|---|---|
    | 1D | 1 + 1 coordinate → 16 | 2 | 16 → 64 → 16, GELU | 16 → 1 | 9,489 |
    | 2D | 2 + 2 coordinates → 32 | 4 | 32 → 128 → 32, GELU | 32 → 128 → 2, GELU | 120,162 |

    Prose and count agree. The prose leaves the frequency features open: they are those of a public implementation with
    the same layout, which applies the MLP after the kernel; here both act side by side, as the paper's formula says.
    The paper gives this network no small last layer.

    Any grid is accepted. `f` counts cycles per point, so on another grid a kernel keeps its shape in units of points,
    not its wavelength. The coordinates among the inputs break the symmetry under shifts.

    Z. Xiao, S. Kou, H. Zhongkai, B. Lin, Z. Deng: Amortized Fourier neural operators, NeurIPS 2024.
    """

    lift: Linear
    kernels: tuple[tuple[KernelNetwork, ...], ...]
    pointwise: tuple[MLP, ...]
    head: MLP
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        *,
        key: Key,
        channels_in: int | None = None,
        channels_out: int | None = None,
        width: int | None = None,
        depth: int | None = None,
        kernel_width: int | None = None,
        mlp_width: int | None = None,
        hidden: tuple[int, ...] | None = None,
    ):
        if dim not in (1, 2):
            raise UserError(f"AM-FNO exists in 1 and 2 dimensions, not in {dim}")
        ci, co = channels_in or dim, channels_out or dim
        d, depth = width or 16 * dim, depth or 2 * dim
        hidden = {1: (), 2: (4 * d,)}[dim] if hidden is None else hidden
        lift_key, head_key, *keys = jax.random.split(key, 2 + 2 * depth)
        self.dim = dim
        self.lift = Linear(ci + dim, d, key=lift_key)
        self.kernels = tuple(
            tuple(KernelNetwork(d, kernel_width or 4, key=k) for k in jax.random.split(layer_key, dim))
            for layer_key in keys[:depth]
        )
        self.pointwise = tuple(MLP((d, mlp_width or 4 * d, d), "gelu", key=k) for k in keys[depth:])
        self.head = MLP((d, *hidden, co), "gelu", key=head_key, last_std=OUT_STD)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """Write the kernels of every layer, `(d, d, *k)` on the half spectrum of the grid."""
        if len(n) != self.dim:
            raise UserError(f"AM-FNO was made for {self.dim} axes and the grid is {n}")
        kernels = []
        for networks in self.kernels:
            kernel = networks[-1](np.fft.rfftfreq(n[-1]))
            if self.dim == 2:
                kernel = networks[0](np.fft.fftfreq(n[0]))[..., :, None] * kernel[..., None, :]
            kernels.append(kernel)
        return eqx.Partial(self._apply, tuple(kernels))

    def _apply(self, kernels: tuple[Complex[Array, "d d *k"], ...], x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        v = self.lift(with_coordinates(x))
        for layer, (kernel, pointwise) in enumerate(zip(kernels, self.pointwise, strict=True), start=1):
            spectral = real_irfft(jnp.einsum("oi...,i...->o...", kernel, rfft(v)), x.shape[1:])
            v = v + spectral + pointwise(v)
            if layer < len(kernels):
                v = ACTIVATIONS["gelu"](v)
        return self.head(v)
