"""Run a case: solve it, compare it, write result, table and pictures into a folder."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pde import Simulation, Solution
from pde.arguments import Array
from pde.callbacks import AtTimes, Callback, Either, EverySeconds, Progress, Save
from pde.restart import Checkpoint, Restart, RestartError
from sphere_attention_scripts.case_file import CaseError, case_tables
from sphere_attention_scripts.case_setup import Setup, set_up
from sphere_attention_scripts.case_tree import Case
from sphere_attention_scripts.comparison import LimitLaw, limit_law
from sphere_attention_scripts.interruption import INTERRUPTED, StopOnInterrupt
from sphere_attention_scripts.run_callbacks import Companion, Table
from sphere_attention_scripts.run_folder import (
    OUTPUTS,
    RESTART,
    claimed,
    claimed_again,
    kept,
    refuse_taken,
    restart_point,
)
from sphere_attention_scripts.run_pictures import draw_run

SLOW_START = 2.0
"""Seconds after which the start is explained by compilation."""

CHECKPOINT_SECONDS = 300.0
"""Between two saves, a restart file is written after so many seconds."""


def run_case(
    case: Case,
    out: Path,
    overwrite: bool = False,
    quiet: bool = False,
    resume: bool = False,
    pictures: bool = True,
) -> int:
    """Run `case` with its results in the folder `out`; the exit status (see `simulate.main`).

    resume : go on with the run of this case in `out`, stopped or killed, as if it never had been

    Raises CaseError where the case or the folder is refused, before anything is computed.
    """
    say = _say if not quiet else lambda text: None
    point = restart_point(out, case) if resume else None
    if point is None:
        refuse_taken(out, overwrite)
    with _explained("compiling the kernels, which only the first run has to ...", quiet):
        setup = _checked_setup(case)
    mine = claimed(out, case, overwrite) if point is None else claimed_again(out, case, point)
    with mine as provenance:
        return _run(setup, out, provenance, point, quiet, say, pictures)


def _run(
    setup: Setup,
    out: Path,
    provenance: dict[str, Any],
    point: Restart | None,
    quiet: bool,
    say: Callable[[str], None],
    pictures: bool,
) -> int:
    """Solve and draw in a folder that is this run's."""
    case, saves = setup.case, AtTimes(setup.case.time.saves)
    about = {"title": case.title, "case": case_tables(case), "provenance": provenance}
    limit, why = limit_law(setup.field, setup.grid.system.measure(setup.grid.state))
    say(_description(setup, why))
    table = Table(saves, out / "table.csv", limit, setup.particles, quiet=quiet)
    callbacks: list[Callback] = [Save(saves, out / "result.nc", about)]
    if setup.particles is not None:
        beside = Save(saves, out / "particles.nc", about)
        callbacks.append(Companion(saves, particles=setup.particles, save=beside))
    schedule = Either(saves, EverySeconds(CHECKPOINT_SECONDS))
    callbacks += [table, Checkpoint(schedule, out / RESTART, about)]
    callbacks.append(StopOnInterrupt())
    if not quiet:
        callbacks.append(Progress())
    if point is not None:
        say(f"  going on from t = {point.simulation['t']:.4g}")
    begin = time.perf_counter()
    try:
        setup.grid.run(case.time.until, [], callbacks, None if point is None else point.path)
        if setup.grid.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        say(_summary(setup.grid, time.perf_counter() - begin))
        if pictures:
            draw(setup, table.series, limit, out)
    except RestartError as refused:
        raise CaseError(f"--resume {refused}") from refused
    except KeyboardInterrupt:
        _say(f"interrupted at t = {setup.grid.t:.4g}; {kept(out)}")
        return 130
    except (FloatingPointError, OSError, ValueError) as failed:
        _say(f"sphere-attention: failed at t = {setup.grid.t:.4g}: {failed}; {kept(out)}")
        return 1
    say("wrote " + ", ".join(str(out / name) for name in OUTPUTS if (out / name).exists()))
    return 0


def draw(setup: Setup, series: dict[str, Array], limit: LimitLaw | None, out: Path) -> None:
    """Pictures of what the files in `out` hold."""
    solution = Solution.open(out / "result.nc")
    particles = None if setup.particles is None else Solution.open(out / "particles.nc")
    draw_run(solution, particles, setup.field, series, limit, setup.case.title, out)


def _checked_setup(case: Case) -> Setup:
    """The case's objects, warm; what they refuse is the case's fault."""
    try:
        return _warm(set_up(case))
    except (ValueError, TypeError) as refused:
        raise CaseError(str(refused)) from refused


def _warm(setup: Setup) -> Setup:
    """Evaluate everything once, so that all kernels are compiled before the clock runs."""
    for simulation in (setup.grid, setup.particles):
        if simulation is not None:
            stage = simulation.system.stage(simulation.t, simulation.state)
            stage.rhs(min(stage.stable_step, 1.0))
    return setup


def _description(setup: Setup, why_no_limit: str) -> str:
    mesh, system = setup.mesh, setup.grid.system
    lines = [
        setup.case.title,
        f"  {setup.field} on {mesh.n_cells:,} cells (spacing {mesh.spacing:.3g}), "
        f"order {system.order}, {setup.grid.stepper.name}, until t = {setup.case.time.until:g}",
        f"  {why_no_limit}" if why_no_limit else "",
        "  no particles: the case leaves them out" if not setup.case.compare.particles else "",
    ]
    return "\n".join(line for line in lines if line.strip())


def _summary(grid: Simulation, seconds: float) -> str:
    limits = ", ".join(f"{name} {count}" for name, count in grid.limited_by.most_common())
    redone = sum(grid.rejected.values())
    return f"{grid.steps} steps in {seconds:.1f} s (limited by: {limits}; redone: {redone})"


@contextlib.contextmanager
def _explained(text: str, quiet: bool) -> Iterator[None]:
    """Say `text` if what happens inside takes long."""
    timer = threading.Timer(SLOW_START, _say, [text])
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
