"""What was run: the flows, and every run with its state, device and versions."""

from dataclasses import replace

from sino.data.store import as_ranges
from sino.report.runs import Collection, SeedRun
from sino.report.table import Cell, Column, Table, make_table, name_cell


def benchmark_table(runs: Collection) -> Table:
    """What the flows of the report are."""
    titles = ("Flow", "Dimension", "Grid", "Scheme", "Equation", "Forcing", "Frame", "Frames", "Training frames")
    columns = [Column(title, numeric=title in ("Frame", "Frames", "Training frames")) for title in titles]
    columns.append(Column("Seeds: train, validation, test", numeric=False))
    rows = []
    for s in dict.fromkeys(replace(setting, scheme="paper") for setting in runs.settings):
        b, power = s.facts, "²" if s.facts.dim == 2 else ""
        grid = f"{b.sizes.fine}{power} → {s.coarse}{power}"
        words = (s.title, f"{b.dim}D", grid, b.scheme, b.equation, b.forcing_text)
        numbers = (b.frame, b.sizes.frames, b.sizes.train_frames)
        seeds = ", ".join(as_ranges(part) for part in (b.sizes.train, b.sizes.validation, b.sizes.test))
        cells = [*map(name_cell, words), *(Cell(f"{value:.4g}", float(value)) for value in numbers)]
        rows.append([*cells, name_cell(seeds)])
    return make_table("benchmarks", "The flows", columns, rows)


def run_table(runs: Collection) -> Table:
    """Every run: what it came to, on what, in which time."""
    titles = ("Run", "Flow", "Seed", "State", "Training", "Device", "Precision", "Versions", "Commit", "Data")
    columns = [Column(title, numeric=title in ("Seed", "Training")) for title in titles]
    rows = []
    for group in runs.groups:
        for run in group.runs:
            made = run.provenance
            versions = ", ".join(f"{name} {made[name]}" for name in ("sino", "jax", "python") if name in made)
            rows.append(
                [
                    name_cell(group.label),
                    name_cell(group.setting.title),
                    Cell(str(run.seed), float(run.seed)),
                    Cell(run.state, missing=not run.finished),
                    _seconds(run.train_seconds),
                    name_cell(str(made.get("device", "unknown"))),
                    name_cell(run.configuration["precision"]),
                    name_cell(versions or "unknown"),
                    name_cell(_short(str(made.get("commit", "unknown")))),
                    name_cell(_data(run)),
                ]
            )
    notes = ["Data: first digits of the first shard's SHA-256. Commit: with a plus, the checkout had other changes."]
    return make_table("runs", "Every run", columns, rows, notes)


def _seconds(seconds: float | None) -> Cell:
    if seconds is None:
        return Cell("–")
    text = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else None
    return Cell(text or f"{seconds / 3600:.1f} h", float(seconds))


def _short(commit: str) -> str:
    """The first ten digits, and a plus if the checkout had changes."""
    return commit[:10] + ("+" if commit.endswith("+changes") else "")


def _data(run: SeedRun) -> str:
    hashes = run.configuration.get("data")
    return str(next(iter(hashes.values())))[:10] if isinstance(hashes, dict) and hashes else "unknown"
