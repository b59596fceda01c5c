"""Stencils as kernels for GPUs: one pass over memory, in which every cell reads its neighbours."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

TILE = (8, 64)
"""Cells of one program."""

Neighbour = Callable[[int, int, tuple[int, int]], Array]
"""`at(a, c, (i, j))` is component `c` of array `a`, `i` and `j` cells further on."""


def fits(n: tuple[int, ...]) -> bool:
    """Whether a kernel can take a grid of these sizes."""
    return len(n) == 2 and all(size % tile == 0 for size, tile in zip(n, TILE, strict=True))


def stencil_kernel(
    cells: Callable[[Neighbour], Sequence[Array]],
    arrays: Sequence[Float[Array, "_ _ _"]],
    *,
    name: str,
    interpret: bool = False,
) -> Float[Array, "2 x y"]:
    """Both components that `cells` makes of the neighbours in some arrays, on the periodic grid of the first array.

    An array of one cell is the same everywhere. Neighbours are at most two cells away; each is loaded once.
    `interpret` runs the kernel on a CPU, for tests.
    """
    n = arrays[0].shape[1:]

    def kernel(*refs):
        corner = [pl.program_id(axis) * size for axis, size in enumerate(TILE)]
        place = [first + jax.lax.broadcasted_iota(jnp.int32, TILE, axis) for axis, first in enumerate(corner)]
        moved: dict[tuple[int, int], Array] = {}
        seen: dict[tuple[int, ...], Array] = {}

        def index(axis: int, shift: int) -> Array:
            if (axis, shift) not in moved:
                i = place[axis] + shift
                i = jnp.where(i < 0, i + n[axis], i) if shift < 0 else i
                moved[axis, shift] = jnp.where(i >= n[axis], i - n[axis], i) if shift > 0 else i
            return moved[axis, shift]

        def at(a: int, c: int, shift: tuple[int, int]) -> Array:
            if (a, c, *shift) not in seen:
                alone = arrays[a].shape[1:] == (1, 1)
                where = [jnp.zeros_like(i) for i in place] if alone else [index(0, shift[0]), index(1, shift[1])]
                seen[a, c, *shift] = triton.load(refs[a].at[c, *where])
            return seen[a, c, *shift]

        for c, value in enumerate(cells(at)):
            triton.store(refs[-1].at[c, *place], value)

    return pl.pallas_call(
        kernel,
        grid=tuple(size // tile for size, tile in zip(n, TILE, strict=True)),
        out_shape=jax.ShapeDtypeStruct((2, *n), arrays[0].dtype),
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=interpret,
        name=name,
    )(*arrays)
