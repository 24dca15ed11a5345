r"""SphereMesh: Voronoi cells of S^2 (d = 3) or S^1 (d = 2) as plain arrays; the rest is derived.

A cell of S^2 is a spherical polygon. Its corners and its sides are numbered together, counter-
clockwise seen from outside; side j runs from corner j to corner j + 1, edge j lies on side j:

              corner 2 ____ side 1 ____ corner 1
                      /                \
              side 2 /                  \ side 0
                    /                    \
          corner 3 (       center x       ) corner 0
                    \                    /
              side 3 \                  / side 5
                      \________________/
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

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes import adaptive, averages, geometry
from meshes.checks import MeshError, check_mesh, points_of
from meshes.connectivity import match_sides
from meshes.dissection import dissection
from meshes.geometry import Array, Indices
from meshes.quadrature import CellQuadrature, EdgeQuadrature, arc_quadrature


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

    All arrays are read-only (given ones are not copied, so leave those alone); derived ones are
    computed at first use and kept. Construction looks at shapes only (MeshError), `check()` at
    everything.

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
        a, b = self.sides()
        if self.ambient_dim == 2:
            return read_only(geometry.arc_length(a, b))
        parts = geometry.triangle_area(self.centers[self.side_cells()], a, b)
        return read_only(geometry.segment_sum(parts, self.cell_offsets))

    @cached_property
    def total_area(self) -> float:
        """Sum of the areas: 4 pi, or 2 pi on the circle, to rounding."""
        return float(self.areas.sum())

    @cached_property
    def centroids(self) -> Array:
        """(N, d) exact centroids int x dA / |int x dA| of the cells, unit vectors."""
        a, b = self.sides()
        if self.ambient_dim == 2:
            return read_only(geometry.arc_midpoint(a, b))
        return read_only(geometry.unit(geometry.polygon_moment(a, b, self.cell_offsets)))

    @cached_property
    def cell_radii(self) -> Array:
        """(N,) largest distance of a cell's center to its corners, in radians."""
        centers = np.repeat(self.centers, np.diff(self.cell_offsets), axis=0)
        distances = geometry.arc_length(centers, self.vertices[self.cell_vertices])
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
        """Edge of each side of each cell, and whether the cell is that edge's second one."""
        cells = np.repeat(np.arange(self.n_cells, dtype=np.int32), np.diff(self.cell_offsets))
        return match_sides(self.edge_cells, self.edge_vertices, cells, self.cell_vertices)

    @cached_property
    def dissection(self) -> Indices:
        """(N,) cells in an order in which matrices of neighbours factorise with little fill-in."""
        return read_only(dissection(self.centers, self.edge_cells))

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
        return CellQuadrature(*(read_only(part) for part in averages.cell_quadrature(self, degree)))

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

    def average(
        self,
        f: Callable[[Array], Array],
        scale: Callable[[Array], Array] | None = None,
        tolerance: float = adaptive.TOLERANCE,
    ) -> Array:
        """Cell averages (N, ...) of f: points (m, d) -> values (m, ...), by a rule of degree 8.

        scale : (m, d) -> (m,) > 0, radii of pieces that are surely seen: what is narrower than the
            rule's nodes are apart, a third of a cell, is found only if something leads there
        tolerance : estimated error of an integral, as a share of the mean cell's of |f|, above
            which a cell is divided until its pieces hold it

        Smooth functions keep the rule's averages. Where it is in doubt, narrow peaks are followed
        down to rounding, and jumps so far that the average of a cell that they cross is right to
        half a percent of the jump (on the circle, nearly to rounding). A function with a method
        `cell_averages(mesh)` gives them itself: laws know theirs.

        Raises ValueError when f returns another shape, or NaN or infinity somewhere, or is so
        narrow or rough that nothing can be said of its averages; TypeError for complex values.
        Nodes are made and used up in chunks, so that memory stays small.

        >>> from meshes import circle
        >>> circle(3).average(lambda x: x[:, 0] ** 2).round(6)
        array([0.396626, 0.706749, 0.396626])
        """
        own = getattr(f, "cell_averages", None)
        if own is not None:
            return own(self)
        found = adaptive.CellIntegrals(self, f, scale, tolerance)
        return found.total / self.areas.reshape(-1, *[1] * (found.whole.ndim - 1))

    # ------------------------------------------------------------------ look-up and check

    def locate(self, points: Any) -> Indices:
        """(m,) int32 cells that contain the points (m, d): those of their nearest centers.

        Raises ValueError for other shapes and for numbers that are not finite.

        >>> from meshes import circle
        >>> mesh = circle(8)
        >>> bool((mesh.locate(mesh.centroids) == np.arange(8)).all())
        True
        """
        return self._tree.query(points_of(self.ambient_dim, points))[1].astype(np.int32)

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree

        return cKDTree(self.centers)

    def check(self) -> None:
        """Raise MeshError, naming cell or edge and value, unless this is a sound mesh.

        What is looked at: `meshes.checks`.
        """
        check_mesh(self)

    # ------------------------------------------------------------------ sides of cells

    def side_vertices(self, start: int = 0, stop: int | None = None) -> tuple[Indices, Indices]:
        """Vertices (sides,) where each side of the cells start : stop begins and ends.

        Cell by cell, counter-clockwise. On the circle a cell is one side, from corner 0 to 1.
        """
        offsets = self.cell_offsets[start : None if stop is None else stop + 1]
        corners = self.cell_vertices[offsets[0] : offsets[-1]]
        if self.ambient_dim == 2:
            return corners[0::2], corners[1::2]
        following = np.arange(1, len(corners) + 1)
        following[offsets[1:] - offsets[0] - 1] = offsets[:-1] - offsets[0]
        return corners, corners[following]

    def sides(self, start: int = 0, stop: int | None = None) -> tuple[Array, Array]:
        """Points (sides, d) where each side of the cells start : stop begins and ends."""
        first, last = self.side_vertices(start, stop)
        return self.vertices[first], self.vertices[last]

    def side_cells(self, start: int = 0, stop: int | None = None) -> Indices:
        """(sides,) int32 cell of each side of the cells start : stop."""
        offsets = self.cell_offsets[start : None if stop is None else stop + 1]
        cells = np.arange(start, start + len(offsets) - 1, dtype=np.int32)
        return np.repeat(cells, np.diff(offsets)) if self.ambient_dim == 3 else cells

    def _ends(self) -> Array:
        """(E, 2, d) ends of the edges; (E, 1, d) on the circle."""
        return self.vertices[self.edge_vertices]
