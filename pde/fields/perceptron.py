"""The perceptron of a transformer layer as a velocity field: v(x) = P_x W s(A x + b).

It acts on every token by itself, so the field is local (Geshkovski, Letrouit, Polyanskiy and
Rigollet, arXiv:2312.10794; Rigollet, arXiv:2512.01868).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from meshes.geometry import dot, tangent_projection
from pde.arguments import Array, coefficients, one_of, real_array, shown, unit_points
from pde.field import Field, UndefinedQuantity
from pde.measure import Measure

Function = Callable[[Array], Any]


@dataclass(frozen=True)
class Activation:
    """s, applied entry by entry, with s' and an antiderivative S of s where they are known."""

    name: str
    value: Function
    derivative: Function | None = None
    antiderivative: Function | None = None


def _bell(z: Array) -> Array:
    return np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        Activation("identity", lambda z: z, np.ones_like, lambda z: 0.5 * z**2),
        Activation(
            "relu",
            lambda z: np.maximum(z, 0.0),
            lambda z: (z > 0.0).astype(float),
            lambda z: 0.5 * np.maximum(z, 0.0) ** 2,
        ),
        Activation(
            "gelu",  # z times the normal distribution function, not its tanh approximation
            lambda z: z * ndtr(z),
            lambda z: ndtr(z) + z * _bell(z),
            lambda z: 0.5 * ((z**2 - 1.0) * ndtr(z) + z * _bell(z)),
        ),
        Activation(
            "tanh",
            np.tanh,
            lambda z: 1.0 - np.tanh(z) ** 2,
            lambda z: np.logaddexp(z, -z) - np.log(2.0),
        ),
        Activation(
            "sigmoid", expit, lambda z: expit(z) * expit(-z), lambda z: np.logaddexp(0.0, z)
        ),
    )
}
"""Hendrycks and Gimpel, arXiv:1606.08415, for gelu; its antiderivative by parts."""


class Perceptron(Field):
    """v(x) = P_x W s(A x + b).

    W : (d, k); A : (k, d), any width k; b : (k,), None: 0
    activation : "identity", "relu", "gelu", "tanh", "sigmoid", or a function (m, k) -> (m, k) that
        acts entry by entry
    derivative : of an activation given as a function, needed for the divergence alone

    The divergence is exact; at the kink of relu it is one of the two sides'. Raises TypeError or
    ValueError for shapes that do not fit and for an unknown activation.

    >>> layer = Perceptron(np.eye(2), np.diag([1.0, -1.0]), activation="relu")
    >>> layer.velocity([[0.6, 0.8], [0.6, -0.8]]).round(3)
    array([[ 0.384, -0.288],
           [ 0.768,  0.576]])
    """

    is_autonomous = True

    dim: int

    def __init__(
        self,
        W: Any,
        A: Any,
        b: Any = None,
        activation: str | Function = "relu",
        derivative: Function | None = None,
    ) -> None:
        self.W, self.A = coefficients("W", W, ndim=2), coefficients("A", A, ndim=2)
        self.dim, width = self.W.shape
        if self.dim < 2 or width < 1 or self.A.shape != (width, self.dim):
            raise ValueError(
                "W and A must have shapes (d, k) and (k, d) with d >= 2, "
                f"got {self.W.shape} and {self.A.shape}"
            )
        self.b = np.zeros(width) if b is None else coefficients("b", b, ndim=1)
        if len(self.b) != width:
            raise ValueError(f"b must have shape ({width},) like A's rows, got {self.b.shape}")
        self.activation = _activation(activation, derivative)

    def __repr__(self) -> str:
        width = len(self.b)
        return f"Perceptron(d={self.dim}, width={width}, activation={self.activation.name!r})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities at the (m, d) points x."""
        x = unit_points("x", x, self.dim)
        return tangent_projection(x, self.output(x))

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) W s(A x + b) at the (m, d) points x."""
        z = self._arguments(unit_points("x", x, self.dim))
        return self._applied("activation", self.activation.value, z) @ self.W.T

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) tr(P_x DF) - (d-1) <x, F> at x, for F the output and DF = W diag(s') A.

        Raises UndefinedQuantity where the derivative of the activation is not known.
        """
        x = unit_points("x", x, self.dim)
        if self.activation.derivative is None:
            raise UndefinedQuantity(
                f"divergence needs the derivative of {self.activation.name}: "
                "give Perceptron(..., derivative=...)"
            )
        slopes = self._applied("derivative", self.activation.derivative, self._arguments(x))
        trace = slopes @ np.einsum("kd,dk->k", self.A, self.W)
        radial = np.einsum("mk,mk,mk->m", x @ self.W, slopes, x @ self.A.T)
        return trace - radial - (self.dim - 1) * dot(x, self.output(x))

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) c sum_k S((A x + b)_k) with S' = s, where W = c A^T.

        For the identity also <x, W A x> / 2 + <x, W b>, where W A is symmetric.
        """
        x = unit_points("x", x, self.dim)
        linear = self.W @ self.A
        if self.activation.name == "identity" and _equal(linear, linear.T):
            return 0.5 * dot(x, x @ linear) + x @ (self.W @ self.b)
        square = float(np.vdot(self.A, self.A))
        c = float(np.vdot(self.W, self.A.T)) / square if square > 0.0 else 0.0
        if self.activation.antiderivative is None or not _equal(self.W, c * self.A.T):
            raise UndefinedQuantity(
                "potential needs W = c A^T and an activation known by name (or the identity and "
                "W A symmetric): otherwise the velocity of Perceptron is no gradient that is known"
            )
        return c * np.sum(self.activation.antiderivative(self._arguments(x)), axis=1)

    def _arguments(self, x: Array) -> Array:
        """(m, k) A x + b."""
        return x @ self.A.T + self.b

    def _applied(self, name: str, f: Function, z: Array) -> Array:
        """f(z), checked: the function may be a caller's own."""
        values = real_array(f"{name}(z)", f(z))
        if values.shape != z.shape:
            raise ValueError(
                f"{name} must act entry by entry, got shape {values.shape} for {z.shape}"
            )
        return values


def _activation(given: str | Function, derivative: Function | None) -> Activation:
    if derivative is not None and not callable(derivative):
        raise TypeError(f"derivative must be a function or None, got {shown(derivative)}")
    if isinstance(given, str):
        if derivative is not None:
            raise ValueError(f"derivative must be None for the known activation {given!r}")
        return ACTIVATIONS[one_of("activation", given, ACTIVATIONS)]
    if not callable(given):
        raise TypeError(f"activation must be a name or a function, got {shown(given)}")
    return Activation(getattr(given, "__name__", repr(given)), given, derivative)


def _equal(a: Array, b: Array) -> bool:
    """Whether a = b to rounding of their largest entry."""
    return bool(np.abs(a - b).max() <= 1e-12 * np.abs(a).max())
