"""Meshes of the circle S^1 in the structure of those of S^2: cells are arcs, edges points."""

from __future__ import annotations

import numpy as np

from meshes.checks import integer
from meshes.geometry import Array, Indices
from meshes.sphere_mesh import SphereMesh

LARGEST = 2**30 - 1
"""Of 32-bit connectivity: the cells have 2 n corners."""


def circle(n: int) -> SphereMesh:
    """n >= 3 equal arcs of the unit circle; cell i lies around the angle 2 pi (i + 1/2) / n.

    Cell i has the vertices i and i+1 (the last one: 0 again) and edge i lies at vertex i, from cell
    i-1 to cell i, so its normal points counter-clockwise.

    TypeError or ValueError unless n is an integer >= 3.

    >>> mesh = circle(6)
    >>> mesh.n_cells, mesh.n_edges, mesh.ambient_dim
    (6, 6, 2)
    """
    n = integer("n", n, at_least=3, at_most=LARGEST)
    i = np.arange(n, dtype=np.int32)
    after = (i + 1) % n
    return SphereMesh(
        centers=_points(2 * i + 1, n),
        vertices=_points(2 * i, n),
        edge_cells=np.stack([(i - 1) % n, i], axis=1),
        edge_vertices=i[:, None],
        cell_offsets=2 * np.arange(n + 1, dtype=np.int32),
        cell_vertices=np.stack([i, after], axis=1).reshape(-1),
    )


def _points(half_steps: Indices, n: int) -> Array:
    """Points (m, 2) at the angles pi half_steps / n."""
    angle = np.pi * half_steps / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
