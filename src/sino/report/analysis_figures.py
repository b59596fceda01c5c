"""Figures of `sino analyze`: variance of the kernels, scaling laws, cost against error."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sino.report.analyses import Cost, CostRow, Kernel, Scaling
from sino.report.figures import COLOURS
from sino.report.names import BENCHMARK_TITLES, GREY, MODEL_TITLES, SINO, colour, marker, ratio
from sino.report.paper import EXPONENTS
from sino.report.picture import INK, Picture, drawing
from sino.report.runs import Group

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
        f"variance-{group.setting.slug}-{_slug(group)}",
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


def _slug(group: Group) -> str:
    return "".join(c if c.isalnum() else "-" for c in group.label.lower())


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
                name = MODEL_TITLES.get(fit.model, fit.model)
                law = fit.prefactor * ends**-fit.exponent
                ax.plot(ends, law, color=colour(fit.model), label=f"{name}: {exponent}")
            ax.set(xscale="log", yscale="log", xlabel=words[kind], ylabel="mean squared error")
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
    gains = [f"{ratio(value)} times {TRUTHS[truth]}" for truth, value in cost.speedup.items() if value is not None]
    gain = f"Speed-up at equal error: {'; '.join(gains)}." if gains else "No speed-up at equal error could be read off."
    return Picture(
        f"cost-{group.setting.slug}-{_slug(group)}",
        f"{group.setting.title}, {group.label}: cost against error",
        "Error against wall clock per simulated time unit, on logarithmic scales, of the closure, the coarse solver, "
        f"finer grids and a spectral solver. {gain}",
        f"Measured on {cost.device}, {cost.precision}, batch {cost.batch}. Lower and further left is better. {gain}",
        figure,
    )


def _cost(ax: Axes, cost: Cost, truth: str, group: Group) -> None:
    def points(rows: list[CostRow]) -> tuple[list[float], list[float]]:
        return [row.seconds_per_time for row in rows], [row.errors[truth] or np.nan for row in rows]

    known = [row for row in cost.rows if row.errors[truth] is not None]
    kinds = {
        "finer grids": ([r for r in known if r.what == "coarse" or r.what.startswith("fine")], INK, "o--"),
        "spectral solver": ([r for r in known if r.what.startswith("spectral")], "#0072B2", "s-."),
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
    ax.set(xscale="log", yscale="log", xlabel="seconds per time unit", ylabel="mean squared error")
    ax.set_title(TRUTHS[truth])
    ax.margins(0.12)
    ax.legend()
