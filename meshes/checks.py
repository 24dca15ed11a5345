"""What a sound mesh satisfies; the first thing that does not hold is named in a MeshError."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meshes import geometry

if TYPE_CHECKING:
    from meshes.sphere_mesh import SphereMesh

ROUNDING = float(np.finfo(np.float64).eps)
UNIT_TOLERANCE = 1e-14
AREA_TOLERANCE = 1e-12
VORONOI_TOLERANCE = 1e-12


class MeshError(ValueError):
    """A mesh that is not what it claims to be; the message names the cell or edge and the value."""


def first_failure(holds: Any) -> int | None:
    """Index of the first False, None where all are True."""
    return None if holds.all() else int(np.argmin(holds))


def require(holds: Any, what: str, values: NDArray[Any], kind: str) -> None:
    """MeshError "`what`, but `kind` 17 has 0.3" for the first entry that does not hold."""
    wrong = first_failure(holds)
    if wrong is not None:
        raise MeshError(f"{what}, but {kind} {wrong} has {values[wrong]}")


def integer(name: str, value: Any, at_least: int, at_most: int) -> int:
    """`value` as an int from `at_least` to `at_most`."""
    wanted = f"{name} must be an integer from {at_least} to {at_most}"
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{wanted}, got {' '.join(repr(value).split())[:80]}") from None
    if not at_least <= number <= at_most:
        shown = number if abs(number) < 10**20 else "a number beyond 1e20"
        raise ValueError(f"{wanted}, got {shown}")
    return number


def points_of(d: int, points: Any) -> NDArray[np.float64]:
    """Finite `points` (m, d), of any lengths up to 1e100."""
    try:
        given = np.asarray(points)
        if given.dtype.kind not in "fiu":
            raise TypeError
        array = given.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"points must be an array (m, {d}) of real numbers") from None
    if array.ndim != 2 or array.shape[1] != d:
        raise ValueError(f"points must have shape (m, {d}), got {array.shape}")
    # Squares of larger numbers are infinite, and every center is equally far.
    wrong = first_failure((np.abs(array) <= 1e100).all(axis=1))
    if wrong is not None:
        raise ValueError(f"points must be finite, got {array[wrong]} in row {wrong}")
    return array


def check_mesh(mesh: SphereMesh) -> None:
    """All checks, the basic ones first: later ones rely on them."""
    check_points(mesh)
    check_connectivity(mesh)
    check_cells(mesh)
    check_edges(mesh)
    check_closure(mesh)


def check_points(mesh: SphereMesh) -> None:
    """Centers and vertices are finite unit vectors."""
    for name, kind, points in (
        ("centers", "cell", mesh.centers),
        ("vertices", "vertex", mesh.vertices),
    ):
        require(np.isfinite(points).all(axis=1), f"{name} must be finite", points, kind)
        lengths = geometry.norm(points)
        require(
            np.abs(lengths - 1.0) <= UNIT_TOLERANCE,
            f"{name} must be unit vectors",
            lengths,
            f"the {kind}",
        )


def check_connectivity(mesh: SphereMesh) -> None:
    """Indices in range, every edge between two cells that have it as a side, Euler's formula."""
    d, counts = mesh.ambient_dim, np.diff(mesh.cell_offsets)
    if mesh.cell_offsets[0] != 0 or mesh.cell_offsets[-1] != len(mesh.cell_vertices):
        raise MeshError(
            f"cell_offsets must run from 0 to {len(mesh.cell_vertices)}, "
            f"got {mesh.cell_offsets[0]} to {mesh.cell_offsets[-1]}"
        )
    enough = counts == 2 if d == 2 else counts >= 3
    wanted = "exactly 2 corners" if d == 2 else "at least 3 corners"
    require(enough, f"a cell must have {wanted}", counts, "cell")
    for name, indices, n in (
        ("edge_cells", mesh.edge_cells, mesh.n_cells),
        ("edge_vertices", mesh.edge_vertices, mesh.n_vertices),
        ("cell_vertices", mesh.cell_vertices[:, None], mesh.n_vertices),
    ):
        holds = ((indices >= 0) & (indices < n)).all(axis=1)
        require(holds, f"{name} must be from 0 to {n - 1}", indices, "row")
    first, second = mesh.edge_cells.T
    require(first != second, "an edge must lie between two cells", mesh.edge_cells, "edge")
    euler = mesh.n_vertices - mesh.n_edges + (mesh.n_cells if d == 3 else 0)
    if euler != (2 if d == 3 else 0):
        formula = "vertices - edges + cells = 2" if d == 3 else "vertices - edges = 0"
        raise MeshError(f"Euler's formula {formula} fails: the left-hand side is {euler}")
    check_sides(mesh)


def check_sides(mesh: SphereMesh) -> None:
    """Side j of a cell, from its corner j to the next, is the edge cell_edges names there."""
    edges, is_first = mesh.cell_edges, mesh.cell_edge_signs > 0
    if mesh.ambient_dim == 2:
        return
    ends = mesh.edge_vertices[edges]
    ends[is_first] = ends[is_first, ::-1]  # its first cell lies on the right of an edge
    wrong = first_failure((ends == np.stack(mesh.side_vertices(), axis=1)).all(axis=1))
    if wrong is not None:
        cell = int(np.searchsorted(mesh.cell_offsets, wrong, side="right")) - 1
        raise MeshError(
            f"edges must join the corners of their side, but cell {cell}, side "
            f"{wrong - mesh.cell_offsets[cell]} has ends {ends[wrong]}"
        )


def check_cells(mesh: SphereMesh) -> None:
    """Corners turn counter-clockwise around the center; areas are positive and fill the sphere."""
    a, b = mesh.sides()
    if mesh.ambient_dim == 3:
        cells = mesh.side_cells()
        parts = geometry.triangle_area(mesh.centers[cells], a, b)
        wrong = first_failure(parts > 0.0)
        if wrong is not None:
            raise MeshError(
                f"corners must turn counter-clockwise around the center, but in cell "
                f"{cells[wrong]} the triangle of side {wrong - mesh.cell_offsets[cells[wrong]]} "
                f"has area {parts[wrong]}"
            )
    else:
        turn = geometry.dot(geometry.tangent_frame(a)[:, 0], b)
        require(turn > 0.0, "corners must turn counter-clockwise", turn, "cell")
    require(mesh.areas > 0.0, "areas must be positive", mesh.areas, "cell")
    whole = (4.0 if mesh.ambient_dim == 3 else 2.0) * np.pi
    if not abs(mesh.total_area - whole) <= AREA_TOLERANCE * whole:
        raise MeshError(
            f"areas must sum to {whole:.15g}, got {mesh.total_area:.15g}: "
            "cells overlap or leave gaps"
        )


def check_edges(mesh: SphereMesh) -> None:
    """Lengths positive, normals unit, tangent at both ends, from first to second cell; Voronoi."""
    ends = mesh._ends()
    require(mesh.edge_lengths > 0.0, "edges must have a length > 0", mesh.edge_lengths, "edge")
    normals = mesh.edge_normals
    lengths = geometry.norm(normals)
    unit = np.abs(lengths - 1.0) <= UNIT_TOLERANCE
    require(unit, "edge normals must be unit vectors", lengths, "edge")
    radial = np.abs(geometry.dot(normals[:, None], ends)).max(axis=1)
    require(radial <= UNIT_TOLERANCE, "edge normals must be tangent at both ends", radial, "edge")
    check_voronoi(mesh)


def check_voronoi(mesh: SphereMesh) -> None:
    """Normals lead from first to second center; the ends of an edge are equally far from both.

    The first says, for every pair of neighbours, that the triangulation of the centers is Delaunay.
    """
    first, second = mesh.edge_cells.T
    step = mesh.centers[second] - mesh.centers[first]
    ahead = geometry.dot(mesh.edge_normals, step)
    require(ahead > 0.0, "edge normals must lead from the first to the second cell", ahead, "edge")
    off = np.abs(geometry.dot(step[:, None], mesh._ends())).max(axis=1)
    require(
        off <= VORONOI_TOLERANCE,
        "an edge's ends must be equally far from both centers",
        off,
        "edge",
    )


def check_closure(mesh: SphereMesh) -> None:
    """The fluxes of a rotation sum to zero over every cell, to rounding.

    Rotation about the k-th axis has the stream function psi = -x_k, so its flux through an edge is
    minus the difference of the ends' x_k. On the circle it flows with velocity 1 through each edge.
    """
    if mesh.ambient_dim == 3:
        ends = mesh._ends()
        fluxes = ends[:, 0] - ends[:, 1]
    else:
        fluxes = geometry.dot(mesh.edge_normals, geometry.tangent_frame(mesh.edge_midpoints)[:, 0])
        fluxes = fluxes[:, None]
    outward = mesh.cell_edge_signs[:, None] * fluxes[mesh.cell_edges]
    divergence = np.abs(geometry.segment_sum(outward, mesh.cell_offsets)).max(axis=1)
    through = geometry.segment_sum(np.abs(outward), mesh.cell_offsets).max(axis=1)
    require(
        divergence <= 16.0 * ROUNDING * through,
        "the fluxes of a rotation must sum to 0 over a cell",
        divergence,
        "cell",
    )
