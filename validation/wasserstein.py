"""Wasserstein distances between measures on the sphere, with certified bounds.

    W_p(mu, nu)^p = min { int c(x, y)^p dpi(x, y) : pi has marginals mu and nu },

c the chordal distance |x - y| or the geodesic one. The distance is the one of the atoms given;
what a mesh adds to the distance of the continuum laws is reported apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array, one_of
from pde.measure import Measure

TOTALS = 1e-9
"""Totals may differ by this much, relatively: the drift of a long run, not a mistake."""


@dataclass(frozen=True, eq=False)
class Distance:
    """A Wasserstein distance and what is certain about it.

    value : the distance of the transport plan that was found
    lower, upper : bounds of the distance between the atoms given: a feasible pair of dual
        potentials, a feasible plan; the rounding of the sums is allowed for
    plan : (n, m) scipy sparse array, the plan behind `upper`
    discretization : bound of what the meshes add: the distance between the continuum laws lies
        within `discretization` of that between the atoms; None without meshes
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
    meshes: tuple[SphereMesh | None, SphereMesh | None] | None = None,
) -> Distance:
    """W_p between two measures of equal total, for p = 1 or 2 and "chordal" or "geodesic" cost.

    Masses are taken as they are: W_p^p scales with the total. Totals that differ by less than
    a relative 1e-9 are brought to that of `mu`; larger differences are an error.
    meshes : where mu and nu are `Measure.from_mesh` of these meshes, for `discretization`.

    Raises ValueError for measures without mass, of unequal totals or in different dimensions.

    >>> mu, nu = Measure([[1.0, 0.0]]), Measure([[0.0, 1.0]])
    >>> round(distance(mu, nu).value, 6), round(distance(mu, nu, cost="geodesic").value, 6)
    (1.414214, 1.570796)
    """
    one_of("p", p, (1, 2))
    one_of("cost", cost, ("chordal", "geodesic"))
    _check(mu, nu)
    chord = np.linalg.norm(mu.points[:, None] - nu.points[None], axis=2)
    c = (chord if cost == "chordal" else 2.0 * np.arcsin(np.minimum(0.5 * chord, 1.0))) ** p
    a, b = mu.weights, nu.weights * (mu.total / nu.total)
    plan, u, v = _linear_programme(a, b, c)
    u = np.min(c - v[None], axis=1)
    upper = float((plan * c).sum())
    slack = 1e-12 * mu.total * float(c.max())
    lower = float(a @ u + b @ v)
    from scipy.sparse import csr_array

    return Distance(
        value=upper ** (1 / p),
        lower=max(lower - slack, 0.0) ** (1 / p),
        upper=(upper + slack) ** (1 / p),
        plan=csr_array(plan),
        discretization=None if meshes is None else _discretization(mu, nu, p, cost, meshes),
    )


def _check(mu: Measure, nu: Measure) -> None:
    for name, measure in (("mu", mu), ("nu", nu)):
        if not measure.total > 0.0:
            raise ValueError(f"{name} must have mass, got {measure}")
    if mu.dim != nu.dim:
        raise ValueError(f"mu and nu must lie in one space, got dimensions {mu.dim} and {nu.dim}")
    if abs(mu.total - nu.total) > TOTALS * mu.total:
        raise ValueError(
            f"mu and nu must have equal totals, got {mu.total:.12g} and {nu.total:.12g}"
        )


def _linear_programme(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Plan and dual potentials of a small dense problem."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    n, m = c.shape
    rows = kron(eye_array(n), np.ones((1, m)))
    columns = kron(np.ones((1, n)), eye_array(m))
    solved = linprog(c.ravel(), A_eq=vstack([rows, columns]), b_eq=np.concatenate([a, b]))
    if not solved.success:
        raise RuntimeError(f"the transport problem was not solved: {solved.message}")
    return solved.x.reshape(n, m), solved.eqlin.marginals[:n], solved.eqlin.marginals[n:]


def _discretization(
    mu: Measure,
    nu: Measure,
    p: int,
    cost: str,
    meshes: tuple[SphereMesh | None, SphereMesh | None],
) -> float:
    """Sum of (sum_i m_i r_i^p)^(1/p): mass moves within a cell by at most r_i, atom to corner."""
    total = 0.0
    for name, measure, mesh in (("mu", mu, meshes[0]), ("nu", nu, meshes[1])):
        if mesh is None:
            continue
        if measure.n != mesh.n_cells:
            raise ValueError(
                f"{name} must hold one atom for each of its mesh's {mesh.n_cells} cells, "
                f"got {measure.n}"
            )
        radius = mesh.cell_radii + np.arccos(
            np.clip(np.einsum("nd,nd->n", mesh.centers, measure.points), -1.0, 1.0)
        )
        if cost == "chordal":
            radius = 2.0 * np.sin(0.5 * radius)
        total += float(measure.weights @ radius**p) ** (1.0 / p)
    return total
