"""Result files of `sino analyze`, read and checked: kernels and bounds of a run, its cost, and scaling laws of many."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sino.report.names import MODEL_TITLES
from sino.report.results import read_record, real

TRUTHS = ("dataset", "spectral")
"""What errors are measured against: the dataset's fine solution, or a converged spectral one."""


@dataclass(frozen=True)
class Kernel:
    """Principal components of the kernels of one branch of one block."""

    block: int
    branch: str
    bottleneck: int
    samples: int
    features: int
    explained: tuple[float, ...]
    """Cumulative share of the variance, by component."""
    rank: int
    rank_bound: int


@dataclass(frozen=True)
class Bound:
    """What theory allows a branch, and what it does."""

    block: int
    branch: str
    lipschitz_bound: float | None
    largest_slope: float | None
    norm_bound: float | None
    norm: float | None
    holds: bool
    paper_holds: bool | None
    """Whether the norm is also below the formula that the paper prints, which forgets the head's bias."""


@dataclass(frozen=True)
class CostRow:
    """One way to simulate: what a unit of time costs, and the error by truth (`dataset`, `spectral`)."""

    what: str
    cells: int
    seconds_per_time: float
    errors: dict[str, float | None]


@dataclass(frozen=True)
class Cost:
    """Wall clock against error, measured side by side on one device."""

    device: str
    precision: str
    batch: int
    rows: tuple[CostRow, ...]
    speedup: dict[str, float | None]
    """At equal error, by truth, against the closure's own solver on a finer grid."""
    reason: dict[str, str | None]
    """Why there is no speed-up, where there is none."""
    speedup_strong: dict[str, float | None]
    """The same against the better classical scheme."""
    break_even: float | None
    """Simulated time units after which data and training have paid."""
    data_seconds: float | None
    train_seconds: float | None


@dataclass(frozen=True)
class Approximation:
    """How well a bottleneck can generate a smooth family of kernels: error relative to its variation."""

    bottleneck: int
    limit: float
    """The best that any features can do."""
    fitted: float
    """What a trained hypernetwork does."""


@dataclass(frozen=True)
class Analysis:
    """The analysis of one run."""

    kernels: tuple[Kernel, ...]
    bounds: tuple[Bound, ...]
    approximation: tuple[Approximation, ...]
    cost: Cost | None


@dataclass(frozen=True)
class Fit:
    """A power law `error = prefactor x^-exponent` through points."""

    model: str
    schedule: str
    against: str
    points: tuple[tuple[float, float], ...]
    exponent: float
    interval: tuple[float, float] | None
    prefactor: float

    @property
    def label(self) -> str:
        """For people."""
        title = MODEL_TITLES.get(self.model, self.model)
        return title if self.schedule == "ours" else f"{title}, {self.schedule}'s schedule"


@dataclass(frozen=True)
class Scaling:
    """Power laws of one benchmark."""

    benchmark: str
    fits: tuple[Fit, ...]


def read_analysis(path: Path) -> Analysis:
    """RUN/analysis.json."""
    return read_record(path, "analysis", _analysis)


def read_scaling(path: Path) -> Scaling:
    """The file that `sino analyze RUN... --out FILE` writes."""
    return read_record(
        path, "scaling", lambda record: Scaling(str(record["benchmark"]), tuple(map(_fit, record["fits"])))
    )


def _analysis(record: Mapping[str, Any]) -> Analysis:
    kernels = tuple(
        Kernel(
            block=int(k["block"]),
            branch=str(k["branch"]),
            bottleneck=int(k["bottleneck"]),
            samples=int(k["samples"]),
            features=int(k["features"]),
            explained=tuple(float(share) for share in k["explained"]),
            rank=int(k["rank"]),
            rank_bound=int(k["rank_bound"]),
        )
        for k in record["kernels"]
    )
    bounds = tuple(
        Bound(
            block=int(b["block"]),
            branch=str(b["branch"]),
            lipschitz_bound=real(b["lipschitz_bound"]),
            largest_slope=real(b["largest_slope"]),
            norm_bound=real(b["norm_bound"]),
            norm=real(b["norm"]),
            holds=bool(b["holds"]),
            paper_holds=b.get("paper_holds"),
        )
        for b in record["bounds"]
    )
    approximation = tuple(
        Approximation(int(row["bottleneck"]), float(row["limit"]), float(row["fitted"]))
        for row in record.get("approximation", ())
    )
    return Analysis(kernels, bounds, approximation, _cost(record["cost"]) if record.get("cost") else None)


def _cost(record: Mapping[str, Any]) -> Cost:
    rows = tuple(
        CostRow(
            what=str(row["what"]),
            cells=int(row["cells"]),
            seconds_per_time=float(row["seconds_per_time"]),
            errors=_by_truth(row["error"]),
        )
        for row in record["rows"]
    )
    return Cost(
        device=str(record["device"]),
        precision=str(record["precision"]),
        batch=int(record["batch"]),
        rows=rows,
        speedup=_by_truth(record["speedup_at_equal_error"]),
        reason={truth: (record.get("reason") or {}).get(truth) for truth in TRUTHS},
        speedup_strong=_by_truth(record.get("speedup_against_strong") or {}),
        break_even=real(record.get("break_even_time_units")),
        data_seconds=real(record.get("data_seconds")),
        train_seconds=real(record.get("train_seconds")),
    )


def _by_truth(record: Mapping[str, Any]) -> dict[str, float | None]:
    return {truth: real(record.get(truth)) for truth in TRUTHS}


def _fit(record: Mapping[str, Any]) -> Fit:
    low, high = record["interval"] or (None, None)
    return Fit(
        model=str(record["model"]),
        schedule=str(record.get("schedule", "ours")),
        against=str(record["against"]),
        points=tuple((float(x), float(error)) for x, error in record["points"]),
        exponent=float(record["exponent"]),
        interval=None if low is None or high is None else (float(low), float(high)),
        prefactor=float(record["prefactor"]),
    )
