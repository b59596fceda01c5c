"""What a solver is."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from sino.core.grid import Grid
from sino.core.rollout import Step

State = Float[Array, "c *n"]
Time = Float[Array, ""] | float
Source = Callable[[Any, Any], Any]
"""`source(u, t)` is a contribution to du/dt on the grid of `u`. Forcing and closure are both sources."""


class AbstractSolver(eqx.Module):
    """A semi-discrete equation `du/dt = tendency(u)` on a periodic grid, with a time step of fixed size `dt`.

    One sample, channels first; batches by `jax.vmap`. A solver has no array leaves: its symbols are computed in
    NumPy float64 when it is traced and cast to the precision of the state.
    """

    grid: eqx.AbstractVar[Grid]
    dt: eqx.AbstractVar[float]

    @abstractmethod
    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """The resolved right-hand side; `(step(u) - u) / dt` tends to it as `dt -> 0`."""

    @abstractmethod
    def step(self, u: State, source: Source | None, t: Time) -> State:
        """Advance by `dt` from time `t`. The source is called in every stage, with the state and time of that stage;
        a closure frozen over the step is `lambda *_: tau`."""

    @abstractmethod
    def constrain(self, u: State) -> State:
        """The nearest state that the solver may start from: for incompressible flow the part free of divergence."""


def unconstrained(u: Any) -> Any:
    """Any state will do."""
    return u


class FunctionSolver(AbstractSolver):
    """A solver made of a function `step(u, source, t)` that somebody else wrote.

    It must be traceable by JAX and must call `source(u, t)` where its right-hand side is evaluated; `source` is None
    when there is none.
    """

    advance: Callable[[Any, Source | None, Time], Any] = eqx.field(static=True)
    grid: Grid = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    constraint: Callable[[Any], Any] = eqx.field(static=True, default=unconstrained)

    def tendency(self, u: State, source: Source | None, t: Time) -> State:
        """The mean rate of change over one step."""
        return (self.step(u, source, t) - u) / self.dt

    def step(self, u: State, source: Source | None, t: Time) -> State:
        """The function."""
        return self.advance(u, source, t)

    def constrain(self, u: State) -> State:
        """The function's own constraint; none by default."""
        return self.constraint(u)


def clocked(solver: AbstractSolver, source: Source | None = None, *, t0: Time) -> Step:
    """The solver's step as a function of state and step index, at time `t0 + index * dt`."""

    def step(u, i):
        return solver.step(u, source, t0 + solver.dt * jnp.asarray(i, u.dtype))

    return step
