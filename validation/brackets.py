"""Transport distances between mesh densities: brackets, closed forms, time.

Four pairs of laws on every mesh, E in general position to it:

- `axial`: uniform against the angular central Gaussian with Lambda = diag(e^2, e^2, 1), whose
  distance the monotone rearrangement along meridians gives (formulas.md 3.11);
- `line`, `plane`: the zero-temperature law at time t from uniform data against its image in
  E, dim E = 1 and 2, known in closed form (formulas.md 3.3), t = 0.5, 1 and 2;
- `general`: two laws without symmetry.

The peer is POT's network simplex on the full cost matrix, where installed and the mesh is small.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meshes import SphereMesh, icosphere
from pde import initial, limits
from pde.arguments import Array
from pde.measure import Measure
from validation import exact, wasserstein
from validation.problems.axes import AXES, symmetric
from validation.study import Bar, Command, Options, Outcome, Table, each

TIMES = (0.5, 1.0, 2.0)
COSTS = ((1, "chordal"), (2, "chordal"), (1, "geodesic"), (2, "geodesic"))
PEER_ATOMS = 3000
WIDTH, ERROR, SECONDS = 0.01, 0.005, 60.0


@dataclass(frozen=True)
class Row:
    """One pair: its name and cost, the bracket, the continuum's distance where known, seconds."""

    name: str
    n: int
    p: int
    cost: str
    found: wasserstein.Distance
    known: float | None
    seconds: float
    peer: float | None

    @property
    def width(self) -> float:
        """The bracket's width relative to the value."""
        return (self.found.upper - self.found.lower) / self.found.value

    @property
    def error(self) -> float:
        """Relative difference to the continuum's distance; nan where that is not known."""
        return np.nan if self.known is None else abs(self.found.value / self.known - 1.0)


def on_mesh(mesh: SphereMesh, law: initial.Law) -> Measure:
    """Cell masses of a law, total 1."""
    measure = Measure.from_mesh(mesh, mesh.average(law))
    return Measure(measure.points, measure.weights / measure.total)


def gaussian(eigenvalues: Sequence[float]) -> initial.Law:
    """Angular central Gaussian with these eigenvalues, tilted."""
    return initial.angular_central_gaussian(symmetric(eigenvalues))


def pairs(mesh: SphereMesh) -> Iterator[tuple[str, Measure, Measure, int, str, float | None]]:
    """Name, measures, p, cost and known distance of every pair."""
    equator = np.exp(2.0)
    axial = on_mesh(mesh, initial.uniform()), on_mesh(mesh, gaussian([equator, equator, 1.0]))
    quantiles = exact.axial_quantile(1.0, 1.0), exact.axial_quantile(equator, 1.0)
    for cost in ("chordal", "geodesic"):
        yield "axial", *axial, 2, cost, exact.axial_distance(*quantiles, cost)
    for dim, name in ((1, "line"), (2, "plane")):
        project = limits.Projection(AXES[3][:, :dim])
        for t in TIMES:
            mu = on_mesh(mesh, gaussian([np.exp(2.0 * t)] * dim + [1.0] * (3 - dim)))
            known = float(exact.zero_temperature_distance(t, 1.0, dim))
            yield f"{name} t = {t:g}", mu, mu.push(project), 2, "chordal", known
    laws = [initial.random_band_limited(seed, amplitude=0.9) for seed in (1, 2)]
    for p, cost in COSTS:
        yield "general", on_mesh(mesh, laws[0]), on_mesh(mesh, laws[1]), p, cost, None


def peer_seconds(mu: Measure, nu: Measure, p: int, cost: str) -> float | None:
    """Seconds of POT's exact solver and its cost matrix; None where there is none to run."""
    try:
        import ot
    except ImportError:
        return None
    if max(mu.n, nu.n) > PEER_ATOMS:
        return None
    start = time.perf_counter()
    chords: Array = np.sqrt(np.maximum(2.0 - 2.0 * mu.points @ nu.points.T, 0.0))
    costs = chords if cost == "chordal" else 2.0 * np.arcsin(np.minimum(0.5 * chords, 1.0))
    ot.emd2(mu.weights, nu.weights, costs**p, numItermax=10_000_000)
    return time.perf_counter() - start


def measure_all(frequencies: Sequence[int]) -> Iterator[Row]:
    """All pairs on all meshes."""
    small = on_mesh(icosphere(2), initial.uniform())
    for p, cost in COSTS:  # compiles the kernels
        wasserstein.distance(small, small, p, cost)
    for frequency in frequencies:
        for name, mu, nu, p, cost, known in pairs(icosphere(frequency)):
            start = time.perf_counter()
            found = wasserstein.distance(mu, nu, p, cost)
            seconds = time.perf_counter() - start
            yield Row(name, mu.n, p, cost, found, known, seconds, peer_seconds(mu, nu, p, cost))


def table(rows: Sequence[Row]) -> Table:
    """A line for each pair."""
    lines = []
    for row in rows:
        error = None if row.known is None else row.error
        found = row.found.value, row.width, row.known, error, row.seconds, row.peer
        lines.append((row.name, row.n, f"W{row.p} {row.cost}", *found))
    columns = ["pair", "cells", "W", "value:.6f", "bracket:.0e"]
    columns += ["exact:.6f", "error:.1e", *each(".1f", "seconds", "POT")]
    return Table("", columns, lines)


def promised(rows: Sequence[Row]) -> Iterator[Bar]:
    """Width, time and the closed forms, on meshes of at least 10,242 cells for the latter."""
    yield Bar.at_most("widest bracket", max(row.width for row in rows), WIDTH)
    fine = [row for row in rows if row.n >= 10_000]
    if fine:
        yield Bar.at_most("largest error", np.nanmax([row.error for row in fine]), ERROR)
    slow = max((row.seconds for row in rows if row.n <= 10_242), default=0.0)
    yield Bar.at_most("seconds up to 10,242 cells", slow, SECONDS)


def study(options: Options) -> Outcome:
    """All pairs on all meshes."""
    rows = list(measure_all(options.frequencies))
    return Outcome([table(rows)], list(promised(rows)))


main = Command(study, meshes=[16], full=[16, 32, 64])


if __name__ == "__main__":
    sys.exit(main())
