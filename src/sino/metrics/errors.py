"""Errors of simulations, and how sure one can be of their mean."""

import numpy as np
from jaxtyping import Float

from sino.metrics.blocks import by_blocks


def mean_squared_error(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"]
) -> Float[np.ndarray, "b t"]:
    """Mean of `(prediction - truth)^2` over components and cells, for each trajectory and frame."""
    axes = tuple(range(1, truth.ndim - 1))

    def of_frames(p: np.ndarray, t: np.ndarray) -> np.ndarray:
        return np.square(p - t).mean(axis=axes, dtype=np.float64)

    # One trajectory at a time: a full 2D dataset is gigabytes.
    return np.stack([by_blocks(of_frames, p, t) for p, t in zip(prediction, truth, strict=True)])


def normalised_rmse(errors: Float[np.ndarray, "b t"], truth: Float[np.ndarray, "b t c *n"]) -> Float[np.ndarray, " b"]:
    """Root of the mean squared error over the frames, in standard deviations of the reference over the same frames.

    `errors` are those of `mean_squared_error`. 1 is the error of a simulation that is the mean of the reference; about
    1.4 that of one that has the right statistics and nothing else.
    """
    return np.sqrt(errors.mean(axis=1)) / np.array([one.std(dtype=np.float64) for one in truth])


def standard_error(values: Float[np.ndarray, " b"]) -> float:
    """Standard error of the mean of independent values."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def bootstrap_interval(
    values: Float[np.ndarray, " b"], level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over trajectories."""
    picks = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    low, high = np.quantile(values[picks].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
