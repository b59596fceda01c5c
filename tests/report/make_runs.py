"""Makes tests/report/runs: result files in the formats of `sino train`, `evaluate` and `analyze`, with made-up numbers.

`python tests/report/make_runs.py` writes them again. Nothing is simulated; every number is a formula below, so that the
tests know what must come out. Two flows: `burgers-decaying` (1D) and `ns-decaying` (2D), both called preset `paper`.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

RUNS = Path(__file__).parent / "runs"
FRAMES, FIRST = 40, 13
SEEDS = {"paper": [0, 1, 2, 3], "test": [80, 81, 82, 83]}
SHAPE = np.array([0.7, 0.9, 1.1, 1.3])
"""Errors of the four trajectories over their mean."""
PROVENANCE = {"sino": "0.1.0", "jax": "0.10.2", "python": "3.11.7", "platform": "gpu", "device": "NVIDIA H200"}
RECIPE = {"stages": [[20, 10], [60, 20]], "batch": 8, "learning_rate": 0.005, "loss": "log"}
COARSE = {"burgers-decaying": {"paper": 0.16, "test": 0.17}, "ns-decaying": {"paper": 0.4, "test": 0.42}}
CELLS = {"burgers-decaying": 256, "ns-decaying": 64}


def configuration(benchmark: str, model: str, seed: int, **changes: Any) -> dict[str, Any]:
    data = {f"{CELLS[benchmark]}/seed-00000.h5": "5126c03d1f" + "0" * 54}
    standard = {"benchmark": benchmark, "preset": "paper", "coarse": CELLS[benchmark], "scheme": "paper"}
    standard |= {"model": model, "sizes": {}, "seed": seed, "schedule": "ours", "precision": "float32"}
    return standard | {"evaluate_every": 1, "recipe": RECIPE, "data": data} | changes


def score(mean: float, dataset: str, dim: int, blown: int = 0) -> dict[str, Any]:
    """A score with the given mean; the last `blown` trajectories did not stay finite."""
    values = list(mean * (SHAPE if mean > 0.1 else SHAPE[[2, 0, 3, 1]]))
    kept = [None if i >= 4 - blown else float(value) for i, value in enumerate(values)]
    time = np.arange(FRAMES + 1)
    curve = [float(f"{2 * mean * (t / FRAMES) ** 2:.3g}") for t in time]
    k = np.arange(0, 33 if dim == 1 else 17)
    reference = [0.0, *(float(f"{x:.4g}") for x in 1.0 * k[1:] ** (-2.0 if dim == 1 else -3.0))]
    energy = [0.0, *(float(f"{e * math.exp(-mean * x / 4):.4g}") for e, x in zip(reference[1:], k[1:], strict=True))]
    spectrum = {"wavenumber": k.tolist(), "energy": energy, "reference": reference, "distance": round(mean / 3, 6)}
    record = {
        "seeds": SEEDS[dataset],
        "mse": {
            "mean": None if blown else mean,
            "median": mean,
            "standard_error": None if blown else mean / 8,
            "interval": None if blown else [0.8 * mean, 1.2 * mean],
            "per_trajectory": kept,
        },
        "mse_all_frames": {"mean": None if blown else 0.6 * mean},
        "nrmse": {"mean": None if blown else math.sqrt(mean)},
        "error_over_time": {
            "mean": [None if blown and t > 30 else value for t, value in enumerate(curve)],
            "low": [0.7 * value for value in curve],
            "high": [1.3 * value for value in curve],
        },
        "correlation_over_time": [1.0 - 0.5 * mean * t / FRAMES for t in range(FRAMES + 1)],
        "correlation_time": {"mean": 0.25 / (0.1 + mean), "interval": [1.0, 2.0], "censored": 1, "threshold": 0.95},
        "spectrum": spectrum,
        "energy_drift": None if blown else -0.1 * mean,
        "mean_drift": None if blown else 1e-7,
        "blown_up": {"count": blown, "trajectories": [{"seed": s, "frame": 31} for s in SEEDS[dataset][4 - blown :]]},
    }
    if dim == 2:
        record |= {"enstrophy_spectrum": spectrum, "divergence": 2e-7}
    return record


def evaluation(config: dict[str, Any], errors: dict[str, dict[str, float]], parameters: int, blown: int = 0, **changes):
    b = config["benchmark"]
    dim = 1 if b.startswith("burgers") else 2
    scores = {"none": {name: score(mean, name, dim) for name, mean in COARSE[b].items()}}
    for weights, sets in errors.items():
        scores[weights] = {name: score(mean, name, dim, blown if name == "test" else 0) for name, mean in sets.items()}
    record = {"format_version": 1, "kind": "evaluation", "configuration": config, "provenance": PROVENANCE}
    record |= {key: config[key] for key in ("benchmark", "preset", "coarse", "scheme", "model", "seed")}
    record |= {"trained_on": {"benchmark": b, "coarse": config["coarse"]}, "parameters": parameters}
    frame = 1e-4 if dim == 1 else 0.0117
    record |= {"train_seconds": 125.0, "times": [round(4.5 + frame * t, 6) for t in range(FRAMES + 1)]}
    return record | {"first": FIRST, "last": FRAMES, "scores": scores} | changes


def results(config: dict[str, Any], errors: dict[str, dict[str, float]], blown: int = 0) -> dict[str, Any]:
    def brief(mean: float, bad: int) -> dict[str, Any]:
        late = None if bad else mean
        return {"mean": late, "median": mean, "mean_all_frames": late, "blown_up": bad, "trajectories": 4}

    made = {
        weights: {name: brief(mean, blown if name == "test" else 0) for name, mean in sets.items()}
        for weights, sets in errors.items()
    }
    record = {"format_version": 1, "configuration": config, "provenance": PROVENANCE, "errors": made}
    return record | {"chosen_at": {"best": 160}, "train_seconds": 125.0, "evaluate_seconds": 9.0, "events": []}


def metrics(error: float, stopped: bool = False) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for update in range(0, 241, 8):
        frames = 20 if update < 80 else 60
        if update:
            line = {"kind": "update", "update": update, "epoch": update // 8, "frames": frames, "rate": 0.005}
            loss = round(math.log(error * (1 + 40 * math.exp(-update / 40))), 5)
            lines.append(line | {"loss": loss, "gradient_norm": 1.0, "seconds": update / 2})
        mean = float(f"{error * (1 + 30 * math.exp(-update / 50)):.5g}")
        late = {"mean": mean, "median": mean, "mean_all_frames": mean, "blown_up": 0, "trajectories": 4}
        lines.append({"kind": "evaluation", "update": update, "paper": late, "validation": late, "seconds": 1.0})
    if stopped:
        event = {"kind": "event", "event": "stopped", "update": 240, "epoch": 30, "frames": 60, "trajectory": 3}
        lines.append(event | {"frame": 12, "failures": 6, "rate_factor": 0.1})
    return lines


def sample(dim: int, error: float) -> dict[str, np.ndarray]:
    """Reference, coarse grid and closure: travelling waves that drift apart."""
    x = 2 * np.pi * np.arange(16) / 16
    if dim == 1:
        x, t = 2 * np.pi * np.arange(32) / 32, np.arange(0, FRAMES + 1, 2)[:, None]
        waves = [np.sin(x + 0.1 * t) + 0.6 * np.sin(3 * x - (0.15 + slip) * t) for slip in (0.0, 0.06, error)]
        return {n: w[:, None].astype(np.float32) for n, w in zip(("reference", "none", "best"), waves, strict=True)}
    t = np.arange(0, FRAMES + 1, 10)[:, None, None]
    fields = {}
    for name, slip in (("reference", 0.0), ("none", 0.05), ("best", error)):
        phase = (0.05 + slip) * t
        psi = np.cos(x[:, None] + phase) * np.sin(x) + 0.4 * np.sin(2 * x[:, None] - phase) * np.cos(3 * x + phase)
        h = x[1]
        u, v = (psi - np.roll(psi, 1, axis=2)) / h, -(psi - np.roll(psi, 1, axis=1)) / h
        fields[name] = np.stack([u, v], axis=1).astype(np.float32)
    return fields


def analysis(config: dict[str, Any], n: int, cost: bool) -> dict[str, Any]:
    blocks = 2 if config["benchmark"].startswith("burgers") else 4
    shares = [0.8, 1.0] if n == 2 else [0.6, 0.85, 0.93, 0.97, 0.99, 0.995, 0.999, 1.0]
    kernels, bounds = [], []
    for block in range(blocks):
        for branch in ("frequency", "spatial"):
            own = {"block": block, "branch": branch}
            family = {"bottleneck": n, "samples": 81, "features": 256, "rank": n + 1, "rank_bound": n + 1}
            kernels.append(own | family | {"explained": shares})
            limits = {"lipschitz_bound": 8.0, "largest_slope": 2.5, "norm_bound": 6.0, "norm": 1.5, "holds": True}
            limits["paper_holds"] = branch == "spatial"
            bounds.append(own | limits)
    record = {"format_version": 1, "kind": "analysis", "configuration": config, "provenance": PROVENANCE}
    record |= {"kernels": kernels, "bounds": bounds}
    errors = [(1, 0.7, 0.75), (2, 0.4, 0.5), (4, 0.1, 0.16), (8, 0.01, 0.05)]
    record["approximation"] = [{"bottleneck": k, "limit": best, "fitted": fit} for k, best, fit in errors]
    if cost:
        rows = [("coarse", 64, 0.01, 0.4), ("closure", 64, 0.03, 0.06), ("fine-128", 128, 0.08, 0.187)]
        rows += [("fine-256", 256, 0.6, 0.0546), ("spectral-64", 64, 0.012, 0.145), ("spectral-96", 96, 0.03, 0.04)]
        record["cost"] = {
            "device": "NVIDIA H200",
            "precision": "float32",
            "batch": 8,
            "truth": {"dataset": "finite volumes, 512", "spectral": "pseudo-spectral, 512"},
            "rows": [
                {"what": w, "cells": c, "seconds_per_time": s, "error": {"dataset": e, "spectral": 0.9 * e}}
                for w, c, s, e in rows
            ],
            "speedup_at_equal_error": {"dataset": 18.2, "spectral": None},
            "reason": {"dataset": None, "spectral": "the closure blew up"},
            "speedup_against_strong": {"dataset": 0.7, "spectral": None},
            "equal_error_grid": {"dataset": 248, "spectral": None},
            "break_even_time_units": 52000.0,
            "data_seconds": 1800.0,
            "train_seconds": 25000.0,
        }
    return record


def short(value: Any) -> Any:
    """Five digits are enough."""
    if isinstance(value, dict):
        return {key: short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [short(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def write(folder: Path, files: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    for name, value in files.items():
        path = folder / name
        if name == "samples.safetensors":
            path.write_bytes(safetensors.numpy.save(value))
        elif name == "metrics.jsonl":
            path.write_text("".join(json.dumps(short(line)) + "\n" for line in value))
        else:
            path.write_text(json.dumps(short(value), allow_nan=False) + "\n")


def run(
    folder: str, config: dict[str, Any], error: float | None, parameters: int, blown: int = 0, stopped=False, **more
):
    """A run whose error is `error` on training trajectories, 10 % more on unseen ones, and 20 % more at the end."""
    stamp = {"format_version": 1, "provenance": PROVENANCE | {"commit": "0123456789abcdef+changes"}}
    files = {"config.json": stamp | {"configuration": config}, "metrics.jsonl": metrics(error or 0.2, stopped)}
    if error is not None:
        sets = {"paper": error, "test": 1.1 * error}
        late = {name: 1.2 * value for name, value in sets.items()}
        weights = {"final": late} if parameters == 1 else {"final": late, "best": sets, "selected": sets}
        trained = {name: means | {"validation": means["paper"]} for name, means in weights.items()}
        files["results.json"] = results(config, trained, blown)
        if "evaluation.json" not in more:
            files["evaluation.json"] = evaluation(config, weights, parameters, blown)
    files |= {name: value for name, value in more.items() if value is not None}
    write(RUNS / folder, files)


def main() -> None:
    shutil.rmtree(RUNS, ignore_errors=True)
    b = "burgers-decaying"
    for seed, error in ((1, 4e-3), (2, 5e-3), (3, 6e-3)):
        config = configuration(b, "sino", seed)
        more: dict[str, Any] = {}
        if seed == 1:
            sets = {"final": {"paper": 4.8e-3, "test": 5.28e-3}, "best": {"paper": 4e-3, "test": 4.4e-3}}
            samples = {"seed": 80, "frames": list(range(0, FRAMES + 1, 2))}
            more["evaluation.json"] = evaluation(config, sets | {"selected": sets["best"]}, 6681, samples=samples)
            more["samples.safetensors"] = sample(1, 0.004)
            more["analysis.json"] = analysis(config, 2, cost=False)
            elsewhere = {"best": {"test": 0.05}, "final": {"test": 0.06}}
            more["evaluation-on-burgers-decaying-128.json"] = evaluation(config, elsewhere, 6681, coarse=128)
        run(f"{b}/sino/seed-{seed}", config, error, 6681, **more)
    not_evaluated = {"evaluation.json": None}
    run(f"{b}/sino-paper/seed-1", configuration(b, "sino", 1, schedule="paper"), 7e-3, 6681, **not_evaluated)
    for seed, blown in ((1, 0), (2, 2)):
        run(f"{b}/fno/seed-{seed}", configuration(b, "fno", seed), 9e-2, 11073, blown)
    run(f"{b}/hyperviscosity/seed-1", configuration(b, "hyperviscosity", 1), 2e-2, 1)
    run(f"{b}/unet/seed-1", configuration(b, "unet", 1), None, 7077)
    b = "ns-decaying"
    samples = {"seed": 80, "frames": list(range(0, FRAMES + 1, 10))}
    for name, n, error, count in (("sino", 2, 6e-2, 59314), ("sino-8", 8, 5e-2, 110002)):
        sizes = {} if n == 2 else {"frequency_bottleneck": n, "spatial_bottleneck": n}
        config = configuration(b, "sino", 1, sizes=sizes)
        sets = {"paper": error, "test": 1.1 * error}
        scored = evaluation(config, {"final": sets, "best": sets, "selected": sets}, count, samples=samples)
        more = {"evaluation.json": scored, "samples.safetensors": sample(2, error / 6)}
        run(f"{b}/{name}/seed-1", config, error, count, **more, **{"analysis.json": analysis(config, n, cost=n == 2)})
    run(f"{b}/smagorinsky/seed-1", configuration(b, "smagorinsky", 1), 0.5, 1)
    run(f"{b}/amfno/seed-1", configuration(b, "amfno", 1), None, 120162, stopped=True)
    points = [[10_000, 0.2], [40_000, 0.1], [160_000, 0.05]]
    fit = {"model": "sino", "against": "parameters", "points": points, "exponent": 0.5, "interval": [0.45, 0.55]}
    slow = {"model": "fno", "against": "seconds", "points": points, "exponent": 0.5, "interval": None}
    fits = [fit | {"prefactor": 20.0}, slow | {"prefactor": 20.0}]
    scaling = {"format_version": 1, "kind": "scaling", "benchmark": b, "fits": fits}
    (RUNS / "scaling.json").write_text(json.dumps(scaling) + "\n")


if __name__ == "__main__":
    main()
