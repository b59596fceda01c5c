"""Files that are either whole or not there: JSON, arrays by name, and hashes of what is in them."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from sino.core.errors import UserError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to disk, then rename it into place.

    A reader sees the old file or the new one, never a part; a kill leaves at most a temporary file
    (`.<name>.tmp`), which the next write of the same name replaces.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text))


def hash_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of named arrays: names, dtypes, shapes and values, whatever their order or memory layout."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.data)
    return digest.hexdigest()


def flush(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_arrays(path: Path, tree: Any) -> None:
    """Write the array leaves of a pytree as safetensors, atomically, each named by its path in the tree."""
    # safetensors 0.8 writes arrays that are not C-contiguous wrongly, and says nothing.
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in named_leaves(tree).items()}
    write_atomically(path, lambda temporary: temporary.write_bytes(safetensors.numpy.save(arrays)))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a safetensors file, by name."""
    try:
        return safetensors.numpy.load(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a whole safetensors file ({error})") from error


def load_arrays(path: Path, like: Any) -> Any:
    """Read a pytree of the structure of `like`. Names, shapes and dtypes must agree; the difference is told."""
    return arrange(path, read_arrays(path), like)


def arrange(path: Path, stored: Mapping[str, np.ndarray], like: Any) -> Any:
    """The arrays that were read from `path` as a pytree of the structure of `like`."""
    expected = named_leaves(like)
    if stored.keys() != expected.keys():
        missing, unknown = sorted(expected.keys() - stored.keys()), sorted(stored.keys() - expected.keys())
        raise UserError(f"{path} holds other arrays: missing {missing[:3]}, unknown {unknown[:3]}")
    for name, leaf in expected.items():
        found = stored[name]
        if (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            raise UserError(
                f"{path}: {name} is {found.dtype}{list(found.shape)}, not {leaf.dtype}{list(leaf.shape)} as expected"
            )
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(stored[name]) for name in expected])


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by a readable path, such as `blocks.0.fuse.weight`, in the order of the tree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
