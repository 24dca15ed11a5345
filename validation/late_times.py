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

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, Measure, Simulation, ZeroTemperatureAttention
from pde.arguments import Array
from validation import wasserstein
from validation.problems.concentrating import LAW, TIMES, A, exact_measures, right_share, unit
from validation.study import Bar, Command, Curve, Options, Outcome, Panel, Table, each

LARGEST = 1.0
"""Bar: the distance in widths, at all times and orders."""


@dataclass(frozen=True, eq=False)
class Run:
    """One order on one mesh, at TIMES: distances and errors of the right cluster's share."""

    order: int
    mesh: SphereMesh
    distances: Array
    shares: Array

    @property
    def in_widths(self) -> Array:
        """The distances in widths of the mesh."""
        return self.distances / self.mesh.spacing


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


def table(runs: Sequence[Run]) -> Table:
    """Distances in widths, then the shares' errors."""
    columns = ["order", "cells", *each(".3f", *(f"W2/h t={t:g}" for t in TIMES))]
    columns += each(".1e", *(f"share t={TIMES[i]:g}" for i in (2, -1)))
    rows = [(r.order, r.mesh.n_cells, *r.in_widths, r.shares[2], r.shares[-1]) for r in runs]
    return Table("", columns, rows)


def study(options: Options) -> Outcome:
    """All orders on all meshes."""
    references = exact_measures(max(24, 2 * options.frequency))
    runs = [solve(order, f, references) for order in options.orders for f in options.frequencies]
    names = [f"order {run.order}, {run.mesh.n_cells} cells" for run in runs]
    promises = [
        Bar.at_most(f"{name}: largest W2 in widths", run.in_widths.max(), LARGEST)
        for name, run in zip(names, runs, strict=True)
    ]
    curves = [
        Curve(TIMES, run.in_widths, "o-", i, name)
        for i, (name, run) in enumerate(zip(names, runs, strict=True))
    ]
    words = r"$W_2$ to the exact solution, in widths $h$"
    return Outcome([table(runs)], promises, panels=[Panel("", "t", words, curves, ylim=(0, None))])


main = Command(study, meshes=[8, 16], full=[8, 16, 32], orders=[1, 2, 4, 6])


if __name__ == "__main__":
    sys.exit(main())
