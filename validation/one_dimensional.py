"""The uncorrected coarse error of the six 1D benchmarks, all 64 training seeds, in float64, on a CPU."""

import time
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from sino.benchmarks import Benchmark, benchmark
from sino.data.generate import simulator
from sino.evaluate.score import free_run, window_error
from validation.record import Row, row, store

PROTOCOL = {
    ("ks", "as published"): 3.69e-3,
    ("ks-32", "as published"): 22.6,
    ("burgers-decaying", "as published"): 0.1596,
    ("burgers-decaying-128", "as published"): 0.1792,
    ("burgers-forced", "as published"): 2.27e-3,
    ("burgers-forced", "clock restarted"): 0.217,
    ("burgers-forced", "cell-average forcing"): 1.39e-3,
    ("burgers-forced-128", "as published"): 1.24e-4,
    ("burgers-forced-128", "clock restarted"): 0.262,
}
"""Coarse errors that an independent implementation measured with the same draws."""


def fine_solutions(b: Benchmark, coarse: list[int]) -> tuple[dict[int, np.ndarray], float]:
    """Frames `(64, 1001, 1, n)` of the fine solution on each coarse grid, and the largest `|u|` on the fine grid."""
    fine = b.sizes.fine
    simulate = simulator(
        b.solver(fine),
        warmup_steps=b.warmup_steps,
        frames=b.sizes.frames,
        substeps=b.substeps(fine),
        observe=lambda u: {str(n): b.coarsen(u, (n,)) for n in coarse} | {"speed": abs(u).max()},
    )
    seeds = b.sizes.train
    seen = [block.observed for block in simulate(b.initial_states(seeds), b.forcings(seeds)) if block.observed]
    frames = {n: np.concatenate([block[str(n)] for block in seen], axis=1) for n in coarse}
    return frames, max(block["speed"].max() for block in seen)


def coarse_error(b: Benchmark, truth: np.ndarray, **changes) -> np.ndarray:
    """Error of each trajectory over frames 301..1000, from frame 0 on the coarse grid."""
    n = b.sizes.coarse
    forcing = changes.get("forcing", b.forcings(b.sizes.train))
    run = free_run(
        b.solver(n), truth[:, 0], forcing, b.sizes.frames, t0=changes.get("t0", b.start), substeps=b.substeps(n)
    )
    return window_error(run, truth, b.sizes.train_frames + 1)


def measure(names: list[str]) -> list[Row]:
    """Rows of several benchmarks that share one fine solution."""
    benchmarks = [benchmark(name) for name in names]
    started = time.perf_counter()
    truths, speed = fine_solutions(benchmarks[0], [b.sizes.coarse for b in benchmarks])
    fine = benchmarks[0]
    print(f"{names[0]}: fine solution in {time.perf_counter() - started:.0f} s, largest |u| {speed:.3f}", flush=True)
    bound = dict(fine.parameters).get("speed_bound")
    assert bound is None or speed <= bound, "the flow is faster than the bound its time steps were chosen for"
    rows = []
    for b in benchmarks:
        truth, n = truths[b.sizes.coarse], b.sizes.coarse
        variants = {"as published": coarse_error(b, truth)}
        if "forced" in b.name:
            forcing: Any = b.forcings(b.sizes.train)
            variants["clock restarted"] = coarse_error(b, truth, t0=0.0)
            variants["cell-average forcing"] = coarse_error(b, truth, forcing=replace(forcing, cell_average=True))
        for variant, errors in variants.items():
            # The paper's row for the forced flow is the restarted clock.
            of_paper = "clock restarted" if "forced" in b.name else "as published"
            paper = b.paper_errors[n] if variant == of_paper else None
            rows.append(row(b.name, variant, n, errors, PROTOCOL.get((b.name, variant)), paper))
    return rows


def main() -> None:
    """Measure, store, and fail if a figure is more than three standard errors from its reference."""
    jax.config.update("jax_enable_x64", True)
    rows = [
        *measure(["burgers-forced", "burgers-forced-128"]),
        *measure(["burgers-decaying", "burgers-decaying-128"]),
        *measure(["ks", "ks-32"]),
    ]
    store("coarse-1d", rows)
    for r in rows:
        if r.protocol is not None:
            off = abs(r.error - r.protocol)
            assert off < 3 * r.standard_error, f"{r.benchmark}, {r.variant}: {r.error}, not {r.protocol}"
    print("all within three standard errors")


if __name__ == "__main__":
    main()
