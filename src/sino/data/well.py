"""One shard: an HDF5 file of trajectories in the layout of The Well, written whole and read with its hash checked.

The layout (PolymathicAI/the_well, data_format.md) stores arrays `(trajectory, time, x[, y][, component])` in float32
with flags that say what each varies with. Added to it: each component's `offset` within its cell, absolute times, the
seed and the forcing parameters of every trajectory, the configuration, and the SHA-256 of all arrays.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float

from sino.core.errors import UserError
from sino.core.files import hash_arrays, write_atomically

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Trajectories:
    """Trajectories on one grid, in memory."""

    frames: Float[np.ndarray, "b t c *n"]
    seeds: tuple[int, ...]
    times: Float[np.ndarray, " t"]
    """Absolute time of each frame: the forcing clock."""
    forcing: Mapping[str, np.ndarray]
    """Forcing parameters by name, with a leading trajectory axis."""


@dataclass(frozen=True)
class Labels:
    """What a shard says of itself besides its arrays."""

    benchmark: str
    length: float
    offsets: tuple[tuple[float, ...], ...]
    """Where each component lives within its cell, in units of the cell."""
    parameters: Mapping[str, float]
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]
    excluded: tuple[Mapping[str, Any], ...] = ()
    """Trajectories of this shard that were left out: their `seed` and the `reason`."""
    max_speed: float = 0.0
    """Largest `|u|` on the fine grid, over all frames."""


def write_shard(path: Path, data: Trajectories, labels: Labels) -> str:
    """Write one shard atomically; return the SHA-256 of its arrays."""
    arrays = _to_disk(data, labels)
    digest = hash_arrays(arrays)
    image = io.BytesIO()  # HDF5 crashes the process when a disk fills up; writing bytes only raises
    with h5py.File(image, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
        _annotate(file, data, labels)
        file.attrs["content_sha256"] = digest
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: temporary.write_bytes(image.getbuffer()))
    return digest


def read_shard(path: Path, sha256: str | None = None) -> Trajectories:
    """Read one shard, checking its arrays against `sha256`, or else against the hash that it carries."""
    arrays: dict[str, np.ndarray] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with _opened(path) as file:
        file.visititems(collect)
        carried = file.attrs.get("content_sha256")
    if hash_arrays(arrays) != (sha256 or carried):
        raise UserError(f"shard {path} is not what was written: its checksum differs; {_REMEDY}")
    field = arrays["t0_fields/u"][..., None] if "t0_fields/u" in arrays else arrays["t1_fields/velocity"]
    return Trajectories(
        frames=np.ascontiguousarray(np.moveaxis(field, -1, 2)),
        seeds=tuple(int(seed) for seed in arrays["scalars/seed"]),
        times=arrays["dimensions/time"],
        forcing={name.removeprefix("forcing/"): a for name, a in arrays.items() if name.startswith("forcing/")},
    )


def read_labels(path: Path) -> dict[str, Any]:
    """What a shard says of itself, without reading its trajectories."""
    with _opened(path) as file:
        return {
            "configuration": json.loads(str(file.attrs["configuration"])),
            "provenance": json.loads(str(file.attrs["provenance"])),
            "excluded": json.loads(str(file.attrs["excluded"])),
            "seeds": np.asarray(file["scalars/seed"]).tolist(),
            "sha256": str(file.attrs["content_sha256"]),
            "max_speed": float(str(file.attrs["max_speed"])),
        }


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading; whatever is wrong with it becomes one sentence that names it."""
    if not path.is_file():
        raise UserError(f"shard {path} is missing; run `sino generate` again to make it")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"shard {path} cannot be read ({reason}); {_REMEDY}") from error


_REMEDY = "delete it and run `sino generate` again"


def _axes(data: Trajectories) -> list[tuple[str, int]]:
    """Names and sizes of the spatial axes."""
    return list(zip("xyz", data.frames.shape[3:], strict=False))


def _to_disk(data: Trajectories, labels: Labels) -> dict[str, np.ndarray]:
    """Every array of the file, by its path in it."""
    components_last = np.moveaxis(data.frames, 2, -1)
    scalar = data.frames.shape[2] == 1
    arrays = {
        "t0_fields/u" if scalar else "t1_fields/velocity": components_last[..., 0] if scalar else components_last,
        "scalars/seed": np.array(data.seeds, np.int64),
        "dimensions/time": np.asarray(data.times, np.float64),
    }
    for name, n in _axes(data):
        arrays[f"dimensions/{name}"] = np.arange(n) * labels.length / n
        arrays[f"boundary_conditions/{name}_periodic/mask"] = np.isin(np.arange(n), (0, n - 1))
    arrays |= {f"forcing/{name}": np.asarray(array) for name, array in data.forcing.items()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _annotate(file: h5py.File, data: Trajectories, labels: Labels) -> None:
    """The attributes that The Well's readers expect, and ours."""
    axes = _axes(data)
    file.attrs.update(
        dataset_name=labels.benchmark,
        grid_type="cartesian",
        n_spatial_dims=len(axes),
        n_trajectories=len(data.seeds),
        simulation_parameters=list(labels.parameters),
        format_version=FORMAT_VERSION,
        configuration=json.dumps(labels.configuration, sort_keys=True),
        provenance=json.dumps(labels.provenance, sort_keys=True),
        excluded=json.dumps(labels.excluded),
        max_speed=labels.max_speed,
        **labels.parameters,
    )
    file["dimensions"].attrs["spatial_dims"] = [name for name, _ in axes]
    file["dimensions/time"].attrs.update(sample_varying=False)
    for name, _ in axes:
        file[f"dimensions/{name}"].attrs.update(sample_varying=False, time_varying=False)
        file[f"boundary_conditions/{name}_periodic"].attrs.update(
            bc_type="PERIODIC", associated_dims=[name], associated_fields=[], sample_varying=False, time_varying=False
        )
    file["scalars"].attrs["field_names"] = ["seed"]
    file["scalars/seed"].attrs.update(sample_varying=True, time_varying=False)
    for group in ("t0_fields", "t1_fields", "t2_fields"):
        fields = file.require_group(group)
        fields.attrs["field_names"] = list(fields)
        for field in fields.values():
            field.attrs.update(dim_varying=[True] * len(axes), sample_varying=True, time_varying=True)
            field.attrs["offset"] = np.array(labels.offsets)
