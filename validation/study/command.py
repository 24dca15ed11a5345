"""The one runner of all studies: reads the command line, runs, prints, keeps."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from validation.study.options import ONLY, Option, Options
from validation.study.outcome import Outcome


class Command:
    """A study as a command, `python -m validation.NAME [--out DIR] [--full] ...`.

    Called with its words it runs the study and returns the exit status: 0 all bars met, 1 not. The
    name is that of the study's file, the description the docstring at its top.

    own : options of this study only
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
        given = [Option.frequencies(meshes, full)] if meshes else []
        given += [Option.orders(orders)] if orders else []
        self.options = [*given, *([ONLY] if only else []), *own]

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run with these words, or those of the command line; the exit status."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal without a letter of a name shows its code.
            sys.stdout.reconfigure(errors="backslashreplace")
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
            one.settle(options)
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
            one.add_to(parser)
        return parser
