import exponax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import repeat, rollout
from sino.physics.exact import kuramoto_sivashinsky_growth
from sino.physics.initial import sine_modes
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.solver import clocked

LENGTH = 64.0


def grid(n):
    return Grid((n,), (LENGTH,))


def wavenumber(mode):
    return 2 * np.pi * mode / LENGTH


def advance(solver, u, steps, source=None):
    """The state after `steps` steps from time 0."""
    return np.asarray(jax.jit(lambda v: repeat(clocked(solver, source, t0=0.0), steps)(v, 0))(jnp.asarray(u)))


def observed_order(errors, counts):
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


def smooth(n, seed=0):
    """Waves of the benchmark's sampler and a mean, shape (1, n)."""
    return 0.3 + sine_modes(seed, grid(n))


@pytest.mark.parametrize("mode", [1, 4, 7, 10, 11, 14, 20])
def test_dispersion_relation(mode):
    """An infinitesimal wave grows at `k^2 - k^4`: unstable up to mode 10, stable from 11 on, mode 20 by e^-11 here."""
    n, steps, dt = 64, 20, 0.05
    x = grid(n).axis(0)
    wave = np.exp(1j * wavenumber(mode) * x)
    u = advance(KuramotoSivashinsky(grid(n), dt), 1e-9 * np.cos(wavenumber(mode) * x + 0.4)[None], steps)
    amplitude = 2 * (u[0] * np.conj(wave)).mean() / (1e-9 * np.exp(0.4j))  # complex: the phase must stay
    rate = np.log(amplitude) / (steps * dt)
    assert rate.real == pytest.approx(kuramoto_sivashinsky_growth(wavenumber(mode)), rel=1e-11)  # measured: 1e-13
    assert abs(rate.imag) < 1e-13


def test_bounded_chaos_with_a_conserved_mean():
    """2,000 steps of the benchmark's coarse grid with a large dt, to t = 200: on the attractor, |u| stays below 5."""
    solver = KuramotoSivashinsky(grid(64), 0.1)
    u0 = jnp.asarray(sine_modes(0, grid(64)) + 0.2)
    roll = jax.jit(lambda u: rollout(clocked(solver, t0=0.0), u, 100, substeps=20)[1])
    u = np.asarray(roll(u0))[:, 0]
    np.testing.assert_allclose(u.mean(axis=-1), 0.2, rtol=0, atol=1e-13)
    assert np.abs(u).max() < 5  # measured: 3.2
    assert u[20:].std(axis=-1).min() > 0.8  # and it does not die out: 1.06


def test_a_forced_wave_and_fourth_order_in_time():
    """A source made so that `c + a sin(k x - w t)` is the solution: sign and size of every term, and stage times."""
    n, c, a, w, end, k = 32, 0.4, 1.2, 1.5, 4.0, wavenumber(4)
    x = jnp.asarray(grid(n).axis(0))[None]

    def source(u, t):
        """`u_t + u u_x + u_xx + u_xxxx`."""
        y = k * x - w * t
        return a * (k * c - w) * jnp.cos(y) + a**2 * k / 2 * jnp.sin(2 * y) + a * (k**4 - k**2) * jnp.sin(y)

    counts, errors = [16, 32, 64, 128], []
    for steps in counts:
        u = advance(KuramotoSivashinsky(grid(n), end / steps), c + a * np.sin(k * x), steps, source)
        errors.append(np.abs(u - c - a * np.sin(k * x - w * end)).max())
    assert observed_order(errors, counts) == pytest.approx(4, abs=0.1)  # measured: 4.05
    assert errors[-1] < 1e-7


def test_fourth_order_in_time_without_source():
    """Against 16 times as many steps as the largest count."""
    u0, end = smooth(64), 2.0
    reference = advance(KuramotoSivashinsky(grid(64), end / 1024), u0, 1024)
    counts, errors = [8, 16, 32, 64], []
    for steps in counts:
        errors.append(np.abs(advance(KuramotoSivashinsky(grid(64), end / steps), u0, steps) - reference).max())
    assert observed_order(errors, counts) == pytest.approx(4, abs=0.1)  # measured: 3.98


def test_agreement_with_exponax():
    """An independent code with another contour and another cutoff: at an early time, with no mode alive near either."""
    n, steps, dt = 160, 100, 0.02
    u0 = jnp.asarray(smooth(n))
    # exponax multiplies arrays of different ranks, which our strict test settings forbid.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        oracle = exponax.stepper.KuramotoSivashinskyConservative(1, LENGTH, n, dt, order=4)
        expected = exponax.repeat(oracle, steps)(u0)
    computed = advance(KuramotoSivashinsky(grid(n), dt), u0, steps)
    assert np.abs(computed - u0).max() > 0.1
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-13)  # measured: 4e-15


def test_dealiasing_makes_no_difference_to_resolved_data():
    u0 = smooth(160)
    two_thirds, padded = (
        advance(KuramotoSivashinsky(grid(160), 0.02, dealias), u0, 100) for dealias in ("two-thirds", "padded")
    )
    np.testing.assert_allclose(padded, two_thirds, rtol=0, atol=1e-13)  # measured: 4e-15


def test_a_frozen_source_contributes_exactly():
    """`dt phi_1(dt L) tau`, from rest, also above the mask at n/3 (modes 11 to 16 of 32; 16 is Nyquist) and for L = 0.

    The modes are those whose product with themselves is masked away or constant, so that nothing else happens.
    """
    n, dt = 32, 0.5
    solver = KuramotoSivashinsky(grid(n), dt)
    for mode in (0, 6, 8, 10, 11, 13, 15, 16):
        tau = jnp.asarray(np.cos(wavenumber(mode) * grid(n).axis(0)))[None]
        z = dt * float(kuramoto_sivashinsky_growth(wavenumber(mode)))
        weight = dt * (np.expm1(z) / z if z else 1.0)
        u = solver.step(jnp.zeros((1, n)), lambda *_, tau=tau: tau, 0.0)
        np.testing.assert_allclose(u, weight * tau, rtol=0, atol=1e-14)  # measured: 1.4e-15


def test_a_source_is_not_masked():
    """In a flow too: white noise as a source appears in every mode of the tendency, Nyquist included."""
    n = 32
    solver, u = KuramotoSivashinsky(grid(n), 0.1), jnp.asarray(smooth(n))
    tau = jnp.asarray(np.random.default_rng(0).normal(size=(1, n)))
    difference = solver.tendency(u, lambda *_: tau, 0.0) - solver.tendency(u, None, 0.0)
    np.testing.assert_allclose(difference, tau, rtol=0, atol=1e-13)
    change = np.fft.rfft(solver.step(u, lambda *_: tau, 0.0) - solver.step(u, None, 0.0))
    assert np.abs(change[0] / np.fft.rfft(tau)[0])[11:].min() > 0.5 * solver.dt


def test_a_zero_source_is_no_source():
    solver, u = KuramotoSivashinsky(grid(32), 0.1), smooth(32)
    zero = advance(solver, u, 20, lambda u, t: jnp.zeros_like(u))
    np.testing.assert_allclose(zero, advance(solver, u, 20), rtol=0, atol=1e-15)


def test_the_mean_changes_by_the_mean_of_the_source():
    """`d mean/dt = 3 t^2`, which the integrator integrates exactly: t = 0 to 2."""
    x = jnp.asarray(grid(32).axis(0))[None]
    u0 = smooth(32)
    u = advance(KuramotoSivashinsky(grid(32), 0.1), u0, 20, lambda u, t: (3 + jnp.cos(wavenumber(2) * x)) * t**2)
    assert u.mean() == pytest.approx(u0.mean() + 8, abs=1e-12)


def test_the_step_tends_to_the_tendency():
    """`(step(u) - u)/dt - tendency(u)` is of first order in dt (measured: 1.00), with a source that depends on both."""
    u = jnp.asarray(smooth(64))
    counts, errors = [1, 4], []

    def source(u, t):
        return -0.5 * u * t + 0.2

    for count in counts:
        solver = KuramotoSivashinsky(grid(64), 1e-3 / count)
        rate = (solver.step(u, source, 1.5) - u) / solver.dt
        errors.append(np.abs(rate - solver.tendency(u, source, 1.5)).max())
    assert observed_order(errors, counts) == pytest.approx(1, abs=0.02)
    assert errors[-1] < 1e-3


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_precision_is_that_of_the_state(dtype):
    solver, u = KuramotoSivashinsky(grid(32), 0.1), jnp.asarray(smooth(32), dtype)
    step = clocked(solver, lambda v, t: jnp.sin(v) * t, t0=2.0)
    assert jax.eval_shape(step, u, 3).dtype == dtype
    assert jax.eval_shape(lambda v: solver.tendency(v, None, 0.0), u).dtype == dtype
    if dtype == jnp.float32:
        double = jax.jit(step)(u.astype(jnp.float64), 3)
        np.testing.assert_allclose(jax.jit(step)(u, 3), double, rtol=1e-5, atol=1e-6)


def test_vmap_is_a_loop():
    solver = KuramotoSivashinsky(grid(32), 0.1)
    batch = jnp.asarray(np.stack([smooth(32, seed) for seed in range(3)]))
    run = jax.jit(lambda u: repeat(clocked(solver, t0=0.0), 10)(u, 0))
    batched = jax.jit(jax.vmap(run))(batch)
    np.testing.assert_allclose(batched, jnp.stack([run(u) for u in batch]), rtol=0, atol=1e-14)
