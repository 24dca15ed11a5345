"""The zero-temperature equation's way to its limit: W2 on the grid against closed forms.

V B^T uniaxial with gap 1, B = I, uniform data: the distance of the exact solution to Pi_# rho0 is
known in closed form for dim E = 1 (two antipodal points) and dim E = 2 (a great circle); for the
grid's solution W2^2 = int (2 - 2 |P_E x|) drho. E is in general position to the mesh. While the
mass is wider than the cells the error is second order (scheme of order 2); once it sits in single
cells no scheme places it better than a fraction of a cell.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, Simulation, ZeroTemperatureAttention, initial
from pde.arguments import Array
from pde.limits import distance_to_space, limit_space
from validation import exact
from validation.problems.axes import symmetric
from validation.study import Bar, Command, Curve, Option, Options, Outcome, Panel, Table, each

TIMES = np.arange(0.0, 6.5, 0.5)
RESOLVED = 2.0
"""Time until which the mass is wide compared with the cells of the default meshes."""
EIGENVALUES = {1: [1.0, 0.0, 0.0], 2: [1.0, 1.0, 0.0]}


def distances(dim: int, frequency: int, order: int, times: Array = TIMES) -> tuple[float, Array]:
    """(mesh width, W2 between the grid's solution and the limit at all times)."""
    A = symmetric(EIGENVALUES[dim])
    E = limit_space(A, np.eye(3))
    field = ZeroTemperatureAttention(A, np.eye(3))
    system = FiniteVolume(icosphere(frequency), Equation(field), order=order)
    simulation = Simulation(system, initial.uniform())
    solution = simulation.run(until=float(times[-1]), save_at=times)
    return system.mesh.spacing, np.array([distance_to_space(mu, E) for mu in solution.measures])


def promised(dim: int, known: Array, found: dict[int, Array], widths: Array) -> Iterator[Bar]:
    """Second order while resolved; half a cell width at all times."""
    name = f"dim E = {dim}"
    worst = [float(np.abs(values - known).max()) for values in found.values()]
    yield from [
        Bar.at_most(f"{name}, f = {f}: largest error in cell widths", error / h, 0.5)
        for f, error, h in zip(found, worst, widths, strict=True)
    ]
    at = int(np.searchsorted(TIMES, RESOLVED))
    resolved = [abs(float(values[at] - known[at])) for values in found.values()]
    if len(found) > 1 and list(found)[-1] >= 32:
        order = np.log(resolved[-2] / resolved[-1]) / np.log(widths[-2] / widths[-1])
        yield Bar.at_least(f"{name}: observed order at t = {RESOLVED:g}", order, 1.65)


def report(dim: int, order: int, frequencies: Sequence[int]) -> Outcome:
    """The closed form and the grids' errors over time."""
    known = exact.zero_temperature_distance(TIMES, 1.0, dim)
    runs = [distances(dim, f, order) for f in frequencies]
    found = dict(zip(frequencies, (values for _, values in runs), strict=True))
    rows = np.column_stack([TIMES, known, *(values - known for values in found.values())])
    columns = ["t:.1f", "closed form:.5f"]
    columns += each("+.1e", *(f"error f = {f}" for f in found))
    table = Table(f"W2 to the limit, dim E = {dim}", columns, rows)
    fine = np.linspace(TIMES[0], TIMES[-1], 200)
    curves = [Curve(fine, exact.zero_temperature_distance(fine, 1.0, dim), "-", "k", "exact")]
    curves += [Curve(TIMES, w, "o", i, f"f = {f}") for i, (f, w) in enumerate(found.items())]
    ylabel = r"$W_2(\rho_t, \Pi_\#\rho_0)$"
    bars = promised(dim, known, found, np.array([h for h, _ in runs]))
    return Outcome([table], bars, panels=[Panel(f"dim E = {dim}", "t", ylabel, curves, log="y")])


def study(options: Options) -> Outcome:
    """Both dimensions of E on all meshes."""
    return Outcome.joined(report(dim, options.order, options.frequencies) for dim in EIGENVALUES)


ORDER = Option("--order", 2, type=int, metavar="K", help="of the scheme")
main = Command(study, ORDER, meshes=[8, 16, 32], full=[16, 32, 64])


if __name__ == "__main__":
    sys.exit(main())
