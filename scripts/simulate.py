"""The command `sphere-attention`: run a case, look into a result, write it in other forms.

The parser is built before numpy, numba, scipy or matplotlib are imported: `--help` is instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sphere_attention_scripts import sweep, weights_command
from sphere_attention_scripts.case_file import CaseError, find_case, read_case, shipped_cases
from sphere_attention_scripts.terminal import show_anything

DEFAULT_CASE = "concentration"


def build_parser() -> argparse.ArgumentParser:
    """The command line, without anything heavy imported."""
    parser = argparse.ArgumentParser(
        prog="sphere-attention",
        description="Mean-field transformers on the sphere by finite volumes.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="solve a case, compare it with particles and with its limit, draw it",
        description="Solve a case and write result.nc, table.csv, case.toml and pictures.",
        epilog=f"shipped cases: {', '.join(shipped_cases())}",
    )
    run.add_argument(
        "case",
        nargs="?",
        metavar="CASE",
        help="path of a case file, or the name of a shipped one "
        f"(default: {DEFAULT_CASE}; with --resume the case in DIR)",
    )
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key of the case, such as mesh.frequency=32; may be repeated",
    )
    folder = run.add_mutually_exclusive_group(required=True)
    folder.add_argument("--out", type=_folder, metavar="DIR", help="folder for the results")
    folder.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="go on with the stopped or killed run in DIR, to the bit as if it had never stopped",
    )
    run.add_argument(
        "--overwrite", action="store_true", help="replace a result that DIR already holds"
    )
    run.add_argument("--quiet", action="store_true", help="no progress and no table on the screen")
    sweep.add_arguments(commands.add_parser("sweep", help=sweep.SUMMARY))
    weights_command.add_arguments(commands.add_parser("weights", help=weights_command.SUMMARY))
    info = commands.add_parser("info", help="say what a result file holds")
    info.add_argument("file", type=Path, metavar="FILE", help="a result (.nc)")
    export = commands.add_parser(
        "export", help="write a result for ParaView, as a web page, as an animation"
    )
    export.add_argument("file", type=Path, metavar="FILE", help="a result (.nc)")
    export.add_argument(
        "--vtk", type=Path, metavar="PATH", help=".pvd: all times, .vtu: the last one"
    )
    export.add_argument(
        "--html", type=Path, metavar="PATH", help="one page with a sphere to turn, works offline"
    )
    export.add_argument(
        "--animation", type=Path, metavar="PATH", help=".gif, or .mp4 where ffmpeg is installed"
    )
    export.add_argument(
        "--fps", type=float, default=10.0, metavar="N", help="frames a second (default: 10)"
    )
    return parser


def _folder(text: str) -> Path:
    """A folder that is named: nothing stands for this one, which a forgotten variable is not."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("name a folder, which may be . for this one")
    return Path(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 done, 1 failed, 2 refused, 130 interrupted."""
    show_anything()
    arguments = build_parser().parse_args(argv)
    try:
        if arguments.command == "info":
            return _info(arguments.file)
        if arguments.command == "export":
            return _export(arguments)
        if arguments.command == "sweep":
            return sweep.run_sweep(arguments)
        if arguments.command == "weights":
            return _weights(arguments)
        return _run(arguments)
    except CaseError as refused:
        return _refuse(refused)
    except OSError as failed:
        return _refuse(failed)
    except MemoryError as failed:
        _refuse(MemoryError(f"there is not enough memory ({failed or 'none left'})"))
        return 1
    except KeyboardInterrupt:
        print("interrupted before anything was computed", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    out, resume = arguments.out or arguments.resume, arguments.resume is not None
    if resume and arguments.overwrite:
        raise CaseError("--resume goes on with a result and --overwrite removes it; choose one")
    if resume and arguments.case is None and not (out / "case.toml").is_file():
        raise CaseError(f"--resume {out} holds no case.toml: there is no run to go on with")
    name = arguments.case or (str(out / "case.toml") if resume else DEFAULT_CASE)
    case = read_case(find_case(name), arguments.set)
    from sphere_attention_scripts.run_case import run_case

    return run_case(case, out, arguments.overwrite, arguments.quiet, resume)


def _info(path: Path) -> int:
    from sphere_attention_scripts.result_info import describe

    try:
        print(describe(path))
    except (ValueError, OSError, ImportError) as unreadable:
        return _refuse(unreadable)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from sphere_attention_scripts.export_result import export

    try:
        written = export(
            arguments.file, arguments.vtk, arguments.html, arguments.animation, arguments.fps
        )
    except (ValueError, OSError, ImportError, RuntimeError) as failed:
        return _refuse(failed)
    print("wrote " + ", ".join(map(str, written)))
    return 0


def _weights(arguments: argparse.Namespace) -> int:
    try:
        return weights_command.run_weights(arguments)
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as failed:
        return _refuse(failed)


def _refuse(why: Exception) -> int:
    print(f"sphere-attention: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
