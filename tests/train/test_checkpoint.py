"""A checkpoint is whole or not there, whenever the process that writes it is killed."""

import os
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.train import checkpoint


class Killed(BaseException):
    """What no handler catches."""


def tree(value: float):
    return {"weights": (jnp.full((3, 2), value, jnp.float32), jnp.arange(4) * 2), "scale": jnp.asarray(value)}


def value_of(folder: Path) -> float:
    """The one number of a checkpoint, if it is whole."""
    loaded = checkpoint.load(folder, tree(0.0))
    assert checkpoint.read_facts(folder)["update"] == loaded["scale"]
    return float(loaded["scale"])


def whole(*folders: Path) -> list[float]:
    """The numbers of all checkpoints that are there; one that is there must be whole."""
    return [value_of(folder) for folder in folders if folder.exists()]


def save(folder: Path, value: int, keep: Path | None) -> None:
    checkpoint.save(folder, tree(float(value)), {"update": value}, keep=keep)


def count_calls(monkeypatch, fatal: int | None = None) -> list[str]:
    """Count what changes the disk; at the fatal call, be killed: just before it, or half-way through it."""
    calls: list[str] = []

    def watch(owner, name, half=None):
        original = getattr(owner, name)

        def call(*args, **kwargs):
            calls.append(name)
            if len(calls) == fatal:
                if half is not None:
                    half(*args)
                raise Killed
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    def write_half(path, *rest):
        path.with_name(f".{path.name}.tmp").write_bytes(b"\x10\0\0\0\0\0\0\0{'half")

    def remove_half(path, *rest, **options):
        for file in sorted(Path(path).glob("*"))[:1]:
            file.unlink()

    watch(checkpoint, "save_arrays", write_half)
    watch(checkpoint, "write_json", write_half)
    watch(checkpoint, "flush")
    watch(checkpoint.shutil, "rmtree", remove_half)
    watch(Path, "mkdir")
    watch(Path, "rename")
    watch(os, "replace")
    return calls


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "bool", "complex64"])
def test_a_checkpoint_comes_back_bit_for_bit(tmp_path, dtype):
    bits = np.random.default_rng(0).integers(0, 256, 64, np.uint8)
    array = (bits > 127) if dtype == "bool" else bits.view(dtype)
    stored = {"a": jnp.asarray(array), "b": [jnp.asarray(array[0]), jnp.asarray(array[::-1].reshape(2, -1).T)]}
    checkpoint.save(tmp_path / "last", stored, {"update": 3, "tally": {"events": [None, "é"]}})
    loaded = checkpoint.load(tmp_path / "last", stored)
    for mine, theirs in ((stored["a"], loaded["a"]), *zip(stored["b"], loaded["b"], strict=True)):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()
    facts = checkpoint.read_facts(tmp_path / "last")
    assert facts["update"] == 3 and facts["tally"] == {"events": [None, "é"]}


def test_the_last_and_the_one_before_are_kept(tmp_path):
    last, previous = tmp_path / "last", tmp_path / "previous"
    save(last, 1, previous)
    assert whole(last, previous) == [1]
    for value in (2, 3, 4):
        save(last, value, previous)
        assert whole(last, previous) == [value, value - 1]
    assert {path.name for path in tmp_path.iterdir()} == {"last", "previous"}


def test_without_a_place_to_keep_it_the_old_one_goes(tmp_path):
    save(tmp_path / "best", 1, None)
    save(tmp_path / "best", 2, None)
    assert whole(tmp_path / "best") == [2]
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


CALLS = 12


@pytest.mark.parametrize("there", ["both", "last", "previous", "none"])
def test_at_every_moment_there_is_one_to_go_on_from(tmp_path, there):
    killed = 0
    for fatal in range(1, CALLS + 1):
        root = tmp_path / str(fatal)
        root.mkdir()
        last, previous = root / "last", root / "previous"
        if there in ("both", "previous"):
            save(previous, 1, None)
        if there in ("both", "last"):
            save(last, 2, None)
        before = whole(last, previous)
        with pytest.MonkeyPatch.context() as patch:
            count_calls(patch, fatal)
            try:
                save(last, 3, previous)
            except Killed:
                killed += 1
        after = whole(last, previous)
        assert not before or after, f"nothing is left after a kill at call {fatal}"
        assert not before or max(after) >= max(before), f"the newest was lost at call {fatal}"
        # And again: the next save finds whatever the kill left.
        with pytest.MonkeyPatch.context() as patch:
            count_calls(patch, fatal)
            try:
                save(last, 3, previous)
            except Killed:
                assert not before or whole(last, previous), f"nothing is left after two kills at call {fatal}"
        save(last, 4, previous)
        assert value_of(last) == 4
        assert {path.name for path in root.iterdir()} <= {"last", "previous"}
    assert killed >= 7, "there are fewer moments than this test thinks"


def test_there_are_no_more_moments_than_are_tested(tmp_path, monkeypatch):
    save(tmp_path / "last", 1, tmp_path / "previous")
    save(tmp_path / "last", 2, tmp_path / "previous")
    calls = count_calls(monkeypatch)
    save(tmp_path / "last", 3, tmp_path / "previous")
    assert len(calls) <= CALLS and {"save_arrays", "write_json", "rename", "replace", "rmtree"} <= set(calls)


def test_what_a_kill_left_behind_is_ignored_and_replaced(tmp_path):
    last, previous = tmp_path / "last", tmp_path / "previous"
    save(last, 1, previous)
    for name in (".last.tmp", ".last.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "arrays.safetensors").write_bytes(b"half")
        (tmp_path / name / "more").mkdir()
    assert whole(last, previous) == [1]
    save(last, 2, previous)
    assert whole(last, previous) == [2, 1]
    assert {path.name for path in tmp_path.iterdir()} == {"last", "previous"}


def test_a_disk_that_is_full_leaves_the_old_one(tmp_path, monkeypatch):
    last, previous = tmp_path / "last", tmp_path / "previous"
    save(last, 1, previous)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(checkpoint, "save_arrays", full)
        save(last, 2, previous)
    assert whole(last, previous) == [1]


def test_facts_cannot_hold_what_is_not_finite(tmp_path):
    with pytest.raises(ValueError):
        checkpoint.save(tmp_path / "last", tree(1.0), {"update": float("nan")})
    assert not (tmp_path / "last").exists()


def test_another_structure_is_told(tmp_path):
    save(tmp_path / "last", 1, None)
    with pytest.raises(UserError, match="other arrays: missing .'shift'., unknown .'scale'."):
        checkpoint.load(tmp_path / "last", {"weights": tree(0.0)["weights"], "shift": jnp.zeros(())})
    shutil.rmtree(tmp_path / "last")
    with pytest.raises(UserError, match="cannot read .*last"):
        checkpoint.load(tmp_path / "last", tree(0.0))
