"""Derivatives through fifty steps of both solvers, against central differences.

The limiter of the finite-volume scheme has kinks, so the differences are taken over a tiny step: `EPSILON = 1e-7` of a
state of order one in float64 crosses almost none of them, and leaves a relative rounding error near 1e-8.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import repeat
from sino.physics.forcing import KolmogorovForcing, LinearDrag, Sum
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import clocked
from sino.physics.vorticity import SpectralNavierStokes

GRID = Grid((16, 16), (2 * np.pi, 2 * np.pi))
SOLVERS = [FiniteVolumeNavierStokes(GRID, 0.02, 0.02), SpectralNavierStokes(GRID, 0.02, 0.02)]
EPSILON = 1e-7
with_both_solvers = pytest.mark.parametrize("solver", SOLVERS, ids=["finite volume", "spectral"])


def flow(seed):
    """Long waves of order one, free of divergence in the sense of either solver to within its discretisation."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(GRID.axis(0), GRID.axis(1), indexing="ij")
    psi = sum(
        np.sin(k * x + m * y + rng.uniform(0, 2 * np.pi)) / (k**2 + m**2) for k in (0, 1, 2) for m in (-2, -1, 1, 2)
    )
    v = np.stack([(psi - np.roll(psi, 1, 1)) / GRID.dx[1], (np.roll(psi, 1, 0) - psi) / GRID.dx[0]])
    return jnp.asarray(v / np.abs(v).max())


def scalar(solver):
    """`(u0, amplitude) -> <random cotangent, u50>`. An all-ones cotangent would see only the mean velocity."""
    cotangent = jnp.asarray(np.random.default_rng(7).standard_normal((2, *GRID.n)))

    def evaluate(u0, amplitude):
        source = Sum((KolmogorovForcing(amplitude, jnp.asarray(2.0), 2 * np.pi), LinearDrag(jnp.asarray(0.1))))
        return (cotangent * repeat(clocked(solver, source, t0=0.0), 50)(u0, 0)).sum()

    return evaluate


@functools.cache
def compiled(solver):
    """The scalar and its gradient."""
    return jax.jit(scalar(solver)), jax.jit(jax.grad(scalar(solver), argnums=(0, 1)))


@with_both_solvers
def test_gradient_through_fifty_steps_is_the_finite_difference(solver):
    """With respect to the initial state, along a random direction, and to the amplitude of the force.
    Measured: differences of 2e-8 at most."""
    u0, direction, amplitude = flow(0), flow(1), jnp.asarray(1.0)
    evaluate, gradient = compiled(solver)
    by_state, by_amplitude = gradient(u0, amplitude)
    shift = EPSILON * direction
    expected = (evaluate(u0 + shift, amplitude) - evaluate(u0 - shift, amplitude)) / (2 * EPSILON)
    assert float((by_state * direction).sum()) == pytest.approx(float(expected), rel=1e-6)
    expected = (evaluate(u0, amplitude + EPSILON) - evaluate(u0, amplitude - EPSILON)) / (2 * EPSILON)
    assert float(by_amplitude) == pytest.approx(float(expected), rel=1e-6)


@with_both_solvers
def test_forward_and_reverse_mode_agree(solver):
    """`<J^T c, d> = <c, J d>`, to round-off: kinks do not matter, both take the same side."""
    u0, direction, amplitude = flow(0), flow(1), jnp.asarray(1.0)
    _, gradient = compiled(solver)
    forward = jax.jit(lambda u, d: jax.jvp(lambda u: scalar(solver)(u, amplitude), (u,), (d,))[1])(u0, direction)
    assert float((gradient(u0, amplitude)[0] * direction).sum()) == pytest.approx(float(forward), rel=1e-12)
