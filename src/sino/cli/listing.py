"""`sino list`."""

from rich.console import Console
from rich.table import Table

from sino.benchmarks import BENCHMARKS, Benchmark
from sino.data.store import as_ranges


def list_benchmarks() -> None:
    """Print the twelve benchmarks, their equations and schemes, and the splits."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("benchmark", "grid", "steps/frame", "frame", "frames", "warm-up", "forcing", "paper's coarse error"):
        table.add_column(column, no_wrap=True)
    for b in BENCHMARKS.values():
        table.add_row(*_row(b))
    console = Console(width=max(Console().width, 120))
    console.print(table)
    console.print()
    seen = set()
    for b in BENCHMARKS.values():
        if (b.equation, b.scheme) not in seen:
            seen.add((b.equation, b.scheme))
            names = ", ".join(o.name for o in BENCHMARKS.values() if (o.equation, o.scheme) == (b.equation, b.scheme))
            console.print(f"{names}:\n  {b.equation};  {b.scheme}", highlight=False, markup=False)
    s = next(iter(BENCHMARKS.values())).sizes
    console.print(
        f"\nsplits by seed: train {as_ranges(s.train)} (frames 0..{s.train_frames}), "
        f"validation {as_ranges(s.validation)}, test {as_ranges(s.test)}\n"
        f"the paper tests on frames {s.train_frames + 1}..{s.frames} of the training seeds",
        highlight=False,
    )


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
