"""What a network is here: a map between fields, which knows arrays and nothing of physics or time."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float

from sino.models.layers import ComplexWeight

Operator = Callable[[Array], Array]
"""A map of fields `(ci, *n)` to fields `(co, *n)`."""


class AbstractModel(eqx.Module):
    """A network that maps a field `(ci, *n)` to a field `(co, *n)`; one sample, batches by `vmap`.

    All its array leaves are parameters, and real; complex ones are pairs of real arrays.
    """

    @abstractmethod
    def prepare(self, n: tuple[int, ...]) -> Operator:
        """What depends on the parameters and the grid only, computed once: a pure function of a field on `n` points."""

    def __call__(self, x: Float[Array, "ci *n"]) -> Float[Array, "co *n"]:
        """Prepare for the grid of `x` and apply."""
        return self.prepare(x.shape[1:])(x)


def count_parameters(model: eqx.Module) -> int:
    """Number of parameters, counted as the paper does: a complex entry counts once."""
    leaves = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, ComplexWeight))
    return sum(leaf.real.size if isinstance(leaf, ComplexWeight) else leaf.size for leaf in leaves)
