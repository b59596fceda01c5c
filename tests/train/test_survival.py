"""A training survives kills, signals and seeds that fail, and ends as if nothing had happened."""

import contextlib
import itertools
import json
import random
import shutil
import signal
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.cli import main, training
from sino.train.update import RETRIES
from tiny_training import (
    EPOCHS,
    arguments,
    assert_same_run,
    assert_same_weights,
    everything_under,
    lines,
    start_process,
)


def wait_for_lines(process, run, count: int) -> None:
    """Wait until a run has so many lines of metrics, or its process has ended."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        file = run / "metrics.jsonl"
        if file.is_file() and file.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.002)


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of the finished runs, to be changed."""
    shutil.copytree(trained.out, tmp_path / "runs")
    return tmp_path / "runs"


def test_a_run_that_is_killed_five_times_ends_as_if_it_had_not_been(trained, tmp_path):
    moments = random.Random(20)
    killed = 0
    for _ in range(5):
        seen = len((tmp_path / "seed-1" / "metrics.jsonl").read_bytes().splitlines()) if killed else 0
        process = start_process(trained.data, tmp_path)
        # Lines that are there already are cut off again: the run must get past its last checkpoint to be seen.
        wait_for_lines(process, tmp_path / f"seed-{moments.choice((1, 2))}", seen + moments.randint(1, 22))
        time.sleep(moments.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.communicate()
    assert killed >= 3, "the run ended before it could be killed"
    process = start_process(trained.data, tmp_path)
    printed, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    for seed in (1, 2):
        assert_same_run(tmp_path / f"seed-{seed}", trained.run(seed))


def test_signals_stop_a_run_cleanly_and_the_same_command_goes_on(trained, tmp_path):
    for number, count in ((signal.SIGTERM, 1), (signal.SIGINT, 30)):
        process = start_process(trained.data, tmp_path)
        wait_for_lines(process, tmp_path / "seed-1", count)
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=120)
        assert process.returncode == 130, complaints
        assert "the same command goes on" in printed
        assert "Traceback" not in complaints
        stored = json.loads((tmp_path / "seed-1" / "checkpoints" / "last" / "manifest.json").read_text())
        assert stored["update"] == max(line["update"] for line in lines(tmp_path / "seed-1"))
    process = start_process(trained.data, tmp_path)
    printed, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    assert f"going on from update {stored['update']}" in printed
    for seed in (1, 2):
        assert_same_run(tmp_path / f"seed-{seed}", trained.run(seed))


def test_a_run_with_soap_that_was_stopped_ends_as_if_it_had_not_been(trained, tmp_path, quick, monkeypatch):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    assert main(arguments(trained.data, whole, "--optimiser", "soap")) == 0
    updates = itertools.count(1)
    with monkeypatch.context() as patch:
        patch.setattr(training, "stop_requests", lambda: contextlib.nullcontext(lambda: next(updates) == 13))
        assert main(arguments(trained.data, parted, "--optimiser", "soap")) == 130
    assert main(arguments(trained.data, parted, "--optimiser", "soap")) == 0
    for seed in (1, 2):
        assert_same_run(parted / f"seed-{seed}", whole / f"seed-{seed}")


def test_a_second_interrupt_stops_at_once():
    with pytest.raises(KeyboardInterrupt), training.stop_requests() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGTERM)
        assert stop()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_same_command_on_a_finished_run_trains_nothing(trained, copy, quick, capsys):
    before = everything_under(copy)
    assert main(arguments(trained.data, copy)) == 0
    assert everything_under(copy) == before
    printed = capsys.readouterr().out
    assert printed.count("has ended already") == 2 and "going on" not in printed
    assert "coarse grid alone" in printed and "seed-1 final" in printed


@pytest.mark.parametrize(
    "change, difference",
    [
        (("--learning-rate", 0.02), "recipe.learning_rate is 0.01 there and 0.02 here"),
        (("--stages", 5, 41), "recipe.stages is [[5, 40]] there and [[5, 41]] here"),
        (("--sizes", "width", 8), "sizes.width is 4 there and 8 here"),
        (("--scheme", "strong"), "scheme is 'paper' there and 'strong' here"),
        (("--precision", "float64"), "precision is 'float32' there and 'float64' here"),
        (("--model", "sino-spe"), "model is 'sino' there and 'sino-spe' here"),
    ],
)
def test_another_configuration_is_refused_and_changes_nothing(trained, copy, quick, capsys, change, difference):
    for seed in (1, 2):
        (copy / f"seed-{seed}" / "results.json").unlink()
    before = everything_under(copy)
    assert main(arguments(trained.data, copy, *change)) == 2
    assert everything_under(copy) == before
    complaint = capsys.readouterr().err
    assert str(copy / "seed-1") in complaint and difference in complaint
    assert complaint.count("\n") == 1


def test_a_new_seed_is_not_begun_beside_one_that_is_refused(trained, copy, quick):
    before = everything_under(copy)
    assert main(arguments(trained.data, copy, "--learning-rate", 0.02, seeds=(3, 1))) == 2
    assert everything_under(copy) == before


def test_seeds_that_are_added_later_are_trained_without_the_others(trained, copy, quick, capsys):
    before = {seed: everything_under(copy / f"seed-{seed}") for seed in (1, 2)}
    assert main(arguments(trained.data, copy, seeds=(1, 4, 2, 3))) == 0
    assert before == {seed: everything_under(copy / f"seed-{seed}") for seed in (1, 2)}
    printed = capsys.readouterr().out
    assert printed.count("has ended already") == 2
    for seed in (3, 4):
        assert max(line["update"] for line in lines(copy / f"seed-{seed}")) == EPOCHS
        assert f"seed-{seed} final" in printed
        assert json.loads((copy / f"seed-{seed}" / "config.json").read_text())["configuration"]["seed"] == seed


def test_a_run_that_was_killed_before_its_results_goes_on_from_the_last_update(trained, copy, quick, capsys):
    (copy / "seed-2" / "results.json").unlink()
    shutil.rmtree(copy / "seed-2" / "checkpoints" / "final")
    assert main(arguments(trained.data, copy)) == 0
    assert f"going on from update {EPOCHS}" in capsys.readouterr().out
    assert_same_run(copy / "seed-2", trained.run(2))


def replace_update(monkeypatch, change) -> None:
    """Let `sino train` take another update, made of its own."""
    prepare = training._prepare

    def prepared(*arguments):
        update, evaluate = prepare(*arguments)
        return change(update), evaluate

    monkeypatch.setattr(training, "_prepare", prepared)


def poisoned(update, seed: int, since: int):
    """An update that finds weights that are not finite in one seed, again and again."""

    def run(state, batch, turn):
        if turn.index >= since:
            first = eqx.tree_at(lambda s: s.now.model.lift.weight, state, replace_fn=lambda w: w.at[seed].set(jnp.nan))
            state = jax.tree.map(jnp.asarray, first)
        return update(state, batch, turn)

    return run


def test_a_seed_that_stays_non_finite_is_reported_and_the_other_finishes(trained, tmp_path, quick, monkeypatch, capsys):
    prepare = training._prepare
    replace_update(monkeypatch, lambda update: poisoned(update, seed=1, since=12))
    assert main(arguments(trained.data, tmp_path)) == 1
    printed = capsys.readouterr().out
    stop = 12 + RETRIES + 1
    assert f"seed-2: stopped at update {stop}, rollout of 5 frames, trajectory of seed " in printed
    assert "seed 2 went back at update 13: not finite in a rollout of 5 frames, trajectory of seed" in printed
    assert "seed-1 final" in printed and "seed-2 final" not in printed

    events = [line for line in lines(tmp_path / "seed-2") if line["kind"] == "event"]
    assert [event["update"] for event in events] == list(range(13, stop + 1))
    assert [event["event"] for event in events] == ["went back"] * RETRIES + ["stopped"]
    assert [event["rate_factor"] for event in events] == [0.5**n for n in range(1, RETRIES + 2)]
    assert all(event["frames"] == 5 and event["trajectory"] in range(4) and event["frame"] >= 1 for event in events)
    losses = [line["loss"] for line in lines(tmp_path / "seed-2") if line["kind"] == "update"]
    assert losses[11] is not None and losses[12] is None

    assert not (tmp_path / "seed-2" / "results.json").exists()
    assert not [line for line in lines(tmp_path / "seed-1") if line["kind"] == "event"]
    assert_same_run(tmp_path / "seed-1", trained.run(1))

    before = everything_under(tmp_path / "seed-1")
    monkeypatch.setattr(training, "_prepare", prepare)
    assert main(arguments(trained.data, tmp_path)) == 1  # it stays stopped, and says so again
    assert f"seed-2: stopped at update {stop}" in capsys.readouterr().out
    assert everything_under(tmp_path / "seed-1") == before


def test_a_seed_that_fails_once_goes_back_and_finishes(trained, tmp_path, quick, monkeypatch, capsys):
    def once(update):
        def run(state, batch, turn):
            return (poisoned(update, seed=0, since=0) if turn.index == 20 else update)(state, batch, turn)

        return run

    replace_update(monkeypatch, once)
    assert main(arguments(trained.data, tmp_path)) == 0
    result = json.loads((tmp_path / "seed-1" / "results.json").read_text())
    assert [(event["event"], event["update"]) for event in result["events"]] == [("went back", 21)]
    assert np.isfinite(result["errors"]["final"]["test"]["mean"])
    assert_same_weights(tmp_path / "seed-2", trained.run(2))


def test_an_absurd_learning_rate_ends_with_status_1_not_with_a_traceback(trained, tmp_path, quick, capsys):
    assert main(arguments(trained.data, tmp_path, "--learning-rate", 1e30)) == 1
    printed = capsys.readouterr().out
    for seed in (1, 2):
        assert f"seed-{seed}: stopped at update" in printed
        assert not (tmp_path / f"seed-{seed}" / "results.json").exists()
