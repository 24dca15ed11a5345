"""Quadrature on the cells of a mesh: nodes and weights, and the values of functions there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from meshes.geometry import Array, Indices
from meshes.quadrature import arc_quadrature, triangle_quadrature, triangle_rule

if TYPE_CHECKING:
    from meshes.sphere_mesh import SphereMesh

AVERAGE_DEGREE = 8
"""Degree of the rule behind cell averages: those of smooth functions to O(h^9)."""

CHUNK_POINTS = 1 << 18
"""Quadrature points that averages hold at a time (a few tens of MB)."""


def cell_quadrature(
    mesh: SphereMesh, degree: int, start: int = 0, stop: int | None = None
) -> tuple[Array, Array, Indices]:
    """Points (Q, d), weights (Q,) and offsets of the nodes of each of the cells start : stop.

    On the sphere a rule on each triangle between center and side, on the circle a rule on the arc.
    """
    triangle_rule(degree)  # refuses degrees out of range, on the circle too
    a, b = mesh.sides(start, stop)
    cells = mesh.side_cells(start, stop)
    if mesh.ambient_dim == 2:
        points, weights = arc_quadrature(a, b, degree // 2 + 1)
    else:
        points, weights = triangle_quadrature(mesh.centers[cells], a, b, degree)
    nodes = np.bincount(cells - start) * weights.shape[1]
    offsets = np.concatenate([[0], np.cumsum(nodes)]).astype(np.int32)
    return points.reshape(-1, mesh.ambient_dim), weights.reshape(-1), offsets


def function_values(f: Callable[[Array], Array], points: Array) -> Array:
    """f(points), (m, ...), with one clear sentence when it is not finite real numbers (m, ...)."""
    if not callable(f):
        raise TypeError(f"f must be a function of points (m, d), got {type(f).__name__}")
    returned = f(points)
    try:
        values: Any = np.asarray(returned)
    except ValueError as ragged:
        raise ValueError("f must return an array, got rows of unequal length") from ragged
    if values.dtype.kind not in "fiub":
        raise TypeError(f"f must return real numbers, got dtype {values.dtype}")
    m, d = points.shape
    if values.shape[:1] != (m,):
        raise ValueError(
            f"f must map points (m, {d}) to values (m,) or (m, ...), "
            f"got shape {values.shape} for m = {m}"
        )
    if not (finite := np.isfinite(values)).all():
        wrong = int(np.argmin(finite.reshape(m, -1).all(axis=1)))
        raise ValueError(f"f must be finite, got {values[wrong]} at x = {points[wrong]}")
    return values.astype(np.float64, copy=False)
