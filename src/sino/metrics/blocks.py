"""Frames of a long trajectory, some at a time."""

from collections.abc import Callable

import numpy as np

TOGETHER = 32
"""Frames at a time. Of a 2D field they still lie in a processor's cache in double precision; whole trajectories go
through memory with every operation."""


def by_blocks(function: Callable[..., np.ndarray], *fields: np.ndarray) -> np.ndarray:
    """A function of frames, one result for each, applied to some frames at a time."""
    starts = range(0, len(fields[0]), TOGETHER)
    return np.concatenate([function(*(field[at : at + TOGETHER] for field in fields)) for at in starts])
