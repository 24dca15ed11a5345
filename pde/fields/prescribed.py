"""Velocity fields given in advance, independent of the measure: classical transport tests.

Derivatives are central differences of eighth order along great circles, with a step at which
truncation (h^8 f^(9) / 630) and rounding (eps / h) both stay near 1e-13 for functions that vary
over an angle of about 1/4 or more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from meshes.geometry import dot, tangent_frame, tangent_projection
from pde.arguments import Array, function, real_array, unit_points
from pde.field import Field, UndefinedQuantity
from pde.measure import Measure

if TYPE_CHECKING:
    from meshes import EdgeQuadrature

STEP = 0.01
WEIGHTS = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""f'(0) h = sum_k WEIGHTS[k-1] (f(k h) - f(-k h)) + O(h^9)."""


class PrescribedVelocity(Field):
    """The tangential part of a given vector field f(x, t).

    f : f(x, t) -> (m, d) for (m, d) unit points x

    >>> spin = PrescribedVelocity(lambda x, t: np.cross([0.0, 0.0, 1.0], x))
    >>> spin.velocity([[1.0, 0.0, 0.0]])
    array([[0., 1., 0.]])
    """

    def __init__(self, f: Callable[[Array, float], Any]) -> None:
        self.f = function("f", f, "f(x, t) -> (m, d)")

    def __repr__(self) -> str:
        return f"PrescribedVelocity({getattr(self.f, '__name__', self.f)})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities at the (m, d) points x."""
        return self._values(unit_points("x", x), t)

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) surface divergence sum_i <e_i, D_{e_i} v>, by differences; d = 2 and 3."""
        x = unit_points("x", x)
        if x.shape[1] > 3:
            raise UndefinedQuantity(
                f"PrescribedVelocity has a divergence for d = 2 and 3 only, got d = {x.shape[1]}"
            )
        result = np.zeros(len(x))
        for e in np.moveaxis(tangent_frame(x), 1, 0):
            result += dot(e, along_great_circle(lambda y: self._values(y, t), x, e))
        return result

    def _values(self, x: Array, t: float) -> Array:
        values = real_array("f(x, t)", self.f(x, t))
        if values.shape != x.shape:
            raise ValueError(
                f"f(x, t) must have the shape of x, got {values.shape} for x of {x.shape}"
            )
        return tangent_projection(x, values)


class StreamFunction(Field):
    """The divergence-free field v = x × grad psi on the sphere of R^3.

    psi : psi(x, t) -> (m,) for (m, 3) unit points x

    The flux through an edge, from its first to its second cell, is psi(ends[1]) - psi(ends[0])
    to rounding: a constant density stays constant.

    >>> spin = StreamFunction(lambda x, t: -x[:, 2])   # v = e3 × x
    >>> spin.velocity([[1.0, 0.0, 0.0]]).round(12) + 0.0
    array([[0., 1., 0.]])
    """

    dim = 3

    def __init__(self, psi: Callable[[Array, float], Any]) -> None:
        self.psi = function("psi", psi, "psi(x, t) -> (m,)")
        # The points last used, with the edges that they belong to: asked for at every stage.
        self._arcs: tuple[EdgeQuadrature, Array] | None = None

    def __repr__(self) -> str:
        return f"StreamFunction({getattr(self.psi, '__name__', self.psi)})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, 3) velocities at the (m, 3) points x, by differences of psi of eighth order."""
        x = unit_points("x", x, self.dim)
        e1, e2 = np.moveaxis(tangent_frame(x), 1, 0)
        slope1, slope2 = (
            along_great_circle(lambda y: self._values(y, t), x, e)[:, None] for e in (e1, e2)
        )
        # x × e1 = e2 and x × e2 = -e1
        return slope1 * e2 - slope2 * e1

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) zeros."""
        return np.zeros(len(unit_points("x", x, self.dim)))

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """Raises UndefinedQuantity: a stream function's velocity is no gradient."""
        raise UndefinedQuantity(
            "StreamFunction has no potential: its velocity is a rotated gradient"
        )

    def normal_velocity(
        self, edges: EdgeQuadrature, mu: Measure | None = None, t: float = 0.0
    ) -> Array:
        """(E, n) velocities through the edges at their n Gauss points.

        <v, n> is the derivative of psi along the edge. psi is interpolated at the 2n + 1
        Gauss-Lobatto points of the edge; the interpolant's derivative, of degree 2n - 1, is
        integrated exactly by the Gauss points, so that the flux telescopes. Pointwise error
        O(length^(2n)), that of the edge quadrature.
        """
        nodes, derivative = _edge_differentiation(edges.points.shape[1])
        if self._arcs is None or self._arcs[0] is not edges:
            self._arcs = (edges, _arc_points(edges, nodes))
        values = self._values(self._arcs[1], t).reshape(-1, len(nodes))
        lengths = np.maximum(edges.weights.sum(axis=1), np.finfo(float).tiny)
        return (values @ derivative.T) / lengths[:, None]

    def _values(self, x: Array, t: float) -> Array:
        values = real_array("psi(x, t)", self.psi(x, t))
        if values.shape != x.shape[:1]:
            raise ValueError(
                f"psi(x, t) must have shape ({len(x)},) for {len(x)} points, got {values.shape}"
            )
        return values


def along_great_circle(f: Callable[[Array], Array], x: Array, e: Array) -> Array:
    """Derivatives of f at x along the unit tangents e, (m, ...) for f: (m, d) -> (m, ...)."""
    total: Any = 0.0
    for k, weight in enumerate(WEIGHTS, start=1):
        near, far = np.cos(k * STEP) * x, np.sin(k * STEP) * e
        total = total + weight * (f(near + far) - f(near - far))
    return total / STEP


def _arc_points(edges: EdgeQuadrature, nodes: Array) -> Array:
    """(E k, 3) points on the arcs at the fractions `nodes` (k,) of the way from end to end."""
    middle = edges.ends[:, 0] + edges.ends[:, 1]
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    # Edges run along normal × x, which stays defined where both ends coincide.
    along = np.cross(edges.normals, middle)
    angles = edges.weights.sum(axis=1)[:, None] * (nodes - 0.5)
    points = (
        np.cos(angles)[..., None] * middle[:, None] + np.sin(angles)[..., None] * along[:, None]
    )
    # The mesh's own vertices at the ends: the same bits for every edge that meets there.
    points[:, 0], points[:, -1] = edges.ends[:, 0], edges.ends[:, 1]
    return np.ascontiguousarray(points.reshape(-1, 3))


@lru_cache
def _edge_differentiation(n: int) -> tuple[Array, Array]:
    """(nodes (2n+1,), D (n, 2n+1)): D @ values is the interpolant's derivative at the Gauss points.

    nodes : Gauss-Lobatto points of [0, 1], ends included
    """
    polynomial = np.polynomial.legendre.Legendre
    interior = polynomial.basis(2 * n).deriv().roots().real
    nodes = np.concatenate([[-1.0], interior, [1.0]])
    gauss, _ = np.polynomial.legendre.leggauss(n)
    vandermonde = np.polynomial.legendre.legvander(nodes, 2 * n)
    slopes = np.stack([polynomial.basis(k).deriv()(gauss) for k in range(2 * n + 1)], axis=1)
    return 0.5 * (nodes + 1.0), 2.0 * slopes @ np.linalg.inv(vandermonde)
