"""Repeat a step; roll it out and keep what one wants to see. Any step, any pytree of states."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from sino.core import fast

State = Any
Step = Callable[[State, Any], State]


def repeat(step: Step, count: int) -> Step:
    """`count` steps as one: `repeat(step, count)(u, i)` applies `step(u, i), ..., step(u, i + count - 1)`.

    A step takes the state and the integer index of the step, from which it may compute its own clock: the time
    is then exact after any number of steps, with no accumulated sum.
    """
    # Two steps in a row go to and fro between two buffers; a single one is copied back to where the loop keeps it.
    together = 2 if count % 2 == 0 and fast.accelerated() else 1

    def repeated(u: State, i) -> State:
        return jax.lax.fori_loop(0, count, lambda j, u: step(u, i + j), u, unroll=together)

    return step if count == 1 else repeated


def rollout(
    step: Step,
    u0: State,
    frames: int,
    *,
    substeps: int = 1,
    start: Any = 0,
    observe: Callable[[State], Any] = lambda u: u,
    recompute: int = 0,
) -> tuple[State, Any]:
    """Advance `u0` by `frames * substeps` steps; observe the state every `substeps`.

    Returns the last state and the stacked observations of frames `1..frames` (frame 0 is `u0`, which the
    caller has). `start` is the index of the first step, so rollouts compose: continuing from the returned
    state with `start + frames * substeps` equals one long rollout. `recompute` is for `scan_in_chunks`: that many
    frames at a time are computed again in a backward pass, if not 0.
    """
    advance = repeat(step, substeps)

    def body(u, frame):
        u = advance(u, start + frame * substeps)
        return u, observe(u)

    if recompute == 0:
        return jax.lax.scan(body, u0, jnp.arange(frames))
    return scan_in_chunks(body, u0, jnp.arange(frames), chunk=recompute, recompute=True)


def scan_in_chunks(
    body: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    xs: Any,
    *,
    chunk: int,
    count: Any = None,
    recompute: bool = False,
) -> tuple[Any, Any]:
    """`lax.scan`, cut into chunks of equal length.

    With `recompute` a backward pass keeps only the carry at the start of each chunk and computes the inside again: the
    memory of `length / chunk` carries and of `chunk` steps. With `count`, which may be traced, chunks that start at or
    after that step are skipped at hardly any cost and give zeros; `count` must be a multiple of `chunk`. One compiled
    program then serves every count up to the length.
    """
    length = len(jax.tree.leaves(xs)[0])
    if length % chunk:
        raise ValueError(f"a scan of {length} steps cannot be cut into chunks of {chunk}")
    chunks = jax.tree.map(lambda x: x.reshape(length // chunk, chunk, *x.shape[1:]), xs)

    def run(carry, x):
        return jax.lax.scan(body, carry, x)

    if recompute:
        run = jax.checkpoint(run, prevent_cse=False)  # inside a scan nothing can be merged anyway

    def skip(carry, x):
        shapes = jax.eval_shape(run, carry, x)[1]
        return carry, jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), shapes)

    def outer(carry, item):
        first, x = item
        return run(carry, x) if count is None else jax.lax.cond(first < count, run, skip, carry, x)

    firsts = chunk * jnp.arange(length // chunk, dtype=jnp.int32)
    last, ys = jax.lax.scan(outer, carry, (firsts, chunks))
    return last, jax.tree.map(lambda y: y.reshape(length, *y.shape[2:]), ys)
