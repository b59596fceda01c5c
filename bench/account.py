"""Where the time goes on a GPU: every kernel of the steps that matter, by the profiler. Stored for the documentation.

python -m bench.account
"""

import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from bench.training import BATCH, reference
from sino.benchmarks import benchmark
from sino.cli.start import start_jax
from sino.core.files import write_json
from sino.core.provenance import git_commit, provenance
from sino.coupling.closure import Closure, Statistics
from sino.models import build_model
from sino.train.loss import gather, rollout_errors, summed_loss

RESULTS = Path(__file__).parent.parent / "results" / "performance"
FRAMES = 40
LARGEST = 12
"""Kernels of a row that are kept by name."""


def account(work: str, state: str, function: Callable, *arguments: Any, per: int = 1, calls: int = 3) -> dict[str, Any]:
    """Wall clock, device time, launches and the largest kernels of a call, divided by the `per` steps that it takes."""
    run = jax.jit(function)
    jax.block_until_ready(run(*arguments))
    jax.block_until_ready(run(*arguments))
    started = time.perf_counter()
    jax.block_until_ready([run(*arguments) for _ in range(calls)])
    wall = 1e6 * (time.perf_counter() - started) / calls / per
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready([run(*arguments) for _ in range(calls)])
        kernels = _kernels(Path(folder))
    share = 1 / (calls * per)
    largest = sorted(kernels.items(), key=lambda item: -item[1][1])[:LARGEST]
    row = {
        "work": work,
        "state": state,
        "wall_us": wall,
        "kernels_us": share * 1e-3 * sum(ns for _, ns in kernels.values()),
        "launches": share * sum(count for count, _ in kernels.values()),
        "largest": [[name, share * 1e-3 * ns, share * count] for name, (count, ns) in largest],
    }
    print(f"{work} ({state}): {wall:.0f} us, {row['kernels_us']:.0f} us in {row['launches']:.0f} launches", flush=True)
    for name, microseconds, count in row["largest"][:6]:
        print(f"    {microseconds:8.1f} us {count:6.1f} x {name}", flush=True)
    return row


def _kernels(folder: Path) -> dict[str, tuple[int, float]]:
    """Launches and nanoseconds of every kernel in a trace."""
    found: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for file in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            for line in plane.lines if "GPU" in plane.name else ():
                for event in line.events if "Stream" in line.name else ():
                    name = re.split(r"[<(]", event.name.removeprefix("void "))[0][:60]
                    found[name][0] += 1
                    found[name][1] += event.duration_ns
    return {name: (int(count), ns) for name, (count, ns) in found.items()}


def main() -> None:
    """The fine solver, an update in two dimensions in several forms, and inference."""
    start_jax()
    device = jax.devices()[0]
    if device.platform != "gpu":
        print("the account of kernels needs a GPU")
        return
    b = benchmark("ns-decaying")
    n = b.sizes.coarse
    solver, data = b.solver(n), reference(b, FRAMES)
    one = jnp.ones((), jnp.float32)
    stats = Statistics(jnp.zeros(2, jnp.float32), one, one)
    rows_of_data = jnp.arange(BATCH, dtype=jnp.int32)
    segments = gather(data, rows_of_data, 0 * rows_of_data, FRAMES)

    def network(form: str, seed: int = 1):
        return build_model("sino", dim=2, key=jax.random.PRNGKey(seed), form=form)

    def loss(model):
        errors = rollout_errors(solver, Closure(model, stats), data, segments)
        return summed_loss(errors, jnp.ones(BATCH, errors.dtype), FRAMES, "mse")

    def frames(model, states):
        tau = Closure(model, stats).prepare(solver.grid.n)
        step = jax.vmap(lambda u: solver.step(u, lambda *_: tau(u), 0.0))
        return jax.lax.fori_loop(0, FRAMES, lambda _, u: step(u), states)

    fine = b.solver(b.sizes.fine)
    fields = jax.random.normal(jax.random.PRNGKey(0), (64, 2, *fine.grid.n), jnp.float32)
    steps = jax.vmap(lambda u: fine.step(u, None, 0.0))
    state = "now"
    rows = [
        account(
            "fine solver, 512² x 64, per step",
            state,
            lambda u: jax.lax.fori_loop(0, 8, lambda _, u: steps(u), u),
            fields,
            per=8,
        )
    ]
    for form in ("hartley", "filters"):
        rows.append(
            account(f"2D update, 64², batch 8, per step: {form}", state, jax.grad(loss), network(form), per=FRAMES)
        )
        for batch in (8, 64):
            states = jnp.concatenate([segments.targets[0]] * (batch // BATCH))
            rows.append(
                account(
                    f"inference, batch {batch}, per frame: {form}", state, frames, network(form), states, per=FRAMES
                )
            )
    three = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[network("auto", seed) for seed in (1, 2, 3)])
    rows.append(account("2D update, three seeds, per step", state, jax.vmap(jax.grad(loss)), three, per=FRAMES))
    name = device.device_kind.lower().replace("nvidia ", "").replace(" ", "-")
    path = RESULTS / f"{name}-now.json"
    write_json(path, {"format_version": 1, "provenance": provenance() | {"git_commit": git_commit()}, "rows": rows})
    print(f"wrote {path}")


def table(record: dict[str, Any]) -> str:
    """The rows of a stored account as Markdown."""
    lines = ["| work | form | wall, µs | kernels, µs | launches | largest kernels, µs |", "|---|---|--:|--:|--:|---|"]
    for row in record["rows"]:
        largest = ", ".join(f"`{name}` {microseconds:.0f}" for name, microseconds, _ in row["largest"][:3])
        cells = [row["work"], row["state"], *(f"{row[key]:.0f}" for key in ("wall_us", "kernels_us", "launches"))]
        lines.append("| " + " | ".join([*cells, largest]) + " |")
    return "\n".join([*lines, "", _source(record)])


def goals(record: dict[str, Any]) -> str:
    """What was aimed at, and what a stored account says of it."""
    wall = {(row["work"], row["state"]): f"{1e-3 * row['wall_us']:.2f}" for row in record["rows"]}
    fine = wall["fine solver, 512² x 64, per step", "hartley"]
    eight, many = (wall[f"inference, batch {batch}, per frame", "hartley"] for batch in (8, 64))
    before = wall["2D update, 64², batch 8, per step", "before"]
    trained = f"{1e-3 * record['training']['wall_us']:.2f}"
    rows = (
        ("fine solver, 512² x 64, per step", "1.36 ms", "0.6 ms", f"{fine} ms"),
        (
            "2D SINO in a rollout, batch 8, forward and backward, per step",
            "2.3 ms",
            "0.6 ms",
            f"{before} ms (`filters`, Adam); {trained} ms (`hartley`, SOAP, in `sino train`)",
        ),
        ("inference, batch 8 / 64, per frame", "0.57 / 3.5 ms", "0.15 / 0.9 ms", f"{eight} / {many} ms"),
    )
    lines = [
        "| work | prototype | goal | measured |",
        "|---|--:|--:|--:|",
        *("| " + " | ".join(r) + " |" for r in rows),
    ]
    return "\n".join([*lines, "", _source(record)])


def _source(record: dict[str, Any]) -> str:
    made = record["provenance"]
    return f"*From results/performance: {made['device']}, jax {made['jax']}, float32.*"


def stored(name: str) -> dict[str, Any]:
    """A stored account."""
    return json.loads((RESULTS / f"{name}.json").read_text())


if __name__ == "__main__":
    main()
