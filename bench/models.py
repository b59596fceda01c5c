"""The networks: forward and forward+backward of each; SINO factorised against dense and against FNO.

python -m bench.models
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from bench.timing import race
from sino.models import MODELS, AbstractModel, build_model
from sino.models.hypernetwork import Hypernetwork

KEY = jax.random.PRNGKey(0)
GRIDS = {1: (64,), 2: (64, 64)}


def compiled(model: AbstractModel, dim: int, batch: int) -> dict[str, tuple[Callable[[], object], float]]:
    """A batch forward, and forward+backward to parameters and input; kernels are prepared once, outside.

    Each with the memory in MiB that its program needs: arguments, results and temporaries.
    """
    n = GRIDS[dim]
    x = jax.random.normal(KEY, (batch, dim, *n), jnp.float32)
    prepared = eqx.filter_jit(lambda model: model.prepare(n))(model)
    arrays, rest = eqx.partition(prepared, eqx.is_array)

    def forward(arrays, x):
        return jax.vmap(eqx.combine(arrays, rest))(x)

    def loss(arrays, x):
        return (forward(arrays, x) ** 2).sum()

    made = {}
    for name, function in (("forward", forward), ("both", jax.grad(loss, argnums=(0, 1)))):
        program = jax.jit(function).lower(arrays, x).compile()
        use = program.memory_analysis()
        total = use.argument_size_in_bytes + use.output_size_in_bytes + use.temp_size_in_bytes if use else float("nan")
        made[name] = ((lambda program=program: program(arrays, x)), total / 2**20)
    return made


def measure(label: str, model: AbstractModel, dim: int, batch: int, rounds: int) -> tuple[float, float]:
    """Print and return milliseconds of one application, forward and forward+backward."""
    programs = compiled(model, dim, batch)
    times = race({name: run for name, (run, _) in programs.items()}, rounds)
    forward, both = times["forward"] * 1e3, times["both"] * 1e3
    print(
        f"  {label:14s} forward {forward:8.3f} ms {programs['forward'][1]:7.0f} MiB   "
        f"forward+backward {both:8.3f} ms {programs['both'][1]:7.0f} MiB",
        flush=True,
    )
    return forward, both


def dead_share(dim: int, seeds: int = 100) -> float:
    """Share of bottleneck units that the plain initialisation leaves dead over the whole box."""
    nets = (Hypernetwork(dim, 8 if dim == 1 else 32, 2, 4, 1, key=jax.random.PRNGKey(seed)) for seed in range(seeds))
    return 1 - sum(net.live_units() for net in nets) / (2 * seeds)


def main() -> None:
    """Print the tables."""
    device = jax.devices()[0]
    gpu = device.platform == "gpu"
    print(f"networks on {device.device_kind}, jax {jax.__version__}, float32")
    for precision in ("highest", "default") if gpu else ("highest",):
        jax.config.update("jax_default_matmul_precision", precision)
        for dim in (1, 2):
            for batch in (8, 64) if gpu else (1,):
                note = "full float32" if precision == "highest" else "TF32 allowed"
                print(f"{dim}D, {'x'.join(map(str, GRIDS[dim]))}, batch {batch}, {note}")
                rounds = 7 if dim == 2 and not gpu else 15
                times = {
                    name: measure(name, build_model(name, dim=dim, key=KEY), dim, batch, rounds) for name in MODELS
                }
                dense = measure("sino, dense", build_model("sino", dim=dim, key=KEY, form="dense"), dim, batch, rounds)
                for label, other in (("its dense form", dense), ("fno", times["fno"])):
                    ratios = [b / a for a, b in zip(times["sino"], other, strict=True)]
                    print(f"  sino against {label}: {ratios[0]:.2f}x forward, {ratios[1]:.2f}x forward+backward")
    for dim in (1, 2):
        print(f"bottleneck units dead under the plain initialisation, {dim}D: {dead_share(dim):.0%} (ours: none)")


if __name__ == "__main__":
    main()
