from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.physics.integrate import etdrk4, ssp_rk3

Z = [0.0, 1e-14, -1e-9, 1e-5, -1e-3, -0.1, 0.9, -1.0, 1.1, 3.0, -5.0, -40.0, -1e3, -1e6]


def march(step, u, end, count):
    """`count` steps from time 0 to `end`."""
    dt = end / count
    return jax.jit(lambda u: jax.lax.fori_loop(0, count, lambda i, v: step(v, dt * jnp.asarray(i, float), dt), u))(u)


def observed_order(errors, counts):
    """Slope of log(error) against log(dt), by regression."""
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


def phi(z):
    """`phi_1, phi_2, phi_3` at z, from the closed forms in 100 digits: the cancellation costs 42 of them at most."""
    if z == 0:
        return 1.0, 1 / 2, 1 / 6
    with localcontext() as context:
        context.prec = 100
        z = Decimal(z)
        e = z.exp()
        values = (e - 1) / z, (e - 1 - z) / z**2, (e - 1 - z - z * z / 2) / z**3
    return tuple(float(value) for value in values)


def test_ssp_rk3_is_third_order():
    """`u' = -u^2 cos t` has the solution `1/(1/u0 + sin t)`: nonlinear, and explicit in time."""
    u0, end, counts = jnp.asarray([0.3, 1.0, 2.0]), 2.0, np.array([32, 64, 128, 256])
    exact = 1 / (1 / u0 + np.sin(end))
    errors = [
        np.abs(march(lambda u, t, dt: ssp_rk3(lambda v, s: -(v**2) * jnp.cos(s), u, t, dt), u0, end, n) - exact).max()
        for n in counts
    ]
    assert observed_order(errors, counts) == pytest.approx(3, abs=0.1)  # measured: 3.04
    assert errors[-1] < 3e-7


def test_ssp_rk3_is_exact_for_cubic_sources():
    """The quadrature under it is Simpson's: right only if each stage has its own time and weight."""
    u = ssp_rk3(lambda v, s: jnp.full_like(v, 4.0) * s**3, jnp.ones(2), 1.5, 0.5)
    np.testing.assert_allclose(u, 1 + 2.0**4 - 1.5**4, rtol=1e-15)


def test_ssp_rk3_on_a_linear_problem_is_its_taylor_polynomial():
    z = 0.7
    u = ssp_rk3(lambda v, s: z * v, jnp.ones(1), 0.0, 1.0)
    np.testing.assert_allclose(u, 1 + z + z**2 / 2 + z**3 / 6, rtol=1e-15)


def test_etdrk4_is_fourth_order():
    """A coupled system, explicit in time, built to have the solution `g(t)`; L grows, is neutral, and decays."""
    linear = np.array([0.7, 0.0, -0.5, -3.0])
    end, counts = 2.0, np.array([16, 32, 64, 128])

    def g(t):
        return jnp.stack([jnp.sin(t), jnp.cos(2 * t), 1 + jnp.sin(t) ** 2, jnp.exp(-t)])

    def nonlinear(u, t):
        v, dv = jax.jvp(g, (t,), (jnp.ones_like(t),))
        return dv - jnp.asarray(linear) * v + 0.5 * (u * jnp.roll(u, 1) - v * jnp.roll(v, 1))

    def error(n):
        step = march(lambda u, t, dt: etdrk4(linear, dt, float).step(nonlinear, u, t, dt), g(jnp.asarray(0.0)), end, n)
        return np.abs(step - g(jnp.asarray(end))).max()

    errors = [error(n) for n in counts]
    assert observed_order(errors, counts) == pytest.approx(4, abs=0.1)  # measured: 3.99
    assert errors[-1] < 1e-8


def test_etdrk4_is_exact_without_nonlinear_term():
    dt = 2.0
    linear = np.array([0.0, 0.3, -0.2, -50.0])
    u = jnp.asarray([1.0, -2.0, 3.0, 4.0])
    advanced = etdrk4(linear, dt, float).step(lambda v, s: jnp.zeros_like(v), u, 0.0, dt)
    np.testing.assert_allclose(advanced, u * np.exp(dt * linear), rtol=1e-15)


@pytest.mark.parametrize("dt", [0.01, 1.0, 3.0])
def test_etdrk4_treats_a_frozen_term_exactly(dt):
    """A constant N contributes `dt phi_1(dt L) N`, so `dt N` where L = 0: what a closure frozen over the step adds."""
    z = np.array(Z)
    u, frozen = (jnp.asarray(np.random.default_rng(0).normal(size=(2, z.size)))[i] for i in (0, 1))
    integrator = etdrk4(z / dt, dt, float)
    advanced = integrator.step(lambda v, s: frozen, u, 0.0, dt)
    expected = np.exp(z) * u + dt * np.array([phi(x)[0] for x in z]) * frozen
    scale = np.abs(u) * np.exp(z) + np.abs(expected) + dt
    assert np.abs((advanced - expected) / scale).max() < 1e-13  # measured: 4e-15, at |z| near 1


@pytest.mark.parametrize("z", Z)
def test_etdrk4_coefficients(z):
    dt = 0.25
    coefficients = etdrk4(np.array([z / dt]), dt, float)
    (half, _, _), (one, two, three) = phi(z / 2), phi(z)
    assert coefficients.decay[0] == pytest.approx(np.exp(z), rel=1e-15)
    assert coefficients.half_decay[0] == pytest.approx(np.exp(z / 2), rel=1e-15)
    # Measured: 8e-15 dt at worst, where |z| is near 1 and the unit circle passes close to the origin.
    tolerance = {"rel": 1e-13, "abs": 1e-15 * dt}
    assert coefficients.half_weight[0] == pytest.approx(dt / 2 * half, **tolerance)
    assert coefficients.first[0] == pytest.approx(dt * (one - 3 * two + 4 * three), **tolerance)
    assert coefficients.middle[0] == pytest.approx(dt * (two - 2 * three), **tolerance)
    assert coefficients.last[0] == pytest.approx(dt * (4 * three - two), **tolerance)


def test_etdrk4_without_linear_term_is_the_classical_rk4():
    def f(u, t):
        return jnp.sin(u) * jnp.cos(t) + u

    u, t, dt = jnp.asarray([0.3, -1.2]), 0.4, 0.3
    k1 = f(u, t)
    k2 = f(u + dt / 2 * k1, t + dt / 2)
    k3 = f(u + dt / 2 * k2, t + dt / 2)
    k4 = f(u + dt * k3, t + dt)
    # Cox & Matthews' last stage is `a + dt/2 (2 N_b - N_u) = u + dt N_b`, as in RK4.
    expected = u + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    np.testing.assert_allclose(etdrk4(np.zeros(2), dt, float).step(f, u, t, dt), expected, rtol=1e-14)


def test_stage_times():
    """What a forcing sees. Recorded with powers of two, so that the sums are exact."""
    t, dt, u = 1.5, 0.25, jnp.ones(1)
    times = []

    def f(v, s):
        times.append(s)
        return -v

    ssp_rk3(f, u, t, dt)
    assert times == [t, t + dt, t + dt / 2]
    times.clear()
    etdrk4(np.zeros(1), dt, float).step(f, u, t, dt)
    assert times == [t, t + dt / 2, t + dt / 2, t + dt]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_precision_is_that_of_the_state(dtype):
    u = jnp.ones(2, dtype)
    assert ssp_rk3(lambda v, s: -v * s, u, 0.0, 0.1).dtype == dtype
    integrator = etdrk4(np.array([0.0, -1.0]), 0.1, dtype)
    assert {c.dtype for c in integrator} == {jnp.dtype(dtype)}
    assert integrator.step(lambda v, s: -v * s, u, 0.0, 0.1).dtype == dtype
