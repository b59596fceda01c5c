"""`sino demo`: two small flows, what a coarse grid gets wrong about them, and pictures of it."""

import time
from pathlib import Path

import numpy as np

from sino.benchmarks import Benchmark, benchmark
from sino.cli.generation import generate
from sino.cli.start import start_jax
from sino.cli.verbs import Generate
from sino.data.store import FINE, open_dataset
from sino.data.well import Trajectories
from sino.evaluate.score import free_run
from sino.metrics.errors import mean_squared_error
from sino.metrics.velocity import vorticity
from sino.report import figures


def demo(out: Path) -> None:
    """Generate, run the coarse solver on its own, compare, draw."""
    start_jax()
    started = time.perf_counter()
    lines = [_chaos(out), _turbulence(out)]
    print(f"\nWhat a coarse grid gets wrong, with no closure ({time.perf_counter() - started:.0f} s in all):")
    for line in lines:
        print(f"  {line}")
    print(f"Pictures: {', '.join(str(picture) for picture in sorted(out.glob('*.png')))}")


def _chaos(out: Path) -> str:
    """Kuramoto-Sivashinsky: one long space-time diagram."""
    generate(Generate("ks", preset="small", trajectories=8, frames=5000, out=out / "ks"))
    b = benchmark("ks", "small")
    data = open_dataset(out / "ks").load(b.sizes.coarse)
    alone = _coarse_run(b, data)
    picture = figures.compare_space_time(
        data.frames[0, :, 0], alone[0, :, 0], data.times, f"coarse solver alone, {b.sizes.coarse} points"
    )
    figures.save(picture, out / "kuramoto-sivashinsky.png")
    return _verdict(b, data, alone)


def _turbulence(out: Path) -> str:
    """Decaying 2D turbulence: vorticity side by side, error and spectra."""
    b = benchmark("ns-decaying", "small")
    fine, coarse = f"{b.sizes.fine}²", f"{b.sizes.coarse}²"
    chosen = np.linspace(0, b.sizes.frames, 4).astype(int)
    generate(
        Generate(
            "ns-decaying", preset="small", trajectories=4, keep_fine=tuple(chosen.tolist()), out=out / "ns-decaying"
        )
    )
    dataset = open_dataset(out / "ns-decaying")
    data = dataset.load(b.sizes.coarse)
    alone = _coarse_run(b, data)
    rows = {
        f"fine solution, {fine}": vorticity(dataset.load(FINE).frames[0], b.length),
        f"coarsened to {coarse}": vorticity(data.frames[0, chosen], b.length),
        f"{coarse} solver alone": vorticity(alone[0, chosen], b.length),
    }
    figures.save(figures.compare_vorticity(rows, data.times[chosen]), out / "decaying-turbulence.png")
    error = mean_squared_error(alone, data.frames)
    last = {f"{fine}, coarsened": data.frames[:, -1], f"{coarse} alone": alone[:, -1]}
    picture = figures.errors_and_spectra({f"{coarse} alone": error}, last, data.times)
    figures.save(picture, out / "decaying-turbulence-error.png")
    return _verdict(b, data, alone)


def _coarse_run(b: Benchmark, data: Trajectories) -> np.ndarray:
    """The coarse solver from frame 0, over all frames."""
    n = b.sizes.coarse
    forcing = b.forcings(list(data.seeds))
    return free_run(
        b.solver(n), data.frames[:, 0], forcing, data.frames.shape[1] - 1, t0=b.start, substeps=b.substeps(n)
    )


def _verdict(b: Benchmark, data: Trajectories, alone: np.ndarray) -> str:
    error = mean_squared_error(alone, data.frames)
    variance = float(data.frames.var())
    return (
        f"{b.name}: {b.sizes.fine} to {b.sizes.coarse} cells, {len(data.seeds)} trajectories: mean squared error "
        f"{error[:, 1:].mean():.3g} over all frames, {error[:, -1].mean() / variance:.1%} of the variance at the end"
    )
