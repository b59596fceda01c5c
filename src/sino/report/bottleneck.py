"""SINO by the size of its bottlenecks, beside finer grids without a closure."""

from sino.report.cells import average_cell, over_seeds
from sino.report.names import number
from sino.report.paper import BOTTLENECK
from sino.report.runs import Collection, Group, Setting
from sino.report.table import Cell, Column, Table, absent, make_table, mark_lowest, name_cell


def bottleneck_table(runs: Collection) -> Table | None:
    """SINO by the size of its bottlenecks, beside finer grids; None where no run bears on it."""
    sizes = (2, 8, 16, 32)
    by_setting = {
        s: {n: g for g in runs.of(s) for n in sizes if g.bottleneck == n and g.schedule == _schedule(runs, s)}
        for s in runs.settings
        if s.own_grid
    }
    relevant = {
        s: found
        for s, found in by_setting.items()
        if set(found) - {2} or (found and s.benchmark in BOTTLENECK and s.preset == "paper")
    }
    if not relevant:
        return None
    rows = []
    for setting, found in relevant.items():
        comparable = setting.preset == "paper" and setting.scheme == "paper"
        paper = BOTTLENECK.get(setting.benchmark, {}) if comparable else {}
        cells = [_bottleneck_cell(found.get(n), paper.get(n)) for n in sizes]
        rows.append([name_cell(setting.title), *mark_lowest([*cells, *_finer_cells(runs, setting, comparable)])])
    columns = [Column("Flow", numeric=False)]
    columns += [Column(f"n = {n}", over="SINO, both bottlenecks") for n in sizes]
    columns += [Column(title, over="No closure") for title in ("coarse", "2 × finer", "4 × finer")]
    note = (
        "Mean over seeds on the training trajectories after the training window, the paper's protocol; finer grids as "
        "the cost analysis measured them, on some unseen trajectories."
    )
    return make_table("bottleneck", "Size of the bottleneck", columns, rows, [note])


def _schedule(runs: Collection, setting: Setting) -> str:
    """The schedule that most bottlenecks of a setting were trained with; ours, if there are as many of both."""
    schedules = [g.schedule for g in runs.of(setting) if g.bottleneck is not None]
    return "paper" if schedules.count("paper") > schedules.count("ours") else "ours"


def _bottleneck_cell(group: Group | None, paper: float | None) -> Cell:
    beside = () if paper is None else (f"paper {number(paper)}",)
    if group is None:
        return absent("not run", *beside)
    return over_seeds(group, "paper", None if paper is None else (paper, paper))[0]


def _finer_cells(runs: Collection, setting: Setting, comparable: bool) -> list[Cell]:
    """The solver alone, on the coarse grid and on finer ones, as the cost analysis measured them."""
    costs = [run.analysis.cost for g in runs.of(setting) for run in g.runs if run.analysis and run.analysis.cost]
    rows = {row.cells: row.errors["dataset"] for cost in costs for row in cost.rows if row.what.startswith("fine")}
    cells = []
    for n in (setting.coarse, 2 * setting.coarse, 4 * setting.coarse):
        paper = setting.facts.paper_errors.get(n) if comparable else None
        beside = () if paper is None else (f"paper {number(paper)}",)
        score = runs.coarse(setting, "paper") if n == setting.coarse else None
        if score is not None:
            cells.append(average_cell([score], *beside))
        elif n == setting.coarse or rows.get(n) is None:
            cells.append(absent("run sino evaluate" if n == setting.coarse else "run sino analyze", *beside))
        else:
            cells.append(Cell(number(rows[n] or 0.0), rows[n], beside))
    return cells
