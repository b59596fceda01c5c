"""The staggered grid: identities that hold to round-off, orders of accuracy, and the projection against plain NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.core.stencil import TILE
from sino.physics import staggered

divergence = jax.jit(staggered.divergence, static_argnums=1)
gradient = jax.jit(staggered.gradient, static_argnums=1)
vorticity = jax.jit(staggered.vorticity, static_argnums=1)
from_streamfunction = jax.jit(staggered.from_streamfunction, static_argnums=1)
laplacian = jax.jit(staggered.laplacian, static_argnums=1)
project = jax.jit(staggered.project, static_argnums=1)
streamfunction = jax.jit(staggered.streamfunction, static_argnums=1, static_argnames=("diffusion", "scale"))
relax_divergence = jax.jit(staggered.relax_divergence, static_argnums=1)

GRIDS = [
    Grid((32, 32), (2 * np.pi, 2 * np.pi)),
    Grid((24, 40), (2 * np.pi, 3.0)),  # non-square, anisotropic
    Grid((25, 31), (2 * np.pi, 3.0)),  # odd: no Nyquist mode
]
on_every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda g: "x".join(map(str, g.n)))


def random_scalar(grid, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(grid.n))


def random_velocity(grid, seed=0):
    """White noise with a mean: every mode, Nyquist modes included, is excited."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal((2, *grid.n)) + np.array([0.7, -1.3])[:, None, None])


def dot(a, b):
    return float(np.sum(np.asarray(a) * np.asarray(b)))


def norm(a):
    return float(np.linalg.norm(np.ravel(a)))


def mesh(grid, offset):
    """Coordinates at a given offset inside each cell."""
    return np.meshgrid(*(grid.axis(d, offset[d]) for d in (0, 1)), indexing="ij")


# What the projection and the diffusion solve should be, with complex transforms and no code from the package.


def eigenvalues(grid):
    per_axis = [-((2 / h * np.sin(np.pi * np.fft.fftfreq(n))) ** 2) for n, h in zip(grid.n, grid.dx, strict=True)]
    return per_axis[0][:, None] + per_axis[1][None, :]


def project_with_pressure(v, grid):
    """`v - grad Lap^-1 div v`."""
    dx, dy = grid.dx
    div = (v[0] - np.roll(v[0], 1, 0)) / dx + (v[1] - np.roll(v[1], 1, 1)) / dy
    symbol = eigenvalues(grid)
    symbol[0, 0] = 1.0
    p_hat = np.fft.fft2(div) / symbol
    p_hat[0, 0] = 0.0
    p = np.fft.ifft2(p_hat).real
    return v - np.stack([(np.roll(p, -1, 0) - p) / dx, (np.roll(p, -1, 1) - p) / dy])


def diffuse_implicitly(v, grid, diffusion):
    """`(I - diffusion Lap)^-1 v`, one component at a time."""
    return np.stack([np.fft.ifft2(np.fft.fft2(c) / (1 - diffusion * eigenvalues(grid))).real for c in v])


# Operators


@on_every_grid
def test_gradient_is_minus_the_adjoint_of_divergence(grid):
    p, v = random_scalar(grid), random_velocity(grid, 1)
    assert dot(p, divergence(v, grid)) == pytest.approx(-dot(gradient(p, grid), v), rel=1e-12)


@on_every_grid
def test_vorticity_is_the_adjoint_of_the_curl_of_a_streamfunction(grid):
    psi, v = random_scalar(grid), random_velocity(grid, 1)
    assert dot(psi, vorticity(v, grid)) == pytest.approx(dot(from_streamfunction(psi, grid), v), rel=1e-12)


@on_every_grid
def test_curl_of_a_streamfunction_has_no_divergence(grid):
    v = from_streamfunction(random_scalar(grid), grid)
    assert np.abs(divergence(v, grid)).max() < 1e-14 * np.abs(v).max() / min(grid.dx) * 4


@on_every_grid
def test_gradient_has_no_vorticity(grid):
    g = gradient(random_scalar(grid), grid)
    assert np.abs(vorticity(g, grid)).max() < 1e-14 * np.abs(g).max() / min(grid.dx) * 4


@on_every_grid
def test_laplacian_is_divergence_of_gradient_and_minus_vorticity_of_curl(grid):
    a = random_scalar(grid)
    expected = laplacian(a, grid)
    scale = np.abs(expected).max()
    assert np.abs(divergence(gradient(a, grid), grid) - expected).max() < 1e-14 * scale
    assert np.abs(vorticity(from_streamfunction(a, grid), grid) + expected).max() < 1e-14 * scale


@on_every_grid
def test_laplacian_symbol_matches_its_stencil(grid):
    a = np.asarray(random_scalar(grid))
    by_symbol = np.fft.irfft2(np.fft.rfft2(a) * staggered.laplacian_eigenvalues(grid), grid.n)
    by_stencil = laplacian(jnp.asarray(a), grid)
    np.testing.assert_allclose(by_symbol, by_stencil, rtol=0, atol=1e-14 * np.abs(by_stencil).max())


def test_stencils_by_hand():
    """One unit of flow through one face: which neighbours see it, and with which sign."""
    grid = Grid((4, 5), (2.0, 10.0))  # dx = 1/2, dy = 2
    u = jnp.zeros((2, 4, 5)).at[0, 1, 2].set(1.0)
    v = jnp.zeros((2, 4, 5)).at[1, 1, 2].set(1.0)
    point = jnp.zeros((4, 5)).at[1, 2].set(1.0)

    def entries(a):
        return {tuple(map(int, i)): float(a[tuple(i)]) for i in np.argwhere(np.asarray(a))}

    assert entries(divergence(u, grid)) == {(1, 2): 2.0, (2, 2): -2.0}
    assert entries(divergence(v, grid)) == {(1, 2): 0.5, (1, 3): -0.5}
    assert entries(vorticity(u, grid)) == {(1, 2): 0.5, (1, 1): -0.5}
    assert entries(vorticity(v, grid)) == {(1, 2): -2.0, (0, 2): 2.0}
    assert entries(gradient(point, grid)) == {(0, 0, 2): 2.0, (0, 1, 2): -2.0, (1, 1, 1): 0.5, (1, 1, 2): -0.5}
    assert entries(from_streamfunction(point, grid)) == {
        (0, 1, 2): 0.5,
        (0, 1, 3): -0.5,
        (1, 1, 2): -2.0,
        (1, 2, 2): 2.0,
    }


# A smooth function on the box 2 pi x 3, its derivatives and its Laplacian.
B = 2 * np.pi / 3.0


def f(x, y):
    return np.sin(x + 0.3) * np.exp(np.cos(B * y))


def f_x(x, y):
    return np.cos(x + 0.3) * np.exp(np.cos(B * y))


def f_y(x, y):
    return -B * np.sin(B * y) * f(x, y)


def lap_f(x, y):
    return (B**2 * (np.sin(B * y) ** 2 - np.cos(B * y)) - 1) * f(x, y)


def smooth_errors(n):
    """Relative error of each operator, every value taken where the module says it lives."""
    grid = Grid(n, (2 * np.pi, 3.0))
    u, v, centre, corner = (mesh(grid, offset) for offset in ((1.0, 0.5), (0.5, 1.0), (0.5, 0.5), (1.0, 1.0)))
    velocity = jnp.asarray(np.stack([f(*u), f(*v)]))
    pairs = {
        "divergence": (divergence(velocity, grid), f_x(*centre) + f_y(*centre)),
        "vorticity": (vorticity(velocity, grid), f_x(*corner) - f_y(*corner)),
        "gradient": (gradient(jnp.asarray(f(*centre)), grid), np.stack([f_x(*u), f_y(*v)])),
        "curl": (from_streamfunction(jnp.asarray(f(*corner)), grid), np.stack([f_y(*u), -f_x(*v)])),
        "laplacian": (laplacian(jnp.asarray(f(*centre)), grid), lap_f(*centre)),
    }
    return {name: float(np.abs(a - b).max() / np.abs(b).max()) for name, (a, b) in pairs.items()}


@pytest.mark.parametrize("coarse", [(24, 40), (25, 31)], ids=["even", "odd"])
def test_operators_are_second_order(coarse):
    errors = [smooth_errors(tuple(factor * n for n in coarse)) for factor in (1, 2, 4)]
    for name in errors[0]:
        orders = [np.log2(errors[i][name] / errors[i + 1][name]) for i in (0, 1)]
        assert orders == pytest.approx([2, 2], abs=0.05), name  # measured: 1.97 to 2.01


# Projection


@on_every_grid
def test_projection_removes_the_divergence(grid):
    v = random_velocity(grid)
    before, after = (np.abs(divergence(a, grid)).max() for a in (v, project(v, grid)))
    assert after < 1e-14 * before


def test_projection_in_single_precision():
    """The streamfunction form leaves only the rounding of the velocity itself. Measured: 0.55 of the unit below."""
    grid = GRIDS[1]
    v = random_velocity(grid).astype(jnp.float32)
    w = project(v, grid)
    assert w.dtype == jnp.float32
    unit = np.finfo(np.float32).eps * np.abs(w).max() * sum(1 / h for h in grid.dx)
    assert np.abs(divergence(w, grid)).max() < 2 * unit


@on_every_grid
def test_projection_is_idempotent(grid):
    once = project(random_velocity(grid), grid)
    np.testing.assert_allclose(project(once, grid), once, rtol=0, atol=1e-13)


@on_every_grid
def test_projection_keeps_fields_free_of_divergence(grid):
    v = from_streamfunction(random_scalar(grid), grid) + jnp.asarray([0.4, -2.0])[:, None, None]
    np.testing.assert_allclose(project(v, grid), v, rtol=0, atol=1e-13 * np.abs(v).max())


@on_every_grid
def test_projection_removes_gradients(grid):
    g = gradient(random_scalar(grid), grid)
    assert np.abs(project(g, grid)).max() < 1e-13 * np.abs(g).max()


@on_every_grid
def test_projection_keeps_the_mean(grid):
    v = random_velocity(grid)
    np.testing.assert_allclose(project(v, grid).mean(axis=(1, 2)), v.mean(axis=(1, 2)), rtol=1e-14)


@on_every_grid
def test_projection_is_orthogonal(grid):
    """Symmetric, and what it removes is orthogonal to what it keeps."""
    v, w = random_velocity(grid), random_velocity(grid, 1)
    assert dot(project(v, grid), w) == pytest.approx(dot(v, project(w, grid)), rel=1e-12)
    assert abs(dot(project(v, grid), v - project(v, grid))) < 1e-13 * dot(v, v)


@on_every_grid
def test_projection_is_the_one_by_pressure(grid):
    v = random_velocity(grid)
    np.testing.assert_allclose(project(v, grid), project_with_pressure(np.asarray(v), grid), rtol=0, atol=1e-13)


@on_every_grid
@pytest.mark.parametrize("diffusion", [1e-3, 2.0])
def test_a_streamfunction_projects_then_diffuses_implicitly(grid, diffusion):
    v = random_velocity(grid)
    expected = 0.5 * diffuse_implicitly(project_with_pressure(np.asarray(v), grid), grid, diffusion)
    mean = 0.5 * staggered.mean_velocity(v)
    mine = from_streamfunction(streamfunction(v, grid, diffusion=diffusion, scale=0.5), grid) + mean
    np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-13)


# Relaxation of the divergence


@on_every_grid
def test_relaxation_leaves_fields_free_of_divergence_alone(grid):
    v = project(random_velocity(grid), grid)
    assert np.abs(relax_divergence(v, grid)).max() < 1e-14 * np.abs(v).max()


@on_every_grid
def test_relaxation_damps_every_mode_of_the_divergence(grid):
    """Each Fourier mode is multiplied by a real factor in [0, 1): none grows, changes sign or stays as it is."""
    v = random_velocity(grid)
    before, after = (np.fft.fft2(np.asarray(divergence(a, grid))) for a in (v, v + relax_divergence(v, grid)))
    varying = np.ones(grid.n, bool)
    varying[0, 0] = False
    factor = after[varying] / before[varying]
    assert np.abs(factor.imag).max() < 1e-12
    assert factor.real.min() > -1e-12
    # The slowest mode is the longest wave: 1 - (its eigenvalue) / (4/dx^2 + 4/dy^2).
    slowest = 1 + eigenvalues(grid)[varying].max() / sum(4 / h**2 for h in grid.dx)
    assert factor.real.max() == pytest.approx(slowest, abs=1e-12)
    assert slowest < 1
    assert norm(divergence(v + relax_divergence(v, grid), grid)) < norm(divergence(v, grid))


@on_every_grid
def test_relaxation_touches_neither_vorticity_nor_mean(grid):
    v = random_velocity(grid)
    change = relax_divergence(v, grid)
    assert np.abs(vorticity(change, grid)).max() < 1e-13 * np.abs(vorticity(v, grid)).max()
    assert np.abs(np.mean(change, axis=(1, 2))).max() < 1e-15


# The end of a step

WRAPPED = Grid((2 * TILE[0], TILE[1]), (2.0, 3.0))


def advanced_arguments(getkey):
    shapes = (2, *WRAPPED.n), WRAPPED.n, (2, 1, 1)
    return [jax.random.normal(getkey(), (3, *shape)) for shape in shapes]


def test_the_end_of_a_step_is_its_terms(getkey):
    v, psi, mean = (array[0] for array in advanced_arguments(getkey))
    expected = v + relax_divergence(v, WRAPPED) + from_streamfunction(psi, WRAPPED) + mean
    np.testing.assert_allclose(staggered.advanced(v, psi, mean, WRAPPED), expected, rtol=0, atol=1e-13)


def test_its_kernel_equals_the_plain_form(getkey):
    """Interpreted, over a batch; the box is wrapped around."""
    given = advanced_arguments(getkey)
    mine, plain = (
        jax.vmap(f)(*given)
        for f in (
            partial(staggered.advanced_by_kernel, grid=WRAPPED, interpret=True),
            partial(staggered.advanced_plainly, grid=WRAPPED),
        )
    )
    np.testing.assert_allclose(mine, plain, rtol=0, atol=1e-12)


def test_the_gradient_of_its_kernel_is_that_of_the_plain_form(getkey, monkeypatch):
    given = [array[0] for array in advanced_arguments(getkey)]
    d = jax.random.normal(getkey(), (2, *WRAPPED.n))
    plain = jax.vjp(partial(staggered.advanced, grid=WRAPPED), *given)[1](d)
    monkeypatch.setattr(staggered.fast, "kernels", lambda dtype: True)
    kernel = partial(staggered.advanced_by_kernel, interpret=True)
    monkeypatch.setattr(staggered, "advanced_by_kernel", kernel)
    mine = jax.vjp(partial(staggered.advanced, grid=WRAPPED), *given)[1](d)
    for one, other in zip(mine, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
