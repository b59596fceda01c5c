"""Which pictures and tables a collection of runs gives, and what is missing for the others."""

from dataclasses import dataclass

from sino.report.account import benchmark_table, run_table
from sino.report.analysis_figures import approximation, cost_against_error, kernel_variance, scaling_laws
from sino.report.analysis_tables import cost_tables, kernel_table, scaling_table
from sino.report.animation import Animation, animate
from sino.report.architecture import architecture
from sino.report.bottleneck import bottleneck_table
from sino.report.curves import error_over_time, loss_curves
from sino.report.fields import field_picture, sampled_flow
from sino.report.measures import checkpoint_table, measure_tables, transfer_table
from sino.report.pareto import error_against_parameters
from sino.report.picture import Picture
from sino.report.runs import Collection, Setting
from sino.report.spectra import energy_spectra, spectra_across_grids
from sino.report.table import Table
from sino.report.tables import result_tables

EVALUATE = "sino evaluate {}"
ANALYZE = "sino analyze {}"


@dataclass(frozen=True)
class Section:
    """What a report shows of one setting."""

    setting: Setting
    animation: Animation | None
    pictures: tuple[Picture, ...]
    missing: tuple[str, ...]
    """Sentences: what is not shown, and which command makes it."""


@dataclass(frozen=True)
class Gallery:
    """All tables and figures of a report."""

    results: tuple[Table, ...]
    """The paper's tables."""
    overview: tuple[Picture, ...]
    sections: tuple[Section, ...]
    measures: tuple[Table, ...]
    analysis_pictures: tuple[Picture, ...]
    analysis_tables: tuple[Table, ...]
    method: Picture
    account: tuple[Table, ...]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [*self.results, *self.measures, *self.analysis_tables, *self.account]

    @property
    def pictures(self) -> list[Picture]:
        """All still figures."""
        parts = [picture for section in self.sections for picture in section.pictures]
        return [*self.overview, *parts, *self.analysis_pictures, self.method]

    @property
    def animations(self) -> list[Animation]:
        """All moving ones."""
        return [section.animation for section in self.sections if section.animation is not None]


def make_gallery(runs: Collection) -> Gallery:
    """Draw and tabulate everything that the runs give."""
    maybe_tables = [transfer_table(runs), checkpoint_table(runs)]
    analysed = [kernel_table(runs), scaling_table(runs), *cost_tables(runs)]
    drawn = [scaling_laws(scaling) for scaling in runs.scalings]
    drawn += [draw(group) for group in runs.groups for draw in (kernel_variance, cost_against_error)]
    drawn.append(approximation(runs))
    results = [*result_tables(runs), bottleneck_table(runs)]
    return Gallery(
        results=tuple(table for table in results if table is not None),
        overview=tuple(p for p in (error_against_parameters(runs), *spectra_across_grids(runs)) if p is not None),
        sections=tuple(_section(runs, setting) for setting in runs.settings),
        measures=tuple(table for table in (*measure_tables(runs), *maybe_tables) if table is not None),
        analysis_pictures=tuple(picture for picture in drawn if picture is not None),
        analysis_tables=tuple(table for table in analysed if table is not None),
        method=architecture(),
        account=(benchmark_table(runs), run_table(runs)),
    )


def _section(runs: Collection, setting: Setting) -> Section:
    flow = sampled_flow(runs, setting)
    drawn = [error_over_time(runs, setting), energy_spectra(runs, setting), loss_curves(runs, setting)]
    pictures = [] if flow is None else [field_picture(flow)]
    pictures += [picture for picture in drawn if picture is not None]
    finished = [run for group in runs.of(setting) for run in group.finished]
    missing = []
    if finished and any(run.evaluation is None for run in finished):
        paths = " ".join(str(run.path) for run in finished if run.evaluation is None)
        missing.append(f"Not evaluated yet, so without coarse grid, error over time, spectra or fields: "
                       f"{EVALUATE.format(paths)}")  # fmt: skip
    elif flow is None and finished:
        missing.append(f"No samples were kept, so there are no fields: {EVALUATE.format(finished[0].path)}")
    networks = [run for run in finished if run.configuration["model"].startswith("sino")]
    if networks and all(run.analysis is None for run in networks):
        missing.append(f"Kernels, bounds and cost were not analysed: {ANALYZE.format(networks[0].path)}")
    missing += [
        f"{group.label}, seed {run.seed}, is {run.state}."
        for group in runs.of(setting)
        for run in group.runs
        if not run.finished
    ]
    return Section(setting, None if flow is None else animate(flow), tuple(pictures), tuple(missing))
