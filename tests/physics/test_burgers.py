import exponax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import repeat, rollout
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.burgers_spectral import SpectralBurgers
from sino.physics.exact import burgers_wave, burgers_wave_average
from sino.physics.solver import clocked

BOX = 2 * np.pi
SOLVERS = [FiniteVolumeBurgers, SpectralBurgers]


def circle(n):
    return Grid((n,), (BOX,))


def advance(solver, u, steps, source=None):
    """The state after `steps` steps from time 0."""
    return np.asarray(jax.jit(lambda v: repeat(clocked(solver, source, t0=0.0), steps)(v, 0))(jnp.asarray(u)))


def observed_order(errors, counts):
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


def smooth(n, seed=0):
    """A few long waves around a mean, shape (1, n)."""
    rng = np.random.default_rng(seed)
    x = circle(n).axis(0)
    return (0.3 + sum(rng.normal() / k * np.sin(k * x + rng.uniform(0, 6)) for k in (1, 2, 3)))[None]


def simple_wave_average(grid, t, mean):
    """Cell averages of the solution of `u_t + u u_x = 0` from `mean + sin x`, before the shock at t = 1.

    On the characteristic from y, `x = y + u t` and u stays; `dx = (1 + u'(y) t) dy` makes the primitive of u explicit.
    """
    faces = np.arange(grid.n[0] + 1) * grid.dx[0]
    y = faces - mean * t
    for _ in range(50):  # Newton
        y = y - (y + (mean + np.sin(y)) * t - faces) / (1 + np.cos(y) * t)
    primitive = mean * y - np.cos(y) + t * (mean + np.sin(y)) ** 2 / 2
    return np.diff(primitive)[None] / grid.dx[0]


# ---------------------------------------------------------------------------------------------- finite volumes


@pytest.mark.parametrize("left, right", [(1.5, 0.5), (1.0, -0.5), (1.0, -1.0), (-0.5, -1.5)])
def test_riemann_problem(left, right):
    """A block of `left` in a sea of `right`: a fan opens on its left edge, a shock runs from its right edge."""
    n, viscosity, steps = 256, 1e-3, 200
    grid = circle(n)
    dx, x = grid.dx[0], grid.axis(0, 0.5)
    solver = FiniteVolumeBurgers(grid, dt=0.4 * dx / 1.5, viscosity=viscosity)
    edge, width, time = 61 * dx, 82 * dx, steps * solver.dt
    y = (x - edge + 2.1) % BOX - 2.1  # distance from the left edge, cut where nothing happens
    u0 = np.where((y > 0) & (y < width), left, right)[None]
    u = advance(solver, u0, steps)[0]

    # Rankine-Hugoniot: the shock, as the place that splits its surroundings into left and right, moves at the mean.
    speed = (left + right) / 2
    window = np.abs(y - width - speed * time) < 0.4
    start = y[window].min() - dx / 2
    position = start + dx * ((u[window] - right) / (left - right)).sum()
    assert (position - width) / time == pytest.approx(speed, abs=1e-6)  # measured: 4e-8 or less
    assert (np.diff(u[np.argsort(y)]) < -0.1 * (left - right)).sum() <= 3  # it stays sharp: 2 cells

    # The fan is u = y/t, straight through the sonic point, where a wrong flux would let the jump from -1 to 1 stand.
    fan = (y / time > right + 0.15) & (y / time < left - 0.15)
    assert np.abs(u - y / time)[fan].max() < 0.015  # measured: 0.011
    exact = np.where(y < width + speed * time, np.clip(y / time, right, left), right)
    assert np.abs(u - exact).mean() < 0.006  # measured: 0.0050


def test_total_variation_of_a_block_does_not_grow():
    """Over 300 inviscid steps, to 1e-3 of 3: WENO5 is not TVD by construction (measured: 5.8e-4).

    The same scheme with its linear weights reaches 7.0 more than it started with.
    """
    grid = circle(128)
    u0 = np.where(np.abs(grid.axis(0, 0.5) - np.pi) < 1, 1.0, -0.5)[None]
    variation = _variations(FiniteVolumeBurgers(grid, dt=0.4 * grid.dx[0], viscosity=0.0), u0)
    assert variation[0] == 3
    assert variation.max() < 3 + 1e-3
    assert (variation - np.minimum.accumulate(variation)).max() < 3e-3  # nor from one step to any later: 2.5e-3
    assert variation[-1] < 2.5  # the fan has reached the shock


def test_total_variation_of_a_sine_does_not_grow():
    """Through the formation of the shock. Cell averages of a sine vary by a little less than 4, how much less depends
    on where its extrema fall in their cells; they may not vary by more (measured: 3.99997)."""
    grid = circle(128)
    u0 = -np.diff(np.cos(np.arange(129) * grid.dx[0]))[None] / grid.dx[0]
    variation = _variations(FiniteVolumeBurgers(grid, dt=0.4 * grid.dx[0], viscosity=0.0), u0)
    assert variation.max() < 4 + 1e-6
    growth = (variation - np.minimum.accumulate(variation)).max()
    assert growth < 4 * (1 - np.cos(grid.dx[0] / 2)) + 1e-4  # that sampling effect and no more
    assert variation[-1] < 2


def _variations(solver, u0, steps=300):
    def observe(u):
        return jnp.abs(u - jnp.roll(u, 1, axis=-1)).sum()

    roll = jax.jit(lambda u: rollout(clocked(solver, t0=0.0), u, steps, observe=observe)[1])
    return np.concatenate([[observe(jnp.asarray(u0))], roll(jnp.asarray(u0))])


def test_finite_volumes_converge_to_the_viscous_wave():
    """Cole-Hopf, 32 to 256 cells: second order, that of the diffusion (measured: 1.95 in the mean error)."""
    viscosity, drift, end = 0.2, 0.5, 0.5
    counts, errors = [32, 64, 128, 256], []
    for n in counts:
        grid = circle(n)
        steps = int(np.ceil(end / (0.4 * grid.dx[0] ** 2 / (2 * viscosity))))
        solver = FiniteVolumeBurgers(grid, end / steps, viscosity)
        u = advance(solver, burgers_wave_average(grid, 0.0, viscosity, drift=drift)[None], steps)
        errors.append(np.abs(u - burgers_wave_average(grid, end, viscosity, drift=drift)[None]).mean())
    assert observed_order(errors, counts) == pytest.approx(2, abs=0.1)
    assert errors[-1] < 3e-5  # measured: 2.8e-5, for a wave of amplitude 0.8


def test_finite_volumes_converge_to_the_simple_wave():
    """Inviscid, before the shock, 32 to 256 cells with dt ~ dx^(5/3) so that SSP-RK3 does not limit the order.

    Measured: 4.5 in the mean error (4.8 between the last two grids), 4.0 in the largest.
    """
    mean, end = 0.4, 0.5
    counts, errors = [32, 64, 128, 256], []
    for n in counts:
        grid = circle(n)
        steps = int(np.ceil(end / (0.4 * grid.dx[0] ** (5 / 3))))
        u = advance(FiniteVolumeBurgers(grid, end / steps, 0.0), simple_wave_average(grid, 0.0, mean), steps)
        errors.append(np.abs(u - simple_wave_average(grid, end, mean)).mean())
    assert observed_order(errors, counts) > 4.3
    assert np.log2(errors[-2] / errors[-1]) > 4.6
    assert errors[-1] < 1e-8  # measured: 7.6e-9


# ---------------------------------------------------------------------------------------------- Fourier collocation


@pytest.mark.parametrize("dealias", ["two-thirds", "padded", "none"])
def test_the_spectral_solution_is_the_viscous_wave(dealias):
    """Cole-Hopf to round-off: on 96 points the wave's spectrum has fallen below it at every cutoff."""
    viscosity, steepness, drift = 0.1, 0.5, 0.5
    grid = circle(96)
    solver = SpectralBurgers(grid, 1e-4, viscosity, dealias)
    u = advance(solver, burgers_wave(grid.axis(0), 0.0, viscosity, steepness, drift)[None], 1000)
    exact = burgers_wave(grid.axis(0), 0.1, viscosity, steepness, drift)
    assert np.abs(u - exact).max() < 1e-13  # measured: 4e-14


def test_the_spectral_solution_is_third_order_in_time():
    viscosity, steepness, drift, end = 0.1, 0.5, 1.0, 1.0
    grid = circle(64)
    counts, errors = [50, 100, 200, 400], []
    for steps in counts:
        solver = SpectralBurgers(grid, end / steps, viscosity, "padded")
        u = advance(solver, burgers_wave(grid.axis(0), 0.0, viscosity, steepness, drift)[None], steps)
        errors.append(np.abs(u - burgers_wave(grid.axis(0), end, viscosity, steepness, drift)).max())
    assert observed_order(errors, counts) == pytest.approx(3, abs=0.05)  # measured: 3.007


def test_dealiasing_makes_no_difference_to_resolved_data():
    u0 = smooth(128)
    results = [
        advance(SpectralBurgers(circle(128), 1e-3, 0.2, dealias), u0, 100)
        for dealias in ("two-thirds", "padded", "none")
    ]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-13)  # measured: 1e-15


def test_agreement_with_exponax():
    """An independent code: exponential integrator of order 4, its own dealiasing. Resolved data, small steps."""
    n, viscosity, end = 128, 0.2, 0.3
    u0 = jnp.asarray(smooth(n))
    # exponax multiplies arrays of different ranks, which our strict test settings forbid.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        oracle = exponax.stepper.Burgers(1, BOX, n, end / 300, diffusivity=viscosity, conservative=True, order=4)
        expected = exponax.repeat(oracle, 300)(u0)
    computed = advance(SpectralBurgers(circle(n), end / 1000, viscosity), u0, 1000)
    assert np.abs(computed - u0).max() > 0.1
    np.testing.assert_allclose(computed, expected, rtol=0, atol=5e-11)  # measured: 5e-12


def test_an_unmasked_source_reaches_every_mode():
    """Started from rest, a frozen source in one mode: above n/3 the mask must not touch it.

    Its product with itself is masked away or has no gradient, so RK3 gives `dt (1 + z/2 + z^2/6)` of it exactly.
    """
    n, dt, viscosity = 32, 0.01, 0.1
    solver = SpectralBurgers(circle(n), dt, viscosity)
    for mode in (9, 10, 11, 13, 15, 16):  # 16 is Nyquist
        tau = jnp.asarray(np.cos(mode * circle(n).axis(0)))[None]
        z = -dt * viscosity * mode**2
        u = solver.step(jnp.zeros((1, n)), lambda *_, tau=tau: tau, 0.0)
        np.testing.assert_allclose(u, dt * (1 + z / 2 + z**2 / 6) * tau, rtol=0, atol=1e-16)


# ---------------------------------------------------------------------------------------------- both


@pytest.mark.parametrize("kind", SOLVERS)
def test_the_mean_is_conserved(kind):
    """Rough data, so that limiters and masks work: 500 steps, to round-off."""
    u0 = np.random.default_rng(0).uniform(-1, 1, size=(1, 64)) + 0.3
    u = advance(kind(circle(64), 0.02, 0.02), u0, 500)
    assert np.abs(u - u0).max() > 0.1
    assert u.mean() == pytest.approx(u0.mean(), abs=1e-13)


@pytest.mark.parametrize("kind", SOLVERS)
def test_the_mean_changes_by_the_mean_of_the_source(kind):
    """`d mean/dt = 2 t^2`, which the integrator integrates exactly."""
    x = jnp.asarray(circle(64).axis(0))[None]
    u0 = smooth(64)
    u = advance(kind(circle(64), 0.02, 0.02), u0, 50, lambda u, t: (2 + jnp.cos(x)) * t**2)
    assert u.mean() == pytest.approx(u0.mean() + 2 / 3, abs=1e-13)


def test_a_forced_wave():
    """A source made so that `c + a sin(x - t)` is the solution, for both solvers: sign and size of every term."""
    c, a, viscosity, end, n = 0.4, 0.5, 0.1, 1.0, 128
    dx = BOX / n

    def source_at(offset, factor):
        """`u_t + u u_x - viscosity u_xx`; `factor(k)` turns point values of a wave k into cell averages."""
        x = jnp.asarray(circle(n).axis(0, offset))[None]

        def source(u, t):
            y = x - t
            linear = (c - 1) * a * jnp.cos(y) + viscosity * a * jnp.sin(y)
            return factor(1) * linear + factor(2) * a**2 / 2 * jnp.sin(2 * y)

        return source

    def points(k):
        return 1.0

    def cells(k):
        return float(np.sinc(k / n))

    for kind, offset, factor, tolerance in [
        (SpectralBurgers, 0.0, points, 1e-8),  # measured: 2.3e-9
        (FiniteVolumeBurgers, 0.5, cells, 0.01 * dx**2),  # measured: 9.7e-6, a tolerance of 2.4e-5
    ]:
        x = circle(n).axis(0, offset)
        u = advance(
            kind(circle(n), 0.004, viscosity), (c + factor(1) * a * np.sin(x))[None], 250, source_at(offset, factor)
        )
        error = np.abs(u - c - factor(1) * a * np.sin(x - end)).max()
        assert error < tolerance, kind


@pytest.mark.parametrize("kind", SOLVERS)
def test_a_zero_source_is_no_source(kind):
    solver, u = kind(circle(64), 0.02, 0.02), smooth(64)
    zero = advance(solver, u, 20, lambda u, t: jnp.zeros_like(u))
    np.testing.assert_allclose(zero, advance(solver, u, 20), rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", SOLVERS)
def test_the_step_tends_to_the_tendency(kind):
    """`(step(u) - u)/dt - tendency(u)` is of first order in dt (measured: 1.00), with a source that depends on both."""
    u = jnp.asarray(smooth(64))
    counts, errors = [1, 4], []

    def source(u, t):
        return -0.5 * u * t + 0.2

    for count in counts:
        solver = kind(circle(64), 1e-3 / count, 0.05)
        rate = (jax.jit(lambda v, s=solver: s.step(v, source, 1.5))(u) - u) / solver.dt
        errors.append(np.abs(rate - solver.tendency(u, source, 1.5)).max())
    assert observed_order(errors, counts) == pytest.approx(1, abs=0.02)
    assert errors[-1] < 1e-2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("kind", SOLVERS)
def test_precision_is_that_of_the_state(kind, dtype):
    solver, u = kind(circle(16), 0.01, 0.02), jnp.asarray(smooth(16), dtype)
    step = clocked(solver, lambda v, t: jnp.sin(v) * t, t0=2.0)
    assert jax.eval_shape(step, u, 3).dtype == dtype
    assert jax.eval_shape(lambda v: solver.tendency(v, None, 0.0), u).dtype == dtype
    if dtype == jnp.float32:
        double = jax.jit(step)(u.astype(jnp.float64), 3)
        np.testing.assert_allclose(jax.jit(step)(u, 3), double, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", SOLVERS)
def test_vmap_is_a_loop(kind):
    solver = kind(circle(32), 0.01, 0.02)
    batch = jnp.asarray(np.stack([smooth(32, seed) for seed in range(3)]))
    run = jax.jit(lambda u: repeat(clocked(solver, t0=0.0), 10)(u, 0))
    batched = jax.jit(jax.vmap(run))(batch)
    np.testing.assert_allclose(batched, jnp.stack([run(u) for u in batch]), rtol=1e-13, atol=1e-14)
