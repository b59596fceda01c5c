"""`sino generate`: say what it costs, and make the shards that are missing."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sino.benchmarks import Benchmark
from sino.cli.plan import Plan, check_space, make_plan
from sino.cli.progress import duration, progress, size
from sino.cli.start import start_jax
from sino.cli.verbs import Generate
from sino.core.errors import UserError
from sino.core.files import named_leaves
from sino.core.provenance import provenance
from sino.data.generate import Simulator, simulator
from sino.data.store import FINE, Dataset, as_ranges, open_dataset, write_manifest
from sino.data.well import Labels, Trajectories, read_labels, read_shard, write_shard
from sino.physics.solver import clocked

SLOW = 600.0
"""Seconds of estimated work from which advice is given when there is no GPU."""


def generate(options: Generate) -> None:
    """Run `sino generate`."""
    start_jax()
    plan = make_plan(options)
    missing = missing_shards(plan)
    b, s = plan.benchmark, plan.benchmark.sizes
    print(
        f"{b.name}: {len(plan.seeds)} trajectories (seeds {as_ranges(plan.seeds)}), grid {s.fine} to "
        f"{', '.join(str(n) for n in plan.coarse)}, frames 0..{s.frames}, {b.precision}"
    )
    check_space(plan, len(missing))
    if missing:
        print_estimate(plan, len(missing))
    if options.dry_run:
        print("dry run: nothing was written")
        return
    dataset = make_dataset(plan, missing)
    if not missing:
        print(f"nothing to simulate: {plan.out} holds them all, and their checksums are right")
        return
    for seed, reason in dataset.excluded.items():
        print(f"excluded seed {seed}: {reason}")
    speed = max(shard["max_speed"] for shard in dataset.manifest["shards"])
    courant = speed * plan.configuration["dt"] * s.fine / b.length
    print(f"largest |u| {speed:.3g}, at a Courant number of {courant:.2g}")
    print(f"wrote {plan.out} ({len(dataset.seeds)} trajectories)")


def missing_shards(plan: Plan) -> list[range]:
    """Batches that are not stored yet, or not with every wanted seed. Those that are stored are verified."""
    missing = []
    for batch in plan.shards:
        files = plan.files(batch)
        wanted = set(batch) & set(plan.seeds)
        if not all(file.is_file() for file in files):
            missing.append(batch)
            continue
        labels = [read_labels(file) for file in files]
        if all(wanted <= _settled(label) for label in labels):
            for file in files:
                read_shard(file)
        else:
            missing.append(batch)
    return missing


def make_dataset(plan: Plan, missing: list[range]) -> Dataset:
    """Make the missing shards, then the manifest."""
    b = plan.benchmark
    substeps = b.substeps(b.sizes.fine)
    steps = b.warmup_steps + b.sizes.frames * substeps
    simulate = simulator(
        b.solver(b.sizes.fine),
        warmup_steps=b.warmup_steps,
        frames=b.sizes.frames,
        substeps=substeps,
        observe=observer(b, plan.coarse, fine=bool(plan.keep_fine)),
    )
    # A manifest must never name a shard that is about to be replaced: without it, the folder counts as unfinished.
    if any(file.is_file() for batch in missing for file in plan.files(batch)):
        (plan.out / "manifest.json").unlink(missing_ok=True)
    # A shard is stored while the next one is simulated: hashing and writing gigabytes takes as long as a GPU needs.
    with progress(b.name, steps * len(missing), "steps") as report, ThreadPoolExecutor(1) as pool:
        storing = None
        for done, batch in enumerate(missing):
            arrays = _simulate(simulate, plan, batch, lambda step, done=done: report(done * steps + step))
            if storing is not None:
                storing.result()  # what went wrong is raised here; and at most one shard waits in memory
            storing = pool.submit(_store, plan, batch, arrays)
        if storing is not None:
            storing.result()
    _index(plan)
    return open_dataset(plan.out)


def _index(plan: Plan) -> None:
    """Write the manifest of all shards in the folder."""
    entries, excluded = [], []
    for file in sorted(plan.out.glob("*/seed-*.h5")):
        labels = read_labels(file)
        resolution = file.parent.name
        entry = {"file": f"{resolution}/{file.name}", "resolution": resolution}
        entries.append(entry | {key: labels[key] for key in ("seeds", "sha256", "max_speed", "provenance")})
        excluded += [item for item in labels["excluded"] if item not in excluded]
    write_manifest(plan.out, plan.configuration, entries, excluded)


def observer(b: Benchmark, coarse: tuple[int, ...], fine: bool = False) -> Callable[[jax.Array], dict[str, jax.Array]]:
    """What is kept of a fine state: its coarsened forms, whether it is finite, and its largest value."""

    def observe(u):
        seen = {str(n): b.coarsen(u, (n,) * b.dim).astype(jnp.float32) for n in coarse}
        seen |= {"finite": jnp.isfinite(u).all(), "speed": jnp.abs(u).max()}
        return seen | ({FINE: u.astype(jnp.float32)} if fine else {})

    return observe


def print_estimate(plan: Plan, shards: int) -> None:
    """Time a few steps on this machine and say what the whole will cost."""
    b, s = plan.benchmark, plan.benchmark.sizes
    seconds = _seconds_per_step(plan) * (b.warmup_steps + s.frames * b.substeps(s.fine)) * shards
    state = len(b.offsets) * s.fine**b.dim * np.dtype(b.precision).itemsize
    memory = s.shard * (5 * plan.bytes_per_trajectory + 16 * state)  # one shard is simulated, one stored
    device = jax.devices()[0]
    print(
        f"estimate: {duration(seconds)} on {device.device_kind} for {shards} shards of {s.shard} trajectories; "
        f"{size(plan.bytes_per_trajectory * s.shard * shards)} on disk, {size(memory)} of memory"
    )
    if seconds > SLOW and device.platform == "cpu":
        print("there is no GPU here: `--preset small` takes minutes on a CPU, `--trajectories` makes fewer")


def _seconds_per_step(plan: Plan) -> float:
    b = plan.benchmark
    batch = plan.shards[0]
    u, forcing = jnp.asarray(b.initial_states(batch)), b.forcings(batch)
    solver = b.solver(b.sizes.fine)
    step = jax.jit(jax.vmap(lambda u, f: clocked(solver, f, t0=0.0)(u, 0)))
    u = jax.block_until_ready(step(u, forcing))
    started = time.perf_counter()
    for _ in range(5):
        u = step(u, forcing)
    jax.block_until_ready(u)
    return (time.perf_counter() - started) / 5


def _simulate(simulate: Simulator, plan: Plan, batch: range, report: Callable[[int], None]) -> dict[str, np.ndarray]:
    """What was observed of one batch, by name: arrays `(trajectory, frame, ...)`."""
    b = plan.benchmark
    blocks: dict[str, list[np.ndarray]] = {}
    for block in simulate(b.initial_states(batch), b.forcings(batch)):
        for name, array in block.observed.items():
            if name == FINE:
                chosen = [f - block.first_frame for f in plan.keep_fine]
                array = array[:, [f for f in chosen if 0 <= f < array.shape[1]]]
            blocks.setdefault(name, []).append(array)
        report(block.steps)
    return {name: np.concatenate(blocks.pop(name), axis=1) for name in list(blocks)}


def _store(plan: Plan, batch: range, arrays: dict[str, np.ndarray]) -> None:
    """Store, per resolution, the wanted trajectories of a batch that stayed finite."""
    b = plan.benchmark
    forcing = b.forcings(batch)
    wanted = _wanted(plan, batch)
    excluded = tuple(_exclusions(arrays["finite"], batch, wanted))
    left_out = {item["seed"] for item in excluded}
    rows = [row for row, seed in enumerate(batch) if seed in wanted and seed not in left_out]
    frame_times = b.start + b.frame * np.arange(b.sizes.frames + 1)
    for resolution, path in zip(plan.resolutions, plan.files(batch), strict=True):
        data = Trajectories(
            frames=arrays[resolution][rows],
            seeds=tuple(batch[row] for row in rows),
            times=frame_times[list(plan.keep_fine)] if resolution == FINE else frame_times,
            forcing={name: np.asarray(leaf)[rows] for name, leaf in named_leaves(forcing).items()},
        )
        labels = Labels(
            benchmark=b.name,
            length=b.length,
            offsets=b.offsets,
            parameters=dict(b.parameters),
            configuration=plan.configuration,
            provenance=provenance(),
            excluded=excluded,
            max_speed=float(arrays["speed"][rows].max(initial=0.0)),
        )
        try:
            write_shard(path, data, labels)
        except OSError as error:
            reason = error.strerror or str(error).splitlines()[0]
            raise UserError(
                f"cannot write {path} ({reason}); finished shards are kept, the same command goes on"
            ) from error


def _wanted(plan: Plan, batch: range) -> set[int]:
    """Seeds of a batch that were asked for, now or when its shard was first made."""
    wanted = set(batch) & set(plan.seeds)
    for file in plan.files(batch):
        if file.is_file():
            wanted |= _settled(read_labels(file))
    return wanted


def _settled(labels: dict[str, Any]) -> set[int]:
    return set(labels["seeds"]) | {item["seed"] for item in labels["excluded"]}


def _exclusions(finite: np.ndarray, batch: range, wanted: set[int]) -> list[dict[str, Any]]:
    excluded = []
    for row, seed in enumerate(batch):
        if seed in wanted and not finite[row].all():
            frame = int(np.argmin(finite[row]))
            where = "during the warm-up" if frame == 0 else f"at frame {frame}"
            excluded.append({"seed": seed, "reason": f"not finite {where}"})
    return excluded
