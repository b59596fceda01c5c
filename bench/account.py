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

from bench.training import BATCH, reference, rollout_loss, unit_statistics
from sino.benchmarks import benchmark
from sino.cli.start import start_jax
from sino.core.files import write_json
from sino.core.provenance import git_commit, provenance
from sino.core.rollout import repeat
from sino.coupling.closure import Closure
from sino.models import build_model
from sino.train.soap import REFRESH, scale_by_soap

RESULTS = Path(__file__).parent.parent / "results" / "performance"
FRAMES = 40
LARGEST = 30
"""Kernels of a row that are kept by name."""
MODELS = ("sino", "sino-spe", "sino-spa", "unet")
FINE = "fine solver, 512² x 64, per step"


def update_of(name: str, model: str, seeds: int = 1) -> str:
    """The name of a row."""
    return f"update of {model} on {name}, batch {BATCH}{f', {seeds} seeds' if seeds > 1 else ''}, per step"


def inference_of(batch: int) -> str:
    """The name of a row."""
    return f"inference, batch {batch}, per frame"


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
    """The fine solver, updates and inference in two dimensions, an optimiser's own cost, and updates in one."""
    start_jax()
    device = jax.devices()[0]
    if device.platform != "gpu":
        print("the account of kernels needs a GPU")
        return
    rows = [
        _fine_solver(),
        *_updates("ns-decaying", MODELS),
        *_inference(),
        *_optimiser(),
        *_updates("ks", ("sino",), 20),
    ]
    path = RESULTS / f"{device_name(device)}-now.json"
    write_json(path, {"format_version": 1, "provenance": provenance() | {"git_commit": git_commit()}, "rows": rows})
    print(f"wrote {path}")


def _fine_solver() -> dict[str, Any]:
    b = benchmark("ns-decaying")
    fine = b.solver(b.sizes.fine)
    fields = jax.random.normal(jax.random.PRNGKey(0), (64, 2, *fine.grid.n), jnp.float32)
    steps = jax.vmap(repeat(lambda u, i: fine.step(u, None, 0.0), 8), (0, None))
    return account(FINE, "now", lambda u: steps(u, 0), fields, per=8)


def _updates(name: str, models: tuple[str, ...], many: int = 3) -> list[dict[str, Any]]:
    """Loss and gradient of a rollout: each network alone, then several seeds of the first together."""
    b = benchmark(name)
    gradient = jax.grad(rollout_loss(b, FRAMES))

    def network(model: str, seed: int):
        return build_model(model, dim=b.dim, key=jax.random.PRNGKey(seed))

    rows = [account(update_of(name, m), "now", gradient, network(m, 1), per=FRAMES) for m in models]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[network(models[0], seed) for seed in range(many)])
    return [*rows, account(update_of(name, models[0], many), "now", jax.vmap(gradient), stack, per=FRAMES)]


def _inference() -> list[dict[str, Any]]:
    """Frames of the coarse solver with SINO."""
    b = benchmark("ns-decaying")
    solver = b.solver(b.sizes.coarse)
    model = build_model("sino", dim=2, key=jax.random.PRNGKey(1))

    def frames(model, states):
        tau = Closure(model, unit_statistics(2)).prepare(solver.grid.n)
        step = jax.vmap(lambda u: solver.step(u, lambda *_: tau(u), 0.0))
        return jax.lax.fori_loop(0, FRAMES, lambda _, u: step(u), states)

    state = reference(b, 1).frames[:, 0]
    batches = {batch: jnp.concatenate([state] * (batch // BATCH)) for batch in (8, 64)}
    return [account(inference_of(n), "now", frames, model, states, per=FRAMES) for n, states in batches.items()]


def _optimiser() -> list[dict[str, Any]]:
    """SOAP on SINO in two dimensions: most updates, and those that turn its axes."""
    model: Any = build_model("sino", dim=2, key=jax.random.PRNGKey(1))
    soap = scale_by_soap()
    state = soap.init(model)

    def direction(gradient, state, index):
        return soap.update(gradient, state, index=index)

    turns = {"no axes turned": 1, "axes turned": REFRESH}
    return [account(f"SOAP, {k}", "now", direction, model, state, jnp.asarray(i)) for k, i in turns.items()]


def table(record: dict[str, Any]) -> str:
    """The rows of a stored account as Markdown."""
    lines = ["| work | form | wall, µs | kernels, µs | launches | largest kernels, µs |", "|---|---|--:|--:|--:|---|"]
    for row in record["rows"]:
        largest = ", ".join(f"`{name}` {microseconds:.0f}" for name, microseconds, _ in row["largest"][:3])
        cells = [row["work"], row["state"], *(f"{row[key]:.0f}" for key in ("wall_us", "kernels_us", "launches"))]
        lines.append("| " + " | ".join([*cells, largest]) + " |")
    return "\n".join([*lines, "", source_line(record)])


def goals(record: dict[str, Any]) -> str:
    """What was aimed at, and what a stored account says of it."""
    wall = {row["work"]: 1e-3 * row["wall_us"] for row in record["rows"]}
    rows = (
        (FINE, "1.36", "0.6", [FINE]),
        (update_of("ns-decaying", "sino"), "2.3", "0.6", [update_of("ns-decaying", "sino")]),
        ("the same, 3 seeds", "4.8", "1.2", [update_of("ns-decaying", "sino", 3)]),
        ("inference, batch 8 / 64, per frame", "0.57 / 3.5", "0.15 / 0.9", [inference_of(8), inference_of(64)]),
        (update_of("ks", "sino"), "", "0.2", [update_of("ks", "sino")]),
        ("the same, 20 seeds", "", "", [update_of("ks", "sino", 20)]),
    )
    lines = ["| work | prototype, ms | goal, ms | measured, ms |", "|---|--:|--:|--:|"]
    for work, prototype, goal, names in rows:
        lines.append(f"| {work} | {prototype} | {goal} | {' / '.join(f'{wall[name]:.2f}' for name in names)} |")
    return "\n".join([*lines, "", source_line(record)])


def device_name(device: Any) -> str:
    """What files of results call a device: `h200`, `cpu`."""
    return device.device_kind.lower().replace("nvidia ", "").replace(" ", "-")


def source_line(record: dict[str, Any]) -> str:
    """Where the rows of a table come from."""
    made = record["provenance"]
    return f"*From results/performance: {made['device']}, jax {made['jax']}, float32.*"


def stored(name: str) -> dict[str, Any]:
    """A stored account."""
    return json.loads((RESULTS / f"{name}.json").read_text())


if __name__ == "__main__":
    main()
