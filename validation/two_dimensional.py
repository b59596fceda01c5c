"""The uncorrected error of the six 2D benchmarks at 64, 128 and 256 cells against 512, all 64 seeds. Wants a GPU.

python -m validation.two_dimensional                        all six, at full size
python -m validation.two_dimensional --preset tiny          a rehearsal in seconds, without targets
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from sino.benchmarks import BENCHMARKS, Benchmark, benchmark
from sino.data.generate import simulator
from sino.evaluate.score import free_run, window_error
from validation.record import Row, row, store

PROTOCOL = {
    "ns-decaying": (0.4058, 0.1871, 0.0546),
    "ns-forced-re1000": (0.524, 0.252, 0.058),
    "ns-forced-re2000": (0.560, 0.298, 0.081),
    "ns-forced-re4000": (0.634, 0.346, 0.117),
    "ns-forced-re1e5": (0.596, 0.365, 0.131),
    "ns-taylor-green": (0.371, 0.135, 0.025),
}
"""Errors at 64, 128 and 256 cells that an independent implementation measured with the same draws."""


def warm_state(b: Benchmark, seeds: range) -> np.ndarray:
    """Frame 0 on the fine grid."""
    fine = b.sizes.fine
    simulate = simulator(
        b.solver(fine),
        warmup_steps=b.warmup_steps,
        frames=0,
        substeps=b.substeps(fine),
        observe=lambda u: {"fine": u},
    )
    *_, last = simulate(b.initial_states(seeds), b.forcings(seeds))
    return last.observed["fine"][:, 0]


def coarsened(b: Benchmark, frames: np.ndarray, n: int) -> np.ndarray:
    """Frames `(b, t, c, x, y)` on a grid of `n` cells."""
    return np.asarray(jax.vmap(jax.vmap(lambda u: b.coarsen(u, (n, n))))(jnp.asarray(frames)))


def run_on(b: Benchmark, n: int, frame0: np.ndarray, seeds: range, seen_on: int | None = None) -> np.ndarray:
    """All frames of the solver on `n` cells from the coarsened frame 0, seen on the benchmark's coarse grid."""
    coarse = (seen_on or b.sizes.coarse,) * 2
    return free_run(
        b.solver(n),
        coarsened(b, frame0[:, None], n)[:, 0],
        b.forcings(seeds),
        b.sizes.frames,
        t0=b.start,
        substeps=b.substeps(n),
        observe=lambda u: b.coarsen(u, coarse),
    )


def kinetic_energy(frames: np.ndarray) -> np.ndarray:
    """Mean of `|v|^2 / 2` over the box, one value per trajectory."""
    return 0.5 * np.square(frames.astype(np.float64)).sum(axis=1).mean(axis=(1, 2))


def measure(b: Benchmark, batch: int) -> tuple[list[Row], dict]:
    """Errors on every grid between the coarse and the fine one, over the trajectories that stay finite."""
    started = time.perf_counter()
    seeds, s = b.sizes.train, b.sizes
    grids = [n for n in (s.coarse, 2 * s.coarse, 4 * s.coarse) if n < s.fine]
    errors: dict[int, list[np.ndarray]] = {n: [] for n in grids}
    finite, decay = [], []
    for first in range(seeds.start, seeds.stop, batch):
        part = range(first, min(first + batch, seeds.stop))
        frame0 = warm_state(b, part)
        truth = run_on(b, s.fine, frame0, part)
        finite.append(np.isfinite(truth).all(axis=(1, 2, 3, 4)))
        decay.append(1 - kinetic_energy(truth[:, -1]) / kinetic_energy(truth[:, 0]))
        for n in grids:
            errors[n].append(window_error(run_on(b, n, frame0, part), truth, s.train_frames + 1))
    good = np.concatenate(finite)
    excluded = tuple(seed for seed, ok in zip(seeds, good, strict=True) if not ok)
    targets: dict[int, float] = dict(zip((64, 128, 256), PROTOCOL[b.name], strict=True)) if s.fine == 512 else {}
    rows = []
    for n in grids:
        values = np.concatenate(errors[n])[good]
        assert np.isfinite(values).all(), f"{b.name}: the solver on {n} cells failed where the fine one did not"
        rows.append(row(b.name, "finite volume", n, values, targets.get(n), b.paper_errors.get(n), excluded))
    lost = np.concatenate(decay)[good]
    low, middle, high = float(lost.min()), float(np.median(lost)), float(lost.max())
    seconds = round(time.perf_counter() - started, 1)
    print(f"{b.name}: energy lost {low:.1%} to {high:.1%}, median {middle:.1%}; {seconds} s", flush=True)
    return rows, {"energy_lost": [low, middle, high], "seconds": seconds}


def check(rows: list[Row]) -> None:
    """Decaying flow within 3 % with exactly one failing seed; Kolmogorov flows, chaotic in the warm-up, within 25 %."""
    for r in rows:
        tolerance = {"ns-decaying": 0.03, "ns-taylor-green": None}.get(r.benchmark, 0.25)
        if r.protocol is not None and tolerance is not None:
            off = abs(r.error / r.protocol - 1)
            assert off < tolerance, (
                f"{r.benchmark} on {r.resolution} cells: {r.error:.4f} is {off:.0%} off {r.protocol}"
            )
        if r.benchmark == "ns-decaying" and r.protocol is not None:
            assert len(r.excluded) == 1, f"one seed of ns-decaying should fail, not {r.excluded}"


def main() -> None:
    """Measure, store after every benchmark, and check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[n for n, b in BENCHMARKS.items() if b.dim == 2])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    rows, extras = [], {}
    for name in options.names:
        made, extras[name] = measure(benchmark(name, options.preset), options.batch)
        rows += made
        store("coarse-2d" if options.preset == "paper" else f"coarse-2d-{options.preset}", rows, runs=extras)
    check(rows)
    print("all within their tolerances")


if __name__ == "__main__":
    main()
