"""Pictures of datasets and of runs, for a first look."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from jaxtyping import Float
from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
FIELD_MAP = "RdBu_r"
ERROR_MAP = "magma"

STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.bbox": "tight",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "axes.prop_cycle": cycler(color=COLOURS),
}


def save(figure: Figure, path: Path) -> Path:
    """Write a figure, making its folder; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def space_time(field: Float[np.ndarray, "t n"], times: Float[np.ndarray, " t"], title: str = "") -> Figure:
    """A 1D trajectory, with time running to the right."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 2), layout="constrained")
        ax, limit = figure.subplots(), float(np.abs(field).max())
        style = {"cmap": FIELD_MAP, "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        image = ax.imshow(field.T, aspect="auto", origin="lower", extent=(times[0], times[-1], 0, 1), **style)
        ax.set(ylabel="x / L", yticks=(0, 0.5, 1), xlabel="time")
        ax.set_title(title, loc="left")
        figure.colorbar(image, ax=ax, pad=0.01)
        return figure


def compare_vorticity(
    rows: Mapping[str, Float[np.ndarray, "t _ _"]], times: Float[np.ndarray, " t"], title: str = ""
) -> Figure:
    """Vorticity of several solutions (rows), each on its own grid, at several times (columns), on one colour scale."""
    with matplotlib.rc_context(STYLE):
        count = len(times)
        figure = Figure(figsize=(2.1 * count + 0.6, 2.1 * len(rows) + 0.4), layout="constrained")
        grid = figure.subplots(len(rows), count, squeeze=False)
        limit = float(np.quantile(np.abs(next(iter(rows.values()))), 0.995))
        for line, (label, fields) in zip(grid, rows.items(), strict=True):
            for ax, field in zip(line, fields, strict=True):
                image = ax.imshow(field.T, origin="lower", cmap=FIELD_MAP, vmin=-limit, vmax=limit)
                ax.set(xticks=(), yticks=())
                ax.spines[:].set_visible(False)
            line[0].set_ylabel(label)
        for ax, time in zip(grid[0], times, strict=True):
            ax.set_title(f"t = {time:.2f}")
        figure.colorbar(image, ax=grid, shrink=0.6, pad=0.01, label="vorticity")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        return figure


def training_curves(
    losses: Mapping[str, tuple[np.ndarray, np.ndarray]],
    errors: Mapping[str, tuple[np.ndarray, np.ndarray]],
    title: str = "",
) -> Figure:
    """Left: loss of every update. Right: errors of rollouts during the training. Pairs of updates and values."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        for label, (updates, values) in losses.items():
            left.plot(updates, values, linewidth=0.6, label=label)
        left.set(xlabel="update", ylabel="loss", title="loss")
        for label, (updates, values) in errors.items():
            right.plot(updates, values, marker=".", label=label)
        right.set(xlabel="update", ylabel="mean squared error", title="rollouts beyond the training window")
        right.set_yscale("log")
        right.legend()
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        return figure
