"""Results over seeds as cells of a table: the mean, the minimum, or why there is none."""

from collections.abc import Sequence
from statistics import fmean

from sino.coupling.classical import CLASSICAL
from sino.report.names import number
from sino.report.results import Score
from sino.report.runs import Group
from sino.report.table import Cell, absent

PAPER_SEEDS = 3
"""A group of another number of seeds says so."""


def over_seeds(group: Group, dataset: str, paper: tuple[float, float] | None = None) -> tuple[Cell, Cell]:
    """Mean and minimum over seeds, with the paper's beside; a reason where there is none."""
    average, best = ([], []) if paper is None else ([f"paper {number(value)}"] for value in paper)
    scores = group.scores(dataset)
    if not scores:
        reason = "not evaluated" if group.finished else group.runs[0].state.partition(" at")[0]
        return absent(reason, *average), absent(reason, *best)
    return average_cell(scores, *average, *_seeds(group, len(scores))), best_cell(scores, *best)


def _seeds(group: Group, count: int) -> list[str]:
    """How many seeds there are, if not the paper's number."""
    if count < len(group.runs):
        return [f"{count} of {len(group.runs)} seeds"]
    if count == PAPER_SEEDS or group.model in CLASSICAL:
        return []
    return [f"{count} seed{'s' if count > 1 else ''}"]


def average_cell(scores: Sequence[Score], *remarks: str) -> Cell:
    """Mean over seeds; one trajectory that blew up leaves none, and is told."""
    means = [score.mean for score in scores if score.mean is not None]
    if len(means) < len(scores):
        blown, all_of_them = sum(s.blown_up for s in scores), sum(s.trajectories for s in scores)
        return absent(f"blew up {blown} of {all_of_them}", *remarks)
    value = fmean(means)
    return Cell(number(value), value, remarks)


def best_cell(scores: Sequence[Score], *remarks: str) -> Cell:
    """Minimum over seeds; those that blew up cannot be it."""
    means = [score.mean for score in scores if score.mean is not None]
    if not means:
        return average_cell(scores, *remarks)
    return Cell(number(min(means)), min(means), remarks)
