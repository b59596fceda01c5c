"""The product of modes by its factors: few channel matrices, and a scalar filter for each of them."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Complex, Float

from sino.core import fast
from sino.core.hartley import REFLECTIONS, reflected
from sino.models.generated import Factorised

TILE = 64
"""Wavenumbers that one program of the kernel takes."""
PRECISION = jax.lax.Precision.HIGHEST
"""Its products are too small for the matrix units to pay: plain float32, as fast and exact."""

ACTIVE = {"real": (0, 3), "imaginary": (1, 2), "complex": (0, 1, 2, 3)}
"""Of which reflections a filter has fields that are not zero."""
TURNED = np.array([1.0, -1.0, -1.0, 1.0])
"""Signs that turn the fields of a filter into those of its adjoint."""


class Term(NamedTuple):
    """What is known beforehand of a term: the groups of channels that it takes and adds to, and its reflections."""

    source: int
    target: int
    active: tuple[int, ...]


class Factors(eqx.Module):
    """`y_g(k) = sum_j M_j sum_s f_js(k) h(s k)`, the sum over the terms `j` of the group `g`: one group per branch.

    `h` and `y` are Hartley spectra, `s` runs over the four reflections of a wavenumber. Spectra go through memory, and
    no matrix per mode.
    """

    fields: Float[Array, "j 4 x y"]
    matrices: Float[Array, "j co ci"]
    terms: tuple[Term, ...] = eqx.field(static=True)

    @staticmethod
    def of(branches: list[Factorised], ny: int) -> "Factors":
        """The branches of a block, given as filters of half spectra."""
        fields = jnp.concatenate([reflected_filter(branch.filters, ny) for branch in branches])
        matrices = jnp.concatenate([branch.mix for branch in branches])
        terms = [Term(0, g, ACTIVE[kind]) for g, branch in enumerate(branches) for kind in branch.kinds]
        return Factors(fields, matrices, tuple(terms))

    @property
    def adjoint(self) -> "Factors":
        """Those of the adjoint."""
        turned = self.fields * jnp.asarray(TURNED, self.fields.dtype)[None, :, None, None]
        terms = tuple(Term(term.target, term.source, term.active) for term in self.terms)
        return Factors(turned, jnp.swapaxes(self.matrices, 1, 2), terms)

    def fit(self, h: Float[Array, "c x y"]) -> bool:
        """Whether the kernel can take these sizes: powers of two, not too small for its products."""
        sizes = (*self.matrices.shape[1:], *h.shape[1:])
        powers = all(size & (size - 1) == 0 for size in sizes)
        return powers and min(sizes) >= 16 and fast.kernels(h.dtype)


def reflected_filter(m: Complex[Array, "*j x k"], ny: int) -> Float[Array, "*j 4 x y"]:
    """Fields `f_s(k)` with `(m * h)(k) = sum_s f_s(k) h(s k)` over the four reflections `s`.

    `m` is given on the half spectrum and has to belong to a map of real fields. Of its real part, even under `k -> -k`,
    the part that is even in each component acts on `h(k)`, the part that is odd in both on `h(-k)`; of its imaginary
    part, the one odd in `kx` acts on `h(-kx, ky)`, the one odd in `ky` on `h(kx, -ky)`.
    """
    upper = jnp.conj(jnp.roll(jnp.flip(m[..., 1 : (ny + 1) // 2], (-2, -1)), 1, -2))
    whole = jnp.concatenate([m, upper], axis=-1)
    turned = reflected(whole, (True, False))
    even, odd = 0.5 * (whole + turned), 0.5 * (whole - turned)
    return jnp.stack([even.real, -odd.imag, -even.imag, -odd.real], axis=-3)


def applied(factors: Factors, h: Float[Array, "hc x y"]) -> Float[Array, "yc x y"]:
    """The product, as it is written."""
    co, ci = factors.matrices.shape[1:]
    parts = [jnp.zeros((co, *h.shape[1:]), h.dtype)] * _groups(factors)
    for term, fields, matrix in zip(factors.terms, factors.fields, factors.matrices, strict=True):
        taken = h[term.source * ci : (term.source + 1) * ci]
        filtered = jnp.asarray(sum(fields[s, None] * reflected(taken, REFLECTIONS[s]) for s in term.active))
        parts[term.target] = parts[term.target] + jnp.tensordot(matrix, filtered, axes=1)
    return jnp.concatenate(parts)


def factor_kernel(factors: Factors, h: Float[Array, "hc x y"], *, interpret: bool = False) -> Float[Array, "yc x y"]:
    """`applied` on a GPU, where terms are formed, mixed and summed on the chip. `interpret` is for tests on a CPU."""
    co, ci = factors.matrices.shape[1:]
    n = h.shape[1:]
    points, groups = n[0] * n[1], _groups(factors)

    def kernel(h_ref, fields_ref, matrices_ref, out_ref):
        """One group of the result, on some wavenumbers."""
        at = pl.program_id(0) * TILE + jax.lax.broadcasted_iota(jnp.int32, (1, TILE), 1)

        def one_group(group: int) -> None:
            total = jnp.zeros((co, TILE), h.dtype)
            loaded: dict[tuple[int, int], Array] = {}
            for j, term in enumerate(factors.terms):
                if term.target != group:
                    continue
                filtered = 0
                for s in term.active:
                    if (term.source, s) not in loaded:
                        loaded[term.source, s] = _load_reflection(h_ref, term.source * ci, ci, at, s, n)
                    row = jnp.full(at.shape, j, jnp.int32), jnp.full(at.shape, s, jnp.int32), at
                    filtered += triton.load(fields_ref.at[*row]) * loaded[term.source, s]
                total += jax.lax.dot(matrices_ref[j], filtered, precision=PRECISION)
            triton.store(out_ref.at[_channels(group * co, co), jnp.broadcast_to(at, (co, TILE))], total)

        for group in range(groups):
            pl.when(pl.program_id(1) == group)(partial(one_group, group))

    result = pl.pallas_call(
        kernel,
        grid=(points // TILE, groups),
        out_shape=jax.ShapeDtypeStruct((groups * co, points), h.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="factors",
    )(h.reshape(-1, points), factors.fields.reshape(-1, 4, points), factors.matrices)
    return result.reshape(-1, *n)


def _groups(factors: Factors) -> int:
    return 1 + max(term.target for term in factors.terms)


def _load_reflection(h_ref, first: int, count: int, at: Array, reflection: int, n: tuple[int, ...]) -> Array:
    """`count` channels of `h` at a reflection of the wavenumbers with the flat indices `at`."""
    kx, ky = at // n[1], at % n[1]
    along_x, along_y = REFLECTIONS[reflection]
    if along_x:
        kx = jnp.where(kx == 0, 0, n[0] - kx)
    if along_y:
        ky = jnp.where(ky == 0, 0, n[1] - ky)
    channels = _channels(first, count)
    return triton.load(h_ref.at[channels, jnp.broadcast_to(kx * n[1] + ky, channels.shape)])


def _channels(first: int, count: int) -> Array:
    return first + jax.lax.broadcasted_iota(jnp.int32, (count, TILE), 0)
