"""Measures on the sphere: points with weights, and nothing else.

A grid density, a cloud of particles and the push-forward of an initial law are all a `Measure`;
fields, energies and transport distances take one and need not know where it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array, function, instance, real_array, unit_points


@dataclass(frozen=True, eq=False, init=False)
class Measure:
    """The atomic measure sum_i weights_i delta_{points_i} on the unit sphere of R^d.

    points : (n, d) unit vectors
    weights : (n,) masses >= 0, kept as given: a drift of the total stays visible.
        None: equal masses of total 1.

    Raises ValueError or TypeError for points off the sphere, negative or non-finite masses, also in
    total, and shapes that do not fit.

    >>> mu = Measure([[1.0, 0.0], [0.0, 1.0]])
    >>> mu.weights
    array([0.5, 0.5])
    """

    points: Array
    weights: Array

    def __init__(self, points: Any, weights: Any = None) -> None:
        points = unit_points("points", points)
        n = len(points)
        if weights is None:
            weights = np.full(n, 1.0 / n) if n else np.empty(0)
        else:
            weights = real_array("weights", weights, ndim=1)
            if len(weights) != n:
                raise ValueError(f"weights must have shape ({n},) like points, got {weights.shape}")
            if n and weights.min() < 0.0:
                worst = int(np.argmin(weights))
                raise ValueError(f"weights must be >= 0, got {weights[worst]:.6g} at index {worst}")
            with np.errstate(over="ignore"):
                total = weights.sum()
            if total == np.inf:
                raise ValueError("weights must have a finite total: it is beyond float64")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights)

    @classmethod
    def from_mesh(cls, mesh: SphereMesh, rho: Any) -> Measure:
        """The cells' masses `rho * mesh.areas` at the cells' centroids.

        rho : (N,) cell averages of a density with respect to surface area.
        """
        instance("mesh", mesh, SphereMesh)
        rho = real_array("rho", rho, ndim=1)
        if len(rho) != mesh.n_cells:
            raise ValueError(
                f"rho must hold one average for each of the mesh's {mesh.n_cells} cells, "
                f"got shape {rho.shape}"
            )
        return cls(mesh.centroids, rho * mesh.areas)

    def __repr__(self) -> str:
        return f"Measure({self.n} points in dimension {self.dim}, total {self.total:.6g})"

    @property
    def n(self) -> int:
        """Number of points."""
        return self.points.shape[0]

    @property
    def dim(self) -> int:
        """Dimension d of the ambient space."""
        return self.points.shape[1]

    @property
    def total(self) -> float:
        """Total mass."""
        return float(self.weights.sum())

    def integrate(self, f: Callable[[Array], Array]) -> Any:
        """int f dmu for f: (n, d) -> (n, ...): a float for scalar f, else an array.

        Raises ValueError or TypeError where f gives another shape or no finite real numbers.
        """
        values = real_array("f(points)", function("f", f, "of points (n, d)")(self.points))
        if values.shape[:1] != (self.n,):
            raise ValueError(
                f"f must give shape ({self.n},) or ({self.n}, ...) at {self.n} points, "
                f"got {values.shape}"
            )
        values = np.tensordot(self.weights, values, axes=1)
        return float(values) if values.ndim == 0 else values

    def mean(self) -> Array:
        """int y dmu(y): (d,), not divided by the total mass."""
        return self.weights @ self.points

    def second_moment(self) -> Array:
        """int y y^T dmu(y): (d, d), not divided by the total mass."""
        return (self.weights[:, None] * self.points).T @ self.points

    def push(self, f: Callable[[Array], Array]) -> Measure:
        """The push-forward f_# mu: every atom moves to f(point), with its mass.

        Raises ValueError or TypeError where f does not give one unit vector for each point.
        """
        points = unit_points("f(points)", function("f", f, "of points (n, d)")(self.points))
        if len(points) != self.n:
            raise ValueError(f"f must give {self.n} points for {self.n}, got {len(points)}")
        return Measure(points, self.weights)
