"""Every network trains in the loop on every kind of flow: losses fall, rollouts on unseen trajectories stay finite.

python -m validation.networks
"""

import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from sino.benchmarks import Benchmark, benchmark
from sino.cli.start import start_jax
from sino.core.files import write_json
from sino.core.provenance import git_commit, provenance
from sino.coupling.hybrid import rollout
from sino.data.generate import simulator
from sino.models import MODELS, build_model
from sino.train.curriculum import OURS, Stage
from sino.train.loop import fit
from validation.record import RESULTS

FLOWS = ("burgers-forced", "burgers-decaying", "ns-decaying", "ns-forced-re1000", "ns-taylor-green")
FRAMES = 20
BRIEF = replace(OURS, stages=(Stage(4, 30),), batch=4, passes=2, noise=0.0, learning_rate=2e-3, optimiser="adam")
"""So few updates that SOAP would not pay."""


def trajectories(b: Benchmark) -> np.ndarray:
    """Coarsened frames of the preset's training and test seeds, `(b, t, c, *n)`."""
    fine, n = b.sizes.fine, (b.sizes.coarse,) * b.dim
    simulate = simulator(
        b.solver(fine),
        warmup_steps=b.warmup_steps,
        frames=FRAMES,
        substeps=b.substeps(fine),
        observe=lambda u: {"coarse": b.coarsen(u, n).astype(jnp.float32)},
    )
    seeds = range(b.sizes.trajectories)
    blocks = simulate(b.initial_states(seeds), b.forcings(seeds))
    return np.concatenate([block.observed["coarse"] for block in blocks if block.observed], axis=1)


def check(b: Benchmark, name: str, frames: np.ndarray) -> dict:
    """Train one network for a moment; its loss at the beginning and at the end."""
    solver, substeps = b.solver(b.sizes.coarse), b.substeps(b.sizes.coarse)
    seeds = range(len(frames))
    forcing = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), b.forcings(seeds))
    train = b.sizes.train
    chosen = jax.tree.map(lambda leaf: leaf[: len(train)], forcing)
    losses: list[float] = []
    started = time.perf_counter()
    closure = fit(
        build_model(name, dim=b.dim, key=jax.random.PRNGKey(1)),
        solver,
        frames[: len(train)],
        BRIEF,
        t0=b.start,
        substeps=substeps,
        forcing=chosen,
        watch=lambda step: losses.append(float(step.report.loss[0])),
    )
    unseen = jax.tree.map(lambda leaf: leaf[-1], forcing)
    run = rollout(solver, closure, jnp.asarray(frames[-1, 0]), FRAMES, t0=b.start, forcing=unseen, substeps=substeps)
    first, last = float(np.mean(losses[:5])), float(np.mean(losses[-5:]))
    assert np.isfinite(run).all(), f"{name} on {b.name}: a rollout on an unseen trajectory is not finite"
    assert last < first, f"{name} on {b.name}: the loss rose from {first} to {last}"
    seconds = time.perf_counter() - started
    print(f"{b.name:18s} {name:12s} loss {first:8.3f} to {last:8.3f}  ({seconds:.0f} s)", flush=True)
    return {"benchmark": b.name, "model": name, "first": first, "last": last, "seconds": seconds}


def main() -> None:
    """All networks on all flows, at the sizes of the tiny preset."""
    start_jax()
    rows = []
    for flow in FLOWS:
        b = benchmark(flow, "tiny")
        frames = trajectories(b)
        rows += [check(b, name, frames) for name in MODELS]
    write_json(RESULTS / "networks.json", {"rows": rows, "provenance": provenance() | {"git_commit": git_commit()}})
    print(f"all {len(MODELS)} networks train on {len(FLOWS)} flows")


if __name__ == "__main__":
    main()
