"""SphereMesh: Voronoi cells on S^2 (d = 3) or S^1 (d = 2) as plain arrays, everything else derived.

A cell of S^2 is a spherical polygon. Its corners and its sides are numbered together, counter-
clockwise seen from outside; side j runs from corner j to corner j + 1, edge j lies on side j:

              corner 2 ____ side 1 ____ corner 1
                      /                \\
              side 2 /                  \\ side 0
                    /                    \\
          corner 3 (       center x       ) corner 0
                    \\                    /
              side 3 \\                  / side 5
                      \\________________/
              corner 4      side 4      corner 5

An edge is the great-circle arc between two cells, with a direction. Seen from outside:

                    ends[0] = vertices[edge_vertices[:, 0]]
                       |
        first cell     |          second cell
     edge_cells[:, 0]  +----> normal   edge_cells[:, 1]
                       |
                       |
                    ends[1] = vertices[edge_vertices[:, 1]]

so normal = ends[0] × ends[1] / |...|, and for the divergence-free velocity v = x × grad(psi)

        int_edge <v, normal> ds = psi(ends[1]) - psi(ends[0])     (flux from first to second cell).

On the circle a cell is an arc with corners 0, 1 (counter-clockwise), an edge is a point of measure
1, and edge j of a cell lies at its corner j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes import geometry
from meshes.checks import MeshError, check_mesh, first_failure
from meshes.geometry import Array, Indices
from meshes.quadrature import (
    CellQuadrature,
    EdgeQuadrature,
    arc_quadrature,
    triangle_quadrature,
    triangle_rule,
)

AVERAGE_DEGREE = 8
"""Degree of the quadrature behind `SphereMesh.average`: cell averages of smooth f to O(h^9)."""

CHUNK_POINTS = 1 << 18
"""Quadrature points held at a time by `SphereMesh.average` (a few tens of MB)."""


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of `array` that can't be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False, repr=False)
class SphereMesh:
    """Voronoi cells of the unit sphere of R^d, d = 3 or 2; pictures at the top of this module.

    N cells, E edges, M vertices. Lengths in radians, areas in steradians (radians on the circle).

    centers : (N, d) generators of the cells: a point lies in the cell of its nearest center
    vertices : (M, d) corners of the cells
    edge_cells : (E, 2) int32, first and second cell
    edge_vertices : (E, 2) int32 (d = 3), the edge's ends: the second cell lies on the left of the
        way from the first to the second end; (E, 1) (d = 2)
    cell_offsets : (N+1,) int32; cell_vertices : int32: cell i has the corners
        cell_vertices[cell_offsets[i] : cell_offsets[i+1]], counter-clockwise seen from outside

    All arrays are read-only; derived ones are computed at first use and kept. Construction looks at
    shapes only (MeshError); `check()` at everything.

    >>> from meshes import icosphere
    >>> icosphere(4)
    SphereMesh(162 cells, 480 edges in R^3, spacing 0.299)
    """

    centers: Array
    vertices: Array
    edge_cells: Indices
    edge_vertices: Indices
    cell_offsets: Indices
    cell_vertices: Indices

    def __post_init__(self) -> None:
        for name in ("centers", "vertices"):
            self._set(name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        for name in ("edge_cells", "edge_vertices", "cell_offsets", "cell_vertices"):
            self._set(name, np.ascontiguousarray(getattr(self, name), dtype=np.int32))
        d = self.centers.shape[-1]
        n = len(self.centers)
        expected = {
            "centers": (n, d),
            "vertices": (len(self.vertices), d),
            "edge_cells": (len(self.edge_cells), 2),
            "edge_vertices": (len(self.edge_cells), d - 1),
            "cell_offsets": (n + 1,),
            "cell_vertices": (2 * len(self.edge_cells),),
        }
        if d not in (2, 3):
            raise MeshError(f"centers must have shape (N, 2) or (N, 3), got {self.centers.shape}")
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise MeshError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")

    def _set(self, name: str, array: NDArray[Any]) -> None:
        object.__setattr__(self, name, read_only(array))

    def __repr__(self) -> str:
        return (
            f"SphereMesh({self.n_cells} cells, {self.n_edges} edges in R^{self.ambient_dim}, "
            f"spacing {self.spacing:.3g})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles carry the six arrays only: derived ones are cheaper to compute than to send.
        return SphereMesh, tuple(getattr(self, field.name) for field in fields(self))

    # ------------------------------------------------------------------ counts

    @property
    def ambient_dim(self) -> int:
        """The d of R^d: 3 on the sphere, 2 on the circle."""
        return self.centers.shape[1]

    @property
    def n_cells(self) -> int:
        """Number of cells N."""
        return len(self.centers)

    @property
    def n_edges(self) -> int:
        """Number of edges E."""
        return len(self.edge_cells)

    @property
    def n_vertices(self) -> int:
        """Number of vertices M."""
        return len(self.vertices)

    # ------------------------------------------------------------------ cells

    @cached_property
    def areas(self) -> Array:
        """(N,) exact areas of the spherical polygons; lengths of the arcs on the circle."""
        a, b = self._sides()
        if self.ambient_dim == 2:
            return read_only(geometry.arc_length(a, b))
        center = self.centers[self._corner_cells()]
        return read_only(
            geometry.segment_sum(geometry.triangle_area(center, a, b), self.cell_offsets)
        )

    @cached_property
    def total_area(self) -> float:
        """Sum of the areas: 4 pi, or 2 pi on the circle, to rounding."""
        return float(self.areas.sum())

    @cached_property
    def centroids(self) -> Array:
        """(N, d) exact centroids int x dA / |int x dA| of the cells, unit vectors."""
        a, b = self._sides()
        if self.ambient_dim == 2:
            return read_only(geometry.arc_midpoint(a, b))
        return read_only(geometry.unit(geometry.polygon_moment(a, b, self.cell_offsets)))

    @cached_property
    def cell_radii(self) -> Array:
        """(N,) largest distance of a cell's center to its corners, in radians."""
        corners = self.vertices[self.cell_vertices]
        distances = geometry.arc_length(self.centers[self._corner_cells()], corners)
        return read_only(np.maximum.reduceat(distances, self.cell_offsets[:-1]))

    # ------------------------------------------------------------------ edges

    @cached_property
    def edge_normals(self) -> Array:
        """(E, d) unit normals from first to second cell, tangent at every point of the edge."""
        first_end = self.vertices[self.edge_vertices[:, 0]]
        if self.ambient_dim == 3:
            second_end = self.vertices[self.edge_vertices[:, 1]]
            return read_only(geometry.arc_pole(first_end, second_end))
        ahead = geometry.tangent_frame(first_end)[:, 0]
        centers = self.centers[self.edge_cells]
        return read_only(
            ahead * np.sign(geometry.dot(ahead, centers[:, 1] - centers[:, 0]))[:, None]
        )

    @cached_property
    def edge_lengths(self) -> Array:
        """(E,) lengths of the edges in radians; 1 on the circle."""
        if self.ambient_dim == 2:
            return read_only(np.ones(self.n_edges))
        ends = self._ends()
        return read_only(geometry.arc_length(ends[:, 0], ends[:, 1]))

    @cached_property
    def edge_midpoints(self) -> Array:
        """(E, d) midpoints of the edges, unit vectors."""
        if self.ambient_dim == 2:
            return read_only(self.vertices[self.edge_vertices[:, 0]])
        ends = self._ends()
        return read_only(geometry.arc_midpoint(ends[:, 0], ends[:, 1]))

    @cached_property
    def edge_distances(self) -> Array:
        """(E,) geodesic distances of the centers of first and second cell, in radians."""
        first, second = self.edge_cells.T
        return read_only(geometry.arc_length(self.centers[first], self.centers[second]))

    @cached_property
    def spacing(self) -> float:
        """Mean distance of neighbouring centers in radians."""
        return float(self.edge_distances.mean())

    # ------------------------------------------------------------------ from cells to edges

    @property
    def cell_edge_offsets(self) -> Indices:
        """(N+1,) int32: `cell_offsets`, for a cell has as many edges as corners."""
        return self.cell_offsets

    @cached_property
    def cell_edges(self) -> Indices:
        """(2E,) int32 edges of all cells: those of cell i at offsets[i] : offsets[i+1], by side."""
        return read_only(self._cell_sides[0])

    @cached_property
    def cell_edge_signs(self) -> NDArray[np.int8]:
        """(2E,) int8 along cell_edges: sign * edge_normals points out of the cell."""
        return read_only(np.where(self._cell_sides[1], np.int8(-1), np.int8(1)))

    @cached_property
    def cell_neighbours(self) -> Indices:
        """(2E,) int32 along cell_edges: the cell across the edge."""
        edges, second = self._cell_sides
        return read_only(np.where(second, self.edge_cells[edges, 0], self.edge_cells[edges, 1]))

    @cached_property
    def _cell_sides(self) -> tuple[Indices, NDArray[np.bool_]]:
        """Edge of each side of each cell, and whether the cell is that edge's second one.

        Each edge is a side of two cells. For its second cell the side starts at the edge's first
        end, for its first cell at the last. The pair (cell, corner where the side starts) names
        a side, so sorting both lists by it matches them.
        """
        m = np.int64(self.n_vertices)
        first, second = self.edge_cells.T
        ends = self.edge_vertices
        of_edges = np.concatenate([first * m + ends[:, -1], second * m + ends[:, 0]])
        of_cells = self._corner_cells() * m + self.cell_vertices
        by_edge, by_cell = np.argsort(of_edges), np.argsort(of_cells)
        found = of_cells[by_cell]
        wrong = first_failure(of_edges[by_edge] == found)
        if wrong is not None:
            cell, vertex = divmod(int(found[wrong]), int(m))
            raise MeshError(
                f"cells and edges do not match: no edge, or two, for the side of cell {cell} "
                f"that starts at vertex {vertex} (or near it)"
            )
        sides = np.empty_like(by_edge)
        sides[by_cell] = by_edge
        return (sides % self.n_edges).astype(np.int32), sides >= self.n_edges

    # ------------------------------------------------------------------ quadrature

    def quadrature(self, degree: int) -> CellQuadrature:
        """Positive quadrature of the given degree, 1 to 10, on all cells.

        On the sphere the triangles between center and sides carry a symmetric rule each (hexagons:
        6, 18, 36, 36, 42, 72, 96, 96, 114, 150 points for degree 1 to 10); arcs of the circle
        carry Gauss points. Weights sum to the areas. ValueError for other degrees.

        >>> from meshes import circle
        >>> circle(4).quadrature(3).points.shape
        (8, 2)
        """
        points, weights = self._quadrature(degree, 0, self.n_cells)
        counts = np.diff(self.cell_offsets) * (len(weights) // len(self.cell_vertices))
        if self.ambient_dim == 2:
            counts = np.full(self.n_cells, len(weights) // self.n_cells)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return CellQuadrature(read_only(points), read_only(weights), read_only(offsets))

    def _quadrature(self, degree: int, start: int, stop: int) -> tuple[Array, Array]:
        """Points (Q, d) and weights (Q,) on the cells start : stop."""
        triangle_rule(degree)  # refuses degrees out of range, on the circle too
        a, b = self._sides(start, stop)
        if self.ambient_dim == 2:
            points, weights = arc_quadrature(a, b, degree // 2 + 1)
        else:
            center = self.centers[self._corner_cells(start, stop)]
            points, weights = triangle_quadrature(center, a, b, degree)
        return points.reshape(-1, self.ambient_dim), weights.reshape(-1)

    def edge_quadrature(self, n: int) -> EdgeQuadrature:
        """n Gauss points on every edge (the point itself, once, on the circle).

        >>> from meshes import icosphere
        >>> icosphere(2).edge_quadrature(3).points.shape
        (120, 3, 3)
        """
        ends = self._ends()
        if self.ambient_dim == 2:
            points, weights = ends, np.ones((self.n_edges, 1))
        else:
            points, weights = arc_quadrature(ends[:, 0], ends[:, 1], n)
        return EdgeQuadrature(
            read_only(points), read_only(weights), self.edge_normals, read_only(ends)
        )

    def average(self, f: Callable[[Array], Array]) -> Array:
        """Cell averages (N, ...) of f: points (m, d) -> values (m, ...), by a rule of degree 8.

        Raises ValueError when f returns another shape, or NaN or infinity somewhere.

        >>> from meshes import circle
        >>> circle(3).average(lambda x: x[:, 0] ** 2).round(6)
        array([0.396626, 0.706749, 0.396626])
        """
        parts = []
        for start, stop in self._chunks():
            points, weights = self._quadrature(AVERAGE_DEGREE, start, stop)
            values = np.asarray(f(points), dtype=np.float64)
            if values.shape[:1] != weights.shape:
                raise ValueError(
                    f"f must map points (m, {self.ambient_dim}) to values (m,) or (m, ...), "
                    f"got shape {values.shape} for m = {len(points)}"
                )
            wrong = first_failure(np.isfinite(values).reshape(len(values), -1).all(axis=1))
            if wrong is not None:
                raise ValueError(f"f must be finite, got {values[wrong]} at x = {points[wrong]}")
            weighted = weights.reshape(-1, *[1] * (values.ndim - 1)) * values
            corners = self.cell_offsets[start : stop + 1] - self.cell_offsets[start]
            if self.ambient_dim == 2:
                corners = np.arange(stop - start + 1)
            per_corner = len(weights) // int(corners[-1])
            parts.append(geometry.segment_sum(weighted, corners * per_corner))
        sums = np.concatenate(parts)
        return sums / self.areas.reshape(-1, *[1] * (sums.ndim - 1))

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """Ranges of cells with about CHUNK_POINTS points of the rule behind `average`."""
        per_cell = 6 * len(triangle_rule(AVERAGE_DEGREE)[1])
        step = max(1, CHUNK_POINTS // per_cell)
        for start in range(0, self.n_cells, step):
            yield start, min(start + step, self.n_cells)

    # ------------------------------------------------------------------ look-up and check

    def locate(self, points: Array) -> Indices:
        """(m,) int32 cells that contain the points (m, d): those of their nearest centers.

        >>> from meshes import circle
        >>> mesh = circle(8)
        >>> bool((mesh.locate(mesh.centroids) == np.arange(8)).all())
        True
        """
        return self._tree.query(points)[1].astype(np.int32)

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree

        return cKDTree(self.centers)

    def check(self) -> None:
        """Raise MeshError, naming cell or edge and value, unless this is a sound mesh.

        What is looked at: `meshes.checks`.
        """
        check_mesh(self)

    # ------------------------------------------------------------------ gathers

    def _corner_cells(self, start: int = 0, stop: int | None = None) -> Indices:
        """Cell of each corner of the cells start : stop."""
        offsets = self.cell_offsets[start : None if stop is None else stop + 1]
        cells = np.arange(start, start + len(offsets) - 1, dtype=np.int32)
        return np.repeat(cells, np.diff(offsets))

    def _side_vertices(self, start: int = 0, stop: int | None = None) -> tuple[Indices, Indices]:
        """Vertices (sides,) where each side of the cells start : stop starts and ends.

        On the circle a cell is one side: from its corner 0 to its corner 1.
        """
        offsets = self.cell_offsets[start : None if stop is None else stop + 1]
        corners = self.cell_vertices[offsets[0] : offsets[-1]]
        if self.ambient_dim == 2:
            return corners[0::2], corners[1::2]
        following = np.arange(1, len(corners) + 1)
        following[offsets[1:] - offsets[0] - 1] = offsets[:-1] - offsets[0]
        return corners, corners[following]

    def _sides(self, start: int = 0, stop: int | None = None) -> tuple[Array, Array]:
        """Both ends (sides, d) of each side of the cells start : stop, counter-clockwise."""
        first, last = self._side_vertices(start, stop)
        return self.vertices[first], self.vertices[last]

    def _ends(self) -> Array:
        """(E, 2, d) ends of the edges; (E, 1, d) on the circle."""
        return self.vertices[self.edge_vertices]
