"""Figures are drawn, saved, and show what they were given."""

import numpy as np

from sino.report import figures


def saved(figure, path):
    figures.save(figure, path)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 5_000
    return figure


def test_space_time(tmp_path):
    field = np.random.default_rng(0).normal(size=(30, 16))
    figure = saved(figures.space_time(field, np.arange(30.0), "title"), tmp_path / "deep" / "a.png")
    (image,) = figure.axes[0].images
    np.testing.assert_allclose(image.get_array(), field.T)


def test_vorticity_rows_may_have_different_grids(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"fine": rng.normal(size=(3, 32, 32)), "coarse": rng.normal(size=(3, 8, 8))}
    figure = saved(figures.compare_vorticity(rows, np.array([0.0, 1.0, 2.5])), tmp_path / "a.png")
    assert [ax.get_title() for ax in figure.axes[:3]] == ["t = 0.00", "t = 1.00", "t = 2.50"]
    limits = {image.get_clim() for ax in figure.axes for image in ax.images}
    assert len(limits) == 1  # one scale for all
