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
from pathlib import Path

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, Measure, Simulation, ZeroTemperatureAttention
from pde.arguments import Array
from validation import bars, convergence, late_times, norms, wasserstein
from validation.finite_temperature import axisymmetric_solution

LATE = late_times.TIMES.index(8.0)


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
    """What is solved, until when, and how a final state is judged."""

    name: str
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

    return Problem("smooth", Equation(field), solution.initial, until, error)


def concentrating(finest: int) -> Problem:
    """Zero temperature at a late time."""
    reference = late_times.exact_measures(max(24, 2 * finest))[LATE]
    field = ZeroTemperatureAttention(late_times.A, np.eye(3))

    def error(mesh: SphereMesh, rho: Array) -> float:
        grid = Measure.from_mesh(mesh, rho)
        return float(wasserstein.distance(late_times.unit(grid), late_times.unit(reference)))

    return Problem("concentrating", Equation(field), late_times.LAW, 8.0, error)


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


def table(name: str, runs: Sequence[Run]) -> str:
    """A line for each run."""
    lines = [
        [str(r.order), str(r.cells), str(r.steps), f"{r.seconds:.3g}", f"{r.error:.2e}"]
        for r in runs
    ]
    head = ["order", "cells", "steps", "seconds", "error"]
    return f"{name}\n{convergence.table(head, lines)}"


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


def draw(results: dict[str, list[Run]], path: Path) -> None:
    """Error against seconds, one panel for each problem."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    labels = {"smooth": "relative $l_1$ error", "concentrating": "$W_2$ to the exact solution"}
    for panel, (name, runs) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(1, len(results), panel)
        for order in sorted({r.order for r in runs}):
            mine = [r for r in runs if r.order == order]
            axes.loglog([r.seconds for r in mine], [r.error for r in mine], "o-", label=str(order))
        axes.set(title=name, xlabel="seconds", ylabel=labels[name])
        axes.grid(which="both", alpha=0.3)
        axes.legend(title="order")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0: it promises nothing, it measures."""
    parser = bars.study_parser("work_precision", __doc__, [6, 12], [8, 16, 32])
    bars.add_orders(parser, [1, 2, 3, 4, 6, 8])
    arguments = parser.parse_args(argv)
    frequencies = bars.chosen_frequencies(arguments)
    results, tables = {}, []
    for problem in (smooth(), concentrating(frequencies[-1])):
        runs = [run(problem, order, f) for order in arguments.orders for f in frequencies]
        results[problem.name] = runs
        tables.append(table(problem.name, runs))
        middle = float(np.exp(np.median(np.log([r.error for r in runs]))))
        order = fastest(runs, middle)
        tables.append(f"soonest at the median error, {middle:.1e}: order {order or 'none'}")
    if arguments.out is not None:
        draw(results, arguments.out / "work_precision.png")
    return bars.conclude(tables, [], arguments.out, "work_precision")


if __name__ == "__main__":
    sys.exit(main())
