"""Who meets whom: cells around points, edges between cells, as pure functions of index arrays.

A triangulation is read as half-edges: half-edge 3 t + k goes from corner k of triangle t to the
next corner and has t on its left; its twin goes back, along the neighbouring triangle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshes.checks import MeshError, first_failure
from meshes.geometry import Indices


def half_edge_pairs(origin: Indices, target: Indices, n: int) -> tuple[Indices, Indices]:
    """Half-edges (E,) from the lower to the higher point, sorted by points, and their twins (E,).

    origin, target : (2E,) first and last point of each half-edge, n the number of points

    Raises MeshError unless each half-edge has exactly one twin.
    """
    key = np.minimum(origin, target).astype(np.int64) * n + np.maximum(origin, target)
    upward = origin < target
    forward, backward = (
        half_edges[np.argsort(key[half_edges])].astype(np.int32)
        for half_edges in (np.flatnonzero(upward), np.flatnonzero(~upward))
    )
    matched = min(len(forward), len(backward))
    closed = key[forward[:matched]] == key[backward[:matched]]
    single = np.diff(key[forward[:matched]], prepend=-1) > 0
    wrong = first_failure(closed & single)
    if wrong is None and len(forward) != len(backward):
        wrong = matched - 1
    if wrong is not None:
        at = forward[wrong]
        raise MeshError(
            "triangles must close the sphere, each side shared by two that turn the same way, "
            f"but near points {origin[at]} and {target[at]} they do not"
        )
    return forward, backward


def triangles_around(origin: Indices, twin: Indices, n: int) -> tuple[Indices, Indices]:
    """Offsets (n+1,) and triangles (2E,) around each of n points, counter-clockwise.

    From a half-edge out of a point, the next one counter-clockwise is the twin of the side that
    enters the point in the same triangle. All points step together.
    """
    valence = np.bincount(origin, minlength=n)
    wrong = first_failure(valence >= 3)
    if wrong is not None:
        raise MeshError(
            f"every point must be a corner of >= 3 triangles, point {wrong} has {valence[wrong]}"
        )
    offsets = np.concatenate([[0], np.cumsum(valence)]).astype(np.int32)
    at = np.empty(n, dtype=np.int32)
    at[origin[::-1]] = np.arange(len(origin), dtype=np.int32)[::-1]  # the lowest out of each point
    around = np.empty(len(origin), dtype=np.int32)
    for k in range(valence.max()):
        left = np.flatnonzero(valence > k)
        here = at[left]
        around[offsets[left] + k] = here // 3
        at[left] = twin[np.where(here % 3 == 0, here + 2, here - 1)]
    return offsets, around


def match_sides(
    edge_cells: Indices, edge_vertices: Indices, corner_cells: Indices, corners: Indices
) -> tuple[Indices, NDArray[np.bool_]]:
    """Edge of each side of each cell (2E,), and whether the cell is that edge's second one.

    corner_cells, corners : (2E,) cell and vertex of each corner; side j starts at corner j

    Each edge is a side of two cells. For its second cell the side starts at the edge's first end,
    for its first cell at the last. The pair (cell, vertex where the side starts) names a side, so
    sorting both lists by it matches them; MeshError where they differ.
    """
    first, second = edge_cells.T.astype(np.int64)
    m = max(int(edge_vertices.max()), int(corners.max())) + 1
    of_edges = np.concatenate([first * m + edge_vertices[:, -1], second * m + edge_vertices[:, 0]])
    of_cells = corner_cells.astype(np.int64) * m + corners
    by_edge, by_cell = np.argsort(of_edges), np.argsort(of_cells)
    found = of_cells[by_cell]
    wrong = first_failure(of_edges[by_edge] == found)
    if wrong is not None:
        cell, vertex = divmod(int(found[wrong]), m)
        raise MeshError(
            f"cells and edges do not match: no edge, or two, for the side of cell {cell} "
            f"that starts at vertex {vertex} (or near it)"
        )
    sides = np.empty_like(by_edge)
    sides[by_cell] = by_edge
    return (sides % len(first)).astype(np.int32), sides >= len(first)
