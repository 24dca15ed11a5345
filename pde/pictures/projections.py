"""The sphere on paper: two projections, and the cells of a mesh behind each pixel.

Cells are Voronoi, so the cell behind a pixel is the one with the nearest center, whatever the
projection: no polygon is cut at a limb or a date line, and a picture of a million cells costs no
more than one of a thousand. The table of cells serves every state on the mesh (`CellRaster`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh
from pde.arguments import Array, real_array

MOLLWEIDE_STEPS = 60
"""Halvings of [0, pi/2] for Mollweide's angle: to rounding, also at the poles."""


class Projection(Protocol):
    """A map from the sphere to the plane, and back."""

    @property
    def half_width(self) -> float:
        """Of the picture of the sphere, in the plane's units."""

    @property
    def half_height(self) -> float:
        """Of the picture of the sphere, in the plane's units."""

    def project(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(m, 2) places of (m, 3) points, and which of them are in sight."""

    def unproject(self, places: Array) -> Array:
        """(m, 3) points shown at (m, 2) places; places outside give the nearest on the outline."""


@dataclass(frozen=True, eq=False)
class Orthographic:
    """The half of the sphere that a distant observer sees.

    toward : direction of the observer, of any length

    >>> Orthographic([0.0, -1.0, 0.0]).project(np.array([[1.0, 0.0, 0.0]]))[0].round(12) + 0.0
    array([[1., 0.]])
    """

    toward: Any
    half_width: float = 1.0
    half_height: float = 1.0
    frame: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        toward = real_array("toward", self.toward, ndim=1)
        if toward.shape != (3,) or not np.any(toward):
            raise ValueError(f"toward must be a direction in R^3, got {toward}")
        toward = toward / np.linalg.norm(toward)
        # e3 points up, except to observers above the poles.
        up = [0.0, 0.0, 1.0] if abs(toward[2]) < 0.99 else [0.0, 1.0, 0.0]
        right = np.cross(up, toward)
        right /= np.linalg.norm(right)
        object.__setattr__(self, "frame", np.array([right, np.cross(toward, right), toward]))

    @property
    def opposite(self) -> Orthographic:
        """The view of the other half, as if the observer walked round the sphere."""
        return Orthographic(-self.frame[2])

    def project(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(m, 2) places in the unit disk; in sight is the half towards the observer."""
        seen = points @ self.frame.T
        return seen[:, :2], seen[:, 2] >= 0.0

    def unproject(self, places: Array) -> Array:
        """(m, 3) points behind (m, 2) places."""
        radius = np.hypot(places[:, 0], places[:, 1])
        inside = places / np.maximum(radius, 1.0)[:, None]
        depth = np.sqrt(np.maximum(0.0, 1.0 - (inside**2).sum(axis=1)))
        return np.column_stack([inside, depth]) @ self.frame


@dataclass(frozen=True, eq=False)
class Mollweide:
    """The whole sphere in an ellipse, areas true to scale.

    x = 2 sqrt(2)/pi lambda cos(theta), y = sqrt(2) sin(theta), 2 theta + sin 2 theta = pi sin(phi)

    central_longitude : in radians, shown in the middle

    >>> Mollweide().project(np.array([[0.0, 0.0, 1.0]]))[0].round(12)
    array([[0.        , 1.41421356]])
    """

    central_longitude: float = 0.0
    half_width: float = 2.0 * np.sqrt(2.0)
    half_height: float = np.sqrt(2.0)

    def project(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(m, 2) places; everything is in sight."""
        longitude = np.arctan2(points[:, 1], points[:, 0]) - self.central_longitude
        longitude = np.mod(longitude + np.pi, 2.0 * np.pi) - np.pi
        height = np.pi * np.clip(points[:, 2], -1.0, 1.0)
        low, high = np.full(len(points), -0.5 * np.pi), np.full(len(points), 0.5 * np.pi)
        for _ in range(MOLLWEIDE_STEPS):
            theta = 0.5 * (low + high)
            below = 2.0 * theta + np.sin(2.0 * theta) < height
            low, high = np.where(below, theta, low), np.where(below, high, theta)
        x = self.half_width / np.pi * longitude * np.cos(theta)
        return np.column_stack([x, self.half_height * np.sin(theta)]), np.ones(len(points), bool)

    def unproject(self, places: Array) -> Array:
        """(m, 3) points behind (m, 2) places."""
        sine = np.clip(places[:, 1] / self.half_height, -1.0, 1.0)
        theta = np.arcsin(sine)
        z = np.clip((2.0 * theta + np.sin(2.0 * theta)) / np.pi, -1.0, 1.0)
        reach = self.half_width * np.cos(theta)
        across = np.divide(places[:, 0], reach, out=np.zeros_like(reach), where=reach > 0.0)
        longitude = np.pi * np.clip(across, -1.0, 1.0) + self.central_longitude
        radius = np.sqrt(1.0 - z**2)
        return np.column_stack([radius * np.cos(longitude), radius * np.sin(longitude), z])


@dataclass(frozen=True, eq=False)
class Flat:
    """The circle as it is."""

    half_width: float = 1.0
    half_height: float = 1.0

    def project(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The first two coordinates; everything is in sight."""
        return points[:, :2], np.ones(len(points), bool)

    def unproject(self, places: Array) -> Array:
        """The nearest points of the circle."""
        return places / np.linalg.norm(places, axis=1, keepdims=True)


class CellRaster:
    """Which cell of `mesh` lies behind each pixel of a projection.

    mesh : of the sphere (d = 3)
    pixels : number of rows; columns in proportion

    `cells` is (rows, columns), from the bottom up; `extent` is (left, right, bottom, top).

    >>> from meshes import icosphere
    >>> CellRaster(icosphere(2), Mollweide(), pixels=4).cells.shape
    (4, 8)
    """

    def __init__(self, mesh: SphereMesh, projection: Projection, pixels: int = 700) -> None:
        from scipy.spatial import cKDTree

        if mesh.ambient_dim != 3:
            raise ValueError(f"mesh must be of the sphere (d = 3), got d = {mesh.ambient_dim}")
        self.projection = projection
        width, height = projection.half_width, projection.half_height
        self.extent = (-width, width, -height, height)
        columns = round(pixels * width / height)
        x, y = _pixel_centers(width, columns), _pixel_centers(height, pixels)
        places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        _, nearest = cKDTree(mesh.centers).query(projection.unproject(places), workers=-1)
        self.cells = nearest.astype(np.int32).reshape(pixels, columns)


def _pixel_centers(half: float, count: int) -> Array:
    return half * (2.0 * np.arange(count) + 1.0 - count) / count
