"""The twelve benchmarks. Every number of the paper that defines them lives here, and nowhere else."""

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from sino.core.errors import UserError
from sino.core.grid import Grid
from sino.data import coarsen
from sino.physics import initial
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.burgers_spectral import SpectralBurgers
from sino.physics.forcing import KolmogorovForcing, LinearDrag, Sum, TaylorGreenForcing
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import AbstractSolver, Source, State
from sino.physics.staggered import U_OFFSET, V_OFFSET
from sino.physics.vorticity import SpectralNavierStokes

Preset = Literal["paper", "small", "tiny"]
Scheme = Literal["paper", "strong", "weno"]


@dataclass(frozen=True)
class Sizes:
    """How large a benchmark is: grids, recording, and which seeds serve for what."""

    fine: int
    coarse: int
    frames: int = 1000
    """Frames after frame 0."""
    train_frames: int = 300
    warmup: float = 0.0
    """Time simulated before frame 0."""
    train: range = range(0, 64)
    validation: range = range(64, 80)
    test: range = range(80, 112)
    shard: int = 16
    """Trajectories that are simulated as one batch and stored as one file."""

    @property
    def trajectories(self) -> int:
        """Number of seeds, from 0, that all splits need."""
        return self.test.stop


@dataclass(frozen=True)
class Benchmark:
    """A flow, its fine and coarse solver, its random draws and its sizes. Immutable; `replace` makes variants."""

    name: str
    equation: str
    scheme: str
    forcing_text: str
    dim: int
    length: float
    frame: float
    """Time between frames."""
    build: Callable[[Grid, float], AbstractSolver]
    """A solver for a grid and a time step."""
    largest_step: Callable[[Grid], float]
    """The time step that stability allows on a grid."""
    sample: Callable[[int, Grid], np.ndarray]
    """The initial state of a seed."""
    force: Callable[[int], Source | None]
    """The forcing of a seed."""
    coarsen: Callable[[State, tuple[int, ...]], State]
    """The map from the fine grid to a coarse one."""
    offsets: tuple[tuple[float, ...], ...]
    """Where each component lives within its cell, in units of the cell."""
    sizes: Sizes
    small: Sizes
    tiny: Sizes
    precision: Literal["float32", "float64"]
    """In which the fine solution is computed; it is stored in float32."""
    parameters: tuple[tuple[str, float], ...]
    """The physical numbers, for the record; `speed_bound` is the one from which the time steps follow."""
    paper_errors: Mapping[int, float]
    """The paper's error of the uncorrected solver, by cells per axis."""
    stronger: Mapping[str, Any] = field(default_factory=dict)
    """What to replace for a better classical scheme on the coarse grid."""
    shock_capturing: Mapping[str, Any] = field(default_factory=dict)
    """What to replace for a shock-capturing scheme there; empty if the scheme is one, or if there are no shocks."""
    weight_decay: float = 0.0
    """Of the paper's trainings."""

    def grid(self, n: int) -> Grid:
        """The box with `n` cells along each axis."""
        return Grid((n,) * self.dim, (self.length,) * self.dim)

    def substeps(self, n: int) -> int:
        """Steps per frame on `n` cells: the fewest that stability allows."""
        return max(1, math.ceil(self.frame / self.largest_step(self.grid(n)) - 1e-9))

    def solver(self, n: int) -> AbstractSolver:
        """The solver on `n` cells, with `substeps(n)` steps per frame."""
        return self.build(self.grid(n), self.frame / self.substeps(n))

    @property
    def warmup_steps(self) -> int:
        """Steps of the fine solver before frame 0."""
        return round(self.sizes.warmup * self.substeps(self.sizes.fine) / self.frame)

    @property
    def start(self) -> float:
        """Time of frame 0. Time-dependent forcing runs on through the warm-up."""
        return self.warmup_steps * self.frame / self.substeps(self.sizes.fine)

    def initial_states(self, seeds: range | list[int]) -> np.ndarray:
        """Initial states on the fine grid, `(b, c, *n)`, in the working precision."""
        grid = self.grid(self.sizes.fine)
        return np.stack([self.sample(seed, grid) for seed in seeds]).astype(self.precision)

    def forcings(self, seeds: range | list[int]) -> Source | None:
        """The forcings of several seeds, stacked along a leading axis of every leaf."""
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(self.force(seed) for seed in seeds))

    def preset(self, name: Preset) -> "Benchmark":
        """The same flow at other sizes: `paper` (as published), `small` (minutes on a CPU) or `tiny` (seconds)."""
        return replace(self, sizes={"paper": self.sizes, "small": self.small, "tiny": self.tiny}[name])

    def scheme_variant(self, scheme: Scheme) -> "Benchmark":
        """With the paper's coarse scheme, or with a `strong` one of the same cost or little more: products dealiased by
        padding instead of truncation, forcing averaged over cells, or pseudo-spectral instead of finite volumes; or
        with `weno`, finite volumes where the paper's scheme is spectral and the flow has shocks: the values at the
        points are taken as averages over cells. The reference solution stays the paper's."""
        if scheme == "weno" and not self.shock_capturing:
            raise UserError(f"the scheme 'weno' is for decaying Burgers, not for {self.name}")
        return replace(self, **{"paper": {}, "strong": self.stronger, "weno": self.shock_capturing}[scheme])

    def describe(self) -> dict[str, Any]:
        """What determines a fine trajectory, as plain values."""
        fine = self.sizes.fine
        return {
            "benchmark": self.name,
            "scheme": self.scheme,
            "length": self.length,
            "fine": fine,
            "dt": self.frame / self.substeps(fine),
            "substeps": self.substeps(fine),
            "frame": self.frame,
            "warmup_steps": self.warmup_steps,
            "precision": self.precision,
            "parameters": dict(self.parameters),
        }


def benchmark(name: str, preset: Preset = "paper") -> Benchmark:
    """The benchmark called `name`, at the sizes of a preset."""
    if name not in BENCHMARKS:
        near = difflib.get_close_matches(name, BENCHMARKS, n=1, cutoff=0.0)[0]
        raise UserError(f"there is no benchmark {name!r}; did you mean {near!r}? `sino list` shows all twelve")
    return BENCHMARKS[name].preset(preset)


def _no_forcing(seed: int) -> None:
    return None


def _diffusive_step(grid: Grid, viscosity: float, speed: float, safety: float = 0.4) -> float:
    """The explicit limit `0.4 min(dx/max|u|, dx^2/(2 viscosity))`."""
    (dx,) = grid.dx
    return safety * min(dx / speed, dx**2 / (2 * viscosity))


SMALL_SPLITS: dict[str, Any] = {"train": range(0, 16), "validation": range(16, 20), "test": range(20, 28), "shard": 4}
TINY_SPLITS: dict[str, Any] = {"train": range(0, 4), "validation": range(4, 6), "test": range(6, 8), "shard": 2}


def _burgers_forced(name: str, coarse: int, paper: float) -> Benchmark:
    viscosity, speed, warmup = 0.01, 1.96, 2.0
    return Benchmark(
        name=name,
        equation="u_t + (u^2/2)_x = 0.01 u_xx + f(x,t)",
        scheme="finite volume, WENO5, Godunov, SSP-RK3",
        forcing_text="20 travelling waves, l = 3..6",
        dim=1,
        length=2 * math.pi,
        frame=0.01,
        build=partial(FiniteVolumeBurgers, viscosity=viscosity),
        largest_step=partial(_diffusive_step, viscosity=viscosity, speed=speed),
        sample=initial.zero,
        force=partial(initial.sine_forcing, length=2 * math.pi),
        coarsen=coarsen.cell_average,
        offsets=((0.5,),),
        sizes=Sizes(512, coarse, warmup=warmup),
        small=Sizes(512, coarse, warmup=warmup, **SMALL_SPLITS),
        tiny=Sizes(128, 32, frames=20, train_frames=10, warmup=0.1, **TINY_SPLITS),
        precision="float64",
        parameters=(("viscosity", viscosity), ("speed_bound", speed)),
        paper_errors={coarse: paper},
        stronger={"force": partial(initial.sine_forcing, length=2 * math.pi, cell_average=True)},
    )


def _burgers_decaying(name: str, coarse: int, paper: float) -> Benchmark:
    viscosity, speed = 5e-4, 5.0
    return Benchmark(
        name=name,
        equation="u_t + (u^2/2)_x = 5e-4 u_xx",
        scheme="pseudo-spectral, 2/3 rule, TVD-RK3",
        forcing_text="none",
        dim=1,
        length=2 * math.pi,
        frame=1e-4,
        build=partial(SpectralBurgers, viscosity=viscosity),
        largest_step=partial(_diffusive_step, viscosity=viscosity, speed=speed),
        sample=initial.random_phases,
        force=_no_forcing,
        coarsen=coarsen.spectral_truncation,
        offsets=((0.0,),),
        sizes=Sizes(2048, coarse),
        small=Sizes(2048, coarse, **SMALL_SPLITS),
        tiny=Sizes(256, 64, frames=20, train_frames=10, **TINY_SPLITS),
        precision="float64",
        parameters=(("viscosity", viscosity), ("speed_bound", speed)),
        paper_errors={coarse: paper},
        stronger={"build": partial(SpectralBurgers, viscosity=viscosity, dealias="padded")},
        shock_capturing={"build": partial(FiniteVolumeBurgers, viscosity=viscosity)},
        weight_decay=1e-3,
    )


def _kuramoto_sivashinsky(name: str, coarse: int, paper: float) -> Benchmark:
    return Benchmark(
        name=name,
        equation="u_t + u u_x + u_xx + u_xxxx = 0",
        scheme="pseudo-spectral, 2/3 rule, ETDRK4",
        forcing_text="none",
        dim=1,
        length=64.0,
        frame=0.01,
        build=KuramotoSivashinsky,
        largest_step=lambda grid: 0.01,
        sample=initial.sine_modes,
        force=_no_forcing,
        coarsen=coarsen.spectral_truncation,
        offsets=((0.0,),),
        sizes=Sizes(256, coarse, warmup=50.0),
        small=Sizes(256, coarse, warmup=50.0, **SMALL_SPLITS),
        tiny=Sizes(64, 32, frames=20, train_frames=10, warmup=0.5, **TINY_SPLITS),
        precision="float64",
        parameters=(),
        paper_errors={coarse: paper},
        stronger={"build": partial(KuramotoSivashinsky, dealias="padded")},
    )


def _courant_step(grid: Grid, speed: float) -> float:
    """`dx / (2 max|v|)`."""
    return 0.5 * min(grid.dx) / speed


def _vortex_forcing(seed: int, kind: type, wavenumber: float, drag: float) -> Source:
    """A steady forcing of unit amplitude, the same for every seed, and linear drag."""
    wave = kind(np.array(1.0), np.array(wavenumber), length=2 * math.pi)
    return Sum((wave, LinearDrag(np.array(drag))))


def _navier_stokes(
    name: str,
    viscosity: float,
    paper: Mapping[int, float],
    *,
    force: Callable[[int], Source | None],
    forcing_text: str,
    speed: float = 7.0,
    warmup: float = 40.0,
) -> Benchmark:
    frame = _courant_step(Grid((64, 64), (2 * math.pi,) * 2), speed)
    return Benchmark(
        name=name,
        equation=f"v_t + v.grad v = -grad p + {viscosity:g} Lap v + f",
        scheme="staggered finite volume, van Leer, implicit diffusion",
        forcing_text=forcing_text,
        dim=2,
        length=2 * math.pi,
        frame=frame,
        build=partial(FiniteVolumeNavierStokes, viscosity=viscosity),
        largest_step=partial(_courant_step, speed=speed),
        sample=partial(initial.filtered_velocity, max_speed=speed),
        force=force,
        coarsen=coarsen.face_average,
        offsets=(U_OFFSET, V_OFFSET),
        sizes=Sizes(512, 64, warmup=warmup),
        small=Sizes(128, 32, frames=200, train_frames=100, warmup=warmup, **SMALL_SPLITS),
        tiny=Sizes(32, 16, frames=20, train_frames=10, warmup=0.1, **TINY_SPLITS),
        precision="float32",
        parameters=(("viscosity", viscosity), ("speed_bound", speed)),
        paper_errors=paper,
        stronger={"build": partial(SpectralNavierStokes, viscosity=viscosity)},
    )


_kolmogorov = partial(_vortex_forcing, kind=KolmogorovForcing, wavenumber=4.0, drag=0.1)
_taylor_green = partial(_vortex_forcing, kind=TaylorGreenForcing, wavenumber=2.0, drag=0.1)
_KOLMOGOROV = {"force": _kolmogorov, "forcing_text": "Kolmogorov, k = 4, drag 0.1"}
_TAYLOR_GREEN = {"force": _taylor_green, "forcing_text": "Taylor-Green, k = 2, drag 0.1"}
_DECAYING = {"force": _no_forcing, "forcing_text": "none", "speed": 4.2, "warmup": 4.5}

BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        _burgers_forced("burgers-forced", coarse=32, paper=2.23e-1),
        _burgers_decaying("burgers-decaying", coarse=256, paper=1.65e-1),
        _kuramoto_sivashinsky("ks", coarse=64, paper=5.46e-3),
        _navier_stokes("ns-forced-re1000", 1e-3, {64: 5.07e-1, 128: 2.58e-1, 256: 6.47e-2}, **_KOLMOGOROV),
        _navier_stokes("ns-forced-re4000", 2.5e-4, {64: 5.32e-1}, **_KOLMOGOROV),
        _navier_stokes("ns-decaying", 1e-3, {64: 4.04e-1, 128: 1.88e-1, 256: 5.64e-2}, **_DECAYING),
        _burgers_forced("burgers-forced-128", coarse=128, paper=2.65e-1),
        _burgers_decaying("burgers-decaying-128", coarse=128, paper=1.87e-1),
        _kuramoto_sivashinsky("ks-32", coarse=32, paper=1.89e1),
        _navier_stokes("ns-forced-re2000", 5e-4, {64: 5.65e-1}, **_KOLMOGOROV),
        _navier_stokes("ns-taylor-green", 1e-3, {64: 1.61e-1}, **_TAYLOR_GREEN),
        _navier_stokes("ns-forced-re1e5", 1e-5, {64: 6.45e-1}, **_KOLMOGOROV),
    )
}
"""By name: the six main benchmarks, then the six supplementary ones."""
