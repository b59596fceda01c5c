import json

import numpy as np
import pytest

from sino.core.grid import Grid
from sino.evaluate.measure import SAMPLED, _sampled, measure, short, summarise
from sino.metrics.errors import bootstrap_interval
from sino.metrics.spectra import energy_spectrum
from sino.metrics.velocity import vorticity

LINE = Grid((32,), (2 * np.pi,))
BOX = Grid((16, 16), (2 * np.pi, 2 * np.pi))
SEEDS = (80, 81, 82)
TIMES = 7 + 0.5 * np.arange(6)
FIRST = 3


def pair(grid, noise=0.1):
    """A reference of three trajectories of frames 0..5, and a simulation that drifts away from it."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(3, 6, grid.dim, *grid.n))
    growth = noise * np.arange(6.0).reshape(1, 6, *[1] * (1 + grid.dim))
    return truth + growth * rng.normal(size=truth.shape), truth


def scored(prediction, truth, grid):
    return summarise(measure(prediction, truth, grid, FIRST), SEEDS, TIMES, grid, FIRST)


def test_every_number_of_a_score_by_a_direct_computation():
    prediction, truth = pair(LINE)
    score = scored(prediction, truth, LINE)
    squares = (prediction - truth) ** 2
    late = squares[:, FIRST:].mean(axis=(1, 2, 3))
    assert score["seeds"] == [80, 81, 82]
    assert score["mse"]["mean"] == pytest.approx(late.mean())
    assert score["mse"]["median"] == pytest.approx(np.sort(late)[1])
    assert score["mse"]["per_trajectory"] == pytest.approx(late.tolist())
    assert score["mse"]["standard_error"] == pytest.approx(np.std(late, ddof=1) / np.sqrt(3))
    assert score["mse"]["interval"] == pytest.approx(bootstrap_interval(late))
    assert score["mse_all_frames"]["mean"] == pytest.approx(squares[:, 1:].mean())
    deviations = [one.std() for one in truth[:, FIRST:]]
    assert score["nrmse"]["mean"] == pytest.approx(np.mean(np.sqrt(late) / deviations))
    curve = squares.mean(axis=(2, 3))
    for name, values in {
        "mean": curve.mean(axis=0),
        "low": np.quantile(curve, 0.25, axis=0),
        "high": np.quantile(curve, 0.75, axis=0),
    }.items():
        assert score["error_over_time"][name] == pytest.approx(values.tolist(), rel=1e-5)
    correlations = [
        [np.corrcoef(prediction[i, j].ravel(), truth[i, j].ravel())[0, 1] for j in range(6)] for i in range(3)
    ]
    assert score["correlation_over_time"] == pytest.approx(np.mean(correlations, axis=0), rel=1e-5)
    energies = [np.square(field[:, FIRST:]).mean(axis=(1, 2, 3)) for field in (prediction, truth)]
    assert score["energy_drift"] == pytest.approx(np.mean(energies[0] / energies[1] - 1))
    assert score["energy_drift"] > 0
    means = [field[:, FIRST:].mean(axis=(2, 3)) for field in (prediction, truth)]
    drifts = np.sqrt(np.square(means[0] - means[1]).mean(axis=1)) / deviations
    assert score["mean_drift"] == pytest.approx(drifts.mean())
    spectra = [
        np.mean([energy_spectrum(u)[1] for one in field[:, FIRST:] for u in one], axis=0)[1:16]
        for field in (prediction, truth)
    ]
    assert score["spectrum"]["wavenumber"] == list(range(1, 16))
    assert score["spectrum"]["energy"] == pytest.approx(spectra[0], rel=1e-5)
    assert score["spectrum"]["reference"] == pytest.approx(spectra[1], rel=1e-5)
    distance = np.sqrt(np.mean(np.log10(spectra[0] / spectra[1]) ** 2))
    assert score["spectrum"]["distance"] == pytest.approx(distance)
    assert score["blown_up"] == {"count": 0, "trajectories": []}
    assert "divergence" not in score and "enstrophy_spectrum" not in score


def test_a_perfect_simulation():
    _, truth = pair(LINE)
    score = scored(truth, truth, LINE)
    assert score["mse"]["mean"] == score["nrmse"]["mean"] == score["energy_drift"] == score["mean_drift"] == 0
    assert score["spectrum"]["distance"] == 0
    lost = score["correlation_time"]
    assert lost == {"mean": 2.5, "interval": [2.5, 2.5], "censored": 3, "threshold": 0.95}


def test_the_time_until_the_correlation_is_lost_is_averaged_with_an_interval():
    """A sine that jumps by 0, 60 or 180 degrees at frame 1, 2 or never: correlations 1, 0.5 and -1."""
    x = LINE.axis(0)
    truth = np.broadcast_to(np.sin(x), (3, 6, 1, 32))
    prediction = truth.copy()
    prediction[0, 1:] = np.sin(x - np.pi / 3)
    prediction[1, 2:] = np.sin(x - np.pi)
    lost = scored(prediction, truth, LINE)["correlation_time"]
    times = np.array([0.5 * 0.05 / 0.5, 0.5 + 0.5 * 0.05 / 2, 2.5])
    assert lost["mean"] == pytest.approx(times.mean())
    assert lost["interval"] == pytest.approx(bootstrap_interval(times))
    assert lost["censored"] == 1


def test_in_two_dimensions_the_vorticity_is_what_correlates():
    _, truth = pair(BOX)
    pushed = truth + np.array([50.0, -20.0]).reshape(1, 1, 2, 1, 1)
    score = scored(pushed, truth, BOX)
    assert score["correlation_over_time"] == [1.0] * 6, "a wind through the whole box turns nothing"
    assert score["mse"]["mean"] == pytest.approx(50**2 / 2 + 20**2 / 2)
    enstrophy = [energy_spectrum(w[None])[1] for one in vorticity(truth, 2 * np.pi)[:, FIRST:] for w in one]
    assert score["enstrophy_spectrum"]["reference"] == pytest.approx(np.mean(enstrophy, axis=0)[1:8], rel=1e-5)
    assert score["enstrophy_spectrum"]["energy"] == pytest.approx(score["enstrophy_spectrum"]["reference"], rel=1e-5)
    assert score["divergence"] == pytest.approx(1.0, rel=0.1), "of white noise there is as much as of vorticity"


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("grid", [LINE, BOX], ids=["1D", "2D"])
def test_what_blew_up_is_counted_named_and_never_left_out(grid, value):
    """1e30 is a number, but its square is none in float32."""
    prediction, truth = (field.astype(np.float32) for field in pair(grid))
    prediction[1, 4:] = value
    score = scored(prediction, truth, grid)
    json.dumps(score, allow_nan=False)
    assert score["blown_up"] == {"count": 1, "trajectories": [{"seed": 81, "frame": 4}]}
    for name in ("mse", "mse_all_frames", "nrmse"):
        assert score[name]["mean"] is None
    assert score["mse"]["per_trajectory"][1] is None and None not in score["mse"]["per_trajectory"][::2]
    assert score["mse"]["median"] == pytest.approx(max(score["mse"]["per_trajectory"][::2]))
    assert score["mse"]["standard_error"] is None and score["mse"]["interval"] == [None, None]
    over_time = score["error_over_time"]
    assert None not in over_time["mean"][:4] and over_time["mean"][4:] == [None, None]
    assert None not in over_time["low"][:4] and None not in score["correlation_over_time"]
    assert score["correlation_time"]["mean"] <= 2.0
    if value != 1e30:
        assert score["energy_drift"] is None and score["mean_drift"] is None and score["spectrum"]["distance"] is None


def test_when_all_blow_up_there_is_no_median_either():
    prediction, truth = pair(LINE)
    prediction[:, 2:] = np.nan
    score = scored(prediction, truth, LINE)
    assert score["mse"]["median"] is None and score["blown_up"]["count"] == 3
    assert score["correlation_time"]["mean"] <= 1.0


def test_a_single_trajectory_has_a_score():
    prediction, truth = (field[:1] for field in pair(LINE))
    score = summarise(measure(prediction, truth, LINE, FIRST), SEEDS[:1], TIMES, LINE, FIRST)
    assert score["mse"]["mean"] > 0 and score["mse"]["standard_error"] is None


def test_sampled_frames_are_spread_over_the_window_and_end_with_it():
    assert _sampled(3, 6).tolist() == [3, 4, 5]
    many = _sampled(301, 1001)
    assert len(many) == SAMPLED and many[0] == 301 and many[-1] == 1000
    assert np.ptp(np.diff(many)) <= 1


def test_curves_keep_six_digits():
    assert short(np.array([1 / 3, 2e10 / 3, -1e-12 / 3])) == [0.333333, 6.66667e9, -3.33333e-13]
