"""Result files of a run, read and checked: what is wrong with one becomes one sentence that names it.

RUN/evaluation.json                     errors and other measures of every checkpoint (`sino evaluate`)
RUN/evaluation-on-BENCHMARK-N.json      the same, tried without training on another flow or grid
RUN/samples.safetensors                 one unseen trajectory, for pictures
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from sino.core.errors import UserError
from sino.core.files import read_arrays
from sino.train.checkpoint import read_json

FORMAT_VERSION = 1
Result = TypeVar("Result")


@dataclass(frozen=True)
class Spectrum:
    """Energy or enstrophy by wavenumber, beside the reference's."""

    wavenumber: Float[np.ndarray, " k"]
    energy: Float[np.ndarray, " k"]
    reference: Float[np.ndarray, " k"]
    distance: float | None


@dataclass(frozen=True)
class Score:
    """How good one set of weights is on one set of trajectories. What a file does not tell is None."""

    mean: float | None
    """Mean squared error over the frames after the training window; None if a trajectory blew up."""
    median: float | None
    blown_up: int
    trajectories: int
    all_frames: float | None = None
    interval: tuple[float, float] | None = None
    per_trajectory: tuple[float | None, ...] = ()
    seeds: tuple[int, ...] = ()
    nrmse: float | None = None
    correlation_time: float | None = None
    correlation_interval: tuple[float, float] | None = None
    censored: int = 0
    """Trajectories whose correlation never fell under the threshold: counted at the end time."""
    energy_drift: float | None = None
    mean_drift: float | None = None
    divergence: float | None = None
    error_over_time: dict[str, Float[np.ndarray, " t"]] = field(default_factory=dict)
    spectrum: Spectrum | None = None
    enstrophy: Spectrum | None = None


Scores = dict[str, dict[str, Score]]
"""By weights (`none`, `final`, `best`, `selected`) and by set (`paper`, `test`, and `validation` from a training)."""


@dataclass(frozen=True)
class Evaluation:
    """A result file of `sino evaluate`: what was tried on which flow and grid."""

    path: Path
    benchmark: str
    preset: str
    coarse: int
    scheme: str
    times: Float[np.ndarray, " t"]
    first: int
    """The frames `first..last` are the ones that errors are reported over."""
    last: int
    parameters: int | None
    train_seconds: float | None
    scores: Scores
    sample_frames: tuple[int, ...]
    """Frames of samples.safetensors; empty if there is none."""


def read_evaluation(path: Path) -> Evaluation:
    """A result file of `sino evaluate`."""

    def build(record: dict[str, Any]) -> Evaluation:
        samples = record.get("samples") or {"frames": ()}
        return Evaluation(
            path=path,
            benchmark=str(record["benchmark"]),
            preset=str(record["preset"]),
            coarse=int(record["coarse"]),
            scheme=str(record["scheme"]),
            times=_array(record["times"]),
            first=int(record["first"]),
            last=int(record["last"]),
            parameters=None if record["parameters"] is None else int(record["parameters"]),
            train_seconds=real(record["train_seconds"]),
            scores={
                weights: {name: _score(score) for name, score in sets.items()}
                for weights, sets in record["scores"].items()
            },
            sample_frames=tuple(int(frame) for frame in samples["frames"]),
        )

    evaluation = read_record(path, "evaluation", build)
    if "none" not in evaluation.scores:
        raise UserError(f"{path} is damaged: it holds no errors of the coarse solver alone")
    return evaluation


def read_record(path: Path, kind: str, build: Callable[[dict[str, Any]], Result]) -> Result:
    """Read a JSON file of one kind and build something of it; a missing or misshapen entry is named."""
    record = read_json(path, FORMAT_VERSION)
    if record.get("kind") != kind:
        raise UserError(f"{path} is damaged: it is not of the kind {kind!r}")
    try:
        return build(record)
    except KeyError as error:
        raise UserError(f"{path} is damaged: it holds no {error.args[0]}") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}: {str(error)[:80]})") from error


def training_scores(errors: Mapping[str, Mapping[str, Any]]) -> Scores:
    """The few numbers that a training leaves in results.json."""
    return {
        weights: {
            judge: Score(
                mean=real(score["mean"]),
                median=real(score["median"]),
                blown_up=score["blown_up"],
                trajectories=score["trajectories"],
                all_frames=real(score.get("mean_all_frames")),
            )
            for judge, score in judges.items()
        }
        for weights, judges in errors.items()
    }


def read_samples(evaluation: Evaluation) -> dict[str, Float[np.ndarray, "t c *n"]] | None:
    """The trajectory that was kept for pictures, by weights, with `reference` and `none`; None if there is none."""
    path = evaluation.path.with_name("samples.safetensors")
    if not evaluation.sample_frames or not path.is_file():
        return None
    arrays = read_arrays(path)
    shapes = {array.shape for array in arrays.values()}
    if not {"reference", "none"} < arrays.keys() or len(shapes) != 1:
        raise UserError(f"{path} is damaged: it does not hold the solutions of one trajectory")
    if next(iter(shapes))[0] != len(evaluation.sample_frames):
        raise UserError(f"{path} is damaged: it does not hold the frames that {evaluation.path.name} tells of")
    return arrays


def _score(record: Mapping[str, Any]) -> Score:
    mse, blown = record["mse"], record["blown_up"]
    times = record.get("correlation_time") or {}
    return Score(
        mean=real(mse["mean"]),
        median=real(mse["median"]),
        blown_up=int(blown["count"]),
        trajectories=len(record["seeds"]),
        all_frames=real(record["mse_all_frames"]["mean"]),
        interval=_pair(mse.get("interval")),
        per_trajectory=tuple(map(real, mse["per_trajectory"])),
        seeds=tuple(int(seed) for seed in record["seeds"]),
        nrmse=real(record["nrmse"]["mean"]),
        correlation_time=real(times.get("mean")),
        correlation_interval=_pair(times.get("interval")),
        censored=int(times.get("censored") or 0),
        energy_drift=real(record.get("energy_drift")),
        mean_drift=real(record.get("mean_drift")),
        divergence=real(record.get("divergence")),
        error_over_time={name: _array(values) for name, values in record["error_over_time"].items()},
        spectrum=_spectrum(record.get("spectrum")),
        enstrophy=_spectrum(record.get("enstrophy_spectrum")),
    )


def _spectrum(record: Mapping[str, Any] | None) -> Spectrum | None:
    if not record:
        return None
    curves = [_array(record[name]) for name in ("wavenumber", "energy", "reference")]
    if len({len(curve) for curve in curves}) != 1:
        raise ValueError("a spectrum has as many energies as wavenumbers")
    return Spectrum(*curves, distance=real(record.get("distance")))


def real(value: Any) -> float | None:
    """A number of a file, which JSON may write without a point; None if it is not there or was not finite."""
    return None if value is None else float(value)


def _pair(values: Any) -> tuple[float, float] | None:
    if values is None or any(value is None for value in values):
        return None
    low, high = values
    return float(low), float(high)


def _array(values: Any) -> Float[np.ndarray, " t"]:
    """Numbers with gaps, which JSON writes as null."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
