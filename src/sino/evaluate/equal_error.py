"""What a grid of the same error would cost, by interpolation between the grids that were tried."""

import math
from typing import NamedTuple


class Tried(NamedTuple):
    """One grid: cells per axis, seconds per simulated time unit, and its error (None if it blew up)."""

    cells: int
    seconds: float
    error: float | None


class Match(NamedTuple):
    """The grid, not a whole number of cells in general, that has a given error; or the reason why there is none."""

    cells: float | None
    seconds: float | None
    reason: str | None


def match_error(tried: list[Tried], error: float | None, solver: str = "the solver alone") -> Match:
    """The grid of equal error: linear between neighbouring grids in the logarithms of error, cells and seconds.

    Grids that blew up have no error and are passed over. Of several grids with that error the coarsest counts.
    """
    grids = [(g.cells, g.seconds, g.error) for g in sorted(tried) if g.error is not None and g.error > 0]
    if error is None:
        return Match(None, None, "the closure blew up")
    if not grids:
        return Match(None, None, "no grid has an error to compare with")
    if error > grids[0][2]:
        return Match(None, None, f"the closure is worse than {solver} on {grids[0][0]} cells")
    for coarse, fine in zip(grids, grids[1:], strict=False):
        if coarse[2] >= error >= fine[2]:
            return Match(*_between(coarse, fine, error), None)
    if error == grids[0][2]:
        return Match(float(grids[0][0]), grids[0][1], None)
    finest = max(grids)[0]
    return Match(None, None, f"the closure is better than {solver} on every grid that was tried, up to {finest} cells")


def _between(a: tuple[int, float, float], b: tuple[int, float, float], error: float) -> tuple[float, float]:
    """Cells and seconds where the line through two grids has this error."""
    fall = math.log(a[2] / b[2])
    share = math.log(a[2] / error) / fall if fall > 0 else 0.0
    cells, seconds = (math.exp((1 - share) * math.log(a[i]) + share * math.log(b[i])) for i in (0, 1))
    return cells, seconds
