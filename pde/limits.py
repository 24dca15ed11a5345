"""Where the equation goes at low temperature: limit spaces, projections, distances, assumptions.

With E the eigenspace of the largest eigenvalue of V B^T, the zero-temperature equation moves rho0
to Pi_# rho0, Pi(x) = P_E x / |P_E x|, and at large beta the equation follows it for a time of order
log beta; the terminal phase then moves the mass to F, the eigenspace of V's largest eigenvalue, or
F_abs, that of its largest modulus (Alcalde, Bungert, Riedl and Roith, arXiv:2605.10931).
All distances are for the chordal cost |x - y|^2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes import circle, icosphere
from meshes.geometry import norm, unit
from pde.arguments import (
    SINGLE_PRECISION,
    UNIT_TOLERANCE,
    Array,
    function,
    instance,
    natural,
    non_negative,
    one_of,
    positive,
    real_array,
    square_matrix,
    unit_points,
)
from pde.fields.attention import LARGEST_CONDITION, is_symmetric, scaled
from pde.measure import Measure

Density = Callable[[Array], Array]

ON_COMPLEMENT = 1e-14
"""Points with |P_E x| up to this lie on the complement of E to rounding."""


def dominant_eigenspace(A: Any, by: str = "value", tolerance: float = 1e-8) -> Array:
    """(d, k) orthonormal basis of the eigenvectors of A's largest eigenvalue.

    by : "value", the largest real part; "magnitude", the largest modulus (both signs where
        eigenvalues of opposite sign share it)
    tolerance : eigenvalues nearer than this times the largest modulus count as equal

    Warns where A is not symmetric: the limit theorems assume symmetry. Raises ValueError where a
    dominant eigenvalue is complex: the flow then turns for ever and has no limit.

    >>> dominant_eigenspace(np.diag([2.0, 4.0, 0.5])).ravel() + 0.0
    array([0., 1., 0.])
    """
    # Its size plays no part; a power of two changes no digit.
    size, A = scaled(square_matrix("A", A))
    values, vectors, dominant = _eigenvalues(A, by, tolerance)
    if (np.abs(values[dominant].imag) > tolerance * np.abs(values).max()).any():
        raise ValueError(
            f"A must have real dominant eigenvalues, got {size * values[dominant][0]:.6g}: "
            "the flow turns for ever and has no limit"
        )
    if is_symmetric(A):
        basis = vectors[:, dominant]
    else:
        sizes = _size(values, by)
        # Another algorithm rounds the values otherwise: part them in the middle of the gap.
        cut = -np.inf if dominant.all() else 0.5 * (sizes[dominant].min() + sizes[~dominant].max())
        basis = _eigenspace(A, lambda value: _size(value, by) > cut)
    largest = np.take_along_axis(basis, np.abs(basis).argmax(axis=0)[None], axis=0)
    return np.ascontiguousarray(basis * np.sign(largest))


def spectral_gap(A: Any, by: str = "value", tolerance: float = 1e-8) -> float:
    """The dominant eigenvalue of A less the next: the rate of convergence to E; inf if E is all.

    By value the difference of real parts, by magnitude that of moduli.

    >>> spectral_gap(np.diag([0.9, 0.4, -0.6]))
    0.5
    """
    values, _, dominant = _eigenvalues(A, by, tolerance)
    if dominant.all():
        return np.inf
    sizes = _size(values, by)
    return float(sizes[dominant].max() - sizes[~dominant].max())


def limit_space(V: Any, B: Any, tolerance: float = 1e-8) -> Array:
    """E: (d, k) basis of the eigenspace of the largest eigenvalue of V B^T."""
    V = square_matrix("V", V)
    B = square_matrix("B", B, len(V))
    return dominant_eigenspace(scaled(V)[1] @ scaled(B)[1].T, "value", tolerance)


def terminal_space(V: Any, by: str = "value", tolerance: float = 1e-8) -> Array:
    """F (by="value") or F_abs (by="magnitude"): (d, k) basis of V's dominant eigenspace."""
    return dominant_eigenspace(square_matrix("V", V), by, tolerance)


class Projection:
    """Pi(x) = P_E x / |P_E x|, the nearest point of the sphere of E.

    E : (d, k) orthonormal columns, or one unit vector (d,)

    Pi is not defined on the complement of E, a set of measure zero on which meshes of much symmetry
    still have centres. Such points go to + or - the first column of E, the sign that of their first
    coordinate that does not vanish: Pi(-x) = -Pi(x) everywhere, and symmetric data stay symmetric.

    >>> Projection([0.0, 1.0])([[0.6, 0.8], [0.8, -0.6]]) + 0.0
    array([[ 0.,  1.],
           [ 0., -1.]])
    """

    def __init__(self, E: Any) -> None:
        self.E = orthonormal_columns("E", E)

    def __repr__(self) -> str:
        return f"Projection(on dimension {self.E.shape[1]} in {self.E.shape[0]})"

    def __call__(self, x: Any) -> Array:
        """(m, d) images of the (m, d) unit points x."""
        x = unit_points("x", x, len(self.E))
        coordinates = x @ self.E
        lengths = norm(coordinates)
        lost = lengths <= ON_COMPLEMENT
        if lost.any():
            first = np.argmax(np.abs(x[lost]) > ON_COMPLEMENT, axis=1)
            coordinates[lost] = 0.0
            coordinates[lost, 0] = np.sign(x[lost, first])
            lengths[lost] = 1.0
        return unit((coordinates / lengths[:, None]) @ self.E.T)


def distance_to_space(mu: Measure, E: Any) -> float:
    """W2(mu, Pi_# mu) = (int (2 - 2 |P_E x|) dmu)^{1/2}: the distance to the laws on E's sphere.

    Pi is the nearest-point map, so no plan does better. The zero-temperature equation keeps
    Pi_# rho (V B^T symmetric), so for its solutions this is the distance to their limit, exactly;
    for any other measure it is a lower bound of the distance to every law on E's sphere.
    """
    E = orthonormal_columns("E", E, instance("mu", mu, Measure).dim)
    inside = mu.points @ E
    across = mu.points - inside @ E.T
    # 2 - 2r = 2 (1 - r^2) / (1 + r), without cancellation where the mass has arrived.
    square = 2.0 * norm(across) ** 2 / (1.0 + norm(inside))
    return float(np.sqrt(mu.weights @ square))


def distance_to_pair(mu: Measure, e: Any, mass: float) -> float:
    """W2 between mu and `mass` at e, the rest of mu's total at -e, exactly.

    e : (d,) unit vector; 0 <= mass <= mu.total

    |x + e|^2 - |x - e|^2 = 4 <x, e>, so the optimal plan sends the mass with the largest <x, e> to
    e. This is the distance to Pi_# rho0 at any temperature where dim E = 1.
    """
    e = orthonormal_columns("e", e, instance("mu", mu, Measure).dim)
    if e.shape[1] != 1:
        raise ValueError(f"e must be one unit vector, got shape {e.shape}")
    mass, total = non_negative("mass", mass), mu.total
    if mass > total * (1.0 + 1e-12):
        raise ValueError(f"mass must be at most mu's total {total:.6g}, got {mass:.6g}")
    height = mu.points @ e[:, 0]
    order = np.argsort(-height, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(mu.weights[order])[:-1]])
    near = np.empty(mu.n)
    near[order] = np.clip(mass - before, 0.0, mu.weights[order])
    to_plus, to_minus = (norm(mu.points - sign * e[:, 0]) ** 2 for sign in (1.0, -1.0))
    return float(np.sqrt(near @ to_plus + (mu.weights - near) @ to_minus))


@dataclass(frozen=True)
class Report:
    """Whether an assumption holds, and why, in words."""

    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'fails'}: {self.text}"


def assumption_1(V: Any, B: Any) -> Report:
    """Assumption 1: B is invertible and V B^T symmetric."""
    V = square_matrix("V", V)
    B = square_matrix("B", B, len(V))
    condition = float(np.linalg.cond(scaled(B)[1])) if B.any() else np.inf
    if not condition < LARGEST_CONDITION:
        return Report(False, f"B is singular (condition number {condition:.3g})")
    A = scaled(V)[1] @ scaled(B)[1].T
    if not is_symmetric(A):
        skew = np.linalg.norm(A - A.T) / (2.0 * np.linalg.norm(A))
        return Report(
            False, f"V B^T is not symmetric: its antisymmetric part is {skew:.3g} of its norm"
        )
    return Report(True, f"B is invertible (condition number {condition:.3g}), V B^T is symmetric")


def assumption_2(E: Any, rho0: Measure | Density, p: float = 1.0) -> Report:
    """Assumption 2: int |P_E x|^{-p} drho0 is finite, not too much mass lies near E's complement.

    rho0 : a density (m, d) -> (m,), or a Measure

    Near the complement the sphere is a product with a ball of dimension k = dim E, whose radius is
    |P_E x| to first order: the integral behaves like int r^{-p} r^{k-1} dr times the density there.
    A density that is bounded there satisfies it if p < k, one that is also positive only if p < k.
    """
    p, dim = positive("p", p), rho0.dim if isinstance(rho0, Measure) else None
    E = orthonormal_columns("E", E, dim)
    d, k = E.shape
    if isinstance(rho0, Measure):
        lengths = norm(rho0.points @ E)
        lost = float(rho0.weights[lengths <= ON_COMPLEMENT].sum())
        if lost > 0.0:
            return Report(False, f"the mass {lost:.3g} lies on the complement of E")
        value = float(rho0.weights[rho0.weights > 0] @ lengths[rho0.weights > 0] ** -p)
        return Report(
            True, f"int |P_E x|^-p drho0 = {value:.6g} for p = {p:g} (finitely many atoms)"
        )
    if k == d:
        return Report(True, "E is the whole space")
    values = _density_values(rho0, _complement_points(E))
    lowest, highest = float(values.min()), float(values.max())
    where = f"the density lies in [{lowest:.3g}, {highest:.3g}] on the complement of E"
    if not np.isfinite(highest):
        return Report(False, "the density is not bounded on the complement of E")
    if p < k:
        return Report(True, f"p = {p:g} < dim E = {k}, and {where}")
    if highest == 0.0:
        return Report(
            False, f"not decided: p = {p:g} >= dim E = {k}, but the density vanishes there"
        )
    return Report(False, f"p = {p:g} >= dim E = {k}, and {where}")


def assumption_3(rho0: Density | Any, dim: int = 3) -> Report:
    """Assumption 3: the density is strictly positive.

    rho0 : a density (m, d) -> (m,), looked at in a few thousand points; or cell averages (N,)
    dim : d, for a density
    """
    if callable(rho0):
        values = _density_values(rho0, _all_over(natural("dim", dim, 2)))
    else:
        values = real_array("rho0", rho0, ndim=1)
        if not len(values):
            raise ValueError("rho0 must hold at least one cell average, got none")
    lowest = float(values.min())
    if lowest > 0.0:
        return Report(True, f"the density is at least {lowest:.3g}")
    share = np.count_nonzero(values <= 0.0) / len(values)
    return Report(
        False, f"the density is {lowest:.3g} at its lowest, <= 0 in {share:.1%} of places"
    )


def orthonormal_columns(name: str, value: Any, dim: int | None = None) -> Array:
    """`value` as a (d, k) matrix with orthonormal columns; a unit vector (d,) is one column.

    Columns that are orthonormal in single precision alone are made so in double precision.

    dim : the d that is asked for
    """
    E = real_array(name, value)
    E = E[:, None] if E.ndim == 1 else E
    if E.ndim != 2 or not 1 <= E.shape[1] <= E.shape[0]:
        raise ValueError(f"{name} must have shape (d, k) with 1 <= k <= d, got {E.shape}")
    if dim is not None and len(E) != dim:
        raise ValueError(f"{name} must have shape (d, k) with d = {dim}, got {E.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(E.T @ E - np.eye(E.shape[1])).max()
    if not off <= 2.0 * SINGLE_PRECISION:
        raise ValueError(
            f"{name} must have orthonormal columns, E^T E is off the identity by {off:.3g}"
        )
    if off <= 2.0 * UNIT_TOLERANCE:
        return E
    # Orthonormal in single precision: the nearest matrix that is so in double.
    left, _, right = np.linalg.svd(E, full_matrices=False)
    return np.ascontiguousarray(left @ right)


def _eigenvalues(A: Any, by: str, tolerance: float) -> tuple[Array, Array, NDArray[np.bool_]]:
    """(values (d,), eigenvectors (d, d) in columns, which are dominant (d,) bool)."""
    A = square_matrix("A", A)
    one_of("by", by, ("value", "magnitude"))
    positive("tolerance", tolerance)
    if is_symmetric(A):
        values, vectors = np.linalg.eigh(A)
    else:
        warnings.warn(
            "the matrix is not symmetric, which the limit theorems assume",
            UserWarning,
            stacklevel=3,
        )
        values, vectors = np.linalg.eig(A)
    sizes = _size(values, by)
    return values, vectors, sizes >= sizes.max() - tolerance * np.abs(values).max()


def _eigenspace(A: Array, dominant: Callable[[Array], Any]) -> Array:
    """(d, k) orthonormal basis of A's eigenvectors for eigenvalues that are `dominant`, all real.

    Computed eigenvectors of a multiple eigenvalue need not span its space: rounding turns them into
    complex pairs, or lets those of a Jordan block part. The space that the Schur form splits off
    (Golub and Van Loan, Matrix Computations, 7.6) is safe; in it A is a small matrix M, whose
    eigenvectors are the null vectors of M - lam, with M = lam up to rounding or Jordan blocks.
    """
    from scipy.linalg import schur

    _, unitary, k = schur(A, output="complex", sort=dominant)
    # Eigenvalues come in conjugate pairs, so that the space is that of k real vectors.
    halves = np.concatenate([unitary[:, :k].real, unitary[:, :k].imag], axis=1)
    space = np.linalg.svd(halves, full_matrices=False)[0][:, :k]
    M = space.T @ A @ space
    values = np.linalg.eigvals(M).real
    rounding = 1e-4 * np.linalg.norm(A, 2)
    vectors = []
    for same_sign in (values > 0.0, values <= 0.0):
        if same_sign.any():
            _, sizes, rows = np.linalg.svd(M - values[same_sign].mean() * np.eye(k))
            vectors.append(rows[sizes <= rounding].T)
    basis, sizes, _ = np.linalg.svd(np.concatenate(vectors, axis=1), full_matrices=False)
    return space @ basis[:, sizes > 1e-4]


def _size(values: Array, by: str) -> Array:
    return values.real if by == "value" else np.abs(values)


def _density_values(rho0: Density, points: Array) -> Array:
    density = function("rho0", rho0, "of points (m, d), or a Measure")
    values = real_array("rho0(points)", density(points), finite=False)
    if values.shape != (len(points),):
        raise ValueError(
            f"rho0 must give shape ({len(points)},) at {len(points)} points, got {values.shape}"
        )
    return values


def _all_over(d: int) -> Array:
    """A few thousand points of the sphere in R^d."""
    if d == 2:
        return circle(2048).centers
    if d == 3:
        return icosphere(16).centers
    return unit(np.random.default_rng(0).normal(size=(4096, d)))


def _complement_points(E: Array) -> Array:
    """Points of the sphere on E's complement."""
    d, k = E.shape
    complement = np.linalg.qr(np.column_stack([E, np.eye(d)]))[0][:, k:d]
    if d - k == 1:
        return np.stack([complement[:, 0], -complement[:, 0]])
    return unit(_all_over(d - k) @ complement.T)
