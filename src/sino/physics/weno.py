"""Fifth-order WENO reconstruction and the Godunov flux of Burgers' equation."""

import jax.numpy as jnp
from jaxtyping import Array, Float

LINEAR_WEIGHTS = (0.1, 0.6, 0.3)
EPSILON = 1e-6
"""Keeps the weights, and in float32 their gradients, finite on flat data (1e-20 and below give NaN)."""


def reconstruct(u: Float[Array, "c n"]) -> tuple[Float[Array, "c n"], Float[Array, "c n"]]:
    """Values at the right faces `x_{i+1/2}` from periodic cell averages: from the left cell, and from the right.

    Weighted essentially non-oscillatory reconstruction of order 5 on smooth data
    (Jiang & Shu, J. Comput. Phys. 126 (1996), 202).
    """
    n = u.shape[-1]
    padded = jnp.pad(
        u, ((0, 0), (2, 3)), mode="wrap"
    )  # slices of one array compile to much faster gradients than rolls
    cells = [padded[:, shift : shift + n] for shift in range(6)]  # i-2 .. i+3
    return _upwind_value(*cells[:5]), _upwind_value(*cells[:0:-1])


def _upwind_value(a: Array, b: Array, c: Array, d: Array, e: Array) -> Array:
    """Value at the face between cells c and d, from the averages of five cells in upwind order, centred on c."""
    candidates = ((2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6, (2 * c + 5 * d - e) / 6)
    smoothness = (
        13 / 12 * (a - 2 * b + c) ** 2 + 0.25 * (a - 4 * b + 3 * c) ** 2,
        13 / 12 * (b - 2 * c + d) ** 2 + 0.25 * (b - d) ** 2,
        13 / 12 * (c - 2 * d + e) ** 2 + 0.25 * (3 * c - 4 * d + e) ** 2,
    )
    weights = [w / (EPSILON + beta) ** 2 for w, beta in zip(LINEAR_WEIGHTS, smoothness, strict=True)]
    total = weights[0] + weights[1] + weights[2]
    return sum(w * p for w, p in zip(weights, candidates, strict=True)) / total


def godunov_flux(left: Float[Array, "*n"], right: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Flux of `u^2/2` through a face whose two sides hold `left` and `right`: the exact Riemann solution.

    `min` of `u^2/2` over `[left, right]` for a rarefaction (0 if it contains the sonic point), `max` of the two
    sides for a shock. Since the flux is convex with its minimum at 0, both are
    `max(max(left, 0)^2, min(right, 0)^2) / 2`.
    """
    return 0.5 * jnp.maximum(jnp.maximum(left, 0) ** 2, jnp.minimum(right, 0) ** 2)
