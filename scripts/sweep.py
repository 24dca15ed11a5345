"""A case for all combinations of some of its values, in parallel on Dask.

    python scripts/sweep.py CASE --vary beta=10,30,100 --vary mesh.frequency=16,32 --out DIR

The same as `sphere-attention sweep`. Each run has its folder DIR/runs/NAME, written as by
`sphere-attention run`; DIR/sweep.csv, sweep.nc and sweep.png hold all of them together. The same
command again does what is missing: failed runs anew, interrupted and killed ones from their restart
files to the bit, finished ones not at all; with more values, the new ones only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sphere_attention_scripts.case_file import CaseError, find_case, shipped_cases
from sphere_attention_scripts.sweep_cases import check_models, expand

SUMMARY = "run a case for all combinations of some of its values, in parallel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of a sweep."""
    parser.description = (
        "Run a case for all combinations of the values that keys are given. The same command "
        "again does what is missing: failed runs, interrupted ones from where they were, new "
        "values."
    )
    parser.epilog = f"shipped cases: {', '.join(shipped_cases())}"
    parser.add_argument("case", metavar="CASE", help="path of a case file, or a shipped case")
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="KEY=V,V,...",
        help="a key and its values, such as beta=10,30 or mesh.frequency=16,32; may be repeated",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a key for all runs"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of it all")
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="processes (default: as many as cores)"
    )
    parser.add_argument(
        "--threads",
        type=_count,
        metavar="N",
        help="threads of each worker (default: the cores over the workers)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="use the Dask cluster there, such as tcp://host:8786; its machines share DIR",
    )
    parser.add_argument(
        "--states", action="store_true", help="final densities into sweep.nc too (one mesh)"
    )
    parser.add_argument("--pictures", action="store_true", help="the pictures of every run too")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace results of other cases in DIR/runs"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would run, and stop")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1, got {text!r}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 done, 1 runs failed, 2 refused, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="sweep")
    add_arguments(parser)
    try:
        return run_sweep(parser.parse_args(argv))
    except CaseError as refused:
        print(f"sweep: {refused}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130


def run_sweep(arguments: argparse.Namespace) -> int:
    """Carry out the sweep of a parsed command line; the exit status as of `main`.

    Raises CaseError where it is refused; then nothing has been started.
    """
    if arguments.scheduler is not None and arguments.workers is not None:
        raise CaseError("--workers is for this machine; the cluster of --scheduler has its own")
    sweep = expand(find_case(arguments.case), arguments.vary, arguments.set)
    if arguments.states and any(run.case.mesh != sweep.runs[0].case.mesh for run in sweep.runs):
        raise CaseError("--states needs the same mesh in all runs; leave it out")
    check_models(sweep.runs)
    from sphere_attention_scripts import sweep_run

    if arguments.dry_run:
        print(sweep_run.plan(sweep, arguments.out))
        return 0
    return sweep_run.carry_out(
        sweep,
        arguments.out,
        sweep_run.Options(
            scheduler=arguments.scheduler,
            workers=arguments.workers,
            threads=arguments.threads,
            states=arguments.states,
            pictures=arguments.pictures,
            overwrite=arguments.overwrite,
            quiet=arguments.quiet,
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
