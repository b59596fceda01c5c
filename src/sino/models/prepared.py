"""SINO made ready for one grid: its kernels generated, its linear maps multiplied out where they meet."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.fourier import irfft, rfft
from sino.core.hartley import activated, added, hartley
from sino.models.channels import mix_channels
from sino.models.generated import DenseFilter, DenseKernel, Factorised
from sino.models.layers import Linear
from sino.models.modes import ModeMix


class PreparedSINO(eqx.Module):
    """SINO with its kernels made for one grid: a pure function of a field."""

    lift: Linear
    blocks: tuple["PreparedBlock", ...]
    out: Linear
    residual: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        """Apply to a field."""
        h = self.lift(x)
        for block in self.blocks:
            h = h + self.residual * block(h)
        return self.out(h)


class MergedSINO(eqx.Module):
    """The same with its outer linear maps multiplied out. The last block is then one transform of the features, a dot
    product per mode, and one transform back of the few outputs."""

    lift: Linear
    first: "PreparedBlock | None"
    middle: tuple["PreparedBlock", ...]
    last: "PreparedBlock"
    residual: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        """Apply to a field."""
        h = self.lift(x)
        if self.first is not None:
            h = h + self.residual * self.first(x)
        for block in self.middle:
            h = h + self.residual * block(h)
        return self.last(h)


class PreparedBlock(eqx.Module):
    """The branches of one block on one grid: one forward transform for both and, if both are spectral, one inverse."""

    frequency: "Factorised | DenseFilter | None"
    bias: Float[Array, " c"] | None
    spatial: "Factorised | DenseKernel | None"
    fuse: Linear | None
    activated: bool = eqx.field(static=True)

    def __call__(self, h: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        """What the block adds to its input, before the residual factor."""
        spectral = [
            branch for branch in (self.frequency, self.spatial) if isinstance(branch, (Factorised, DenseFilter))
        ]
        if spectral:
            h_hat = rfft(h)
            y = irfft(jnp.concatenate([branch(h_hat) for branch in spectral]), h.shape[1:])
        if isinstance(self.spatial, DenseKernel):
            convolved = self.spatial(h)
            y = jnp.concatenate([y, convolved]) if spectral else convolved
        if self.bias is not None:
            y = y + self.bias.reshape(-1, *[1] * (y.ndim - 1))
        if self.activated:
            y = jax.nn.relu(y)
        return y if self.fuse is None else self.fuse(y)


class HartleySINO(eqx.Module):
    """`MergedSINO` in two dimensions and in real numbers: between the blocks there are Hartley spectra.

    The stream of features has no constant part: what biases add to it is known beforehand and is in the biases of the
    blocks behind. Nothing is ever complex, and a block is three kernels and one matrix product.
    """

    lift: Float[Array, "c ci"]
    blocks: tuple["HartleyBlock", ...]
    last: ModeMix
    bias: Float[Array, " co"]

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        """Apply to a field."""
        spectrum = hartley(x)
        h = mix_channels(spectrum, self.lift)
        for position, block in enumerate(self.blocks):
            h = block(h, h if position else spectrum)  # the first block takes what the lift takes
        return hartley(self.last(h)) + self.bias.reshape(-1, *[1] * (x.ndim - 1))


class HartleyBlock(eqx.Module):
    """A block with activation: `h + fuse relu(mix + bias)`, the residual factor in `fuse`."""

    mix: ModeMix
    bias: Float[Array, " c"]
    fuse: Float[Array, "co c"] | Float[Array, ""]

    def __call__(self, h: Float[Array, "c *n"], source: Float[Array, "ci *n"]) -> Float[Array, "c *n"]:
        """Spectra of the features, and of what the branches take."""
        y = activated(self.mix(source), self.bias)
        return added(h, mix_channels(y, self.fuse) if self.fuse.ndim else self.fuse * y)
