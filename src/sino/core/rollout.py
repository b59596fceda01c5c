"""Repeat a step; roll it out and keep what one wants to see. Any step, any pytree of states."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

State = Any
Step = Callable[[State, Any], State]


def repeat(step: Step, count: int) -> Step:
    """`count` steps as one: `repeat(step, count)(u, i)` applies `step(u, i), ..., step(u, i + count - 1)`.

    A step takes the state and the integer index of the step, from which it may compute its own clock: the time
    is then exact after any number of steps, with no accumulated sum.
    """

    def repeated(u: State, i) -> State:
        return jax.lax.fori_loop(0, count, lambda j, u: step(u, i + j), u)

    return step if count == 1 else repeated


def rollout(
    step: Step,
    u0: State,
    frames: int,
    *,
    substeps: int = 1,
    start: Any = 0,
    observe: Callable[[State], Any] = lambda u: u,
) -> tuple[State, Any]:
    """Advance `u0` by `frames * substeps` steps; observe the state every `substeps`.

    Returns the last state and the stacked observations of frames `1..frames` (frame 0 is `u0`, which the
    caller has). `start` is the index of the first step, so rollouts compose: continuing from the returned
    state with `start + frames * substeps` equals one long rollout.
    """
    advance = repeat(step, substeps)

    def body(u, frame):
        u = advance(u, start + frame * substeps)
        return u, observe(u)

    return jax.lax.scan(body, u0, jnp.arange(frames))
