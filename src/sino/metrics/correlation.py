"""How long a simulation keeps to its reference: correlation frame by frame, and the time until it is lost."""

import numpy as np
from jaxtyping import Bool, Float

from sino.metrics.blocks import by_blocks

THRESHOLD = 0.95
"""A simulation whose correlation is lower has lost its reference."""


def correlation(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"]
) -> Float[np.ndarray, "b t"]:
    """Pearson correlation over cells, components together, for each trajectory and frame.

    0 where either of the two is constant or not finite: it then says nothing of the other.
    """
    # One trajectory at a time: a full 2D dataset is gigabytes.
    return np.stack([by_blocks(_correlation, p, t) for p, t in zip(prediction, truth, strict=True)])


def correlation_times(
    correlations: Float[np.ndarray, "b t"], times: Float[np.ndarray, " t"], threshold: float = THRESHOLD
) -> tuple[Float[np.ndarray, " b"], Bool[np.ndarray, " b"]]:
    """Time after frame 0 at which each trajectory's correlation first falls under the threshold, linear in between.

    Second: which never fell. Their time is not known but for a lower bound, the time of the last frame, which stands in
    for it.
    """
    lost = correlations < threshold
    never = np.asarray(~lost.any(axis=1))
    rows, after = np.arange(len(lost)), lost.argmax(axis=1)
    before = np.maximum(after - 1, 0)
    high, low = correlations[rows, before], correlations[rows, after]
    drop = np.where(high > low, high - low, 1.0)
    crossing = times[before] + np.where(after > 0, (high - threshold) / drop, 0.0) * (times[after] - times[before])
    return np.where(never, times[-1], crossing) - times[0], never


def _correlation(prediction: Float[np.ndarray, "t c *n"], truth: Float[np.ndarray, "t c *n"]) -> np.ndarray:
    p, t = (np.asarray(field, np.float64).reshape(len(field), -1) for field in (prediction, truth))
    with np.errstate(all="ignore"):
        p, t = p - p.mean(axis=1, keepdims=True), t - t.mean(axis=1, keepdims=True)
        norm = np.sqrt(np.square(p).sum(axis=1) * np.square(t).sum(axis=1))
        return np.where(np.isfinite(norm) & (norm > 0), (p * t).sum(axis=1) / norm, 0.0)
