"""Universal approximation, measured: how well a bottleneck of `n` units can generate a smooth family of kernels."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from sino.evaluate.kernels import explained_variance
from sino.models.hypernetwork import Hypernetwork, box, make_live

WIDTH = 8
"""Channels of the family: matrices of 8 x 8."""


def smooth_family(x: Float[np.ndarray, "2 *p"], seed: int = 0) -> Float[np.ndarray, "s f"]:
    """An analytic family of kernels `K(x)_oi = exp(-|x - c_oi|^2 / 2)` over the square `[-1, 1]^2`, one row per point.

    The centres `c_oi` are drawn uniformly from the square, so no entry is a combination of a few others.
    """
    centres = np.random.default_rng(seed).uniform(-1, 1, (WIDTH**2, 2))
    distance = x.reshape(2, -1).T[:, None] - centres[None]
    return np.exp(-0.5 * np.square(distance).sum(axis=-1))


def approximation_errors(
    bottlenecks: tuple[int, ...] = (1, 2, 4, 8, 16), *, hidden: int = 32, steps: int = 4000, seed: int = 0
) -> list[dict[str, Any]]:
    """Error of the smooth family against the bottleneck, relative to its variation over the box, in two ways:

    - `limit`: the best that any `n` features and a bias can do, however wide the layers before them: the `n` principal
      components (root mean square over the box). It falls like the singular values of the family: for an analytic one
      faster than any power of `n`.
    - `fitted`: a hypernetwork with two hidden layers of `hidden` units, its features trained by `steps` steps of Adam
      on a regular sample of the box and its heads solved by least squares; on a sample twice as fine. It cannot be
      below the limit, and it stays above it where the hidden layers, not the bottleneck, are too narrow.

    `fitted_largest` is the fit's largest error over the box, in the Frobenius norm: the norm of the paper's theorem.
    """
    fine = box(2)
    coarse = fine[:, ::2, ::2]
    target, truth = smooth_family(coarse, seed), smooth_family(fine, seed)
    variation = truth - truth.mean(axis=0)
    scale = np.sqrt(np.square(variation).sum(axis=1).mean())
    explained = explained_variance(truth)
    nets = _fitted(coarse, target, bottlenecks, hidden, steps, seed)
    rows = []
    for n, net in zip(bottlenecks, nets, strict=True):
        at, there = (np.asarray(net.features(jnp.asarray(x, net.layers[0].weight.dtype))) for x in (coarse, fine))
        used, matching = (z.reshape(len(z), -1)[: n + 1].T.astype(np.float64) for z in (at, there))
        heads = np.linalg.lstsq(used, target)[0]
        errors = np.linalg.norm(matching @ heads - truth, axis=1)
        rows.append(
            {
                "bottleneck": n,
                "limit": float(np.sqrt(max(0.0, 1 - explained[n - 1]))),
                "fitted": float(np.sqrt(np.square(errors).mean()) / scale),
                "fitted_largest": float(errors.max() / scale),
            }
        )
    return rows


def _fitted(
    x: np.ndarray, target: np.ndarray, bottlenecks: tuple[int, ...], hidden: int, steps: int, seed: int
) -> list[Hypernetwork]:
    """Hypernetworks of which the first 1, 2, ... units are trained; all at once, so that one program serves all."""
    largest, key = max(bottlenecks), jax.random.PRNGKey(seed)
    net = make_live(Hypernetwork(2, hidden, largest, WIDTH, 1, key=key), 1.0, x, key=key)
    points, wanted = (jnp.asarray(a, jnp.float32) for a in (x, target.T))
    masks = jnp.asarray([[float(j <= n) for j in range(largest + 1)] for n in bottlenecks], jnp.float32)
    optimiser = optax.adam(optax.cosine_decay_schedule(5e-3, steps))

    def loss(net: Hypernetwork, mask: Array) -> Array:
        z = net.features(points) * mask[:, None, None]
        kernels = jnp.tensordot(net.matrices(0).reshape(largest + 1, -1), z.reshape(largest + 1, -1), axes=(0, 0))
        return jnp.square(kernels - wanted).mean()

    def fit(mask: Array) -> Hypernetwork:
        def step(state, _):
            net, inner = state
            updates, inner = optimiser.update(jax.grad(loss)(net, mask), inner)
            return (optax.apply_updates(net, updates), inner), None

        return jax.lax.scan(step, (net, optimiser.init(net)), length=steps)[0][0]  # pyright: ignore

    with jax.numpy_dtype_promotion("standard"):  # optax mixes types
        stacked = jax.jit(jax.vmap(fit))(masks)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(len(bottlenecks))]
