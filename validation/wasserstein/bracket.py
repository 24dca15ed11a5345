"""The distance between two measures: bounds from a plan and its potentials, and from the meshes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import SINGLE_PRECISION, Array, one_of, positive
from pde.kernels import zonal
from pde.measure import Measure
from validation.wasserstein import optimal_transport
from validation.wasserstein.optimal_transport import RESOLUTION, Solution

TOTALS = SINGLE_PRECISION
"""Totals may differ by this much, relatively: the drift of a long run, or weights that sum to 1 in
float32, not a mistake. The second measure is scaled to the total of the first."""

EPS = float(np.finfo(float).eps)
KINDS = {
    ("chordal", 1): zonal.CHORDAL,
    ("chordal", 2): zonal.CHORDAL_SQUARED,
    ("geodesic", 1): zonal.GEODESIC,
    ("geodesic", 2): zonal.GEODESIC_SQUARED,
}
DIAMETER = {"chordal": 2.0, "geodesic": math.pi}


@dataclass(frozen=True, eq=False)
class Distance:
    """A Wasserstein distance and what is certain about it.

    value : from the cost of the plan that was found, lower <= value <= upper
    lower, upper : bounds of the distance between the atoms given, rounding included
    plan : (n, m) scipy sparse array with at most n + m - 1 entries, the plan behind `upper`
    discretization : bound of what the meshes add: the distance between the continuum laws lies
        within `discretization` of that between the atoms; None without meshes

    `float(...)` of it is the value.
    """

    value: float
    lower: float
    upper: float
    plan: Any
    discretization: float | None = None

    def __float__(self) -> float:
        return self.value


def distance(
    mu: Measure,
    nu: Measure,
    p: int = 2,
    cost: str = "chordal",
    tolerance: float = 1e-9,
    meshes: tuple[SphereMesh | None, SphereMesh | None] | None = None,
) -> Distance:
    """W_p between two measures of equal total, for p = 1 or 2 and "chordal" or "geodesic" cost.

    Masses are taken as they are: W_p^p scales with the total. Totals that differ by less than
    a relative 1e-6 are brought to that of `mu`; larger differences are an error. Points are
    divided by their lengths.

    tolerance : relative duality gap of W_p^p; the bracket is narrower than this, up to rounding
    meshes : where mu or nu is `Measure.from_mesh` of a mesh, for `discretization`

    Raises ValueError for measures without mass, of unequal totals or in different dimensions.

    >>> mu, nu = Measure([[1.0, 0.0]]), Measure([[0.0, 1.0]])
    >>> round(distance(mu, nu).value, 6), round(distance(mu, nu, cost="geodesic").value, 6)
    (1.414214, 1.570796)
    """
    one_of("p", p, (1, 2))
    one_of("cost", cost, tuple(DIAMETER))
    tolerance = positive("tolerance", tolerance)
    _check(mu, nu)
    atoms_mu, x, a, missed_mu = _atoms(mu)
    atoms_nu, y, b, missed_nu = _atoms(nu)
    solution = optimal_transport.solve(x, a, y, b, KINDS[cost, p], tolerance)
    missed = mu.total * (missed_mu + missed_nu) * DIAMETER[cost] ** p
    value, lower, upper = _bracket(solution, a, b, mu.total, missed, (16 + mu.dim) * EPS)
    return Distance(
        value=value ** (1.0 / p),
        lower=lower ** (1.0 / p),
        upper=upper ** (1.0 / p),
        plan=_sparse(solution, atoms_mu, atoms_nu, mu, nu),
        discretization=None if meshes is None else _discretization(mu, nu, p, cost, meshes),
    )


def _check(mu: Measure, nu: Measure) -> None:
    for name, measure in (("mu", mu), ("nu", nu)):
        if not isinstance(measure, Measure):
            raise TypeError(f"{name} must be a Measure, got {type(measure).__name__}")
        if not measure.total > 0.0:
            raise ValueError(f"{name} must have mass, got {measure}")
    if mu.dim != nu.dim:
        raise ValueError(f"mu and nu must lie in one space, got dimensions {mu.dim} and {nu.dim}")
    if abs(mu.total - nu.total) > TOTALS * mu.total:
        raise ValueError(
            f"mu and nu must have equal totals (to a relative {TOTALS:g}), "
            f"got {mu.total:.12g} and {nu.total:.12g}"
        )


def _atoms(measure: Measure) -> tuple[Any, Array, Any, float]:
    """Indices, unit points and integer masses of the atoms; the share of mass that rounding moved.

    Atoms lighter than half a unit of mass are left out; the share counts them.
    """
    share = measure.weights / measure.total
    masses = optimal_transport.integer_masses(share)
    missed = float(np.abs(masses / RESOLUTION - share).sum()) + EPS
    kept = np.flatnonzero(masses)
    points = measure.points[kept]
    return kept, points / np.linalg.norm(points, axis=1)[:, None], masses[kept], missed


def _bracket(
    solution: Solution, a: Any, b: Any, total: float, missed: float, delta: float
) -> tuple[float, float, float]:
    """Cost of the plan, lower and upper bound of the minimal cost, with every rounding counted.

    delta : amply the relative rounding error of one cost: a sum of squares, root, arc tangent.
        So f + g <= c (1 + delta), and the potentials divided by 1 + delta are feasible.
    missed : what the mass that rounding to integers moved can cost
    Sums are exactly rounded (fsum): only the products and one subtraction in f count.
    """
    scale = total / RESOLUTION
    value = scale * math.fsum(solution.plan.mass * solution.cost)
    # A constant may go from f to g; terms of one size keep the rounding small.
    shift = 0.5 * float(np.median(solution.f) - np.median(solution.g))
    terms = np.concatenate([a * (solution.f - shift), b * (solution.g + shift)])
    rounding = 4.0 * EPS * scale * (math.fsum(np.abs(terms)) + RESOLUTION * abs(shift))
    lower = scale * math.fsum(terms) * (1.0 - delta) - rounding - missed
    return value, min(max(lower, 0.0), value), value * (1.0 + delta) + missed


def _sparse(solution: Solution, atoms_mu: Any, atoms_nu: Any, mu: Measure, nu: Measure) -> Any:
    from scipy.sparse import csr_array

    plan = solution.plan
    entries = (atoms_mu[plan.source], atoms_nu[plan.sink])
    return csr_array((plan.mass * (mu.total / RESOLUTION), entries), shape=(mu.n, nu.n))


def _discretization(
    mu: Measure, nu: Measure, p: int, cost: str, meshes: tuple[SphereMesh | None, SphereMesh | None]
) -> float:
    """Sum over both of (sum_i m_i r_i^p)^(1/p): within a cell, mass moves by at most r_i."""
    result = 0.0
    for name, measure, mesh in (("mu", mu, meshes[0]), ("nu", nu, meshes[1])):
        if mesh is None:
            continue
        if measure.n != mesh.n_cells:
            raise ValueError(
                f"{name} must hold one atom for each of its mesh's {mesh.n_cells} cells, "
                f"got {measure.n}"
            )
        corners = mesh.vertices[mesh.cell_vertices]
        atoms = np.repeat(measure.points, np.diff(mesh.cell_offsets), axis=0)
        chords = np.linalg.norm(corners - atoms, axis=1)
        radii = np.maximum.reduceat(chords, mesh.cell_offsets[:-1])
        if cost == "geodesic":
            radii = 2.0 * np.arcsin(0.5 * radii)
        result += float(measure.weights @ radii**p) ** (1.0 / p)
    return result
