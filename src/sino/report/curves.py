"""Figures of errors over time and during training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from sino.report.names import GREY, colour
from sino.report.picture import Picture, drawing, legend_below, log_axis
from sino.report.results import Score
from sino.report.runs import Collection, Group, Setting
from sino.report.verdict import lead
from sino.train.run import Run

LINES = 6
"""More curves than this in one figure cannot be told apart."""
POINTS = 400
"""A curve needs no more points than this."""

DASHES: tuple[Any, ...] = ("-", (0, (1, 1)), "-.", (0, (5, 1, 1, 1, 1, 1)))
FLAT_STYLES: dict[str, dict[str, Any]] = {
    "none": {"color": GREY, "linestyle": "--", "linewidth": 1.2},
    "hyperviscosity": {"color": GREY, "linestyle": ":", "linewidth": 1.4},
    "smagorinsky": {"color": GREY, "linestyle": "-.", "linewidth": 1.2},
}
"""What has no network, in grey."""


def shown(runs: Collection, setting: Setting) -> list[Group]:
    """The groups of a setting that are drawn as curves: the one of the verdict, then the others in table order."""
    groups = [g for g in runs.of(setting) if any(score.error_over_time for score in g.scores("test"))]
    if not groups:
        return []
    first = lead(runs, setting)
    return ([first] if first in groups else []) + [g for g in groups if g is not first][: LINES - 1]


def curve_styles(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Colour, dashes and width of the groups' curves: groups of one colour differ in their dashes."""
    styles, used = [], []
    for group in groups:
        tone = colour(group.model)
        style = {"color": tone, "linestyle": DASHES[used.count(tone) % len(DASHES)], "linewidth": 1.5}
        styles.append(FLAT_STYLES.get(group.model, style))
        used.append(tone)
    return styles


def error_over_time(runs: Collection, setting: Setting) -> Picture | None:
    """Error on unseen trajectories from frame 0 on, with the training window marked."""
    evaluation, groups = runs.evaluation(setting), shown(runs, setting)
    coarse = runs.coarse(setting, "test")
    if evaluation is None or coarse is None:
        return None
    times = evaluation.times - evaluation.times[0]
    thin = np.unique(np.linspace(1, len(times) - 1, POINTS).astype(int))
    with drawing(6.4, 3.4) as figure:
        ax = figure.subplots()
        end = times[min(evaluation.first, len(times)) - 1]
        ax.axvspan(0, end, color=GREY, alpha=0.15, linewidth=0)
        ax.text(end, 1.0, "training window ", ha="right", va="bottom", fontsize=7, transform=ax.get_xaxis_transform())
        curves: list[tuple[str, list[Score], dict[str, Any]]] = [
            ("coarse grid alone", [coarse], {"color": GREY, "linestyle": "--"})
        ]
        curves += [(g.label, g.scores("test"), s) for g, s in zip(groups, curve_styles(groups), strict=True)]
        for position, (label, scores, style) in enumerate(curves):
            found = [s.error_over_time for s in scores if s.error_over_time]
            mean = np.mean([curve["mean"] for curve in found], axis=0)[thin]
            if not np.isfinite(mean).any():
                continue
            ax.plot(times[thin], mean, label=label, **style)
            if position < 2 and len(found) == 1 and {"low", "high"} <= found[0].keys():
                low, high = (found[0][name][thin] for name in ("low", "high"))
                ax.fill_between(times[thin], low, high, color=style["color"], alpha=0.18, linewidth=0)
        ax.set(xlabel="time after frame 0", ylabel="mean squared error", xlim=(0, times[-1]))
        log_axis(ax.yaxis)
        ax.legend(loc="lower right")
    return Picture(
        f"error-over-time-{setting.slug}",
        f"{setting.title}: error over time",
        f"Mean squared error over time on unseen trajectories of {setting.title}: "
        + ", ".join(label for label, _, _ in curves)
        + "; logarithmic scale, the training window shaded.",
        "Mean over unseen trajectories and seeds; bands are the middle half of the trajectories. Networks were trained "
        "on rollouts within the shaded time only. A curve ends where a trajectory blew up.",
        figure,
    )


def loss_curves(runs: Collection, setting: Setting) -> Picture | None:
    """Loss and validation error during training, one curve per seed."""
    groups = sorted(runs.of(setting), key=lambda g: g is not lead(runs, setting))[:LINES]
    with drawing(7.4, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        labels = []
        for group, style in zip(groups, curve_styles(groups), strict=True):
            for run in group.runs:
                lines = Run(run.path).metrics(tolerate_last=True)
                losses = [(line["update"], line.get("loss")) for line in lines if line.get("kind") == "update"]
                losses = [(u, value) for u, value in losses if value is not None]
                if not losses:
                    continue
                style = style | {"linewidth": 1.0, "alpha": 0.85}
                updates, values = _binned(np.array(losses, dtype=float))
                if run.configuration["recipe"].get("loss") == "mse":  # the others are logarithms already
                    values = np.log(np.maximum(values, 1e-300))
                left.plot(updates, values, label="_again" if group.label in labels else group.label, **style)
                labels.append(group.label)
                errors = [
                    (line["update"], line["validation"]["mean"])
                    for line in lines
                    if line.get("kind") == "evaluation" and line.get("validation", {}).get("mean") is not None
                ]
                if errors:
                    right.plot(*np.array(errors, dtype=float).T, **style)
        if not labels:
            return None
        left.set(xlabel="update", ylabel="log of the loss", title="Loss in training windows")
        right.set(xlabel="update", ylabel="mean squared error", title="Error on validation rollouts")
        log_axis(right.yaxis)
        legend_below(figure, [line for line in left.lines if not str(line.get_label()).startswith("_")])
    return Picture(
        f"loss-{setting.slug}",
        f"{setting.title}: training",
        f"Loss and validation error against updates for {', '.join(dict.fromkeys(labels))} on {setting.title}.",
        "One curve per seed. Left: natural logarithm of the mean squared error in training windows, which grow longer "
        "in stages, averaged over neighbouring updates. Right: rollouts of the validation trajectories beyond the "
        "training window.",
        figure,
    )


def _binned(points: Float[np.ndarray, "n 2"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Updates and losses, averaged over neighbours so that few points remain."""
    parts = np.array_split(points, min(len(points), POINTS // 2))
    means = np.array([part.mean(axis=0) for part in parts])
    return means[:, 0], means[:, 1]
