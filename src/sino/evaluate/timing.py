"""Wall clock of simulations, measured side by side on one device."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sino.evaluate.contenders import Contender


class Stopwatch(NamedTuple):
    """How carefully to measure."""

    batch: int
    """Trajectories that are simulated side by side."""
    longest: int
    """Frames of a timed call, at most."""
    call_seconds: float = 0.2
    """Length of a timed call, at least, if the longest allows it."""
    repeats: int = 5


def seconds_per_time(
    contenders: list[Contender], seeds: list[int], precision: str, watch: Stopwatch
) -> dict[str, float]:
    """Median seconds of wall clock per simulated time unit and trajectory of each contender, by name.

    Every rollout is one compiled program, run before the clock starts; closures generate their kernels once in it. The
    contenders take turns, so that a busy machine disturbs all alike.
    """
    calls = {c.what: _timed_call(c, seeds, precision, watch) for c in contenders}
    taken: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(watch.repeats):
        for what, (call, frames) in calls.items():
            taken[what].append(_clock(call, frames))
    units = {c.what: watch.batch * calls[c.what][1] * c.benchmark.frame for c in contenders}
    return {what: float(np.median(values)) / units[what] for what, values in taken.items()}


def _timed_call(
    contender: Contender, seeds: list[int], precision: str, watch: Stopwatch
) -> tuple[Callable[[int], Any], int]:
    """A compiled rollout of any number of frames, and a number for which it takes long enough to be timed."""
    b = contender.benchmark
    rows = [seeds[i % len(seeds)] for i in range(watch.batch)]
    # What a step costs does not depend on the state: that of time 0 will do, and needs no warm-up.
    start = np.stack([b.sample(seed, b.grid(contender.cells)) for seed in rows])

    @jax.jit
    def run(start, forcing, steps):
        def one(u, forcing):
            enter, step, leave = contender.loop(forcing)
            return leave(jax.lax.fori_loop(0, steps, lambda i, u: step(u, i), enter(u)))

        return jax.vmap(one)(start, forcing)

    arguments = jnp.asarray(start, precision), contender.forcing(rows, precision)

    def call(frames: int) -> Any:
        return run(*arguments, frames * contender.substeps)

    frames = 1
    jax.block_until_ready(call(frames))
    while _clock(call, frames) < watch.call_seconds and frames < watch.longest:
        frames = min(2 * frames, watch.longest)
    return call, frames


def _clock(call: Callable[[int], Any], frames: int) -> float:
    started = time.perf_counter()
    jax.block_until_ready(call(frames))
    return time.perf_counter() - started
