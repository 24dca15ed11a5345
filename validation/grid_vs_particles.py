"""The same nonlocal equation by cells and by particles, at finite temperature.

Self-attention (SA) and its unnormalised form (USA) with V and B in general position. Two ways to
make particles: the cells' own masses at their centroids, moved as particles (both errors are second
order in the mesh width, and so is the difference of moments; the transport distance is of the size
of a cell, since cells stay where they are), and random samples of the initial law (differences of
moments fall like n^{-1/2}).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, Simulation, initial
from validation import wasserstein
from validation.study import Bar, Command, Curve, Option, Options, Outcome, Panel, Table, each

V = np.array([[1.2, 0.3, -0.2], [0.1, 0.8, 0.4], [-0.3, 0.2, 0.5]])
B = np.array([[1.0, -0.2, 0.1], [0.4, 0.9, 0.0], [0.0, 0.3, 1.1]])
FIELDS = {
    "SA": (SelfAttention(V, B, beta=4.0), 1.0),
    "USA": (SelfAttention(V, B, beta=2.0, normalized=False), 0.5),
}
"""Field and final time."""
LAW = initial.random_band_limited(seed=3, degree=3, amplitude=0.7)
SAMPLES = (40, 160, 640)
SEEDS = 16


def differences(mu: Measure, nu: Measure) -> tuple[float, float, float]:
    """Euclidean norms of the differences of first and second moments, and W2."""
    return (
        float(np.linalg.norm(mu.mean() - nu.mean())),
        float(np.linalg.norm(mu.second_moment() - nu.second_moment())),
        wasserstein.distance(mu, nu).value,
    )


def on_grid(name: str, frequency: int) -> tuple[float, Measure, Measure]:
    """(mesh width, initial and final measure) of the finite-volume solution."""
    field, until = FIELDS[name]
    system = FiniteVolume(icosphere(frequency), Equation(field), order=2)
    state = system.mesh.average(LAW)
    state /= state @ system.mesh.areas
    simulation = Simulation(system, state)
    simulation.run(until=until)
    return system.mesh.spacing, system.measure(state), system.measure(simulation.state)


def moved(name: str, start: Measure) -> Measure:
    """The final measure of particles that start as `start`."""
    field, until = FIELDS[name]
    system = ParticleSystem(Equation(field), start.weights)
    simulation = Simulation(system, start.points)
    simulation.run(until=until)
    return system.measure(simulation.state)


def by_mesh(name: str, frequencies: Sequence[int]) -> tuple[list[tuple], list[Measure]]:
    """Cells against their own masses as particles; the grids' measures.

    A row is (cells, mesh width, differences of first and second moments, W2).
    """
    rows, grids = [], []
    for frequency in frequencies:
        h, start, final = on_grid(name, frequency)
        rows.append((start.n, h, *differences(final, moved(name, start))))
        grids.append(final)
    return rows, grids


def by_number(name: str, grid: Measure, numbers: Sequence[int]) -> list[tuple]:
    """Random samples against the grid, root mean squares over the seeds.

    A row is (particles, differences of first and second moments, W2).
    """
    rows = []
    for n in numbers:
        clouds = [moved(name, Measure(initial.sample(LAW, n, seed))) for seed in range(SEEDS)]
        squares = np.square([differences(cloud, grid) for cloud in clouds])
        rows.append((n, *np.sqrt(squares.mean(axis=0))))
    return rows


def mesh_bars(name: str, rows: Sequence[tuple]) -> Iterator[Bar]:
    """Moments differ to second order; particles lie a fraction of a cell away from the centroids.

    The root mean square distance of a hexagon's points to its center is 0.37 h, so that no better
    than this can be expected of points anywhere.
    """
    if len(rows) > 1 and rows[-1][0] >= 642:
        (_, h0, *coarse, _), (_, h1, *fine, _) = rows[-2:]
        for which, e0, e1 in zip(("first", "second"), coarse, fine, strict=True):
            order = np.log(e0 / e1) / np.log(h0 / h1)
            yield Bar.at_least(f"{name}: order of {which} moments", order, 1.65)
    for cells, h, *_, w2 in rows:
        yield Bar.at_most(f"{name}: W2 in cell widths, {cells} cells", w2 / h, 0.6)


def number_bars(name: str, rows: Sequence[tuple]) -> Iterator[Bar]:
    """Moments fall like n^{-1/2}, within what so many seeds can tell, W2 nearly so (plus h)."""
    if len(rows) < 2:
        return
    first, last = rows[0], rows[-1]
    for column, which in ((1, "first"), (2, "second")):
        power = np.log(first[column] / last[column]) / np.log(last[0] / first[0])
        what = f"{name}: {which} moments fall like n^-p, |p - 1/2|"
        yield Bar.at_most(what, abs(power - 0.5), 0.15)
    yield Bar.at_most(f"{name}: W2, most to fewest particles", last[3] / first[3], 0.5)


def panel(title: str, xlabel: str, results: dict[str, list[tuple]], column: int) -> Panel:
    """Differences over the values of a column."""
    curves = [
        Curve([row[column] for row in rows], [row[k - 3] for row in rows], "o-", 3 * i + k, what)
        for i, (name, rows) in enumerate(results.items())
        for k, what in enumerate(
            f"{name}: {of}" for of in ("first moments", "second moments", "W2")
        )
    ]
    return Panel(title, xlabel, "difference", curves, log="xy")


def study(options: Options) -> Outcome:
    """Both fields, by mesh and by number of particles."""
    tables, promises = [], []
    meshes: dict[str, list[tuple]] = {}
    numbers: dict[str, list[tuple]] = {}
    ends = [*each(".2e", "first moments", "second moments"), "W2:.4f"]
    for name in FIELDS:
        meshes[name], grids = by_mesh(name, options.frequencies)
        numbers[name] = by_number(name, grids[-1], options.particles)
        same = f"{name}: cells against the same cells as particles"
        random = f"{name}: {grids[-1].n} cells against random samples"
        tables.append(Table(same, ["cells", "h:.4f", *ends], meshes[name]))
        tables.append(Table(random, ["particles", *ends], numbers[name]))
        promises += [*mesh_bars(name, meshes[name]), *number_bars(name, numbers[name])]
    panels = [
        panel("cells, the same cells as particles", "h", meshes, 1),
        panel("finest grid, random samples", "particles", numbers, 0),
    ]
    return Outcome(tables, promises, panels=panels)


NUMBERS = Option.numbers("--particles", SAMPLES, "N", "numbers of random samples")
main = Command(study, NUMBERS, meshes=[4, 8, 16], full=[8, 16, 32, 64])


if __name__ == "__main__":
    sys.exit(main())
