"""Functions of a whole batch in programs that are written for one sample."""

from collections.abc import Callable

import jax
from jax.custom_batching import custom_vmap
from jaxtyping import Array


def for_batches(batched: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A function of a field and of something that all fields of a batch share, from one of the whole batch.

    `vmap` over the fields then calls `batched` once. It has no derivative of its own.
    """

    def alone(x: Array, shared: Array) -> Array:
        return batched(x[None], shared)[0]

    apply = custom_vmap(alone)

    @apply.def_vmap
    def _(size: int, mapped: list[bool], x: Array, shared: Array) -> tuple[Array, bool]:
        if mapped[1]:
            return jax.vmap(alone, tuple(0 if one else None for one in mapped))(x, shared), True
        return batched(x, shared), True

    return apply
