"""What one sees of a training: a table on a terminal, lines in a log."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sino.cli.progress import LOG_INTERVAL, duration
from sino.core.errors import UserError
from sino.train.run import Run
from sino.train.session import Progress

Watch = Callable[[Progress], None]


@contextmanager
def live_view(title: str, seeds: list[int], runs: list[Run], tensorboard: bool) -> Iterator[Watch]:
    """Yield `watch(progress)`, to be called after every update."""
    writers = _writers(runs) if tensorboard else []
    console = Console()
    pace = Pace()
    scores: list[dict[str, Any]] = [{} for _ in seeds]
    try:
        if console.is_terminal:
            with Live(console=console, refresh_per_second=4) as live:

                def show(progress: Progress) -> None:
                    _note(progress, scores, seeds, live.console.print)
                    live.update(_table(title, seeds, progress, pace, scores))

                yield _all(pace, show, writers)
        else:
            last = time.monotonic()

            def show(progress: Progress) -> None:
                nonlocal last
                _note(progress, scores, seeds, print)
                now = time.monotonic()
                if now - last >= LOG_INTERVAL or progress.step.update == progress.step.total:
                    last = now
                    for line in _lines(seeds, progress, pace):
                        print(line, flush=True)

            yield _all(pace, show, writers)
    finally:
        for writer in writers:
            writer.close()


class Pace:
    """Solver steps per second, and the time that is left at that pace."""

    def __init__(self) -> None:
        self.last: float | None = None
        self.left = 0
        self.rates: deque[float] = deque(maxlen=50)

    def count(self, progress: Progress) -> None:
        """Take one more update into account."""
        now = time.monotonic()
        if self.last is not None:  # the first update may have been compiled
            self.rates.append(progress.step.frames / max(now - self.last, 1e-9))
        self.last, self.left = now, progress.frames_left

    @property
    def per_second(self) -> float:
        """Frames per second of a typical recent update: compilation and evaluations do not disturb it."""
        return statistics.median(self.rates) if self.rates else 0.0

    @property
    def remaining(self) -> str:
        """Time that is left, for people."""
        return duration(self.left / self.per_second) if self.per_second else "?"


def _all(pace: Pace, show: Watch, writers: list[Any]) -> Watch:
    def watch(progress: Progress) -> None:
        pace.count(progress)
        show(progress)
        for i, writer in enumerate(writers):
            step = progress.step
            writer.add_scalar("loss", float(progress.losses[i]), step.update)
            writer.add_scalar("gradient norm", float(progress.norms[i]), step.update)
            writer.add_scalar("rollout frames", step.frames, step.update)
            writer.add_scalar("learning rate", step.rate, step.update)
            for line in progress.lines:
                if line["kind"] == "evaluation" and line["run"] == i:
                    for judge in ("validation", "paper"):
                        if judge in line and line[judge]["mean"] is not None:
                            writer.add_scalar(f"error/{judge}", line[judge]["mean"], step.update)

    return watch


def _note(progress: Progress, scores: list[dict[str, Any]], seeds: list[int], say: Callable[[str], object]) -> None:
    """Keep the latest evaluation; say what happened."""
    for line in progress.lines:
        if line["kind"] == "evaluation":
            scores[line["run"]] = line
        else:
            say(
                f"seed {seeds[line['run']]} {line['event']} at update {line['update']}: not finite in a rollout of "
                f"{line['frames']} frames, trajectory of seed {line['trajectory']}, frame {line['frame']}; "
                f"learning rate now x {line['rate_factor']:g}"
            )


def _table(title: str, seeds: list[int], progress: Progress, pace: Pace, scores: list[dict[str, Any]]) -> Table:
    step = progress.step
    caption = f"{pace.per_second:,.0f} steps/s, {pace.remaining} left"
    table = Table(title=f"{title}: update {step.update:,} of {step.total:,}", caption=caption, title_justify="left")
    for column in ("seed", "K", "loss", "gradient", "live units", "validation", "paper's window"):
        table.add_column(column, justify="right")
    for i, seed in enumerate(seeds):
        errors = [_mean(scores[i].get(judge)) for judge in ("validation", "paper")]
        loss, norm = f"{progress.losses[i]:.4g}", f"{progress.norms[i]:.2g}"
        table.add_row(str(seed), str(step.frames), loss, norm, _live(progress, i), *errors)
    return table


def _lines(seeds: list[int], progress: Progress, pace: Pace) -> list[str]:
    step = progress.step
    return [
        f"seed {seed}: update {step.update:,}/{step.total:,}, K {step.frames}, loss {progress.losses[i]:.4g}, gradient "
        f"{progress.norms[i]:.2g}, live {_live(progress, i)}, {pace.per_second:,.0f} steps/s, {pace.remaining} left"
        for i, seed in enumerate(seeds)
    ]


def _live(progress: Progress, i: int) -> str:
    return "{} of {}".format(*progress.live[i]) if progress.live else "-"


def _mean(score: dict[str, Any] | None) -> str:
    if score is None:
        return ""
    return "blew up" if score["mean"] is None else f"{score['mean']:.3e}"


def _writers(runs: list[Run]) -> list[Any]:
    try:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError("--tensorboard needs the extra: pip install 'sino[track]'") from error
    return [SummaryWriter(str(run.path / "tensorboard")) for run in runs]
