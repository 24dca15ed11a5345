"""What a study promises: measured values against bars, in words and as an exit status."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from validation import command_line


@dataclass(frozen=True)
class Bar:
    """A measured value and the limit that it should keep.

    sense : "<=" or ">="
    """

    what: str
    value: float
    sense: str
    limit: float

    @property
    def met(self) -> bool:
        """Whether the value keeps the limit; nan never does."""
        return self.value <= self.limit if self.sense == "<=" else self.value >= self.limit

    def __str__(self) -> str:
        verdict = "met   " if self.met else "MISSED"
        return f"{verdict}  {self.what}: {self.value:.3g} {self.sense} {self.limit:.3g}"


def at_most(what: str, value: float, limit: float) -> Bar:
    """The bar value <= limit."""
    return Bar(what, float(value), "<=", float(limit))


def at_least(what: str, value: float, limit: float) -> Bar:
    """The bar value >= limit."""
    return Bar(what, float(value), ">=", float(limit))


def conclude(tables: Sequence[str], bars: Sequence[Bar], out: Path | None, name: str) -> int:
    """Print tables and bars, keep them as DIR/name.txt, and return the exit status: 0 all met."""
    text = "\n\n".join([*tables, "\n".join(map(str, bars))]).rstrip()
    print(text, flush=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    return 0 if all(bar.met for bar in bars) else 1


def study_parser(
    name: str, description: str | None, frequencies: Sequence[int], full: Sequence[int]
) -> argparse.ArgumentParser:
    """The command line of studies on meshes.

    frequencies, full : the meshes by default and with --full
    """
    sizes = " ".join(map(str, full))
    parser = command_line.study(
        name, description, f"the study at its full size: frequencies {sizes}"
    )
    parser.add_argument(
        "--frequencies",
        type=frequency,
        nargs="+",
        metavar="F",
        help=f"icosahedral meshes, coarse to fine (default {' '.join(map(str, frequencies))})",
    )
    parser.set_defaults(default_frequencies=list(frequencies), full_frequencies=list(full))
    return parser


def add_orders(parser: argparse.ArgumentParser, default: Sequence[int]) -> None:
    """The option --orders of studies that compare orders of the scheme."""
    from pde.reconstruction import ORDERS

    known = ", ".join(map(str, ORDERS))
    parser.add_argument(
        "--orders",
        type=int,
        nargs="+",
        default=list(default),
        choices=ORDERS,
        metavar="K",
        help=f"of the scheme: {known} (default {' '.join(map(str, default))})",
    )


def frequency(text: str) -> int:
    """An integer >= 1, for argparse."""
    try:
        if int(text) >= 1:
            return int(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be an integer >= 1, got {text!r}")


def chosen_frequencies(arguments: argparse.Namespace) -> list[int]:
    """The frequencies asked for."""
    if arguments.frequencies:
        return list(arguments.frequencies)
    return arguments.full_frequencies if arguments.full else arguments.default_frequencies
