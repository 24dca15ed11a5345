"""What a study can be asked: options with a default, and another one for its full size."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from pde.cells.reconstruction import ORDERS


class Options(argparse.Namespace):
    """What was asked for: `out`, `full`, and every option of the study under its name."""

    @property
    def frequency(self) -> int:
        """Of the finest mesh."""
        return int(self.frequencies[-1])


class Option:
    """An option with its default, and the default with --full where that is another one.

    settings : what else argparse is told
    """

    def __init__(self, flag: str, default: Any, full: Any = None, **settings: Any) -> None:
        self.flag, self.name = flag, flag.lstrip("-")
        self.default, self.full, self.settings = default, full, settings

    @classmethod
    def numbers(cls, flag: str, default: Sequence[Any], metavar: str, help: str) -> Option:
        """Takes several numbers of the type that the default has."""
        return cls(flag, default, type=type(default[0]), nargs="+", metavar=metavar, help=help)

    @classmethod
    def frequencies(cls, default: Sequence[int], full: Sequence[int] | None) -> Option:
        """Of the meshes."""
        words = "icosahedral meshes, coarse to fine"
        settings = {"type": _frequency, "nargs": "+", "metavar": "F", "help": words}
        return cls("--frequencies", default, full, **settings)

    @classmethod
    def orders(cls, default: Sequence[int]) -> Option:
        """Of the scheme."""
        words = f"of the scheme: {', '.join(map(str, ORDERS))}"
        settings = {"type": int, "nargs": "+", "choices": ORDERS, "metavar": "K", "help": words}
        return cls("--orders", default, **settings)

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """With its defaults behind its help."""
        defaults = f"default {_words(self.default)}"
        if self.full is not None:
            defaults += f"; with --full {_words(self.full)}"
        words = f"{self.settings['help']} ({defaults})"
        parser.add_argument(self.flag, **self.settings | {"help": words})

    def settle(self, options: Options) -> None:
        """Give its default where nothing was asked for."""
        if getattr(options, self.name) is None:
            larger = options.full and self.full is not None
            setattr(options, self.name, self.full if larger else self.default)


ONLY = Option("--only", "", metavar="TEXT", help="cases whose name holds TEXT")


def _words(value: Any) -> str:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value) or "all"
    return " ".join(map(str, value))


def _frequency(text: str) -> int:
    """An integer >= 1, for argparse."""
    try:
        if int(text) >= 1:
            return int(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be an integer >= 1, got {text!r}")
