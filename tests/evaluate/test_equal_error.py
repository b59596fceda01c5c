import math

import pytest

from sino.evaluate.equal_error import Tried, match_error

GRIDS = [Tried(256, 64.0, 1 / 256), Tried(64, 1.0, 1.0), Tried(128, 8.0, 1 / 16)]


def test_half_way_in_logarithms():
    match = match_error(GRIDS, 1 / 4)
    assert match.cells == pytest.approx(64 * math.sqrt(2))
    assert match.seconds == pytest.approx(math.sqrt(8))
    assert match.reason is None


def test_every_grid_matches_itself():
    for grid in GRIDS:
        match = match_error(GRIDS, grid.error)
        assert (match.cells, match.seconds) == (pytest.approx(grid.cells), pytest.approx(grid.seconds))


def test_outside_of_what_was_tried_there_is_a_reason_instead():
    assert match_error(GRIDS, 1.5) == (None, None, "the closure is worse than the solver alone on 64 cells")
    better = match_error(GRIDS, 1e-4, "the strong scheme")
    assert better[:2] == (None, None)
    assert better.reason == "the closure is better than the strong scheme on every grid that was tried, up to 256 cells"
    assert match_error(GRIDS, None).reason == "the closure blew up"
    assert match_error([Tried(64, 1.0, None)], 0.1).reason == "no grid has an error to compare with"


def test_a_single_grid_can_only_match_itself():
    one = [Tried(64, 2.0, 0.5)]
    assert match_error(one, 0.5)[:2] == (64.0, 2.0)
    assert "better" in str(match_error(one, 0.4).reason)


def test_grids_that_blew_up_are_passed_over_and_the_coarsest_match_counts():
    blown = [Tried(64, 1.0, 1.0), Tried(96, 3.0, None), Tried(128, 8.0, 1 / 16)]
    assert match_error(blown, 1 / 4).cells == pytest.approx(64 * math.sqrt(2))
    wavy = [Tried(64, 1.0, 1.0), Tried(128, 8.0, 0.1), Tried(256, 64.0, 0.5), Tried(512, 512.0, 0.01)]
    cells = match_error(wavy, 0.3).cells
    assert cells is not None and 64 < cells < 128
