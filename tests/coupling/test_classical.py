"""Closures without a network: Hyperviscosity damps modes, Smagorinsky dissipates what the grid cannot hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.coupling.classical import Hyperviscosity, Smagorinsky, build_classical
from sino.physics.staggered import divergence, from_streamfunction

LENGTH = 2 * np.pi


def quickly(function):
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def velocity(n=(12, 16), seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(2, *n)))


smagorinsky = quickly(lambda c, v: Smagorinsky(c, LENGTH)(v))
hyperviscosity = quickly(lambda c, u: Hyperviscosity(c)(u))


@pytest.mark.parametrize("n, k", [((16,), (3,)), ((16,), (8,)), ((15,), (7,)), ((16, 12), (5, 2)), ((8, 10), (0, 5))])
def test_hyperviscosity_damps_every_mode_at_its_own_rate(n, k):
    axes = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in n), indexing="ij")
    u = jnp.asarray(np.cos(sum(wave * x for wave, x in zip(k, axes, strict=True)) + 0.0))[None]
    rate = 2.5 * sum((2 * wave / m) ** 2 for wave, m in zip(k, n, strict=True)) ** 2
    np.testing.assert_allclose(hyperviscosity(jnp.asarray(2.5), u), -rate * u, atol=1e-12)


def test_hyperviscosity_keeps_divergence_zero():
    grid = Grid((8, 8), (LENGTH, LENGTH))
    v = from_streamfunction(velocity((8, 8))[0], grid)
    tau = hyperviscosity(jnp.asarray(3.0), v)
    assert np.abs(divergence(tau, grid)).max() < 1e-12 < np.abs(tau).max()


def test_smagorinsky_leaves_uniform_flow_alone():
    v = jnp.asarray([1.3, -0.7])[:, None, None] * jnp.ones((2, 12, 16))
    np.testing.assert_array_equal(smagorinsky(jnp.asarray(0.2), v), 0)


@pytest.mark.parametrize("seed", range(3))
def test_smagorinsky_dissipates_energy_and_keeps_momentum(seed):
    v = velocity(seed=seed)
    tau = smagorinsky(jnp.asarray(0.2), v)
    assert float((v * tau).sum()) < -1.0
    np.testing.assert_allclose(tau.sum(axis=(1, 2)), 0, atol=1e-10)


def test_smagorinsky_is_homogeneous():
    v, c = velocity(), jnp.asarray(0.2)
    tau = smagorinsky(c, v)
    np.testing.assert_allclose(smagorinsky(c, -3 * v), -9 * tau, rtol=1e-11)
    np.testing.assert_allclose(smagorinsky(2 * c, v), 4 * tau, rtol=1e-11)


def test_smagorinsky_is_second_order_accurate():
    """In the shear flow `(cos y, 0)`, `tau = (2 (c dx)^2 |sin y| (-cos y), 0)`; away from the kink of `|sin y|`."""
    errors = []
    for n in (16, 32, 64):
        grid = Grid((n, n), (LENGTH, LENGTH))
        y = grid.axis(1, 0.5)
        v = jnp.asarray(np.stack([np.broadcast_to(np.cos(y), (n, n)), np.zeros((n, n))]))
        exact = 2 * np.abs(np.sin(y)) * -np.cos(y)
        tau = smagorinsky(jnp.asarray(0.3), v) / (0.3 * grid.dx[0]) ** 2
        np.testing.assert_allclose(tau[1], 0, atol=1e-10)
        errors.append(np.abs(np.asarray(tau[0, 0]) - exact)[np.abs(np.sin(y)) > 0.5].max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(orders - 2) < 0.2).all(), (errors, orders)


def test_smagorinsky_sees_strain_in_every_direction():
    """`u = (sin x cos y, -cos x sin y)`: `|S| = 2 |cos x cos y|`; its divergence by the product rule."""
    errors = []
    for n in (32, 64):
        grid = Grid((n, n), (LENGTH, LENGTH))
        x, y = np.meshgrid(grid.axis(0, 1.0), grid.axis(1, 0.5), indexing="ij")
        xv, yv = np.meshgrid(grid.axis(0, 0.5), grid.axis(1, 1.0), indexing="ij")
        v = jnp.asarray(np.stack([np.sin(x) * np.cos(y), -np.cos(xv) * np.sin(yv)]))
        # S_xx = cos x cos y, S_xy = 0: tau_x = d/dx (2 |S| S_xx) = d/dx (4 |cos x cos y| cos x cos y)
        exact = -8 * np.abs(np.cos(x) * np.cos(y)) * np.sin(x) * np.cos(y)
        tau = smagorinsky(jnp.asarray(0.3), v) / (0.3 * grid.dx[0]) ** 2
        errors.append(np.abs(np.asarray(tau[0]) - exact)[np.abs(np.cos(x) * np.cos(y)) > 0.4].max())
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.2, errors


def test_smagorinsky_has_a_finite_gradient_at_rest():
    weights = velocity(seed=1)
    gradient = quickly(jax.grad(lambda c, v: (weights * Smagorinsky(c, LENGTH)(v)).sum(), argnums=(0, 1)))
    for v in (jnp.zeros((2, 12, 16)), velocity().at[:, :6].set(0.0)):
        for leaf in gradient(jnp.asarray(0.2), v):
            assert np.isfinite(leaf).all()


@pytest.mark.parametrize("name", ["smagorinsky", "hyperviscosity"])
def test_a_classical_closure_is_in_physical_units(name):
    v, c = velocity((8, 8)), jnp.asarray(0.4)
    alone = {"smagorinsky": smagorinsky, "hyperviscosity": hyperviscosity}[name]
    closure = build_classical(name, c, 2, LENGTH)
    np.testing.assert_allclose(quickly(lambda v: closure(v))(v), alone(c, v), rtol=1e-12, atol=1e-13)
