"""Our solvers against jax-cfd and exponax on the CPU; the fine solver's step on a GPU.

python -m bench.solvers
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bench.timing import race
from sino.benchmarks import benchmark
from sino.core.rollout import repeat
from sino.physics.solver import clocked

STEPS = 20
"""Steps per timed call, as one compiled loop."""


def navier_stokes_contenders(n: int) -> dict[str, Callable[[], object]]:
    """One trajectory of decaying flow on `n` cells per axis, float32: ours and jax-cfd's."""
    jax.tree_map = jax.tree.map  # pyright: ignore[reportAttributeAccessIssue]  # which jax-cfd 0.2.1 still calls
    from jax_cfd.base import boundaries, equations, grids

    b = benchmark("ns-decaying")
    solver = b.solver(n)
    u = jnp.asarray(b.sample(0, b.grid(n)))
    grid = grids.Grid((n, n), domain=((0, b.length), (0, b.length)))
    periodic = boundaries.periodic_boundary_conditions(2)
    v = tuple(
        grids.GridVariable(grids.GridArray(component, offset, grid), periodic)
        for component, offset in zip(u, b.offsets, strict=True)
    )
    theirs = equations.implicit_diffusion_navier_stokes(
        density=1.0, viscosity=dict(b.parameters)["viscosity"], dt=solver.dt, grid=grid
    )
    run_ours = jax.jit(lambda u: repeat(clocked(solver, t0=0.0), STEPS)(u, 0))
    run_theirs = jax.jit(lambda v: repeat(lambda v, i: theirs(v), STEPS)(v, 0))
    return {"sino": lambda: run_ours(u), "jax-cfd": lambda: run_theirs(v)}


def kuramoto_sivashinsky_contenders(n: int, batch: int) -> dict[str, Callable[[], object]]:
    """A batch of trajectories on `n` points, float32: ours and exponax's, both ETDRK4."""
    import exponax

    b = benchmark("ks")
    solver = b.solver(n)
    u = jnp.asarray(np.stack([b.sample(seed, b.grid(n)) for seed in range(batch)]), jnp.float32)
    theirs = exponax.stepper.KuramotoSivashinskyConservative(1, b.length, n, solver.dt, order=4)
    run_ours = jax.jit(jax.vmap(lambda u: repeat(clocked(solver, t0=0.0), STEPS)(u, 0)))
    run_theirs = jax.jit(jax.vmap(lambda u: repeat(lambda u, i: theirs(u), STEPS)(u, 0)))
    return {"sino": lambda: run_ours(u), "exponax": lambda: run_theirs(u)}


def fine_step(n: int, batch: int) -> float:
    """Milliseconds per step of decaying flow for a whole batch, float32."""
    b = benchmark("ns-decaying")
    u = jnp.asarray(np.stack([b.sample(seed, b.grid(n)) for seed in range(batch)]))
    run = jax.jit(jax.vmap(lambda u: repeat(clocked(b.solver(n), t0=0.0), STEPS)(u, 0)))
    return race({"sino": lambda: run(u)})["sino"] / STEPS * 1e3


def compare(label: str, contenders: dict[str, Callable[[], object]]) -> None:
    """Print milliseconds per step and the ratio to the other."""
    ours, theirs = (seconds / STEPS * 1e3 for seconds in race(contenders).values())
    _, other = contenders
    print(f"{label:48s} sino {ours:8.3f} ms   {other} {theirs:8.3f} ms   {theirs / ours:5.2f}x faster", flush=True)


def main() -> None:
    """Print the table."""
    device = jax.devices()[0]
    print(f"per step, on {device.device_kind}; jax {jax.__version__}")
    if device.platform == "cpu":
        for n in (256, 512):
            compare(f"Navier-Stokes, finite volume, {n}²", navier_stokes_contenders(n))
        for n, batch in ((64, 8), (256, 1), (256, 64)):
            compare(f"Kuramoto-Sivashinsky, {n} points, batch {batch}", kuramoto_sivashinsky_contenders(n, batch))
    else:
        for n, batch in ((512, 64), (512, 16), (512, 1), (64, 8)):
            print(f"Navier-Stokes, finite volume, {n}², {batch} trajectories: {fine_step(n, batch):.3f} ms", flush=True)


if __name__ == "__main__":
    main()
