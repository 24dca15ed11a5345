"""What a result file holds, in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pde import Solution

MOST_ROWS = 12
"""Of more saved times, the first and the last ones are listed."""


def describe(path: Path) -> str:
    """Times, mesh or particles, diagnostics and the case of a result.

    Raises ValueError, FileNotFoundError or ImportError as `Solution.open` does.
    """
    solution = Solution.open(path)
    with open(path, "rb") as file:
        kind = "NetCDF-3, not closed or without netCDF4" if file.read(3) == b"CDF" else "NetCDF-4"
    lines = [f"{path}: {kind}, {path.stat().st_size / 1e6:.3g} MB", f"  {solution!r}"]
    if solution.mesh is not None:
        lines.append(f"  {solution.mesh!r}")
    lines += [f"  {key}: {value}" for key, value in _flat(solution.metadata)]
    return "\n".join([*lines, "", *_table(solution)])


def _flat(metadata: dict, prefix: str = "") -> list[tuple[str, object]]:
    """Nested metadata as dotted keys, empty entries left out."""
    found: list[tuple[str, object]] = []
    for key, value in metadata.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{key}.")
        elif value not in ("", None):
            found.append((prefix + key, value))
    return found


def _table(solution: Solution) -> list[str]:
    """The diagnostics at the saved times."""
    names = ["t", *solution.diagnostics]
    columns = np.array([solution.times, *solution.diagnostics.values()])
    shown = list(range(columns.shape[1]))
    if len(shown) > MOST_ROWS:
        shown = [*shown[: MOST_ROWS // 2], *shown[-MOST_ROWS // 2 :]]
    rows = [[f"{value:.8g}" for value in columns[:, i]] for i in shown]
    if len(shown) < columns.shape[1]:
        rows.insert(MOST_ROWS // 2, ["..."] * len(names))
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [names, *rows]
    ]
