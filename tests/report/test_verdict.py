"""The verdict: known factors and intervals, and honesty when the closure loses."""

import json
import shutil

import numpy as np
import pytest

from conftest import FOLDER
from sino.report.collect import collect
from sino.report.html import summary
from sino.report.verdict import verdicts


@pytest.fixture
def changed(tmp_path):
    """A copy of one evaluated run with other errors on unseen trajectories; returns its only verdict."""

    def make(errors, coarse=(0.12, 0.16, 0.18, 0.22), seeds=("1",)):
        for seed in seeds:
            shutil.copytree(FOLDER / "burgers-decaying" / "sino" / f"seed-{seed}", tmp_path / f"seed-{seed}")
            file = tmp_path / f"seed-{seed}" / "evaluation.json"
            record = json.loads(file.read_text())
            for weights, values in (("best", errors), ("none", coarse)):
                lost = sum(value is None for value in values)
                score = record["scores"][weights]["test"]
                score["mse"] |= {"per_trajectory": values, "mean": None if lost else float(np.mean(values))}
                score["blown_up"]["count"] = lost
            file.write_text(json.dumps(record))
        (verdict,) = verdicts(collect([tmp_path]))
        return verdict

    return make


def test_known_factors(runs):
    burgers, ns = verdicts(runs)
    assert burgers.factor == pytest.approx(0.17 / 5.5e-3) and ns.factor == pytest.approx(0.42 / 0.055)
    assert burgers.outcome == ns.outcome == "wins"
    assert burgers.interval[0] < burgers.factor < burgers.interval[1]
    assert burgers.sentence == (
        "SINO (3 seeds) makes the error 31 times smaller: 5.50e-3 against 1.70e-1 of the coarse grid alone, over 4 "
        "unseen trajectories, 95 % interval of the factor 23 to 42."
    )
    assert burgers.remarks == (
        "Best of the other networks: SINO, paper's schedule, 7.70e-3.",
        "Without a network: Hyperviscosity, 2.64e-2.",
        "1 run has no results yet.",
    )
    assert ns.group.label == "SINO, n = 8"  # the lower on validation
    assert "A better classical scheme on the same grid, without a closure: 1.45e-1." in ns.remarks


def test_interval_of_proportional_errors_is_a_point(changed):
    """Coarse and closure are resampled together: if every trajectory gains a factor of 4, so does every resample."""
    verdict = changed([0.03, 0.04, 0.045, 0.055])
    assert verdict.factor == pytest.approx(4) and verdict.interval == pytest.approx((4, 4))


def test_interval_of_independent_errors(changed):
    """Percentiles of the ratio of means over all resamples, here counted one by one."""
    verdict = changed([0.02, 0.08, 0.01, 0.05])
    closure, coarse = np.array([0.02, 0.08, 0.01, 0.05]), np.array([0.12, 0.16, 0.18, 0.22])
    every = np.stack(np.meshgrid(*[np.arange(4)] * 4)).reshape(4, -1)
    exact = np.quantile(coarse[every].mean(axis=0) / closure[every].mean(axis=0), [0.025, 0.975])
    np.testing.assert_allclose(verdict.interval, exact, rtol=0.03)


def test_losing_is_said(changed):
    verdict = changed([0.3, 0.4, 0.45, 0.55])
    assert verdict.outcome == "loses" and verdict.factor == pytest.approx(0.4)
    assert "makes the error 2.5 times larger" in verdict.sentence
    assert summary([verdict]) == (
        "On trajectories that it has not seen, the closure does not beat the coarse grid. It loses on Decaying Burgers."
    )


def test_no_clear_difference_is_said(changed):
    verdict = changed([0.22, 0.12, 0.18, 0.14])
    assert verdict.outcome == "level" and "no clear difference (factor 1.0)" in verdict.sentence
    assert "It makes no clear difference on Decaying Burgers." in summary([verdict])


def test_a_closure_that_blows_up_loses(changed):
    verdict = changed([0.001, 0.001, 0.001, None])
    assert verdict.outcome == "loses" and verdict.factor is None
    assert verdict.sentence == "SINO (1 seed) blew up on 1 of 4 rollouts of unseen trajectories."


def test_a_coarse_grid_that_blows_up_loses(changed):
    verdict = changed([0.03, 0.04, 0.045, 0.055], coarse=[0.1, None, None, 0.2])
    assert verdict.outcome == "wins" and verdict.factor is None
    assert "the coarse grid alone blows up on 2 of 4" in verdict.sentence


def test_without_evaluation_nothing_is_claimed():
    (verdict,) = verdicts(collect([FOLDER / "burgers-decaying" / "sino-paper"]))
    assert verdict.outcome == "unknown" and "7.70e-3" in verdict.sentence and "run sino evaluate" in verdict.sentence
    assert "Nothing can be said yet" in summary([verdict])


def test_without_errors_of_single_trajectories_there_is_no_interval(tmp_path):
    """As when only the last weights were evaluated: the chosen ones have what the training left."""
    shutil.copytree(FOLDER / "burgers-decaying" / "sino" / "seed-2", tmp_path / "seed-2")
    file = tmp_path / "seed-2" / "evaluation.json"
    record = json.loads(file.read_text())
    record["scores"] = {name: record["scores"][name] for name in ("none", "final")}
    file.write_text(json.dumps(record))
    (verdict,) = verdicts(collect([tmp_path]))
    assert verdict.outcome == "wins" and verdict.interval is None and verdict.factor == pytest.approx(0.17 / 5.5e-3)
    assert verdict.sentence.endswith("over 4 unseen trajectories (no interval).")


def test_without_sino_the_verdict_is_on_what_there_is():
    (verdict,) = verdicts(collect([FOLDER / "burgers-decaying" / "hyperviscosity"]))
    assert verdict.outcome == "wins" and verdict.sentence.startswith("Hyperviscosity makes the error 6.4 times smaller")
    (verdict,) = verdicts(collect([FOLDER / "burgers-decaying" / name for name in ("hyperviscosity", "fno")]))
    assert verdict.sentence == "FNO (2 seeds) blew up on 2 of 8 rollouts of unseen trajectories."


def test_summary_of_many(runs):
    assert summary(verdicts(runs)) == (
        "On trajectories that it has not seen, the closure beats the coarse grid on 2 of 2 flows: Decaying Burgers "
        "(31 ×), Decaying NS (7.6 ×)."
    )
