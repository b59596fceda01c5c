"""Whether a closure is worth its cost: its wall clock against that of the finer grid with the same error. Stored for
the documentation.

python -m bench.worth
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from validation.reproduction import Configuration, load

import sino
from bench.account import device_name, source_line
from bench.training import unit_statistics
from sino.benchmarks import BENCHMARKS, Benchmark, benchmark
from sino.cli.start import start_jax
from sino.core.files import write_json
from sino.core.provenance import source
from sino.coupling.closure import Closure
from sino.evaluate.contenders import Contender
from sino.evaluate.cost import CostPlan, measure_cost
from sino.evaluate.equal_error import Tried, match_error
from sino.evaluate.timing import Stopwatch, seconds_per_time
from sino.models import build_model
from sino.train.run import WEIGHTS

ROOT = Path(__file__).parent.parent / "results"
STUDIED = "ns-decaying"
"""The flow on which sizes of SINO are compared."""
UNSEEN = 4
"""Trajectories of a flow whose errors count."""


def sizes_on_one_flow(batch: int) -> list[dict[str, Any]]:
    """Every size of SINO that was trained on `STUDIED`, by the errors of the stored results."""
    b = benchmark(STUDIED)
    grids = {row["resolution"]: row["error"] for row in _grid_errors(b)}
    trained = list(_trained_sizes(b))
    networks = [build_model("sino", dim=b.dim, key=jax.random.PRNGKey(1), **c.facts["sizes"]) for c in trained]
    closures = [Closure(network, unit_statistics(len(b.offsets))) for network in networks]
    contenders = [Contender(f"grid {n}", b, n) for n in grids]
    contenders += [Contender(c.name, b, b.sizes.coarse, net) for c, net in zip(trained, closures, strict=True)]
    seconds = seconds_per_time(contenders, [0], "float32", Stopwatch(batch, b.sizes.frames))
    tried = [Tried(n, seconds[f"grid {n}"], error) for n, error in grids.items()]
    rows = []
    for c in trained:
        error = c.mean("paper")
        match = match_error(tried, error)
        title = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in c.facts["sizes"].items())
        rows.append(
            _row(b, title or "the paper's size", batch, error, seconds[c.name])
            | _against(b, match.cells, match.seconds, seconds[c.name], match.reason)
        )
    return rows


def flow(name: str, batch: int) -> dict[str, Any]:
    """The closure that comes with the package, on unseen trajectories."""
    b, n = benchmark(name), benchmark(name).sizes.coarse
    s = b.sizes
    plan = CostPlan(
        benchmark=b,
        coarse=n,
        scheme="paper",
        closure=sino.load_closure(name),
        coupling="frozen",
        precision="float32",
        grids=tuple(m for m in (2 * n, 4 * n) if m < s.fine),
        seeds=tuple(s.test[:UNSEEN]),
        batch=batch,
        first=s.train_frames + 1,
        last=s.frames,
    )
    cost = measure_cost(plan, None, lambda line: print(f"  {line}", flush=True))
    closure = next(row for row in cost["rows"] if row["what"] == "closure")
    # By the more exact truth: that of the dataset has errors of its own, which a fine grid shares.
    cells, gain = (cost[key]["spectral"] for key in ("equal_error_grid", "speedup_at_equal_error"))
    seconds = closure["seconds_per_time"]
    own = None if gain is None else gain * seconds
    return (
        _row(b, name, batch, closure["error"]["spectral"], seconds)
        | _against(b, cells, own, seconds, cost["reason"]["spectral"])
        | {"against_strong": cost["speedup_against_strong"]["spectral"]}
        | {"reason_strong": cost["reason_strong"]["spectral"]}
    )


def _grid_errors(b: Benchmark) -> list[dict[str, Any]]:
    rows = json.loads((ROOT / "validation" / "coarse-2d.json").read_text())["rows"]
    return [row for row in rows if row["benchmark"] == b.name]


def _trained_sizes(b: Benchmark) -> Iterator[Configuration]:
    """The paper's size first."""
    for c in load().configurations:
        if c.experiment in ("2d", "sizes") and _kind(c) == (b.name, "sino", "ours"):
            yield c


def _kind(c: Configuration) -> tuple[str, str, str]:
    return c.facts["benchmark"], c.facts["model"], c.facts["schedule"]


def _row(b: Benchmark, title: str, batch: int, error: float | None, seconds: float) -> dict[str, Any]:
    return {"work": title, "batch": batch, "error": error, "milliseconds": 1e3 * b.frame * seconds}


def _against(
    b: Benchmark, cells: float | None, grid_seconds: float | None, seconds: float, reason: str | None
) -> dict[str, Any]:
    milliseconds = None if grid_seconds is None else 1e3 * b.frame * grid_seconds
    gain = None if grid_seconds is None else grid_seconds / seconds
    return {"cells": cells, "grid_milliseconds": milliseconds, "gain": gain, "reason": reason}


def main() -> None:
    """Print and store."""
    start_jax()
    device = jax.devices()[0]
    gpu = device.platform == "gpu"
    record: dict[str, Any] = {"format_version": 1, "provenance": source(), "sizes": [], "flows": []}
    for batch in (8, 64) if gpu else (1,):
        record["sizes"] += _told(sizes_on_one_flow(batch))
    for name in sorted(path.name for path in WEIGHTS.iterdir()):
        if gpu or BENCHMARKS[name].dim == 1:
            print(f"{name}:", flush=True)
            record["flows"] += _told([flow(name, 8)])
    path = ROOT / "performance" / f"{device_name(device)}-worth.json"
    write_json(path, record)
    print(f"wrote {path}")


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        gain = row["reason"] if row["gain"] is None else f"{row['gain']:.2f}x the grid of the same error"
        print(f"{row['work']}, batch {row['batch']}: {row['milliseconds']:.3g} ms a frame, {gain}", flush=True)
    return rows


def table(record: dict[str, Any], part: str) -> str:
    """`sizes` or `flows` of a stored record as Markdown."""
    strong = part == "flows"
    head = ["weights of" if strong else "size", "batch", "error", "ms per frame", "cells of equal error"]
    head += ["its ms", "gain", *(["against the strong scheme"] if strong else [])]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    for row in record[part]:
        cells = [f"`{row['work']}`" if strong else row["work"], str(row["batch"]), _figure(row["error"])]
        cells += [_figure(row["milliseconds"])]
        if row["gain"] is None:
            cells += ["", "", row["reason"]]
        else:
            cells += [f"{row['cells']:.0f}", _figure(row["grid_milliseconds"]), f"{row['gain']:.2f}"]
        if strong:
            against = row["against_strong"]
            cells += [row["reason_strong"] if against is None else f"{against:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", source_line(record)])


def _figure(value: float | None) -> str:
    return "blew up" if value is None else f"{value:.3g}"


def stored(device: str) -> dict[str, Any]:
    """A stored record."""
    return json.loads((ROOT / "performance" / f"{device}-worth.json").read_text())


if __name__ == "__main__":
    main()
