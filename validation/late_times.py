"""Which order is worth it once mass sits in single cells?

Zero temperature, A = V B^T with eigenvalues .9, .4, -.6 on axes that no mesh is aligned with, from
one smooth bump: the mass runs into two clusters at the ends of E. The exact solution is rho0
carried by the flow, here the cells of a finer mesh moved exactly. At each time, for each order and
mesh,

    W2     the distance to the exact solution, in widths h of the mesh
    share  the error of the mass on the right side of E^perp, absolute

Sharp densities are where high orders lose: an error of the order of the width is left once the
clusters are narrower than a cell, whatever the order, and the table says with which constant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, Measure, Simulation, ZeroTemperatureAttention, initial
from pde.arguments import Array
from validation import bars, convergence, exact, wasserstein

AXES = Rotation.from_euler("zyx", [0.7, 0.5, 0.3]).as_matrix()
A = AXES @ np.diag([0.9, 0.4, -0.6]) @ AXES.T
LAW = initial.von_mises_fisher([0.36, 0.48, 0.8], 1.0)
TIMES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
LARGEST = 1.0
"""Bar: the distance in widths, at all times and orders."""


@dataclass(frozen=True, eq=False)
class Run:
    """One order on one mesh, at TIMES: distances and errors of the right cluster's share."""

    order: int
    mesh: SphereMesh
    distances: Array
    shares: Array


def exact_measures(frequency: int) -> list[Measure]:
    """The exact solution at TIMES: cells of a mesh of that frequency, moved with their masses."""
    start = Measure.from_mesh(mesh := icosphere(frequency), mesh.average(LAW))
    solution = exact.ZeroTemperature(A, np.eye(3), LAW)
    return [Measure(solution.flow(t)(start.points), start.weights) for t in TIMES]


def solve(order: int, frequency: int, references: Sequence[Measure]) -> Run:
    """Solve, and compare at each time."""
    mesh = icosphere(frequency)
    system = FiniteVolume(mesh, Equation(ZeroTemperatureAttention(A, np.eye(3))), order=order)
    solution = Simulation(system, LAW).run(until=TIMES[-1], save_at=TIMES)
    share = right_share(references[0])
    measures = [Measure.from_mesh(mesh, state) for state in solution.states]
    distances = [
        float(wasserstein.distance(unit(mu), unit(nu)))
        for mu, nu in zip(measures, references, strict=True)
    ]
    return Run(
        order,
        mesh,
        np.array(distances),
        np.array([abs(right_share(mu) - share) for mu in measures]),
    )


def right_share(mu: Measure) -> float:
    """Share of the mass with <x, e> > 0, e the dominant axis; the flow keeps it."""
    return float(mu.weights[mu.points @ AXES[:, 0] > 0.0].sum()) / mu.total


def unit(mu: Measure) -> Measure:
    """Total 1, without the atoms that are too small to matter to 1e-12."""
    held = mu.weights > 1e-14 * mu.total
    return Measure(mu.points[held], mu.weights[held] / mu.weights[held].sum())


def rows(runs: Sequence[Run]) -> list[list[str]]:
    """The table's lines: distances in widths, then the shares' errors."""
    return [
        [
            str(run.order),
            str(run.mesh.n_cells),
            *(f"{d / run.mesh.spacing:.3f}" for d in run.distances),
            *(f"{run.shares[i]:.1e}" for i in (2, -1)),
        ]
        for run in runs
    ]


def draw(runs: Sequence[Run], path: Path) -> None:
    """Distance in widths over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for run in runs:
        label = f"order {run.order}, {run.mesh.n_cells} cells"
        axes.plot(TIMES, run.distances / run.mesh.spacing, "o-", ms=3, label=label)
    axes.set(xlabel="t", ylabel=r"$W_2$ to the exact solution, in widths $h$", ylim=(0, None))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where the distance never exceeds LARGEST widths."""
    parser = bars.study_parser("late_times", __doc__, [8, 16], [8, 16, 32])
    bars.add_orders(parser, [1, 2, 4, 6])
    arguments = parser.parse_args(argv)
    frequencies = bars.chosen_frequencies(arguments)
    references = exact_measures(max(24, 2 * frequencies[-1]))
    runs = [solve(order, f, references) for order in arguments.orders for f in frequencies]
    header = ["order", "cells", *(f"W2/h t={t:g}" for t in TIMES)]
    header += [f"share t={TIMES[i]:g}" for i in (2, -1)]
    promises = [
        bars.at_most(
            f"order {run.order}, {run.mesh.n_cells} cells: largest W2 in widths",
            float(run.distances.max() / run.mesh.spacing),
            LARGEST,
        )
        for run in runs
    ]
    if arguments.out is not None:
        draw(runs, arguments.out / "late_times.png")
    table = convergence.table(header, rows(runs))
    return bars.conclude([table], promises, arguments.out, "late_times")


if __name__ == "__main__":
    sys.exit(main())
