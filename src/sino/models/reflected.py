"""Filters with few matrices, applied to Hartley spectra: the channel mix of SINO in real numbers."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Complex, Float

from sino.core import fast
from sino.core.hartley import REFLECTIONS, TURNED, reflected, reflected_filter
from sino.models.generated import Factorised

TILE = 64
"""Wavenumbers that one program of the mix takes."""
PRECISION = jax.lax.Precision.HIGHEST
"""Its products are too small for the matrix units to pay: plain float32, as fast and exact."""
GRADIENT_TILE, GRADIENT_PROGRAMS = 16, 16
"""Wavenumbers that one program of its gradient takes at a time, and among how many programs those of a sample are
shared out."""
WIDE = 4
"""Terms that the gradient treats as one, so that its products are large enough for the matrix units."""

ACTIVE = {"real": (0, 3), "imaginary": (1, 2), "complex": (0, 1, 2, 3)}
"""Of which reflections a filter has fields that are not zero."""


class Term(NamedTuple):
    """What is known beforehand of a term: the groups of channels that it takes and adds to, and its reflections."""

    source: int
    target: int
    active: tuple[int, ...]


class Bundle(NamedTuple):
    """Up to `WIDE` terms in a row that differ in nothing: the first, how many, and what they have in common."""

    first: int
    count: int
    target: int
    active: tuple[int, ...]


def bundles(terms: tuple[Term, ...]) -> list[Bundle]:
    """All terms, in order."""
    found: list[Bundle] = []
    for j, term in enumerate(terms):
        last = found[-1] if found else None
        if last is not None and last[1:] == (last.count, term.target, term.active) and last.count < WIDE:
            found[-1] = last._replace(count=last.count + 1)
        else:
            found.append(Bundle(j, 1, term.target, term.active))
    return found


class ReflectedMix(eqx.Module):
    """`y_g(k) = sum_j M_j sum_s f_js(k) h(s k)`, the sum over the terms `j` of the group `g`: one group per branch.

    `h` and `y` are Hartley spectra, `s` runs over the four reflections of a wavenumber. On a GPU the terms are formed,
    mixed and summed on the chip; what goes through memory is `h` and `y`.
    """

    fields: Float[Array, "j 4 x y"]
    matrices: Float[Array, "j co ci"]
    terms: tuple["Term", ...] = eqx.field(static=True)

    @staticmethod
    def of(branches: list[Factorised], ny: int) -> "ReflectedMix":
        """The branches of a block, given as filters of half spectra."""
        fields = jnp.concatenate([reflected_filter(branch.filters, ny) for branch in branches])
        matrices = jnp.concatenate([branch.mix for branch in branches])
        terms = [Term(0, g, ACTIVE[kind]) for g, branch in enumerate(branches) for kind in branch.kinds]
        return ReflectedMix(fields, matrices, tuple(terms))

    def __call__(self, h: Float[Array, "ci x y"]) -> Float[Array, "co x y"]:
        """Apply to a spectrum; the groups are stacked along the channels."""
        return _mix(self.terms, h, self.fields, self.matrices)


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


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _mix(terms: tuple[Term, ...], h: Array, fields: Array, matrices: Array) -> Array:
    return mix(h, fields, matrices, terms)


def _mix_forward(terms, h, fields, matrices):
    return mix(h, fields, matrices, terms), (h, fields, matrices)


def _mix_backward(terms, kept, d):
    h, fields, matrices = kept
    turned = fields * jnp.asarray(TURNED, fields.dtype)[None, :, None, None]
    back = tuple(Term(term.target, term.source, term.active) for term in terms)
    return mix(d, turned, jnp.swapaxes(matrices, 1, 2), back), *mix_gradient(h, d, fields, matrices, terms)


_mix.defvjp(_mix_forward, _mix_backward)


def mix(
    h: Float[Array, "hc x y"],
    fields: Float[Array, "j 4 x y"],
    matrices: Float[Array, "j co ci"],
    terms: tuple[Term, ...],
    *,
    interpret: bool = False,
) -> Float[Array, "yc x y"]:
    """`y = sum_j M_j sum_s f_js(k) h(s k)`, each term from its group of the channels of `h` to its group of the result.

    `interpret` runs the kernel on a CPU, for tests.
    """
    co, ci = matrices.shape[1:]
    outputs = 1 + max(term.target for term in terms)
    n = h.shape[1:]
    points = n[0] * n[1]
    if not (interpret or _kernels_fit(h, co, ci)):
        parts = [jnp.zeros((co, *n), h.dtype)] * outputs
        for j, term in enumerate(terms):
            field = h[term.source * ci : (term.source + 1) * ci]
            filtered = jnp.asarray(sum(fields[j, s, None] * reflected(field, REFLECTIONS[s]) for s in term.active))
            parts[term.target] = parts[term.target] + jnp.tensordot(matrices[j], filtered, axes=1)
        return jnp.concatenate(parts)

    def kernel(h_ref, fields_ref, matrices_ref, out_ref):
        """One group of the result, on some wavenumbers."""
        at = pl.program_id(0) * TILE + jax.lax.broadcasted_iota(jnp.int32, (1, TILE), 1)

        def one_group(group: int) -> None:
            total = jnp.zeros((co, TILE), h.dtype)
            loaded: dict[tuple[int, int], Array] = {}
            for j, term in enumerate(terms):
                if term.target != group:
                    continue
                filtered = 0
                for s in term.active:
                    if (term.source, s) not in loaded:
                        loaded[term.source, s] = _load_reflection(h_ref, term.source * ci, ci, at, s, n)
                    filtered += _row(fields_ref, j, s, at) * loaded[term.source, s]
                total += jax.lax.dot(matrices_ref[j], filtered, precision=PRECISION)
            triton.store(out_ref.at[_channels(group * co, co, TILE), jnp.broadcast_to(at, (co, TILE))], total)

        for group in range(outputs):
            pl.when(pl.program_id(1) == group)(partial(one_group, group))

    result = pl.pallas_call(
        kernel,
        grid=(points // TILE, outputs),
        out_shape=jax.ShapeDtypeStruct((outputs * co, points), h.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="mix",
    )(h.reshape(-1, points), fields.reshape(-1, 4, points), matrices)
    return result.reshape(-1, *n)


def mix_gradient(
    h: Float[Array, "ci x y"],
    d: Float[Array, "yc x y"],
    fields: Float[Array, "j 4 x y"],
    matrices: Float[Array, "j co ci"],
    terms: tuple[Term, ...],
    *,
    interpret: bool = False,
) -> tuple[Float[Array, "j 4 x y"], Float[Array, "j co ci"]]:
    """The gradient of the fields and of the matrices, from that of the result, `d`.

    `df_js(k) = sum_i (M_j^T d)_i(k) h_i(s k)` and `dM_j = sum_k d(k) (sum_s f_js(k) h(s k))^T`. All terms take the same
    channels of `h`. Fields that are zero beforehand get no gradient.
    """
    co, ci = matrices.shape[1:]
    n = h.shape[1:]
    points = n[0] * n[1]
    if not (interpret or _kernels_fit(h, co, ci)):
        turned = [reflected(h, along) for along in REFLECTIONS]
        d_fields, d_matrices = [], []
        for j, term in enumerate(terms):
            here = d[term.target * co : (term.target + 1) * co]
            back = jnp.tensordot(matrices[j].T, here, axes=1)
            rows = [(back * turned[s]).sum(axis=0) if s in term.active else jnp.zeros(n, h.dtype) for s in range(4)]
            filtered = jnp.asarray(sum(fields[j, s, None] * turned[s] for s in term.active))
            d_fields.append(jnp.stack(rows))
            d_matrices.append(jnp.tensordot(here, filtered, axes=((1, 2), (1, 2))))
        return jnp.stack(d_fields), jnp.stack(d_matrices)

    tile = GRADIENT_TILE
    tiles = points // tile // GRADIENT_PROGRAMS
    parts = bundles(terms)
    precision = jax.lax.Precision.HIGHEST if interpret else fast.PRODUCTS

    def kernel(h_ref, d_ref, fields_ref, matrices_ref, d_fields_ref, d_matrices_ref):
        """The terms of one bundle, on a part of the wavenumbers."""
        part = pl.program_id(0)

        def one_bundle(bundle: Bundle) -> None:
            rows = jax.lax.broadcasted_iota(jnp.int32, (WIDE, tile), 0)
            entry = jax.lax.broadcasted_iota(jnp.int32, (WIDE * ci, co), 0)  # term and input; the other axis: output
            place = bundle.first + entry // ci, jax.lax.broadcasted_iota(jnp.int32, (WIDE * ci, co), 1), entry % ci
            real = entry // ci < bundle.count
            transposed = triton.load(matrices_ref.at[*place], mask=real, other=0.0)

            def one_tile(t, total):
                at = (part * tiles + t) * tile + jax.lax.broadcasted_iota(jnp.int32, (1, tile), 1)
                here = _load_reflection(d_ref, bundle.target * co, co, at, 0, n)
                back = jax.lax.dot(transposed, here, precision=precision).reshape(WIDE, ci, tile)
                filtered = jnp.zeros((WIDE, ci, tile), h.dtype)
                for s in range(4):
                    row = jnp.zeros((WIDE, tile), h.dtype)
                    at_rows = bundle.first + rows, jnp.full(rows.shape, s, jnp.int32), jnp.broadcast_to(at, rows.shape)
                    if s in bundle.active:
                        reflection = _load_reflection(h_ref, 0, ci, at, s, n)[None]
                        row = jnp.sum(back * reflection, axis=1)
                        field = triton.load(fields_ref.at[*at_rows], mask=rows < bundle.count, other=0.0)
                        filtered += field[:, None, :] * reflection
                    triton.store(d_fields_ref.at[*at_rows], row, mask=rows < bundle.count)
                return total + jax.lax.dot(filtered.reshape(WIDE * ci, tile), here.T, precision=precision)

            total = jax.lax.fori_loop(0, tiles, one_tile, jnp.zeros((WIDE * ci, co), h.dtype))
            triton.store(d_matrices_ref.at[jnp.full(entry.shape, part, jnp.int32), *place], total, mask=real)

        for index, bundle in enumerate(parts):
            pl.when(pl.program_id(1) == index)(partial(one_bundle, bundle))

    d_fields, d_matrices = pl.pallas_call(
        kernel,
        grid=(GRADIENT_PROGRAMS, len(parts)),
        out_shape=[
            jax.ShapeDtypeStruct((len(terms), 4, points), h.dtype),
            jax.ShapeDtypeStruct((GRADIENT_PROGRAMS, *matrices.shape), h.dtype),
        ],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="mix_gradient",
    )(h.reshape(-1, points), d.reshape(-1, points), fields.reshape(-1, 4, points), matrices)
    return d_fields.reshape(fields.shape), d_matrices.sum(axis=0)


def _kernels_fit(h: Array, co: int, ci: int) -> bool:
    """Whether the kernels can take these sizes: powers of two, wide enough for the matrix units."""
    sizes = (co, ci, *h.shape[1:])
    powers = all(size & (size - 1) == 0 for size in sizes)
    whole = h.shape[1] * h.shape[2] % (GRADIENT_TILE * GRADIENT_PROGRAMS) == 0
    return powers and min(co, ci) >= 16 and whole and fast.kernels(h.dtype)


def _load_reflection(h_ref, first: int, count: int, at: Array, reflection: int, n: tuple[int, ...]) -> Array:
    """`count` channels of `h` at a reflection of the wavenumbers with the flat indices `at`."""
    kx, ky = at // n[1], at % n[1]
    along_x, along_y = REFLECTIONS[reflection]
    if along_x:
        kx = jnp.where(kx == 0, 0, n[0] - kx)
    if along_y:
        ky = jnp.where(ky == 0, 0, n[1] - ky)
    channels = _channels(first, count, at.shape[1])
    return triton.load(h_ref.at[channels, jnp.broadcast_to(kx * n[1] + ky, channels.shape)])


def _channels(first: int, count: int, tile: int) -> Array:
    return first + jax.lax.broadcasted_iota(jnp.int32, (count, tile), 0)


def _row_at(ref, j: int, s: int, at: Array):
    return ref.at[jnp.full(at.shape, j, jnp.int32), jnp.full(at.shape, s, jnp.int32), at]


def _row(ref, j: int, s: int, at: Array) -> Array:
    return triton.load(_row_at(ref, j, s, at))
