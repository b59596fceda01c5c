"""TOML files whose keys are options of a command, and options as the words of a command line."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from sino.core.errors import UserError


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says; what is wrong with it becomes one sentence."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from error


def words_of(field: dataclasses.Field, value: Any) -> list[str]:
    """A key of a file as it would be written on the command line, so that both are checked alike."""
    flag = "--" + field.name.replace("_", "-")
    if isinstance(field.default, bool) and isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [flag, *_flat(value)]


def _flat(value: Any) -> list[str]:
    items = [x for pair in value.items() for x in pair] if isinstance(value, dict) else value
    return [word for item in items for word in _flat(item)] if isinstance(items, list) else [str(items)]
