"""SOAP: Adam along axes that follow the covariances of the gradient."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from sino.train.joined import SMALL, stacked, unstacked

MEAN_DECAY = 0.9
"""As in Adam."""
SQUARE_DECAY = 0.99
"""Shorter than Adam's 0.999: the axes along which squares are averaged turn."""
COVARIANCE_DECAY = 0.95
"""Over some twenty updates, so that the axes follow the weights."""
EPSILON = 1e-8
"""As in Adam."""
REFRESH = 5
"""Updates between two turns of the axes: they move slowly."""
FIRST_TURNS = 10
"""Steps of the iteration that find the axes at the first update."""
FLOOR = 1e-6
"""Of its trace, added to a covariance when its axes turn. It changes no eigenvector and leaves no matrix singular."""
LARGEST_SIDE = SMALL
"""A longer side keeps its axes. The row that is a small layer has no longer one."""

Sides = tuple[Array | None, ...]
"""A square matrix for each axis of an array; None for a side that keeps its axes."""


class SoapState(NamedTuple):
    """What SOAP remembers. Joined arrays of one shape are in one stack: on a GPU each operation costs its launch."""

    count: Array
    """Updates that it has seen. A seed that went back has seen fewer than were made."""
    mean: tuple[Array, ...]
    """Of gradients, along the axes of the joined arrays."""
    square: tuple[Array, ...]
    """Mean of squared gradients, along the axes of the bases."""
    covariances: tuple[Sides, ...]
    """Of each stack: running means of the gradients' second moments `(k, n, n)` along each axis."""
    bases: tuple[Sides, ...]
    """Of each stack: orthogonal matrices, nearly the eigenvectors of the covariances as columns."""


def scale_by_soap() -> optax.GradientTransformationExtraArgs:
    """Adam in the eigenbasis of Shampoo's covariances.

    For a matrix `(m, n)` with `M` the running mean of its gradient `G`, `Q_L (m, m)` and `Q_R (n, n)` the eigenvectors
    of the running means of `G G^T` and `G^T G`, and `V` the running mean of `(Q_L^T G Q_R)^2`, the direction is
    `Q_L (Q_L^T M Q_R / (sqrt(V) + eps)) Q_R^T`, `M` and `V` corrected for their bias as in Adam. An array of three axes
    has a third basis. A side of one entry, or of more than `LARGEST_SIDE`, has `Q = 1`.

    The arrays are those of `joined`: parameters that act together. One of less than two axes is left to Adam.

    The bases are found at index 0, from the axes of the arrays, by some steps of orthogonal iteration, `Q R = P Q`,
    and then turned by one step at every index that `REFRESH` divides. The index is that of the update, not the state's
    count: seeds under `vmap` share it, so that no step is computed in between. Any state fits any index, since any
    orthogonal matrix is a basis.

    N. Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam (2024).
    """

    def init(params: Any) -> SoapState:
        zeros = jax.tree.map(jnp.zeros_like, stacked(params))
        covariances = tuple(map(jax.vmap(_no_covariance), zeros))
        bases = jax.tree.map(lambda c: jnp.broadcast_to(jnp.eye(c.shape[-1], dtype=c.dtype), c.shape), covariances)
        return SoapState(jnp.zeros((), jnp.int32), zeros, zeros, covariances, bases)

    def update(gradient: Any, state: SoapState, params: Any = None, *, index: Int[Array, ""], **_: Any):
        count, g = state.count + 1, stacked(gradient)
        covariances = tuple(map(jax.vmap(_follow), g, state.covariances))
        bases = _turned(state.bases, covariances, index)
        mean = optax.tree.update_moment(g, state.mean, MEAN_DECAY, 1)
        square = optax.tree.update_moment(tuple(map(jax.vmap(_rotate), g, bases)), state.square, SQUARE_DECAY, 2)

        def direction(m: Array, v: Array, basis: Sides) -> Array:
            return _rotate(_rotate(m, basis) / (jnp.sqrt(v) + EPSILON), jax.tree.map(jnp.transpose, basis))

        corrected = (optax.tree.bias_correction(m, d, count) for m, d in ((mean, MEAN_DECAY), (square, SQUARE_DECAY)))
        directions = tuple(map(jax.vmap(direction), *corrected, bases))
        return unstacked(directions, gradient), SoapState(count, mean, square, covariances, bases)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def _no_covariance(x: Float[Array, "..."]) -> Sides:
    """Zeros for the sides whose axes turn."""
    sizes = x.shape if x.ndim > 1 else (1,) * x.ndim
    return tuple(jnp.zeros((size, size), x.dtype) if 1 < size <= LARGEST_SIDE else None for size in sizes)


def _follow(gradient: Float[Array, "..."], covariance: Sides) -> Sides:
    """The running means of `G_i G_i^T`, one gradient later, `G_i` the matrix of axis `i` and all others."""
    matrices = (jnp.moveaxis(gradient, axis, 0).reshape(size, -1) for axis, size in enumerate(gradient.shape))
    now = tuple(None if c is None else g @ g.T for g, c in zip(matrices, covariance, strict=True))
    return optax.tree.update_moment(now, covariance, COVARIANCE_DECAY, 1)


def _rotate(x: Float[Array, "..."], basis: Sides) -> Float[Array, "..."]:
    """`X` multiplied by `Q^T` along each axis."""
    for axis, q in enumerate(basis):
        if q is not None:
            x = jnp.moveaxis(jnp.tensordot(x, q, axes=(axis, 0)), -1, axis)
    return x


def _turned(bases: Any, covariances: Any, index: Int[Array, ""]) -> Any:
    """The bases for an update: found when it is the first, turned now and then, else as they are."""
    steps = jnp.where(index == 0, FIRST_TURNS, 1)

    def turn(basis: Float[Array, "k n n"], covariance: Float[Array, "k n n"]) -> Array:
        trace = jnp.trace(covariance, axis1=1, axis2=2)[:, None, None]
        unit = covariance / jnp.where(trace > 0, trace, 1)
        return jax.lax.fori_loop(0, steps, lambda _, q: orthonormal(unit @ q + FLOOR * q), basis)

    return jax.lax.cond(index % REFRESH == 0, lambda: _by_size(turn, bases, covariances), lambda: bases)


def orthonormal(a: Float[Array, "k n n"]) -> Float[Array, "k n n"]:
    """The orthogonal factors of matrices of full rank: `Q` of `A = Q R`, the diagonal of `R` positive.

    By classical Gram-Schmidt, all matrices together, each column twice, which is enough (Giraud et al., Numer. Math.
    101 (2005), 87). A library's decomposition takes a hundred launches per matrix on a GPU, and on a CPU several that
    wait for the same threads can wait for ever.
    """

    def column(j: Array, q: Array) -> Array:
        v = a[:, :, j]
        for _ in range(2):
            v = v - jnp.einsum("kij,kj->ki", q, jnp.einsum("kij,ki->kj", q, v))
            v = v / jnp.linalg.norm(v, axis=1, keepdims=True)
        return q.at[:, :, j].set(v)

    return jax.lax.fori_loop(0, a.shape[2], column, jnp.zeros_like(a))


def _by_size(function: Callable[..., Array], *trees: Any) -> Any:
    """Apply a function of stacks `(k, n, n)` to all of one size together."""
    rows = list(zip(*map(jax.tree.leaves, trees), strict=True))
    results: dict[int, Array] = {}
    kinds = [(row[0].shape[-1], row[0].dtype) for row in rows]
    for kind in dict.fromkeys(kinds):
        members = [at for at, other in enumerate(kinds) if other == kind]
        together = (jnp.concatenate(stacks) for stacks in zip(*(rows[at] for at in members), strict=True))
        ends = np.cumsum([len(rows[at][0]) for at in members])[:-1]
        results |= zip(members, jnp.split(function(*together), ends), strict=True)
    return jax.tree.unflatten(jax.tree.structure(trees[0]), [results[at] for at in range(len(rows))])
