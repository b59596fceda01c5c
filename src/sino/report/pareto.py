"""The figure of error against parameters."""

from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sino.models import PAPER_COUNTS
from sino.report.curves import FLAT_STYLES
from sino.report.names import MODEL_TITLES, colour, marker
from sino.report.paper import ERRORS
from sino.report.picture import INK, Picture, drawing, legend_below, log_axis
from sino.report.runs import Collection, Group, Setting


def error_against_parameters(runs: Collection) -> Picture | None:
    """Mean squared error of every network against its size, beside the paper's."""
    panels: dict[Setting, list[Group]] = {}
    for group in runs.groups:
        if group.parameters and group.setting.own_grid and _means(group):
            panels.setdefault(group.setting, []).append(group)
    if not panels:
        return None
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    with drawing(max(3.2 * columns, 5.0), 2.9 * rows + 0.7) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        drawn: dict[str, None] = {}
        for ax, (setting, groups) in zip(axes, panels.items(), strict=False):
            if setting.preset == "paper" and setting.scheme == "paper":
                drawn |= dict.fromkeys(_paper_points(ax, setting))
            for group in groups:
                _our_point(ax, group)
                drawn[group.model] = None
            coarse = runs.coarse(setting, "paper")
            if coarse is not None and coarse.mean is not None:
                ax.axhline(coarse.mean, **FLAT_STYLES["none"])
                drawn["none"] = None
            ax.set(title=setting.title, xlabel="parameters")
            log_axis(ax.xaxis)
            log_axis(ax.yaxis)
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        for ax in axes[::columns]:
            ax.set_ylabel("mean squared error")
        handles = [_handle(model) for model in MODEL_TITLES if model in drawn]
        if any(s.preset == "paper" for s in panels):
            handles.append(Line2D([], [], color=INK, marker="o", fillstyle="none", linestyle="", label="the paper's"))
        legend_below(figure, handles)
    names = ", ".join(setting.title for setting in panels)
    hollow = " Hollow: what the paper reports." if any(s.preset == "paper" for s in panels) else ""
    return Picture(
        "error-against-parameters",
        "Error against parameters",
        f"Scatter plots of mean squared error against number of parameters for {names}.",
        "Mean squared error after the training window, on the training trajectories (the paper's protocol), against "
        "the number of parameters. Filled: ours, mean over seeds, with the range; outlined, trained by the "
        f"paper's schedule.{hollow} Grey lines: the coarse grid alone, and classical closures.",
        figure,
    )


def _our_point(ax: Axes, group: Group) -> None:
    """A network's size and error with its range over seeds; a level for a closure without a network."""
    means = _means(group)
    if group.model in FLAT_STYLES:
        ax.axhline(fmean(means), **FLAT_STYLES[group.model])
        return
    tone, size = colour(group.model), group.parameters or 0
    ax.plot([size, size], [min(means), max(means)], "-", color=tone, linewidth=1)
    edge = {"markeredgecolor": INK, "markeredgewidth": 0.9} if group.schedule == "paper" else {}
    ax.plot(size, fmean(means), marker(group.model), color=tone, markersize=11 if group.model == "sino" else 7, **edge)


def _paper_points(ax: Axes, setting: Setting) -> list[str]:
    dim = setting.facts.dim
    for model, (average, _) in ERRORS[setting.benchmark].items():
        style = {"color": colour(model), "markersize": 10 if model == "sino" else 6}
        ax.plot(PAPER_COUNTS[model][dim - 1], average, marker(model), **style, fillstyle="none", markeredgewidth=1)
    return list(ERRORS[setting.benchmark])


def _handle(model: str) -> Line2D:
    if model in FLAT_STYLES:
        return Line2D([], [], **FLAT_STYLES[model], label=MODEL_TITLES[model])
    style: dict[str, Any] = {"color": colour(model), "marker": marker(model), "linestyle": ""}
    return Line2D([], [], **style, markersize=9 if model == "sino" else 6, label=MODEL_TITLES[model])


def _means(group: Group) -> list[float]:
    return [score.mean for score in group.scores("paper") if score.mean is not None]
