"""What the fast forms bring on a CPU, as ratios of contenders that take turns in one process. Stored for the docs.

python -m bench.ratios
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from bench.solvers import STEPS, navier_stokes_contenders
from bench.timing import race
from bench.training import BATCH, reference, rollout_loss, unit_statistics
from sino.benchmarks import benchmark
from sino.core.files import write_json
from sino.core.provenance import source
from sino.coupling.closure import Closure
from sino.models import build_model

RESULTS = Path(__file__).parent.parent / "results" / "performance" / "cpu-ratios.json"
KEY = jax.random.PRNGKey(1)
FRAMES = {1: 60, 2: 3}
"""Frames per timed call, by dimension."""
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


def compare(work: str, goal: float, contenders: dict[str, Run], per: int, rounds: int) -> dict[str, Any]:
    """Time ours, the first, and the other in turns, and print how many times faster ours is."""
    times = {name: 1e3 * seconds / per for name, seconds in race(contenders, rounds).items()}
    (_, ours), (against, other) = times.items()
    print(f"{work}: {ours:.3f} ms, {against} {other:.3f} ms: {other / ours:.2f}x", flush=True)
    return {"work": work, "goal": goal, "milliseconds": ours, "against": against, "other_milliseconds": other}


def main() -> None:
    """Print and store all ratios."""
    if jax.default_backend() != "cpu":
        print("these ratios are for a CPU; a GPU has `bench.account`")
        return
    frames = {form: frames_in_two_dimensions(form) for form in ("auto", "dense")}
    rows = [compare("2D frame with SINO, 64², one trajectory", 5.0, frames, FRAMES[2], 7)]
    for name in ("ks", "burgers-forced", "burgers-decaying"):
        updates = {form: rollout_in_one_dimension(name, form) for form in ("auto", "factorised")}
        rows.append(compare(f"step of an update on {name}, batch {BATCH}", 3.0, updates, FRAMES[1], 9))
    for n in (256, 512):
        rows.append(compare(f"solver step, finite volumes, {n}²", 2.0, navier_stokes_contenders(n), STEPS, 15))
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
            f"{row['goal']:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    made = record["provenance"]
    return "\n".join([*lines, "", f"*From results/performance: {made['device']}, jax {made['jax']}, float32.*"])


def stored() -> dict[str, Any]:
    """The stored ratios."""
    return json.loads(RESULTS.read_text())


if __name__ == "__main__":
    main()
