"""Checkpoints: a folder with arrays by name and a manifest with their hash, whole or not there.

    last/arrays.safetensors     the leaves of a pytree, by path
    last/manifest.json          format_version, SHA-256 of the arrays, and facts such as the update

Nothing in a checkpoint is ever executed: both files hold plain data, and both are checked before they are used.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from sino.core.errors import UserError
from sino.core.files import arrange, flush, hash_arrays, named_leaves, read_arrays, save_arrays, write_json

FORMAT_VERSION = 1


def save(folder: Path, tree: Any, facts: dict[str, Any], keep: Path | None = None) -> None:
    """Write a checkpoint under a temporary name, then rename it; the one that was there moves to `keep`, if given.

    At every moment the folder or the kept one is whole, whenever the process is killed.
    """
    new, old = folder.with_name(f".{folder.name}.tmp"), folder.with_name(f".{folder.name}.old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir(parents=True)
    save_arrays(new / "arrays.safetensors", tree)
    write_json(new / "manifest.json", {"format_version": FORMAT_VERSION, **_hashes(tree, facts), **facts})
    if folder.exists():
        if keep is not None and keep.exists():
            keep.rename(old)
        folder.rename(old if keep is None else keep)
    os.replace(new, folder)
    flush(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def load(folder: Path, like: Any) -> Any:
    """Read the pytree of a checkpoint, of the structure of `like`, and check it against the hash in the manifest."""
    return arrange(folder / "arrays.safetensors", verify(folder), like)


def verify(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, by name; raise, naming it, if they are not what was written."""
    arrays = read_arrays(folder / "arrays.safetensors")
    if hash_arrays(arrays) != read_facts(folder)["sha256"]:
        raise UserError(f"{folder} is damaged: its arrays are not the ones that were written")
    return arrays


def read_facts(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint."""
    facts = read_json(folder / "manifest.json", FORMAT_VERSION)
    if not isinstance(facts.get("sha256"), str):
        raise UserError(f"{folder / 'manifest.json'} is damaged: it holds no hash")
    if facts.get("facts_sha256") != _facts_digest(facts):
        raise UserError(f"{folder / 'manifest.json'} is damaged: its content is not what was written")
    return facts


def read_json(path: Path, format_version: int) -> dict[str, Any]:
    """A JSON object that carries a format version; whatever is wrong with it becomes one sentence that names it."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}: {str(error)[:80]})") from error
    found = value.get("format_version") if isinstance(value, dict) else None
    if not isinstance(found, int):
        raise UserError(f"{path} is damaged: it names no format")
    if found > format_version:
        raise UserError(f"{path} has format {found}; this sino reads up to {format_version}")
    return value


def _hashes(tree: Any, facts: dict[str, Any]) -> dict[str, str]:
    return {"sha256": _digest(tree), "facts_sha256": _facts_digest(facts)}


def _facts_digest(facts: dict[str, Any]) -> str:
    others = {key: value for key, value in facts.items() if key not in ("format_version", "sha256", "facts_sha256")}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def _digest(tree: Any) -> str:
    return hash_arrays({name: np.asarray(leaf) for name, leaf in named_leaves(tree).items()})
