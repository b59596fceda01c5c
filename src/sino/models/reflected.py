"""Filters with few matrices, applied to Hartley spectra: the channel mix of SINO in real numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Complex, Float

from sino.core import fast
from sino.core.hartley import REFLECTIONS, TURNED, reflected, reflected_filter
from sino.models.generated import Factorised

TILE, GRADIENT_TILE, GRADIENT_TILES = 64, 32, 8
"""Wavenumbers that one program of a kernel takes, and in the gradient of the weights, how many such tiles in turn."""


class ReflectedMix(eqx.Module):
    """`y_g(k) = sum_j M_j sum_s f_js(k) h(s k)`, the sum over the terms `j` of the group `g`: one group per branch.

    `h` and `y` are Hartley spectra, `s` runs over the four reflections of a wavenumber. On a GPU the terms are formed,
    mixed and summed on the chip; what goes through memory is `h` and `y`.
    """

    fields: Float[Array, "j 4 x y"]
    matrices: Float[Array, "j co ci"]
    groups: tuple[int, ...] = eqx.field(static=True)
    """How many terms each group has."""

    @staticmethod
    def of(branches: list[Factorised], ny: int) -> "ReflectedMix":
        """The branches of a block, given as filters of half spectra."""
        fields = jnp.concatenate([reflected_filter(branch.filters, ny) for branch in branches])
        matrices = jnp.concatenate([branch.mix for branch in branches])
        return ReflectedMix(fields, matrices, tuple(len(branch.mix) for branch in branches))

    def __call__(self, h: Float[Array, "ci x y"]) -> Float[Array, "co x y"]:
        """Apply to a spectrum; the groups are stacked along the channels."""
        return _mix(self.groups, h, self.fields, self.matrices)


class ThinFilter(eqx.Module):
    """A filter of few inputs or few outputs: `y_o(k) = sum_i sum_s f_ois(k) h_i(s k)`, a product per pair of channels.

    The few are the ones that are reflected: inputs before the product, outputs after it.
    """

    fields: Float[Array, "co ci 4 x y"]

    @staticmethod
    def of(m: Complex[Array, "co ci x k"], ny: int) -> "ThinFilter":
        """A filter given on the half spectrum."""
        fields = reflected_filter(m, ny)
        if fields.shape[0] < fields.shape[1]:
            fields = jnp.stack([reflected(fields[:, :, s], along) for s, along in enumerate(REFLECTIONS)], axis=2)
        return ThinFilter(fields)

    def __call__(self, h: Float[Array, "ci x y"]) -> Float[Array, "co x y"]:
        """Apply to a Hartley spectrum."""
        if self.fields.shape[0] < self.fields.shape[1]:
            parts = (self.fields * h[None, :, None]).sum(axis=1)
            return jnp.asarray(sum(reflected(parts[:, s], along) for s, along in enumerate(REFLECTIONS)))
        four = jnp.stack([reflected(h, along) for along in REFLECTIONS], axis=1)
        return (self.fields * four[None]).sum(axis=(1, 2))


def _split(groups: tuple[int, ...]) -> list[int]:
    """The group of every term."""
    return [g for g, terms in enumerate(groups) for _ in range(terms)]


def _mix_forward(groups, h, fields, matrices):
    return mix(h, fields, matrices, (0,) * len(matrices), tuple(_split(groups))), (h, fields, matrices)


def _mix_backward(groups, kept, d):
    h, fields, matrices = kept
    turned = fields * jnp.asarray(TURNED, fields.dtype)[:, None, None]
    back = mix(d, turned, jnp.swapaxes(matrices, 1, 2), tuple(_split(groups)), (0,) * len(matrices))
    return back, *mix_gradient(h, d, fields, matrices, tuple(_split(groups)))


_mix = jax.custom_vjp(lambda groups, *arrays: _mix_forward(groups, *arrays)[0], nondiff_argnums=(0,))
_mix.defvjp(_mix_forward, _mix_backward)


def mix(
    h: Float[Array, "hc x y"],
    fields: Float[Array, "j 4 x y"],
    matrices: Float[Array, "j co ci"],
    source: tuple[int, ...],
    target: tuple[int, ...],
    *,
    interpret: bool = False,
) -> Float[Array, "yc x y"]:
    """Term `j` takes the group `source[j]` of the channels of `h` and is added to the group `target[j]` of the result.

    `interpret` runs the kernel on a CPU, for tests.
    """
    terms, co, ci = matrices.shape
    outputs = 1 + max(target)
    n = h.shape[1:]
    points = n[0] * n[1]
    if not (interpret or _kernels_fit(h, co, ci)):
        four = jnp.stack([reflected(h, s) for s in REFLECTIONS], axis=1)  # (hc, 4, x, y)
        parts = [jnp.zeros((co, *n), h.dtype)] * outputs
        for j in range(terms):
            term = (fields[j] * four[source[j] * ci : (source[j] + 1) * ci]).sum(axis=1)
            parts[target[j]] = parts[target[j]] + jnp.tensordot(matrices[j], term, axes=1)
        return jnp.concatenate(parts)

    precision = fast.product_precision(interpret)

    def kernel(h_ref, fields_ref, matrices_ref, out_ref):
        at = pl.program_id(0) * TILE + jax.lax.broadcasted_iota(jnp.int32, (1, TILE), 1)
        sums: list[Array | None] = [None] * outputs
        four, loaded = [], None
        for j in range(terms):
            if loaded != source[j]:
                four, loaded = _load_reflections(h_ref, source[j] * ci, ci, at, n), source[j]
            term = sum(_row(fields_ref, j, s, at) * part for s, part in enumerate(four))
            part = jax.lax.dot(matrices_ref[j], term, precision=precision)
            before = sums[target[j]]
            sums[target[j]] = part if before is None else before + part
        for group, total in enumerate(sums):
            triton.store(out_ref.at[_channels(group * co, co), jnp.broadcast_to(at, (co, TILE))], total)

    result = pl.pallas_call(
        kernel,
        grid=(points // TILE,),
        out_shape=jax.ShapeDtypeStruct((outputs * co, points), h.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="mix",
    )(h.reshape(-1, points), fields.reshape(terms, 4, points), matrices)
    return result.reshape(-1, *n)


def mix_gradient(
    h: Float[Array, "ci x y"],
    d: Float[Array, "yc x y"],
    fields: Float[Array, "j 4 x y"],
    matrices: Float[Array, "j co ci"],
    target: tuple[int, ...],
    *,
    interpret: bool = False,
) -> tuple[Float[Array, "j 4 x y"], Float[Array, "j co ci"]]:
    """The gradient of the fields and of the matrices, from that of the result, `d`.

    `df_js(k) = sum_i (M_j^T d)_i(k) h_i(s k)` and `dM_j = sum_k d(k) (sum_s f_js(k) h(s k))^T`.
    """
    terms, co, ci = matrices.shape
    n = h.shape[1:]
    points = n[0] * n[1]
    if not (interpret or _kernels_fit(h, co, ci)):
        four = jnp.stack([reflected(h, s) for s in REFLECTIONS], axis=1)
        d_fields, d_matrices = [], []
        for j in range(terms):
            part = d[target[j] * co : (target[j] + 1) * co]
            d_fields.append((jnp.tensordot(matrices[j].T, part, axes=1)[:, None] * four).sum(axis=0))
            d_matrices.append(jnp.tensordot(part, (fields[j] * four).sum(axis=1), axes=((1, 2), (1, 2))))
        return jnp.stack(d_fields), jnp.stack(d_matrices)

    precision = fast.product_precision(interpret)
    tile = GRADIENT_TILE
    programs = points // (tile * GRADIENT_TILES)

    def kernel(h_ref, d_ref, fields_ref, matrices_ref, d_fields_ref, d_matrices_ref):
        first = pl.program_id(0) * GRADIENT_TILES

        def one_tile(t, sums):
            at = (first + t) * tile + jax.lax.broadcasted_iota(jnp.int32, (1, tile), 1)
            four = _load_reflections(h_ref, 0, ci, at, n)
            wide = jnp.broadcast_to(at, (co, tile))
            after, parts, loaded = [], None, None
            for j in range(terms):
                if loaded != target[j]:
                    parts, loaded = triton.load(d_ref.at[_channels(target[j] * co, co, tile), wide]), target[j]
                back = jax.lax.dot_general(matrices_ref[j], parts, (((0,), (0,)), ((), ())), precision=precision)
                for s, part in enumerate(four):
                    triton.store(_row_at(d_fields_ref, j, s, at), jnp.sum(back * part, axis=0, keepdims=True))
                term = sum(_row(fields_ref, j, s, at) * part for s, part in enumerate(four))
                outer = jax.lax.dot_general(parts, term, (((1,), (1,)), ((), ())), precision=precision)
                after.append(sums[j] + outer)
            return tuple(after)

        zeros = tuple(jnp.zeros((co, ci), h.dtype) for _ in range(terms))
        for j, total in enumerate(jax.lax.fori_loop(0, GRADIENT_TILES, one_tile, zeros)):
            d_matrices_ref[0, j] = total

    d_fields, d_matrices = pl.pallas_call(
        kernel,
        grid=(programs,),
        in_specs=[
            pl.BlockSpec(shape, lambda p, rank=len(shape): (0,) * rank) for shape in _shapes(h, d, fields, matrices)
        ],
        out_specs=[
            pl.BlockSpec((terms, 4, points), lambda p: (0, 0, 0)),
            pl.BlockSpec((1, terms, co, ci), lambda p: (p, 0, 0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((terms, 4, points), h.dtype),
            jax.ShapeDtypeStruct((programs, terms, co, ci), h.dtype),
        ],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="mix_gradient",
    )(h.reshape(-1, points), d.reshape(-1, points), fields.reshape(terms, 4, points), matrices)
    return d_fields.reshape(fields.shape), d_matrices.sum(axis=0)


def _shapes(h: Array, d: Array, fields: Array, matrices: Array) -> list[tuple[int, ...]]:
    points = h.shape[1] * h.shape[2]
    return [(len(h), points), (len(d), points), (*fields.shape[:2], points), matrices.shape]


def _kernels_fit(h: Array, co: int, ci: int) -> bool:
    """Whether the kernels can take these sizes: powers of two, wide enough for the matrix units."""
    sizes = (co, ci, *h.shape[1:])
    powers = all(size & (size - 1) == 0 for size in sizes)
    whole = h.shape[1] * h.shape[2] % (GRADIENT_TILE * GRADIENT_TILES) == 0
    return powers and min(co, ci) >= 16 and whole and fast.kernels(h.dtype)


def _load_reflections(h_ref, first: int, count: int, at: Array, n: tuple[int, ...]) -> list[Array]:
    """`count` channels of `h` at the four reflections of the wavenumbers with the flat indices `at`."""
    kx, ky = at // n[1], at % n[1]
    turned = jnp.where(kx == 0, 0, n[0] - kx), jnp.where(ky == 0, 0, n[1] - ky)
    channels = _channels(first, count, at.shape[1])
    parts = []
    for along_x, along_y in REFLECTIONS:
        place = (turned[0] if along_x else kx) * n[1] + (turned[1] if along_y else ky)
        parts.append(triton.load(h_ref.at[channels, jnp.broadcast_to(place, channels.shape)]))
    return parts


def _channels(first: int, count: int, tile: int = TILE) -> Array:
    return first + jax.lax.broadcasted_iota(jnp.int32, (count, tile), 0)


def _row_at(ref, j: int, s: int, at: Array):
    return ref.at[jnp.full(at.shape, j, jnp.int32), jnp.full(at.shape, s, jnp.int32), at]


def _row(ref, j: int, s: int, at: Array) -> Array:
    return triton.load(_row_at(ref, j, s, at))
