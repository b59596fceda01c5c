"""Which trajectories, from which frame, in which order: a pure function of a seed and the epoch."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Windows = Literal["random", "first"]


class Batch(NamedTuple):
    """One batch of windows. All batches of a training have the same shape; the missing ones weigh nothing."""

    rows: Int[np.ndarray, " b"]
    """Which trajectory, by its position in the data."""
    starts: Int[np.ndarray, " b"]
    """Frame at which the window begins."""
    weights: Float[np.ndarray, " b"]
    """1, or 0 for padding."""


def epoch_batches(
    seed: int,
    epoch: int,
    trajectories: int,
    batch: int,
    *,
    frames: int,
    last: int,
    windows: Windows = "random",
    passes: int = 1,
) -> Iterator[Batch]:
    """The batches of one epoch: every trajectory `passes` times, in an order that depends on `seed` and `epoch` only.

    A window is frames `start..start + frames` of `0..last`; its start is drawn uniformly, or is 0 (`first`).
    """
    random = np.random.default_rng([seed, epoch])
    rows = np.concatenate([random.permutation(trajectories) for _ in range(passes)])
    starts = random.integers(0, last - frames + 1, len(rows)) if windows == "random" else np.zeros(len(rows), int)
    for at in range(0, len(rows), batch):
        chosen = slice(at, at + batch)
        missing = batch - len(rows[chosen])
        yield Batch(
            np.pad(rows[chosen], (0, missing)).astype(np.int32),
            np.pad(starts[chosen], (0, missing)).astype(np.int32),
            np.pad(np.ones(len(rows[chosen]), np.float32), (0, missing)),
        )


def batches_per_epoch(trajectories: int, batch: int, passes: int = 1) -> int:
    """How many batches `epoch_batches` gives."""
    return -(-trajectories * passes // batch)
