"""Velocity fields that act on every particle by itself: linear drifts and external potentials.

    Drift           v(x) = P_x A x
    PotentialDrift  v(x) = P_x grad psi(x), uphill

Added to attention they are the one-body terms of the equation; for terms that depend on time see
`pde.fields.time_dependent`, for a layer's perceptron `pde.fields.perceptron`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshes.geometry import dot, norm, tangent_projection, unit
from pde.arguments import Array, function, real_array, square_matrix, unit_points
from pde.field import Field, UndefinedQuantity
from pde.fields.attention import is_symmetric
from pde.fields.prescribed import along_great_circle
from pde.measure import Measure


class Drift(Field):
    """v(x) = P_x A x: the flow x(t) = e^{tA} x0 / |e^{tA} x0|.

    A : (d, d); a symmetric A drives to its top eigenspace, an antisymmetric one rotates

    The zero-temperature equation with B orthogonal is this field with A = V B^T
    (Alcalde, Bungert, Riedl and Roith, arXiv:2605.10931).

    >>> Drift([[1.0, 0.0], [0.0, -1.0]]).velocity([[0.6, 0.8]]).round(3)
    array([[ 0.768, -0.576]])
    """

    is_autonomous = True

    dim: int

    def __init__(self, A: Any) -> None:
        self.A = square_matrix("A", A)
        self.dim = len(self.A)

    def __repr__(self) -> str:
        return f"Drift(d={self.dim})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities at the (m, d) points x."""
        x = unit_points("x", x, self.dim)
        return tangent_projection(x, self.output(x))

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) A x at the (m, d) points x."""
        return unit_points("x", x, self.dim) @ self.A.T

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) tr A - d <x, A x> at x."""
        x = unit_points("x", x, self.dim)
        return np.trace(self.A) - self.dim * dot(x, x @ self.A)

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) <x, A x> / 2, for A symmetric; otherwise UndefinedQuantity."""
        x = unit_points("x", x, self.dim)
        if not is_symmetric(self.A):
            raise UndefinedQuantity(
                "potential needs A symmetric: otherwise the velocity of Drift is no gradient"
            )
        return 0.5 * dot(x, x @ self.A)


class PotentialDrift(Field):
    """v(x) = P_x grad psi(x): every particle climbs psi.

    psi : psi(x) -> (m,) for (m, d) unit points x
    gradient : gradient(x) -> (m, d), of psi in R^d or along the sphere: its radial part does not
        matter for the velocity

    -1.0 * PotentialDrift(psi, gradient) descends. For psi that depends on time take
    TimeDependent(lambda t: PotentialDrift(...)).

    >>> up = PotentialDrift(lambda x: x[:, 1], lambda x: np.tile([0.0, 1.0], (len(x), 1)))
    >>> up.velocity([[0.6, 0.8]]).round(3), up.potential([[0.6, 0.8]])
    (array([[-0.48,  0.36]]), array([0.8]))
    """

    is_autonomous = True

    def __init__(self, psi: Callable[[Array], Any], gradient: Callable[[Array], Any]) -> None:
        self.psi = function("psi", psi, "of points (m, d)")
        self.gradient = function("gradient", gradient, "of points (m, d)")

    def __repr__(self) -> str:
        return f"PotentialDrift({getattr(self.psi, '__name__', self.psi)})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities at the (m, d) points x."""
        x = unit_points("x", x)
        return tangent_projection(x, self.output(x))

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) the gradient as given, at the (m, d) points x."""
        x = unit_points("x", x)
        values = real_array("gradient(x)", self.gradient(x))
        if values.shape != x.shape:
            raise ValueError(
                f"gradient(x) must have the shape of x, got {values.shape} for x of {x.shape}"
            )
        return values

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) surface divergence at x, the Laplace-Beltrami operator of psi, by differences."""
        return divergence_by_differences(self.velocity, unit_points("x", x))

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) psi at x."""
        x = unit_points("x", x)
        values = real_array("psi(x)", self.psi(x))
        if values.shape != x.shape[:1]:
            raise ValueError(
                f"psi(x) must have shape ({len(x)},) for {len(x)} points, got {values.shape}"
            )
        return values


def divergence_by_differences(velocity: Callable[[Array], Array], x: Array) -> Array:
    """(m,) surface divergence of a tangent field at the (m, d) unit points x, any d.

    div v = sum_i <P_x e_i, D_{P_x e_i} v> over the axes e_i of R^d, with derivatives of eighth
    order along great circles (`pde.fields.prescribed`): 8 d evaluations of the field.
    """
    total = np.zeros(len(x))
    for axis in np.eye(x.shape[1]):
        e, length = _tangent(x, axis)
        total += length**2 * dot(e, along_great_circle(velocity, x, e))
    return total


def _tangent(x: Array, axis: Array) -> tuple[Array, Array]:
    """(unit tangents e (m, d), lengths (m,)) at x with P_x axis = length * e."""
    along = tangent_projection(x, np.broadcast_to(axis, x.shape))
    length = norm(along)
    # Next to the axis itself the direction is lost, and any other one does with the weight 0.
    lost = length < 1e-12
    length[lost] = 0.0
    along[lost] = tangent_projection(x[lost], np.broadcast_to(np.roll(axis, 1), x[lost].shape))
    # Twice: what the first projection leaves of x grows where `length` is small.
    return unit(tangent_projection(x, unit(along))), length
