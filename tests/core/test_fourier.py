import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core import fast, fourier
from sino.core.fourier import derivative_symbol, irfft, laplacian_symbol, rfft, two_thirds_mask
from sino.core.grid import Grid

# Compiled once per size: one by one, their operations take longer to compile.
derivative = jax.jit(fourier.derivative, static_argnums=(1, 2, 3))
truncate = jax.jit(fourier.truncate, static_argnums=(1, 2))
square = jax.jit(fourier.square, static_argnums=(1, 2))

SIZES = [(16,), (17,), (10, 8), (7, 9)]
PAIRS = [  # from, to: down and up, even and odd, one axis kept, both axes in opposite directions
    ((16,), (8,)),
    ((16,), (15,)),
    ((15,), (8,)),
    ((15,), (9,)),
    ((8,), (16,)),
    ((8,), (15,)),
    ((9,), (16,)),
    ((15, 12), (8, 9)),
    ((8, 9), (15, 12)),
    ((12, 8), (12, 16)),
    ((8, 16), (16, 8)),
]


def box(n):
    """A box with a different length along each axis."""
    return Grid(n, tuple(1.0 + 0.7 * d for d in range(len(n))))


def noise(n, channels=2, seed=0):
    """White noise: every mode is there, Nyquist included."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=(channels, *n)))


def below(n):
    """The largest index that `n` points hold with both sine and cosine."""
    return (n - 1) // 2


def interpolation(n, to, keep):
    """Matrix that takes values on `n` points to the values on `to` points of their modes `|k| <= keep`.

    The sum of waves written out (Dirichlet's kernel), so that no FFT and no padding enters the reference.
    """
    x = np.arange(to)[:, None] / to - np.arange(n)[None, :] / n
    return (1 + 2 * sum(np.cos(2 * np.pi * k * x) for k in range(1, keep + 1))) / n


def along_axes(u, matrices):
    for axis, matrix in enumerate(matrices, start=1):
        u = np.moveaxis(np.tensordot(matrix, u, axes=(1, axis)), 0, axis)
    return u


def exact_square(u, keep):
    """`u^2` on its own points, only modes `|k| <= keep` before and after, no alias: by a grid 4 times finer."""
    n = u.shape[1:]
    fine = along_axes(u, [interpolation(m, 4 * m, k) for m, k in zip(n, keep, strict=True)])
    return along_axes(fine**2, [interpolation(4 * m, m, k) for m, k in zip(n, keep, strict=True)])


@pytest.mark.parametrize("n", SIZES)
def test_irfft_inverts_rfft(n):
    u = noise(n)
    u_hat = rfft(u)
    assert u_hat.shape == (2, *n[:-1], n[-1] // 2 + 1)
    np.testing.assert_allclose(irfft(u_hat, n), u, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        u_hat, np.stack([np.fft.rfftn(channel) for channel in np.asarray(u)]), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("n", SIZES)
def test_derivatives_of_single_modes_are_exact(n, order):
    grid = box(n)
    x = np.meshgrid(*(grid.axis(d) for d in range(grid.dim)), indexing="ij")
    for axis in range(grid.dim):
        for index in range(below(n[axis]) + 1):
            k = 2 * np.pi * index / grid.length[axis]
            # A wave along the other axis as well: it must pass through untouched.
            other = 1 + 0.5 * np.sin(2 * np.pi * x[1 - axis] / grid.length[1 - axis]) if grid.dim == 2 else 1.0
            u = np.cos(k * x[axis] + 0.3) * other
            exact = k**order * np.cos(k * x[axis] + 0.3 + order * np.pi / 2) * other
            computed = derivative(jnp.asarray(u)[None], grid, axis, order)[0]
            scale = (np.pi / grid.dx[axis]) ** order  # round-off in u is amplified by the largest symbol
            np.testing.assert_allclose(computed, exact, rtol=0, atol=1e-14 * scale)


@pytest.mark.parametrize("n, axis", [((16,), 0), ((10, 8), 0), ((10, 8), 1)])
def test_derivatives_of_the_nyquist_mode(n, axis):
    """Odd ones are zero (the sine that would be the answer vanishes at the points), even ones are exact.

    In two dimensions with a wave along the other axis: without one, the inverse transform would hide a wrong symbol.
    """
    grid = box(n)
    k = np.pi / grid.dx[axis]
    u = (-1.0) ** np.arange(n[axis])
    if grid.dim == 2:
        wave = np.cos(2 * np.pi * np.arange(n[1 - axis]) / n[1 - axis] + 0.3)
        u = np.outer(u, wave) if axis == 0 else np.outer(wave, u)
    u = jnp.asarray(u)[None]
    for order in (1, 3):
        assert np.abs(derivative(u, grid, axis, order)).max() < 1e-14 * k**order
        symbol = np.broadcast_to(derivative_symbol(grid, axis, order), grid.indices()[axis].shape)
        assert np.all((symbol == 0) == (2 * np.abs(grid.indices()[axis]) % n[axis] == 0))  # the mean and Nyquist
    for order, sign in ((2, -1), (4, 1)):
        np.testing.assert_allclose(derivative(u, grid, axis, order), sign * k**order * u, rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_the_laplacian_is_the_sum_of_second_derivatives(n):
    grid = box(n)
    u = noise(n)
    u_hat = rfft(u)
    computed = irfft(u_hat * jnp.asarray(laplacian_symbol(grid), u_hat.dtype)[None], n)
    expected = sum(derivative(u, grid, axis, 2) for axis in range(grid.dim))
    np.testing.assert_allclose(computed, expected, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("n, to", PAIRS)
def test_truncate_keeps_the_values_of_the_retained_modes(n, to):
    """... and nothing else: of white noise, exactly the waves both grids hold with sine and cosine remain."""
    u = noise(n)
    computed = irfft(truncate(rfft(u), n, to), to)
    keep = [below(min(a, b)) for a, b in zip(n, to, strict=True)]
    # An axis whose size does not change keeps everything, its Nyquist mode included.
    matrices = [np.eye(a) if a == b else interpolation(a, b, k) for a, b, k in zip(n, to, keep, strict=True)]
    np.testing.assert_allclose(computed, along_axes(np.asarray(u), matrices), rtol=0, atol=2e-14)


@pytest.mark.parametrize("n, to", [((16,), (8,)), ((8,), (16,)), ((12, 8), (12, 16)), ((16, 9), (8, 9))])
def test_truncate_zeroes_the_nyquist_mode_of_the_smaller_grid(n, to):
    (axis,) = (d for d in range(len(n)) if n[d] != to[d])
    small = min(n[axis], to[axis])
    shape = [-1 if d == axis else 1 for d in range(len(n))]
    wave = np.cos(np.pi * small * np.arange(n[axis]) / n[axis]).reshape(shape)
    u = jnp.asarray(np.broadcast_to(wave, n))[None]
    assert np.abs(truncate(rfft(u), n, to)).max() < 1e-13 * u.size
    assert np.abs(rfft(u)).max() > 0.4 * u.size  # it was there


@pytest.mark.parametrize(
    "n, middle, to",
    [
        ((24,), (16,), (8,)),
        ((8,), (12,), (15,)),
        ((16, 15), (12, 12), (8, 9)),
    ],
)
def test_truncating_in_two_stages_is_truncating_in_one(n, middle, to):
    u_hat = rfft(noise(n))
    in_two = truncate(truncate(u_hat, n, middle), middle, to)
    np.testing.assert_allclose(in_two, truncate(u_hat, n, to), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n, to", [(n, to) for n, to in PAIRS if all(a <= b for a, b in zip(n, to, strict=True))])
def test_up_then_down_is_the_identity_below_nyquist(n, to):
    u_hat = rfft(noise(n))
    nyquist = np.array(False)
    for d, index in enumerate(Grid(n, (1.0,) * len(n)).indices()):
        nyquist = nyquist | ((2 * np.abs(index) == n[d]) & (n[d] != to[d]))
    back = truncate(truncate(u_hat, n, to), to, n)
    np.testing.assert_allclose(back, np.where(nyquist, 0, u_hat), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", SIZES)
def test_truncating_to_the_same_size_is_the_identity(n):
    u_hat = rfft(noise(n))
    np.testing.assert_array_equal(truncate(u_hat, n, n), u_hat)


@pytest.mark.parametrize("n", SIZES)
def test_the_padded_square_is_exact_below_nyquist(n):
    u = noise(n)
    computed = irfft(square(rfft(u), box(n), "padded"), n)
    np.testing.assert_allclose(computed, exact_square(np.asarray(u), [below(m) for m in n]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_two_thirds_zeroes_the_modes_above_a_third(n):
    u_hat = square(rfft(noise(n)), box(n), "two-thirds")
    above = np.array(False)
    for d, index in enumerate(box(n).indices()):
        above = above | (3 * np.abs(index) > n[d])
    assert above.any() and not np.any(np.asarray(u_hat)[:, above])
    # A product of removed modes leaves nothing behind either: they are removed before it, not only after.
    high = jnp.where(above[None], rfft(noise(n)), 0)
    assert np.abs(square(high, box(n), "two-thirds")).max() < 1e-12


@pytest.mark.parametrize("n", [*SIZES, (15,), (48,), (9, 8)])
def test_two_thirds_has_no_alias_in_the_retained_modes(n):
    """Also where n is a multiple of 3: the mode n/3, if retained, has its own product alias onto itself."""
    u = noise(n)
    mask = two_thirds_mask(box(n))
    indices = np.broadcast_arrays(*box(n).indices())
    keep = [int(np.abs(index)[mask].max()) for index in indices]
    assert all(3 * (k + 1) >= m for k, m in zip(keep, n, strict=True))  # no more is thrown away than must be
    computed = irfft(square(rfft(u), box(n), "two-thirds"), n)
    np.testing.assert_allclose(computed, exact_square(np.asarray(u), keep), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [16, 15])
def test_the_plain_square_aliases(n):
    """`cos(kx)^2` holds the wave 2k; where the grid cannot, it turns up as n - 2k."""
    k = 6
    u = jnp.asarray(np.cos(2 * np.pi * k * np.arange(n) / n))[None]
    amplitude = np.abs(square(rfft(u), box((n,)), "none"))[0] * 2 / n
    assert amplitude[n - 2 * k] == pytest.approx(0.5, abs=1e-14)
    for dealias in ("padded", "two-thirds"):
        clean = np.abs(square(rfft(u), box((n,)), dealias))[0]
        assert np.abs(clean[1:]).max() < 1e-13 * n


@pytest.mark.parametrize("n", SIZES)
def test_all_squares_agree_on_resolved_data(n):
    """Modes up to n/6 have a product that fits under n/3: nothing is aliased, nothing is removed."""
    low = np.array(True)
    for d, index in enumerate(box(n).indices()):
        low = low & (6 * np.abs(index) < n[d])
    u_hat = jnp.where(low[None], rfft(noise(n)), 0)
    plain = square(u_hat, box(n), "none")
    np.testing.assert_allclose(plain, rfft(irfft(u_hat, n) ** 2), rtol=0, atol=1e-12)
    np.testing.assert_allclose(square(u_hat, box(n), "padded"), plain, rtol=0, atol=1e-12)
    np.testing.assert_allclose(square(u_hat, box(n), "two-thirds"), plain, rtol=0, atol=1e-12)


def test_square_keeps_single_precision():
    u_hat = rfft(noise((16,)).astype(jnp.float32))
    for dealias in ("padded", "two-thirds", "none"):
        assert square(u_hat, box((16,)), dealias).dtype == jnp.complex64
    assert derivative(noise((16,)).astype(jnp.float32), box((16,))).dtype == jnp.float32


@pytest.mark.parametrize("n", [1, 2, 16, 17, 256, 258])
def test_transforms_are_the_same_on_an_accelerator(getkey, monkeypatch, n):
    """By a matrix product on small grids: values and gradients."""
    u, weight = (jax.random.normal(getkey(), (3, n)) for _ in range(2))
    u_hat = jnp.fft.rfft(u) + 1j  # an imaginary part where none belongs is ignored

    def both(u, u_hat):
        spectrum = rfft(u)
        return jnp.sum(weight * irfft(u_hat * spectrum, (n,))), spectrum

    def results():
        gradient = jax.jit(jax.value_and_grad(both, argnums=(0, 1), has_aux=True))
        return jax.tree.leaves(gradient(u, u_hat))

    def by_library():
        return "fft[" in str(jax.make_jaxpr(lambda u: rfft(u))(u))  # a function of its own: it is traced anew

    assert by_library()
    plain = results()
    monkeypatch.setattr(fast, "accelerated", lambda: True)
    assert by_library() == (n > fourier.LONGEST_PRODUCT)
    for mine, other in zip(results(), plain, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-11 * n)
