"""A sweep from its plan to its table: what is left to do, done in parallel, put together."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pde import restart
from sphere_attention_scripts.case_file import CaseError, case_tables
from sphere_attention_scripts.run_folder import locked
from sphere_attention_scripts.sweep_cases import Sweep, shown
from sphere_attention_scripts.sweep_cluster import Place, require_dask
from sphere_attention_scripts.sweep_cluster import carry_out as carry_out_jobs
from sphere_attention_scripts.sweep_cluster import cores as available_cores
from sphere_attention_scripts.sweep_folder import (
    AGAIN,
    FINISHED,
    NEW,
    OTHER,
    RESUME,
    Standing,
    folder_of,
    standing,
)
from sphere_attention_scripts.sweep_picture import draw_sweep
from sphere_attention_scripts.sweep_results import (
    Result,
    collect,
    dataset,
    table_rows,
    write_dataset,
    write_table,
)
from sphere_attention_scripts.sweep_worker import Job, Outcome
from validation.study import aligned

WORDS = {
    FINISHED: "finished",
    NEW: "to run",
    RESUME: "to go on",
    AGAIN: "to run again",
    OTHER: "refused",
}


@dataclass(frozen=True)
class Options:
    """How a sweep is run; see the command line in `sweep`."""

    scheduler: str | None = None
    workers: int | None = None
    threads: int | None = None
    states: bool = False
    pictures: bool = False
    overwrite: bool = False
    quiet: bool = False


def plan(sweep: Sweep, out: Path) -> str:
    """The table of runs: what they vary, and what is left to do."""
    header = ["run", *(axis.key for axis in sweep.axes), "", ""]
    rows = []
    for run, found in zip(sweep.runs, _standings(sweep, out), strict=True):
        rows.append([run.name, *map(shown, run.values), WORDS[found.kind], found.why])
    return f"{len(rows)} runs\n{aligned(header, rows)}"


def carry_out(sweep: Sweep, out: Path, options: Options) -> int:
    """Do what is left of a sweep in the folder `out`; the exit status, see `sweep.main`.

    Raises CaseError where a package is missing, where another sweep is at work in the folder, and
    where it holds other runs; then nothing has been started.
    """
    _require_packages()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise CaseError(f"--out {out} is no folder and cannot be made one ({failed})") from failed
    with locked(out):
        jobs = _jobs(sweep, out, options)
        failures, interrupted = _done(jobs, len(sweep.runs), options)
        results = collect(sweep, out, failures)
        _conclude(sweep, results, out, options)
    finished = sum(result.status == FINISHED for result in results)
    if interrupted:
        text = f"{finished} of {len(results)} runs are finished; the same command goes on"
        _say(f"interrupted: {text}")
        return 130
    return 0 if finished == len(results) else 1


def _require_packages() -> None:
    """Raise CaseError where a package is missing that the results of a sweep need."""
    require_dask()
    for package in ("xarray", "netCDF4"):
        if importlib.util.find_spec(package) is None:
            raise CaseError(
                f"a sweep needs the package {package}: "
                'python -m pip install "sphere-attention[sweep]"'
            )


def _standings(sweep: Sweep, out: Path) -> list[Standing]:
    return [standing(folder_of(out, run.name), run.case) for run in sweep.runs]


def _jobs(sweep: Sweep, out: Path, options: Options) -> list[Job]:
    """What is left to do. CaseError where results of other cases are in the way."""
    pairs = list(zip(sweep.runs, _standings(sweep, out), strict=True))
    others = [(run, found) for run, found in pairs if found.kind == OTHER]
    if others and not options.overwrite:
        raise CaseError(
            f"{len(others)} of {len(pairs)} runs find results of another case in --out {out}: "
            f"{others[0][1].why}; choose another folder, or add --overwrite"
        )
    for run, found in pairs:
        if found.kind == FINISHED and found.why and not options.quiet:
            _say(f"{run.name} stays as it is, {found.why}")
    attempt = uuid.uuid4().hex
    return [
        Job(
            name=run.name,
            folder=folder_of(out.resolve(), run.name),
            tables=case_tables(run.case),
            attempt=attempt,
            threads=options.threads,
            overwrite=options.overwrite,
            pictures=options.pictures,
            versions=restart.versions(),
        )
        for run, found in pairs
        if found.kind != FINISHED
    ]


def _done(jobs: Sequence[Job], total: int, options: Options) -> tuple[dict[str, str], bool]:
    """Run the jobs: why some failed, by name, and whether Ctrl-C ended it."""
    failures: dict[str, str] = {}
    if not jobs:
        return failures, False
    place = Place(options.scheduler, options.workers, options.threads)
    if place.scheduler is None:
        place = place.on_this_machine(len(jobs), available_cores())
    with _progress(total, len(jobs), place, options.quiet) as show:

        def report(outcome: Outcome) -> None:
            show(outcome)
            if not outcome.finished:
                failures[outcome.name] = outcome.message

        try:
            carry_out_jobs(jobs, place, report)
        except KeyboardInterrupt:
            return failures, True
    return failures, False


@contextlib.contextmanager
def _progress(total: int, count: int, place: Place, quiet: bool) -> Iterator[Any]:
    """A bar of the runs done; gives what is to be told of each."""
    if quiet:
        yield lambda outcome: None
        return
    from tqdm import tqdm

    if place.scheduler is not None:
        where = f"the cluster at {place.scheduler}"
    else:
        where = f"{place.workers} worker(s) of {place.threads} thread(s)"
    _say(f"{count} of {total} runs on {where}; the first run ever compiles the kernels")
    with tqdm(total=total, initial=total - count, unit="run", file=sys.stderr) as bar:

        def show(outcome: Outcome) -> None:
            how = f"finished in {outcome.seconds:.1f} s" if outcome.finished else "failed"
            text = f"{outcome.name} {how}" + (f": {outcome.message}" if outcome.message else "")
            tqdm.write(text, file=sys.stderr)
            bar.update()

        yield show


def _conclude(sweep: Sweep, results: Sequence[Result], out: Path, options: Options) -> None:
    """Write table, dataset and picture, and show the table."""
    data = dataset(sweep, results, out, options.states)
    rows = table_rows(sweep, results)
    write_table(out / "sweep.csv", rows)
    write_dataset(out / "sweep.nc", data)
    why = draw_sweep(data, [axis.label for axis in sweep.axes], out / "sweep.png")
    for result in results:
        if result.message:
            _say(f"{result.run.name} {result.status}: {result.message}")
    if options.quiet:
        return
    print(_table(rows))
    counts = Counter(result.status for result in results)
    _say(", ".join(f"{count} {status}" for status, count in counts.items()))
    _say(f"wrote {out / 'sweep.csv'}, {out / 'sweep.nc'}" + (f"; {why}" if why else ", sweep.png"))


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text, numbers short, without the messages."""
    header = [name for name in rows[0] if name != "message"]
    cells = [
        [f"{row[name]:.5g}" if isinstance(row[name], float) else str(row[name]) for name in header]
        for row in rows
    ]
    return aligned(header, cells)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
