"""Fair timing: contenders take turns, so that a busy machine disturbs all alike."""

import time
from collections.abc import Callable

import jax
import numpy as np


def race(contenders: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Median seconds of each contender, after one call to compile and warm up."""
    for run in contenders.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.perf_counter()
            jax.block_until_ready(run())
            seconds[name].append(time.perf_counter() - started)
    return {name: float(np.median(values)) for name, values in seconds.items()}
