import numpy as np
import pytest

from sino.core.grid import Grid

SIZES = [(8,), (7,), (8, 6), (7, 5), (6, 5), (4, 3, 5)]


def test_spacing_and_coordinates():
    grid = Grid((4, 5), (2.0, 10.0))
    assert grid.dim == 2
    assert grid.dx == (0.5, 2.0)
    np.testing.assert_array_equal(grid.axis(0), [0.0, 0.5, 1.0, 1.5])
    np.testing.assert_array_equal(grid.axis(1, 0.5), [1.0, 3.0, 5.0, 7.0, 9.0])
    np.testing.assert_array_equal(grid.axis(0, 1.0), [0.5, 1.0, 1.5, 2.0])


@pytest.mark.parametrize("n", SIZES)
def test_indices_are_those_of_rfftn(n):
    """Put one wave of each index on the grid: `rfftn` must find it exactly where `indices` says."""
    grid = Grid(n, (1.0,) * len(n))
    indices = np.broadcast_arrays(*grid.indices())
    assert indices[0].shape == (*n[:-1], n[-1] // 2 + 1)
    points = np.meshgrid(*(np.arange(m) / m for m in n), indexing="ij")
    rng = np.random.default_rng(0)
    for position in rng.permutation(indices[0].size)[:12]:
        place = np.unravel_index(position, indices[0].shape)
        phase = 2 * np.pi * sum(index[place] * x for index, x in zip(indices, points, strict=True))
        spectrum = np.fft.rfftn(np.cos(phase))
        # The only other place is that of the opposite wave, where the half spectrum holds both (last index 0 or n/2).
        allowed = np.ones(spectrum.shape)
        allowed[place] = 0
        allowed[(*(-p % m for p, m in zip(place[:-1], n[:-1], strict=True)), place[-1])] = 0
        assert abs(spectrum[place]) > 0.4 * np.prod(n)
        assert np.abs(spectrum * allowed).max() < 1e-12 * np.prod(n)


@pytest.mark.parametrize("n", SIZES)
def test_indices_broadcast_without_being_expanded(n):
    for axis, index in enumerate(Grid(n, (1.0,) * len(n)).indices()):
        assert index.ndim == len(n)
        assert all(size == 1 for d, size in enumerate(index.shape) if d != axis)
        assert index.dtype == np.float64


def test_the_nyquist_index_is_negative_on_full_axes_and_positive_on_the_half_axis():
    first, last = Grid((8, 6), (1.0, 1.0)).indices()
    assert first.min() == -4 and first.max() == 3
    assert last.min() == 0 and last.max() == 3


def test_wavenumbers_count_waves_per_box():
    x, y = Grid((4, 4), (2 * np.pi, 0.5)).wavenumbers()
    np.testing.assert_allclose(x[:, 0], [0, 1, -2, -1], rtol=1e-15)
    np.testing.assert_allclose(y[0], [0, 4 * np.pi, 8 * np.pi], rtol=1e-15)


def test_equal_grids_hash_alike():
    """A grid is a static field: two solvers on equal grids must share one compilation."""
    a, b, c = Grid((8, 8), (1.0, 2.0)), Grid((8, 8), (1.0, 2.0)), Grid((8, 8), (1.0, 1.0))
    assert a == b and hash(a) == hash(b)
    assert a != c


@pytest.mark.parametrize(
    "n, length",
    [((8,), (1.0, 1.0)), ((8, 8), (1.0,)), ((), ()), ((0,), (1.0,)), ((8, -1), (1.0, 1.0)), ((8,), (0.0,))],
)
def test_impossible_grids_are_refused(n, length):
    with pytest.raises(ValueError, match="a grid needs"):
        Grid(n, length)
