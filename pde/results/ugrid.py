"""Meshes as UGRID: topology and coordinates that other programs understand, and the way back.

Cells of the sphere are the faces of a two-dimensional UGRID topology; cells of the circle are the
edges of a one-dimensional one. Longitudes and latitudes are in degrees, as CF asks; beside them
stand the exact Cartesian coordinates, so that `restore` gives the mesh back to the bit.

Each cell of the sphere also carries the coordinates of its own corners, as CF's bounds: programs
that know CF but not UGRID draw the cells from them. VTK and ParaView need them: their CF reader
puts the polygons on the sphere, their UGRID reader makes a triangle or a quadrilateral of any cell.

Conventions: UGRID 1.0 (http://ugrid-conventions.github.io/ugrid-conventions), CF 1.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from meshes import SphereMesh
from meshes.checks import check_connectivity
from pde.arguments import Array, unit_points
from pde.results.netcdf import Variable

PADDING = np.int32(-1)
"""Marks the missing corners of cells with fewer corners than the widest."""

CELL_DIMENSION = {2: "mesh_edge", 3: "mesh_face"}
"""Name of the cells' dimension, by the dimension of the ambient space."""

CONNECTIVITY_ROLES = {
    "mesh_face_nodes": "face_node_connectivity",
    "mesh_edge_nodes": "edge_node_connectivity",
    "mesh_edge_cells": "edge_face_connectivity",
}


def variables(mesh: SphereMesh) -> list[Variable]:
    """The mesh as UGRID variables.

    Raises ValueError for a mesh that is neither of the circle nor of the sphere.
    """
    if mesh.ambient_dim == 3:
        return _sphere(mesh)
    if mesh.ambient_dim == 2:
        return _circle(mesh)
    raise ValueError(f"mesh must be of dimension 2 or 3, got {mesh.ambient_dim}")


def data_attributes(mesh: SphereMesh) -> dict[str, str]:
    """What an array of cell averages says of its place on the mesh."""
    cell = CELL_DIMENSION[mesh.ambient_dim]
    return {
        "mesh": "mesh",
        "location": cell.removeprefix("mesh_"),
        "coordinates": f"{cell}_lon {cell}_lat",
        "cell_measures": f"area: {cell}_area",
        "cell_methods": f"{cell}: mean",
    }


def restore(stored: Mapping[str, Variable]) -> SphereMesh:
    """The mesh that `variables` wrote, equal to the bit.

    Raises KeyError where a variable is missing, ValueError where the mesh is not the one whose
    areas are written beside it: what was damaged would be an index out of range later.
    """
    if int(stored["mesh"].attributes["topology_dimension"]) == 1:
        cells, edges, corners = "mesh_edge", "interface", stored["mesh_edge_nodes"].data
    else:
        cells, edges, corners = "mesh_face", "mesh_edge", stored["mesh_face_nodes"].data
    used = corners != PADDING
    offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    mesh = SphereMesh(
        centers=np.ascontiguousarray(stored[f"{cells}_center"].data),
        vertices=np.ascontiguousarray(stored["mesh_node_position"].data),
        edge_cells=np.ascontiguousarray(stored[f"{edges}_cells"].data, dtype=np.int32),
        edge_vertices=np.ascontiguousarray(stored[f"{edges}_nodes"].data, dtype=np.int32),
        cell_offsets=offsets.astype(np.int32),
        cell_vertices=corners[used].astype(np.int32),
    )
    check_connectivity(mesh)
    unit_points("centers", mesh.centers)
    unit_points("vertices", mesh.vertices)
    if not np.allclose(mesh.areas, stored[f"{cells}_area"].data, rtol=1e-9, atol=0.0):
        raise ValueError("the corners of its cells do not enclose the areas of its cells")
    return mesh


def _sphere(mesh: SphereMesh) -> list[Variable]:
    corners = padded_corners(mesh)
    topology = {
        "topology_dimension": np.int32(2),
        "face_dimension": "mesh_face",
        "edge_dimension": "mesh_edge",
        "face_node_connectivity": "mesh_face_nodes",
        "edge_node_connectivity": "mesh_edge_nodes",
        "edge_face_connectivity": "mesh_edge_cells",
        "face_coordinates": "mesh_face_lon mesh_face_lat",
    }
    return [
        _topology(topology),
        _connectivity("mesh_face_nodes", ("mesh_face", "corner"), corners),
        _connectivity("mesh_edge_nodes", ("mesh_edge", "two"), mesh.edge_vertices),
        _connectivity("mesh_edge_cells", ("mesh_edge", "two"), mesh.edge_cells),
        *_places("mesh_node", "position", mesh.vertices, "Voronoi corners"),
        *_places("mesh_face", "center", mesh.centers, "Voronoi generators", bounds=True),
        *_bounds(mesh.vertices, corners),
        _area("mesh_face", mesh.areas),
    ]


def _circle(mesh: SphereMesh) -> list[Variable]:
    topology = {
        "topology_dimension": np.int32(1),
        "edge_dimension": "mesh_edge",
        "edge_node_connectivity": "mesh_edge_nodes",
        "edge_coordinates": "mesh_edge_lon mesh_edge_lat",
    }
    # UGRID has no word for what separates two cells of a curve; here it is the interface.
    return [
        _topology(topology),
        _connectivity("mesh_edge_nodes", ("mesh_edge", "two"), padded_corners(mesh)),
        _connectivity("interface_nodes", ("interface", "single"), mesh.edge_vertices),
        _connectivity("interface_cells", ("interface", "two"), mesh.edge_cells),
        *_places("mesh_node", "position", mesh.vertices, "ends of the cells"),
        *_places("mesh_edge", "center", mesh.centers, "centres of the cells"),
        _area("mesh_edge", mesh.areas),
    ]


def padded_corners(mesh: SphereMesh) -> np.ndarray:
    """(N, widest) corners of each cell, counter-clockwise, padded with `PADDING`."""
    counts = np.diff(mesh.cell_offsets)
    corners = np.full((mesh.n_cells, int(counts.max())), PADDING, dtype=np.int32)
    corners[np.arange(corners.shape[1]) < counts[:, None]] = mesh.cell_vertices
    return corners


def longitude_latitude(points: Array) -> tuple[Array, Array]:
    """Degrees of unit vectors in R^2 (latitude 0) or R^3.

    >>> longitude_latitude(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, -1.0]]))
    (array([90.,  0.]), array([  0., -90.]))
    """
    longitude = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    if points.shape[1] == 2:
        return longitude, np.zeros(len(points))
    return longitude, np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))


def _topology(attributes: dict[str, Any]) -> Variable:
    general = {
        "cf_role": "mesh_topology",
        "long_name": "Voronoi cells of the unit sphere",
        "node_coordinates": "mesh_node_lon mesh_node_lat",
    }
    return Variable("mesh", ("one",), np.zeros(1, dtype=np.int32), {**general, **attributes})


def _connectivity(name: str, dimensions: tuple[str, str], data: np.ndarray) -> Variable:
    attributes: dict[str, Any] = {"start_index": np.int32(0)}
    if name in CONNECTIVITY_ROLES:
        attributes["cf_role"] = CONNECTIVITY_ROLES[name]
    if name == "mesh_face_nodes":
        attributes["_FillValue"] = PADDING
    return Variable(name, dimensions, np.asarray(data, dtype=np.int32), attributes)


def _places(on: str, exact: str, points: Array, what: str, bounds: bool = False) -> list[Variable]:
    """Longitude and latitude in degrees, and the exact unit vectors."""
    longitude, latitude = longitude_latitude(points)
    east = {"standard_name": "longitude", "units": "degrees_east", "long_name": what}
    north = {"standard_name": "latitude", "units": "degrees_north", "long_name": what}
    if bounds:
        east["bounds"], north["bounds"] = f"{on}_lon_bounds", f"{on}_lat_bounds"
    return [
        Variable(f"{on}_lon", (on,), longitude, east),
        Variable(f"{on}_lat", (on,), latitude, north),
        Variable(
            f"{on}_{exact}",
            (on, "axis"),
            points,
            {"long_name": f"{what}, unit vectors", "units": "1"},
        ),
    ]


def _bounds(vertices: Array, corners: np.ndarray) -> list[Variable]:
    """Longitudes and latitudes of each cell's corners; the last corner again in place of padding.

    In single precision: they are there to be drawn.
    """
    counts = (corners != PADDING).sum(axis=1)
    last = corners[np.arange(len(corners)), counts - 1]
    used = np.where(corners == PADDING, last[:, None], corners)
    return [
        Variable(
            f"mesh_face_{name}_bounds", ("mesh_face", "corner"), degrees.astype(np.float32)[used]
        )
        for name, degrees in zip(("lon", "lat"), longitude_latitude(vertices), strict=True)
    ]


def _area(on: str, areas: Array) -> Variable:
    return Variable(
        f"{on}_area",
        (on,),
        areas,
        {"long_name": "measure of the cells on the unit sphere", "units": "1"},
    )
