import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.metrics.velocity import divergence, relative_divergence, vorticity
from sino.physics import staggered

LENGTH = 2 * np.pi
N = 16
DX = LENGTH / N
FACE, CENTRE = np.arange(1, N + 1) * DX, (np.arange(N) + 0.5) * DX
EXACT = np.sin(DX / 2) / (DX / 2)
"""What a centred difference over one cell makes of the derivative of a sine."""


def on_faces(u, v):
    """A velocity from two functions of x and y."""
    return np.stack([u(FACE[:, None], CENTRE[None, :]), v(CENTRE[:, None], FACE[None, :])])


def test_a_field_of_known_divergence_and_vorticity():
    """`u = sin x cos 2y`, `v = 3 sin y`: divergence `cos x cos 2y + 3 cos y`, vorticity `2 sin x sin 2y`."""
    v = on_faces(lambda x, y: np.sin(x) * np.cos(2 * y), lambda x, y: 3 * np.sin(y) + 0 * x)
    x, y = CENTRE[:, None], CENTRE[None, :]
    expected = EXACT * (np.cos(x) * np.cos(2 * y) + 3 * np.cos(y))
    np.testing.assert_allclose(divergence(v, LENGTH), expected, atol=1e-13)
    x, y = FACE[:, None], FACE[None, :]
    expected = 2 * np.sin(DX) / DX * np.sin(x) * np.sin(2 * y)
    np.testing.assert_allclose(vorticity(v, LENGTH), expected, atol=1e-13)


def test_divergence_in_units_of_vorticity():
    """`u = 3 sin x` swells, `v = 4 sin x` turns: root mean squares 3 and 4 over the square root of 2."""
    v = on_faces(lambda x, y: 3 * np.sin(x) + 0 * y, lambda x, y: 4 * np.sin(x) + 0 * y)
    assert relative_divergence(np.stack([v, v]), LENGTH) == pytest.approx(0.75, rel=1e-12)
    still = np.stack([v, 0 * v])
    assert relative_divergence(still, LENGTH) == pytest.approx(0.75, rel=1e-12), "frames are taken together"
    assert np.isnan(relative_divergence(0 * still, LENGTH))


def test_the_stencils_are_the_solvers():
    grid = Grid((12, 20), (LENGTH, LENGTH))
    v = np.random.default_rng(0).normal(size=(3, 2, *grid.n))
    for mine, theirs in ((vorticity, staggered.vorticity), (divergence, staggered.divergence)):
        expected = np.stack([theirs(jnp.asarray(one), grid) for one in v])
        np.testing.assert_allclose(mine(v, LENGTH), expected, atol=1e-12)


def test_a_curl_of_a_streamfunction_has_no_divergence_but_round_off():
    grid = Grid((N, N), (LENGTH, LENGTH))
    psi = np.random.default_rng(0).normal(size=grid.n).astype(np.float32)
    v = np.asarray(staggered.from_streamfunction(jnp.asarray(psi), grid))
    assert 0 < relative_divergence(v[None], LENGTH) < 1e-6
