"""Pictures of one unseen trajectory: truth, coarse grid and closures side by side, from samples.safetensors."""

from dataclasses import dataclass

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from sino.metrics.velocity import vorticity
from sino.report.figures import ERROR_MAP, FIELD_MAP
from sino.report.names import GREY
from sino.report.picture import INK, Picture, drawing
from sino.report.results import read_samples
from sino.report.runs import Collection, Setting
from sino.report.verdict import lead

FLOWS = {1: 2, 2: 3}
"""Closures that are drawn besides truth and coarse grid, by dimension."""

WEIGHTS = ("best", "final", "selected")
"""Whose trajectory is shown: the first that was kept."""


@dataclass(frozen=True)
class Flow:
    """One trajectory as the reference, the coarse grid and the closures tell it."""

    setting: Setting
    times: Float[np.ndarray, " t"]
    """After frame 0."""
    train_until: float
    fields: dict[str, Float[np.ndarray, "t c *n"]]
    """By label; the reference first, the coarse grid second, then the closure of the verdict."""

    @property
    def scalars(self) -> dict[str, Float[np.ndarray, "t *n"]]:
        """What is shown: the state in 1D, vorticity in 2D."""
        b = self.setting.facts
        return {
            label: frames[:, 0] if b.dim == 1 else vorticity(frames, b.length) for label, frames in self.fields.items()
        }


def sampled_flow(runs: Collection, setting: Setting) -> Flow | None:
    """The trajectory that the evaluations of a setting kept; None if none did."""
    groups = [g for g in runs.of(setting) if g.finished]
    first = lead(runs, setting) if groups else None
    fields: dict[str, np.ndarray] = {}
    found = None
    for group in sorted(groups, key=lambda g: g is not first):
        evaluation = next((run.evaluation for run in group.runs if run.evaluation is not None), None)
        samples = None if evaluation is None else read_samples(evaluation)
        if samples is None or evaluation is None:
            continue
        if found is None:
            found = evaluation
            fields = {"reference": samples["reference"], "coarse grid alone": samples["none"]}
        closure = next((samples[name] for name in WEIGHTS if name in samples), None)
        if closure is not None and evaluation.sample_frames == found.sample_frames:
            fields[group.label] = closure
    if found is None:
        return None
    times = found.times - found.times[0]
    until = float(times[min(found.first, len(times)) - 1])
    return Flow(
        setting, times[list(found.sample_frames)], until, dict(list(fields.items())[: 2 + FLOWS[setting.facts.dim]])
    )


def field_picture(flow: Flow) -> Picture:
    """The picture that suits the dimension."""
    return _space_time(flow) if flow.setting.facts.dim == 1 else _snapshots(flow)


def _space_time(flow: Flow) -> Picture:
    """1D: time to the right, truth on top, then each solution and its difference from the truth."""
    reference, *others = flow.scalars.items()
    limit = float(np.nanmax(np.abs(reference[1])))
    with np.errstate(invalid="ignore"):
        differences = {label: np.abs(field - reference[1]) for label, field in others}
    worst = float(np.nanquantile(np.concatenate([d.ravel() for d in differences.values()]), 0.995)) or 1.0
    with drawing(7.6, 1.15 * (1 + 2 * len(others)) + 0.4) as figure:
        axes = figure.subplots(1 + 2 * len(others), 1, sharex=True)
        strips = [(reference[0], reference[1], False)]
        for label, field in others:
            strips += [(label, field, False), (f"{label}: difference", differences[label], True)]
        for ax, (label, field, is_error) in zip(axes, strips, strict=True):
            _strip(ax, field, flow, label, (0.0, worst) if is_error else (-limit, limit), is_error)
        axes[-1].set_xlabel("time after frame 0")
    labels = ", ".join(label for label, _ in others)
    return Picture(
        f"fields-{flow.setting.slug}",
        f"{flow.setting.title}: an unseen trajectory in space and time",
        f"Space-time images of one unseen trajectory: the reference, then {labels}, each with its difference from the "
        "reference.",
        "Time runs to the right; one colour scale for all solutions, one for all differences. Dashed: the end of the "
        "training window. Grey: not finite.",
        figure,
    )


def _strip(ax: Axes, field: np.ndarray, flow: Flow, title: str, limits: tuple[float, float], is_error: bool) -> None:
    extent = (float(flow.times[0]), float(flow.times[-1]), 0.0, 1.0)
    low, high = limits
    cmap = matplotlib.colormaps[ERROR_MAP if is_error else FIELD_MAP].with_extremes(bad=GREY)
    style = {"cmap": cmap, "vmin": low, "vmax": high, "interpolation": "none"}
    image = ax.imshow(field.T, aspect="auto", origin="lower", extent=extent, **style)
    ax.figure.colorbar(image, ax=ax, pad=0.01)
    ax.axvline(flow.train_until, color="white" if is_error else "black", linestyle="--", linewidth=0.8)
    ax.set(yticks=(), ylabel="x")
    ax.set_title(title, pad=3)


def _snapshots(flow: Flow) -> Picture:
    """2D: vorticity, its error and streamlines, one column per solution, at one time."""
    at = int(np.argmin(np.abs(flow.times - 0.5 * (flow.train_until + flow.times[-1]))))
    omega = {label: field[at] for label, field in flow.scalars.items()}
    truth = omega["reference"]
    limit = float(np.quantile(np.abs(truth), 0.995))
    with drawing(1.75 * len(omega) + 0.5, 5.4) as figure:
        axes = figure.subplots(3, len(omega), squeeze=False)
        for column, (label, field) in enumerate(omega.items()):
            top = _panel(axes[0, column], field, FIELD_MAP, (-limit, limit))
            axes[0, column].set_title(label, fontsize=8, loc="center")
            if column:
                middle = _panel(axes[1, column], np.abs(field - truth), ERROR_MAP, (0.0, limit))
            _streamlines(axes[2, column], flow.fields[label][at])
        axes[1, 0].set_visible(False)
        for ax, words in zip(axes[:, 0], ("vorticity", "", "streamlines"), strict=True):
            ax.set_ylabel(words)
        axes[1, min(1, len(omega) - 1)].set_ylabel("error")
        figure.colorbar(top, ax=axes[0], pad=0.01, shrink=0.9)
        figure.colorbar(middle, ax=axes[1], pad=0.01, shrink=0.9)
    return Picture(
        f"fields-{flow.setting.slug}",
        f"{flow.setting.title}: vorticity, error and streamlines",
        f"Vorticity, absolute error of vorticity and streamlines of {', '.join(omega)} at one time of an unseen "
        "trajectory.",
        f"One unseen trajectory at time {flow.times[at]:.3g} after frame 0 (the training window ends at "
        f"{flow.train_until:.3g}). One colour scale per row.",
        figure,
    )


def _panel(ax: Axes, field: np.ndarray, cmap: str, limits: tuple[float, float]):
    ax.set(xticks=(), yticks=())
    ax.spines[:].set_visible(False)
    low, high = limits
    colours = matplotlib.colormaps[cmap].with_extremes(bad=GREY)
    return ax.imshow(field.T, origin="lower", cmap=colours, vmin=low, vmax=high, interpolation="none")


def _streamlines(ax: Axes, v: Float[np.ndarray, "2 x y"]) -> None:
    """Streamlines of velocities on the faces, moved to the centres of the cells."""
    u, w = (0.5 * (v[axis] + np.roll(v[axis], 1, axis=axis)) for axis in (0, 1))
    x, y = (np.arange(n) + 0.5 for n in u.shape)
    ax.spines[:].set_visible(False)
    ax.set(xticks=(), yticks=(), xlim=(0, u.shape[0]), ylim=(0, u.shape[1]), aspect="equal")
    if np.isfinite(u).all() and np.isfinite(w).all():
        ax.streamplot(x, y, u.T, w.T, density=0.8, color=INK, linewidth=0.5, arrowsize=0.5)
    else:
        ax.text(0.5, 0.5, "blew up", ha="center", va="center", transform=ax.transAxes)
