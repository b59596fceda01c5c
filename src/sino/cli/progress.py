"""Progress of long work: a bar on a terminal, plain lines in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOG_INTERVAL = 10.0
"""Seconds between two lines in a log."""


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Yield `report(done)`, which shows `done` of `total`, the rate in `unit` per second, and the remaining time."""
    console = Console()
    started = time.monotonic()

    def rate(done: int) -> float:
        return done / max(time.monotonic() - started, 1e-9)

    if console.is_terminal:
        columns = (TextColumn(label), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(label, total=total, rate="")
            yield lambda done: bar.update(task, completed=done, rate=f"{rate(done):,.0f} {unit}/s")
        return

    last = started

    def report(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LOG_INTERVAL or done >= total:
            last = now
            left = (total - done) / max(rate(done), 1e-9)
            print(f"{label}: {done:,}/{total:,} {unit}, {rate(done):,.0f}/s, {duration(left)} left", flush=True)

    yield report


def duration(seconds: float | int) -> str:
    """`3.2 s`, `4 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: float | int) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
