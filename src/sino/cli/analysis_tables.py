"""The tables that `sino analyze` prints."""

from pathlib import Path
from typing import Any


def print_analysis(path: Path, result: dict[str, Any]) -> None:
    """Kernels and bounds of a run."""
    configuration, weights = result["configuration"], result["weights"]["name"]
    name, model = configuration["benchmark"], configuration["model"]
    print(f"\n{path}: {model} on {name}, {configuration['coarse']} cells, {weights} weights")
    if not result["kernels"]:
        print(f"  {model} has no generated kernels: no components, no rank, no Lipschitz constant")
    else:
        _print_rows(
            ("block", "branch", "n", "rank", "at most", "variance in 1, 2, 3 components"),
            [
                (row["block"], row["branch"], row["bottleneck"], row["rank"], row["rank_bound"], _shares(row))
                for row in result["kernels"]
            ],
        )
        if max(row["bottleneck"] for row in result["kernels"]) == 2:
            print("  (with a bottleneck of 2, two components hold everything by construction)")
    if result["bounds"]:
        _print_rows(
            ("block", "branch", "slope", "at most", "norm", "at most", ""),
            [
                (row["block"], row["branch"])
                + tuple(_number(row[key]) for key in ("largest_slope", "lipschitz_bound", "norm", "norm_bound"))
                + ("holds" if row["holds"] else "DOES NOT HOLD",)
                for row in result["bounds"]
            ],
        )


def print_cost(cost: dict[str, Any]) -> None:
    """What each way to simulate costs and errs, and what follows from it."""
    first, last = cost["window"]
    print(
        f"  cost on {cost['device']}, {cost['precision']}, batch {cost['batch']}; mean squared errors over frames "
        f"{first}..{last} of {len(cost['seeds']) - len(cost['excluded'])} unseen trajectories"
    )
    _print_rows(
        ("", "cells", "seconds per time unit", "error: dataset", "error: spectral"),
        [
            (row["what"], row["cells"], f"{row['seconds_per_time']:.3g}")
            + tuple(_number(row["error"][truth]) for truth in ("dataset", "spectral"))
            for row in cost["rows"]
        ],
    )
    spectral = cost["truth"]["spectral"]
    print(
        f"  the spectral truth has {spectral['cells']} cells per axis; half as many differ from it by "
        f"{_number(spectral['doubling_error'])} (variance {_number(spectral['variance'])})"
    )
    for truth in ("dataset", "spectral"):
        own = _verdict(cost["speedup_at_equal_error"][truth], cost["reason"][truth], cost["equal_error_grid"][truth])
        strong = _verdict(cost["speedup_against_strong"][truth], cost["reason_strong"][truth], None)
        print(f"  speed-up at equal error, {truth}: {own}; against the strong scheme: {strong}")
    even = cost["break_even_time_units"]
    paid = f"never ({cost['reason_break_even']})" if even is None else f"{even:,.0f} simulated time units"
    print(f"  data and training paid back after: {paid}")


def print_scaling(benchmark: str, fits: list[dict[str, Any]]) -> None:
    """Exponents with their intervals."""
    print(f"\nscaling laws on {benchmark}: error = c x^-a")
    _print_rows(
        ("network", "x", "a", "95 % interval", "c", "points"),
        [
            (f"{fit['model']} ({fit['schedule']})", fit["against"], f"{fit['exponent']:.3f}")
            + (" to ".join(f"{end:.3f}" for end in fit["interval"]), f"{fit['prefactor']:.3g}", len(fit["points"]))
            for fit in fits
        ],
    )


def _verdict(speedup: float | None, reason: str | None, cells: float | None) -> str:
    if speedup is None:
        return f"none ({reason})"
    return f"{speedup:.2f}" + ("" if cells is None else f" (a grid of {cells:.0f})")


def _shares(row: dict[str, Any]) -> str:
    return ", ".join(f"{share:.1%}" for share in row["explained"][:3]) or "it does not vary"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _print_rows(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    cells = [header, *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
