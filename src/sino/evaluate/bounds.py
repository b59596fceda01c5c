"""The paper's theorems as numbers: Lipschitz constants and operator norms of trained weights, each beside its bound.

Where the printed statement does not fit the network, the corrected one is computed; `docs/theory.md` derives both.

- Lipschitz: `L = scale sqrt(sum |W_head|^2) |W_3| |W_2| |W_1|`, spectral norms; biases drop out of differences, ReLU
  has slope 1, and `scale` is what the network multiplies its kernels by.
- Frequency branch: `norm <= sqrt(n+1) max_j |B_j| max_xi |(1, z(xi))|`. The head's bias `B_0` counts (the paper has `n`
  terms). This is an upper bound: the norm itself is the largest spectral norm of `m` over the modes of the grid.
- Spatial branch: `norm <= sum_offsets |W(zeta)|`, the integral of the paper as the sum that is computed. The same
  Cauchy-Schwarz inequality as for the frequency branch bounds it by `K^d sqrt(n+1) max_j |C_j| max |(1, z)|`: it grows
  no faster with `n` than the other branch.
- FNO: `norm <= max_k |R(k)|` over the kept modes, by the same identity of Parseval. A maximum over modes is not a sum:
  it does not grow linearly with their number, as the paper says it does.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from sino.core.fourier import irfft, rfft
from sino.evaluate.kernels import Family, kernel_families, precise
from sino.models.fno import FNO, SpectralConv
from sino.models.generated import DenseKernel, frequency_operator, spatial_operator
from sino.models.hypernetwork import Hypernetwork
from sino.models.sino import SINO, Block

SLACK = 1e-6
"""Relative room for rounding when a bound is checked."""

LinearMap = Callable[[Array], Array]


def sino_bounds(model: SINO, n: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row per block and branch for `analysis.json`, on a grid of `n` points.

    `norm` (power iteration) and `norm_exact` (largest over modes) are those of the generated convolution as the network
    applies it, without the bypass of the frequency branch, which has a `bypass_norm` of its own. `paper_bound` is the
    printed formula, without the heads' bias, its measure of the box replaced by the number of offsets; it may fail, and
    `paper_holds` says whether it does. `holds` is about all others.
    """
    blocks = precise(model).blocks
    return [_sino_row(blocks[family.block], family, n) for family in kernel_families(model, n)]


def fno_bounds(model: FNO, n: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row per layer: the norm of its spectral convolution, its bound, and the sum over modes for comparison."""
    rows = []
    for position, conv in enumerate(precise(model).spectral):
        norms = kept_mode_norms(conv)
        row = {"block": position, "branch": "frequency", "lipschitz_bound": None, "largest_slope": None}
        row |= {"norm_bound": float(norms.max()), "sum_over_modes": float(norms.sum()), "modes": norms.size}
        rows.append(_checked(row, conv, conv.weights[0].real.shape[1], n))
    return rows


def kept_mode_norms(conv: SpectralConv) -> Float[np.ndarray, " modes"]:
    """The spectral norm of FNO's matrix at every mode that it keeps."""
    blocks = [np.asarray(weight.value()) for weight in conv.weights]
    return np.concatenate([_matrix_norms(np.moveaxis(block, (0, 1), (-2, -1))).ravel() for block in blocks])


def lipschitz_bound(family: Family) -> float:
    """`L` with `|W(x) - W(y)|_F <= L |x - y|` for all kernels of a family: the product of the layers' norms."""
    heads = family.matrices[:, 1:].reshape(len(family.matrices), family.bottleneck, -1)
    layers = [np.linalg.norm(np.asarray(layer.weight), 2) for layer in family.net.layers]
    return float(np.sqrt(sum(np.linalg.norm(head, 2) ** 2 for head in heads)) * np.prod(layers))


def largest_slope(family: Family, points: int = 4096, seed: int = 0) -> float:
    """The largest slope of the kernels, in the Frobenius norm, at random points of the box.

    Kernels are piecewise linear in the coordinate, so the slope at a point is exact: the largest singular value of the
    Jacobian. The largest of all of them is the Lipschitz constant; the sample may miss it, never exceed it.
    """
    heads = np.concatenate([head[1:].reshape(family.bottleneck, -1) for head in family.matrices], axis=1)
    triangle = np.linalg.qr(heads.T, mode="r")  # |heads.T J| = |triangle J|, and it is small
    jacobian = jax.vmap(jax.jacfwd(lambda x: family.net.features(x)[1:]))
    dim, dtype = _dimension(family.net), family.net.layers[0].weight.dtype
    x = jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, (points, dim)), dtype)
    return float(_matrix_norms(triangle @ np.asarray(jax.jit(jacobian)(x))).max())


def operator_norm(
    operator: LinearMap, shape: tuple[int, ...], *, tolerance: float = 1e-8, iterations: int = 500, seed: int = 0
) -> float:
    """`max |A x| / |x|` of a linear map of arrays of one shape, by power iteration on its transpose times itself.

    It rises to the norm from below. It ends when a step changes it by less than `tolerance`, relatively.
    """
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    transpose = jax.linear_transpose(operator, jax.ShapeDtypeStruct(shape, dtype))

    def improve(state):
        x, _, norm, count = state
        y = operator(x)
        (back,) = transpose(y)
        length = jnp.linalg.norm(back.ravel())
        return jnp.where(length > 0, back / jnp.where(length > 0, length, 1), x), norm, jnp.linalg.norm(y), count + 1

    def unsettled(state):
        _, before, norm, count = state
        return (count < iterations) & (jnp.abs(norm - before) > tolerance * norm)

    x = jax.random.normal(jax.random.PRNGKey(seed), shape, dtype)
    start = (x / jnp.linalg.norm(x.ravel()), jnp.asarray(-1.0, dtype), jnp.asarray(0.0, dtype), 0)
    start = improve(start)  # so that the first comparison is one of two norms
    return float(jax.jit(lambda state: jax.lax.while_loop(unsettled, improve, state))(improve(start))[2])


def multiplier(operator: LinearMap, channels: int, n: tuple[int, ...]) -> Complex[np.ndarray, "*k co ci"]:
    """The matrix of every mode of a linear map that commutes with shifts: the transform of its impulse responses."""
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    impulses = np.zeros((channels, channels, *n), dtype)
    impulses[(np.arange(channels), np.arange(channels), *[0] * len(n))] = 1
    responses = jax.jit(lambda x: jax.lax.map(lambda one: rfft(operator(one)), x))(impulses)
    return np.moveaxis(np.asarray(responses), (1, 0), (-2, -1))


def _sino_row(block: Block, family: Family, n: tuple[int, ...]) -> dict[str, Any]:
    terms, z = family.bottleneck + 1, family.features
    matrices = family.matrices[0] if family.branch == "spatial" else family.matrices[0] + 1j * family.matrices[1]
    # Clipping shrinks entries, which may raise a spectral norm, but never a Frobenius norm.
    clipped = family.branch == "frequency" and block.clip is not None
    norms = _matrix_norms(matrices, None if clipped else 2)
    largest, largest_without_bias = np.linalg.norm(z, axis=0).max(), np.linalg.norm(z[1:], axis=0).max()
    row: dict[str, Any] = {"block": family.block, "branch": family.branch}
    row |= {"lipschitz_bound": lipschitz_bound(family), "largest_slope": largest_slope(family)}
    printed = norms[1:].max(initial=0.0) * largest_without_bias
    if family.branch == "frequency":
        row |= {"norm_bound": np.sqrt(terms) * norms.max() * largest, "paper_bound": np.sqrt(terms - 1) * printed}
        row["bypass_norm"] = np.linalg.norm(np.asarray(_given(block.bypass).weight), 2)
    else:
        kernels = np.moveaxis(np.asarray(block.spatial_kernel()), (0, 1), (-2, -1))
        row |= {"norm_bound": _matrix_norms(kernels).sum(), "paper_bound": (terms - 1) * z[0].size * printed}
    row = _checked(row, branch_operator(block, family.branch, n), matrices.shape[-1], n)
    row["paper_holds"] = bool(row["norm_exact"] <= (1 + SLACK) * row["paper_bound"])
    return {key: float(value) if isinstance(value, np.floating) else value for key, value in row.items()}


def branch_operator(block: Block, branch: str, n: tuple[int, ...]) -> LinearMap:
    """The generated convolution of one branch on a grid of `n` points, in the form the network computes it, without the
    bypass."""
    if branch == "frequency":
        silent = jax.tree.map(jnp.zeros_like, _given(block.bypass))
        operator = frequency_operator(_given(block.frequency), silent, n, block.form, block.clip)
    else:
        operator = spatial_operator(_given(block.spatial), n, block.kernel, block.form)
    return operator if isinstance(operator, DenseKernel) else lambda h: irfft(operator(rfft(h)), n)


def _checked(row: dict[str, Any], operator: LinearMap, channels: int, n: tuple[int, ...]) -> dict[str, Any]:
    """Add the true norms, and whether every bound of the row holds."""
    norm = operator_norm(operator, (channels, *n))
    exact = float(_matrix_norms(multiplier(operator, channels, n)).max())
    pairs = [(norm, exact), (exact, row["norm_bound"])]
    if row["lipschitz_bound"] is not None:
        pairs.append((row["largest_slope"], row["lipschitz_bound"]))
    return row | {"norm": norm, "norm_exact": exact, "holds": all(a <= (1 + SLACK) * b for a, b in pairs)}


def _matrix_norms(matrices: np.ndarray, order: int | None = 2) -> np.ndarray:
    """The spectral norm (or, with None, the Frobenius norm) of the matrices in the last two axes."""
    return np.linalg.norm(matrices, order, axis=(-2, -1))


def _dimension(net: Hypernetwork) -> int:
    return net.layers[0].weight.shape[1]


def _given(part: Any) -> Any:
    """A part of a block that its branch always has."""
    assert part is not None
    return part
