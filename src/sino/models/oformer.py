"""OFormer: linear attention with rotary positions, from input points to query points."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.core.errors import UserError
from sino.models.layers import ACTIVATIONS, MLP, OUT_STD, Key, LayerNorm, Linear, coordinates
from sino.models.model import AbstractModel, Operator

MIN_FREQUENCY = 1 / 64
SCALE = {1: 1.0, 2: 16.0}
Turn = tuple[Float[Array, "axes f points"], Float[Array, "axes f points"]]


class RotaryAttention(eqx.Module):
    """`R(Q) (R(N(K))^T N(V)) / n` for each head, then a linear layer; `Q` from `x`, `K` and `V` from `z`; no biases.

    `N` brings every channel to mean 0 and variance 1 over the points. `R` rotates pairs of channels by angles
    `(scale/min_frequency) frequency x_a`, where `x_a` is a coordinate in `[0, 1)`: each axis `a` has its own share of
    the channels of a head, whose first half is paired with the second.
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    frequency: Float[Array, " f"]
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, dim: int, rotated: tuple[bool, bool, bool], *, key: Key):
        """`rotated`: whether query, key and value start as a rotation (see `_near_identity`)."""
        *keys, out_key = jax.random.split(key, 4)
        self.query, self.key, self.value = (
            _near_identity(width, width // heads, key=k) if yes else Linear(width, width, key=k, bias=False)
            for k, yes in zip(keys, rotated, strict=True)
        )
        self.out = Linear(width, width, key=out_key, bias=False)
        share = width // heads // dim
        self.frequency = jnp.asarray(10000.0 ** (-np.arange(0, share, 2) / share), jnp.float32)
        self.heads = heads

    def turn(self, where: Float[Array, "axes points"]) -> Turn:
        """Cosine and sine of the angles at the points `where`, which depend on parameters and grid only."""
        dim = where.shape[0]
        angles = (SCALE[dim] / MIN_FREQUENCY) * where[:, None] * self.frequency[None, :, None]
        return jnp.cos(angles), jnp.sin(angles)

    def __call__(
        self, x: Float[Array, "c points"], z: Float[Array, "c points"], turn: Turn
    ) -> Float[Array, "c points"]:
        q, k, v = self.query(x), _normalised(self.key(z)), _normalised(self.value(z))
        q, k, v = (a.reshape(self.heads, -1, a.shape[1]) for a in (q, k, v))
        products = jnp.einsum("hdn,hen->hde", _rotated(k, turn), v) / z.shape[1]
        return self.out(jnp.einsum("hde,hdn->hen", products, _rotated(q, turn)).reshape(x.shape))


class Propagator(eqx.Module):
    """`x <- x + attention(LN x)`, `x <- x + W2 gelu(W1 LN x)`: normalisation before each branch."""

    attention: RotaryAttention
    feed_forward: MLP
    norms: tuple[LayerNorm, LayerNorm]

    def __init__(self, width: int, heads: int, dim: int, *, key: Key):
        attention_key, feed_key = jax.random.split(key)
        self.attention = RotaryAttention(width, heads, dim, (True, False, False), key=attention_key)
        self.feed_forward = MLP((width, 2 * width, width), "gelu", key=feed_key)
        self.norms = (LayerNorm(width), LayerNorm(width))

    def __call__(self, x: Float[Array, "c points"], turn: Turn) -> Float[Array, "c points"]:
        normal = self.norms[0](x)
        x = x + self.attention(normal, normal, turn)
        return x + self.feed_forward(self.norms[1](x))


class OFormer(AbstractModel):
    """Encode the field, carry it to query points by cross attention, refine, decode. The query points are the grid's.

    `z = gelu(encoder(u, x))`, `y = query(x)`, `y <- y + cross(y, z)`, then `depth` propagators and a linear decoder.

    Li, Meidani, Barati Farimani, "Transformer for partial differential equations' operator learning", TMLR 2023.

    In the paper width 16 and depth 2 in 1D, 32 and 4 in 2D; 8 heads; feed-forward layers of 2 width: 5,444 and 38,087
    parameters. The counts are met with coordinates as inputs, one linear layer
    for the coordinates of the queries, no bias in the attention, and one rotary frequency for each attention module
    (a constant in the reference), which is therefore a parameter here and is trained. It starts at 1; wider heads
    have more, in geometric progression. The prose scales `Q (K^T V)` by `1/d_h`, which would make the result grow
    with the number of points; here, as in the reference, it is `1/n`. The scale of the angles is 16 in 2D, as the
    prose says, and 1 in 1D.

    The input reaches the output only through `K^T V` of the cross attention, 32 numbers in 1D and 128 in 2D: no
    pointwise correction is possible. Coordinates are inputs and the angles are not periodic, so the network is not
    translation equivariant. In 2D the angle advances by `1024/n` from one point to the next, so grids of fewer than 326
    points per axis alias it: there the result belongs to the grid as much as to the field.

    The query layers, and those of key and value in the cross attention, start as in the reference: see
    `_near_identity`.
    """

    encoder: Linear
    query: Linear
    cross: RotaryAttention
    layers: tuple[Propagator, ...]
    decoder: Linear

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
    ):
        """A size left out is the paper's for `dim`. `width` is a multiple of `2 dim heads`."""
        if dim not in (1, 2):
            raise UserError(f"OFormer is made for 1 or 2 dimensions, not {dim}")
        channels_in = dim if channels_in is None else channels_in
        channels_out = dim if channels_out is None else channels_out
        width = 16 * dim if width is None else width
        depth = 2 * dim if depth is None else depth
        heads = 8 if heads is None else heads
        if heads < 1 or width < 1 or width % (2 * dim * heads) != 0:
            raise UserError(
                f"The width of OFormer, {width}, must be a multiple of {2 * dim} times its heads, {heads}:"
                " a head rotates pairs of channels for every axis"
            )
        encoder_key, query_key, cross_key, decoder_key, *keys = jax.random.split(key, 4 + depth)
        self.encoder = Linear(channels_in + dim, width, key=encoder_key)
        self.query = Linear(dim, width, key=query_key)
        self.cross = RotaryAttention(width, heads, dim, (True, True, True), key=cross_key)
        self.layers = tuple(Propagator(width, heads, dim, key=k) for k in keys)
        self.decoder = Linear(width, channels_out, key=decoder_key, std=OUT_STD)

    def prepare(self, n: tuple[int, ...]) -> Operator:
        """The features of the query points, and cosines and sines of all angles."""
        where = coordinates(n, self.query.weight.dtype).reshape(len(n), -1)
        turns = (self.cross.turn(where), *(layer.attention.turn(where) for layer in self.layers))
        return eqx.Partial(self._apply, where, self.query(where), turns)

    def _apply(
        self,
        where: Float[Array, "axes points"],
        y: Float[Array, "c points"],
        turns: tuple[Turn, ...],
        x: Float[Array, "ci *n"],
    ) -> Float[Array, "co *n"]:
        z = ACTIVATIONS["gelu"](self.encoder(jnp.concatenate([x.reshape(x.shape[0], -1), where])))
        y = y + self.cross(y, z, turns[0])
        for layer, turn in zip(self.layers, turns[1:], strict=True):
            y = layer(y, turn)
        return self.decoder(y).reshape(-1, *x.shape[1:])


def _near_identity(width: int, d: int, *, key: Key) -> Linear:
    """A layer without bias whose matrix is `(Q + I)/d`, `Q` random and orthogonal, `d` the size of a head."""
    orthogonal = jax.nn.initializers.orthogonal()(key, (width, width), jnp.float32)
    weight = (orthogonal + jnp.eye(width, dtype=jnp.float32)) / d
    return eqx.tree_at(lambda layer: layer.weight, Linear(width, width, key=key, bias=False), weight)


def _normalised(x: Float[Array, "c points"]) -> Float[Array, "c points"]:
    """Every channel with mean 0 and variance 1 over the points."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)


def _rotated(x: Float[Array, "h d points"], turn: Turn) -> Float[Array, "h d points"]:
    """Rotate the pairs of channels; those of a head are ordered by (axis, member of the pair, frequency)."""
    cos, sin = (a[None] for a in turn)
    _, dim, pairs, n = cos.shape
    split = x.reshape(-1, dim, 2, pairs, n)
    a, b = split[:, :, 0], split[:, :, 1]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=2).reshape(x.shape)
