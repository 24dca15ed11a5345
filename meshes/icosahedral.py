"""Icosahedral meshes of S^2, Voronoi dual of meshzoo's triangulation: hexagons and 12 pentagons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes.checks import check_voronoi, integer
from meshes.connectivity import half_edge_pairs, triangles_around
from meshes.geometry import Array, circumcenter, unit
from meshes.sphere_mesh import SphereMesh

LARGEST_FREQUENCY = 5982
"""Of 32-bit connectivity: the cells have 60 frequency^2 corners."""

MOST_SWEEPS = 10**6


def icosphere(frequency: int, relax: int = 0) -> SphereMesh:
    """Voronoi mesh of S^2 with 10 frequency^2 + 2 cells.

    frequency : >= 1; each of the icosahedron's edges is cut into this many parts
    relax : >= 0 Lloyd sweeps, each of which moves every generator to the exact spherical centroid
        of its cell and takes the Voronoi cells of the new generators

    Vertices are the triangles' spherical circumcentres. The sweeps keep the triangulation: moves
    are far smaller than the cells and all triangles nearly equilateral, so it stays Delaunay. That
    is checked after the last sweep all the same (MeshError).

    TypeError or ValueError unless frequency and relax are integers in range: connectivity is of 32
    bits, so that the largest frequency is 5982.

    >>> icosphere(8).n_cells
    642
    """
    frequency = integer("frequency", frequency, at_least=1, at_most=LARGEST_FREQUENCY)
    relax = integer("relax", relax, at_least=0, at_most=MOST_SWEEPS)
    import meshzoo

    points, triangles = meshzoo.icosa_sphere(frequency)
    mesh = voronoi_dual(unit(points), triangles)
    for _ in range(relax):
        centers = mesh.centroids
        mesh = replace(mesh, centers=centers, vertices=circumcenter(*_corners(centers, triangles)))
    if relax:
        check_voronoi(mesh)
    return mesh


def voronoi_dual(points: Array, triangles: NDArray[Any]) -> SphereMesh:
    """The Voronoi mesh of generators (N, 3) whose Delaunay triangulation (M, 3) is given.

    Vertex t of the mesh is the circumcentre of triangle t. Triangles must turn counter-clockwise
    seen from outside and close the sphere (MeshError); `mesh.check()` tells whether they are
    Delaunay.
    """
    triangles = np.ascontiguousarray(triangles, dtype=np.int32)
    origin, target = triangles.reshape(-1), np.roll(triangles, -1, axis=1).reshape(-1)
    forward, backward = half_edge_pairs(origin, target, len(points))
    twin = np.empty(len(origin), dtype=np.int32)
    twin[forward], twin[backward] = backward, forward
    offsets, corners = triangles_around(origin, twin, len(points))
    return SphereMesh(
        centers=points,
        vertices=circumcenter(*_corners(points, triangles)),
        edge_cells=np.stack([origin[forward], target[forward]], axis=1),
        # The dual edge crosses its half-edge from the triangle on the left to that on the right.
        edge_vertices=np.stack([forward // 3, backward // 3], axis=1),
        cell_offsets=offsets,
        cell_vertices=corners,
    )


def _corners(points: Array, triangles: NDArray[Any]) -> tuple[Array, Array, Array]:
    """The three corners (M, 3) of each triangle."""
    a, b, c = triangles.T
    return points[a], points[b], points[c]
