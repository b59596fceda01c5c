"""The command line. Nothing here imports JAX until a command needs it, so that `--help` answers at once."""

import dataclasses
import difflib
import os
import sys
from pathlib import Path
from typing import Any

from sino import __version__
from sino.cli.verbs import VERBS
from sino.cli.words import read_toml, words_of
from sino.core.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0, 2 for a user's mistake, 130 when interrupted, 1 if nobody reads."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"sino: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sino: interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as in `sino list | head`: who read has seen enough, and Python must not flush at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


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
    values = read_toml(path)
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
    words = [word for key in values.keys() - required for word in words_of(fields[key], values[key])]
    return verb(**given) if given.keys() == required else None, [*rest[:first], *words, *rest[first:]]


def _positional(value: Any) -> Any:
    return tuple(Path(item) for item in value) if isinstance(value, list) else str(value)


def _required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _overview() -> str:
    lines = [f"sino {__version__}: learned closures inside differentiable solvers", "", "commands:"]
    for name, verb in VERBS.items():
        lines.append(f"  {name:10s} {(verb.__doc__ or '').splitlines()[0]}")
    return "\n".join([*lines, "", "`sino COMMAND --help` tells more."])
