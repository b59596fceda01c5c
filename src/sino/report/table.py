"""A table: header, rows and notes. What is in it is decided once; `writers` turns it into text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Cell:
    """One entry: its text, or why there is none."""

    text: str
    value: float | None = None
    """What it is sorted and compared by."""
    remarks: tuple[str, ...] = ()
    """What stands beside in small print, such as the paper's figure."""
    missing: bool = False
    """Whether the text is a reason instead of a result."""
    best: bool = False


@dataclass(frozen=True)
class Column:
    """A column; neighbours of one `over` share a heading above theirs."""

    title: str
    over: str = ""
    numeric: bool = True
    lowest_is_best: bool = False


@dataclass(frozen=True)
class Table:
    """A table. The first column names the row. `sections` are the numbers of rows before which a line is drawn."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    sections: tuple[int, ...] = ()


def make_table(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    notes: Sequence[str] = (),
    sections: Sequence[int] = (),
) -> Table:
    """A table with the lowest value marked in every column where that is the best."""
    by_column = [
        mark_lowest(cells) if column.lowest_is_best else cells
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    marked = tuple(zip(*by_column, strict=True))
    return Table(name, title, tuple(columns), marked, tuple(notes), tuple(sections))


def mark_lowest(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells, with the lowest value marked if there is another to compare it with."""
    values = [cell.value for cell in cells if cell.value is not None]
    if len(values) < 2:
        return list(cells)
    return [replace(cell, best=True) if cell.value == min(values) else cell for cell in cells]


def name_cell(text: str, *remarks: str) -> Cell:
    """The name of a row, or other words."""
    return Cell(text, remarks=remarks)


def absent(reason: str, *remarks: str) -> Cell:
    """Why there is no result."""
    return Cell(reason, remarks=remarks, missing=True)
