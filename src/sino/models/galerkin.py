"""The Galerkin transformer: linear attention without softmax."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.errors import UserError
from sino.models.layers import MLP, OUT_STD, Key, LayerNorm, Linear
from sino.models.model import AbstractModel, Operator


class GalerkinAttention(eqx.Module):
    """`Q (K^T V) / N` for each head, then a linear layer; `Q`, `K`, `V`, `(N, width/heads)`, are linear in `x`.

    `K^T V / N` is a quadrature of the products of all pairs of channels over the domain.
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: Key):
        keys = jax.random.split(key, 4)
        self.query, self.key, self.value = (_near_identity(width, key=k) for k in keys[:3])
        self.out = Linear(width, width, key=keys[3])
        self.heads = heads

    def __call__(self, x: Float[Array, "c n"]) -> Float[Array, "c n"]:
        q, k, v = (layer(x).reshape(self.heads, -1, x.shape[1]) for layer in (self.query, self.key, self.value))
        products = jnp.einsum("hdn,hen->hde", k, v) / x.shape[1]
        return self.out(jnp.einsum("hde,hdn->hen", products, q).reshape(x.shape))


class GalerkinLayer(eqx.Module):
    """`x <- LN(x + attention(x))`, `x <- LN(x + W2 relu(W1 x))`: normalisation after each sum."""

    attention: GalerkinAttention
    feed_forward: MLP
    norms: tuple[LayerNorm, LayerNorm]

    def __init__(self, width: int, heads: int, hidden: int, *, key: Key):
        attention_key, feed_key = jax.random.split(key)
        self.attention = GalerkinAttention(width, heads, key=attention_key)
        self.feed_forward = MLP((width, hidden, width), "relu", key=feed_key)
        self.norms = (LayerNorm(width), LayerNorm(width))

    def __call__(self, x: Float[Array, "c n"]) -> Float[Array, "c n"]:
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.feed_forward(x))


class GalerkinTransformer(AbstractModel):
    """Lift, `depth` layers of Galerkin attention and feed-forward, and a pointwise regressor `W2 relu(W1 x)`.

    Cao, "Choose a transformer: Fourier or Galerkin", NeurIPS 2021.

    In the paper width 16 and depth 2 in 1D, 32 and 4 in 2D; 8 heads; feed-forward layers of 512. All layers have a
    bias: 36,449 and 151,874 parameters. The prose counts coordinates among the inputs in 2D; with them this network
    has 64 parameters too many, so the count is followed: no coordinates.

    Without them every point is treated alike: permuting the points permutes the result. The network is therefore
    translation equivariant, and it has no notion of neighbourhood: it sees the value at a point and averages over all
    points, never a derivative. Any grid will do, with the same parameters.

    Query, key and value start small and near a multiple of the identity, as in the reference: uniform by Xavier with
    gain 0.01, plus 0.01 on the diagonal, bias zero.
    """

    lift: Linear
    layers: tuple[GalerkinLayer, ...]
    regressor: MLP

    def __init__(
        self,
        dim: int,
        *,
        key: Key,
        channels_in: int | None = None,
        channels_out: int | None = None,
        width: int | None = None,
        depth: int | None = None,
        heads: int | None = None,
        hidden: int | None = None,
    ):
        """A size left out is the paper's for `dim`; `hidden` is that of the feed-forward layers."""
        if dim not in (1, 2):
            raise UserError(f"The Galerkin transformer is made for 1 or 2 dimensions, not {dim}")
        channels_in = dim if channels_in is None else channels_in
        channels_out = dim if channels_out is None else channels_out
        width = 16 * dim if width is None else width
        depth = 2 * dim if depth is None else depth
        heads = 8 if heads is None else heads
        hidden = 512 if hidden is None else hidden
        if heads < 1 or width < 1 or width % heads != 0:
            raise UserError(f"The width of the Galerkin transformer, {width}, must be a multiple of its heads, {heads}")
        lift_key, regressor_key, *keys = jax.random.split(key, 2 + depth)
        self.lift = Linear(channels_in, width, key=lift_key)
        self.layers = tuple(GalerkinLayer(width, heads, hidden, key=k) for k in keys)
        self.regressor = MLP((width, width, channels_out), "relu", key=regressor_key, last_std=OUT_STD)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """Nothing depends on the grid."""
        return self._apply

    def _apply(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        features = self.lift(x.reshape(x.shape[0], -1))
        for layer in self.layers:
            features = layer(features)
        return self.regressor(features).reshape(-1, *x.shape[1:])


def _near_identity(width: int, *, key: Key) -> Linear:
    """A square layer with weights uniform in `±0.01 sqrt(6/(2 width))`, plus 0.01 on the diagonal, and bias zero."""
    bound = 0.01 * math.sqrt(3 / width)
    weight = jax.random.uniform(key, (width, width), jnp.float32, -bound, bound)
    weight = weight + 0.01 * jnp.eye(width, dtype=jnp.float32)
    return eqx.tree_at(lambda layer: layer.weight, Linear(width, width, key=key, std=0.0), weight)
