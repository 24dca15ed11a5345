"""One law on cells and as particles, side by side over time, and what studies read off from it.

The particles are the cells' own masses at their centroids, so that both discretisations start from
one measure and neither carries sampling noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

BINS = 36
"""Of the circle, in which clusters are counted."""

OCCUPIED = 0.1
"""A tenth of the uniform share makes a bin of the circle occupied."""


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


def axis_shares(mu: Measure, axes: Array, angle: float = np.pi / 6.0) -> Array:
    """(k,) shares of mu's mass within `angle` of + or - each column of the (d, k) axes.

    >>> axis_shares(Measure([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8], [-1.0, 0.0]]), np.eye(2))
    array([0.5 , 0.25])
    """
    near = np.abs(mu.points @ orthonormal_columns("axes", axes)) >= np.cos(angle)
    return (mu.weights @ near) / mu.total


def arcs(mu: Measure, E: Array) -> int:
    """Number of clusters of mu on the circle of the plane E: runs of occupied bins of the angle.

    0 where all bins are occupied: there are no clusters (yet).

    >>> arcs(Measure([[1.0, 0.0], [0.0, 1.0], [-0.28, 0.96]]), np.eye(2))
    2
    """
    inside = mu.points @ E
    angles = np.arctan2(inside[:, 1], inside[:, 0])
    shares, _ = np.histogram(angles, bins=BINS, range=(-np.pi, np.pi), weights=mu.weights)
    occupied = shares > OCCUPIED * mu.total / BINS
    if occupied.all():
        return 0
    return int(np.count_nonzero(occupied & ~np.roll(occupied, 1)))


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
