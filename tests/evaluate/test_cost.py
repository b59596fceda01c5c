from dataclasses import replace

import pytest
from flows import damping, flow

from sino.core.errors import UserError
from sino.evaluate.cost import CostPlan, check_plan, measure_cost, summarise

pytestmark = pytest.mark.usefixtures("quick_to_compile")


def plan(b, coarse=8, grids=(16,), rate=0.0, **changes):
    made = CostPlan(
        benchmark=b,
        coarse=coarse,
        scheme="paper",
        closure=damping(rate, len(b.offsets)),
        coupling="frozen",
        precision="float64",
        grids=grids,
        seeds=(3, 4),
        batch=1,
        first=2,
        last=4,
        call_seconds=0.0,
        repeats=1,
    )
    return replace(made, **changes)


@pytest.fixture(scope="module")
def forced(quick_to_compile):
    """Forced Burgers, smooth as it starts from rest, with a closure that does nothing."""
    lines = []
    return measure_cost(plan(flow("burgers-forced", 128, 16, warmup=0.2), 16, (32,)), 10.0, lines.append), lines


def by_name(cost):
    return {row["what"]: row for row in cost["rows"]}


def test_finer_grids_and_the_better_scheme_err_less_on_a_smooth_flow(forced):
    cost, lines = forced
    rows = by_name(cost)
    assert list(rows) == ["coarse", "closure", "fine-32", "fine-128", "strong-16", "strong-32"]
    assert [row["cells"] for row in rows.values()] == [16, 16, 32, 128, 16, 32]
    for truth in ("dataset", "spectral"):
        error = {what: row["error"][truth] for what, row in rows.items()}
        assert 0 < 4 * error["fine-32"] < error["coarse"]
        assert 4 * error["strong-32"] < error["strong-16"] < error["coarse"]
    assert rows["fine-128"]["error"]["dataset"] is None  # it is that truth
    assert 0 < rows["fine-128"]["error"]["spectral"] < 0.2 * rows["fine-32"]["error"]["spectral"]
    assert all(row["seconds_per_time"] > 0 for row in rows.values())
    assert any("fine-32" in line for line in lines)


def test_a_closure_of_zero_is_the_coarse_solver(forced):
    cost, _ = forced
    rows = by_name(cost)
    assert rows["closure"]["error"] == pytest.approx(rows["coarse"]["error"], rel=1e-9)


def test_the_second_truth_is_converged_and_close_to_the_first(forced):
    cost, _ = forced
    truth = cost["truth"]["spectral"]
    assert (truth["cells"], cost["truth"]["dataset"]["cells"]) == (256, 128)
    assert 0 < truth["doubling_error"] < 0.1 * by_name(cost)["fine-32"]["error"]["spectral"]
    assert truth["doubling_error"] < 1e-3 * truth["variance"]


def test_two_dimensions_have_a_spectral_truth_and_a_closure_that_harms_has_no_speed_up():
    b = flow("ns-decaying", 32, 8, warmup=0.05)
    cost = measure_cost(plan(b, rate=30.0), None)
    rows = by_name(cost)
    assert list(rows) == ["coarse", "closure", "fine-16", "fine-32", "spectral-8", "spectral-16"]
    for truth in ("dataset", "spectral"):
        error = {what: row["error"][truth] for what, row in rows.items()}
        assert error["fine-16"] < error["coarse"] < error["closure"]
        assert cost["speedup_at_equal_error"][truth] is None
        assert cost["reason"][truth] == "the closure is worse than the solver alone on 8 cells"
    assert rows["spectral-16"]["error"]["spectral"] < rows["spectral-8"]["error"]["spectral"]
    assert cost["truth"]["spectral"]["steps_per_frame"] == 2 * rows["fine-32"]["steps_per_frame"]
    assert (cost["break_even_time_units"], cost["train_seconds"]) == (None, None)


def rows_with(closure_error, seconds=1.0):
    """Made-up measurements: error a quarter, cost eight times with every doubling of the grid."""
    made = {"coarse": (8, 1.0, 1.0), "closure": (8, seconds, closure_error), "fine-16": (16, 8.0, 0.25)}
    made |= {"fine-64": (64, 512.0, 1 / 64), "strong-8": (8, 2.0, 0.5), "strong-16": (16, 16.0, 0.05)}
    rows = [
        {"what": what, "cells": cells, "seconds_per_time": time, "error": {"dataset": error, "spectral": error}}
        for what, (cells, time, error) in made.items()
    ]
    rows[3]["error"]["dataset"] = None
    return rows


def test_speed_up_and_break_even_with_known_numbers():
    """The closure errs like a grid of 8 sqrt(2) cells, which costs sqrt(8), and costs 1 itself."""
    b = flow("burgers-forced", 64, 8, warmup=0.5)
    found = summarise(plan(b), rows_with(0.5), train_seconds=100.0)
    assert found["speedup_at_equal_error"] == pytest.approx({"dataset": 8**0.5, "spectral": 8**0.5})
    assert found["equal_error_grid"] == pytest.approx({"dataset": 8 * 2**0.5, "spectral": 8 * 2**0.5})
    assert found["speedup_against_strong"] == pytest.approx({"dataset": 2.0, "spectral": 2.0})
    # Three trajectories of 0.5 + 4 * 0.01 time units on the fine grid, at 512 seconds each.
    assert found["data_seconds"] == pytest.approx(3 * 0.54 * 512)
    assert found["break_even_time_units"] == pytest.approx((3 * 0.54 * 512 + 100) / (8**0.5 - 1))


def test_no_break_even_where_nothing_is_saved():
    b = flow("burgers-forced", 64, 8, warmup=0.5)
    for rows, seconds, reason in ((rows_with(0.5, 3.0), 100.0, "takes longer"), (rows_with(0.5), None, "not ended")):
        found = summarise(plan(b), rows, seconds)
        assert found["break_even_time_units"] is None and reason in found["reason_break_even"]
    better = summarise(plan(b), rows_with(0.1), 100.0)
    assert better["speedup_at_equal_error"]["dataset"] is None  # the finest grid that can be compared has 16 cells
    assert better["speedup_at_equal_error"]["spectral"] is not None  # here the dataset's own grid counts
    blown = summarise(plan(b), rows_with(None), 100.0)
    assert blown["reason"] == {"dataset": "the closure blew up", "spectral": "the closure blew up"}
    strong = summarise(plan(b, scheme="strong"), rows_with(0.5), 100.0)
    assert strong["reason_strong"]["dataset"] == "the closure's own solver is the strong scheme"


def test_the_strong_solver_is_compared_with_itself_on_finer_grids():
    names = [c.what for c in plan(flow("ns-decaying", 64, 8), scheme="strong").contenders()]
    assert names == ["coarse", "closure", "fine-16", "fine-64"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grids": (24,)}, "does not divide"),
        ({"grids": (8,)}, "choose others with --grids"),
        ({"grids": (64,)}, "choose others with --grids"),
        ({"seeds": ()}, "at least one trajectory"),
        ({"batch": 0}, "at least one trajectory"),
        ({"first": 0}, "are not among 1..4"),
        ({"first": 3, "last": 2}, "are not among 1..4"),
        ({"last": 5}, "are not among 1..4"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        check_plan(plan(flow("burgers-forced", 64, 8), **changes))
