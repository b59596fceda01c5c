"""Problems small enough to train on in a test."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np

from sino.core.grid import Grid
from sino.coupling.closure import Statistics
from sino.models import build_model
from sino.models.model import AbstractModel
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.forcing import KolmogorovForcing, LinearDrag, SineForcing, Sum
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import FunctionSolver
from sino.physics.staggered import from_streamfunction
from sino.train.loss import Reference

BOX = 2 * np.pi
KS = KuramotoSivashinsky(Grid((16,), (32.0,)), dt=0.05)
BURGERS = FiniteVolumeBurgers(Grid((16,), (BOX,)), dt=0.02, viscosity=0.02)
FLOW = FiniteVolumeNavierStokes(Grid((8, 8), (BOX, BOX)), dt=0.05, viscosity=0.02)


def midpoint(u, source, t, dt=0.05):
    """Two stages of a nonlinear equation without transforms: compiled in no time."""

    def rate(v, s):
        dudt = jnp.sin(jnp.roll(v, 1, axis=-1)) - 0.5 * v
        return dudt if source is None else dudt + source(v, s)

    return u + dt * rate(u + 0.5 * dt * rate(u, t), t + 0.5 * dt)


QUICK = FunctionSolver(midpoint, Grid((8,), (BOX,)), dt=0.05, constraint=lambda u: u - 0.5 * u.mean())
SOLVERS = {"ks": KS, "burgers": BURGERS, "flow": FLOW}


@contextlib.contextmanager
def relaxed():
    """Optax mixes types, and updates that run a few times need no optimised program."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        with jax.numpy_dtype_promotion("standard"):
            yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


def quickly(function, **options):
    """Compile without optimising: these functions run a few times."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0}, **options)


class Toy(AbstractModel):
    """Two parameters, nonlinear, not of zero mean, and quick to compile."""

    slope: jax.Array
    offset: jax.Array

    def prepare(self, n):
        return lambda x: self.slope.astype(x.dtype) * jnp.tanh(jnp.roll(x, 1, axis=-1)) + self.offset.astype(x.dtype)


def toy(slope=0.3, offset=0.1, dtype=jnp.float64):
    return Toy(jnp.asarray(slope, dtype), jnp.asarray(offset, dtype))


class Mixer(AbstractModel):
    """A matrix, which mixes a state with its neighbours, and a vector."""

    weight: jax.Array
    out: jax.Array

    def prepare(self, n):
        def tau(x):
            near = jnp.concatenate([jnp.roll(x, shift, axis=-1) for shift in (0, 2, 5)])
            return self.out[None] @ jnp.tanh(self.weight @ near)

        return tau


def mixer(seed=0):
    rng = np.random.default_rng(seed)
    return Mixer(jnp.asarray(3 * rng.normal(size=(3, 3))), jnp.asarray(0.3 * rng.normal(size=3)))


def tiny_sino(seed=0, dim=1, dtype=jnp.float64, **sizes):
    sizes = {"width": 4, "kernel": 3, "depth": 2} | sizes
    return build_model("sino", dim=dim, key=jax.random.PRNGKey(seed), dtype=dtype, **sizes)


def statistics(channels=1, dtype=jnp.float64):
    return Statistics(jnp.full(channels, 0.2, dtype), jnp.asarray(1.3, dtype), jnp.asarray(0.7, dtype))


def smooth_fields(solver, shape, seed=0):
    """Random fields of long waves, `(*shape, c, *n)`; free of divergence in 2D."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in solver.grid.n), indexing="ij")

    def waves():
        total = np.zeros(solver.grid.n)
        for k in (1, 2):
            phases = rng.uniform(0, 2 * np.pi, len(axes))
            total += rng.normal() * np.prod([np.sin(k * x + p) for x, p in zip(axes, phases, strict=True)], axis=0) / k
        return total

    fields = [waves() for _ in range(int(np.prod(shape)))]
    if solver.grid.dim == 2:
        stacked = np.stack([np.asarray(from_streamfunction(jnp.asarray(psi), solver.grid)) for psi in fields])
    else:
        stacked = np.stack(fields)[:, None]
    return stacked.reshape(*shape, *stacked.shape[1:])


def forcings(solver, trajectories, seed=0):
    """One forcing per trajectory: it depends on time in 1D and on the state in 2D."""
    rng = np.random.default_rng(seed)

    def one():
        if solver.grid.dim == 1:
            draws = rng.normal(size=3), 3 * rng.normal(size=3), np.array([1.0, 2.0, 3.0]), rng.normal(size=3)
            return SineForcing(*map(jnp.asarray, draws), length=BOX)
        wave = KolmogorovForcing(jnp.asarray(rng.normal()), jnp.asarray(2.0), BOX)
        return Sum((wave, LinearDrag(jnp.asarray(rng.uniform(0.1, 0.5)))))

    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(one() for _ in range(trajectories)))


def made_up(solver, trajectories=4, frames=7, *, forced=True, substeps=2, seed=0, dtype=jnp.float64):
    """Frames that no solver made: any rollout is far from them, and every gradient is large."""
    data = jnp.asarray(smooth_fields(solver, (trajectories, frames + 1), seed), dtype)
    forcing = forcings(solver, trajectories, seed) if forced else None
    return Reference(data, jax.tree.map(lambda leaf: leaf.astype(dtype), forcing), 2.0, substeps)


def simulated(solver, trajectories=4, frames=6, *, step=None, dtype=jnp.float64, seed=0):
    """Frames of the solver itself (or of another `step(u, i)`), from smooth states."""

    def one(u):
        return jax.lax.scan(lambda u, i: (advance(u, i),) * 2, u, jnp.arange(frames))[1]

    advance = step or (lambda u, i: solver.step(u, None, 0.0))
    start = jnp.asarray(smooth_fields(solver, (trajectories,), seed), dtype)
    return Reference(jnp.concatenate([start[:, None], quickly(jax.vmap(one))(start)], axis=1), None, 0.0, 1)


def row_of(tree, row):
    return jax.tree.map(lambda leaf: leaf[row], tree)


def largest_difference(a, b):
    """Over all leaves, relative to the largest entry of each, or to a thousandth of the largest of all."""
    ours, theirs = ([np.asarray(leaf, float) for leaf in jax.tree.leaves(tree)] for tree in (a, b))
    floor = 1e-3 * max(np.abs(y).max() for y in theirs) or 1.0
    return max(float(np.abs(x - y).max() / max(np.abs(y).max(), floor)) for x, y in zip(ours, theirs, strict=True))
