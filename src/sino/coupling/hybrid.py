"""A solver that carries a closure, step by step and rolled out."""

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.rollout import Step
from sino.core.rollout import rollout as roll
from sino.coupling.closure import Closure, Tendency
from sino.physics.solver import AbstractSolver, Source, State, Time

Coupling = Literal["frozen", "stages", "after"]
"""`frozen`: the closure is evaluated once per step and enters the right-hand side of every stage (the paper).
`stages`: it is evaluated anew in every stage. `after`: the solver steps alone, then `dt tau` is added and, for an
incompressible flow, projected (the classical learned correction)."""


def hybrid_step(
    solver: AbstractSolver,
    tau: Tendency | None,
    *,
    t0: Time,
    forcing: Source | None = None,
    coupling: Coupling = "frozen",
) -> Step:
    """One step of the solver with forcing and closure, as a function of the state and the index of the step."""

    def step(u: State, i: Any) -> State:
        t = t0 + solver.dt * jnp.asarray(i, u.dtype)
        if tau is None:
            return solver.step(u, forcing, t)
        if coupling == "after":
            alone = solver.step(u, forcing, t)
            return solver.constrain(alone + solver.dt * tau(alone))
        frozen = tau(u)
        closure = tau if coupling == "stages" else lambda v: frozen

        def source(v: State, s: Time) -> State:
            return closure(v) if forcing is None else closure(v) + forcing(v, s)

        return solver.step(u, source, t)

    return step


def rollout(
    solver: AbstractSolver,
    closure: Closure | None,
    u0: Float[Array, "c *n"],
    frames: int,
    *,
    t0: Time,
    forcing: Source | None = None,
    substeps: int = 1,
    coupling: Coupling = "frozen",
    recompute: int = 0,
) -> Float[Array, "frames c *n"]:
    """Frames `1..frames` of the solver with a closure, from `u0` at time `t0`; the kernels are prepared once.

    `recompute` frames at a time are computed again in a backward pass instead of being kept (0 keeps all).
    """
    tau = None if closure is None else closure.prepare(u0.shape[1:])
    step = hybrid_step(solver, tau, t0=t0, forcing=forcing, coupling=coupling)
    return roll(step, u0, frames, substeps=substeps, recompute=recompute)[1]
