"""Training in the loop at the paper's sizes: milliseconds per solver step, forward and backward, and where they go.

python -m bench.training
"""

import time
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bench.timing import race
from sino.benchmarks import Benchmark, benchmark
from sino.cli.pages import use_large_pages
from sino.coupling.closure import Closure, Statistics
from sino.data.windows import Batch
from sino.models import AbstractModel, build_model
from sino.train.curriculum import Recipe, Stage
from sino.train.loss import Reference, gather, rollout_errors, summed_loss
from sino.train.memory import plan_memory
from sino.train.update import Turn, initial_state, make_update

BATCH = 8


def reference(b: Benchmark, frames: int) -> Reference:
    """Smooth random states, repeated in time: the cost of a step does not depend on what is in it."""
    n = b.sizes.coarse
    noise = jax.random.normal(jax.random.PRNGKey(0), (BATCH, len(b.offsets), *b.grid(n).n), jnp.float32)
    smooth = noise
    for axis in range(2, noise.ndim):
        smooth = jnp.mean(jnp.stack([jnp.roll(smooth, shift, axis) for shift in range(-4, 5)]), axis=0)
    states = jax.vmap(b.solver(n).constrain)(smooth)
    forcing = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), b.forcings(range(BATCH)))
    return Reference(jnp.repeat(states[:, None], frames + 1, axis=1), forcing, b.start, b.substeps(n))


def unit_statistics(channels: int) -> Statistics:
    """Statistics that change nothing: a cost does not depend on them."""
    one = jnp.ones((), jnp.float32)
    return Statistics(jnp.zeros(channels, jnp.float32), one, one)


def rollout_loss(b: Benchmark, frames: int) -> Callable[[AbstractModel], Array]:
    """The loss of a network in a rollout of so many frames."""
    solver, data = b.solver(b.sizes.coarse), reference(b, frames)
    rows = jnp.arange(BATCH, dtype=jnp.int32)
    segments = gather(data, rows, 0 * rows, frames)

    def loss(model: AbstractModel) -> Array:
        errors = rollout_errors(solver, Closure(model, unit_statistics(len(b.offsets))), segments)
        return summed_loss(errors, jnp.ones(BATCH, errors.dtype), frames, "mse")

    return loss


def first_call(run: Callable[[], object]) -> float:
    """Seconds of the first call: compilation."""
    started = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - started


def measure(name: str, frames: int, rounds: int) -> None:
    """Print the account of one benchmark."""
    b = benchmark(name)
    solver, data = b.solver(b.sizes.coarse), reference(b, frames)
    stats = unit_statistics(len(b.offsets))
    recipe = Recipe((Stage(frames, 1),))
    model = build_model("sino", dim=b.dim, key=jax.random.PRNGKey(1))
    batch = Batch(np.arange(BATCH, dtype=np.int32), np.zeros(BATCH, np.int32), np.ones(BATCH, np.float32))
    segments = gather(data, jnp.arange(BATCH, dtype=jnp.int32), jnp.zeros(BATCH, jnp.int32), frames)

    def loss(model, closed: bool, u0):
        closure = Closure(model, stats) if closed else None
        errors = rollout_errors(solver, closure, replace(segments, targets=segments.targets.at[0].set(u0)))
        return summed_loss(errors, jnp.ones(BATCH, errors.dtype), frames, "mse")

    u0 = segments.targets[0]
    gradients = {
        "with closure": jax.jit(jax.grad(lambda model: loss(model, True, u0))).lower(model).compile(),
        "solver alone": jax.jit(jax.grad(lambda u0: loss(model, False, u0))).lower(u0).compile(),
    }
    contenders: dict[str, Callable[[], object]] = {
        "with closure": lambda: gradients["with closure"](model),
        "solver alone": lambda: gradients["solver alone"](u0),
    }
    compile_seconds = {}
    for seeds in (1, 3):
        update = make_update(solver, stats, data, recipe, recompute=False)
        state = [
            initial_state([build_model("sino", dim=b.dim, key=jax.random.PRNGKey(s)) for s in range(seeds)], recipe)
        ]

        def train(update=update, state=state):
            state[0], report = update(state[0], batch, Turn(frames, 1e-6, 0, False))
            return report

        compile_seconds[seeds] = first_call(train)
        contenders[f"update, {seeds} seeds"] = train
    times = {label: 1e3 * seconds / frames for label, seconds in race(contenders, rounds).items()}
    alone, closed, whole = times["solver alone"], times["with closure"], times["update, 1 seeds"]
    use = gradients["with closure"].memory_analysis()
    plan = plan_memory(solver, stats, data, recipe, model, seeds=1)
    three = times["update, 3 seeds"]
    print(
        f"{name}: {whole:.3f} ms per step of an update; solver {alone:.3f}, network {closed - alone:.3f}, "
        f"optimiser and the rest {max(whole - closed, 0):.3f} ms"
    )
    print(
        f"  {1e3 / whole:,.0f} steps/s with one seed ({BATCH * 1e3 / whole:,.0f} trajectory-steps/s), "
        f"{1e3 / three:,.0f} with three ({3 * BATCH * 1e3 / three:,.0f}: {3 * whole / three:.2f}x); "
        f"compiled in {compile_seconds[1]:.1f} s, three seeds {compile_seconds[3]:.1f} s"
    )
    peak = f"{use.temp_size_in_bytes / 2**20:,.0f} MiB" if use else "unknown"
    print(f"  {frames} frames keep {peak} of temporaries (predicted {plan.kept / 2**20:,.0f} MiB)", flush=True)


def main() -> None:
    """Print all."""
    device = jax.devices()[0]
    jax.config.update("jax_default_matmul_precision", "highest")
    gpu = device.platform == "gpu"
    print(f"training on {device.device_kind}, jax {jax.__version__}, float32, batch {BATCH}, SINO at the paper's size")
    for name, frames in (
        ("ks", 60),
        ("burgers-forced", 60),
        ("burgers-decaying", 60),
        ("ns-decaying", 60 if gpu else 5),
    ):
        measure(name, frames, rounds=5 if name.startswith("ns") and not gpu else 7)
    largest_case()


def largest_case() -> None:
    """What the paper's largest rollout takes, 300 steps in 2D with a batch of 8; measured where there is a GPU."""
    b = benchmark("ns-decaying")
    n = b.sizes.coarse
    frames = jnp.zeros((BATCH, 301, 2, n, n), jnp.float32)
    stats = unit_statistics(2)
    model = build_model("sino", dim=2, key=jax.random.PRNGKey(1))
    recipe = Recipe((Stage(10, 1), Stage(25, 1), Stage(300, 1)))
    data = Reference(frames, None, b.start)
    solver = b.solver(n)
    plan = plan_memory(solver, stats, data, recipe, model, seeds=1, budget=int(32e9))
    how = f"computed again in chunks of {recipe.chunk}" if plan.recompute else "kept"
    print(
        f"ns-decaying, 300 frames within 32 GB: steps are {how}: {plan.predicted / 1e9:.1f} GB predicted "
        f"({plan.kept / 1e9:.0f} GB if all were kept)"
    )
    device = jax.devices()[0]
    if device.platform == "gpu":
        batch = Batch(np.arange(BATCH, dtype=np.int32), np.zeros(BATCH, np.int32), np.ones(BATCH, np.float32))
        update = make_update(solver, stats, data, recipe, recompute=plan.recompute)
        jax.block_until_ready(update(initial_state([model], recipe), batch, Turn(300, 0.0, 0, False)))
        print(f"  measured: {device.memory_stats()['peak_bytes_in_use'] / 1e9:.1f} GB at the peak")


if __name__ == "__main__":
    use_large_pages()  # as `sino train` does
    main()
