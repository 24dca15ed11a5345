"""The zero-temperature equation from uniform data against its exact solution, mesh by mesh.

    d_t rho + div(rho P_x A x / |B^T x|) = 0,  A = V B^T = diag(.9, .4, -.6), until t = .8,

once with B = I (the solution is an angular central Gaussian) and once with a general B. Errors are
those of cell averages, relative, in the three norms, and of the distance to the limit law,
W2^2 = int (2 - 2 |P_E x|) drho.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, Measure, Simulation, ZeroTemperatureAttention, initial
from pde.limits import distance_to_space, limit_space
from validation import convergence, exact, norms
from validation.study import Bar, Command, Options, Outcome, Table, each

A = np.diag([0.9, 0.4, -0.6])
UNTIL = 0.8
FORMS = {
    "B = I": np.eye(3),
    "general B": np.array([[1.0, 0.3, 0.0], [0.0, 1.2, 0.2], [0.1, 0.0, 0.8]]),
}
LARGEST_L1 = {2: 5e-4, 4: 1e-5, 6: 1e-6}
"""Bars for B = I at 10,242 cells, by order."""


@dataclass(frozen=True)
class Result:
    """Errors on one mesh."""

    cells: int
    h: float
    norms: dict[str, float]
    distance: float


def solve(B: Any, frequency: int, order: int) -> Result:
    """Solve on icosphere(frequency) and compare with the exact cell averages."""
    B = np.asarray(B, dtype=float)
    V = np.linalg.solve(B, A).T
    mesh, E = icosphere(frequency), limit_space(V, B)
    field = ZeroTemperatureAttention(V, B)
    simulation = Simulation(FiniteVolume(mesh, Equation(field), order=order), initial.uniform())
    simulation.run(until=UNTIL)
    averages = mesh.average(exact.ZeroTemperature(V, B).density(UNTIL))
    distances = [
        distance_to_space(Measure.from_mesh(mesh, rho), E) for rho in (simulation.state, averages)
    ]
    return Result(
        mesh.n_cells,
        mesh.spacing,
        norms.relative(mesh, simulation.state, averages),
        abs(distances[0] - distances[1]),
    )


def errors(
    B: Any, frequencies: Sequence[int], order: int
) -> tuple[list[Result], convergence.Study]:
    """The results by mesh and the study of their l1 errors."""
    results = {f: solve(B, f, order) for f in frequencies}
    study = convergence.study(
        lambda f: results[f].norms["l1"], frequencies, lambda f: results[f].h, "l1"
    )
    return list(results.values()), study


def table(name: str, results: Sequence[Result], study: convergence.Study) -> Table:
    """Errors by mesh, the observed order that of l1."""
    rows = [
        (one.cells, one.h, *one.norms.values(), None if np.isnan(order) else order, one.distance)
        for one, order in zip(results, study.order, strict=True)
    ]
    columns = ["cells", "h:.4f", *each(".2e", "l1", "l2", "linf")]
    return Table(name, [*columns, "order:.2f", "W2 to limit:.1e"], rows)


def promised(
    form: str, order: int, results: Sequence[Result], study: convergence.Study
) -> Iterator[Bar]:
    """The bars that apply to what was run."""
    name = f"{form}, order {order}"
    if form == "B = I" and order in LARGEST_L1:
        yield from [
            Bar.at_most(f"{name}: l1 at {one.cells} cells", one.norms["l1"], LARGEST_L1[order])
            for one in results
            if one.cells == 10242
        ]
    # Time steps are of fourth order at most; high orders show on finer meshes than low ones.
    if len(results) > 1 and results[-1].cells >= (2562 if order <= 2 else 23042):
        yield Bar.at_least(f"{name}: observed order", study.order[-1], min(order, 4) - 0.35)


def study(options: Options) -> Outcome:
    """Both forms at every order."""
    found = {
        (form, order): errors(B, options.frequencies, order)
        for order in options.orders
        for form, B in FORMS.items()
    }
    named = {f"{form}, order {order}": one for (form, order), one in found.items()}
    drawn = {name: observed for name, (_, observed) in named.items()}
    return Outcome(
        [table(name, *one) for name, one in named.items()],
        [bar for name, one in found.items() for bar in promised(*name, *one)],
        panels=[convergence.panel(drawn, f"relative l1 error at t = {UNTIL}")],
    )


main = Command(study, meshes=[8, 16, 32], full=[24, 48, 96], orders=[2])


if __name__ == "__main__":
    sys.exit(main())
