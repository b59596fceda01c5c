"""Ways to simulate the same flow: a scheme on a grid, perhaps with a closure; all from the same fine frame 0."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sino.benchmarks import Benchmark
from sino.core.fourier import irfft, rfft, truncate
from sino.core.rollout import Step, rollout
from sino.coupling.closure import Closure
from sino.coupling.hybrid import Coupling, hybrid_step
from sino.data.generate import simulator
from sino.physics.solver import Source
from sino.physics.vorticity import SpectralNavierStokes


@dataclass(frozen=True)
class Contender:
    """A benchmark's scheme on `cells` cells per axis, alone or with a closure."""

    what: str
    benchmark: Benchmark
    cells: int
    closure: Closure | None = None
    coupling: Coupling = "frozen"
    steps: int | None = None
    """Steps per frame; by default the fewest that stability allows."""

    @property
    def substeps(self) -> int:
        """Steps per frame."""
        return self.steps or self.benchmark.substeps(self.cells)

    def forcing(self, seeds: list[int], precision: str) -> Source | None:
        """The forcings of the seeds, with a leading axis."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, precision), self.benchmark.forcings(seeds))

    def loop(self, forcing: Source | None) -> tuple[Callable[[Array], Any], Step, Callable[[Any], Array]]:
        """How to enter the time loop with a state, step, and leave it. The spectral solver stays in Fourier space."""
        b, t0 = self.benchmark, self.benchmark.start
        solver = b.build(b.grid(self.cells), b.frame / self.substeps)
        if isinstance(solver, SpectralNavierStokes) and self.closure is None:

            def step(w, i):
                return solver.spectral_step(w, forcing, t0 + solver.dt * jnp.asarray(i, w.real.dtype))

            return solver.to_spectrum, step, solver.from_spectrum
        tau = None if self.closure is None else self.closure.prepare(solver.grid.n)
        return _same, hybrid_step(solver, tau, t0=t0, forcing=forcing, coupling=self.coupling), _same


def simulate(
    contender: Contender, start: Float[np.ndarray, "b c *m"], seeds: list[int], frames: int, coarse: int, precision: str
) -> Float[np.ndarray, "b t c *n"]:
    """Frames `0..frames` on `coarse` cells, from `start`, frame 0 on any grid at least as fine as the contender's."""
    b = contender.benchmark
    own, seen_on = ((m,) * b.dim for m in (contender.cells, coarse))

    @jax.jit
    def run(start, forcing):
        def one(u, forcing):
            enter, step, leave = contender.loop(forcing)
            u = b.coarsen(u, own).astype(precision)
            observe = lambda state: b.coarsen(leave(state), seen_on)  # noqa: E731
            _, seen = rollout(step, enter(u), frames, substeps=contender.substeps, observe=observe)
            return jnp.concatenate([b.coarsen(u, seen_on)[None], seen])

        return jax.vmap(one)(start, forcing)

    return np.asarray(run(jnp.asarray(start), contender.forcing(seeds, precision)))


def frame_zero(b: Benchmark, seeds: list[int]) -> Float[np.ndarray, "b c *n"]:
    """Frame 0 on the fine grid: the initial states after the warm-up, as in the dataset."""
    substeps = b.substeps(b.sizes.fine)
    run = simulator(
        b.solver(b.sizes.fine),
        warmup_steps=b.warmup_steps,
        frames=0,
        substeps=substeps,
        observe=lambda u: {"u": u},
    )
    *_, last = run(b.initial_states(seeds), b.forcings(seeds))
    return last.observed["u"][:, 0]


def doubled_frame_zero(b: Benchmark, start: Float[np.ndarray, "b c *n"], seeds: list[int]) -> np.ndarray:
    """Frame 0 on twice as many cells per axis as `start`.

    In two dimensions, and where values live at `i dx`, it is the same field: its Fourier series at the new points. Cell
    averages cannot be refined without a choice; the flow is then simulated on the doubled grid from the beginning.
    """
    old = start.shape[2:]
    new = tuple(2 * m for m in old)
    if b.dim == 2:
        coarse, fine = (SpectralNavierStokes(b.grid(m), dt=b.frame, viscosity=0.0) for m in (old[0], new[0]))

        def refine(u):
            return fine.from_spectrum(truncate(coarse.to_spectrum(u)[None], old, new)[0])
    elif b.offsets == ((0.0,),):

        def refine(u):
            return irfft(truncate(rfft(u), old, new), new)
    else:
        return frame_zero(replace(b, sizes=replace(b.sizes, fine=new[0])), seeds)
    return np.asarray(jax.jit(jax.vmap(refine))(jnp.asarray(start)))


def _same(u: Any) -> Any:
    return u
