"""One law on cells and as particles, side by side over time, and what studies read off from it.

The particles are the cells' own masses at their centroids, so that both discretisations start from
one measure and neither carries sampling noise. A study makes two kinds of statements:

    bars      proven statements and promises of the code: one that is missed is exit status 1
    findings  what a run shows of a claim whose constants the theory leaves open: a finding may be
              negative, and is then printed as such, without an exit status
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from meshes import SphereMesh, circle, icosphere
from meshes.quadrature import gauss_legendre
from pde import Equation, FiniteVolume, Measure, ParticleSystem, Simulation
from pde.arguments import Array
from pde.field import Field
from pde.limits import orthonormal_columns

CELLS_PER_FREQUENCY = 24
"""Cells of the circle for each unit of the sphere's frequency: a circle is cheap."""

FINE = {2: 8192, 3: 48}
"""Cells of the circle, frequency of the sphere's mesh, for laws that are moved exactly."""

PARTICLE_TOLERANCE = 1e-6
"""Largest error of a particle's step: far below a cell."""

AXES: dict[int, Array] = {
    2: np.array([[0.8, -0.6], [0.6, 0.8]]),
    3: np.linalg.qr(np.array([[0.3, 0.5, -0.8], [0.9, -0.1, 0.4], [0.2, 0.7, 0.6]]))[0],
}
"""Orthonormal e_1, ..., e_d in columns, in general position to the meshes."""


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Measures at `times` (K,): of the cells and of the particles; `width` of the cells."""

    times: Array
    grid: list[Measure]
    particles: list[Measure]
    width: float

    def of_both(self, f: Callable[[Measure], float]) -> dict[str, Array]:
        """(K,) values of f over time, for "grid" and "particles"."""
        return {
            "grid": np.array([f(mu) for mu in self.grid]),
            "particles": np.array([f(mu) for mu in self.particles]),
        }


@dataclass(frozen=True)
class Finding:
    """What a claim says, what was measured, and whether the two agree."""

    text: str
    agrees: bool

    def __str__(self) -> str:
        return f"{'shown    ' if self.agrees else 'NOT SHOWN'}  {self.text}"


def symmetric(eigenvalues: Any) -> Array:
    """(d, d) symmetric matrix with the given eigenvalues on AXES, in their order."""
    R = AXES[len(eigenvalues)]
    A = (R * np.asarray(eigenvalues, dtype=float)) @ R.T
    return 0.5 * (A + A.T)


def mesh_of(d: int, frequency: int) -> SphereMesh:
    """The mesh of a study on the circle (d = 2) or the sphere (d = 3)."""
    return circle(CELLS_PER_FREQUENCY * frequency) if d == 2 else icosphere(frequency)


def cells_of(law: Callable[[Array], Array], mesh: SphereMesh) -> Array:
    """(N,) cell averages of the law, scaled to total mass 1."""
    rho = mesh.average(law)
    return rho / (rho @ mesh.areas)


def fine_measure(law: Callable[[Array], Array], d: int) -> Measure:
    """The law on a mesh finer than any that a study solves on, for what is a map of points."""
    mesh = circle(FINE[d]) if d == 2 else icosphere(FINE[d])
    return Measure.from_mesh(mesh, cells_of(law, mesh))


def run(
    velocity: Field, law: Callable[[Array], Array], mesh: SphereMesh, times: Sequence[float] | Array
) -> SideBySide:
    """Solve from `law` by finite volumes of order 2 and by particles; both kept at `times`.

    law : density (m, d) -> (m,), up to a factor; times : (K,) increasing, the first one 0
    """
    times = np.asarray(times, dtype=float)
    equation, rho = Equation(velocity), cells_of(law, mesh)
    start = Measure.from_mesh(mesh, rho)
    cells = Simulation(FiniteVolume(mesh, equation, order=2), rho)
    tokens = Simulation(
        ParticleSystem(equation, start.weights), start.points, tolerance=PARTICLE_TOLERANCE
    )
    grid, particles = (
        simulation.run(until=float(times[-1]), save_at=times).measures
        for simulation in (cells, tokens)
    )
    return SideBySide(times, grid, particles, mesh.spacing)


def slope(x: Any, y: Any) -> float:
    """Slope of the line of least squares through the points (x, y); nan for fewer than two.

    >>> slope([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    2.0
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 2:
        return np.nan
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def rate(times: Array, values: Array, window: Any) -> float:
    """c where values behave like e^{-ct} in the window, a mask (K,); nan for too few times."""
    return -slope(times[window], np.log(values[window]))


def minimum(times: Array, values: Array) -> tuple[float, float]:
    """(time, value) of the least of positive values: of a parabola through three logarithms.

    The least value itself at either end of the times, which must be evenly spaced.
    """
    i = int(np.argmin(values))
    if i in (0, len(values) - 1):
        return float(times[i]), float(values[i])
    before, here, after = np.log(values[i - 1 : i + 2])
    curvature = before - 2.0 * here + after
    if curvature <= 0.0:
        return float(times[i]), float(values[i])
    shift = 0.5 * (before - after) / curvature
    time = times[i] + shift * (times[i + 1] - times[i])
    return float(time), float(np.exp(here - 0.125 * (before - after) ** 2 / curvature))


def crossing(times: Array, values: Array, level: float) -> float:
    """The first time at which values reach `level` from below, linear in between; nan: never."""
    reached = np.flatnonzero(values >= level)
    if len(reached) == 0:
        return np.nan
    i = int(reached[0])
    if i == 0:
        return float(times[0])
    share = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(times[i - 1] + share * (times[i] - times[i - 1]))


def axis_shares(mu: Measure, axes: Array, angle: float = np.pi / 6.0) -> Array:
    """(k,) shares of mu's mass within `angle` of + or - each column of the (d, k) axes.

    >>> axis_shares(Measure([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8], [-1.0, 0.0]]), np.eye(2))
    array([0.5 , 0.25])
    """
    near = np.abs(mu.points @ orthonormal_columns("axes", axes)) >= np.cos(angle)
    return (mu.weights @ near) / mu.total


def half_mass(law: Callable[[Array], Array], e: Array) -> float:
    """Share of the law's mass where <x, e> > 0, d = 2 or 3, by a spectral quadrature.

    law : smooth density, up to a factor; e : (d,) unit vector
    """
    nodes, weights = gauss_legendre(32)
    d = len(e)
    across = np.linalg.svd(e[None])[2][1:]
    if d == 2:
        angles, weights = 0.5 * np.pi * nodes, 0.5 * np.pi * weights
        points = np.cos(angles)[:, None] * e + np.sin(angles)[:, None] * across[0]
    else:
        u, turn = 0.5 * (nodes + 1.0), np.pi * np.arange(64) / 32.0
        ring = np.cos(turn)[:, None] * across[0] + np.sin(turn)[:, None] * across[1]
        points = u[:, None, None] * e + np.sqrt(1.0 - u**2)[:, None, None] * ring
        points, weights = points.reshape(-1, 3), np.repeat(weights, 64)
    plus, minus = weights @ law(points), weights @ law(-points)
    return float(plus / (plus + minus))


def coupling_cost(mu: Measure, nu: Measure) -> float:
    """(sum_i w_i |x_i - y_i|^2)^{1/2}: W2 of two images of one cloud is at most this.

    mu, nu : the same weights in the same order
    """
    if mu.n != nu.n or not np.allclose(mu.weights, nu.weights, rtol=1e-12, atol=0.0):
        raise ValueError("mu and nu must carry the same weights in the same order")
    return float(np.sqrt(mu.weights @ np.square(mu.points - nu.points).sum(axis=1)))


Curve = tuple[Any, Any, str, int]
"""x, y, matplotlib format, colour number; labels that begin with _ stay out of the legend."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes of a picture.

    curves : label -> curve
    """

    title: str
    xlabel: str
    ylabel: str
    curves: Mapping[str, Curve]
    scale: dict[str, Any] = field(default_factory=dict)


def draw(panels: Sequence[Panel], path: Path, columns: int = 3) -> None:
    """A picture of all panels, in rows of `columns`."""
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    columns = min(columns, len(panels))
    figure = Figure(figsize=(4.3 * columns, 3.4 * rows), layout="constrained")
    for i, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, i)
        for label, (x, y, form, colour) in panel.curves.items():
            axes.plot(x, y, form, color=f"C{colour}", ms=3, lw=1.2, label=label)
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel, **panel.scale)
        axes.title.set_fontsize("medium")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def numbers(row: Sequence[Any], form: str = ".3f") -> list[str]:
    """A row of a table: text as it is, numbers in one form, "-" for nan."""
    return [
        cell if isinstance(cell, str) else ("-" if np.isnan(cell) else f"{cell:{form}}")
        for cell in row
    ]
