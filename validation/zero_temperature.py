"""The zero-temperature equation from uniform data against its exact solution, mesh by mesh.

    d_t rho + div(rho P_x A x / |B^T x|) = 0,  A = V B^T = diag(.9, .4, -.6), until t = .8,

once with B = I (the solution is an angular central Gaussian) and once with a general B. Errors are
those of cell averages, relative, in the three norms, and of the distance to the limit law,
W2^2 = int (2 - 2 |P_E x|) drho.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, Measure, Simulation, ZeroTemperatureAttention, initial
from pde.limits import distance_to_space, limit_space
from validation import bars, convergence, exact, norms

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


def table(results: Sequence[Result], study: convergence.Study) -> str:
    """Errors by mesh, the observed order that of l1."""
    rows = [
        [
            f"{one.cells}",
            f"{one.h:.4f}",
            *(f"{one.norms[name]:.2e}" for name in ("l1", "l2", "linf")),
            "" if np.isnan(p) else f"{p:.2f}",
            f"{one.distance:.1e}",
        ]
        for one, p in zip(results, study.order, strict=True)
    ]
    return convergence.table(["cells", "h", "l1", "l2", "linf", "order", "W2 to limit"], rows)


def promised(form: str, order: int, results: Sequence[Result], study: Any) -> list[bars.Bar]:
    """The bars that apply to what was run."""
    name, found = f"{form}, order {order}", []
    if form == "B = I" and order in LARGEST_L1:
        found += [
            bars.at_most(f"{name}: l1 at {one.cells} cells", one.norms["l1"], LARGEST_L1[order])
            for one in results
            if one.cells == 10242
        ]
    # Time steps are of fourth order at most; high orders show on finer meshes than low ones.
    if len(results) > 1 and results[-1].cells >= (2562 if order <= 2 else 23042):
        observed = float(study.order[-1])
        found.append(bars.at_least(f"{name}: observed order", observed, min(order, 4) - 0.35))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where all bars are met."""
    parser = bars.study_parser("zero_temperature", __doc__, [8, 16, 32], [24, 48, 96])
    bars.add_orders(parser, [2])
    arguments = parser.parse_args(argv)
    frequencies = bars.chosen_frequencies(arguments)
    tables, studies, promises = [], {}, []
    for order in arguments.orders:
        for form, B in FORMS.items():
            results, study = errors(B, frequencies, order)
            tables.append(f"{form}, order {order}\n{table(results, study)}")
            studies[f"{form}, order {order}"] = study
            promises += promised(form, order, results, study)
    if arguments.out is not None:
        convergence.plot(
            studies, arguments.out / "zero_temperature.png", f"relative l1 error at t = {UNTIL}"
        )
    return bars.conclude(tables, promises, arguments.out, "zero_temperature")


if __name__ == "__main__":
    sys.exit(main())
