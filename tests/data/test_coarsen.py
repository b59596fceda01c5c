"""The laws of coarsening: linear, constants and mean kept, two stages equal one, divergence kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.core.grid import Grid
from sino.data.coarsen import cell_average, face_average, spectral_truncation, subsample
from sino.physics.staggered import divergence, project

SCALAR_MAPS = [cell_average, spectral_truncation, subsample]
ALL_MAPS = [*SCALAR_MAPS, face_average]


def field(getkey, shape):
    return jax.random.normal(getkey(), shape)


@pytest.mark.parametrize("coarsen", ALL_MAPS)
@pytest.mark.parametrize("via", [12, 6])
def test_two_stages_equal_one(getkey, coarsen, via):
    u = field(getkey, (2, 24, 48))
    twice = coarsen(coarsen(u, (via * 2, via * 4)), (6, 12))
    np.testing.assert_allclose(twice, coarsen(u, (6, 12)), atol=1e-13)


@pytest.mark.parametrize("coarsen", ALL_MAPS)
def test_constants_are_kept(coarsen):
    u = jnp.stack([jnp.full((24, 24), 1.5), jnp.full((24, 24), -2.0)])
    np.testing.assert_allclose(coarsen(u, (8, 8)), u[:, :8, :8], atol=1e-14)


@pytest.mark.parametrize("coarsen", ALL_MAPS)
def test_the_same_grid_is_the_identity(getkey, coarsen):
    u = field(getkey, (2, 15, 15))  # odd: there is no Nyquist mode to lose
    np.testing.assert_allclose(coarsen(u, (15, 15)), u, atol=1e-13)


@pytest.mark.parametrize("coarsen", [cell_average, spectral_truncation])
def test_the_mean_is_kept(getkey, coarsen):
    u = field(getkey, (3, 32))
    np.testing.assert_allclose(coarsen(u, (8,)).mean(axis=1), u.mean(axis=1), atol=1e-14)


def test_cell_average_by_hand():
    u = jnp.arange(16.0).reshape(1, 4, 4)
    np.testing.assert_allclose(cell_average(u, (2, 2)), [[[2.5, 4.5], [10.5, 12.5]]])


def test_subsample_by_hand():
    np.testing.assert_allclose(subsample(jnp.arange(8.0)[None], (4,)), [[0, 2, 4, 6]])


def test_truncation_keeps_the_values_of_what_the_coarse_grid_holds():
    fine, coarse = Grid((64,), (2 * np.pi,)), Grid((16,), (2 * np.pi,))

    def signal(x):
        return jnp.asarray(1 + np.cos(3 * x + 0.4) - 2 * np.sin(7 * x))[None]

    np.testing.assert_allclose(spectral_truncation(signal(fine.axis(0)), (16,)), signal(coarse.axis(0)), atol=1e-13)


def test_truncation_drops_the_coarse_nyquist_mode_and_subsampling_aliases_it():
    x = Grid((64,), (2 * np.pi,)).axis(0)
    u = jnp.asarray(np.cos(8 * x))[None]
    np.testing.assert_allclose(spectral_truncation(u, (16,)), 0, atol=1e-14)
    np.testing.assert_allclose(subsample(u, (16,))[0], (-1.0) ** np.arange(16), atol=1e-13)
    np.testing.assert_allclose(subsample(jnp.asarray(np.cos(17 * x))[None], (16,))[0, 1], np.cos(2 * np.pi / 16))


def test_face_average_by_hand():
    u = jnp.arange(16.0).reshape(4, 4)
    v = face_average(jnp.stack([u, u]), (2, 2))
    np.testing.assert_allclose(v[0], [[(4 + 5) / 2, (6 + 7) / 2], [(12 + 13) / 2, (14 + 15) / 2]])
    np.testing.assert_allclose(v[1], [[(1 + 5) / 2, (3 + 7) / 2], [(9 + 13) / 2, (11 + 15) / 2]])


@pytest.mark.parametrize("n, m", [((32, 32), (8, 8)), ((24, 36), (12, 6))])
def test_face_average_keeps_a_field_free_of_divergence(getkey, n, m):
    box = (2 * np.pi, 3.0)
    v = project(field(getkey, (2, *n)), Grid(n, box))
    coarse = face_average(v, m)
    assert np.abs(divergence(coarse, Grid(m, box))).max() < 1e-12
    np.testing.assert_allclose(coarse.mean(axis=(1, 2)), v.mean(axis=(1, 2)), atol=1e-14)


def test_gradients_pass_through(getkey):
    u = field(getkey, (2, 12, 12))
    for coarsen in ALL_MAPS:
        weights = field(getkey, (2, 4, 4))
        gradient = jax.grad(lambda u, c=coarsen, w=weights: (w * c(u, (4, 4))).sum())(u)
        direction = field(getkey, u.shape)
        expected = (weights * coarsen(direction, (4, 4))).sum()  # the maps are linear
        np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-12)


@pytest.mark.parametrize("coarsen", [cell_average, subsample, face_average])
def test_a_grid_that_does_not_nest_is_a_sentence(coarsen):
    with pytest.raises(UserError, match="7 does not divide the fine grid of 24"):
        coarsen(jnp.zeros((2, 24, 24)), (7, 24))
