"""Softmax attention as a velocity field, at finite and at zero temperature.

With the log-partition function L[mu](xi) = log int e^{<xi,y>} dmu(y) and xi = beta B^T x,

    m[mu](x) = grad L(xi) = int y e^{beta <x,By>} dmu(y) / int e^{beta <x,By>} dmu(y),

the self-attention (SA) velocity is P_x V m and the unnormalised one (USA) P_x V e^L m
(Rigollet, arXiv:2512.01868; Alcalde, Bungert, Riedl and Roith, arXiv:2605.10931).

Divergences: for v = P_x F one has div v = tr(P_x DF) - (d-1) <x, F>, with
DF = beta V Cov B^T (SA) and beta V e^L (Cov + m m^T) B^T (USA), Cov = Hess L(xi).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from meshes.geometry import dot, norm, tangent_projection
from pde.arguments import Array, below_one, non_negative, real_array, square_matrix, unit_points
from pde.field import Field, UndefinedQuantity
from pde.measure import Measure
from pde.partition.direct import LARGEST_XI
from pde.partition.softmax import log_partition, log_partition_covariance, log_ratio

LARGEST_LOG_PARTITION = 700.0
"""e^{logZ} beyond this, times matrices and masses, leaves the range of float64."""

LARGEST_CONDITION = 1e12
"""Condition number from which on a matrix passes for singular."""


class SelfAttention(Field):
    """v(x) = P_x V m (SA), or P_x V e^L m (USA, `normalized=False`); see the module's docstring.

    V, B : (d, d) value matrix and bilinear form, B = Q^T K
    beta : inverse temperature >= 0
    normalized : softmax weights of total 1 (SA); false: the plain integral against mu (USA)
    tolerance : relative accuracy of the kernel sums; None: direct sums, to rounding

    Raises ValueError or TypeError for matrices that are not square, real, finite and of one size.

    >>> field = SelfAttention(np.eye(2), np.eye(2), beta=1.0)
    >>> mu = Measure([[1.0, 0.0], [0.0, 1.0]])
    >>> field.velocity(mu.points, mu).round(3)
    array([[0.   , 0.269],
           [0.269, 0.   ]])
    """

    is_nonlocal = True
    is_autonomous = True
    dim: int

    def __init__(
        self,
        V: Any,
        B: Any,
        beta: float,
        normalized: bool = True,
        tolerance: float | None = 1e-10,
    ) -> None:
        self.V = square_matrix("V", V)
        self.dim = len(self.V)
        self.B = square_matrix("B", B, self.dim)
        self.beta = non_negative("beta", beta)
        largest = np.abs(self.B).max()
        # Python's floats overflow without a warning.
        if self.dim * self.beta * float(largest) > LARGEST_XI:
            raise ValueError(
                f"beta times B must have entries up to {LARGEST_XI / self.dim:.3g} in size, got "
                f"beta = {self.beta:.3g} and B up to {largest:.3g}; the limit of large beta is "
                "ZeroTemperatureAttention"
            )
        self.normalized = bool(normalized)
        self.tolerance = None if tolerance is None else below_one("tolerance", tolerance)

    @classmethod
    def from_qkv(cls, Q: Any, K: Any, V: Any, beta: float, **options: Any) -> SelfAttention:
        """The field of query, key and value matrices: B = Q^T K.

        Q, K : (k, d) with any head dimension k; V : (d, d); options as for SelfAttention
        """
        Q, K = real_array("Q", Q, ndim=2), real_array("K", K, ndim=2)
        if Q.shape != K.shape:
            raise ValueError(f"Q and K must have one shape (k, d), got {Q.shape} and {K.shape}")
        return cls(V, Q.T @ K, beta, **options)

    def __repr__(self) -> str:
        kind = "" if self.normalized else ", normalized=False"
        return f"SelfAttention(d={self.dim}, beta={self.beta:g}{kind})"

    @cached_property
    def _is_constant(self) -> bool:
        """Whether every point attends equally to all, to rounding: m and e^L do not depend on x."""
        return self.dim * self.beta * float(np.abs(self.B).max()) < 1e-17

    @cached_property
    def _proportion(self) -> float | None:
        """c where V = c B, else None."""
        return _proportion(self.V, self.B)

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities at the (m, d) points x.

        Raises ValueError where USA's exponentials leave the range of floating-point numbers.
        """
        x, mu = self._at(x, mu)
        return tangent_projection(x, self.output(x, mu))

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) V m (SA) or V e^L m (USA) at the (m, d) points x; errors as for the velocity."""
        x, mu = self._at(x, mu)
        log_z, m = self._partition(x, mu)
        output = m @ self.V.T
        return output if self.normalized else _exp(log_z)[:, None] * output

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) surface divergence at x, by direct sums."""
        x, mu = self._at(x, mu)
        log_z, m, second = log_partition_covariance(self.beta * (x @ self.B), mu)
        if not self.normalized:
            second = second + m[:, :, None] * m[:, None, :]
        # tr(P_x beta V S B^T) - (d-1) <x, V m>, S the (un)centred second moment
        VS = self.V @ second
        trace = np.einsum("mij,ij->m", VS, self.B)
        radial = np.einsum("mi,mij,mj->m", x, VS, x @ self.B)
        result = self.beta * (trace - radial) - (self.dim - 1) * dot(x, m @ self.V.T)
        return result if self.normalized else _exp(log_z) * result

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) values of phi with v = grad phi, for V = c B, or for beta = 0.

        With M the total mass and L_0 = log M: c (L(xi) - L_0) / beta (SA),
        c (e^{L(xi)} - M) / beta (USA); for beta = 0 the linear function <x, V m>, times M for USA.
        """
        x, mu = self._at(x, mu)
        proportion = self._proportion
        if proportion is None and not self._is_constant:
            raise UndefinedQuantity(
                "potential needs V = c B (or beta = 0): otherwise the velocity of SelfAttention "
                "is no gradient"
            )
        scale = 1.0 if self.normalized else mu.total
        if self._is_constant:
            return scale * dot(x, self._partition(x, mu)[1] @ self.V.T)
        excess = log_ratio(
            self.beta * (x @ self.B),
            lambda xi: log_partition(xi, mu, self.tolerance),
            np.log(mu.total),
        )
        if not self.normalized:
            _check_range(excess + np.log(mu.total))
            excess = scale * np.expm1(excess)
        assert proportion is not None
        return np.asarray(proportion * (excess / self.beta))

    def energy(self, mu: Measure, t: float | None = None) -> float:
        """E(mu) = 1/(2 beta) int int e^{beta <x,By>} dmu dmu, for B symmetric and V = c B.

        dE/dt = (1/c) int |v|^2 dmu along USA and (1/c) int |v|^2 e^L dmu along SA
        (Rigollet, arXiv:2512.01868): c = 1 climbs, c = -1 descends. Raises UndefinedQuantity also
        where it leaves the range of float64.
        """
        if self.beta == 0.0 or self._proportion is None or not is_symmetric(self.B):
            raise UndefinedQuantity(
                "energy needs beta > 0, B symmetric and V = c B: "
                "otherwise SelfAttention follows no interaction energy"
            )
        x, mu = self._at(mu.points, mu)
        log_z, _ = self._partition(x, mu)
        # A run of normalised attention needs no exponentials, and goes on without its energy.
        beyond = f"energy leaves the range of float64 for beta = {self.beta:.3g}"
        if self.normalized and log_z.max() > LARGEST_LOG_PARTITION:
            raise UndefinedQuantity(beyond)
        energy = float(mu.weights @ _exp(log_z)) / (2.0 * self.beta)
        if not np.isfinite(energy):
            raise UndefinedQuantity(beyond)
        return energy

    def driving_energy(self, mu: Measure, t: float | None = None) -> float:
        """E(mu) with v = P_x grad (delta E / delta mu), for USA or for beta = 0.

        USA with B symmetric and V = c B: c/(2 beta) int int e^{beta <x,By>} dmu dmu. beta = 0 and V
        symmetric, with m the plain integral of y and M the total mass, which the flow keeps:
        <m, V m> / 2 (USA), <m, V m> / (2M) (SA).

        SA at beta > 0 has none: its potential c L(beta B^T x) / beta changes with mass at y by
        e^{beta <x,By>} / Z(x), which is not symmetric in x and y, as second derivatives of an
        energy are. It climbs `energy` in the geometry that weighs |v|^2 with Z
        (Rigollet, arXiv:2512.01868).
        """
        _, mu = self._at(mu.points, mu)
        if self._is_constant and is_symmetric(self.V):
            m = mu.mean()
            return 0.5 * float(m @ self.V @ m) / (mu.total if self.normalized else 1.0)
        if self.normalized or self._proportion is None or not is_symmetric(self.B):
            raise UndefinedQuantity(
                "driving_energy needs normalized=False, B symmetric and V = c B (or beta = 0 and "
                "V symmetric): otherwise SelfAttention is the gradient flow of no energy"
            )
        return self._proportion * self.energy(mu)

    def _partition(self, x: Array, mu: Measure) -> tuple[Array, Array]:
        """(L(xi), grad L(xi)) at xi = beta B^T x: (m,), (m, d)."""
        if self._is_constant:
            total = mu.total
            return np.full(len(x), np.log(total)), np.tile(mu.mean() / total, (len(x), 1))
        return log_partition(self.beta * (x @ self.B), mu, self.tolerance)


class ZeroTemperatureAttention(Field):
    """v(x) = P_x V B^T x / |B^T x|, the limit beta -> infinity for measures of full support.

    V, B : (d, d); B invertible

    A local field: the measure plays no part (Alcalde, Bungert, Riedl and Roith,
    arXiv:2605.10931). Raises ValueError or TypeError for matrices that do not fit, with the
    condition number where B is singular.

    >>> field = ZeroTemperatureAttention(np.diag([2.0, 1.0]), np.eye(2))
    >>> field.velocity([[0.6, 0.8]]).round(3)
    array([[ 0.384, -0.288]])
    """

    is_autonomous = True

    dim: int

    def __init__(self, V: Any, B: Any) -> None:
        self.V = square_matrix("V", V)
        self.dim = len(self.V)
        self.B = square_matrix("B", B, self.dim)
        # Its size plays no part; powers of two change no digit.
        scale, self._unit_B = scaled(self.B)
        condition = float(np.linalg.cond(self._unit_B)) if scale else np.inf
        if not condition < LARGEST_CONDITION:
            raise ValueError(
                f"B must be invertible for ZeroTemperatureAttention, "
                f"got a matrix of condition number {condition:.3g}"
            )
        self._unit_A = self.V @ self._unit_B.T

    def __repr__(self) -> str:
        return f"ZeroTemperatureAttention(d={self.dim})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities at the (m, d) points x."""
        x = unit_points("x", x, self.dim)
        return tangent_projection(x, self.output(x))

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) V B^T x / |B^T x| at the (m, d) points x."""
        x = unit_points("x", x, self.dim)
        return (x @ self._unit_A.T) / norm(x @ self._unit_B)[:, None]

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) surface divergence at x: F = A x / |B^T x|, DF = A / |B^T x| - F grad(|.|)^T."""
        x = unit_points("x", x, self.dim)
        A, B = self._unit_A, self._unit_B
        lengths = norm(x @ B)
        F = (x @ A.T) / lengths[:, None]
        growth = (x @ B @ B.T) / lengths[:, None] ** 2
        trace = np.trace(A) / lengths - dot(F, growth)
        # <x, growth> = 1, so that the radial part <x, DF x> of DF vanishes: F is homogeneous.
        return trace - (self.dim - 1) * dot(x, F)

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) values of phi with v = grad phi.

        c |B^T x| where V = c B; <x, A x> / (2 s) where B^T is s times a rotation or reflection
        and A = V B^T symmetric.
        """
        x = unit_points("x", x, self.dim)
        A, B = self._unit_A, self._unit_B
        proportion = _proportion(self.V, B)
        if proportion is not None:
            return proportion * norm(x @ B)
        scale = np.sqrt(np.trace(B.T @ B) / self.dim)
        orthogonal = np.allclose(
            B.T @ B, scale**2 * np.eye(self.dim), rtol=0.0, atol=1e-12 * scale**2
        )
        if orthogonal and is_symmetric(A):
            return dot(x, x @ A) / (2.0 * scale)
        raise UndefinedQuantity(
            "potential needs V = c B, or B orthogonal up to a factor and V B^T symmetric: "
            "otherwise the velocity of ZeroTemperatureAttention is no gradient that is known"
        )


def is_symmetric(A: Array, tolerance: float = 1e-12) -> bool:
    """Whether A = A^T up to `tolerance` times its largest entry."""
    return bool(np.abs(A - A.T).max() <= tolerance * np.abs(A).max())


def _proportion(V: Array, B: Array) -> float | None:
    """c where V = c B to rounding, else None."""
    (scale_V, V), (scale_B, B) = scaled(V), scaled(B)
    if not scale_B:
        return None if scale_V else 0.0
    c = float(np.vdot(V, B)) / float(np.vdot(B, B))
    if not np.abs(V - c * B).max() <= 1e-12 * np.abs(V).max():
        return None
    with np.errstate(over="ignore"):
        c *= float(np.float64(scale_V) / scale_B)
    return c if np.isfinite(c) else None


def scaled(A: Array) -> tuple[float, Array]:
    """(s, A / s), s a power of two near A's largest entry: no digit changes; (0, A) for A = 0."""
    largest = float(np.abs(A).max())
    if largest == 0.0:
        return 0.0, A
    exponent = math.frexp(largest)[1]
    return math.ldexp(1.0, exponent), np.ldexp(A, -exponent)


def _exp(log_z: Array) -> Array:
    """e^{log_z}, or a clear error where it overflows."""
    _check_range(log_z)
    return np.exp(log_z)


def _check_range(log_z: Array) -> None:
    if len(log_z) and log_z.max() > LARGEST_LOG_PARTITION:
        raise ValueError(
            f"beta is too large for unnormalised attention: log int e^(beta <x,By>) dmu reaches "
            f"{log_z.max():.4g}, allowed is {LARGEST_LOG_PARTITION:g}; "
            "lower beta, or use normalized=True"
        )
