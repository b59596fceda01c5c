"""The comparison of trainings on more unseen trajectories: its arithmetic, its table, and what it refuses."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the package `validation`, which is not installed

from validation import unseen

from sino.benchmarks import benchmark
from sino.cli import main
from sino.core.errors import UserError
from sino.train.run import Run


def test_seeds_are_averaged_and_schedules_compared_trajectory_by_trajectory():
    rng = np.random.default_rng(1)
    hard = rng.lognormal(sigma=2.0, size=(1, 400))  # what makes a trajectory hard is common to both
    errors = {"none": 5 * hard, "sino": hard * [[0.5], [1.5]], "sino-paper": hard * [[2.0], [2.0]]}
    found = unseen.summarise("ks", errors, {"sino": [1, 2], "sino-paper": [1, 2]})
    none, sino, paper = found["rows"]
    assert found["trajectories"] == 400
    assert none["mean"] == pytest.approx(5 * hard.mean()) and none["seeds"] == []
    assert sino["errors"] == pytest.approx([0.5 * hard.mean(), 1.5 * hard.mean()]) and sino["seeds"] == [1, 2]
    assert sino["standard_error"] == pytest.approx(hard.std(ddof=1) / 20)
    (pair,) = found["pairs"]
    assert pair["ratio"] == pytest.approx(0.5) and pair["interval"] == pytest.approx([0.5, 0.5])


def test_the_interval_of_a_ratio_holds_the_truth_and_shrinks():
    rng = np.random.default_rng(2)
    few, many = (unseen.interval_of_ratio(rng.random(n), rng.random(n)) for n in (20, 2000))
    assert few[0] < 1 < few[1] and many[0] < 1 < many[1]
    assert many[1] - many[0] < 0.3 * (few[1] - few[0])


def test_weights_are_tried_on_trajectories_that_the_benchmark_does_not_use(trained, tmp_path):
    b, runs = benchmark("ks", "tiny"), {"sino": [Run(trained.run(seed)) for seed in (1, 2)]}
    more = tmp_path / "ks"
    seeds = ("--seed0", str(b.sizes.trajectories), "--trajectories", "3")
    assert main(["generate", "ks", "--preset", "tiny", *seeds, "--out", str(more)]) == 0
    errors = unseen.errors_of(runs, b, more)
    assert errors["none"].shape == (1, 3) and errors["sino"].shape == (2, 3)
    assert all(np.isfinite(each).all() and (each > 0).all() for each in errors.values())
    assert (errors["sino"][0] != errors["sino"][1]).all()
    with pytest.raises(UserError, match="holds seed 0, which belongs to the benchmark"):
        unseen.errors_of(runs, b, trained.data)
