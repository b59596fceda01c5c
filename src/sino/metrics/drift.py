"""Whether a simulation keeps the energy and the mean of its reference."""

import numpy as np
from jaxtyping import Float


def energy(u: Float[np.ndarray, "b t c *n"]) -> Float[np.ndarray, "b t"]:
    """Mean over cells of `|u|^2 / 2`, for each trajectory and frame."""
    cells = np.prod(u.shape[3:])
    return np.stack([0.5 * np.square(one).sum(axis=tuple(range(1, one.ndim)), dtype=np.float64) / cells for one in u])


def energy_drift(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"]
) -> Float[np.ndarray, " b"]:
    """`<E> / <E of the reference> - 1`, the average taken over the frames: positive where there is too much energy."""
    return energy(prediction).mean(axis=1) / energy(truth).mean(axis=1) - 1


def mean_drift(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"]
) -> Float[np.ndarray, " b"]:
    """Distance of the means over the box, in root mean square over the frames, in standard deviations of the reference.

    The mean is a vector of one number per component; the standard deviation is that of all frames, cells and components
    together.
    """
    return np.array([_mean_drift(p, t) for p, t in zip(prediction, truth, strict=True)])


def _mean_drift(prediction: Float[np.ndarray, "t c *n"], truth: Float[np.ndarray, "t c *n"]) -> float:
    cells = tuple(range(2, truth.ndim))
    distance = prediction.mean(axis=cells, dtype=np.float64) - truth.mean(axis=cells, dtype=np.float64)
    return np.sqrt(np.square(distance).sum(axis=1).mean()) / truth.std(dtype=np.float64)
