"""`sino list`."""

import jax

from sino.benchmarks import BENCHMARKS, Benchmark
from sino.data.store import as_ranges
from sino.models import MODELS, PAPER_COUNTS, build_model, count_parameters
from sino.train.run import shipped

HEADER = ("benchmark", "grid", "steps", "frame", "frames", "warm-up", "forcing", "paper's coarse error")


def list_benchmarks() -> None:
    """Print the twelve benchmarks, their equations and schemes, and the splits."""
    _print_table([HEADER, *(_row(b) for b in BENCHMARKS.values())])
    print("(steps per frame on the fine and on the coarse grid; frame and warm-up in units of time)\n")
    flows: dict[tuple[str, str], list[str]] = {}
    for b in BENCHMARKS.values():
        flows.setdefault((b.equation, b.scheme), []).append(b.name)
    for (equation, scheme), names in flows.items():
        print(f"{', '.join(names)}:\n    {equation};  {scheme}")
    s = next(iter(BENCHMARKS.values())).sizes
    print(
        f"\nsplits by seed: train {as_ranges(s.train)} (frames 0..{s.train_frames}), "
        f"validation {as_ranges(s.validation)}, test {as_ranges(s.test)}\n"
        f"the paper tests on frames {s.train_frames + 1}..{s.frames} of the training seeds"
    )


def list_models() -> None:
    """Print the eleven networks with their parameter counts, built and published, in 1D and 2D."""
    rows: list[tuple[str, ...]] = [("network", "1D", "paper", "2D", "paper")]
    for name in MODELS:
        cells = [name]
        for dim, paper in zip((1, 2), PAPER_COUNTS[name], strict=True):
            cells += [f"{count_parameters(build_model(name, dim=dim, key=jax.random.PRNGKey(0))):,}", f"{paper:,}"]
        rows.append(tuple(cells))
    _print_table(rows)


def list_weights() -> None:
    """Print the cards of the closures that come with this package."""
    folders = shipped()
    if not folders:
        print("no trained closures come with this sino yet; `sino train` makes your own")
    for name, folder in folders.items():
        print((folder / "card.md").read_text())
        print(f'sino.load_closure("{name}")\n')


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(b: Benchmark) -> tuple[str, ...]:
    power = "" if b.dim == 1 else "²"
    s = b.sizes
    return (
        b.name,
        f"{s.fine}{power} → {s.coarse}{power}",
        f"{b.substeps(s.fine)} → {b.substeps(s.coarse)}",
        f"{b.frame:.4g}",
        f"{s.frames}",
        f"{s.warmup:g}",
        b.forcing_text,
        f"{b.paper_errors[s.coarse]:.3g}",
    )
