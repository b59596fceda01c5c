"""A matrix per Fourier mode, applied to Hartley spectra: the branches of SINO in real numbers."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from sino.core import fast
from sino.core.batching import for_batches
from sino.core.orbits import modes, share, spectrum
from sino.models.factors import Factors, factor_kernel
from sino.models.mode_kernels import correlate_kernel, mix_kernel


class Slots(NamedTuple):
    """Where a product leaves, in a backward pass, what the gradient of its matrices is made of. All zeros."""

    taken: Float[Array, "*times ci x y"]
    """For what it takes,"""
    given: Float[Array, "*times co x y"]
    """and for the gradient of what it gives."""


class ModeMix(eqx.Module):
    """`y(k) = m(k) h(k)` for the Fourier modes of real fields that are given as Hartley spectra.

    On a GPU the product goes by its `factors`, if there are any: then the matrices, which are larger than the spectra,
    are there for the gradient alone. Else a kernel reads them once for a whole batch. With `slots` the gradient of the
    matrices does not come from the product: see `empty_slots`.
    """

    matrices: Float[Array, "2 2 co ci q"]
    """Real and imaginary parts, for `(kx, ky)` and `(kx, -ky)`, of every orbit."""
    factors: Factors | None = None
    """The same matrices. They get no gradient."""
    slots: Slots | None = None

    @staticmethod
    def of(m: Complex[Array, "co ci x k"], factors: Factors | None = None) -> "ModeMix":
        """A filter given on the half spectrum. It has to belong to a map of real fields."""
        negative = jnp.conj(jnp.roll(jnp.flip(m, 2), 1, 2))  # m(kx, -ky) = conj m(-kx, ky)
        both = jnp.stack([m, negative])[:, :, :, : m.shape[2] // 2 + 1]
        both = both.reshape(*both.shape[:3], -1)
        return ModeMix(jnp.stack([both.real, both.imag]), factors)

    def __call__(self, h: Float[Array, "ci x y"]) -> Float[Array, "co x y"]:
        """Apply to a spectrum."""
        if self.slots is None:
            return mix(h, self.matrices, self.factors)
        return _mix_with_slots(h, self.matrices, self.factors, self.slots)


def empty_slots(operator: Any, times: int, batch: int, n: tuple[int, ...], dtype: Any) -> list[Slots]:
    """Slots for every product of a prepared operator, for so many applications to batches of fields on `n` points.

    In a rollout the gradient of a matrix is a sum over its steps. Added up step by step it goes through memory in every
    one of them, and it is larger than the fields. Here every step leaves its part in slots of its own, by way of
    `with_slots`, and the gradient is made of all parts at once, where these slots were made.
    """
    return [_empty_slots(mix.matrices, times, batch, n, jnp.dtype(dtype)) for mix in _products(operator)]


def with_slots(operator: Any, slots: list[Slots]) -> Any:
    """The same operator, its products with these slots: those of one application, and of one field under `vmap`."""
    remaining = iter(slots)

    def fill(node: Any) -> Any:
        return replace(node, slots=next(remaining)) if _is_product(node) else node

    return jax.tree.map(fill, operator, is_leaf=_is_product)


def _products(operator: Any) -> list[ModeMix]:
    return [node for node in jax.tree.leaves(operator, is_leaf=_is_product) if _is_product(node)]


def _is_product(node: Any) -> bool:
    return isinstance(node, ModeMix)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4))
def _empty_slots(matrices: Array, times: int, batch: int, n: tuple[int, ...], dtype: Any) -> Slots:
    co, ci = matrices.shape[2:4]
    return Slots(jnp.zeros((times, batch, ci, *n), dtype), jnp.zeros((times, batch, co, *n), dtype))


def _slots_forward(matrices, times, batch, n, dtype):
    return _empty_slots(matrices, times, batch, n, dtype), jnp.zeros((), matrices.dtype)


def _slots_backward(times, batch, n, dtype, like: Array, d: Slots) -> tuple[Array]:
    taken, given = (part.reshape(times * batch, *part.shape[2:]) for part in d)
    return (_gradient(taken, given).astype(like.dtype),)


_empty_slots.defvjp(_slots_forward, _slots_backward)


@jax.custom_vjp
def mix(
    h: Float[Array, "ci x y"], matrices: Float[Array, "2 2 co ci q"], factors: Factors | None
) -> Float[Array, "co x y"]:
    """`mixed`, by a kernel where one can run."""
    if factors is not None and factors.fit(h):
        return factor_kernel(factors, h)
    return for_batches(mix_kernel)(h, matrices) if fast.kernels(h.dtype) else mixed(h, matrices)


def _back(d: Array, matrices: Array, factors: Factors | None) -> Array:
    """The gradient of `h` from that of the result."""
    if factors is not None and factors.fit(d):
        return factor_kernel(factors.adjoint, d)
    if fast.kernels(d.dtype):
        return for_batches(partial(mix_kernel, transposed=True))(d, matrices)
    return mixed(d, adjoint(matrices))


def _gradient(h: Float[Array, "b ci x y"], d: Float[Array, "b co x y"]) -> Float[Array, "2 2 co ci q"]:
    """The gradient of the matrices from that of the results, over a batch."""
    if fast.kernels(h.dtype):
        return correlate_kernel(h, d)
    # One by one: each is larger than the fields.
    return jax.lax.fori_loop(1, len(h), lambda i, total: total + correlated(h[i], d[i]), correlated(h[0], d[0]))


def _mix_forward(h: Array, matrices: Array, factors: Factors | None) -> tuple[Array, Any]:
    return mix(h, matrices, factors), (h, matrices, factors)


def _mix_backward(kept: Any, d: Array) -> tuple[Array, Array, None]:
    h, matrices, factors = kept
    return _back(d, matrices, factors), _gradient(h[None], d[None]).astype(matrices.dtype), None


mix.defvjp(_mix_forward, _mix_backward)


@jax.custom_vjp
def _mix_with_slots(h: Array, matrices: Array, factors: Factors | None, slots: Slots) -> Array:
    return mix(h, matrices, factors)


def _mix_with_slots_forward(h: Array, matrices: Array, factors: Factors | None, slots: Slots) -> tuple[Array, Any]:
    return mix(h, matrices, factors), (h, matrices, factors)


def _mix_with_slots_backward(kept: Any, d: Array) -> tuple[Array, None, None, Slots]:
    h, matrices, factors = kept
    return _back(d, matrices, factors), None, None, Slots(h, d)


_mix_with_slots.defvjp(_mix_with_slots_forward, _mix_with_slots_backward)


def mixed(h: Float[Array, "ci x y"], matrices: Float[Array, "2 2 co ci q"]) -> Float[Array, "co x y"]:
    """The product of `ModeMix`, as it is written."""
    (real, imaginary), (a, b) = modes(h), matrices
    times = partial(jnp.einsum, "soiq,siq->soq")
    z = jnp.stack([times(a, real) - times(b, imaginary), times(a, imaginary) + times(b, real)])
    return spectrum(z, h.shape[1:])


def correlated(h: Float[Array, "ci x y"], d: Float[Array, "co x y"]) -> Float[Array, "2 2 co ci q"]:
    """The gradient of the matrices from that of the result, `d`: `d(k) conj(h(k))^T`."""
    (h_re, h_im), (d_re, d_im) = modes(h)[:, :, None], modes(d)[:, :, :, None]
    twice = jnp.asarray(2 * share(h.shape[1:]), h.dtype)  # the map from modes to reflections is twice an isometry
    found = jnp.stack([d_re * h_re + d_im * h_im, d_im * h_re - d_re * h_im])
    return found * twice[(None,) * 4]


def adjoint(matrices: Float[Array, "2 2 co ci q"]) -> Float[Array, "2 2 ci co q"]:
    """The adjoint of every matrix."""
    a, b = jnp.swapaxes(matrices, 2, 3)
    return jnp.stack([a, -b])
