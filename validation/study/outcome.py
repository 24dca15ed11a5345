"""All that a study has to say, as data: printed, and kept as text, CSV and a picture."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from validation.study.panels import Panel, draw
from validation.study.tables import Table
from validation.study.verdicts import Bar, Finding


class Outcome:
    """All that a study has to say; `str` is what is printed.

    tables : and lines of text between them
    panels : of the picture, in rows of `columns`; a generator computes them only where one is drawn
    """

    def __init__(
        self,
        tables: Iterable[Table | str],
        bars: Iterable[Bar] = (),
        findings: Iterable[Finding] = (),
        panels: Iterable[Panel] = (),
        columns: int = 3,
    ) -> None:
        self.tables, self.bars, self.findings = list(tables), list(bars), list(findings)
        self.panels, self.columns = panels, columns

    @classmethod
    def joined(cls, parts: Iterable[Outcome], columns: int = 3) -> Outcome:
        """The outcomes of a study's cases as one."""
        parts = list(parts)
        return cls(
            [table for part in parts for table in part.tables],
            [bar for part in parts for bar in part.bars],
            [finding for part in parts for finding in part.findings],
            (panel for part in parts for panel in part.panels),
            columns,
        )

    @property
    def status(self) -> int:
        """0 where all bars are met, else 1; findings count for nothing."""
        return 0 if all(bar.met for bar in self.bars) else 1

    def __str__(self) -> str:
        verdicts = ("\n".join(map(str, some)) for some in (self.findings, self.bars))
        return "\n\n".join(filter(None, [*map(str, self.tables), *verdicts]))

    def keep(self, folder: Path, name: str) -> None:
        """NAME.txt, NAME.png, and the tables in turn as NAME.csv, NAME_2.csv, ... in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text(f"{self}\n", encoding="utf-8")
        tables = [table for table in self.tables if isinstance(table, Table)]
        for i, table in enumerate(tables, start=1):
            table.write(folder / (f"{name}_{i}.csv" if i > 1 else f"{name}.csv"))
        panels = list(self.panels)
        if panels:
            draw(panels, folder / f"{name}.png", self.columns)
