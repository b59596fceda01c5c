"""The commands and their options, as Markdown. `python -m scripts.commands` writes them into docs/command-line.md."""

import ast
import dataclasses
import inspect
import types
import typing
from pathlib import Path
from typing import Any

from sino.cli.verbs import VERBS

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
BEGIN, END = "<!-- commands -->", "<!-- end -->"
METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


def render(page: str) -> str:
    """Replace what stands between the two marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    sections = "\n\n".join(section(name, verb) for name, verb in VERBS.items())
    return f"{before}{BEGIN}\n\n{sections}\n\n{END}{after}"


def section(name: str, verb: type) -> str:
    """What a command does, and a table of its options."""
    fields, hints, meanings = dataclasses.fields(verb), typing.get_type_hints(verb), field_docstrings(verb)
    usage = ["sino", name]
    usage += [field.name.upper() + _dots(hints[field.name]) for field in fields if not has_default(field)]
    usage += ["[options]"] if any(has_default(field) for field in fields) else []
    lines = [f"## sino {name}", "", inspect.cleandoc(verb.__doc__ or ""), "", "```text", " ".join(usage), "```"]
    lines += ["", "| option | what it is |", "|---|---|"]
    for field in fields:
        words = f"`{flag(field.name)}` {values(hints[field.name])}" if has_default(field) else f"`{field.name.upper()}`"
        lines.append(f"| {words.strip()} | {meanings[field.name]}{default(field)} |")
    return "\n".join(lines)


def flag(name: str) -> str:
    """The option of a field."""
    return "--" + name.replace("_", "-")


def has_default(field: dataclasses.Field) -> bool:
    """Whether a command can do without the field. The others are given by position."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def values(hint: Any) -> str:
    """What is written behind an option: one of several choices, or what kind of words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint == bool | None:
        return "`True` or `False`"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(values(argument) for argument in arguments if argument is not type(None))
    if origin is typing.Literal:
        return " or ".join(f"`{choice}`" for choice in arguments)
    return "" if hint is bool else f"`{_words(hint)}`"


def default(field: dataclasses.Field) -> str:
    """What an option is when it is not given; empty where that is nothing, or for the text to say."""
    value = field.default
    if value is dataclasses.MISSING or value is None or value is False or value == ():
        return ""
    return f" Default: `{' '.join(map(str, value)) if isinstance(value, tuple) else value}`."


def field_docstrings(verb: type) -> dict[str, str]:
    """The string below each field of a dataclass, on one line."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(verb)).body if isinstance(node, ast.ClassDef))
    found = {}
    for node, below in zip(body, body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[node.target.id] = " ".join(text.split())
    return found


def _words(hint: Any) -> str:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return " ".join(_words(part) for part in arguments if part is not ...) + _dots(hint)
    if typing.get_origin(hint) is dict:
        return "KEY VALUE ..."
    return METAVARS[hint]


def _dots(hint: Any) -> str:
    return " ..." if ... in typing.get_args(hint) else ""


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
    print(f"wrote {PAGE}")
