"""Error against seconds, for all orders: on a smooth solution and on one that concentrates.

    smooth          softmax attention with a common axis, beta = 2, until t = .4: relative l1 error
                    of the cell averages against the reduction to one variable
    concentrating   zero temperature until t = 8, when two clusters hold the mass: W2 to the exact
                    solution

Seconds are those of the time loop with its default steps, after everything has been compiled and
set up; they depend on the machine, their ratios much less.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, Measure, Simulation, ZeroTemperatureAttention
from pde.arguments import Array
from validation import norms, wasserstein
from validation.problems import concentrating as late
from validation.problems.axisymmetric import axisymmetric_solution
from validation.study import Command, Curve, Options, Outcome, Panel, Table


@dataclass(frozen=True)
class Run:
    """One order on one mesh: its error and what it cost."""

    order: int
    cells: int
    error: float
    seconds: float
    steps: int


@dataclass(frozen=True, eq=False)
class Problem:
    """What is solved, until when, and how a final state is judged: by what error."""

    name: str
    what: str
    equation: Equation
    law: Callable[[Array], Array]
    until: float
    error: Callable[[SphereMesh, Array], float]


def smooth() -> Problem:
    """Axisymmetric softmax attention."""
    until = 0.4
    field, solution = axisymmetric_solution(beta=2.0)
    end = solution.density(until)

    def error(mesh: SphereMesh, rho: Array) -> float:
        return norms.relative(mesh, rho, mesh.average(end))["l1"]

    return Problem(
        "smooth", "relative $l_1$ error", Equation(field), solution.initial, until, error
    )


def concentrating(finest: int) -> Problem:
    """Zero temperature at a late time."""
    until = 8.0
    reference = late.exact_measures(max(24, 2 * finest))[late.TIMES.index(until)]
    field = ZeroTemperatureAttention(late.A, np.eye(3))

    def error(mesh: SphereMesh, rho: Array) -> float:
        grid = Measure.from_mesh(mesh, rho)
        return float(wasserstein.distance(late.unit(grid), late.unit(reference)))

    words = "$W_2$ to the exact solution"
    return Problem("concentrating", words, Equation(field), late.LAW, until, error)


def run(problem: Problem, order: int, frequency: int) -> Run:
    """Solve once, timing the loop."""
    mesh = icosphere(frequency)
    system = FiniteVolume(mesh, problem.equation, order=order)
    simulation = Simulation(system, problem.law)
    system.stage(0.0, simulation.state).rhs(1e-3)  # sets up and compiles
    begin = time.perf_counter()
    simulation.run(until=problem.until, save_at=[])
    seconds = time.perf_counter() - begin
    error = problem.error(mesh, simulation.state)
    return Run(order, mesh.n_cells, error, seconds, simulation.steps)


def table(name: str, runs: Sequence[Run]) -> Table:
    """A line for each run."""
    columns = ["order", "cells", "steps", "seconds:.3g", "error:.2e"]
    return Table(name, columns, [(r.order, r.cells, r.steps, r.seconds, r.error) for r in runs])


def fastest(runs: Sequence[Run], error: float) -> int:
    """The order that reaches an error soonest: log-log interpolation between its meshes."""
    times = {}
    for order in sorted({r.order for r in runs}):
        mine = sorted((r for r in runs if r.order == order), key=lambda r: -r.error)
        if len(mine) < 2 or mine[-1].error > error:
            continue
        logs = np.log([[r.error, r.seconds] for r in mine])
        times[order] = float(np.interp(-np.log(error), -logs[:, 0], logs[:, 1]))
    return min(times, key=times.__getitem__) if times else 0


def panel(problem: Problem, runs: Sequence[Run]) -> Panel:
    """Error against seconds, order by order."""
    curves = []
    for i, order in enumerate(sorted({r.order for r in runs})):
        mine = [(r.seconds, r.error) for r in runs if r.order == order]
        curves.append(Curve.through(mine, "o-", i, f"order {order}"))
    return Panel(problem.name, "seconds", problem.what, curves, log="xy")


def study(options: Options) -> Outcome:
    """Both problems: it promises nothing, it measures."""
    tables: list[Table | str] = []
    panels = []
    for problem in (smooth(), concentrating(options.frequency)):
        runs = [run(problem, order, f) for order in options.orders for f in options.frequencies]
        middle = float(np.exp(np.median(np.log([r.error for r in runs]))))
        order = fastest(runs, middle)
        tables.append(table(problem.name, runs))
        tables.append(f"soonest at the median error, {middle:.1e}: order {order or 'none'}")
        panels.append(panel(problem, runs))
    return Outcome(tables, panels=panels)


main = Command(study, meshes=[6, 12], full=[8, 16, 32], orders=[1, 2, 3, 4, 6, 8])


if __name__ == "__main__":
    sys.exit(main())
