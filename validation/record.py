"""Rows of a validation: measured once, printed, compared with their targets, and stored with provenance."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sino.core.files import write_json
from sino.core.provenance import git_commit, provenance
from sino.metrics.errors import bootstrap_interval, standard_error

RESULTS = Path(__file__).parent.parent / "results" / "validation"


@dataclass(frozen=True)
class Row:
    """The error of one uncorrected solver: mean over trajectories, and how sure one can be of it."""

    benchmark: str
    variant: str
    resolution: int
    error: float
    standard_error: float
    interval: tuple[float, float]
    """95 % bootstrap interval of the mean."""
    median: float
    trajectories: int
    protocol: float | None
    """The reference figure that it must meet."""
    paper: float | None
    excluded: tuple[int, ...] = ()


def row(
    benchmark: str,
    variant: str,
    resolution: int,
    errors: np.ndarray,
    protocol: float | None,
    paper: float | None,
    excluded: tuple[int, ...] = (),
) -> Row:
    """Summarise the errors of single trajectories, and print the line."""
    made = Row(
        benchmark,
        variant,
        resolution,
        float(errors.mean()),
        standard_error(errors),
        bootstrap_interval(errors),
        float(np.median(errors)),
        len(errors),
        protocol,
        paper,
        excluded,
    )
    low, high = made.interval
    print(
        f"{benchmark:22s} {variant:28s} {resolution:4d}  {made.error:.3e} [{low:.3e}, {high:.3e}]  "
        f"protocol {_figure(protocol):>9s}  paper {_figure(paper):>9s}"
        + (f"  excluded seeds {', '.join(map(str, excluded))}" if excluded else ""),
        flush=True,
    )
    return made


def store(name: str, rows: list[Row], **extra) -> None:
    """Write the rows with provenance to results/validation/NAME.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {"format_version": 1, "provenance": provenance() | {"git_commit": git_commit()}}
    write_json(path, record | {"rows": [asdict(r) for r in rows]} | extra)
    print(f"wrote {path}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
