"""Kill a training many times at random moments; it must end as if nothing had happened, bit for bit.

python -m validation.survival [KILLS]
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sino.core.files import write_json
from sino.core.provenance import git_commit, provenance
from validation.record import RESULTS

TIMED = {"seconds", "train_seconds", "evaluate_seconds", "provenance", "facts_sha256"}
ARGUMENTS = ["ks", "--preset", "tiny", "--seeds", "1", "2", "--sizes", "width", "4", "--evaluate-every", "2"]
STAGES = ["--stages", "5", "60", "10", "60"]


def main(kills: int) -> None:
    """Compare a training that is left alone with one that is killed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = os.environ | {"XDG_CACHE_HOME": str(root / "cache"), "JAX_PLATFORMS": "cpu"}
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

        def start(out: str) -> subprocess.Popen:
            command = [sys.executable, "-m", "sino", "train", *ARGUMENTS, *STAGES, "--out", out]
            return subprocess.Popen(
                command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )

        began = time.monotonic()
        output, _ = (process := start("alone")).communicate()
        assert process.returncode == 0, output.decode()
        random.seed(0)
        done = finished = 0
        while done < kills:
            process = start(f"killed-{finished}")
            try:
                output, _ = process.communicate(timeout=random.uniform(1.0, 12.0))
                assert process.returncode == 0, output.decode()
                compare(root / "alone", root / f"killed-{finished}")
                finished += 1
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                done += 1
                if done % 10 == 0:
                    print(f"{done} kills, {finished} trainings ended in spite of them, all identical", flush=True)
        output, _ = (process := start(f"killed-{finished}")).communicate()
        assert process.returncode == 0, output.decode()
        compare(root / "alone", root / f"killed-{finished}")
    seconds = time.monotonic() - began
    print(f"{done} kills in {seconds:.0f} s: {finished + 1} trainings ended bit for bit as the one left alone")
    record = {"kills": done, "trainings": finished + 1, "identical": True, "seconds": seconds}
    write_json(RESULTS / "survival.json", record | {"provenance": provenance() | {"git_commit": git_commit()}})


def compare(one: Path, other: Path) -> None:
    """Raise unless two folders of runs hold the same weights and the same metrics, wall clock aside."""
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files, f"{one} holds nothing"
    for file in files:
        mine, theirs = one / file, other / file
        if "previous" in file.parts:
            continue  # when it was saved depends on the clock
        if file.suffix == ".safetensors":
            assert mine.read_bytes() == theirs.read_bytes(), f"{file} differs"
        else:
            assert _untimed(mine) == _untimed(theirs), f"{file} differs"


def _untimed(path: Path) -> list[Any]:
    texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    return [_strip(json.loads(text)) for text in texts]


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip(item) for key, item in value.items() if key not in TIMED}
    return [_strip(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
