"""Quadrature on spherical triangles and arcs: positive weights, points inside, any degree up to 10.

A rule of degree p integrates polynomials of degree p on a flat triangle exactly. Carried to the
sphere with the exact Jacobian of the central projection it stays of high order: the mean of a
smooth function over a cell of size h has an error O(h^(p+1)).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from meshes.checks import integer
from meshes.geometry import Array, Indices, arc_length, arc_midpoint, norm, triangle_area, unit

# Fully symmetric rules on the triangle: {degree: ((weight, barycentric coordinates), ...)}, a line
# for each orbit of the triangle's symmetries; the weights of all points sum to 1. Where the
# literature's smallest rule of a degree has points outside or negative weights (3, 7), the next
# degree's serves. Of the types of Dunavant, Int. J. Numer. Methods Eng. 21 (1985); coordinates
# from the moment equations, by Newton's method in 40 digits.
_THIRD = (1 / 3, 1 / 3, 1 / 3)
_ORBITS: dict[int, tuple[tuple[float, tuple[float, float, float]], ...]] = {
    1: ((1.0, _THIRD),),
    2: ((1 / 3, (1 / 6, 1 / 6, 2 / 3)),),
    4: (
        (0.223381589678011466, (0.108103018168070227, 0.445948490915964886, 0.445948490915964886)),
        (
            0.109951743655321868,
            (0.0915762135097707435, 0.0915762135097707435, 0.816847572980458513),
        ),
    ),
    5: (
        (0.225, _THIRD),
        (0.132394152788506181, (0.0597158717897698205, 0.47014206410511509, 0.47014206410511509)),
        (0.125939180544827153, (0.101286507323456339, 0.101286507323456339, 0.797426985353087322)),
    ),
    6: (
        (
            0.0807310895930309783,
            (0.0397240717755699119, 0.480137964112215044, 0.480137964112215044),
        ),
        (0.17133312415298103, (0.21942998254978296, 0.21942998254978296, 0.56114003490043408)),
        (
            0.0406345597936606625,
            (0.0193717243612407884, 0.141619015923968158, 0.839009259714791053),
        ),
    ),
    8: (
        (0.144315607677787168, _THIRD),
        (0.10321737053471825, (0.170569307751760207, 0.170569307751760207, 0.658861384496479587)),
        (
            0.0324584976231980803,
            (0.0505472283170309755, 0.0505472283170309755, 0.898905543365938049),
        ),
        (
            0.0950916342672846248,
            (0.0814148234145536879, 0.459292588292723156, 0.459292588292723156),
        ),
        (
            0.0272303141744349943,
            (0.00839477740995760534, 0.263112829634638113, 0.728492392955404281),
        ),
    ),
    9: (
        (0.0971357962827988338, _THIRD),
        (
            0.0255776756586980313,
            (0.0447295133944527099, 0.0447295133944527099, 0.91054097321109458),
        ),
        (
            0.0313347002271390705,
            (0.0206349616025247444, 0.489682519198737628, 0.489682519198737628),
        ),
        (0.079647738927210253, (0.18820353561903273, 0.18820353561903273, 0.62359292876193454)),
        (0.0778275410047742793, (0.125820817014126725, 0.437089591492936637, 0.437089591492936637)),
        (
            0.0432835393772893773,
            (0.0368384120547362836, 0.221962989160765696, 0.741198598784498021),
        ),
    ),
    10: (
        (0.0798945047412397078, _THIRD),
        (
            0.00822381869046419552,
            (0.0233088675100001907, 0.0233088675100001907, 0.953382264979999619),
        ),
        (0.0711238022323773346, (0.149827578795818854, 0.425086210602090573, 0.425086210602090573)),
        (0.045430592296170018, (0.147925626209534437, 0.223766973576973006, 0.628307400213492556)),
        (
            0.0373598562343052768,
            (0.0299460319541708865, 0.358740141864431465, 0.611313826181397649),
        ),
        (
            0.0308866568845639888,
            (0.0356325595875034813, 0.143295370426867145, 0.821072069985629373),
        ),
    ),
}
MAX_DEGREE = max(_ORBITS)


@dataclass(frozen=True, eq=False)
class CellQuadrature:
    """Quadrature nodes of all cells: cell i owns the nodes offsets[i] : offsets[i+1].

    points : (Q, d) unit vectors inside the cells
    weights : (Q,) > 0, summing to each cell's area
    offsets : (N+1,) int32
    """

    points: Array
    weights: Array
    offsets: Indices


@dataclass(frozen=True, eq=False)
class EdgeQuadrature:
    """Gauss points of all edges, and what a flux through them needs.

    points : (E, n, d) unit vectors on the edges, from ends[:, 0] towards ends[:, 1]
    weights : (E, n) > 0, summing to each edge's length
    normals : (E, d) unit, from the first to the second cell, tangent at every point of the edge
    ends : (E, 2, d), the second cell on the left of the way from ends[:, 0] to ends[:, 1]: the
        velocity v = x × grad(psi) has the flux psi(ends[:, 1]) - psi(ends[:, 0]) from first to
        second cell

    On the circle an edge is a point: n = 1, weight 1, and ends (E, 1, d) is the point itself.
    """

    points: Array
    weights: Array
    normals: Array
    ends: Array


def triangle_rule(degree: int) -> tuple[Array, Array]:
    """Barycentric points (q, 3) > 0 and weights (q,) > 0, sum 1, of a rule of at least `degree`.

    Raises ValueError unless 1 <= degree <= 10.

    >>> points, weights = triangle_rule(2)
    >>> points.shape, weights.shape
    ((3, 3), (3,))
    """
    degree = integer("degree", degree, at_least=1, at_most=MAX_DEGREE)
    orbits = _ORBITS[min(available for available in _ORBITS if available >= degree)]
    nodes = [(p, weight) for weight, orbit in orbits for p in sorted(set(permutations(orbit)))]
    return np.array([p for p, _ in nodes]), np.array([weight for _, weight in nodes])


def triangle_quadrature(a: Array, b: Array, c: Array, degree: int) -> tuple[Array, Array]:
    """Nodes (n, q, 3) and weights (n, q) on spherical triangles with corners a, b, c (n, 3).

    The flat triangle's points y are projected to x = y/|y|. A flat area dS at distance p of the
    origin covers the solid angle p dS / |y|^3, and p times the triangle's area is det(a,b,c)/2.
    Each triangle's weights are then scaled (by 1 + O(h^(degree+1))) to sum to its exact area, so
    that constants are integrated to rounding.
    """
    barycentric, rule_weights = triangle_rule(degree)
    y = np.einsum("qk,knd->nqd", barycentric, np.stack([a, b, c]), optimize=True)
    distance = norm(y)
    weights = rule_weights / distance**3
    weights *= (triangle_area(a, b, c) / weights.sum(axis=1))[:, None]
    y /= distance[..., None]
    return y, weights


def gauss_legendre(n: int) -> tuple[Array, Array]:
    """Nodes (n,) in (-1, 1) and weights (n,), sum 2, of degree 2n - 1.

    ValueError or TypeError unless n is an integer from 1 to 100.
    """
    n = integer("n", n, at_least=1, at_most=100)
    return np.polynomial.legendre.leggauss(n)


def arc_quadrature(a: Array, b: Array, n: int) -> tuple[Array, Array]:
    """n Gauss points (m, n, d) on the arcs from a to b (m, d), and weights (m, n) in radians."""
    nodes, rule_weights = gauss_legendre(n)
    half_angle = 0.5 * arc_length(a, b)[:, None]
    s = half_angle * nodes
    middle, direction = arc_midpoint(a, b), unit(b - a)
    points = np.cos(s)[..., None] * middle[:, None] + np.sin(s)[..., None] * direction[:, None]
    return points, half_angle * rule_weights
