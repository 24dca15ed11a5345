"""A table declared once, by its columns: as aligned text for reading and as CSV for programs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Table:
    """Rows under columns; `str` is the title, the aligned values, the note.

    columns : "heading:format", or a heading alone
    rows : each with as many values. A string stands as it is, whatever the format; None leaves the
        place empty, and "-" in the text is nan

    >>> print(Table("powers", ["n", "1/n:.2f"], [(8, 0.125), (16, 0.0625)]))
    powers
     n   1/n
     8  0.12
    16  0.06
    """

    title: str
    columns: Sequence[str]
    rows: Iterable[Any]
    note: str = ""

    def __str__(self) -> str:
        headings, forms = self._split()
        cells = [list(map(_text, row, forms)) for row in self.rows]
        return "\n".join(filter(None, [self.title, aligned(headings, cells), self.note]))

    def write(self, path: Path) -> None:
        """As CSV with all digits; a heading that comes again has its number behind it."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(_numbered(self._split()[0]))
            writer.writerows(self.rows)

    def _split(self) -> tuple[list[str], list[str]]:
        """Headings and formats."""
        parts = [column.partition(":")[::2] for column in self.columns]
        return [heading for heading, _ in parts], [form for _, form in parts]


def _text(value: Any, form: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return "-" if np.isnan(value) else f"{value:{form}}"


def _numbered(headings: Sequence[str]) -> list[str]:
    counts = [headings[:i].count(heading) for i, heading in enumerate(headings)]
    return [
        f"{heading} ({n + 1})" if n else heading
        for heading, n in zip(headings, counts, strict=True)
    ]


def each(form: str, *headings: str) -> list[str]:
    """Columns of one format."""
    return [f"{heading}:{form}" for heading in headings]


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in right-aligned columns.

    >>> print(aligned(["n", "error"], [["8", "0.5"], ["16", "0.125"]]))
     n  error
     8    0.5
    16  0.125
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
