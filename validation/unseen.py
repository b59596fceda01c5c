"""Compare finished trainings on many more unseen trajectories than the benchmark keeps for its tests.

sino generate BENCHMARK --seed0 112 --trajectories 512 --out MORE/BENCHMARK      for each
python -m validation.unseen RUNS MORE

RUNS/BENCHMARK/CONFIGURATION/seed-S are runs, such as `sino reproduce` makes. Their weights at the end of training are
rolled out from frame 0 of every trajectory of MORE, which none of them has seen.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sino.benchmarks import Benchmark, benchmark
from sino.cli.datasets import forcings_in
from sino.cli.start import start_jax
from sino.core.errors import UserError
from sino.core.files import write_json
from sino.core.provenance import source
from sino.data.store import open_dataset
from sino.evaluate.score import make_free_run, window_error
from sino.metrics.errors import standard_error
from sino.train.run import Run, load_closure
from validation.schedules import spread

FILE = Path(__file__).parent.parent / "results" / "training" / "unseen.json"


def errors_of(runs: dict[str, list[Run]], b: Benchmark, data: Path) -> dict[str, Float[np.ndarray, "s b"]]:
    """By configuration, the error of each seed on each trajectory, over the frames after the training window; `none` is
    the solver alone."""
    dataset = open_dataset(data)
    if known := set(dataset.seeds) & set(range(b.sizes.trajectories)):
        raise UserError(f"{data} holds seed {min(known)}, which belongs to the benchmark; give --seed0 to `generate`")
    trajectories = dataset.load(b.sizes.coarse)
    forcing = forcings_in(b, trajectories.seeds, "float32")
    cells, first = b.sizes.coarse, b.sizes.train_frames + 1
    run = make_free_run(b.solver(cells), b.sizes.frames, t0=b.start, substeps=b.substeps(cells))

    def errors(closure) -> Float[np.ndarray, " b"]:
        prediction = run(closure, trajectories.frames[:, 0].astype("float32"), forcing)
        return window_error(prediction, trajectories.frames, first)

    found = {"none": errors(None)[None]}
    return found | {kind: np.stack([errors(load_closure(r.path, "final")) for r in rs]) for kind, rs in runs.items()}


def summarise(name: str, errors: dict[str, Float[np.ndarray, "s b"]], seeds: dict[str, list[int]]) -> dict[str, Any]:
    """Means over trajectories, per seed; and how two configurations compare, trajectory by trajectory."""
    rows = []
    for kind, each in errors.items():
        mean = each.mean(axis=0)
        row = {"configuration": kind, "seeds": seeds.get(kind, []), "errors": each.mean(axis=1).tolist()}
        rows.append(row | {"mean": float(mean.mean()), "standard_error": standard_error(mean)})
    pairs = []
    for kind in errors:
        if (other := f"{kind}-paper") in errors:
            ours, theirs = errors[kind].mean(axis=0), errors[other].mean(axis=0)
            interval = interval_of_ratio(ours, theirs)
            pairs.append(
                {"ours": kind, "paper": other, "ratio": float(ours.mean() / theirs.mean()), "interval": interval}
            )
    return {"benchmark": name, "trajectories": next(iter(errors.values())).shape[1], "rows": rows, "pairs": pairs}


def interval_of_ratio(a: Float[np.ndarray, " b"], b: Float[np.ndarray, " b"]) -> list[float]:
    """95 % bootstrap interval of the ratio of two means over the same trajectories."""
    rows = np.random.default_rng(0).integers(len(a), size=(10_000, len(a)))
    return np.quantile(a[rows].mean(axis=1) / b[rows].mean(axis=1), [0.025, 0.975]).tolist()


def table(record: dict[str, Any]) -> str:
    """The comparison as Markdown."""
    lines = ["| flow | trajectories | training | error | of each seed | spread |", "|---|--:|---|--:|---|--:|"]
    for flow in record["flows"]:
        for row in flow["rows"]:
            each = np.array(row["errors"])
            many = ", ".join(f"{error:.3g}" for error in each) if len(each) > 1 else ""
            error = f"{row['mean']:.3g} ± {row['standard_error']:.1g}"
            title = "none" if row["configuration"] == "none" else f"`{row['configuration']}`"
            cells = [f"`{flow['benchmark']}`", str(flow["trajectories"]), title, error, many, spread(each)]
            lines.append("| " + " | ".join(cells) + " |")
    for flow in record["flows"]:
        for pair in flow["pairs"]:
            low, high = pair["interval"]
            lines += ["", f"`{flow['benchmark']}`: `{pair['ours']}` over `{pair['paper']}` {pair['ratio']:.3g}"]
            lines[-1] += f" (95 % interval {low:.3g} to {high:.3g})."
    made = record["provenance"]
    return "\n".join([*lines, "", f"*From results/training/unseen.json: {made['device']}, jax {made['jax']}.*"])


def main(runs: Path, more: Path) -> None:
    """Measure every flow that has both runs and more trajectories; keep what is stored of the others."""
    start_jax()
    flows = {flow["benchmark"]: flow for flow in _stored()}
    for data in sorted(path for path in more.iterdir() if path.is_dir()):
        found: dict[str, list[Run]] = {}
        for folder in sorted((runs / data.name).glob("*/seed-*")):
            if Run(folder).finished:
                found.setdefault(folder.parent.name, []).append(Run(folder))
        seeds = {kind: [run.configuration()["seed"] for run in members] for kind, members in found.items()}
        flows[data.name] = summarise(data.name, errors_of(found, benchmark(data.name), data), seeds)
    write_json(FILE, {"format_version": 1, "provenance": source(), "flows": list(flows.values())})
    print(table(json.loads(FILE.read_text())))
    print(f"wrote {FILE}")


def _stored() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text())["flows"] if FILE.is_file() else []


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
