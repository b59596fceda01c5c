"""The command line. Nothing here imports JAX until a command needs it, so that `--help` answers at once."""

import dataclasses
import difflib
import sys
import tomllib
from pathlib import Path
from typing import Any

from sino import __version__
from sino.cli.verbs import VERBS
from sino.core.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0, 2 for a user's mistake, 130 when interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(arguments)
    except UserError as error:
        print(f"sino: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sino: interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if arguments[0] == "--version":
        print(f"sino {__version__}")
        return 0
    name, *rest = arguments
    if name not in VERBS:
        near = difflib.get_close_matches(name, VERBS, n=1, cutoff=0.0)[0]
        raise UserError(f"there is no command {name!r}; did you mean {near!r}? `sino --help` shows all")
    import tyro

    verb = VERBS[name]
    default, rest = _read_config(verb, rest)
    command = tyro.cli(verb, prog=f"sino {name}", args=rest, default=default, description=verb.__doc__)
    return command.run() or 0


def _read_config(verb: type, arguments: list[str]) -> tuple[Any, list[str]]:
    """Take `--config FILE` out of the arguments; return the defaults that the file gives, and the rest.

    Every flag of a command is a key of its TOML file (with underscores for dashes); flags given besides win.
    """
    if "--config" not in arguments:
        return None, arguments
    at = arguments.index("--config")
    if at + 1 == len(arguments):
        raise UserError("--config needs a file")
    path = Path(arguments[at + 1])
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from error
    fields = {field.name: field for field in dataclasses.fields(verb)}
    for key in values:
        if key not in fields:
            raise UserError(f"{path} has a key {key!r} that is no option; the options are {', '.join(fields)}")
    rest = arguments[:at] + arguments[at + 2 :]
    first = next((i for i, word in enumerate(rest) if word.startswith("-")), len(rest))
    required = {name for name, field in fields.items() if _required(field)}  # these are positional
    given = {key: _positional(value) for key, value in values.items() if key in required}
    if given.keys() != required and all(word.startswith("-") for word in rest):
        raise UserError(f"{path} is incomplete: it gives no {' or '.join(required - given.keys())}")
    words = [word for key in values.keys() - required for word in _words(fields[key], values[key])]
    return verb(**given) if given.keys() == required else None, [*rest[:first], *words, *rest[first:]]


def _positional(value: Any) -> Any:
    return tuple(Path(item) for item in value) if isinstance(value, list) else str(value)


def _required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _words(field: dataclasses.Field, value: Any) -> list[str]:
    """A key of a file as it would be written on the command line, so that both are checked alike."""
    flag = "--" + field.name.replace("_", "-")
    if isinstance(field.default, bool) and isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [flag, *_flat(value)]


def _flat(value: Any) -> list[str]:
    items = [x for pair in value.items() for x in pair] if isinstance(value, dict) else value
    return [word for item in items for word in _flat(item)] if isinstance(items, list) else [str(items)]


def _overview() -> str:
    lines = [f"sino {__version__}: learned closures inside differentiable solvers", "", "commands:"]
    for name, verb in VERBS.items():
        lines.append(f"  {name:10s} {(verb.__doc__ or '').splitlines()[0]}")
    return "\n".join([*lines, "", "`sino COMMAND --help` tells more."])
