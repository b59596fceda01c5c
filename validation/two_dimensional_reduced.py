"""A reduced check of the 2D flows that a CPU does in about a minute: decaying flow from 256 cells, four seeds.

The full-size figures are those of `validation.two_dimensional`. Here the facts that must hold at any size are asserted:
errors fall with resolution, no energy is made, and at equal resolution the spectral solver beats the finite volumes.
"""

from dataclasses import replace

import numpy as np

from sino.benchmarks import Sizes, benchmark
from sino.evaluate.score import free_run, window_error
from sino.physics.staggered import divergence
from sino.physics.vorticity import SpectralNavierStokes
from validation.record import row, store
from validation.two_dimensional import coarsened, kinetic_energy, run_on, warm_state

SEEDS = range(4)


def main() -> None:
    """Measure, store, and check."""
    b = benchmark("ns-decaying")
    b = replace(b, sizes=Sizes(256, 64, frames=400, train_frames=100, warmup=b.sizes.warmup, train=SEEDS))
    frame0 = warm_state(b, SEEDS)
    truth = run_on(b, 256, frame0, SEEDS)
    first = b.sizes.train_frames + 1

    rows = []
    for n in (32, 64, 128):
        seen = coarsened(b, truth, min(n, 64))
        run = run_on(b, n, frame0, SEEDS, seen_on=min(n, 64))
        rows.append(row(b.name, "finite volume, from 256²", n, window_error(run, seen, first), None, None))
    spectral = SpectralNavierStokes(b.grid(64), b.frame, viscosity=dict(b.parameters)["viscosity"])
    run = free_run(spectral, coarsened(b, frame0[:, None], 64)[:, 0], None, b.sizes.frames, t0=b.start)
    rows.append(row(b.name, "pseudo-spectral, from 256²", 64, window_error(run, truth, first), None, None))
    store("coarse-2d-reduced", rows)

    fv32, fv64, fv128, ps64 = (r.error for r in rows)
    assert fv32 > fv64 > fv128 > 0, "errors must fall with resolution"
    assert ps64 < fv64, "on smooth flow the spectral solver must beat finite volumes of the same size"
    energy = np.stack([kinetic_energy(truth[:, frame]) for frame in range(0, 401, 50)])
    assert (np.diff(energy, axis=0) < 0).all(), "an unforced flow must lose energy"
    worst = max(np.abs(divergence(frame, b.grid(64))).max() for frame in truth[:, -1])
    assert worst < 1e-3, f"the coarsened flow must stay free of divergence, not {worst}"
    print(f"energy lost {1 - energy[-1] / energy[0]}; largest divergence {worst:.1e}; all as it should be")


if __name__ == "__main__":
    main()
