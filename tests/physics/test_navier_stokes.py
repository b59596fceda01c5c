"""The finite-volume solver: its scheme against jax-cfd and against the textbook, its budgets, its orders."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.rollout import repeat, rollout
from sino.physics.exact import taylor_green
from sino.physics.forcing import KolmogorovForcing, LinearDrag, Sum
from sino.physics.initial import filtered_velocity
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import clocked
from sino.physics.staggered import divergence, project
from sino.physics.transport import _limited_flux, convection

BOX = (2 * np.pi, 2 * np.pi)
SQUARE = Grid((32, 32), BOX)
OBLONG = Grid((24, 40), (2 * np.pi, 3.0))
ODD = Grid((25, 31), (2 * np.pi, 3.0))
on_every_grid = pytest.mark.parametrize("grid", [OBLONG, ODD], ids=["oblong", "odd"])


def flow(grid, seed=0, max_speed=3.0, mean=(0.0, 0.0), dtype=np.float64):
    """A smooth random flow, free of divergence: the differences of a streamfunction of long waves."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in grid.n), indexing="ij")
    psi = np.zeros(grid.n)
    for k in (0, 1, 2, 3):
        for m in (-3, -2, -1, 1, 2, 3):
            psi += np.sin(k * x + m * y + rng.uniform(0, 2 * np.pi)) / (k**2 + m**2)
    v = np.stack([(psi - np.roll(psi, 1, 1)) / grid.dx[1], (np.roll(psi, 1, 0) - psi) / grid.dx[0]])
    v *= max_speed / np.sqrt((v**2).sum(axis=0)).max()
    return jnp.asarray(v + np.reshape(mean, (2, 1, 1)), dtype)


def stable_dt(grid, max_speed=3.0):
    return 0.5 / (max_speed * sum(1 / h for h in grid.dx))


def kolmogorov_with_drag(length):
    return Sum((KolmogorovForcing(jnp.asarray(1.0), jnp.asarray(4.0), length), LinearDrag(jnp.asarray(0.1))))


def standard_solver(grid):
    """One solver for many tests, so that its step is compiled once."""
    return FiniteVolumeNavierStokes(grid, stable_dt(grid, 5.0), 1e-2)


@eqx.filter_jit
def step(solver, v, source=None):
    return solver.step(v, source, 0.0)


def advance(solver, v, steps, source=None):
    return jax.jit(repeat(clocked(solver, source, t0=0.0), steps))(v, 0)


def rms(a):
    return float(np.sqrt(np.mean(np.square(a))))


def swap_axes(v):
    """Exchange x and y."""
    return jnp.stack([v[1].T, v[0].T])


def mirror(v):
    """Reflect x: the face at `(i+1) dx` goes to `-(i+1) dx`, the centre at `(i+1/2) dx` to `-(i+1/2) dx`."""
    return jnp.stack([-jnp.roll(v[0, ::-1], -1, axis=0), v[1, ::-1]])


# The scheme


def project_and_diffuse(v, grid, diffusion):
    """`(I - diffusion Lap)^-1 (v - grad Lap^-1 div v)` with plain NumPy."""
    (dx, dy), (nx, ny) = grid.dx, grid.n
    symbol = -((2 / dx * np.sin(np.pi * np.fft.fftfreq(nx))) ** 2)[:, None]
    symbol = symbol - ((2 / dy * np.sin(np.pi * np.fft.fftfreq(ny))) ** 2)[None, :]
    div = (v[0] - np.roll(v[0], 1, 0)) / dx + (v[1] - np.roll(v[1], 1, 1)) / dy
    p = np.fft.ifft2(np.fft.fft2(div) / np.where(symbol == 0, 1, symbol)).real
    v = v - np.stack([(np.roll(p, -1, 0) - p) / dx, (np.roll(p, -1, 1) - p) / dy])
    return np.stack([np.fft.ifft2(np.fft.fft2(c) / (1 - diffusion * symbol)).real for c in v])


@pytest.mark.parametrize("grid, forced", [(SQUARE, False), (OBLONG, True), (ODD, True)], ids=["free", "forced", "odd"])
def test_step_is_the_textbook_scheme(grid, forced):
    """The code advances by an increment; the definition projects and diffuses the whole field. Same thing."""
    v, dt, viscosity = flow(grid, mean=(0.5, -1.0)), stable_dt(grid, 4.0), 0.05
    source = kolmogorov_with_drag(grid.length[1]) if forced else None
    rate = jax.jit(lambda v: convection(v, grid, dt) + (source(v, 0.0) if source else 0))(v)
    expected = project_and_diffuse(np.asarray(v + dt * rate), grid, dt * viscosity)
    assert rms(expected - v) > 1e-2  # something happens in one step
    result = step(FiniteVolumeNavierStokes(grid, dt, viscosity), v, source)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)  # measured: 2e-15


def test_step_approaches_the_tendency_at_first_order():
    """Convection itself depends on dt, so the limit is the tendency of a solver whose dt is negligible."""
    v, source = flow(OBLONG), kolmogorov_with_drag(OBLONG.length[1])
    limit = jax.jit(lambda v: FiniteVolumeNavierStokes(OBLONG, 1e-12, 1e-2).tendency(v, source, 0.0))(v)
    assert np.abs(divergence(limit, OBLONG)).max() < 1e-14 * np.abs(limit).max() * sum(1 / h for h in OBLONG.dx)
    errors = []
    for dt in (1e-3, 5e-4):
        rate = (step(FiniteVolumeNavierStokes(OBLONG, dt, 1e-2), v, source) - v) / dt
        errors.append(rms(rate - limit) / rms(limit))
    assert errors[1] < 2e-3  # measured: 1.5e-3
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.01)


# The oracle: jax-cfd


@pytest.fixture
def cfd(monkeypatch):
    """jax-cfd, an unmaintained package: it calls a name that jax has dropped, and relies on loose promotion."""
    monkeypatch.setattr(jax, "tree_map", jax.tree.map, raising=False)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        import jax_cfd.base

        yield jax_cfd.base


@pytest.mark.parametrize(
    "grid, forced",
    [(Grid((64, 64), BOX), False), (Grid((64, 64), BOX), True), (OBLONG, True)],
    ids=["decaying", "forced", "oblong"],
)
def test_agrees_with_jax_cfd(cfd, grid, forced):
    dt, viscosity = stable_dt(grid, 7.0), 1e-3
    v0 = project(jnp.asarray(filtered_velocity(0, grid, 7.0), jnp.float64), grid)
    their_grid = cfd.grids.Grid(grid.n, domain=[(0, length) for length in grid.length])
    periodic = cfd.boundaries.periodic_boundary_conditions(2)

    def their_forcing(v):
        y = their_grid.mesh((1.0, 0.5))[1]
        push = (jnp.sin(2 * np.pi * 4 * y / grid.length[1]), jnp.zeros(grid.n))
        return tuple(cfd.grids.GridArray(f - 0.1 * c.data, c.offset, their_grid) for f, c in zip(push, v, strict=True))

    scheme = cfd.equations.implicit_diffusion_navier_stokes
    theirs = jax.jit(scheme(1.0, viscosity, dt, their_grid, forcing=their_forcing if forced else None))
    arrays = (
        cfd.grids.GridArray(c, offset, their_grid) for c, offset in zip(v0, ((1.0, 0.5), (0.5, 1.0)), strict=True)
    )
    v = tuple(cfd.grids.GridVariable(array, periodic) for array in arrays)
    solver = FiniteVolumeNavierStokes(grid, dt, viscosity)
    ours = jax.jit(clocked(solver, kolmogorov_with_drag(grid.length[1]) if forced else None, t0=0.0))
    w = v0
    for i in range(40):
        v, w = theirs(v), ours(w, i)
        if i in (0, 39):
            # Measured: 2e-15 after one step, 5e-15 after forty, on speeds up to 7.
            np.testing.assert_allclose(w, jnp.stack([c.data for c in v]), rtol=0, atol=1e-13)
    assert rms(w - v0) > 0.3  # and the flow has moved meanwhile


# Exact solutions


def taylor_green_error(n, dt, time, viscosity=0.05):
    grid = Grid((n, n), BOX)
    steps = round(time / dt)
    solver = FiniteVolumeNavierStokes(grid, time / steps, viscosity)
    v = advance(solver, jnp.asarray(taylor_green(grid, 0.0, viscosity)), steps)
    return rms(v - taylor_green(grid, time, viscosity))


def test_taylor_green_converges_at_first_order_when_dt_follows_dx():
    """Time stepping is first order. Measured: errors 1.1e-2, 4.8e-3, 2.3e-3, orders 1.20 and 1.08 (then 0.99)."""
    errors = [taylor_green_error(n, dt=0.25 * 2 * np.pi / n, time=1.0) for n in (16, 32, 64)]
    assert errors[-1] < 2.5e-3
    for coarse, fine in zip(errors, errors[1:], strict=False):
        assert 0.9 < np.log2(coarse / fine) < 1.4


def test_taylor_green_converges_at_second_order_in_space():
    """With a small dt the error is that of space. Measured: 1.2e-3, 2.3e-4, 4.2e-5, orders 2.37 and 2.49."""
    errors = [taylor_green_error(n, dt=5e-4, time=0.2) for n in (16, 32, 64)]
    for coarse, fine in zip(errors, errors[1:], strict=False):
        assert 2.0 < np.log2(coarse / fine) < 2.7


@pytest.mark.parametrize("component", [0, 1])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_wave_carried_one_cell_per_step_moves_exactly_one_cell(component, direction):
    """At a Courant number of one the limited flux is the exact shift, whatever the profile: here, noise."""
    grid, across = OBLONG, 1 - component
    profile = jnp.asarray(np.random.default_rng(0).standard_normal(grid.n[across]))
    speed = direction * 2.0
    wave, carrier = jnp.broadcast_to(jnp.expand_dims(profile, component), grid.n), jnp.full(grid.n, speed)
    v = jnp.stack([wave, carrier] if component == 0 else [carrier, wave])
    solver = FiniteVolumeNavierStokes(grid, grid.dx[across] / 2.0, 0.0)
    expected = v.at[component].set(jnp.roll(wave, direction, axis=across))
    np.testing.assert_allclose(step(solver, v), expected, rtol=0, atol=1e-13)


def test_parallel_shear_flow_only_diffuses():
    """`u(y)` is steady but for viscosity, under which each of its modes decays by `1/(1 + dt viscosity |symbol|)`."""
    grid, dt, viscosity = OBLONG, 0.01, 0.1
    b = 2 * np.pi / 3.0
    shear = np.broadcast_to(np.sin(3 * b * grid.axis(1, 0.5)), grid.n)
    v = jnp.asarray(np.stack([shear, np.zeros(grid.n)]))
    decay = 1 / (1 + dt * viscosity * (2 / grid.dx[1] * np.sin(1.5 * b * grid.dx[1])) ** 2)
    assert decay < 0.97
    result = step(FiniteVolumeNavierStokes(grid, dt, viscosity), v)
    np.testing.assert_allclose(result, decay * v, rtol=0, atol=1e-14)


@on_every_grid
@pytest.mark.parametrize("velocity", [(0.0, 0.0), (1.5, -0.7)])
def test_uniform_flow_is_preserved(grid, velocity):
    v = jnp.broadcast_to(jnp.asarray(velocity)[:, None, None], (2, *grid.n))
    np.testing.assert_allclose(step(standard_solver(grid), v), v, rtol=0, atol=1e-14)


# Budgets


@pytest.mark.parametrize(
    "dtype, grid, steps",
    [(np.float64, Grid((64, 64), BOX), 200), (np.float32, Grid((64, 64), BOX), 200), (np.float32, OBLONG, 2000)],
    ids=["double", "single", "single, long"],
)
def test_divergence_stays_at_round_off(dtype, grid, steps):
    """After any number of steps it is what storing the velocity costs. Measured: 0.6 to 0.8 of the unit below."""
    solver = FiniteVolumeNavierStokes(grid, stable_dt(grid), 1e-3)
    v = advance(solver, flow(grid, dtype=dtype), steps, kolmogorov_with_drag(grid.length[1]))
    assert v.dtype == dtype
    unit = np.finfo(dtype).eps * np.abs(v).max() * sum(1 / h for h in grid.dx)
    assert np.abs(divergence(v, grid)).max() < 2 * unit


def test_divergence_of_the_initial_field_is_damped():
    """A field that comes with some divergence is not refused: each step shrinks what it should not have."""
    v = flow(OBLONG) + 1e-3 * jnp.asarray(np.random.default_rng(0).standard_normal((2, *OBLONG.n)))
    size = [rms(divergence(v, OBLONG))]
    for _ in range(20):
        v = step(standard_solver(OBLONG), v)
        size.append(rms(divergence(v, OBLONG)))
    assert np.all(np.diff(size) < 0)
    assert size[-1] < 0.1 * size[0]  # measured: 0.04


def test_convection_conserves_momentum():
    v = flow(OBLONG, mean=(1.0, -2.0))
    change = np.asarray(jax.jit(lambda v: convection(v, OBLONG, stable_dt(OBLONG, 5.0)))(v))
    assert np.abs(change.mean(axis=(1, 2))).max() < 1e-15 * np.abs(change).max()


@on_every_grid
def test_momentum_is_kept_without_forcing(grid):
    v = v0 = flow(grid, max_speed=2.0, mean=(1.0, -2.0))
    for _ in range(50):
        v = step(standard_solver(grid), v)
    assert rms(v - v0) > 0.1
    np.testing.assert_allclose(v.mean(axis=(1, 2)), v0.mean(axis=(1, 2)), rtol=0, atol=1e-14)


def test_momentum_changes_by_the_integral_of_the_force():
    """`dt` times the sum of the mean force at the start of each step: the time that the source is given matters."""
    grid, dt, steps = OBLONG, stable_dt(OBLONG), 50
    pattern = jnp.asarray(np.random.default_rng(0).standard_normal((2, *grid.n)) + 1.0)
    v = flow(grid)
    after = advance(FiniteVolumeNavierStokes(grid, dt, 1e-2), v, steps, lambda u, t: pattern * jnp.cos(20 * t))
    impulse = pattern.mean(axis=(1, 2)) * dt * np.cos(20 * dt * np.arange(steps)).sum()
    assert np.abs(impulse).min() > 1e-3
    np.testing.assert_allclose(after.mean(axis=(1, 2)) - v.mean(axis=(1, 2)), impulse, rtol=0, atol=1e-13)


@on_every_grid
def test_energy_of_a_free_flow_decreases_in_every_step(grid):
    v, energy = flow(grid), []
    for _ in range(60):
        energy.append(rms(v) ** 2)
        v = step(standard_solver(grid), v)
    assert np.all(np.diff(energy) < 0)


# Symmetries


def test_step_commutes_with_exchange_reflection_and_translation():
    """Neither axis, neither direction and no cell is special. Reflected, every flux takes its other upwind branch."""
    grid, v, dt = OBLONG, flow(OBLONG, mean=(0.5, -1.0)), stable_dt(OBLONG, 5.0)
    solver = standard_solver(grid)
    turned = FiniteVolumeNavierStokes(Grid(grid.n[::-1], grid.length[::-1]), dt, 1e-2)
    after = step(solver, v)
    np.testing.assert_allclose(step(turned, swap_axes(v)), swap_axes(after), rtol=0, atol=1e-13)
    np.testing.assert_allclose(step(solver, mirror(v)), mirror(after), rtol=0, atol=1e-13)
    moved = step(solver, jnp.roll(v, (3, -5), axis=(1, 2)))
    np.testing.assert_allclose(moved, jnp.roll(after, (3, -5), axis=(1, 2)), rtol=0, atol=1e-13)


# The limiter


@pytest.mark.parametrize("sign", [1, -1], ids=["rising", "falling"])
def test_limited_flux_on_monotone_data(sign):
    """The value carried lies between the two cells. Where the slope upwind is the gentler one it lies between upwind
    and Lax-Wendroff; where it is the steeper one, beyond it by less than a factor two (van Leer's phi < 2)."""
    rng = np.random.default_rng(0)
    behind, here, ahead, beyond = sign * np.cumsum(rng.uniform(0.01, 1.0, (4, 200)), axis=0)
    speed = rng.uniform(-1, 1, 200)
    flux = jax.jit(_limited_flux, static_argnums=5)(behind, here, ahead, beyond, speed, 0.9)
    upwind, downwind = np.where(speed > 0, here, ahead), np.where(speed > 0, ahead, here)
    correction = np.asarray(flux) / speed - upwind
    reach = correction / (downwind - upwind)
    assert np.all((reach > 0) & (reach < 1))
    phi = reach / (0.5 * (1 - 0.9 * np.abs(speed)))  # 0 is upwind, 1 is Lax-Wendroff
    gentle = np.abs(np.where(speed > 0, here - behind, beyond - ahead)) < np.abs(ahead - here)
    assert 50 < gentle.sum() < 150
    assert np.all((phi[gentle] > 0) & (phi[gentle] < 1))
    assert np.all((phi[~gentle] > 1) & (phi[~gentle] < 2))


def test_limited_flux_by_hand():
    """Slopes 1 and 3 have harmonic mean 3/2; at a Courant number of 1/2 a quarter of it is added."""
    cells = [jnp.asarray(c) for c in (0.0, 1.0, 4.0, 5.0)]
    assert _limited_flux(*cells, jnp.asarray(2.0), 0.25) == 2 * (1 + 0.25 * 1.5)
    assert _limited_flux(*cells, jnp.asarray(-2.0), 0.25) == -2 * (4 - 0.25 * 1.5)


def test_limited_flux_is_lax_wendroff_on_straight_lines_and_upwind_at_extrema():
    line = [jnp.asarray(c) for c in (1.0, 2.0, 3.0, 4.0)]
    peak = [jnp.asarray(c) for c in (1.0, 2.0, 1.5, 1.7)]
    assert _limited_flux(*line, jnp.asarray(1.0), 0.5) == 2.25
    assert _limited_flux(*line, jnp.asarray(-1.0), 0.5) == -2.75
    assert _limited_flux(*peak, jnp.asarray(1.0), 0.5) == 2.0
    assert _limited_flux(*peak, jnp.asarray(-1.0), 0.5) == -1.5


def test_transport_of_a_step_does_not_overshoot():
    """Total variation, maximum and minimum of a noisy step, carried by a uniform flow either way, do not grow."""
    grid = Grid((8, 64), (1.0, 1.0))
    solver = FiniteVolumeNavierStokes(grid, 0.4 * grid.dx[1], 0.0)
    cells = np.arange(64)
    profile = 1.0 * (cells > 20) - 2.0 * (cells > 40) + 0.1 * np.random.default_rng(0).standard_normal(64)

    def observe(u):
        return jnp.stack([jnp.abs(u[0, 0] - jnp.roll(u[0, 0], 1)).sum(), u[0].max(), -u[0].min()])

    carried = jax.jit(lambda v: rollout(clocked(solver, t0=0.0), v, 100, observe=observe))
    for speed in (1.0, -1.0):
        v = jnp.asarray(np.stack([np.broadcast_to(profile, grid.n), np.full(grid.n, speed)]))
        _, seen = carried(v)
        assert np.all(np.diff(np.vstack([observe(v), seen]), axis=0) < 1e-12)


@jax.jit
def gradient_of_a_step(v):
    solver = FiniteVolumeNavierStokes(OBLONG, 0.01, 1e-3)
    cotangent = jnp.asarray(np.random.default_rng(0).standard_normal(v.shape), v.dtype)
    return jax.grad(lambda u: (cotangent * solver.step(u, None, 0.0)).sum())(v)


@pytest.mark.parametrize("kind", ["zero", "uniform", "shear of steps", "blocks"])
def test_gradient_is_finite_on_flat_data_in_single_precision(kind):
    """The limiter divides by slopes; where they vanish a careless form has NaN in its gradient but not in its value."""
    v = np.zeros((2, *OBLONG.n), np.float32)
    if kind == "uniform":
        v += 1
    elif kind == "shear of steps":
        v[0, :, 8:24] = 1
    elif kind == "blocks":
        v[0, 4:20, 8:24] = 1
        v[1, 12:20, 4:20] = -1
    result = gradient_of_a_step(v)
    assert result.dtype == np.float32
    assert np.all(np.isfinite(result))
    assert np.abs(result).max() > 0


# What it takes and gives


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_of_the_state_is_kept(dtype):
    """Promotion is strict in this suite: a stray array of the other precision would raise."""
    v = flow(OBLONG, dtype=dtype)
    solver = FiniteVolumeNavierStokes(OBLONG, stable_dt(OBLONG), 1e-3)
    source = kolmogorov_with_drag(OBLONG.length[1])
    for result in jax.jit(lambda v: (solver.step(v, source, 0.0), solver.tendency(v, source, 0.0)))(v):
        assert result.dtype == dtype
        assert np.all(np.isfinite(result))


def test_batch_is_the_loop():
    solver = standard_solver(OBLONG)
    flows = [flow(OBLONG, seed) for seed in range(3)]
    batch = jax.jit(jax.vmap(lambda v: solver.step(v, None, 0.0)))(jnp.stack(flows))
    np.testing.assert_allclose(batch, np.stack([step(solver, v) for v in flows]), rtol=0, atol=1e-14)


def test_solver_has_no_array_leaves():
    """So it can be closed over or passed anywhere without entering an optimiser's state."""
    assert not jax.tree.leaves(eqx.filter(FiniteVolumeNavierStokes(SQUARE, 0.01, 1e-3), eqx.is_array))
