"""Icosahedral meshes of S^2, Voronoi dual of meshzoo's triangulation: hexagons and 12 pentagons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes.checks import MeshError, check_voronoi, first_failure, integer
from meshes.geometry import Array, Indices, circumcenter, unit
from meshes.sphere_mesh import SphereMesh


def icosphere(frequency: int, relax: int = 0) -> SphereMesh:
    """Voronoi mesh of S^2 with 10 frequency^2 + 2 cells.

    frequency : >= 1; each of the icosahedron's edges is cut into this many parts
    relax : >= 0 Lloyd sweeps, each of which moves every generator to the exact spherical centroid
        of its cell and takes the Voronoi cells of the new generators

    Vertices are the triangles' spherical circumcentres. The sweeps keep the triangulation: moves
    are far smaller than the cells and all triangles nearly equilateral, so it stays Delaunay. That
    is checked after the last sweep all the same (MeshError).

    TypeError or ValueError unless frequency and relax are integers in range.

    >>> icosphere(8).n_cells
    642
    """
    frequency = integer("frequency", frequency, at_least=1)
    relax = integer("relax", relax, at_least=0)
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

    Half-edge 3 t + k goes from corner k of triangle t to the next and has t on its left; its twin
    goes back, along the neighbouring triangle.
    """
    triangles = np.ascontiguousarray(triangles, dtype=np.int32)
    origin, target = triangles.reshape(-1), np.roll(triangles, -1, axis=1).reshape(-1)
    forward, backward = _twins(origin, target, len(points))
    twin = np.empty(len(origin), dtype=np.int32)
    twin[forward], twin[backward] = backward, forward
    offsets, corners = _corners_around(origin, twin, len(points))
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


def _twins(origin: Indices, target: Indices, n: int) -> tuple[Indices, Indices]:
    """Pairs of opposite half-edges: from the lower to the higher point, and back; sorted."""
    key = np.minimum(origin, target) * np.int64(n) + np.maximum(origin, target)
    # Stable, with the forward half-edges listed first: of each pair the forward one comes first.
    upward = origin < target
    listed = np.concatenate([np.flatnonzero(upward), np.flatnonzero(~upward)]).astype(np.int32)
    pairs = listed[np.argsort(key[listed], kind="stable")]
    forward, backward = pairs[0::2], pairs[1::2]
    matched = len(forward) == len(backward) and 2 * np.count_nonzero(upward) == len(origin)
    wrong = first_failure(key[forward] == key[backward]) if matched else 0
    if wrong is not None or not (matched and upward[forward].all()):
        at = forward[wrong or 0]
        raise MeshError(
            "triangles must close the sphere, each side shared by two that turn the same way, "
            f"but near points {origin[at]} and {target[at]} they do not"
        )
    return forward, backward


def _corners_around(origin: Indices, twin: Indices, n: int) -> tuple[Indices, Indices]:
    """Offsets (n+1,) and triangles around each point, counter-clockwise.

    From a half-edge out of a point, the next one counter-clockwise is the twin of the side that
    enters the point in the same triangle.
    """
    valence = np.bincount(origin, minlength=n)
    wrong = first_failure(valence >= 3)
    if wrong is not None:
        raise MeshError(
            f"every point must be a corner of >= 3 triangles, point {wrong} has {valence[wrong]}"
        )
    offsets = np.concatenate([[0], np.cumsum(valence)]).astype(np.int32)
    half_edges = np.arange(len(origin), dtype=np.int32)
    at = np.empty(n, dtype=np.int32)
    at[origin[::-1]] = half_edges[::-1]
    corners = np.empty(len(origin), dtype=np.int32)
    for k in range(valence.max()):
        open_ = np.flatnonzero(valence > k)
        corners[offsets[open_] + k] = at[open_] // 3
        entering = np.where(at[open_] % 3 == 0, at[open_] + 2, at[open_] - 1)
        at[open_] = twin[entering]
    return offsets, corners
