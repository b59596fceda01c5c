import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.physics.weno import godunov_flux, reconstruct

fast_reconstruct = jax.jit(reconstruct)
fast_jacobian = jax.jit(jax.jacrev(reconstruct))
SHIFT = 0.7  # keeps the critical points of sin(x + SHIFT) off the faces, where symmetry would flatter the scheme


def averages(primitive, faces):
    """Exact cell averages between `faces`, shape (1, n)."""
    return jnp.asarray(np.diff(primitive(faces)) / np.diff(faces))[None]


def sine_errors(n):
    """Faces, and the errors there of both reconstructions of sin(x + SHIFT) from exact cell averages."""
    faces = 2 * np.pi * np.arange(n + 1) / n
    computed = fast_reconstruct(averages(lambda x: -np.cos(x + SHIFT), faces))
    return faces[1:], [np.abs(np.asarray(side)[0] - np.sin(faces[1:] + SHIFT)) for side in computed]


def observed_order(errors, counts):
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


@pytest.mark.parametrize("side", [0, 1], ids=["from left", "from right"])
def test_reconstruction_is_of_fifth_order(side):
    """On sin, over 40 to 320 cells, in the maximum norm: measured 5.00 everywhere and away from critical points.

    Within |cos| < 0.3, around the critical points, the nonlinear weights leave their linear values: the order is
    4.64 there over this range, with errors still a quarter of the largest ones.
    """
    counts = np.array([40, 80, 160, 320])
    everywhere, away, critical = [], [], []
    for n in counts:
        x, errors = sine_errors(n)
        flat = np.abs(np.cos(x + SHIFT)) < 0.3
        everywhere.append(errors[side].max())
        away.append(errors[side][~flat].max())
        critical.append(errors[side][flat].max())
    assert observed_order(everywhere, counts) == pytest.approx(5, abs=0.1)
    assert observed_order(away, counts) == pytest.approx(5, abs=0.1)
    assert observed_order(critical, counts) > 4.4
    assert everywhere[-1] < 4e-10  # measured: 3.4e-10


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e4])
def test_constants_are_exact(value):
    for side in fast_reconstruct(jnp.full((1, 8), value)):
        np.testing.assert_allclose(side, value, rtol=1e-15)


@pytest.mark.parametrize("degree", [1, 2])
def test_parabolas_are_exact(degree):
    """Each of the three stencils is exact on parabolas, so their mix is, whatever the weights.

    On faces whose stencil does not reach across the periodic seam.
    """
    faces = np.linspace(-1.0, 2.0, 17)
    coefficients = [0.4, -1.3, 2.1][: degree + 1]
    u = averages(np.polynomial.Polynomial(coefficients).integ(), faces)
    exact = np.polynomial.Polynomial(coefficients)(faces[1:])
    for side in fast_reconstruct(u):
        np.testing.assert_allclose(side[0, 2:-3], exact[2:-3], rtol=0, atol=1e-14)


def test_linear_weights_on_data_far_below_epsilon():
    """There the weights are the linear ones and the scheme is the fifth-order upwind one, known by its coefficients."""
    u = 1e-7 * np.random.default_rng(0).normal(size=(1, 16))
    cells = [np.roll(u, -s, axis=-1) for s in range(-2, 4)]
    coefficients = np.array([2, -13, 47, 27, -3]) / 60
    left, right = fast_reconstruct(jnp.asarray(u))
    expected = sum(c * cell for c, cell in zip(coefficients, cells[:5], strict=True))
    np.testing.assert_allclose(left, expected, rtol=0, atol=1e-5 * 1e-7)
    expected = sum(c * cell for c, cell in zip(coefficients, cells[:0:-1], strict=True))
    np.testing.assert_allclose(right, expected, rtol=0, atol=1e-5 * 1e-7)


def test_mirror_symmetry():
    """Seen in a mirror, left is right: face i + 1/2 becomes face n - 2 - i + 1/2."""
    u = jnp.asarray(np.random.default_rng(0).normal(size=(1, 16)))
    left, right = fast_reconstruct(u)
    mirrored_left, mirrored_right = (jnp.roll(side[:, ::-1], -1, axis=-1) for side in fast_reconstruct(u[:, ::-1]))
    np.testing.assert_array_equal(left, mirrored_right)
    np.testing.assert_array_equal(right, mirrored_left)


def test_a_jump_is_reconstructed_without_oscillation():
    """The stencil that does not cross the jump takes over: overshoot 2e-13; the linear weights give 0.18."""
    u = jnp.asarray(np.where(np.arange(32) < 16, 1.0, 0.0))[None]
    for side in fast_reconstruct(u):
        assert side.min() > -1e-12 and side.max() < 1 + 1e-12


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e3])
def test_gradients_on_flat_data_are_finite(value, dtype):
    """And their sums are 1: adding a constant to the data adds it to the faces."""
    u = jnp.full((1, 8), value, dtype)
    for jacobian in fast_jacobian(u):
        assert jacobian.dtype == dtype
        np.testing.assert_allclose(jacobian.sum(axis=(2, 3)), 1, rtol=1e-5)


def pairs():
    """Every ordered pair of 33 values: all signs, equal sides and zeros included."""
    values = np.linspace(-2, 2, 33)
    left, right = np.meshgrid(values, values, indexing="ij")
    return left, right


def test_the_godunov_flux_is_the_exact_one():
    """Brute force: the min of u^2/2 over [left, right] where left <= right, else the max over [right, left] (Osher)."""
    left, right = pairs()
    between = left[:, :1, None]  # the same 33 values: the ends and the sonic point 0 are among them
    inside = (between >= np.minimum(left, right)) & (between <= np.maximum(left, right))
    smallest = np.where(inside, between**2 / 2, np.inf).min(axis=0)
    largest = np.where(inside, between**2 / 2, -np.inf).max(axis=0)
    expected = np.where(left <= right, smallest, largest)
    np.testing.assert_array_equal(godunov_flux(jnp.asarray(left), jnp.asarray(right)), expected)


@pytest.mark.parametrize(
    "left, right, flux",
    [
        (1.0, 2.0, 0.5),  # rarefaction moving right: the left state
        (-2.0, -1.0, 0.5),  # rarefaction moving left: the right state
        (-1.0, 2.0, 0.0),  # transonic rarefaction: the sonic point
        (2.0, 1.0, 2.0),  # shock moving right
        (-1.0, -2.0, 2.0),  # shock moving left
        (2.0, -1.0, 2.0),  # shock between opposite states, moving right
        (1.0, -2.0, 2.0),  # and moving left
        (1.0, -1.0, 0.5),  # at rest
        (0.0, 0.0, 0.0),
    ],
)
def test_the_godunov_flux_case_by_case(left, right, flux):
    assert godunov_flux(jnp.asarray(left), jnp.asarray(right)) == flux


def test_the_godunov_flux_is_consistent_and_monotone():
    left, right = pairs()
    flux = np.asarray(godunov_flux(jnp.asarray(left), jnp.asarray(right)))
    np.testing.assert_array_equal(np.diagonal(flux), np.diagonal(left) ** 2 / 2)
    assert np.diff(flux, axis=0).min() >= 0  # nondecreasing in the left state
    assert np.diff(flux, axis=1).max() <= 0  # nonincreasing in the right state
