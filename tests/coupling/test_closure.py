"""A closure is its formula, and its statistics are those of the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.coupling.closure import Closure, Statistics, measure_statistics
from sino.models import build_model
from sino.models.model import AbstractModel
from sino.physics.forcing import SineForcing
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.staggered import divergence, project

KS = KuramotoSivashinsky(Grid((16,), (32.0,)), dt=0.05)
FLOW = FiniteVolumeNavierStokes(Grid((8, 8), (2 * np.pi,) * 2), dt=0.02, viscosity=0.05)


class Cube(AbstractModel):
    """Knows the grid it was prepared for."""

    factor: jax.Array

    def prepare(self, n):
        return lambda x: self.factor.astype(x.dtype) * x**3 + n[0]


def statistics(mean):
    return Statistics(jnp.asarray(mean), jnp.asarray(2.5), jnp.asarray(0.4))


@pytest.mark.parametrize("shape, mean", [((1, 9), [0.7]), ((2, 6, 4), [0.7, -0.3])])
def test_a_closure_is_its_formula(shape, mean):
    u = np.random.default_rng(0).normal(size=shape)
    closure = Closure(Cube(jnp.asarray(1.7)), statistics(mean))
    expected = 0.4 * (1.7 * ((u - np.reshape(mean, (-1, *[1] * (len(shape) - 1)))) / 2.5) ** 3 + shape[1])
    np.testing.assert_allclose(closure(jnp.asarray(u)), expected, rtol=1e-13)
    np.testing.assert_allclose(closure.prepare(shape[1:])(jnp.asarray(u)), expected, rtol=1e-13)
    free = Closure(closure.model, closure.stats, zero_mean=True)(jnp.asarray(u))
    axes = tuple(range(1, len(shape)))
    np.testing.assert_allclose(free, expected - expected.mean(axis=axes, keepdims=True), atol=1e-13)
    np.testing.assert_allclose(free.mean(axis=axes), 0, atol=1e-14)


def test_a_closure_keeps_the_precision_of_the_state():
    def apply(u):
        model = build_model("sino", dim=1, key=jax.random.PRNGKey(0), width=4, depth=1)
        return Closure(model, statistics([0.1]), zero_mean=True)(u)

    assert jax.eval_shape(apply, jnp.ones((1, 8), jnp.float32)).dtype == jnp.float32


def forcing(trajectories):
    rng = np.random.default_rng(1)
    draws = (rng.normal(size=3), 5 * rng.normal(size=3), np.array([1.0, 2.0, 3.0]), rng.normal(size=3))
    one = SineForcing(*map(jnp.asarray, draws), length=32.0)
    return jax.tree.map(lambda leaf: jnp.stack([(1 + 0.3 * i) * leaf for i in range(trajectories)]), one)


def test_statistics_in_one_dimension():
    frames = 0.5 + np.random.default_rng(0).normal(size=(3, 4, 1, 16))
    t0, substeps, sources = 2.0, 2, forcing(3)
    stats = measure_statistics(KS, jnp.asarray(frames), sources, t0=t0, substeps=substeps)
    np.testing.assert_allclose(stats.mean, [frames.mean()], rtol=1e-13)
    np.testing.assert_allclose(stats.scale_in, frames.std(), rtol=1e-13)
    step = jax.jit(lambda u, row, t: KS.step(u, jax.tree.map(lambda leaf: leaf[row], sources), t))
    squares = []
    for row in range(3):
        for k in range(3):
            u = jnp.asarray(frames[row, k])
            for j in range(substeps):
                u = step(u, row, t0 + (k * substeps + j) * KS.dt)
            squares.append(((frames[row, k + 1] - u) / (substeps * KS.dt)) ** 2)
    np.testing.assert_allclose(stats.scale_out, np.sqrt(np.mean(squares)), rtol=1e-11)
    sigma = measure_statistics(KS, jnp.asarray(frames), sources, t0=t0, substeps=substeps, out_scale="sigma")
    assert float(sigma.scale_out) == float(sigma.scale_in) == pytest.approx(frames.std(), rel=1e-13)
    np.testing.assert_allclose(sigma.mean, stats.mean)


def test_statistics_in_two_dimensions():
    frames = 1.0 + np.random.default_rng(0).normal(size=(2, 3, 2, 8, 8))
    stats = measure_statistics(FLOW, jnp.asarray(frames), None, t0=0.0)
    np.testing.assert_array_equal(stats.mean, [0.0, 0.0])
    np.testing.assert_allclose(stats.scale_in, frames.std(), rtol=1e-13)
    step, constrain = jax.jit(lambda u: FLOW.step(u, None, 0.0)), jax.jit(lambda u: project(u, FLOW.grid))
    whole, kept = [], []
    for row in range(2):
        for k in range(2):
            missed = (frames[row, k + 1] - step(jnp.asarray(frames[row, k]))) / FLOW.dt
            whole.append(missed**2)
            kept.append(constrain(missed) ** 2)
    np.testing.assert_allclose(stats.scale_out, np.sqrt(np.mean(kept)), rtol=1e-11)
    assert np.mean(whole) > 1.1 * np.mean(kept)
    assert np.abs(divergence(constrain(jnp.asarray(frames[0, 0])), FLOW.grid)).max() < 1e-12


def test_a_perfect_solver_leaves_no_defect():
    u = [jnp.asarray(np.sin(np.arange(16) * 2 * np.pi / 16))[None]]
    for _ in range(3):
        u.append(KS.step(u[-1], None, 0.0))
    stats = measure_statistics(KS, jnp.stack(u)[None], None, t0=0.0)
    assert float(stats.scale_out) < 1e-12 < 0.1 < float(stats.scale_in)
