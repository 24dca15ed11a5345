"""The zero-temperature equation's way to its limit: W2 on the grid against closed forms.

V B^T uniaxial with gap 1, B = I, uniform data: the distance of the exact solution to Pi_# rho0 is
known in closed form for dim E = 1 (two antipodal points) and dim E = 2 (a great circle); for the
grid's solution W2^2 = int (2 - 2 |P_E x|) drho. E is in general position to the mesh. While the
mass is wider than the cells the error is second order (scheme of order 2); once it sits in single
cells no scheme places it better than a fraction of a cell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, Simulation, ZeroTemperatureAttention, initial
from pde.arguments import Array
from pde.limits import distance_to_space, limit_space
from validation import bars, convergence, exact

TIMES = np.arange(0.0, 6.5, 0.5)
RESOLVED = 2.0
"""Time until which the mass is wide compared with the cells of the default meshes."""
TILT = np.linalg.qr(np.array([[0.3, 0.5, -0.8], [0.9, -0.1, 0.4], [0.2, 0.7, 0.6]]))[0]
EIGENVALUES = {1: [1.0, 0.0, 0.0], 2: [1.0, 1.0, 0.0]}


def distances(dim: int, frequency: int, order: int, times: Array = TIMES) -> tuple[float, Array]:
    """(mesh width, W2 between the grid's solution and the limit at all times)."""
    A = TILT @ np.diag(EIGENVALUES[dim]) @ TILT.T
    A = 0.5 * (A + A.T)
    E = limit_space(A, np.eye(3))
    field = ZeroTemperatureAttention(A, np.eye(3))
    system = FiniteVolume(icosphere(frequency), Equation(field), order=order)
    simulation = Simulation(system, initial.uniform())
    solution = simulation.run(until=float(times[-1]), save_at=times)
    return system.mesh.spacing, np.array([distance_to_space(mu, E) for mu in solution.measures])


def table(dim: int, known: Array, found: dict[int, Array]) -> str:
    """The closed form and the grids' errors over time."""
    header = ["t", "closed form", *(f"error f = {f}" for f in found)]
    rows = [
        [f"{t:.1f}", f"{w:.5f}", *(f"{values[i] - w:+.1e}" for values in found.values())]
        for i, (t, w) in enumerate(zip(TIMES, known, strict=True))
    ]
    return f"W2 to the limit, dim E = {dim}\n{convergence.table(header, rows)}"


def promised(dim: int, known: Array, found: dict[int, Array], widths: Array) -> list[bars.Bar]:
    """Second order while resolved; half a cell width at all times."""
    name = f"dim E = {dim}"
    worst = [float(np.abs(values - known).max()) for values in found.values()]
    result = [
        bars.at_most(f"{name}, f = {f}: largest error in cell widths", error / h, 0.5)
        for f, error, h in zip(found, worst, widths, strict=True)
    ]
    at = int(np.searchsorted(TIMES, RESOLVED))
    resolved = [abs(float(values[at] - known[at])) for values in found.values()]
    if len(found) > 1 and list(found)[-1] >= 32:
        order = np.log(resolved[-2] / resolved[-1]) / np.log(widths[-2] / widths[-1])
        result.append(bars.at_least(f"{name}: observed order at t = {RESOLVED:g}", order, 1.65))
    return result


def draw(results: dict[int, tuple[Array, dict[int, Array], Array]], path: Path) -> None:
    """Distances over time, one panel for each dim E."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    fine = np.linspace(TIMES[0], TIMES[-1], 200)
    for panel, (dim, (_, found, _)) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(1, len(results), panel)
        axes.semilogy(fine, exact.zero_temperature_distance(fine, 1.0, dim), "k-", label="exact")
        for f, values in found.items():
            axes.semilogy(TIMES, values, "o", ms=4, label=f"f = {f}")
        axes.set(title=f"dim E = {dim}", xlabel="t", ylabel=r"$W_2(\rho_t, \Pi_\#\rho_0)$")
        axes.grid(alpha=0.3)
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where all bars are met."""
    parser = bars.study_parser("grid_vs_limit", __doc__, [8, 16, 32], [16, 32, 64])
    parser.add_argument("--order", type=int, default=2, metavar="K")
    arguments = parser.parse_args(argv)
    frequencies = bars.chosen_frequencies(arguments)
    results, tables, promises = {}, [], []
    for dim in EIGENVALUES:
        known = exact.zero_temperature_distance(TIMES, 1.0, dim)
        runs = {f: distances(dim, f, arguments.order) for f in frequencies}
        found = {f: values for f, (_, values) in runs.items()}
        widths = np.array([h for h, _ in runs.values()])
        results[dim] = known, found, widths
        tables.append(table(dim, known, found))
        promises += promised(dim, known, found, widths)
    if arguments.out is not None:
        draw(results, arguments.out / "grid_vs_limit.png")
    return bars.conclude(tables, promises, arguments.out, "grid_vs_limit")


if __name__ == "__main__":
    sys.exit(main())
