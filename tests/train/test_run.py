"""A run folder: claimed once, cut back to a checkpoint, and gone on with together or one by one."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.train import checkpoint
from sino.train.curriculum import Recipe, Stage
from sino.train.loop import Step
from sino.train.run import Run, plain
from sino.train.session import _frames_left, groups, summary
from sino.train.update import one_seed, stack_seeds

CONFIGURATION = {"benchmark": "ks", "seed": 1, "sizes": {}, "recipe": {"stages": ((5, 2), (10, 2)), "batch": 8}}


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "a" / "seed-1")
    run.start(CONFIGURATION)
    return run


def test_a_folder_is_claimed_once(run):
    before = run.config_file.read_bytes()
    run.start(CONFIGURATION)
    assert run.config_file.read_bytes() == before
    assert run.configuration() == json.loads(json.dumps(CONFIGURATION))
    stored = json.loads(before)
    assert stored["format_version"] == 1 and {"sino", "jax", "commit"} <= set(stored["provenance"])
    assert not run.finished


def test_an_empty_folder_may_be_claimed_and_another_may_not(tmp_path):
    (tmp_path / "empty").mkdir()
    Run(tmp_path / "empty").start(CONFIGURATION)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="is not empty and holds no run; give another folder with --out"):
        Run(tmp_path / "full").start(CONFIGURATION)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_folder_whose_claim_was_killed_may_be_claimed_again(tmp_path):
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / ".config.json.tmp").write_text('{"format_ver')
    Run(tmp_path / "seed-1").start(CONFIGURATION)
    assert Run(tmp_path / "seed-1").configuration()["seed"] == 1


@pytest.mark.parametrize(
    "change, difference",
    [
        ({"seed": 2}, "seed is 1 there and 2 here"),
        ({"recipe": {"stages": [[5, 3], [10, 2]], "batch": 8}}, "recipe.stages is [[5, 2], [10, 2]] there and [[5, 3]"),
        ({"recipe": {"stages": [[5, 2], [10, 2]], "batch": 4}}, "recipe.batch is 8 there and 4 here"),
        ({"recipe": {"stages": [[5, 2], [10, 2]]}}, "recipe.batch is 8 there and None here"),
        ({"sizes": {"width": 4}}, "sizes.width is None there and 4 here"),
    ],
)
def test_another_configuration_is_refused_with_the_difference(run, change, difference):
    with pytest.raises(UserError) as caught:
        run.start(CONFIGURATION | change)
    assert difference in str(caught.value) and str(run.path) in str(caught.value)
    assert str(caught.value).count(" there and ") == 1
    assert run.configuration()["seed"] == 1


def test_a_run_from_before_there_was_a_choice_of_optimisers_goes_on_with_adam(run):
    def asked(name):
        return CONFIGURATION | {"recipe": CONFIGURATION["recipe"] | {"optimiser": name}}

    run.start(asked("adam"))
    with pytest.raises(UserError, match="recipe.optimiser is 'adam' there and 'soap' here"):
        run.start(asked("soap"))


def test_metrics_are_cut_after_an_update(run):
    run.cut_metrics(3)
    assert not run.metrics_file.exists()
    run.append_metrics({"kind": "update", "update": n, "loss": n / 2} for n in range(1, 7))
    run.append_metrics([{"kind": "evaluation", "update": 4}])
    run.cut_metrics(4)
    assert [(line["kind"], line["update"]) for line in run.metrics()] == [
        *(("update", n) for n in (1, 2, 3, 4)),
        ("evaluation", 4),
    ]
    run.append_metrics([{"kind": "update", "update": 5}])
    assert run.metrics()[-1] == {"kind": "update", "update": 5}
    run.cut_metrics(-1)
    assert run.metrics() == []


def test_a_line_that_was_cut_short_is_dropped_and_no_other(run):
    run.append_metrics({"kind": "update", "update": n} for n in (1, 2))
    whole = run.metrics_file.read_text()
    run.metrics_file.write_text(whole + '{"kind": "upd')
    with pytest.raises(UserError, match="damaged at line 3"):
        run.metrics()
    run.cut_metrics(9)
    assert run.metrics_file.read_text() == whole
    run.metrics_file.write_text('{"kind": "upd\n' + whole)
    with pytest.raises(UserError, match="damaged at line 1"):
        run.cut_metrics(9)


def test_what_is_not_finite_is_null(run):
    line = {"update": 1, "loss": np.float32(np.nan), "norm": jnp.asarray(np.inf), "list": [np.int64(3), -math.inf]}
    run.append_metrics([line])
    assert run.metrics() == [{"update": 1, "loss": None, "norm": None, "list": [3, None]}]
    assert plain({"a": (np.float64(0.5), {"b": jnp.asarray(2)})}) == {"a": [0.5, {"b": 2}]}


def made(path, *updates: int) -> Run:
    """A run that saved at these updates; the last two are kept."""
    run = Run(path)
    run.start({"seed": path.name})
    for update in updates:
        tree = {"w": jnp.asarray(float(update))}
        checkpoint.save(run.checkpoint("last"), tree, {"update": update}, keep=run.checkpoint("previous"))
    return run


def test_saved_updates(tmp_path):
    assert made(tmp_path / "a").saved_updates() == {}
    assert made(tmp_path / "b", 10).saved_updates() == {10: "last"}
    assert made(tmp_path / "c", 10, 20, 30).saved_updates() == {30: "last", 20: "previous"}


def test_runs_go_on_together_from_the_latest_update_that_all_have(tmp_path):
    new, also = made(tmp_path / "new"), made(tmp_path / "also")
    assert groups([new, also]) == [([new, also], 0)]
    a, b = made(tmp_path / "a", 10, 20), made(tmp_path / "b", 10, 20)
    assert groups([a, b]) == [([a, b], 20)]
    behind = made(tmp_path / "behind", 10)  # killed after a and b had saved at 20
    assert groups([a, b, behind]) == [([a, b, behind], 10)]
    ahead = made(tmp_path / "ahead", 10, 20, 30)
    assert groups([a, ahead]) == [([a, ahead], 20)]
    assert groups([ahead]) == [([ahead], 30)]


def test_runs_that_are_far_apart_go_on_one_by_one(tmp_path):
    ahead, behind, new = made(tmp_path / "a", 30, 40), made(tmp_path / "b", 10, 20), made(tmp_path / "c")
    assert groups([ahead, behind]) == [([ahead], 40), ([behind], 20)]
    assert groups([ahead, new]) == [([ahead], 40), ([new], 0)]


def test_a_run_that_lost_its_last_checkpoint_goes_on_from_the_one_before(tmp_path):
    a, b = made(tmp_path / "a", 10, 20), made(tmp_path / "b", 10, 20)
    a.checkpoint("last").rename(a.checkpoint(".last.tmp"))
    assert groups([a, b]) == [([a, b], 10)]


def test_an_unreadable_checkpoint_is_an_error_not_a_beginning(tmp_path):
    a, b = made(tmp_path / "a", 10, 20), made(tmp_path / "b", 10, 20)
    (a.checkpoint("last") / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="delete that folder to go on from the one before it, at update 10"):
        groups([a, b])
    (a.checkpoint("previous") / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="nor can the one before it; delete .*/a to begin again"):
        groups([a, b])


def test_the_frames_that_are_left_are_those_of_the_updates_to_come():
    recipe, per_epoch = Recipe((Stage(5, 2), Stage(10, 1), Stage(3, 2))), 2
    frames = [recipe.frames(epoch) for epoch in range(recipe.epochs) for _ in range(per_epoch)]
    for done in range(1, len(frames) + 1):
        epoch = (done - 1) // per_epoch
        step = Step(done, len(frames), epoch, done % per_epoch == 0, frames[done - 1], 1e-3, None, None)
        assert _frames_left(recipe, step) == sum(frames[done:])


def test_seeds_are_stacked_and_taken_apart():
    parts = [{"w": jnp.full((2,), float(n)), "n": jnp.asarray(n)} for n in range(3)]
    stacked = stack_seeds(parts)
    assert stacked["w"].shape == (3, 2) and stacked["n"].shape == (3,)
    for position, part in enumerate(parts):
        found = one_seed(stacked, position)
        assert np.array_equal(found["w"], part["w"]) and found["n"] == position


def test_a_trajectory_that_blew_up_is_counted_and_never_left_out():
    errors = np.arange(12.0).reshape(2, 6)
    assert summary(errors, 4) == {
        "mean": np.mean([4.5, 10.5]),
        "median": 7.5,
        "mean_all_frames": np.mean([3.0, 9.0]),
        "blown_up": 0,
        "trajectories": 2,
    }
    errors[1, 2] = np.nan
    late = summary(errors, 4)
    assert late["mean"] is None and late["mean_all_frames"] is None and late["blown_up"] == 1
    assert np.isfinite(late["median"])
