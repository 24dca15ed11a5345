"""Observed orders of any case, and which part of the method makes its error.

    python scripts/convergence.py CASE --orders 2 4 --frequencies 8 16 32
    python scripts/convergence.py CASE --budget --orders 4 --frequencies 16

Errors are relative l1 differences to order 8 (`--reference-order`) on a mesh twice as fine as the
finest of the table (`--reference-frequency`). For cases on the circle a frequency is a number of
cells. `--out DIR` keeps the table and a log-log picture.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphere_attention_scripts.case_file import CaseError, find_case, read_case
from sphere_attention_scripts.terminal import show_anything

if TYPE_CHECKING:
    from sphere_attention_scripts.case_tree import Case
    from validation.refinement import Problem


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="convergence", description="Observed orders and error budget of a case."
    )
    parser.add_argument("case", nargs="?", default="concentration", metavar="CASE")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 2, 4], metavar="K")
    parser.add_argument("--frequencies", type=int, nargs="+", default=[6, 12, 24], metavar="F")
    parser.add_argument("--reference-order", type=int, default=8, metavar="K")
    parser.add_argument("--reference-frequency", type=int, metavar="F")
    parser.add_argument("--norm", choices=("l1", "l2", "linf"), default="l1")
    parser.add_argument(
        "--finer-steps",
        type=float,
        default=1.0,
        metavar="X",
        help="divide the default steps by X, to see the errors in space alone (default 1)",
    )
    parser.add_argument(
        "--budget", action="store_true", help="split the error into its parts instead"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep table and picture there")
    return parser


def problem_of(case: Case) -> Problem:
    """The case without its mesh and order."""
    from pde import Equation
    from sphere_attention_scripts import case_setup
    from sphere_attention_scripts.case_tree import Circle
    from validation.refinement import Problem

    def mesh_of(resolution: int) -> Any:
        spec = case.mesh
        finer = {"cells": resolution} if isinstance(spec, Circle) else {"frequency": resolution}
        return case_setup.mesh_of(replace(spec, **finer))

    return Problem(
        equation=Equation(case_setup.field_of(case.model), case.model.diffusion),
        law=case_setup.law_of(case),
        until=case.time.until,
        mesh_of=mesh_of,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; the exit status: 0 done, 2 refused."""
    show_anything()
    arguments = build_parser().parse_args(argv)
    try:
        problem = problem_of(read_case(find_case(arguments.case), arguments.set))
        text, studies = _study(problem, arguments)
    except (CaseError, ValueError) as refused:
        print(f"convergence: {refused}", file=sys.stderr)
        return 2
    print(text)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "convergence.txt").write_text(text + "\n", encoding="utf-8")
        if studies:
            from validation import convergence

            convergence.plot(studies, arguments.out / "convergence.png", title=arguments.case)
    return 0


def _study(problem: Problem, arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The text to print, and the studies to draw."""
    from validation.refinement import budget, observed_orders, solve

    frequencies = sorted(arguments.frequencies)
    finest = arguments.reference_frequency or 2 * frequencies[-1]
    print(f"reference: order {arguments.reference_order}, frequency {finest}", file=sys.stderr)
    reference = solve(problem, arguments.reference_order, finest)
    head = (
        f"{arguments.case} until t = {problem.until:g}; relative to order "
        f"{arguments.reference_order} at frequency {finest}"
    )
    if arguments.budget:
        parts = [
            f"order {order}, frequency {n}\n{budget(problem, order, n, reference)}"
            for order in arguments.orders
            for n in frequencies
        ]
        return "\n\n".join([head, *parts]), {}
    if not arguments.finer_steps >= 1.0:
        raise ValueError(f"--finer-steps must be >= 1, got {arguments.finer_steps}")
    studies = observed_orders(
        problem, arguments.orders, frequencies, reference, arguments.norm, arguments.finer_steps
    )
    return "\n\n".join([head, *(f"{name}\n{one}" for name, one in studies.items())]), studies


if __name__ == "__main__":
    sys.exit(main())
