"""The paper's tables, with our results beside the paper's in every cell, and why where there is none."""

from typing import NamedTuple

from sino.benchmarks import BENCHMARKS, Preset, benchmark
from sino.coupling.classical import CLASSICAL
from sino.models import PAPER_COUNTS
from sino.report.cells import average_cell, over_seeds
from sino.report.names import BENCHMARK_TITLES, MODEL_TITLES, number
from sino.report.paper import ERRORS, TABLES
from sino.report.runs import PRESETS, Collection, Group, Setting
from sino.report.table import Cell, Column, Table, absent, make_table, name_cell

COARSE_COMMAND = "run sino evaluate"
TITLES = {
    "1d": "One-dimensional flows",
    "2d": "Two-dimensional flows",
    "1d-supplementary": "Supplementary one-dimensional flows",
    "2d-supplementary": "Supplementary two-dimensional flows",
}
PROTOCOL = (
    "Mean squared error after the training window. AVE and Best: mean and minimum over seeds on the training "
    "trajectories, with the checkpoint that is best there (the paper's protocol). Unseen: the same over trajectories "
    "that were never trained on, with the checkpoint that validation chose. The lowest value of a column is bold."
)


def result_tables(runs: Collection) -> list[Table]:
    """The paper's four tables, as far as there are runs for them, once for every preset."""
    tables = []
    for preset in PRESETS:
        for name, benchmarks in TABLES.items():
            own = [g for g in runs.groups if g.setting.preset == preset and g.setting.own_grid]
            own = [g for g in own if g.setting.benchmark in benchmarks]
            if own:
                tables.append(_result_table(runs, name, preset, own))
    return tables


class Variant(NamedTuple):
    """What a row of a result table is about."""

    model: str
    scheme: str
    label: str


def _result_table(runs: Collection, name: str, preset: Preset, groups: list[Group]) -> Table:
    """Flows that were run come first, so that a narrow screen shows them; of the others only the paper's columns."""
    run = {g.setting.benchmark for g in groups}
    others = () if preset != "paper" else tuple(b for b in TABLES[name] if b not in run)
    benchmarks = (*(b for b in TABLES[name] if b in run), *others)
    width = {b: 4 if b in run else 2 for b in benchmarks}
    dim = BENCHMARKS[benchmarks[0]].dim
    columns = [Column("Method", numeric=False)]
    for b in benchmarks:
        titles = ("AVE", "Best", "unseen AVE", "unseen Best")[: width[b]]
        columns += [Column(title, over=BENCHMARK_TITLES[b], lowest_is_best=True) for title in titles]
    rows, sections, kind = [], [], "baseline"
    for variant in _variants(groups, dim, every=preset == "paper"):
        if _kind(variant.model) != kind and rows:
            sections.append(len(rows))
        kind = _kind(variant.model)
        cells = [cell for b in benchmarks for cell in _row_cells(groups, variant, b, preset)[: width[b]]]
        rows.append([name_cell(variant.label), *cells, _parameters(groups, variant, dim, preset)])
    sections.append(len(rows))
    for scheme in sorted({"paper"} | {g.setting.scheme for g in groups}):
        label = "Coarse grid" if scheme == "paper" else f"Coarse grid, {scheme} scheme"
        settings = [Setting(b, preset, benchmark(b, preset).sizes.coarse, scheme) for b in benchmarks]
        cells = [cell for s in settings for cell in _coarse_cells(runs, s)[: width[s.benchmark]]]
        rows.append([name_cell(label), *cells, Cell("–")])
    title = TITLES[name] + ("" if preset == "paper" else f", preset {preset!r}")
    suffix = "" if preset == "paper" else f"-{preset}"
    columns.append(Column("Parameters"))
    return make_table(f"results-{name}{suffix}", title, columns, rows, _notes(benchmarks, preset), sections)


def _notes(benchmarks: tuple[str, ...], preset: Preset) -> list[str]:
    """The protocol, and what must be known of the paper's figures."""
    if preset != "paper":
        return [PROTOCOL, f"At the sizes of the preset {preset!r}: not comparable with the paper's figures."]
    notes = [PROTOCOL, "The paper's figure stands beside where it printed one; it reports three seeds throughout."]
    if "ks" in benchmarks or "ks-32" in benchmarks:
        notes.append("Two of the paper's pairs (DeepONet on KS, U-Net on KS-32) have a Best above their AVE.")
    if any(b.startswith("burgers-forced") for b in benchmarks):
        notes.append(
            "The paper's coarse grid on forced Burgers restarted the clock of the forcing; with the clock running on, "
            "as in the fine solution, the coarse error is 100 to 2,000 times smaller."
        )
    return notes


def _kind(model: str) -> str:
    return {"sino": "sino", "sino-spe": "half", "sino-spa": "half"}.get(
        model, "classical" if model in CLASSICAL else "baseline"
    )


def _variants(groups: list[Group], dim: int, every: bool) -> list[Variant]:
    """The rows: every configuration that was run, and with `every` also the models that were not."""
    found: list[Variant] = []
    for model, title in MODEL_TITLES.items():
        own = [_variant(g) for g in groups if g.model == model]
        possible = model != "none" and not (model == "smagorinsky" and dim == 1)
        found += dict.fromkeys(own) or ([Variant(model, "paper", title)] if every and possible else [])
    return found


def _variant(group: Group) -> Variant:
    scheme = group.setting.scheme
    return Variant(group.model, scheme, group.label + ("" if scheme == "paper" else f", {scheme} scheme"))


def _row_cells(groups: list[Group], variant: Variant, b: str, preset: Preset) -> list[Cell]:
    """AVE and Best on training trajectories, beside the paper's, and on unseen ones."""
    group = next((g for g in groups if g.setting.benchmark == b and _variant(g) == variant), None)
    if group is None:
        plain = variant.label == MODEL_TITLES[variant.model] and preset == "paper"
        pair = ERRORS[b].get(variant.model) if plain else None
        beside = ("", "") if pair is None else tuple(f"paper {number(value)}" for value in pair)
        return [absent("not run", *filter(None, [text])) for text in (*beside, "", "")]
    pair = ERRORS[b].get(group.model) if group.plain else None
    return [*over_seeds(group, "paper", pair), *over_seeds(group, "test")]


def _parameters(groups: list[Group], variant: Variant, dim: int, preset: str) -> Cell:
    if variant.model in CLASSICAL:
        return Cell("1", 1.0)
    counts = {g.parameters for g in groups if _variant(g) == variant and g.parameters is not None}
    paper = PAPER_COUNTS[variant.model][dim - 1]
    if not counts:
        known = variant.label == MODEL_TITLES[variant.model]
        return absent("not run" if known else COARSE_COMMAND, *([f"paper {paper:,}"] if known else []))
    (count,) = counts
    plain = any(g.plain for g in groups if _variant(g) == variant)
    return Cell(f"{count:,}", float(count), (f"paper {paper:,}",) if plain and preset == "paper" else ())


def _coarse_cells(runs: Collection, setting: Setting) -> list[Cell]:
    """The solver alone: one number per set, since it has no seed."""
    paper = setting.facts.paper_errors.get(setting.coarse)
    beside = setting.preset == "paper" and setting.scheme == "paper" and paper is not None
    remarks = (f"paper {number(paper)}",) if beside and paper is not None else ()
    cells = []
    for dataset in ("paper", "test"):
        score = runs.coarse(setting, dataset)
        if score is None:
            reason = COARSE_COMMAND if setting in runs.settings else "not run"
            cells += [absent(reason, *remarks), Cell("–")]
        else:
            cells += [average_cell([score], *remarks), Cell("–")]
        remarks = ()
    return cells
