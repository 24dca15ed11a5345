"""One run of a sweep in a worker process, by the same code as `sphere-attention run`."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIED = "the worker process that ran it died (killed, or out of memory)"

_ONE_AT_A_TIME = threading.Lock()
"""Held by the run of this process: the threads of its kernels are all that the worker has."""


@dataclass(frozen=True)
class Job:
    """What a worker is sent: plain data, so that any process can read it.

    name : of the run; folder : where it goes; tables : its case
    attempt : of this call of the sweep, so that no scheduler runs it twice in one
    threads : of the kernels; None: as many as the worker has
    overwrite : replace the results of another case
    pictures : draw what `sphere-attention run` draws
    versions : of the sweep's process; a worker of others refuses
    """

    name: str
    folder: Path
    tables: dict[str, Any]
    attempt: str
    threads: int | None
    overwrite: bool
    pictures: bool
    versions: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """How a run ended; message : why it failed, or what it warned of."""

    name: str
    finished: bool
    message: str = ""
    seconds: float = 0.0


def execute(job: Job) -> Outcome:
    """Do what is left of the job's run. Nothing is raised: what goes wrong is in the outcome."""
    begin = time.perf_counter()
    try:
        with _ONE_AT_A_TIME:
            finished, message = _execute(job)
    except Exception as failed:
        name = "" if isinstance(failed, ValueError | OSError) else f"{type(failed).__name__}: "
        finished, message = False, f"{name}{failed}".strip()
    return Outcome(job.name, finished, message, time.perf_counter() - begin)


def _execute(job: Job) -> tuple[bool, str]:
    """Whether the run is finished, and what it said."""
    from pde import restart
    from sphere_attention_scripts import sweep_folder as sf
    from sphere_attention_scripts.case_file import CaseError, check_case
    from sphere_attention_scripts.run_case import run_case
    from sphere_attention_scripts.sweep_cases import case_hash

    if not job.folder.parents[1].is_dir():
        raise CaseError(
            f"{job.folder.parents[1]} is not there on {platform.node()}: all machines of a sweep "
            "must share its folder"
        )
    other = restart.differences(job.versions, restart.versions())
    if other:
        raise CaseError(f"the worker on {platform.node()} is of another version: {other[0]}")
    case = check_case(job.tables)
    todo = sf.standing(job.folder, case)
    if todo.kind == sf.FINISHED:
        return True, ""
    if sf.record(job.folder / sf.BEGUN).get("attempt") == job.attempt:
        return False, DIED  # and the scheduler tries it on this one
    if todo.kind == sf.OTHER and not job.overwrite:
        raise CaseError(todo.why)
    _begin(job, case_hash(case))
    begin = time.perf_counter()
    with _threads(job.threads), contextlib.redirect_stderr(io.StringIO()) as said:
        status = run_case(
            case,
            job.folder,
            overwrite=todo.kind in (sf.AGAIN, sf.OTHER),
            quiet=True,
            resume=todo.kind == sf.RESUME,
            pictures=job.pictures,
        )
    message = "; ".join(said.getvalue().removeprefix("sphere-attention: ").strip().splitlines())
    if status == 0:
        seconds = time.perf_counter() - begin
        _finish(job, case_hash(case), seconds, todo.kind == sf.RESUME, message)
    return status == 0, message


def _begin(job: Job, case: str) -> None:
    """Say who works on the run; from now on it is not finished."""
    from sphere_attention_scripts.sweep_folder import BEGUN, DONE, write_record

    job.folder.mkdir(parents=True, exist_ok=True)
    (job.folder / DONE).unlink(missing_ok=True)
    about = {"case": case, "attempt": job.attempt, "host": platform.node(), "pid": os.getpid()}
    write_record(job.folder / BEGUN, about)


def _finish(job: Job, case: str, seconds: float, resumed: bool, said: str) -> None:
    """Say that the run is finished: the last thing written."""
    from pde import restart
    from sphere_attention_scripts.run_folder import RESTART
    from sphere_attention_scripts.sweep_folder import DONE, write_record

    end = restart.read_restart(job.folder / RESTART).simulation
    about = {
        "case": case,
        "seconds": seconds,
        "resumed": resumed,
        "steps": end["steps"],
        "redone_steps": sum(end["rejected"].values()),
        "said": said,
        "versions": restart.versions(),
    }
    write_record(job.folder / DONE, about)


@contextlib.contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    """Run kernels on so many threads; None: on as many as the Dask worker has."""
    import numba

    if wanted is None:
        from distributed import get_worker

        wanted = get_worker().state.nthreads
    before = numba.get_num_threads()
    settings: Any = numba.config
    numba.set_num_threads(max(1, min(wanted, settings.NUMBA_NUM_THREADS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def dask_setup(worker: Any) -> None:
    """Called by Dask when a worker process of a local sweep starts.

    Ctrl-C in a terminal reaches all processes; the sweep's own tells the workers to stop.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
