"""The spectral solver: exact solutions, invariants of the convective term, order in time, and exponax as an oracle."""

import equinox as eqx
import exponax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.fourier import two_thirds_mask
from sino.core.grid import Grid
from sino.core.rollout import repeat
from sino.physics.exact import taylor_green
from sino.physics.forcing import KolmogorovForcing, LinearDrag, Sum
from sino.physics.solver import clocked
from sino.physics.vorticity import SpectralNavierStokes

BOX = (2 * np.pi, 2 * np.pi)
SQUARE = Grid((32, 32), BOX)
OBLONG = Grid((20, 32), (2 * np.pi, 3.0))
ODD = Grid((25, 31), (2 * np.pi, 3.0))
THIRDS = Grid((24, 30), (2 * np.pi, 3.0))  # sizes that 3 divides: the edge of the 2/3 rule is a mode
on_every_grid = pytest.mark.parametrize(
    "grid", [SQUARE, OBLONG, ODD, THIRDS], ids=["square", "oblong", "odd", "thirds"]
)
on_two_grids = pytest.mark.parametrize("grid", [OBLONG, ODD], ids=["oblong", "odd"])


# Spectra with plain NumPy, on the full complex transform.


def wavenumbers(grid):
    per_axis = [2 * np.pi * np.fft.fftfreq(n, h) for n, h in zip(grid.n, grid.dx, strict=True)]
    return np.meshgrid(*per_axis, indexing="ij")


def shift(a, grid, distance):
    """`a(x - distance)`, exact on what is below the Nyquist modes."""
    kx, ky = wavenumbers(grid)
    return np.fft.ifft2(np.fft.fft2(a) * np.exp(-1j * (kx * distance[0] + ky * distance[1]))).real


def derivative(a, grid, axis):
    return np.fft.ifft2(np.fft.fft2(a) * 1j * wavenumbers(grid)[axis]).real


def to_nodes(v, grid):
    """Both components at the collocation points `(i dx, j dy)`."""
    dx, dy = grid.dx
    return shift(v[0], grid, (dx, 0.5 * dy)), shift(v[1], grid, (0.5 * dx, dy))


def to_faces(u, v, grid):
    dx, dy = grid.dx
    return np.stack([shift(u, grid, (-dx, -0.5 * dy)), shift(v, grid, (-0.5 * dx, -dy))])


def vorticity_at_nodes(v, grid):
    u, v = to_nodes(v, grid)
    return derivative(v, grid, 0) - derivative(u, grid, 1)


def flow(grid, seed=0, cut=3, mean=(0.0, 0.0), speed=1.0):
    """A random flow of the waves with `|index| <= cut` along each axis, exactly solenoidal in Fourier space."""
    kx, ky = wavenumbers(grid)
    rng = np.random.default_rng(seed)
    ix, iy = (np.abs(np.round(k * length / (2 * np.pi))) for k, length in zip((kx, ky), grid.length, strict=True))
    keep = (ix <= cut) & (iy <= cut)
    psi_hat = np.fft.fft2(rng.standard_normal(grid.n)) * keep / (1 + kx**2 + ky**2)
    v = to_faces(np.fft.ifft2(1j * ky * psi_hat).real, np.fft.ifft2(-1j * kx * psi_hat).real, grid)
    v *= speed / np.sqrt((v**2).sum(axis=0)).max()
    return jnp.asarray(v + np.reshape(mean, (2, 1, 1)))


def dealiased_noise(grid, mean=(0.0, 0.0)):
    """A flow in which every mode that the 2/3 rule keeps is excited, and no other."""
    v = np.fft.rfft2(flow(grid, cut=max(grid.n) // 3)) * two_thirds_mask(grid)
    return jnp.asarray(np.fft.irfft2(v, grid.n) + np.reshape(mean, (2, 1, 1)))


@eqx.filter_jit
def step(solver, v, source=None):
    return solver.step(v, source, 0.0)


@eqx.filter_jit
def tendency(solver, v, source=None):
    return solver.tendency(v, source, 0.0)


@eqx.filter_jit
def round_trip(solver, v):
    return solver.from_spectrum(solver.to_spectrum(v))


def advance(solver, v, steps, source=None):
    return jax.jit(repeat(clocked(solver, source, t0=0.0), steps))(v, 0)


def rms(a):
    return float(np.sqrt(np.mean(np.square(a))))


# Between faces and spectrum


@on_two_grids
def test_round_trip_keeps_solenoidal_fields(grid):
    v = flow(grid, cut=min(grid.n) // 2 - 1, mean=(0.3, -0.8))
    np.testing.assert_allclose(round_trip(SpectralNavierStokes(grid, 0.1, 0.1), v), v, rtol=0, atol=1e-14)


@on_two_grids
def test_round_trip_is_the_orthogonal_projection_on_solenoidal_fields(grid):
    """Against the Leray projector `1 - k k^T / |k|^2` in NumPy, with the Nyquist modes set to zero."""
    noise = np.random.default_rng(0).standard_normal((2, *grid.n)) + 0.5
    (kx, ky), (dx, dy) = wavenumbers(grid), grid.dx
    nyquist = np.isclose(np.abs(kx), np.pi / dx) | np.isclose(np.abs(ky), np.pi / dy)
    noise_hat = np.where(nyquist, 0, np.fft.fft2(noise))
    u, v = to_nodes(np.fft.ifft2(noise_hat).real, grid)
    k_squared = np.where(kx**2 + ky**2 == 0, 1, kx**2 + ky**2)
    p_hat = (kx * np.fft.fft2(u) + ky * np.fft.fft2(v)) / k_squared
    expected = to_faces(u - np.fft.ifft2(kx * p_hat).real, v - np.fft.ifft2(ky * p_hat).real, grid)
    assert rms(expected - noise) > 0.5
    result = round_trip(SpectralNavierStokes(grid, 0.1, 0.1), jnp.asarray(noise))
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)  # measured: 2e-15


def test_spectrum_holds_the_vorticity_and_the_mean_velocity():
    v = flow(OBLONG, mean=(0.3, -0.8))
    spectrum = np.asarray(jax.jit(SpectralNavierStokes(OBLONG, 0.1, 0.1).to_spectrum)(v))
    assert spectrum[0, 0] == pytest.approx((0.3 - 0.8j) * np.prod(OBLONG.n), rel=1e-13)
    expected = np.fft.rfft2(vorticity_at_nodes(np.asarray(v), OBLONG))
    expected[0, 0] = spectrum[0, 0]
    np.testing.assert_allclose(spectrum, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_step_is_spectral_step_between_the_transforms():
    solver = SpectralNavierStokes(OBLONG, 0.05, 0.01)
    v, source = flow(OBLONG, mean=(0.3, -0.8)), LinearDrag(jnp.asarray(0.1))
    w = jax.jit(solver.to_spectrum)(v)
    spectral_step = jax.jit(lambda w: solver.spectral_step(w, source, 0.0))
    for _ in range(5):
        w, v = spectral_step(w), step(solver, v, source)
    np.testing.assert_allclose(jax.jit(solver.from_spectrum)(w), v, rtol=0, atol=1e-13)


# Exact solutions


@pytest.mark.parametrize(
    "n, dtype, tolerance", [((16, 16), np.float64, 1e-14), ((15, 24), np.float64, 1e-14), ((16, 16), np.float32, 2e-6)]
)
def test_taylor_green_is_exact(n, dtype, tolerance):
    """Its convective term is a gradient, and decay is in the exponential: any dt will do.
    Measured: 2e-15 and 5e-7."""
    grid, viscosity = Grid(n, BOX), 0.05
    v = advance(
        SpectralNavierStokes(grid, 0.2, viscosity), jnp.asarray(taylor_green(grid, 0.0, viscosity, 2), dtype), 20
    )
    assert v.dtype == dtype
    np.testing.assert_allclose(v, taylor_green(grid, 4.0, viscosity, 2), rtol=0, atol=tolerance)


def test_frozen_source_on_a_parallel_flow_adds_dt_phi_1():
    """A force along x that varies with y alone makes a flow without convection: from rest, one step is
    `dt phi_1(dt L) P force`. The force reaches above the 2/3 cutoff, which must not touch it, and has a gradient."""
    grid, dt, viscosity = OBLONG, 0.1, 0.02
    rng = np.random.default_rng(0)
    profile = rng.standard_normal(grid.n[1]) + 1.0
    profile = np.fft.irfft(np.fft.rfft(profile)[:-1], grid.n[1])  # without the Nyquist mode
    pressure_like = np.stack([np.zeros(grid.n), np.broadcast_to(rng.standard_normal(grid.n[1]), grid.n)])
    pressure_like[1] -= pressure_like[1].mean()
    force = jnp.asarray(np.stack([np.broadcast_to(profile, grid.n), np.zeros(grid.n)]) + pressure_like)
    ky = 2 * np.pi * np.fft.rfftfreq(grid.n[1], grid.dx[1])
    z = -viscosity * ky**2 * dt
    phi_1 = np.where(z == 0, 1, np.expm1(z) / np.where(z == 0, 1, z))
    expected = np.broadcast_to(np.fft.irfft(dt * phi_1 * np.fft.rfft(profile), grid.n[1]), grid.n)
    result = step(SpectralNavierStokes(grid, dt, viscosity), jnp.zeros((2, *grid.n)), lambda *_: force)
    np.testing.assert_allclose(result[0], expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(result[1], 0, rtol=0, atol=1e-14)


# The convective term


@on_every_grid
def test_convection_conserves_energy_enstrophy_and_momentum(grid):
    """Exactly, for what the 2/3 rule keeps: a quadratic product must not alias into it.
    Measured: 4e-17."""
    v = dealiased_noise(grid, mean=(0.3, -0.8))
    rate = np.asarray(tendency(SpectralNavierStokes(grid, 0.1, 0.0), v))
    v = np.asarray(v)
    w, w_rate = vorticity_at_nodes(v, grid), vorticity_at_nodes(rate, grid)
    assert abs(np.sum(v * rate)) < 1e-13 * np.linalg.norm(v) * np.linalg.norm(rate)
    assert abs(np.sum(w * w_rate)) < 1e-13 * np.linalg.norm(w) * np.linalg.norm(w_rate)
    assert np.abs(rate.mean(axis=(1, 2))).max() < 1e-15 * np.abs(rate).max()


@on_every_grid
def test_convection_is_the_advective_form_without_aliases(grid):
    """`-v . grad w` with the product formed on twice as many points, then cut: not the form that the solver uses."""
    v = np.asarray(dealiased_noise(grid, mean=(0.3, -0.8)))
    fine = Grid(tuple(2 * n for n in grid.n), grid.length)

    def refine(a):
        a_hat = np.fft.fftshift(np.fft.fft2(a))
        pads = [(fn // 2 - n // 2, fn - n - (fn // 2 - n // 2)) for n, fn in zip(grid.n, fine.n, strict=True)]
        return np.fft.ifft2(np.fft.ifftshift(np.pad(a_hat, pads))).real * 4

    u_node, v_node = to_nodes(v, grid)
    w = vorticity_at_nodes(v, grid)
    product = refine(u_node) * refine(derivative(w, grid, 0)) + refine(v_node) * refine(derivative(w, grid, 1))
    expected = -np.fft.rfft2(product)
    rate = tendency(SpectralNavierStokes(grid, 0.1, 0.0), jnp.asarray(v))
    result = np.fft.rfft2(vorticity_at_nodes(np.asarray(rate), grid))
    # Compare mode by mode where the rule keeps them; elsewhere the solver's must be zero.
    rows = np.fft.fftfreq(grid.n[0], 1 / grid.n[0]).astype(int)
    expected = expected[rows][:, : grid.n[1] // 2 + 1] / 4 * two_thirds_mask(grid)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_tendency_is_galilean_invariant():
    """A mean velocity adds `-(U . grad) v` and nothing else."""
    v, mean = flow(OBLONG, cut=4), np.array([0.3, -0.8])
    solver = SpectralNavierStokes(OBLONG, 0.1, 0.02)
    moving = tendency(solver, v + jnp.asarray(mean)[:, None, None])
    carried = np.stack([sum(mean[d] * derivative(c, OBLONG, d) for d in (0, 1)) for c in np.asarray(v)])
    np.testing.assert_allclose(moving, tendency(solver, v) - carried, rtol=0, atol=1e-13)


def test_a_mean_velocity_carries_the_flow():
    """After time t the flow is the one at rest, moved by U t (and U is kept). The time error of the step, here
    2e-10, is the only difference."""
    mean, dt, steps = np.array([0.7, -0.4]), 0.0025, 200
    v = flow(OBLONG)
    solver = SpectralNavierStokes(OBLONG, dt, 0.02)
    advanced = jax.jit(repeat(clocked(solver, t0=0.0), steps))
    at_rest, moving = np.asarray(advanced(v, 0)), advanced(v + jnp.asarray(mean)[:, None, None], 0)
    expected = np.stack([shift(c, OBLONG, mean * dt * steps) for c in at_rest]) + mean[:, None, None]
    assert rms(expected - mean[:, None, None] - at_rest) > 0.1 * rms(at_rest)
    np.testing.assert_allclose(moving, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(moving.mean(axis=(1, 2)), mean, rtol=0, atol=1e-14)


# In time


def test_mean_source_changes_the_mean_by_simpsons_rule():
    """The stages are at `t`, `t + dt/2` and `t + dt`: cubics in time are integrated exactly. Their pattern has a mean
    that the flow must feel and a gradient that it must not."""
    dt, t, pattern = 0.3, 0.7, jnp.asarray(np.random.default_rng(0).standard_normal((2, *OBLONG.n)) + 1.0)
    solver = SpectralNavierStokes(OBLONG, dt, 0.02)
    v = flow(OBLONG, speed=0.1)
    after = jax.jit(lambda v: solver.step(v, lambda u, t: pattern * t**3, t))(v)
    impulse = pattern.mean(axis=(1, 2)) * ((t + dt) ** 4 - t**4) / 4
    np.testing.assert_allclose(after.mean(axis=(1, 2)), impulse, rtol=1e-13)


def test_fourth_order_in_time():
    """A convecting flow under drag and a force that changes in time. Measured: errors 1.3e-4, 7.8e-6, 4.8e-7,
    orders 4.02 and 4.01."""
    force = KolmogorovForcing(jnp.asarray(2.0), jnp.asarray(2.0), 3.0)
    drag = LinearDrag(jnp.asarray(0.3))

    def source(u, t):
        return force(u, t) * jnp.cos(5 * t) + drag(u, t)

    v = flow(OBLONG, speed=2.0, mean=(0.3, -0.8))
    reference, *results = (
        advance(SpectralNavierStokes(OBLONG, 0.6 / steps, 0.02), v, steps, source) for steps in (384, 12, 24, 48)
    )
    errors = [rms(r - reference) for r in results]
    orders = [np.log2(errors[i] / errors[i + 1]) for i in (0, 1)]
    assert orders == pytest.approx([4, 4], abs=0.1)
    assert errors[-1] < 1e-6 * rms(reference)


def test_step_approaches_the_tendency_at_first_order():
    v = flow(OBLONG)
    source = Sum((KolmogorovForcing(jnp.asarray(1.0), jnp.asarray(2.0), 3.0), LinearDrag(jnp.asarray(0.1))))
    limit = tendency(SpectralNavierStokes(OBLONG, 1.0, 0.02), v, source)
    errors = [rms((step(SpectralNavierStokes(OBLONG, dt, 0.02), v, source) - v) / dt - limit) for dt in (1e-3, 5e-4)]
    assert errors[1] < 4e-4 * rms(limit)  # measured: 2.9e-4
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.01)


# The oracle: exponax


def test_agrees_with_exponax():
    """exponax's vorticity is minus ours; its advective form and its own ETDRK4 coefficients are independent. Its cutoff
    is set to ours (index 10 of 32). Measured: 1e-13 of a vorticity of 8."""
    n, dt, viscosity, steps = 32, 0.02, 0.01, 50
    v = flow(SQUARE, cut=5, speed=2.0)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        stepper = exponax.stepper.NavierStokesVorticity(
            2, 2 * np.pi, n, dt, diffusivity=viscosity, order=4, num_circle_points=32, dealiasing_fraction=11 / 16
        )
        w = jax.jit(exponax.repeat(stepper, steps))(-jnp.asarray(vorticity_at_nodes(np.asarray(v), SQUARE))[None])
    after = advance(SpectralNavierStokes(SQUARE, dt, viscosity), v, steps)
    result = vorticity_at_nodes(np.asarray(after), SQUARE)
    assert rms(after - v) > 0.1
    np.testing.assert_allclose(result, -w[0], rtol=0, atol=1e-12)


# What it takes and gives


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_of_the_state_is_kept(dtype):
    """Promotion is strict in this suite: a stray array of the other precision would raise."""
    v = flow(OBLONG).astype(dtype)
    solver, source = (
        SpectralNavierStokes(OBLONG, 0.05, 1e-3),
        KolmogorovForcing(jnp.asarray(1.0), jnp.asarray(4.0), 3.0),
    )
    for result in jax.jit(lambda v: (solver.step(v, source, 0.0), solver.tendency(v, source, 0.0)))(v):
        assert result.dtype == dtype
        assert np.all(np.isfinite(result))


def test_batch_is_the_loop():
    solver = SpectralNavierStokes(OBLONG, 0.05, 1e-3)
    flows = [flow(OBLONG, seed) for seed in range(3)]
    batch = jax.jit(jax.vmap(lambda v: solver.step(v, None, 0.0)))(jnp.stack(flows))
    np.testing.assert_allclose(batch, np.stack([step(solver, v) for v in flows]), rtol=0, atol=1e-14)


def test_solver_has_no_array_leaves():
    assert not jax.tree.leaves(eqx.filter(SpectralNavierStokes(SQUARE, 0.01, 1e-3), eqx.is_array))
