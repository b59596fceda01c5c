"""Tables of everything else that was measured: other metrics, other checkpoints, other flows and grids."""

from collections.abc import Callable, Sequence
from statistics import fmean

from sino.report.cells import average_cell, best_cell
from sino.report.names import BENCHMARK_TITLES, grid_title, number, ratio
from sino.report.results import Evaluation, Score
from sino.report.runs import Collection, Group, Setting
from sino.report.table import Cell, Column, Table, absent, make_table, name_cell

WEIGHTS = {"selected": "best on the test window", "best": "best on validation", "final": "last"}


def measure_tables(runs: Collection) -> list[Table]:
    """For every setting that was evaluated, all measures on unseen trajectories."""
    return [_measures(runs, setting) for setting in runs.settings if runs.evaluation(setting) is not None]


def _measures(runs: Collection, setting: Setting) -> Table:
    flat = setting.facts.dim == 1
    columns = [Column("Method", numeric=False)]
    columns += [Column(title, lowest_is_best=True) for title in ("Error", "Median", "All frames", "NRMSE")]
    columns += [Column("Correlated until"), Column("Spectral distance", lowest_is_best=True)]
    columns += [Column(title) for title in ("Energy drift", "Drift of the mean", *([] if flat else ["Divergence"]))]
    columns += [Column("Blown up")]
    coarse = runs.coarse(setting, "test")
    rows = [] if coarse is None else [_measure_row("Coarse grid", [coarse], flat)]
    for group in runs.of(setting):
        scores = [score for score in group.scores("test") if score.per_trajectory]
        if scores:
            rows.append(_measure_row(group.label, scores, flat))
        else:
            reason = "run sino evaluate" if group.finished else group.runs[0].state.partition(":")[0]
            rows.append([name_cell(group.label), *[absent(reason)] * (len(columns) - 1)])
    notes = [
        "On unseen trajectories, with the checkpoint that validation chose; means over seeds, and in small print the "
        "95 % interval over trajectories, or the range over seeds where there are several.",
        "Error, Median: mean squared error after the training window. NRMSE: root of the error over the deviation of "
        "the reference. Correlated until: time until the correlation with the reference"
        + ("" if flat else " (of vorticity)")
        + " falls under 0.95. Spectral distance: root mean square of the log10 ratio of energies. "
        "Drifts are relative to the reference. Blown up: trajectories that did not stay finite.",
    ]
    name = f"measures-{setting.slug}"
    return make_table(name, f"{setting.title}: all measures, unseen trajectories", columns, rows, notes, [1])


def _measure_row(label: str, scores: Sequence[Score], flat: bool) -> list[Cell]:
    blown, count = sum(s.blown_up for s in scores), sum(s.trajectories for s in scores)

    def mean(pick: Callable[[Score], float | None]) -> Cell:
        values = [value for score in scores if (value := pick(score)) is not None]
        if len(values) < len(scores):
            return absent(f"blew up {blown} of {count}" if blown else "not finite")
        return Cell(number(fmean(values)), fmean(values))

    spread = [] if blown else _spread([s.mean for s in scores], scores[0].interval)
    times = [score.correlation_time for score in scores]
    until = mean(lambda s: s.correlation_time)
    if until.value is not None:
        censored = sum(s.censored for s in scores)
        remarks = [*_spread(times, scores[0].correlation_interval), *([f"{censored} never"] if censored else [])]
        until = Cell(f"{until.value:.3g}", until.value, tuple(remarks))
    cells = [average_cell(scores, *spread), mean(lambda s: s.median), mean(lambda s: s.all_frames)]
    cells += [mean(lambda s: s.nrmse), until, mean(lambda s: s.spectrum.distance if s.spectrum else None)]
    cells += [mean(lambda s: s.energy_drift), mean(lambda s: s.mean_drift)]
    cells += [] if flat else [mean(lambda s: s.divergence)]
    return [name_cell(label), *cells, Cell(f"{blown} of {count}", float(blown))]


def _spread(values: Sequence[float | None], interval: tuple[float, float] | None) -> list[str]:
    """The range over several seeds, or the interval over trajectories of the only one."""
    finite = [value for value in values if value is not None]
    pair = (min(finite), max(finite)) if len(finite) > 1 else interval
    return [] if pair is None else [" to ".join(f"{end:.3g}" for end in pair)]


def checkpoint_table(runs: Collection) -> Table:
    """The last weights, those that the paper's rule selects and those that validation chooses, told apart."""
    columns = [Column(title, numeric=False) for title in ("Method", "Flow", "Checkpoint")]
    for over in ("Training trajectories", "Unseen trajectories"):
        columns += [Column(title, over=over) for title in ("AVE", "Best")]
    rows, sections = [], []
    for group in runs.groups:
        sections.append(len(rows))
        for weights, words in WEIGHTS.items():
            members = [run.scores[weights] for run in group.finished if weights in run.scores]
            if not members:
                continue
            cells: list[Cell] = []
            for dataset in ("paper", "test"):
                scores = [sets[dataset] for sets in members if dataset in sets]
                cells += [average_cell(scores), best_cell(scores)] if scores else [absent("not evaluated")] * 2
            rows.append([name_cell(group.label), name_cell(group.setting.title), name_cell(words), *cells])
    notes = ["Best on the test window: the rule of the paper, which looks at what it reports."]
    return make_table("checkpoints", "Which checkpoint", columns, rows, notes, sections[1:])


def transfer_table(runs: Collection) -> Table | None:
    """Weights tried, without training, on other flows and grids; None if nothing was."""
    titles = ("Method", "Trained on", "Tried on", "Coarse grid", "Closure", "Factor")
    columns = [Column(title, numeric=title in titles[3:]) for title in titles]
    rows = []
    for group in runs.groups:
        tried: dict[tuple[str, int], list[Evaluation]] = {}
        for run in group.runs:
            for evaluation in run.transfers:
                tried.setdefault((evaluation.benchmark, evaluation.coarse), []).append(evaluation)
        rows += [_transfer_row(group, evaluations) for evaluations in tried.values()]
    if not rows:
        return None
    notes = ["Mean squared error on unseen trajectories; factor: coarse grid over closure, above 1 is a gain."]
    return make_table("transfer", "The same weights elsewhere, without training", columns, rows, notes)


def _transfer_row(group: Group, evaluations: list[Evaluation]) -> list[Cell]:
    one = evaluations[0]
    words = [group.label, f"{group.setting.title}, {grid_title(group.setting.benchmark, group.setting.coarse)}"]
    words.append(f"{BENCHMARK_TITLES.get(one.benchmark, one.benchmark)}, {grid_title(one.benchmark, one.coarse)}")
    closure = [sets["test"] for e in evaluations if (sets := e.scores.get("best", e.scores.get("final")))]
    coarse = average_cell([one.scores["none"]["test"]])
    cell = average_cell(closure) if closure else absent("no weights")
    factor = absent("–")
    if coarse.value is not None and cell.value:
        factor = Cell(f"{ratio(coarse.value / cell.value)} ×", coarse.value / cell.value)
    return [*map(name_cell, words), coarse, cell, factor]
