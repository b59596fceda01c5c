"""Gradients through the solvers of one-dimensional flows: what training a closure inside them rests on."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import rollout
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.burgers_spectral import SpectralBurgers
from sino.physics.forcing import SineForcing
from sino.physics.initial import sine_modes
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.solver import clocked

N, FRAMES, SUBSTEPS = 32, 10, 5
BOX, LONG_BOX = Grid((N,), (2 * np.pi,)), Grid((N,), (32.0,))
SOLVERS = {
    "finite volumes": FiniteVolumeBurgers(BOX, dt=0.02, viscosity=0.02),
    "spectral": SpectralBurgers(BOX, dt=0.02, viscosity=0.05),
    "Kuramoto-Sivashinsky": KuramotoSivashinsky(LONG_BOX, dt=0.05),
}
every_solver = pytest.mark.parametrize("name", SOLVERS)


def forcing(rng, size, dtype=jnp.float64):
    parameters = (size * rng.normal(size=3), rng.normal(size=3), np.array([1.0, 2.0, 3.0]), rng.normal(size=3))
    return SineForcing(*(jnp.asarray(p, dtype) for p in parameters), length=1.0)


@functools.cache
def score_and_gradient(name):
    """50 steps, then a weighted sum over all frames, as a function of (initial state, forcing) and of the weights.

    Random weights: with equal ones the conserved mean alone would be seen, and a wrong adjoint could look right.
    """

    def score(point, weights):
        u, source = point
        return (weights * rollout(clocked(SOLVERS[name], source, t0=2.0), u, FRAMES, substeps=SUBSTEPS)[1]).sum()

    # Compiling costs a thousand times more than running here: 4 s without optimisation, up to 24 s with.
    return jax.jit(jax.value_and_grad(score), compiler_options={"xla_backend_optimization_level": 0})


def inner(a, b):
    return sum(float((x * y).sum()) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@every_solver
def test_gradients_are_those_of_finite_differences(name):
    """In a random direction of the initial state and of all parameters of the forcing at once, and of each alone.

    Central differences of step 1e-6: relative errors of 4e-8 or less.
    """
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.normal(size=(FRAMES, 1, N)))
    point = (jnp.asarray(sine_modes(0, SOLVERS[name].grid)), forcing(rng, 0.3))
    _, gradient = score_and_gradient(name)(point, weights)
    u, source = jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape)), point)
    no_u, no_source = jax.tree.map(jnp.zeros_like, point)
    for direction in [(u, source), (u, no_source), (no_u, source)]:
        moved = [jax.tree.map(lambda p, d, h=h: p + h * d, point, direction) for h in (1e-6, -1e-6)]
        ahead, behind = (float(score_and_gradient(name)(place, weights)[0]) for place in moved)
        expected = (ahead - behind) / 2e-6
        assert abs(expected) > 0.1
        assert inner(gradient, direction) == pytest.approx(expected, rel=1e-6)


@every_solver
def test_gradients_on_flat_data_are_finite_in_single_precision(name):
    """Where limiters and weights divide nothing by nothing: at rest and in uniform flow, with a source of size zero."""
    rng = np.random.default_rng(2)
    weights = jnp.asarray(rng.normal(size=(FRAMES, 1, N)), jnp.float32)
    for level in (0.0, 1.0, -0.5):
        point = jnp.full((1, N), level, jnp.float32), forcing(rng, 0.0, jnp.float32)
        value, gradient = score_and_gradient(name)(point, weights)
        assert np.isfinite(value)
        for leaf in jax.tree.leaves(gradient):
            assert leaf.dtype == jnp.float32 and np.isfinite(leaf).all()
        assert np.abs(gradient[0]).max() > 0.1
        assert np.abs(gradient[1].amplitude).min() > 1e-3  # the way into a closure that starts at zero is open
