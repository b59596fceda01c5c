"""Train a closure for a solver and data of your own: you write one step and pass arrays.

The solver is Burgers' equation by central differences on 32 cells; the reference is the same scheme on 256 cells,
averaged over groups of eight. Run it: `python examples/own_solver.py` (under a minute on a CPU).
"""

import jax
import jax.numpy as jnp
import numpy as np

import sino
from sino.core.grid import Grid
from sino.physics.solver import FunctionSolver
from sino.train.curriculum import Recipe, Stage

LENGTH, DT, VISCOSITY = 2 * np.pi, 0.01, 0.02
COARSE, FINE, FRAMES = 32, 256, 60


def make_step(n, dt):
    """One step of Heun's method. The whole contract is that `source(u, t)`, if any, is added to the rate of change."""
    dx = LENGTH / n

    def rate(u, source, t):
        right, left = jnp.roll(u, -1, -1), jnp.roll(u, 1, -1)
        dudt = -(right**2 - left**2) / (4 * dx) + VISCOSITY * (right - 2 * u + left) / dx**2
        return dudt if source is None else dudt + source(u, t)

    def step(u, source, t):
        first = rate(u, source, t)
        return u + 0.5 * dt * (first + rate(u + dt * first, source, t + dt))

    return step


def reference(key, trajectories):
    """Fine trajectories from random smooth states, averaged onto the coarse cells: `(trajectory, frame, 1, n)`."""
    substeps = 10
    fine = make_step(FINE, DT / substeps)
    x = LENGTH * (np.arange(FINE) + 0.5) / FINE
    amplitude, phase = jax.random.uniform(key, (2, trajectories, 3, 1))
    modes = jnp.asarray([1.0, 2.0, 3.0])[:, None]
    u0 = (amplitude * jnp.sin(modes * x + 2 * np.pi * phase)).sum(axis=1, keepdims=True)

    def frame(u, _):
        u = jax.lax.fori_loop(0, substeps, lambda i, u: fine(u, None, 0.0), u)
        return u, u

    later = jax.jit(lambda u: jax.lax.scan(frame, u, length=FRAMES)[1])(u0)
    frames = jnp.concatenate([u0[None], later])
    return jnp.moveaxis(frames, 0, 1).reshape(trajectories, FRAMES + 1, 1, COARSE, -1).mean(axis=-1)


def main():
    """Train on 16 trajectories, judge on 8 others."""
    solver = FunctionSolver(make_step(COARSE, DT), Grid((COARSE,), (LENGTH,)), DT)
    train, test = reference(jax.random.key(0), 16), reference(jax.random.key(1), 8)
    model = sino.build_model("sino", dim=1, key=jax.random.key(2), width=8)
    recipe = Recipe(
        (Stage(10, 100), Stage(30, 60)), learning_rate=5e-3, loss="log", windows="random", out_scale="defect"
    )
    closure = sino.fit(model, solver, train, recipe)

    def error(closure):
        run = jax.vmap(lambda u0: sino.rollout(solver, closure, u0, FRAMES, t0=0.0))
        return float(jnp.square(run(test[:, 0]) - test[:, 1:]).mean())

    alone, corrected = error(None), error(closure)
    print(f"mean squared error on unseen trajectories: {alone:.2e} alone, {corrected:.2e} with the closure")
    return alone, corrected


if __name__ == "__main__":
    main()
