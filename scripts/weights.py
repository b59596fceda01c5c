"""Take the best finished runs into the package: `python -m scripts.weights RUN... [--data DIR] [--weights DIR]`.

For each benchmark among the runs, the seed with the lowest VALIDATION error is taken, with the weights that validation
chose; test trajectories have no say. A folder of the package holds

    config.json              what is needed to build the network
    arrays.safetensors       its weights and statistics, and
    manifest.json            their hash: a checkpoint
    spot.safetensors         a few frames of unseen trajectories, on which a test measures it again
    card.json, card.md       what it is, what it was trained on, how good it is, and its limits
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from sino.benchmarks import Benchmark, benchmark
from sino.cli.datasets import dataset_folder, find_dataset
from sino.cli.evaluation_plan import find_runs
from sino.cli.start import start_jax
from sino.core.errors import UserError
from sino.core.files import write_atomically, write_json
from sino.core.provenance import source
from sino.data.store import as_ranges
from sino.evaluate.spot import choose_spot, save_spot, spot_errors
from sino.models import count_parameters
from sino.report.names import BENCHMARK_TITLES, MODEL_TITLES, grid_title, number
from sino.train import checkpoint
from sino.train.run import FORMAT_VERSION, WEIGHTS, Run, load_closure, plain

KEPT = ("benchmark", "preset", "coarse", "scheme", "model", "sizes", "seed", "schedule", "precision")
LARGEST = 300_000
"""Bytes of the weights of a benchmark."""
LIMITS = (
    "For this flow, scheme, grid and time step; `sino evaluate` measures what it is worth elsewhere.",
    "Periodic box, uniform grid. Not for decisions that matter without validation of your own.",
)


@dataclass(frozen=True)
class Options:
    """Take the best finished runs into the package."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs: of one seed, or above several."""
    data: Path = Path("data")
    """Folder of the datasets."""
    weights: Path = field(default_factory=lambda: WEIGHTS)
    """Where to write."""


def best_runs(paths: tuple[Path, ...]) -> dict[str, tuple[Run, int]]:
    """By benchmark: the finished run with the lowest validation error, and of how many it was chosen."""
    candidates: dict[str, list[tuple[float, Run]]] = {}
    for run in find_runs(paths):
        if not run.finished or not run.checkpoint("best").is_dir():
            print(f"{run.path} is left out: it has no weights that validation chose")
            continue
        error = run.results()["errors"]["best"]["validation"]["mean"]
        if error is None:
            print(f"{run.path} is left out: it blew up on a validation trajectory")
            continue
        candidates.setdefault(run.configuration()["benchmark"], []).append((error, run))
    if not candidates:
        raise UserError("none of the runs can be taken")
    return {name: (min(found, key=lambda pair: pair[0])[1], len(found)) for name, found in candidates.items()}


def export(run: Run, candidates: int, data: Path, weights: Path) -> Path:
    """Write the folder of one benchmark, replacing the one that was there."""
    configuration = run.configuration()
    b = benchmark(configuration["benchmark"], configuration["preset"])
    closure = load_closure(run.path, "best")
    dataset = find_dataset(b, configuration["preset"], configuration["coarse"], data)
    spot = choose_spot(b, dataset.load(configuration["coarse"], b.sizes.test))
    coupling = configuration["recipe"]["coupling"]
    how = {"scheme": configuration["scheme"], "coupling": coupling, "precision": configuration["precision"]}
    errors = spot_errors(b, closure, spot, **how)
    facts = {"seeds": list(spot.seeds), "frames": list(spot.frames), "errors": errors}
    card = _card(run, b, count_parameters(closure.model), candidates, facts)

    folder = weights / b.name
    new = weights / f".{b.name}.tmp"
    shutil.rmtree(new, ignore_errors=True)
    checkpoint.save(new, closure, {"benchmark": b.name})
    reduced = {key: configuration[key] for key in KEPT}
    reduced["recipe"] = {key: configuration["recipe"][key] for key in ("zero_mean", "coupling")}
    write_json(new / "config.json", {"format_version": FORMAT_VERSION, "configuration": reduced})
    save_spot(new / "spot.safetensors", spot)
    write_json(new / "card.json", plain(card))
    write_atomically(new / "card.md", lambda path: path.write_text(describe(card)))
    size = (new / "arrays.safetensors").stat().st_size
    if size > LARGEST:
        shutil.rmtree(new)
        raise UserError(f"{run.path} is too large to be part of the package: {size:,} bytes, above {LARGEST:,}")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    return folder


def _card(run: Run, b: Benchmark, parameters: int, candidates: int, spot: dict[str, Any]) -> dict[str, Any]:
    configuration, results = run.configuration(), run.results()
    evaluation = (
        checkpoint.read_json(run.path / "evaluation.json", 1) if (run.path / "evaluation.json").is_file() else {}
    )
    alone = {name: s["mse"]["mean"] for name, s in evaluation.get("scores", {}).get("none", {}).items()}
    s = b.sizes
    return {
        "format_version": FORMAT_VERSION,
        "benchmark": b.name,
        "preset": configuration["preset"],
        "model": configuration["model"],
        "sizes": configuration["sizes"],
        "parameters": parameters,
        "grid": configuration["coarse"],
        "scheme": configuration["scheme"],
        "training": {
            "seeds": as_ranges(s.train[: configuration.get("trajectories")]),
            "frames": [0, s.train_frames],
            "schedule": configuration["schedule"],
            "recipe": configuration["recipe"],
            "seconds": results["train_seconds"],
            "data": configuration["data"],
        },
        "chosen": {"by": "validation", "from": candidates, "seed": configuration["seed"]},
        "errors": {name: results["errors"]["best"][name] for name in ("validation", "test", "paper")},
        "alone": alone,
        "unseen": as_ranges(s.test),
        "spot": spot,
        "limits": list(LIMITS),
        "licence": "Apache-2.0",
        "trained_with": results["provenance"],
        "exported_with": source(),
    }


def describe(card: dict[str, Any]) -> str:
    """The card for people."""
    test, alone = card["errors"]["test"], card["alone"].get("test")
    beside = "" if alone is None else f"; the solver alone {number(alone)}"
    made, training = card["trained_with"], card["training"]
    mean = f"{test['blown_up']} of {test['trajectories']} blew up" if test["mean"] is None else number(test["mean"])
    lines = [
        f"# {MODEL_TITLES[card['model']]} for {card['benchmark']}",
        "",
        f"{BENCHMARK_TITLES[card['benchmark']]}, {grid_title(card['benchmark'], card['grid'])}, "
        f"{card['scheme']} scheme, sizes of the preset {card['preset']}; {card['parameters']:,} parameters.",
        "",
        f"- Trained on frames {training['frames'][0]} to {training['frames'][1]} of the trajectories of seeds "
        f"{training['seeds']}, schedule {training['schedule']}; run {card['chosen']['seed']}, which had the lowest "
        f"validation error of {card['chosen']['from']}.",
        f"- Mean squared error after the training window, unseen trajectories of seeds {card['unseen']}: {mean} "
        f"(median {number(test['median'])}){beside}.",
        *(f"- {limit}" for limit in card["limits"]),
        f"- {card['licence']}. sino {made['sino']}, jax {made['jax']}, {made['device']}, commit {made['commit']}.",
        "",
    ]
    return "\n".join(lines)


def main(options: Options) -> None:
    """Export, and say what."""
    start_jax()
    options.weights.mkdir(parents=True, exist_ok=True)
    for name, (run, candidates) in best_runs(options.runs).items():
        configuration = run.configuration()
        b = benchmark(name, configuration["preset"])
        data = dataset_folder(b, configuration["preset"], configuration["coarse"], options.data)
        print(f"{run.path} -> {export(run, candidates, data, options.weights)}")


if __name__ == "__main__":
    try:
        main(tyro.cli(Options))
    except UserError as error:
        raise SystemExit(f"{error}") from error
