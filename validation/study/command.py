"""One runner for all studies: reads the command line, runs, prints, draws and keeps files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pde.reconstruction import ORDERS
from validation.study.panels import Panel, draw
from validation.study.tables import Table
from validation.study.verdicts import Bar, Finding


class Options(argparse.Namespace):
    """What was asked for: `out`, `full`, and every option of the study under its name."""

    @property
    def frequency(self) -> int:
        """Of the finest mesh."""
        return int(self.frequencies[-1])


@dataclass(frozen=True)
class Option:
    """An option of one study: its default, the one with --full, and what argparse is told."""

    flag: str
    default: Any
    full: Any
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The attribute of `Options`."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def help(self) -> str:
        """What it is, and its defaults."""
        said = f"{self.settings.get('help', '')} (default {_words(self.default)}"
        with_full = "" if self.full is None else f"; with --full {_words(self.full)}"
        return f"{said}{with_full})".lstrip()


def _words(value: Any) -> str:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value) or "all"
    return " ".join(map(str, value))


def _meshes(default: Sequence[int], full: Sequence[int] | None) -> Option:
    words = "icosahedral meshes, coarse to fine"
    settings = {"type": _frequency, "nargs": "+", "metavar": "F", "help": words}
    return Option("--frequencies", default, full, settings)


def _orders(default: Sequence[int]) -> Option:
    words = f"of the scheme: {', '.join(map(str, ORDERS))}"
    settings = {"type": int, "nargs": "+", "choices": ORDERS, "metavar": "K", "help": words}
    return Option("--orders", default, None, settings)


ONLY = Option("--only", "", None, {"metavar": "TEXT", "help": "cases whose name holds TEXT"})


def _frequency(text: str) -> int:
    """An integer >= 1, for argparse."""
    try:
        if int(text) >= 1:
            return int(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be an integer >= 1, got {text!r}")


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


class Command:
    """A study as a command, `python -m validation.NAME [--out DIR] [--full] ...`.

    Called with its words it runs the study and returns the exit status: 0 all bars met, 1 not. The
    name is that of the study's file, the description the docstring at its top.

    own : options of this study only, by `Command.option`
    meshes, full : frequencies of --frequencies, and those with --full
    orders : default of --orders
    only : whether there are cases for --only
    """

    def __init__(
        self,
        study: Callable[[Options], Outcome],
        *own: Option,
        meshes: Sequence[int] | None = None,
        full: Sequence[int] | None = None,
        orders: Sequence[int] | None = None,
        only: bool = False,
    ) -> None:
        module = sys.modules[study.__module__]
        self.study, self.description = study, module.__doc__
        self.name = Path(str(module.__file__)).stem
        given = [_meshes(meshes, full)] if meshes else []
        given += [_orders(orders)] if orders else []
        self.options = [*given, *([ONLY] if only else []), *own]

    @staticmethod
    def option(flag: str, default: Any, full: Any = None, **settings: Any) -> Option:
        """An option of one's own with its default, and another one with --full.

        settings : of argparse
        """
        return Option(flag, default, full, settings)

    @staticmethod
    def numbers(flag: str, default: Sequence[Any], type: Any, metavar: str, help: str) -> Option:
        """An option of one's own that takes several numbers of a type."""
        settings = {"type": type, "nargs": "+", "metavar": metavar, "help": help}
        return Option(flag, default, None, settings)

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run with these words, or those of the command line; the exit status."""
        options = self.asked(argv)
        outcome = self.study(options)
        print(outcome, flush=True)
        if options.out is not None:
            outcome.keep(options.out, self.name)
        return outcome.status

    def asked(self, argv: Sequence[str] | None = None) -> Options:
        """The options; ends with status 2 and one sentence for words that it does not know."""
        options = self._parser().parse_args(argv, namespace=Options())
        for one in self.options:
            if getattr(options, one.name) is None:
                larger = options.full and one.full is not None
                setattr(options, one.name, one.full if larger else one.default)
        return options

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python -m validation.{self.name}",
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        words = "keep what is printed, the tables and the picture there"
        parser.add_argument("--out", type=Path, metavar="DIR", help=words)
        parser.add_argument("--full", action="store_true", help="the study at its full size")
        for one in self.options:
            parser.add_argument(one.flag, **one.settings | {"help": one.help})
        return parser
