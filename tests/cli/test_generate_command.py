"""`sino generate`: right content, nothing lost, and one sentence for every mistake."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from sino import benchmarks
from sino.benchmarks import benchmark
from sino.cli import main
from sino.data.store import open_dataset
from sino.evaluate.score import free_run


def generate(*arguments) -> int:
    return main(["generate", *map(str, arguments)])


def hashes(path: Path) -> dict[str, str]:
    return {shard["file"]: shard["sha256"] for shard in open_dataset(path).manifest["shards"]}


def everything_under(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small dataset of each kind, made once."""
    root = tmp_path_factory.mktemp("data")
    assert generate("ks", "--preset", "tiny", "--out", root / "ks") == 0
    arguments = ("--preset", "tiny", "--coarse", 16, 8, "--keep-fine", 0, 20, "--trajectories", 4)
    assert generate("ns-forced-re1000", *arguments, "--out", root / "ns") == 0
    return root


def test_content_is_the_coarsened_fine_solution(finished):
    b = benchmark("ks", "tiny")
    data = open_dataset(finished / "ks").load(32)
    assert data.seeds == tuple(range(8))
    assert data.frames.shape == (8, 21, 1, 32)
    np.testing.assert_allclose(data.times, b.start + b.frame * np.arange(21))
    u = b.initial_states([5])
    run = free_run(b.solver(64), u, None, b.warmup_steps + 20, t0=0.0)[0, b.warmup_steps :]
    expected = np.stack([b.coarsen(jnp.asarray(state), (32,)) for state in run])
    np.testing.assert_allclose(data.frames[5], expected, atol=2e-6)


def test_several_grids_and_fine_frames_come_from_one_run(finished):
    b = benchmark("ns-forced-re1000", "tiny")
    dataset = open_dataset(finished / "ns")
    assert dataset.resolutions == ["8", "16", "fine"]
    fine, middle, coarse = (dataset.load(r) for r in ("fine", 16, 8))
    assert fine.frames.shape == (4, 2, 2, 32, 32)
    for row in range(4):
        for kept, frame in enumerate((0, 20)):
            state = jnp.asarray(fine.frames[row, kept])
            np.testing.assert_allclose(b.coarsen(state, (16, 16)), middle.frames[row, frame], atol=1e-5)
            np.testing.assert_allclose(b.coarsen(state, (8, 8)), coarse.frames[row, frame], atol=1e-5)
    np.testing.assert_allclose(fine.times, middle.times[[0, 20]])
    assert set(middle.forcing) == {"terms.0.amplitude", "terms.0.wavenumber", "terms.1.rate"}


def test_again_makes_nothing_new(finished, capsys):
    before = {p: p.stat().st_mtime_ns for p in (finished / "ks" / "32").iterdir()}
    assert generate("ks", "--preset", "tiny", "--out", finished / "ks") == 0
    assert "nothing to simulate" in capsys.readouterr().out
    assert before == {p: p.stat().st_mtime_ns for p in (finished / "ks" / "32").iterdir()}


def test_only_what_is_missing_is_made_with_the_same_content(finished, tmp_path):
    """Asking for fewer, for more, for a gap, or after a loss: a seed's content never depends on it."""
    whole = hashes(finished / "ks")
    out = tmp_path / "ks"
    for arguments in (("--trajectories", 1), ("--trajectories", 2, "--seed0", 5), ("--trajectories", 8)):
        assert generate("ks", "--preset", "tiny", "--out", out, *arguments) == 0
    assert hashes(out) == whole
    (out / "32" / "seed-00004.h5").unlink()
    kept = (out / "32" / "seed-00002.h5").stat().st_mtime_ns
    assert generate("ks", "--preset", "tiny", "--out", out) == 0
    assert hashes(out) == whole
    assert (out / "32" / "seed-00002.h5").stat().st_mtime_ns == kept


def test_a_part_of_a_batch_stores_only_what_was_asked(tmp_path):
    assert generate("ks", "--preset", "tiny", "--trajectories", 3, "--seed0", 1, "--out", tmp_path / "a") == 0
    assert open_dataset(tmp_path / "a").seeds == [1, 2, 3]


@pytest.mark.parametrize("kills", [4])
def test_killed_at_any_moment_it_finishes_with_the_same_content(tmp_path, kills):
    arguments = ["generate", "ks", "--preset", "tiny", "--frames", "4000", "--out"]
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    out = tmp_path / "killed"
    dice = random.Random(0)
    stored: set[str] = set()
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-m", "sino", *arguments, str(out)], stdout=subprocess.DEVNULL)
        target = len(stored) + 1
        deadline = time.monotonic() + 60
        # Wait for one more shard, then a random moment longer, so that kills fall into simulating and into writing.
        while len(list(out.glob("*/seed-*.h5"))) < target and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.1))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = {p.name for p in out.glob("*/seed-*.h5")}
        assert stored <= now, "a finished shard was lost"
        stored = now
    assert killed >= 2, "the test must kill it at work"
    subprocess.run([sys.executable, "-m", "sino", *arguments, str(out)], check=True, stdout=subprocess.DEVNULL)
    assert hashes(out) == hashes(tmp_path / "whole")
    assert not list(out.rglob("*.tmp"))


def test_a_failing_trajectory_is_excluded_and_named(tmp_path, monkeypatch, capsys):
    real = benchmarks.BENCHMARKS["burgers-decaying"]

    def sample(seed, grid):
        return real.sample(seed, grid) * {2: np.nan, 5: 1e4}.get(seed, 1.0)  # 1e4: unstable after a few steps

    monkeypatch.setitem(benchmarks.BENCHMARKS, "burgers-decaying", replace(real, sample=sample))
    assert generate("burgers-decaying", "--preset", "tiny", "--out", tmp_path / "a") == 0
    printed = capsys.readouterr().out
    dataset = open_dataset(tmp_path / "a")
    assert dataset.seeds == [0, 1, 3, 4, 6, 7]
    assert dataset.excluded[2] == "not finite during the warm-up"
    assert dataset.excluded[5].startswith("not finite at frame")
    assert "excluded seed 2" in printed and "excluded seed 5" in printed
    assert np.isfinite(dataset.load(64).frames).all()
    assert generate("burgers-decaying", "--preset", "tiny", "--out", tmp_path / "a") == 0
    assert "nothing to simulate" in capsys.readouterr().out  # an exclusion is a result: it is not tried again


def test_precision_is_an_option(tmp_path):
    for precision in ("float32", "float64"):
        out = tmp_path / precision
        assert generate("ks", "--preset", "tiny", "--trajectories", 2, "--precision", precision, "--out", out) == 0
    single, double = (open_dataset(tmp_path / p).load(32).frames for p in ("float32", "float64"))
    assert 0 < np.abs(single - double).max() < 1e-3


def test_dry_run_writes_nothing(tmp_path, capsys):
    assert generate("ks", "--preset", "tiny", "--out", tmp_path / "a", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "estimate:" in printed and "on disk" in printed
    assert everything_under(tmp_path) == []


def test_a_toml_file_gives_the_options_and_flags_win(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text('benchmark = "ks"\npreset = "tiny"\ntrajectories = 2\ncoarse = [16, 32]\n')
    assert generate("--config", config, "--out", tmp_path / "a", "--trajectories", 4) == 0
    dataset = open_dataset(tmp_path / "a")
    assert dataset.seeds == [0, 1, 2, 3] and dataset.resolutions == ["16", "32"]


MISTAKES = {
    "unknown benchmark": (["kss"], "did you mean 'ks'"),
    "a grid that does not divide": (["ks", "--coarse", 7], "7 does not divide the fine grid of 64"),
    "a grid of zero": (["ks", "--coarse", 0], "0 does not divide"),
    "a grid finer than the fine one": (["ks", "--coarse", 128], "128 does not divide"),
    "no trajectories": (["ks", "--trajectories", 0], "--trajectories must be at least 1"),
    "negative trajectories": (["ks", "--trajectories", -3], "--trajectories must be at least 1"),
    "no frames": (["ks", "--frames", 0], "--frames must be at least 1"),
    "a negative seed": (["ks", "--seed0", -1], "--seed0 must not be negative"),
    "a frame that is not there": (["ks", "--keep-fine", 21], "21 is not one of the frames 0..20"),
    "a missing configuration": (["ks", "--config", "nowhere.toml"], "cannot read nowhere.toml"),
}


@pytest.mark.parametrize("arguments, sentence", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_sentence_and_writes_nothing(tmp_path, capsys, arguments, sentence):
    assert generate(*arguments, "--preset", "tiny", "--out", tmp_path / "a") == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert everything_under(tmp_path) == []


@pytest.mark.parametrize(
    "text, sentence", [("frames = ", "is not TOML"), ("colour = 3", "'colour'"), ("frames = 3", "incomplete")]
)
def test_a_bad_toml_file(tmp_path, capsys, text, sentence):
    config = tmp_path / "c.toml"
    config.write_text(text)
    assert generate("--config", config) == 2
    assert sentence in capsys.readouterr().err


def test_an_output_that_is_a_file(tmp_path, capsys):
    (tmp_path / "a").write_text("mine")
    assert generate("ks", "--preset", "tiny", "--out", tmp_path / "a") == 2
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "a").read_text() == "mine"


def test_a_folder_with_other_things(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert generate("ks", "--preset", "tiny", "--out", tmp_path) == 2
    assert "holds no dataset" in capsys.readouterr().err
    assert everything_under(tmp_path) == ["notes.txt"]


def test_what_a_kill_leaves_before_the_first_shard_is_no_obstacle(tmp_path):
    (tmp_path / "32").mkdir()
    (tmp_path / "32" / ".seed-00000.h5.tmp").write_text("half")
    assert generate("ks", "--preset", "tiny", "--trajectories", 1, "--out", tmp_path) == 0
    assert open_dataset(tmp_path).seeds == [0]
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_folder_of_another_configuration(tmp_path, capsys, with_manifest):
    assert generate("ks", "--preset", "tiny", "--trajectories", 1, "--out", tmp_path) == 0
    if not with_manifest:
        (tmp_path / "manifest.json").unlink()
    before = everything_under(tmp_path)
    assert generate("ks", "--preset", "tiny", "--frames", 30, "--out", tmp_path) == 2
    assert "frames is 20 there and 30 here" in capsys.readouterr().err
    assert generate("burgers-decaying", "--preset", "tiny", "--out", tmp_path) == 2
    assert "benchmark is 'ks' there" in capsys.readouterr().err
    assert everything_under(tmp_path) == before


def test_a_damaged_shard_is_named_and_not_overwritten(tmp_path, capsys):
    assert generate("ks", "--preset", "tiny", "--trajectories", 4, "--out", tmp_path) == 0
    shard = tmp_path / "32" / "seed-00002.h5"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert generate("ks", "--preset", "tiny", "--trajectories", 4, "--out", tmp_path) == 2
    assert str(shard) in capsys.readouterr().err
    shard.unlink()
    assert generate("ks", "--preset", "tiny", "--trajectories", 4, "--out", tmp_path) == 0


def test_no_space_left_is_said_before_anything_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    assert generate("ks", "--preset", "tiny", "--out", tmp_path / "a") == 2
    assert "only 10 bytes are free" in capsys.readouterr().err
    assert everything_under(tmp_path) == []


def test_a_disk_that_fills_up_loses_only_the_shard_in_hand(tmp_path):
    """A limit on file sizes fails the second shard's write the way a full disk would."""
    arguments = [sys.executable, "-m", "sino", "generate", "ks", "--preset", "tiny", "--out", str(tmp_path / "a")]
    subprocess.run([*arguments, "--trajectories", "2"], check=True, capture_output=True)
    limited = ["bash", "-c", 'ulimit -f 4 && exec "$@"', "bash", *arguments]  # 4 kB
    done = subprocess.run(
        limited, capture_output=True, text=True, env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr and "seed-00002.h5" in done.stderr and "Traceback" not in done.stderr
    assert sorted(p.name for p in (tmp_path / "a" / "32").iterdir()) == ["seed-00000.h5"]
    subprocess.run(arguments, check=True, capture_output=True)
    assert len(open_dataset(tmp_path / "a").seeds) == 8


def test_the_manifest_tells_where_the_data_comes_from(finished):
    manifest = json.loads((finished / "ks" / "manifest.json").read_text())
    assert manifest["format_version"] == 1
    assert manifest["configuration"]["warmup_steps"] == 50
    for shard in manifest["shards"]:
        assert set(shard["provenance"]) >= {"sino", "jax", "numpy", "python", "device"}
