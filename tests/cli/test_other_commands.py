import os
import subprocess
import sys

import pytest

from sino import __version__
from sino.benchmarks import BENCHMARKS
from sino.cli import main
from sino.cli.progress import duration, progress, size


def test_list_shows_all_twelve_with_grids_steps_forcing_and_splits(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for name, b in BENCHMARKS.items():
        line = next(line for line in printed.splitlines() if line.startswith(f"{name} "))
        assert b.forcing_text in line and str(b.sizes.fine) in line and str(b.sizes.coarse) in line
    assert "train 0-63" in printed and "validation 64-79" in printed and "test 80-111" in printed
    assert "…" not in printed


def test_inspect_verifies_and_draws(tmp_path, capsys):
    for name in ("burgers-forced", "ns-decaying"):
        out = tmp_path / name
        assert main(["generate", name, "--preset", "tiny", "--trajectories", "1", "--out", str(out)]) == 0
        assert main(["inspect", str(out)]) == 0
        assert "every checksum is right" in capsys.readouterr().out
        assert (out / "preview.png").stat().st_size > 5_000
    shard = next((tmp_path / "ns-decaying").glob("*/*.h5"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert main(["inspect", str(tmp_path / "ns-decaying")]) == 2
    assert str(shard) in capsys.readouterr().err


def test_inspect_of_nothing(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path)]) == 2
    assert "not a finished dataset" in capsys.readouterr().err


def test_overview_version_and_unknown_command(capsys):
    assert main([]) == 0
    assert "generate" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["genrate"]) == 2
    assert "did you mean 'generate'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["generate"], ["generate", "ks", "--preset", "huge"], ["list", "--nonsense"]])
def test_what_the_parser_rejects_is_status_2(arguments):
    done = subprocess.run([sys.executable, "-m", "sino", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_progress_in_a_log_is_plain_lines(capsys):
    with progress("work", 10, "steps") as report:
        for done in range(11):
            report(done)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("work: 10/10 steps") and "left" in lines[-1]
    assert len(lines) == 1  # seconds, not every call, make lines


def test_numbers_for_people():
    assert [duration(s) for s in (3.21, 240, 9000)] == ["3.2 s", "4 min", "2.5 h"]
    assert [size(b) for b in (12, 34_000, 5.6e6, 2.1e9)] == ["12 bytes", "34 kB", "6 MB", "2.1 GB"]


def test_a_reader_that_has_seen_enough_is_no_error():
    """As in `sino list | head -1`."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "sino", "list"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
