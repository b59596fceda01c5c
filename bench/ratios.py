"""What the fast forms bring on a CPU, as ratios of contenders that take turns in one process. Stored for the docs.

python -m bench.ratios
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax

from bench.account import source_line
from bench.solvers import STEPS, navier_stokes_contenders
from bench.timing import race
from bench.training import BATCH, reference, rollout_loss, unit_statistics
from sino.benchmarks import benchmark
from sino.cli.pages import HUGE, TUNABLES
from sino.core.cores import usable_cores
from sino.core.files import write_json
from sino.core.provenance import source
from sino.coupling.closure import Closure
from sino.models import build_model
from sino.train.curriculum import OURS

RESULTS = Path(__file__).parent.parent / "results" / "performance" / "cpu-ratios.json"
KEY = jax.random.PRNGKey(1)
FRAMES = {1: 60, 2: 3}
"""Frames per timed call, by dimension."""
LONGEST = OURS.longest
Run = Callable[[], object]


def frames_in_two_dimensions(form: str) -> Run:
    """The coarse solver with SINO, one trajectory."""
    b = benchmark("ns-decaying")
    solver = b.solver(b.sizes.coarse)
    model = build_model("sino", dim=2, key=KEY, form=form)

    @jax.jit
    def run(model, u):
        tau = Closure(model, unit_statistics(2)).prepare(solver.grid.n)
        return jax.lax.fori_loop(0, FRAMES[2], lambda _, u: solver.step(u, lambda *_: tau(u), 0.0), u)

    state = reference(b, 1).frames[0, 0]
    return lambda: run(model, state)


def rollout_in_one_dimension(name: str, form: str) -> Run:
    """A rollout and its gradient, batch 8."""
    model = build_model("sino", dim=1, key=KEY, form=form)
    gradient = jax.jit(jax.grad(rollout_loss(benchmark(name), FRAMES[1])))
    return lambda: gradient(model)


def race_of_pages(rounds: int) -> dict[str, float]:
    """Seconds of a long rollout and its gradient with large memory pages and without, on one core. The C library reads
    which when a process starts, so each is timed in processes of its own, in turns."""
    code = f"import os; os.sched_setaffinity(0, {{{usable_cores()[0]}}}); from bench.ratios import long_rollout as run"
    program = [sys.executable, "-c", f"{code}; print(run())"]
    seconds: dict[str, list[float]] = {"large pages": [], "pages of 4 kB": []}
    for _ in range(rounds):
        for measured, choice in zip(seconds.values(), (1, 0), strict=True):
            environment = {**os.environ, TUNABLES: f"{HUGE}={choice}"}
            done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
            measured.append(float(done.stdout.split()[-1]))
    return {name: median(measured) for name, measured in seconds.items()}


def long_rollout() -> float:
    """Seconds of the longest rollout of our schedule and its gradient: FNO on Kuramoto-Sivashinsky, batch 8."""
    model = build_model("fno", dim=1, key=KEY)
    gradient = jax.jit(jax.grad(rollout_loss(benchmark("ks"), LONGEST)))
    return race({"rollout": lambda: gradient(model)}, 5)["rollout"]


def compare(work: str, goal: float | None, seconds: dict[str, float], per: int) -> dict[str, Any]:
    """Print how many times faster ours, the first, is than the other."""
    times = {name: 1e3 * total / per for name, total in seconds.items()}
    (_, ours), (against, other) = times.items()
    print(f"{work}: {ours:.3f} ms, {against} {other:.3f} ms: {other / ours:.2f}x", flush=True)
    return {"work": work, "goal": goal, "milliseconds": ours, "against": against, "other_milliseconds": other}


def main() -> None:
    """Print and store all ratios."""
    if jax.default_backend() != "cpu":
        print("these ratios are for a CPU; a GPU has `bench.account`")
        return
    frames = {form: frames_in_two_dimensions(form) for form in ("auto", "dense")}
    rows = [compare("2D frame with SINO, 64², one trajectory", 5.0, race(frames, 7), FRAMES[2])]
    for name in ("ks", "burgers-forced", "burgers-decaying"):
        updates = {form: rollout_in_one_dimension(name, form) for form in ("auto", "factorised")}
        rows.append(compare(f"step of an update on {name}, batch {BATCH}", 3.0, race(updates, 9), FRAMES[1]))
    for n in (256, 512):
        rows.append(compare(f"solver step, finite volumes, {n}²", 2.0, race(navier_stokes_contenders(n), 15), STEPS))
    rows.append(
        compare(
            f"step of a rollout of FNO on ks and its gradient, {LONGEST} frames, one core",
            None,
            race_of_pages(3),
            LONGEST,
        )
    )
    write_json(RESULTS, {"format_version": 1, "provenance": source(), "rows": rows})
    print(f"wrote {RESULTS}")


def table(record: dict[str, Any]) -> str:
    """The rows as Markdown."""
    lines = ["| work | ours, ms | against | its ms | ratio | goal |", "|---|--:|---|--:|--:|--:|"]
    for row in record["rows"]:
        ours, other = row["milliseconds"], row["other_milliseconds"]
        cells = [
            row["work"],
            f"{ours:.3g}",
            row["against"],
            f"{other:.3g}",
            f"{other / ours:.1f}",
            f"{row['goal']:.0f}" if row["goal"] else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", source_line(record)])


def stored() -> dict[str, Any]:
    """The stored ratios."""
    return json.loads(RESULTS.read_text())


if __name__ == "__main__":
    main()
