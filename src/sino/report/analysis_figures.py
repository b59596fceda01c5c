"""Figures of `sino analyze`: variance of the kernels, scaling laws, cost against error."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sino.report.analyses import Cost, CostRow, Kernel, Scaling
from sino.report.figures import COLOURS
from sino.report.names import BENCHMARK_TITLES, GREY, MODEL_TITLES, SINO, colour, marker, speed
from sino.report.paper import EXPONENTS
from sino.report.picture import INK, Picture, drawing, log_axis
from sino.report.runs import Collection, Group

TRUTHS = {"dataset": "against the dataset's fine solution", "spectral": "against a converged spectral solution"}


def kernel_variance(group: Group) -> Picture | None:
    """Cumulative variance of a network's kernels by principal component, per block and branch."""
    kernels = next((run.analysis.kernels for run in group.runs if run.analysis and run.analysis.kernels), ())
    if not kernels:
        return None
    branches = [b for b in ("spatial", "frequency") if any(k.branch == b for k in kernels)]
    with drawing(3.6 * len(branches), 3.0) as figure:
        for ax, branch in zip(figure.subplots(1, len(branches), squeeze=False)[0], branches, strict=True):
            _variance(ax, [k for k in kernels if k.branch == branch], branch)
    sizes = sorted({k.bottleneck for k in kernels})
    names = ", ".join(map(str, sizes))
    forced = (
        " With n = 2 the centred family has rank 2 at most, so two components explain everything by construction."
        if sizes == [2]
        else ""
    )
    return Picture(
        f"variance-{group.slug}",
        f"{group.setting.title}, {group.label}: principal components of the kernels",
        f"Cumulative variance of the generated kernels by number of components for the {' and '.join(branches)} "
        f"branch, bottleneck {names}; lines at 90 and 95 per cent.",
        f"Kernels over all coordinates (samples), their entries as features. Bottleneck n = {names}.{forced} Dashed: "
        "90 % and 95 %, which the paper's curves pass at two and three components.",
        figure,
    )


def _variance(ax: Axes, kernels: list[Kernel], branch: str) -> None:
    for k, tone, shape in zip(kernels, COLOURS, "os^Dvp", strict=False):
        share = 100 * np.array((0.0, *k.explained[:8]))
        ax.plot(range(len(share)), share, shape + "-", color=tone, markersize=4, label=f"block {k.block + 1}")
    for level in (90, 95):
        ax.axhline(level, color=GREY, linestyle="--", linewidth=0.8)
    ax.set(title=f"{branch} branch", xlabel="components", ylabel="variance explained (%)", ylim=(0, 103))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower right")


def approximation(runs: Collection) -> Picture | None:
    """Error of a smooth family of kernels against the size of the bottleneck that generates it."""
    found = (run.analysis.approximation for run in runs.runs if run.analysis and run.analysis.approximation)
    rows = next(found, ())
    if not rows:
        return None
    sizes = [row.bottleneck for row in rows]
    with drawing(4.4, 3.0) as figure:
        ax = figure.subplots()
        ax.plot(sizes, [row.fitted for row in rows], "*-", color=SINO, markersize=9, label="a trained hypernetwork")
        ax.plot(sizes, [row.limit for row in rows], "o--", color=GREY, markersize=4, label="the best of any n features")
        ax.set(xlabel="bottleneck n", ylabel="relative error")
        log_axis(ax.xaxis)
        log_axis(ax.yaxis)
        ax.legend()
    return Picture(
        "approximation",
        "What a bottleneck can hold",
        "Relative error of a smooth family of kernels against the size of the bottleneck, on logarithmic scales: it "
        f"falls from {rows[0].fitted:.2g} at n = {sizes[0]} to {rows[-1].fitted:.2g} at n = {sizes[-1]}.",
        "Universal approximation, measured: a hypernetwork is fitted to an analytic family of kernels. Dashed: the "
        "principal components of the family, below which no bottleneck of that size can get.",
        figure,
    )


def scaling_laws(scaling: Scaling) -> Picture | None:
    """Error against parameters and against seconds, with the fitted power laws."""
    kinds = [kind for kind in ("parameters", "seconds") if any(fit.against == kind for fit in scaling.fits)]
    if not kinds:
        return None
    words = {"parameters": "parameters", "seconds": "seconds of training"}
    with drawing(3.8 * len(kinds), 3.2) as figure:
        for ax, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
            for fit in (fit for fit in scaling.fits if fit.against == kind):
                x, error = np.array(fit.points, dtype=float).T
                ends = np.array([x.min(), x.max()])
                exponent = f"a = {fit.exponent:.2f}"
                if fit.interval is not None:
                    exponent += f" ({fit.interval[0]:.2f} to {fit.interval[1]:.2f})"
                ax.plot(x, error, marker(fit.model), color=colour(fit.model), markersize=7)
                law = fit.prefactor * ends**-fit.exponent
                ax.plot(ends, law, color=colour(fit.model), label=f"{fit.label}: {exponent}")
            ax.set(xlabel=words[kind], ylabel="mean squared error")
            log_axis(ax.xaxis)
            log_axis(ax.yaxis)
            ax.legend(fontsize=7)
    title = BENCHMARK_TITLES.get(scaling.benchmark, scaling.benchmark)
    paper = EXPONENTS.get(scaling.benchmark, {})
    beside = ", ".join(f"{MODEL_TITLES[model]} {exponent:.3f}" for model, exponent in paper.items())
    return Picture(
        f"scaling-{scaling.benchmark}",
        f"{title}: scaling laws",
        f"Mean squared error against {' and '.join(words[k] for k in kinds)} on logarithmic scales with fitted lines.",
        "Fits of error = c x^-a, with 95 % intervals of a."
        + (f" The paper's exponents against parameters: {beside}." if beside else ""),
        figure,
    )


def cost_against_error(group: Group) -> Picture | None:
    """Wall clock per simulated time against error: closure, coarse and finer grids, spectral solver."""
    cost = next((run.analysis.cost for run in group.runs if run.analysis and run.analysis.cost), None)
    if cost is None:
        return None
    truths = [t for t in TRUTHS if any(row.errors[t] is not None for row in cost.rows)]
    if not truths:
        return None
    with drawing(4.2 * len(truths), 3.3) as figure:
        for ax, truth in zip(figure.subplots(1, len(truths), squeeze=False)[0], truths, strict=True):
            _cost(ax, cost, truth, group)
    gains = [f"{speed(value)} {TRUTHS[truth]}" for truth, value in cost.speedup.items() if value is not None]
    gain = "No finer grid has the closure's error."
    if gains:
        gain = f"At equal error the closure is {', '.join(gains)} than its own solver on a finer grid."
    return Picture(
        f"cost-{group.slug}",
        f"{group.setting.title}, {group.label}: cost against error",
        "Error against wall clock per simulated time unit, on logarithmic scales, of the closure, the coarse solver, "
        f"finer grids and a better classical scheme. {gain}",
        f"Measured on {cost.device}, {cost.precision}, batch {cost.batch}. Lower and further left is better. {gain}",
        figure,
    )


def _cost(ax: Axes, cost: Cost, truth: str, group: Group) -> None:
    def points(rows: list[CostRow]) -> tuple[list[float], list[float]]:
        return [row.seconds_per_time for row in rows], [row.errors[truth] or np.nan for row in rows]

    known = [row for row in cost.rows if row.errors[truth] is not None]
    kinds = {
        "finer grids": ([r for r in known if r.what == "coarse" or r.what.startswith("fine")], INK, "o--"),
        "better classical scheme": ([r for r in known if r.what.startswith(("spectral", "strong"))], "#0072B2", "s-."),
        group.label: ([r for r in known if r.what == "closure"], SINO, "*"),
    }
    for label, (rows, tone, style) in kinds.items():
        if rows:
            rows = sorted(rows, key=lambda row: row.cells)
            x, y = points(rows)
            size = 12 if style == "*" else 5
            ax.plot(x, y, style, color=tone, label=label, markersize=size, linewidth=1)
            for row in rows:
                where = (row.seconds_per_time, row.errors[truth] or 0.0)
                ax.annotate(str(row.cells), where, xytext=(5, 4), textcoords="offset points", fontsize=7)
    ax.set(xlabel="seconds per time unit", ylabel="mean squared error", title=TRUTHS[truth])
    ax.margins(0.12)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    ax.legend()
