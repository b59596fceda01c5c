"""Kernels for GPUs that apply a matrix per Fourier mode to Hartley spectra, and its gradient."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from sino.core.hartley import REFLECTIONS
from sino.core.orbits import orbits, reflections, twice_modes

TILE, WARPS = 32, 4
"""Orbits that a program of the kernels takes, one per thread of a warp, and its warps, which share out channels."""
OUTPUTS, SAMPLES, INPUTS_AT_ONCE = 2, 8, 4
"""Of the product: channels of the result and trajectories that a thread sums up, and how many inputs it loads at once,
so that it waits for memory less often."""
FEW, FEW_WARPS = 4, 8
"""Up to so many channels of the result its programs take all of them and one trajectory, and so many warps share out
the inputs."""
ROWS, COLUMNS, SAMPLES_AT_ONCE = 4, 4, 4
"""Of its gradient: the block of a matrix that a thread sums up, and how many trajectories are loaded at once."""


def mix_kernel(
    h: Float[Array, "b taken x y"],
    matrices: Float[Array, "2 2 co ci q"],
    *,
    transposed: bool = False,
    interpret: bool = False,
) -> Float[Array, "b given x y"]:
    """`mixed` for a batch on a GPU; `transposed`, with the adjoint of every matrix. `interpret` is for tests on a CPU.

    A program has a tile of orbits, one per thread, and some channels of the result, shared out among its warps; if they
    are few, the inputs are shared out.
    """
    batch, ci, *n = h.shape
    co = matrices.shape[3 if transposed else 2]
    points, count = math.prod(n), matrices.shape[-1]
    few = co <= FEW
    warps = _power(FEW_WARPS, ci) if few else _power(WARPS, co)
    each = -(-ci // warps) if few else ci
    samples, most = (1, 2 * INPUTS_AT_ONCE) if few else (min(SAMPLES, batch), INPUTS_AT_ONCE)
    at_once = math.gcd(most, each)
    rows_per_program = co if few else warps * OUTPUTS

    def kernel(h_ref, matrices_ref, out_ref):
        tile = _Tile(pl.program_id(0), (warps, TILE), count, n)
        rows = list(range(co)) if few else tile.channels(pl.program_id(1), OUTPUTS)
        taken = [pl.program_id(2) * samples + b for b in range(samples)]
        own = tile.warp * each if few else 0

        def some_inputs(step, totals):
            for i in range(at_once):
                totals = one_input(own + step * at_once + i, totals)
            return totals

        def one_input(i, totals):
            inputs = [tile.load_modes(h_ref, (b, i), (b < batch) & (i < ci)) for b in taken]
            found = []
            for row, total in zip(rows, totals, strict=True):
                sums = []
                for sign in range(2):
                    at = (sign, i, row) if transposed else (sign, row, i)
                    there = (row < co) & (i < ci)
                    a, b = (tile.load(matrices_ref, (part, *at, tile.orbit), there) for part in range(2))
                    b = -b if transposed else b
                    sums.append(
                        [
                            (re + a * z_re - b * z_im, im + a * z_im + b * z_re)
                            for (re, im), (z_re, z_im) in zip(total[sign], (z[sign] for z in inputs), strict=True)
                        ]
                    )
                found.append(sums)
            return found

        zero = jnp.zeros(tile.shape, h.dtype)
        start = [[[(zero, zero)] * samples for _ in range(2)] for _ in rows]
        totals = jax.lax.fori_loop(0, each // at_once, some_inputs, start)
        if few:
            totals = jax.tree.map(lambda total: jnp.sum(total, axis=0, keepdims=True), totals)
            tile = _Tile(pl.program_id(0), (1, TILE), count, n)
        for row, total in zip(rows, totals, strict=True):
            for sample, (re, im), (re_, im_) in zip(taken, *total, strict=True):
                values = reflections((re, re_), (im, im_))
                tile.store_reflections(out_ref, (sample, row), values, (row < co) & (sample < batch))

    result = pl.pallas_call(
        kernel,
        grid=(-(-count // TILE), -(-co // rows_per_program), -(-batch // samples)),
        out_shape=jax.ShapeDtypeStruct((batch, co, points), h.dtype),
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=interpret,
        name="mix",
    )(h.reshape(batch, ci, points), matrices)
    return result.reshape(batch, co, *n)


def correlate_kernel(
    h: Float[Array, "b ci x y"], d: Float[Array, "b co x y"], *, interpret: bool = False
) -> Float[Array, "2 2 co ci q"]:
    """`correlated`, summed over a batch, on a GPU. `interpret` is for tests on a CPU."""
    (batch, ci, *n), co = h.shape, d.shape[1]
    points, count = math.prod(n), math.prod(orbits(tuple(n)))
    warps, columns, at_once = _power(WARPS, co), min(COLUMNS, ci), math.gcd(SAMPLES_AT_ONCE, batch)

    def kernel(h_ref, d_ref, out_ref):
        tile = _Tile(pl.program_id(2), (warps, TILE), count, n)
        rows = tile.channels(pl.program_id(0), ROWS)
        inputs = [pl.program_id(1) * columns + i for i in range(columns)]

        def some_samples(step, totals):
            for b in range(at_once):
                totals = one_sample(step * at_once + b, totals)
            return totals

        def one_sample(b, totals):
            right = [tile.load_modes(h_ref, (b, i), i < ci) for i in inputs]
            found = []
            for row, total in zip(rows, totals, strict=True):
                left = tile.load_modes(d_ref, (b, row), row < co)
                found.append(
                    [
                        [
                            (re + d_re * h_re + d_im * h_im, im + d_im * h_re - d_re * h_im)
                            for (re, im), (d_re, d_im), (h_re, h_im) in zip(pair, left, one, strict=True)
                        ]
                        for pair, one in zip(total, right, strict=True)
                    ]
                )
            return found

        zero = jnp.zeros(tile.shape, h.dtype)
        start = [[[(zero, zero)] * 2 for _ in inputs] for _ in rows]
        totals = jax.lax.fori_loop(0, batch // at_once, some_samples, start)
        share = tile.share().astype(h.dtype)
        for row, total in zip(rows, totals, strict=True):
            for i, pair in zip(inputs, total, strict=True):
                for sign, parts in enumerate(pair):
                    for part, value in enumerate(parts):
                        at = (part, sign, row, i, tile.orbit)
                        # Twice, as in `correlated`; both factors are twice the modes.
                        tile.store(out_ref, at, 0.5 * share * value, (row < co) & (i < ci))

    return pl.pallas_call(
        kernel,
        grid=(-(-co // (warps * ROWS)), -(-ci // columns), -(-count // TILE)),
        out_shape=jax.ShapeDtypeStruct((2, 2, co, ci, count), h.dtype),
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=interpret,
        name="correlate",
    )(h.reshape(batch, ci, points), d.reshape(batch, co, points))


class _Tile:
    """Some orbits in a row, one per thread of a warp, the same in each of the warps: where they lie, and how arrays are
    read and written there. Every array has the shape `(warp, orbit)`."""

    def __init__(self, program: Any, shape: tuple[int, int], count: int, n: list[int]):
        self.shape = shape
        self.warp = jax.lax.broadcasted_iota(jnp.int32, shape, 0)
        self.orbit = program * shape[1] + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
        self.inside = self.orbit < count
        self.alone = [2 * k % m == 0 for k, m in zip(self._wavenumber(n), n, strict=True)]
        near = self._wavenumber(n)
        far = [jnp.where(k == 0, 0, m - k) for k, m in zip(near, n, strict=True)]
        self.places, self.own = [], []
        for along in REFLECTIONS:
            kx, ky = (there if turned else here for turned, here, there in zip(along, near, far, strict=True))
            self.places.append(kx * n[1] + ky)
            repeated = [alone for turned, alone in zip(along, self.alone, strict=True) if turned]
            self.own.append(~(repeated[0] | repeated[-1]) if repeated else self.inside)

    def _wavenumber(self, n: list[int]) -> tuple[Array, Array]:
        across = n[1] // 2 + 1
        return self.orbit // across, self.orbit % across

    def channels(self, program: Any, each: int) -> list[Array]:
        """Channels of a program, `each` per warp."""
        return [(program * each + r) * self.shape[0] + self.warp for r in range(each)]

    def share(self) -> Array:
        """The part of each orbit that is its own, as `sino.core.orbits.share` has it."""
        return jnp.where(self.alone[0], 0.5, 1.0) * jnp.where(self.alone[1], 0.5, 1.0)

    def load(self, ref, index: tuple, there: Any) -> Array:
        """Entries of an array; zero where there is none."""
        return triton.load(ref.at[*self._whole(index)], mask=self.inside & there, other=0.0)

    def store(self, ref, index: tuple, value: Array, there: Any) -> None:
        """Write entries of an array, if they are there."""
        triton.store(ref.at[*self._whole(index)], value, mask=self.inside & there)

    def load_modes(self, ref, index: tuple, there: Any) -> Any:
        """Twice the modes `(real, imaginary)`, of `(kx, ky)` and of `(kx, -ky)`."""
        real, imaginary = twice_modes(*(self.load(ref, (*index, place), there) for place in self.places))
        return tuple(zip(real, imaginary, strict=True))

    def store_reflections(self, ref, index: tuple, values: Any, there: Any) -> None:
        """Write half of these values where the reflections lie."""
        for value, place, own in zip(values, self.places, self.own, strict=True):
            self.store(ref, (*index, place), 0.5 * value, own & there)

    def _whole(self, index: tuple) -> list[Array]:
        return [jnp.broadcast_to(jnp.asarray(i, jnp.int32), self.shape) for i in index]


def _power(most: int, count: int) -> int:
    """The largest power of two that is neither above `most` nor above `count`."""
    return min(most, 1 << (count.bit_length() - 1))
