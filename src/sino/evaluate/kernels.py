"""How many directions the learned kernels use: principal components and rank of each kernel family."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.models.generated import spatial_factors
from sino.models.hypernetwork import Hypernetwork, frequency_coordinates
from sino.models.sino import SINO, Block

Branch = Literal["frequency", "spatial"]


class Family(NamedTuple):
    """The kernels of one branch of one block, `(1, z_1, ..., z_n) @ (B_0, ..., B_n)`, one row per coordinate.

    - `frequency`: a sample is a mode of the grid's half spectrum; its features are the real and then the imaginary
      entries of the matrix `m(xi)`, as the hypernetwork generates it: before clipping, and before the columns that hold
      both `k` and `-k` are made to belong to a real field.
    - `spatial`: a sample is an offset; its features are the entries of the matrix `W(zeta)`.

    Both with the scalings that the network applies.
    """

    block: int
    branch: Branch
    net: Hypernetwork
    features: Float[np.ndarray, "n_plus_1 *p"]
    """`(1, z_1, ..., z_n)` over the coordinates."""
    matrices: Float[np.ndarray, "heads n_plus_1 co ci"]
    """`(B_0, ..., B_n)` of every head, scaled."""

    @property
    def bottleneck(self) -> int:
        """`n`."""
        return len(self.features) - 1

    def samples(self) -> Float[np.ndarray, "s f"]:
        """One kernel per row."""
        z = self.features.reshape(len(self.features), -1).T
        return np.concatenate([z @ head.reshape(len(head), -1) for head in self.matrices], axis=1)


def kernel_families(model: SINO, n: tuple[int, ...]) -> Iterator[Family]:
    """The families of all blocks and branches for a grid of `n` points, computed in the highest precision set."""
    for position, block in enumerate(precise(model).blocks):
        if block.frequency is not None:
            yield Family(position, "frequency", block.frequency, *frequency_factors(block.frequency, n))
        if block.spatial is not None:
            yield Family(position, "spatial", block.spatial, *_spatial_factors(block, block.spatial, len(n)))


def kernel_components(model: SINO, n: tuple[int, ...]) -> list[dict[str, Any]]:
    """Principal components and rank of every family, as rows for `analysis.json`.

    The rank is that of the kernels as they are: at most `n + 1`, one more than the paper says, since the heads have a
    bias. The components are those of the centred kernels, of which the bias is no part: at most `n`. With the paper's
    bottleneck of 2 the first two components therefore hold all the variance, whatever the network learnt; a curve of
    cumulative variance is a finding only for larger bottlenecks. A family that does not vary has no components.
    """
    rows = []
    for family in kernel_families(model, n):
        samples = family.samples()
        shown = max(family.bottleneck + 2, 6)  # enough to see the curve reach 1 and stay there
        rows.append(
            {
                "block": family.block,
                "branch": family.branch,
                "bottleneck": family.bottleneck,
                "samples": samples.shape[0],
                "features": samples.shape[1],
                "explained": explained_variance(samples)[:shown].tolist(),
                "rank": matrix_rank(samples),
                "rank_bound": family.bottleneck + 1,
            }
        )
    return rows


def explained_variance(samples: Float[np.ndarray, "s f"]) -> Float[np.ndarray, " r"]:
    """Share of the variance over samples that the first 1, 2, ... principal components hold; empty if none varies."""
    values = singular_values(samples - samples.mean(axis=0))
    noise = _rounding(samples) * np.linalg.norm(samples)
    if values.size == 0 or values[0] <= noise:
        return np.zeros(0)
    return np.cumsum(values**2) / np.sum(values**2)


def matrix_rank(samples: Float[np.ndarray, "s f"]) -> int:
    """How many singular values stand out of rounding errors."""
    values = singular_values(samples)
    return int((values > _rounding(samples) * values[0]).sum()) if values.size else 0


def singular_values(a: Float[np.ndarray, "s f"], sketch: int = 80) -> Float[np.ndarray, " r"]:
    """All of them; or, when `sketch` random combinations of the columns reproduce the matrix to rounding, that many.

    Kernel families are large matrices of small rank: the shortcut is exact for them, and fast.
    """
    if min(a.shape) > sketch:
        directions = np.random.default_rng(0).normal(size=(a.shape[1], sketch)).astype(a.dtype)
        basis, _ = np.linalg.qr(a @ directions)
        inside = basis.T @ a
        if np.linalg.norm(a - basis @ inside) <= _rounding(a) * np.linalg.norm(a):
            a = inside
    return np.linalg.svd(a, compute_uv=False)


def precise(model: Any) -> Any:
    """The model with its parameters in the highest precision that is set."""
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, dtype)), model)


def frequency_factors(net: Hypernetwork, n: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Features over the modes of the half spectrum, and the scaled matrices of the real and the imaginary head."""
    z = net.features(jnp.asarray(frequency_coordinates(n), net.layers[0].weight.dtype))
    matrices = _stacked([net.matrices(0), net.matrices(1)])
    return np.asarray(z), matrices / np.sqrt(matrices.shape[-1]).astype(matrices.dtype)


def _spatial_factors(block: Block, net: Hypernetwork, dim: int) -> tuple[np.ndarray, np.ndarray]:
    z, matrices = spatial_factors(net, block.kernel, dim)
    return np.asarray(z), _stacked([matrices])


def _stacked(arrays: list[Array]) -> np.ndarray:
    return np.stack([np.asarray(array) for array in arrays])


def _rounding(a: np.ndarray) -> float:
    return max(a.shape) * float(np.finfo(a.dtype).eps)
