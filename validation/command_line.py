"""The command line of every study: where to keep its results, and its size."""

from __future__ import annotations

import argparse
from pathlib import Path

from pde.files import show_anything


def study(
    name: str, description: str | None, full: str = "the study at its full size"
) -> argparse.ArgumentParser:
    """`python -m validation.name [--out DIR] [--full]`; a study adds what else it takes.

    full : what --full is said to be

    >>> study("name", "What it shows.").parse_args(["--full"]).full
    True
    """
    show_anything()
    parser = argparse.ArgumentParser(
        prog=f"python -m validation.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep table and picture there")
    parser.add_argument("--full", action="store_true", help=full)
    return parser
