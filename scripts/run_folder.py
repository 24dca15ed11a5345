"""The folder of a run: who holds it, what is in it, and whether a run in it may be gone on with."""

from __future__ import annotations

import contextlib
import datetime
import errno
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pde import restart
from pde.restart import Restart, RestartError, read_restart
from pde.results.files import whole_file
from pde.results.storage import read_result
from pde.time.instants import same
from sphere_attention_scripts.case_file import CaseError, case_tables, check_case, to_toml
from sphere_attention_scripts.case_tree import Case

RESTART = "restart.npz"

OUTPUTS = (
    RESTART,
    "case.toml",
    "result.nc",
    "particles.nc",
    "table.csv",
    "density.png",
    "sphere.png",
    "map.png",
    "comparison.png",
    "series.png",
)
"""What a run may write; a folder that holds any of these is not written to unasked."""

PACKAGES = ("sphere-attention", "numpy", "scipy", "numba", "meshzoo", "matplotlib", "netCDF4")


def refuse_taken(out: Path, overwrite: bool) -> None:
    """Raise CaseError where `out` is no folder for a new run."""
    try:
        if out.exists() and not out.is_dir():
            raise CaseError(f"--out {out} is a file; name a folder")
        taken = [name for name in OUTPUTS if (out / name).exists()]
    except OSError as failed:
        raise CaseError(f"--out {out} cannot be read ({failed.strerror})") from failed
    if taken and not overwrite:
        raise CaseError(
            f"--out {out} already holds a result ({', '.join(taken)}); choose another folder, "
            "add --overwrite, or go on with that run by --resume in place of --out"
        )


@contextlib.contextmanager
def claimed(out: Path, case: Case, overwrite: bool) -> Iterator[dict[str, Any]]:
    """Make the folder a new run's, for the duration; gives the run's provenance.

    Whoever creates case.toml first has it. Raises CaseError where another run was quicker, or
    where nothing can be written.
    """
    provenance = _provenance()
    with contextlib.ExitStack() as held:
        try:
            out.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(out))
            if overwrite:
                for name in OUTPUTS:
                    (out / name).unlink(missing_ok=True)
            with open(out / "case.toml", "x", encoding="utf-8") as file:
                file.write(to_toml(case, provenance))
        except FileExistsError as taken:
            raise CaseError(
                f"--out {out} was taken by another run; choose another folder"
            ) from taken
        except OSError as failed:
            raise CaseError(f"--out {out} cannot be written ({failed.strerror})") from failed
        yield provenance


@contextlib.contextmanager
def claimed_again(out: Path, case: Case, point: Restart) -> Iterator[dict[str, Any]]:
    """Make the folder this process's to go on with the run in it; gives the run's provenance."""
    provenance = _provenance()
    provenance["resumed"] = provenance["started"]
    provenance["started"] = point.metadata["provenance"]["started"]
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(out))
            with whole_file(out / "case.toml", "w") as file:
                file.write(to_toml(case, provenance))
        except OSError as failed:
            raise CaseError(f"--resume {out} cannot be written ({failed.strerror})") from failed
        yield provenance


def restart_point(out: Path, case: Case) -> Restart:
    """The restart file in `out`, from which a run of `case` may go on.

    Raises CaseError where there is none, and where version or case differ from those of the run:
    the case only may be longer.
    """
    try:
        point = read_restart(out / RESTART)
    except FileNotFoundError as missing:
        raise CaseError(
            f"--resume {out} holds no {RESTART}: there is nothing to go on from"
        ) from missing
    except RestartError as damaged:
        raise CaseError(f"--resume {damaged}") from damaged
    other = restart.differences(point.versions, restart.versions())
    if other:
        raise CaseError(f"--resume {out} was computed by another version: {'; '.join(other)}")
    then, now = point.metadata["case"], case_tables(case)
    other = restart.differences({**then, "time": {}}, {**now, "time": {}})
    if other:
        raise CaseError(f"--resume {out} holds another case: {'; '.join(other)}")
    t = point.simulation["t"]
    if not go_the_same_way(check_case(then).time.saves, case.time.saves, t):
        changed = "; ".join(restart.differences(then["time"], now["time"], "time."))
        raise CaseError(
            f"--resume {out} holds another case: {changed}; a run may be made longer, but the "
            f"times at which it saves must stay the same up to t = {t:g}, where it goes on"
        )
    _check_results(out, point)
    return point


def _check_results(out: Path, point: Restart) -> None:
    """Raise CaseError unless all results can be gone on with, before any of them is written to.

    So a run that is refused leaves everything as it is.
    """
    saves = {"result.nc": point.callbacks["Save"]}
    if "Companion" in point.callbacks:
        saves["particles.nc"] = point.callbacks["Companion"]["save"]
    for name, save in saves.items():
        try:
            count = len(read_result(out / name).times)
        except (ValueError, OSError) as broken:
            raise CaseError(f"--resume {out} cannot go on: {broken}") from broken
        if count < save["records"]:
            raise CaseError(
                f"--resume {out} cannot go on: {name} is not the file to go on with, it holds "
                f"{count} states of {save['records']}"
            )


def go_the_same_way(then: Sequence[float], now: Sequence[float], t: float) -> bool:
    """Whether a run that saves at the times `then`, and is at t, is to the bit where one would be
    that saves at the times `now`.

    Steps are fitted to the next save, so that one has to be the same too, unless t is a save.
    Times that differ by rounding are the same.

    >>> go_the_same_way([0, 1, 2], [0, 1, 2, 3], 2), go_the_same_way([0, 1, 2], [0, 1, 3], 1.5)
    (True, False)
    """
    past = [[s for s in saves if s <= t or same(s, t)] for saves in (then, now)]
    if not _equal(*past):
        return False
    following = [list(saves[len(past[0]) :][:1]) for saves in (then, now)]
    return any(same(s, t) for s in past[0]) or _equal(*following)


def _equal(then: Sequence[float], now: Sequence[float]) -> bool:
    return len(then) == len(now) and all(map(same, then, now))


def kept(out: Path) -> str:
    """What is on the disk of a run that failed, as the end of a message."""
    try:
        count = len(read_result(out / "result.nc").times)
    except (ValueError, OSError, ImportError):
        return "nothing had been saved yet"
    text = f"the {count} states saved until then are in {out / 'result.nc'}"
    return f"{text}; to go on: sphere-attention run --resume {out}"


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the folder until the end, however this process ends, where the system knows how.

    Raises CaseError where another run holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failed:
            # Some network file systems have no locks for folders.
            if failed.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise CaseError(f"{out} is in use: a run is going on in it") from failed
        yield
    finally:
        os.close(folder)


def _provenance() -> dict[str, Any]:
    """Where and with what a case ran."""
    import numba

    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package.replace("-", "_")] = importlib.metadata.version(package)
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": numba.get_num_threads(),
        **versions,
    }
