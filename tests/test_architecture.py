"""The project's own laws: imports go one way, and every public name explains itself."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sino

SOURCE = Path(sino.__file__).parent

LEVELS = {
    "cli": 8,
    "report": 7,
    "evaluate": 6,
    "train": 5,
    "coupling": 4,
    "benchmarks": 3,
    "models": 2,
    "data": 2,
    "metrics": 1,
    "physics": 1,
    "core": 0,
}
"""A room may import from lower levels and from itself; rooms of one level do not know each other."""


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module] if node.module != "sino" else [f"sino.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative imports hide the room"
        rooms |= {parts[1] for module in modules if (parts := module.split("."))[0] == "sino" and len(parts) > 1}
    return rooms - {"__version__"}


def illegal_imports(path: Path) -> set[str]:
    room = room_of(path)
    return {other for other in imported_rooms(path) if other != room and LEVELS[other] >= LEVELS[room]}


def module_names() -> list[str]:
    return [m.name for m in pkgutil.walk_packages(sino.__path__, "sino.") if m.name != "sino.__main__"]


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(SOURCE.rglob("*.py")) if p.parent != SOURCE or p.stem == "benchmarks"],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_imports_go_one_way(path):
    assert illegal_imports(path) == set()


def test_the_import_law_can_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "core").mkdir()
    offender = tmp_path / "core" / "grid.py"
    offender.write_text("from sino.physics.solver import State\nfrom sino import data\n")
    assert illegal_imports(offender) == {"physics", "data"}


@pytest.mark.parametrize("name", module_names())
def test_every_public_name_has_a_docstring(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    for key, value in vars(module).items():
        if key.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if inspect.isfunction(value) or inspect.isclass(value):
            assert value.__doc__, f"{name}.{key} has no docstring"
        if inspect.isclass(value):
            for method, member in vars(value).items():
                if inspect.isfunction(member) and not method.startswith("_"):
                    assert member.__doc__, f"{name}.{key}.{method} has no docstring"


@pytest.mark.parametrize("arguments", [["--help"], ["generate", "--help"]])
def test_help_does_not_import_jax(arguments):
    code = f"import sys; from sino.cli import main\ntry:\n main({arguments!r})\nexcept SystemExit: pass\n"
    code += "assert 'jax' not in sys.modules, 'jax was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_help_is_fast():
    def once() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "sino", "--help"], check=True, capture_output=True)
        return time.perf_counter() - started

    assert min(once() for _ in range(3)) < 0.5
