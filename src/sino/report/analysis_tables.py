"""Tables of `sino analyze`: the kernels' rank and bounds, scaling laws, and cost at equal accuracy."""

from sino.report.analyses import Bound, Cost, Kernel
from sino.report.names import BENCHMARK_TITLES, number, speed
from sino.report.paper import EXPONENTS
from sino.report.runs import Collection
from sino.report.table import Cell, Column, Table, absent, make_table, name_cell


def kernel_table(runs: Collection) -> Table | None:
    """Rank, variance and bounds of the kernels of one seed of each group; None if no run was analysed."""
    titles = ("Method", "Flow", "Block", "Branch", "n", "Rank", "at most")
    columns = [Column(title, numeric=title not in ("Method", "Flow", "Branch")) for title in titles]
    columns += [Column(title, over="Variance in components") for title in ("1", "2", "3")]
    for over in ("Lipschitz constant", "Operator norm"):
        columns += [Column(title, over=over) for title in ("found", "bound")]
    columns += [Column(title, over="Holds", numeric=False) for title in ("our bounds", "the paper's")]
    rows = []
    for group in runs.groups:
        analysed = next((run.analysis for run in group.runs if run.analysis is not None), None)
        if analysed is None:
            continue
        for bound in analysed.bounds:
            same = [k for k in analysed.kernels if (k.block, k.branch) == (bound.block, bound.branch)]
            cells = [name_cell(group.label), name_cell(group.setting.title), _count(bound.block + 1)]
            rows.append([*cells, name_cell(bound.branch), *_family(same), *_bounds(bound)])
    if not rows:
        return None
    notes = [
        "Of the first seed that was analysed. The head of a hypernetwork is affine, so a family of kernels has rank "
        "n + 1 at most, and n after centring: with n = 2 two components explain everything by construction.",
        "Found: the largest slope of a sample, and the norm by power iteration. The paper's bound of the norm forgets "
        "the bias of the head, so it may fail.",
    ]
    return make_table("kernels", "Kernels: rank and bounds", columns, rows, notes)


def _family(kernels: list[Kernel]) -> list[Cell]:
    """Rank and components of generated kernels; nothing for a network that stores its own."""
    if not kernels:
        return [Cell("–")] * 6
    (k,) = kernels
    shares = [k.explained[min(i, len(k.explained) - 1)] for i in range(3)] if k.explained else []
    cells = [_count(k.bottleneck), _count(k.rank), _count(k.rank_bound)]
    return cells + ([Cell(f"{100 * share:.1f} %", share) for share in shares] or [absent("constant")] * 3)


def _bounds(b: Bound) -> list[Cell]:
    cells = [Cell("–") if v is None else _value(v) for v in (b.largest_slope, b.lipschitz_bound, b.norm, b.norm_bound)]
    return [*cells, *(name_cell({True: "yes", False: "no", None: "–"}[holds]) for holds in (b.holds, b.paper_holds))]


def scaling_table(runs: Collection) -> Table | None:
    """Exponents of error against size and time, beside the paper's; None if none was fitted."""
    titles = ("Method", "Flow", "Against", "Exponent", "95 % interval", "Paper", "Points")
    columns = [Column(title, numeric=title in ("Exponent", "95 % interval", "Paper", "Points")) for title in titles]
    rows = []
    for scaling in runs.scalings:
        for fit in scaling.fits:
            paper = EXPONENTS.get(scaling.benchmark, {}).get(fit.model) if fit.against == "parameters" else None
            interval = "–" if fit.interval is None else " to ".join(f"{end:.3f}" for end in fit.interval)
            words = (fit.label, BENCHMARK_TITLES.get(scaling.benchmark, scaling.benchmark))
            cells = [*map(name_cell, (*words, fit.against)), Cell(f"{fit.exponent:.3f}", fit.exponent), Cell(interval)]
            cells.append(Cell("–") if paper is None else Cell(f"{paper:.3f}", paper))
            rows.append([*cells, _count(len(fit.points))])
    if not rows:
        return None
    notes = ["Fits of error = c x^-a; the paper gives neither intervals nor the points of its fits."]
    return make_table("scaling", "Scaling laws", columns, rows, notes)


def cost_tables(runs: Collection) -> list[Table]:
    """Wall clock against error, for every group whose cost was measured."""
    tables = []
    for group in runs.groups:
        cost = next((run.analysis.cost for run in group.runs if run.analysis and run.analysis.cost), None)
        if cost is None:
            continue
        columns = [Column("Simulation", numeric=False), Column("Cells per axis"), Column("Seconds per time unit")]
        columns += [Column(title, over="Error against") for title in ("the dataset", "a spectral solution")]
        rows = [
            [
                name_cell(row.what),
                _count(row.cells),
                Cell(number(row.seconds_per_time), row.seconds_per_time),
                *(_value(row.errors[truth]) for truth in ("dataset", "spectral")),
            ]
            for row in cost.rows
        ]
        name, title = f"cost-{group.slug}", f"{group.setting.title}, {group.label}: cost"
        tables.append(make_table(name, title, columns, rows, _cost_notes(cost)))
    return tables


def _cost_notes(cost: Cost) -> list[str]:
    notes = [f"On {cost.device}, {cost.precision}, batch {cost.batch}, measured side by side."]
    for truth, words in (("dataset", "the dataset"), ("spectral", "a spectral solution")):
        gain, strong = cost.speedup[truth], cost.speedup_strong[truth]
        reason = cost.reason[truth] or "the closure's error is not between those of the grids"
        text = (
            f"not comparable, since {reason}" if gain is None else f"{speed(gain)} than its own solver on a finer grid"
        )
        text += "" if strong is None else f", {speed(strong)} than the better classical scheme"
        notes.append(f"At equal error against {words}, the closure is {text}.")
    if cost.break_even is not None:
        notes.append(f"Data and training are paid for after {cost.break_even:,.0f} simulated time units.")
    return notes


def _count(value: int) -> Cell:
    return Cell(f"{value:,}", float(value))


def _value(value: float | None) -> Cell:
    return absent("not computed") if value is None else Cell(f"{value:.3g}", float(value))
