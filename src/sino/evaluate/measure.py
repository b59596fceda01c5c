"""Every metric of a batch of rollouts, and the summary of many: the scores that result files hold."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from sino.core.grid import Grid
from sino.metrics.correlation import THRESHOLD, correlation, correlation_times
from sino.metrics.drift import energy_drift, mean_drift
from sino.metrics.errors import bootstrap_interval, mean_squared_error, normalised_rmse, standard_error
from sino.metrics.spectra import energy_spectrum, enstrophy_spectrum, resolved_shells, spectral_distance
from sino.metrics.velocity import relative_divergence, vorticity
from sino.train.run import plain

SAMPLED = 50
"""Frames of each trajectory, spread evenly, from which spectra and divergence are taken."""


def measure(
    prediction: Float[np.ndarray, "b t c *n"], truth: Float[np.ndarray, "b t c *n"], grid: Grid, first: int
) -> dict[str, np.ndarray]:
    """Metrics of every trajectory: arrays with a leading axis `b`, by name.

    Errors and correlations are those of every frame, all else is taken over the frames from `first` on. A
    two-dimensional state is a velocity on staggered faces in a square box: its correlation is that of the vorticity.
    What is not finite stays so.
    """
    late, some = slice(first, None), _sampled(first, truth.shape[1])
    with np.errstate(all="ignore"):  # a simulation that blows up is measured like any other
        errors = mean_squared_error(prediction, truth)
        measured = {
            "errors": errors,
            "nrmse": normalised_rmse(errors[:, late], truth[:, late]),
            "energy_drift": energy_drift(prediction[:, late], truth[:, late]),
            "mean_drift": mean_drift(prediction[:, late], truth[:, late]),
        }
        measured["spectrum"] = _spectra(energy_spectrum, prediction[:, some])
        measured["spectrum reference"] = _spectra(energy_spectrum, truth[:, some])
        if grid.dim == 1:
            return measured | {"correlation": correlation(prediction, truth)}
        length = grid.length[0]
        turning, expected = vorticity(prediction, length), vorticity(truth, length)
        measured["correlation"] = correlation(turning[:, :, None], expected[:, :, None])
        measured["divergence"] = np.array([relative_divergence(one[some], length) for one in prediction])
        measured["enstrophy_spectrum"] = _spectra(enstrophy_spectrum, turning[:, some])
        measured["enstrophy_spectrum reference"] = _spectra(enstrophy_spectrum, expected[:, some])
        return measured


def summarise(
    measured: Mapping[str, np.ndarray], seeds: Sequence[int], times: Float[np.ndarray, " t"], grid: Grid, first: int
) -> dict[str, Any]:
    """The score of many trajectories in plain values, from what `measure` found.

    A trajectory that went non-finite is named with its seed and frame, and makes every mean None: none is left out.
    """
    errors = np.where(np.isfinite(measured["errors"]), measured["errors"], np.inf)
    blown = np.asarray(~np.isfinite(errors).all(axis=1))
    failures = [
        {"seed": seed, "frame": int(np.argmax(~np.isfinite(row)))}
        for seed, row, failed in zip(seeds, errors, blown, strict=True)
        if failed
    ]
    lasting, lost = measured["correlation"], correlation_times(measured["correlation"], times)
    with np.errstate(all="ignore"):
        late = np.where(blown, np.inf, errors[:, first:].mean(axis=1))
        low, high = np.quantile(errors, [0.25, 0.75], axis=0)
        score = {
            "seeds": list(seeds),
            "mse": _with_interval(late) | {"per_trajectory": late.tolist()},
            "mse_all_frames": {"mean": errors[:, 1:].mean()},
            "nrmse": {"mean": measured["nrmse"].mean()},
            "error_over_time": {"mean": short(errors.mean(axis=0)), "low": short(low), "high": short(high)},
            "correlation_over_time": short(lasting.mean(axis=0)),
            "correlation_time": {
                "mean": lost[0].mean(),
                "interval": list(bootstrap_interval(lost[0])),
                "censored": int(lost[1].sum()),
                "threshold": THRESHOLD,
            },
        }
        for name in ("spectrum", "enstrophy_spectrum"):
            if name in measured:
                score[name] = _spectrum(measured[name], measured[f"{name} reference"], grid)
        for name in ("energy_drift", "mean_drift", "divergence"):
            if name in measured:
                score[name] = measured[name].mean()
    return plain(score | {"blown_up": {"count": len(failures), "trajectories": failures}})


def short(values: np.ndarray, digits: int = 6) -> list[float]:
    """Numbers with as many digits as a curve needs."""
    return [float(f"{value:.{digits}g}") for value in values]


def _with_interval(values: Float[np.ndarray, " b"]) -> dict[str, Any]:
    """Mean and median over trajectories, and how sure the mean is; None where that has no meaning."""
    finite = bool(np.isfinite(values).all())
    return {
        "mean": values.mean(),
        "median": np.median(values),
        "standard_error": standard_error(values) if finite and len(values) > 1 else None,
        "interval": list(bootstrap_interval(values)) if finite else [None, None],
    }


def _spectrum(spectra: Float[np.ndarray, "b k"], references: Float[np.ndarray, "b k"], grid: Grid) -> dict[str, Any]:
    """Averages over trajectories on the shells that the grid resolves, and their distance."""
    shells = resolved_shells(grid.n)
    found, expected = spectra.mean(axis=0)[shells], references.mean(axis=0)[shells]
    return {
        "wavenumber": list(range(shells.start, shells.stop)),
        "energy": short(found),
        "reference": short(expected),
        "distance": spectral_distance(found, expected),
    }


def _sampled(first: int, frames: int) -> np.ndarray:
    return np.unique(np.linspace(first, frames - 1, SAMPLED).astype(int))


def _spectra(spectrum: Callable[[Any], tuple[np.ndarray, np.ndarray]], fields: np.ndarray) -> np.ndarray:
    """Spectra `(b, k)` of fields `(b, t, ...)`, averaged over the frames."""
    return np.stack([np.mean([spectrum(field)[1] for field in trajectory], axis=0) for trajectory in fields])
