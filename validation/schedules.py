"""Compare the two schedules: collect finished runs of SINO into one result file.

sino train BENCHMARK --schedule SCHEDULE --seeds 1 2 3 --out RUNS/BENCHMARK/sino-SCHEDULE      for each
python -m validation.schedules RUNS
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sino.core.files import write_json
from sino.data.windows import batches_per_epoch
from sino.models.layers import OUT_STD

FILE = Path(__file__).parent.parent / "results" / "training" / "schedules.json"
PAPER = {"ks": 1.33e-3, "burgers-decaying": 4.37e-3, "burgers-forced": 1.03e-3}
"""The paper's errors of SINO, mean over three seeds."""


def collect(runs: Path, stored: list[dict[str, Any]]) -> dict[str, Any]:
    """All finished runs, in place of the stored ones of the same kind; the others are kept."""
    rows = []
    for file in sorted(runs.glob("*/sino-*/seed-*/results.json")):
        result = json.loads(file.read_text())
        configuration = result["configuration"]
        recipe = configuration["recipe"]
        updates = batches_per_epoch(64, recipe["batch"], recipe["passes"])
        rows.append(
            {
                "benchmark": configuration["benchmark"],
                "schedule": configuration["schedule"],
                "seed": configuration["seed"],
                "recipe": recipe,
                "solver_steps": updates * sum(frames * epochs for frames, epochs in recipe["stages"]),
                "train_seconds": result["train_seconds"],
                "evaluate_seconds": result["evaluate_seconds"],
                "errors": result["errors"],
                "events": result["events"],
                "provenance": result["provenance"],
            }
        )
    new = {kind(row) for row in rows}
    rows += [row for row in stored if kind(row) not in new]
    rows.sort(key=lambda row: (*kind(row), row["seed"]))
    return {"rows": rows, "paper": PAPER}


def kind(row: dict[str, Any]) -> tuple[str, str]:
    """Benchmark and schedule; ours has been run with two optimisers."""
    adam = row["schedule"] == "ours" and row["recipe"].get("optimiser", "adam") == "adam"
    return row["benchmark"], "ours, with Adam" if adam else row["schedule"]


def table(record: dict[str, Any]) -> str:
    """The comparison as Markdown: one line per benchmark and schedule."""
    head = "| flow | schedule | steps | minutes | training trajectories | spread | unseen | spread | paper |"
    lines = [head, "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault(kind(row), []).append(row)
    for (name, schedule), rows in groups.items():
        minutes = np.mean([row["train_seconds"] for row in rows]) / 60
        cells = [f"`{name}`", schedule, f"{rows[0]['solver_steps'] / 1e3:.0f}k", f"{minutes:.1f}"]
        for judge in ("paper", "test"):
            errors = np.array([row["errors"]["final"][judge]["mean"] for row in rows], float)
            each = ", ".join(f"{error:.3g}" for error in errors)
            cells += [f"**{errors.mean():.3g}** ({each})", spread(errors)]
        lines.append("| " + " | ".join([*cells, f"{record['paper'][name]:.3g}"]) + " |")
    made = record["rows"][0]["provenance"]
    return "\n".join([*lines, "", f"*From results/training/schedules.json: {made['device']}, jax {made['jax']}.*"])


USUAL = {"loss": "log", "out_scale": "defect", "clip": 1.0, "kernel_rate": 1.0, "warmup": 0.0, "zero_mean": True}
USUAL |= {"batch": 8, "initialisation": "live", "optimiser": "adam", "square_decay": 0.99, "refresh": 5}
NOISE_UNITS = {"deviation": "s", "error of the solver alone over the longest": "e"}
NOISE_UNITS |= {"error of the solver alone over the training": "w"}
"""What the search gave its noise as a fraction of: the words with which a unit begins, and its letter."""


def search_table(record: dict[str, Any]) -> str:
    """What the search for our schedule measured, failures included, the best of each flow first."""
    lines = ["| flow | lengths | rate | noise | besides | steps | seeds | training trajectories | unseen | spread |"]
    lines.append("|---|---|--:|--:|---|--:|--:|--:|--:|--:|")
    for row in sorted(record["rows"], key=lambda row: (row["benchmark"], np.mean(row["unseen_trajectories"]))):
        recipe = row["recipe"]
        lengths = ", ".join(str(frames) for frames, _ in recipe["stages"])
        besides = [f"{key} {recipe[key]}" for key, usual in USUAL.items() if recipe.get(key, usual) != usual]
        unit = next(letter for words, letter in NOISE_UNITS.items() if row["noise_unit"].startswith(words))
        noise = f"{recipe['noise']:g} {unit}" if recipe["noise"] else "0"
        unseen = np.array(row["unseen_trajectories"])
        if row["last_layer"] != OUT_STD:
            besides.append(f"last layer {row['last_layer']:g}")
        if "besides" in recipe:  # what was tried and is no option
            besides.append(recipe["besides"])
        cells = [f"`{row['benchmark']}`", lengths, f"{recipe['learning_rate']:g}", noise, ", ".join(besides)]
        cells += [f"{row['solver_steps'] / 1e3:.0f}k", str(len(unseen)), f"{np.mean(row['training_trajectories']):.3g}"]
        lines.append("| " + " | ".join([*cells, f"{unseen.mean():.3g}", spread(unseen)]) + " |")
    return "\n".join([*lines, "", "*From results/training/search.json.*"])


def spread(errors: np.ndarray) -> str:
    """Standard deviation over seeds, in per cent of the mean."""
    return f"{100 * errors.std(ddof=1) / errors.mean():.0f} %" if len(errors) > 1 else ""


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    stored = json.loads(FILE.read_text())["rows"] if FILE.is_file() else []
    write_json(FILE, collect(Path(sys.argv[1]), stored))
    print(table(json.loads(FILE.read_text())))
    print(f"wrote {FILE}")
