"""Parameters that act together as one array, so that an optimiser can turn axes between them."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.models.hypernetwork import Hypernetwork
from sino.models.layers import Conv, ConvTranspose, Linear

SMALL = 80
"""Entries of a layer, its bias included, that still make one row: a covariance of all pairs is cheap."""
LAYERS = (Linear, Conv, ConvTranspose)
"""Their bias is a column of their matrix: what one input more, always 1, would be multiplied by."""


def _is_whole(node: Any) -> bool:
    """Not a subclass, which may hold more than weight and bias."""
    return type(node) in (Hypernetwork, *LAYERS)


def joined(tree: Any) -> Any:
    """The parameters of a network as arrays whose entries act together.

    A layer of ours is its matrix `[W b]`: where the kink of a unit lies depends on both. A small one is one row, whose
    covariance holds every pair of its entries: above all, in one dimension, the layers that generate kernels, which
    otherwise may fail to put a kink where it is needed. The head of a hypernetwork holds matrices `(width, width)`, one
    per bottleneck unit and one more, and has three axes. Another parameter is the matrix of its first axis and all
    others.
    """

    def join(node: Any) -> Any:
        if type(node) is Hypernetwork:
            heads = [_with_bias(head) for head in node.heads]
            cubes = [head.reshape(math.isqrt(len(head)), -1, head.shape[1]) for head in heads]
            return [*map(join, node.layers), *cubes]
        if type(node) in LAYERS:
            matrix = _with_bias(node)
            return matrix.reshape(1, -1) if matrix.size <= SMALL else matrix
        return node.reshape(len(node), -1) if node.ndim > 2 else node

    return jax.tree.map(join, tree, is_leaf=_is_whole)


def parted(arrays: Any, like: Any) -> Any:
    """Undo `joined` for a tree like this one."""

    def part(node: Any, found: Any) -> Any:
        if type(node) is Hypernetwork:
            parts = [part(layer, array) for layer, array in zip((*node.layers, *node.heads), found, strict=True)]
            count = len(node.layers)
            return eqx.tree_at(lambda n: (n.layers, n.heads), node, (tuple(parts[:count]), tuple(parts[count:])))
        if type(node) in LAYERS:
            matrix = found.reshape(len(node.weight), -1)
            size = math.prod(node.weight.shape[1:])
            layer = eqx.tree_at(lambda n: n.weight, node, matrix[:, :size].reshape(node.weight.shape))
            return layer if node.bias is None else eqx.tree_at(lambda n: n.bias, layer, matrix[:, size])
        return found.reshape(node.shape)

    return jax.tree.map(part, like, arrays, is_leaf=_is_whole)


def _with_bias(layer: Any) -> Float[Array, "m n"]:
    """The matrix `[W b]` of a layer."""
    weight = layer.weight.reshape(len(layer.weight), -1)
    return weight if layer.bias is None else jnp.concatenate([weight, layer.bias[:, None]], axis=1)


def _groups(arrays: list[Array]) -> list[list[int]]:
    """Which of them have the same shape and type."""
    kinds = [(a.shape, a.dtype) for a in arrays]
    return [[at for at, other in enumerate(kinds) if other == kind] for kind in dict.fromkeys(kinds)]


def stacked(tree: Any) -> tuple[Array, ...]:
    """The joined arrays, those of one shape in one stack `(k, ...)`."""
    arrays = jax.tree.leaves(joined(tree))
    return tuple(jnp.stack([arrays[at] for at in group]) for group in _groups(arrays))


def unstacked(stacks: tuple[Array, ...], like: Any) -> Any:
    """Undo `stacked` for a tree like this one."""
    arrays, structure = jax.tree.flatten(joined(like))
    places = [at for group in _groups(arrays) for at in group]
    found = dict(zip(places, (one for stack in stacks for one in stack), strict=True))
    return parted(jax.tree.unflatten(structure, [found[at] for at in range(len(arrays))]), like)
