"""The optimisers: Adam, and SOAP, which is Adam along axes that follow the covariances of the gradient."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from sino.models.layers import Conv, ConvTranspose, Linear
from sino.train.curriculum import Recipe

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
LARGEST_SIDE = 65
"""64 inputs and a bias. A longer side keeps its axes: SINO's heads, `(width^2, n + 1)`, learn better when only their
short side is turned."""
LAYERS = (Linear, Conv, ConvTranspose)
"""Layers whose bias is a column of their matrix: what one input more, always 1, would be multiplied by."""


class Sides(NamedTuple):
    """A square matrix for each side of a parameter `(m, n)`; None for a side that keeps its axes."""

    left: Array | None
    right: Array | None


class SoapState(NamedTuple):
    """What SOAP remembers. Parameters of one shape are in one stack: on a GPU each operation costs its launch."""

    count: Array
    """Updates that it has seen. A seed that went back has seen fewer than were made."""
    mean: tuple[Array, ...]
    """Of gradients, along the axes of the parameters."""
    square: tuple[Array, ...]
    """Mean of squared gradients, along the axes of the bases."""
    covariances: tuple[Sides, ...]
    """Of each stack: running means of `G G^T (k, m, m)` and `G^T G (k, n, n)`."""
    bases: tuple[Sides, ...]
    """Of each stack: orthogonal matrices, nearly the eigenvectors of the covariances as columns."""


def optimiser(recipe: Recipe) -> optax.GradientTransformationExtraArgs:
    """AdamW, or SOAP with decoupled weight decay, without the learning rate, which is an argument of the update.

    Its `update` also takes the `index` of the update, from 0.
    """
    clip = [optax.clip_by_global_norm(recipe.clip)] if recipe.clip else []
    scale = {"adam": optax.scale_by_adam, "soap": scale_by_soap}[recipe.optimiser]
    return optax.chain(*clip, scale(), optax.add_decayed_weights(recipe.weight_decay))


def scale_by_soap() -> optax.GradientTransformationExtraArgs:
    """Adam in the eigenbasis of Shampoo's two covariances.

    A parameter is a matrix `(m, n)`: its first axis, and all others. The bias of a layer is a column of it, so that
    axes turn between the two: where the kink of a unit lies depends on both. With `M` the running mean of its gradient
    `G`, `Q_L (m, m)` and `Q_R (n, n)` the eigenvectors of the running means of `G G^T` and `G^T G`, and `V` the running
    mean of `(Q_L^T G Q_R)^2`, its direction is `Q_L (Q_L^T M Q_R / (sqrt(V) + eps)) Q_R^T`, `M` and `V` corrected for
    their bias as in Adam. A side of one entry, or of more than `LARGEST_SIDE`, has `Q = 1`; parameters of less than two
    axes are left to Adam.

    The bases are found at index 0, from the axes of the parameters, by some steps of orthogonal iteration, `Q R = P Q`,
    and then turned by one step at every index that `REFRESH` divides. The index is that of the update, not the state's
    count: seeds under `vmap` share it, so that no step is computed in between. Any state fits any index, since any
    orthogonal matrix is a basis.

    N. Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam (2024).
    """

    def init(params: Any) -> SoapState:
        zeros = jax.tree.map(jnp.zeros_like, _stacked(params))
        covariances = tuple(map(jax.vmap(_no_covariance), zeros))
        bases = jax.tree.map(lambda c: jnp.broadcast_to(jnp.eye(c.shape[-1], dtype=c.dtype), c.shape), covariances)
        return SoapState(jnp.zeros((), jnp.int32), zeros, zeros, covariances, bases)

    def update(gradient: Any, state: SoapState, params: Any = None, *, index: Int[Array, ""], **_: Any):
        count, g = state.count + 1, _stacked(gradient)
        covariances = tuple(map(jax.vmap(_follow), g, state.covariances))
        bases = _turned(state.bases, covariances, index)
        mean = optax.tree.update_moment(g, state.mean, MEAN_DECAY, 1)
        square = optax.tree.update_moment(tuple(map(jax.vmap(_rotate), g, bases)), state.square, SQUARE_DECAY, 2)

        def direction(m: Array, v: Array, basis: Sides) -> Array:
            return _rotate(_rotate(m, basis) / (jnp.sqrt(v) + EPSILON), jax.tree.map(jnp.transpose, basis))

        corrected = (optax.tree.bias_correction(m, d, count) for m, d in ((mean, MEAN_DECAY), (square, SQUARE_DECAY)))
        directions = tuple(map(jax.vmap(direction), *corrected, bases))
        return _unstacked(directions, gradient), SoapState(count, mean, square, covariances, bases)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def _is_layer(node: Any) -> bool:
    return isinstance(node, LAYERS)


def _joined(node: Any) -> Array:
    """The matrix `[W b]` of a layer; another parameter as it is."""
    if not _is_layer(node):
        return node
    weight = node.weight.reshape(len(node.weight), -1)
    return weight if node.bias is None else jnp.concatenate([weight, node.bias[:, None]], axis=1)


def _parted(joined: Array, like: Any) -> Any:
    """Undo `_joined` for a node like this one."""
    if not _is_layer(like):
        return joined
    weight, bias = (joined, None) if like.bias is None else (joined[:, :-1], joined[:, -1])
    whole = eqx.tree_at(lambda node: node.weight, like, weight.reshape(like.weight.shape))
    return whole if bias is None else eqx.tree_at(lambda node: node.bias, whole, bias)


def _groups(arrays: list[Array]) -> list[list[int]]:
    """Which of them have the same shape and type."""
    kinds = [(a.shape, a.dtype) for a in arrays]
    return [[at for at, other in enumerate(kinds) if other == kind] for kind in dict.fromkeys(kinds)]


def _stacked(tree: Any) -> tuple[Array, ...]:
    """The parameters, layers joined, those of one shape as one array `(k, ...)`."""
    parameters = [_joined(node) for node in jax.tree.leaves(tree, is_leaf=_is_layer)]
    return tuple(jnp.stack([parameters[at] for at in group]) for group in _groups(parameters))


def _unstacked(stacks: tuple[Array, ...], like: Any) -> Any:
    """Undo `_stacked` for a tree like this one."""
    nodes, structure = jax.tree.flatten(like, is_leaf=_is_layer)
    places = [at for group in _groups([_joined(node) for node in nodes]) for at in group]
    found = dict(zip(places, (one for stack in stacks for one in stack), strict=True))
    return jax.tree.unflatten(structure, [_parted(found[at], node) for at, node in enumerate(nodes)])


def _matrix(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The first axis, and all others."""
    return x.reshape(*x.shape[:1], -1) if x.ndim > 2 else x


def _no_covariance(x: Float[Array, "..."]) -> Sides:
    """Zeros for the sides whose axes turn."""
    sizes = _matrix(x).shape if x.ndim > 1 else (1, 1)
    return Sides(*(jnp.zeros((size, size), x.dtype) if 1 < size <= LARGEST_SIDE else None for size in sizes))


def _follow(gradient: Float[Array, "..."], covariance: Sides) -> Sides:
    """The running means of `G G^T` and `G^T G`, one gradient later."""
    g, (left, right) = _matrix(gradient), covariance
    now = Sides(None if left is None else g @ g.T, None if right is None else g.T @ g)
    return optax.tree.update_moment(now, covariance, COVARIANCE_DECAY, 1)


def _rotate(x: Float[Array, "..."], basis: Sides) -> Float[Array, "..."]:
    """`Q_L^T X Q_R`, in the shape of `X`."""
    turned = _matrix(x)
    if basis.left is not None:
        turned = basis.left.T @ turned
    if basis.right is not None:
        turned = turned @ basis.right
    return turned.reshape(x.shape)


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
        joined = (jnp.concatenate(stacks) for stacks in zip(*(rows[at] for at in members), strict=True))
        ends = np.cumsum([len(rows[at][0]) for at in members])[:-1]
        results |= zip(members, jnp.split(function(*joined), ends), strict=True)
    return jax.tree.unflatten(jax.tree.structure(trees[0]), [results[at] for at in range(len(rows))])
