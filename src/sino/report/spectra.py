"""Figures of energy by wavenumber, on one coarse grid and across several."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from sino.report.curves import FLAT_STYLES, curve_styles, shown
from sino.report.figures import COLOURS
from sino.report.names import grid_title
from sino.report.picture import INK, Picture, drawing, log_axis
from sino.report.results import Score, Spectrum
from sino.report.runs import Collection, Setting
from sino.report.verdict import lead

SLOPES = {"burgers": (-2, "k⁻²"), "ns": (-3, "k⁻³")}
"""The power law that theory gives a flow's energy: shocks, and the cascade of enstrophy."""


def energy_spectra(runs: Collection, setting: Setting) -> Picture | None:
    """Energy by wavenumber on one coarse grid: reference, coarse grid alone, closures."""
    coarse, groups = runs.coarse(setting, "test"), shown(runs, setting)
    if coarse is None or coarse.spectrum is None:
        return None
    with drawing(5.2, 3.6) as figure:
        ax = figure.subplots()
        _spectrum(ax, coarse.spectrum, coarse.spectrum.reference, "reference", color=INK, linewidth=2.4, alpha=0.8)
        _spectrum(ax, coarse.spectrum, coarse.spectrum.energy, "coarse grid alone", **FLAT_STYLES["none"])
        for group, style in zip(groups, curve_styles(groups), strict=True):
            mean = mean_spectrum(group.scores("test"))
            if mean is not None:
                _spectrum(ax, mean, mean.energy, group.label, **style)
        guide = _guide(ax, setting, coarse.spectrum)
        ax.set(xlabel="wavenumber index", ylabel="energy")
        log_axis(ax.xaxis)
        log_axis(ax.yaxis)
        ax.legend()
    return Picture(
        f"spectra-{setting.slug}",
        f"{setting.title}: energy spectra",
        f"Energy against wavenumber on unseen trajectories of {setting.title}: reference, coarse grid alone and "
        f"{len(groups)} closures, on logarithmic scales.",
        f"Mean over unseen trajectories, over the frames after the training window.{guide}",
        figure,
    )


def spectra_across_grids(runs: Collection) -> list[Picture]:
    """For every flow with results on more than one coarse grid: spectra on all of them."""
    flows: dict[tuple, dict[int, tuple[Spectrum, Spectrum | None, str]]] = {}
    where: dict[tuple, Setting] = {}
    for setting in runs.settings:
        coarse = runs.coarse(setting, "test")
        if coarse is None or coarse.spectrum is None or setting.scheme != "paper":
            continue
        b = setting.facts
        flow = (b.equation, b.forcing_text, b.sizes.fine, setting.preset)
        where.setdefault(flow, setting)
        group = lead(runs, setting)
        curves = (coarse.spectrum, mean_spectrum(group.scores("test")), group.label)
        flows.setdefault(flow, {}).setdefault(setting.coarse, curves)
        for evaluation in [e for run in group.runs for e in run.transfers if e.benchmark == setting.benchmark]:
            alone = evaluation.scores["none"]["test"].spectrum
            tried = evaluation.scores.get("best", evaluation.scores.get("final", {})).get("test")
            if alone is not None and tried is not None:
                curves = (alone, tried.spectrum, f"{group.label}, not retrained")
                flows[flow].setdefault(evaluation.coarse, curves)
    return [_across(where[flow], grids) for flow, grids in flows.items() if len(grids) > 1]


def _across(setting: Setting, grids: dict[int, tuple[Spectrum, Spectrum | None, str]]) -> Picture:
    with drawing(6.0, 3.8) as figure:
        ax = figure.subplots()
        finest = grids[max(grids)][0]
        _spectrum(ax, finest, finest.reference, "reference", color=INK, linewidth=2.4, alpha=0.8)
        for (cells, (alone, closure, label)), tone in zip(sorted(grids.items(), reverse=True), COLOURS, strict=False):
            cut = grid_title(setting.benchmark, cells)
            _spectrum(ax, alone, alone.energy, f"{cut}, alone", color=tone, linestyle="--", linewidth=1)
            if closure is not None:
                _spectrum(ax, closure, closure.energy, f"{cut}, {label}", color=tone)
            ax.axvline(cells / 2, color=tone, linestyle=":", linewidth=0.8)
        guide = _guide(ax, setting, finest)
        ax.set(xlabel="wavenumber index", ylabel="energy")
        log_axis(ax.xaxis)
        log_axis(ax.yaxis)
        ax.legend(fontsize=7)
    names = ", ".join(str(cells) for cells in sorted(grids))
    return Picture(
        f"spectra-across-grids-{setting.slug}",
        f"{setting.title}: energy spectra across grids",
        f"Energy against wavenumber on grids of {names} cells, of the coarse solver alone and with a closure, beside "
        "the reference, on logarithmic scales.",
        f"Dotted: the largest wavenumber of each grid. Dashed: the coarse solver alone.{guide}",
        figure,
    )


def mean_spectrum(scores: Sequence[Score]) -> Spectrum | None:
    """The mean over seeds."""
    spectra = [score.spectrum for score in scores if score.spectrum is not None]
    if not spectra:
        return None
    energy = np.mean([spectrum.energy for spectrum in spectra], axis=0)
    return Spectrum(spectra[0].wavenumber, energy, spectra[0].reference, None)


def _spectrum(ax: Axes, spectrum: Spectrum, energy: Float[np.ndarray, " k"], label: str, **style) -> None:
    drawn = (spectrum.wavenumber > 0) & np.isfinite(energy) & (energy > 1e-14 * np.nanmax(spectrum.reference))
    if drawn.any():
        ax.plot(spectrum.wavenumber[drawn], energy[drawn], label=label, **style)


def _guide(ax: Axes, setting: Setting, spectrum: Spectrum) -> str:
    """Draw the flow's power law beside the reference, and tell of it; nothing where theory gives none."""
    law = SLOPES.get(setting.benchmark.split("-")[0])
    if law is None:
        return ""
    slope, words = law
    k = spectrum.wavenumber
    inside = (k >= max(2, k[-1] / 16)) & (k <= k[-1] / 2)
    if inside.sum() < 2:
        return ""
    start = int(np.argmax(inside))
    level = 3 * spectrum.reference[start] * (k[inside] / k[start]) ** slope
    ax.plot(k[inside], level, color=INK, linewidth=0.9)
    ax.annotate(words, (k[inside][-1], level[-1]), xytext=(4, 0), textcoords="offset points", fontsize=8)
    return f" Thin line: the slope {words}."
