"""Run a case: solve it, compare it, write result, table and pictures into a folder."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pde import Simulation, Solution, limits, plotting
from pde.callbacks import AtTimes, Callback, Either, EverySeconds, Progress, Save
from pde.files import whole_file
from pde.restart import Checkpoint, Restart, RestartError
from sphere_attention_scripts.case_file import CaseError, case_tables
from sphere_attention_scripts.case_setup import Setup, set_up
from sphere_attention_scripts.case_tree import Case
from sphere_attention_scripts.comparison import COLUMNS, LimitLaw, limit_law, table_row
from sphere_attention_scripts.run_folder import (
    OUTPUTS,
    RESTART,
    claimed,
    claimed_again,
    kept,
    refuse_taken,
    restart_point,
)

MOST_PICTURES = 10
"""States in one picture; of more saved ones, as many are chosen evenly."""

SLOW_START = 2.0
"""Seconds after which the start is explained by compilation."""

CHECKPOINT_SECONDS = 300.0
"""Between two saves, a restart file is written after so many seconds."""


def run_case(
    case: Case, out: Path, overwrite: bool = False, quiet: bool = False, resume: bool = False
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
        setup = _warm(_checked_setup(case))
    mine = claimed(out, case, overwrite) if point is None else claimed_again(out, case, point)
    with mine as provenance:
        return _run(setup, out, provenance, point, quiet, say)


def _run(
    setup: Setup,
    out: Path,
    provenance: dict[str, Any],
    point: Restart | None,
    quiet: bool,
    say: Callable[[str], None],
) -> int:
    """Solve and draw in a folder that is this run's."""
    case, saves = setup.case, AtTimes(setup.case.time.saves)
    about = {"title": case.title, "case": case_tables(case), "provenance": provenance}
    limit, why = limit_law(setup.field, setup.grid.system.measure(setup.grid.state))
    say(_description(setup, why))
    table = Table(saves, out / "table.csv", limit, setup.particles, quiet=quiet)
    callbacks: list[Callback] = [
        Save(saves, out / "result.nc", about),
        table,
        Checkpoint(Either(saves, EverySeconds(CHECKPOINT_SECONDS)), out / RESTART, about),
    ]
    if not quiet:
        callbacks.append(Progress())
    if point is not None:
        say(f"  going on from t = {point.simulation['t']:.4g}")
    begin = time.perf_counter()
    try:
        setup.grid.run(case.time.until, [], callbacks, None if point is None else point.path)
        say(_summary(setup.grid, time.perf_counter() - begin))
        draw(setup, Solution.open(out / "result.nc"), table, limit, out)
    except RestartError as refused:
        raise CaseError(f"--resume {refused}") from refused
    except KeyboardInterrupt:
        _say(f"interrupted at t = {setup.grid.t:.4g}; {kept(out)}")
        return 130
    except (FloatingPointError, OSError) as failed:
        _say(f"sphere-attention: failed at t = {setup.grid.t:.4g}: {failed}; {kept(out)}")
        return 1
    say("wrote " + ", ".join(str(out / name) for name in OUTPUTS if (out / name).exists()))
    return 0


@dataclass(eq=False)
class Table(Callback):
    """Compares each saved state, after the particles have been taken to the same time.

    Rows go to a file, each at once, and to the screen.
    """

    path: Path = Path("table.csv")
    limit: LimitLaw | None = None
    particles: Simulation | None = None
    quiet: bool = field(default=False, kw_only=True)
    rows: list[dict[str, float]] = field(default_factory=list, init=False)

    def act(self, sim: Simulation) -> None:
        """Add the row of the present time."""
        if self.particles is not None and sim.t > self.particles.t:
            self.particles.run(until=sim.t, save_at=[])
        row = table_row(sim, self.limit, self.particles)
        with open(self.path, "a" if self.rows else "w", encoding="utf-8") as file:
            file.write(_csv([row], header=not self.rows))
        if not self.quiet:
            self._show(row)
        self.rows.append(row)

    def snapshot(self) -> dict[str, Any]:
        """The rows, and the particles where they stand."""
        particles = None if self.particles is None else self.particles.snapshot()
        return {"rows": self.rows, "particles": particles}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Go on with these rows, and drop later ones from the file."""
        if self.particles is not None:
            self.particles.restore(remembered["particles"])
        for row in remembered["rows"]:
            if not self.quiet:
                self._show(row)
            self.rows.append(row)
        with whole_file(self.path, "w") as file:
            file.write(_csv(self.rows, header=True))

    @property
    def series(self) -> dict[str, Any]:
        """The columns as arrays."""
        names = self.rows[0] if self.rows else {}
        return {name: np.array([row[name] for row in self.rows]) for name in names}

    def _show(self, row: dict[str, float]) -> None:
        from tqdm import tqdm

        columns = [COLUMNS[name] for name in row]
        cells = [format(value, c.form) for c, value in zip(columns, row.values(), strict=True)]
        widths = [max(len(c.heading), len(format(-1.2e-100, c.form)), 9) for c in columns]
        if not self.rows:
            headings = [c.heading for c in columns]
            tqdm.write("  ".join(h.rjust(w) for h, w in zip(headings, widths, strict=True)))
        # Through tqdm, so that the rows do not run into the bar.
        tqdm.write("  ".join(cell.rjust(w) for cell, w in zip(cells, widths, strict=True)))
        sys.stdout.flush()


def _csv(rows: Sequence[dict[str, float]], header: bool) -> str:
    """Rows as lines of numbers with all their digits, below their names where asked."""
    lines = [",".join(repr(float(value)) for value in row.values()) for row in rows]
    if header and rows:
        lines.insert(0, ",".join(rows[0]))
    return "".join(f"{line}\n" for line in lines)


def draw(setup: Setup, solution: Solution, table: Table, limit: LimitLaw | None, out: Path) -> None:
    """Pictures of the saved states and of the table."""
    count, title = len(solution.times), setup.case.title
    chosen = np.linspace(0, count - 1, min(count, MOST_PICTURES)).round().astype(int)
    if setup.mesh.ambient_dim == 2:
        times = solution.times[chosen]
        plotting.save_figure(
            plotting.solution_figure(solution, times, title=title), out / "density.png"
        )
    else:
        states = [solution.states[i] for i in chosen]
        labels = [f"$t = {solution.times[i]:.4g}$" for i in chosen]
        marks = _marks(setup, limit)
        for name, figure in (("sphere", plotting.sphere_figure), ("map", plotting.map_figure)):
            picture = figure(setup.mesh, states, labels, marks, title)
            plotting.save_figure(picture, out / f"{name}.png")
    series = table.series
    times = series.pop("t")
    named = {COLUMNS[name].title: values for name, values in series.items()}
    plotting.save_figure(plotting.series_figure(times, named, title), out / "series.png")


def _marks(setup: Setup, limit: LimitLaw | None) -> dict[str, Any]:
    """The limit space E and the terminal space F, where they are and are not everything."""
    if limit is None:
        return {}
    V = setup.field.V
    with contextlib.suppress(ValueError):
        F = limits.terminal_space(V) if np.allclose(V, V.T) else np.eye(len(V))
        if F.shape == limit.E.shape and np.allclose(np.abs(F.T @ limit.E), np.eye(F.shape[1])):
            return {"E = F": limit.E}
        return {"E": limit.E, "F": F}
    return {"E": limit.E}


def _checked_setup(case: Case) -> Setup:
    """The case's objects; what they refuse is the case's fault."""
    try:
        return set_up(case)
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
        "  no particles: the case has diffusion" if setup.case.model.diffusion else "",
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
