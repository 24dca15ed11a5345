"""Exact masses on the cells of a mesh: of caps, and of angular central Gaussians.

Both are solid angles. A cap's is a sum over the sides of a cell, a Gaussian's that of the cell
carried by a matrix, so that spots and ridges far below a cell's width cost nothing.
"""

from __future__ import annotations

import numpy as np

from meshes import SphereMesh
from meshes.geometry import (
    Array,
    arc_length,
    arc_pole,
    cross,
    dot,
    norm,
    segment_sum,
    tangent_frame,
    unit,
)

SMALLEST_RATIO = 1e-150
"""Of a Gaussian's axes: no cell sees a difference below."""


def cap_areas(mesh: SphereMesh, center: Array, radius: float) -> Array:
    """(N,) areas of the parts of the cells within the angle `radius` <= pi of the unit `center`."""
    if radius > 0.5 * np.pi:
        return np.maximum(mesh.areas - cap_areas(mesh, -center, np.pi - radius), 0.0)
    distance = arc_length(mesh.centers, center)
    a, b = mesh.sides()
    if mesh.ambient_dim == 2:
        parts = _arcs_in_cap(a, b, center, radius)
    else:
        parts = segment_sum(_sectors_in_cap(a, b, center, radius), mesh.cell_offsets)
    # Sums over sides are small differences where a cell lies off the rim.
    parts = np.where(distance + mesh.cell_radii <= radius, mesh.areas, parts)
    parts[distance - mesh.cell_radii >= radius] = 0.0
    return np.clip(parts, 0.0, mesh.areas)


def _arcs_in_cap(a: Array, b: Array, center: Array, radius: float) -> Array:
    """(n,) lengths within the cap of arcs from a to b (n, 2)."""
    along = tangent_frame(center)[0]
    start, stop = (np.arctan2((p - center) @ along, p @ center) for p in (a, b))
    inside = np.clip(stop, -radius, radius) - np.clip(start, -radius, radius)
    return np.where(stop < start, inside + 2.0 * radius, inside)


def _sectors_in_cap(a: Array, b: Array, center: Array, radius: float) -> Array:
    """(n,) signed areas within a cap, radius <= pi/2, of the triangles center, a, b (n, 3).

    Seen from the center, the great circle through a and b has its nearest point at the distance
    delta, and in the direction psi from there the distance r, tan r = tan delta / cos psi. So the
    area is int min(1 - cos r, 1 - cos radius) dpsi, and

        int_0^psi 1 - cos r = psi - arcsin(sin psi cos delta),

    written below without the difference.
    """
    pole = arc_pole(a, b)
    height = dot(pole, center - 0.5 * (a + b))  # > 0: the center is on the left
    frame = tangent_frame(center)
    shadow = pole @ frame.T
    sine, cosine = np.abs(height), norm(shadow)
    nearest = _longitudes(np.where(height[:, None] > 0.0, -shadow, shadow))
    rim = np.arccos(sine / np.maximum(sine, cosine * np.tan(radius) + np.finfo(float).tiny))
    psi = []
    for end in (a, b):
        angle = _longitudes((end - center) @ frame.T) - nearest
        angle -= 2.0 * np.pi * np.round(angle / (2.0 * np.pi))
        # Ends within the cap see the circle before the rim; rounding may not, near the center.
        inside = norm(end - center) < 2.0 * np.sin(0.5 * radius)
        psi.append(np.where(inside, np.clip(angle, -rim, rim), angle))
    start, stop = psi
    full = 2.0 * np.sin(0.5 * radius) ** 2

    def integral(psi: Array) -> Array:
        """From 0 to psi >= 0: to the rim along the great circle, then along the rim."""
        inside = np.minimum(psi, rim)
        s, c = np.sin(inside), np.cos(inside)
        near = s * sine**2 / (np.sqrt(c**2 + (s * sine) ** 2) + c * cosine)
        return np.arcsin(np.minimum(near, 1.0)) + full * (psi - inside)

    swept = np.copysign(integral(np.abs(stop)), stop) - np.copysign(integral(np.abs(start)), start)
    # An arc that turns by more than pi has gone past the far side.
    around = (np.abs(stop - start) > np.pi) & (dot(a + b, center) < 1e-8)
    return swept - 2.0 * np.where(around, np.sign(stop - start), 0.0) * integral(np.array(np.pi))


def _longitudes(vectors: Array) -> Array:
    return np.arctan2(vectors[:, 1], vectors[:, 0])


def gaussian_masses(mesh: SphereMesh, root: Array) -> Array:
    """(N,) masses on the cells of the law of z/|z|, z ~ N(0, root root^T).

    They are those of the cells M cell under the uniform law, M = root^-1. With root = U s W^T, M
    divides the coordinates along U by s, which errs no more than moving points by rounding would.
    """
    U, s, _ = np.linalg.svd(root)
    s = np.maximum(s / s[0], SMALLEST_RATIO)
    U[:, 0] *= np.sign(np.linalg.det(U))  # no reflection: corners turn as before
    a, b = (points @ U for points in mesh.sides())
    if mesh.ambient_dim == 2:
        volume = a[:, 0] * (b - a)[:, 1] - a[:, 1] * (b - a)[:, 0]
        (x, y), volume = _carried((a, b), s, volume)
        return np.arctan2(volume, dot(x, y)) / (2.0 * np.pi)
    c = (mesh.centers @ U)[mesh.side_cells()]
    (x, y, z), volume = _carried((c, a, b), s, dot(c, cross(a - c, b - c)))
    distances = 1.0 + dot(x, y) + dot(y, z) + dot(z, x)
    # The first formula keeps the digits of small triangles, the second those of slivers from one
    # side of the sphere to the other: their sides' poles are carried by s.
    poles = [_directions(arc_pole(*side) * s)[0] for side in ((c, a), (a, b), (b, c))]
    turns = sum(arc_length(poles[i - 1], poles[i]) for i in range(3))
    triangles = np.where(
        distances > 1.0, 2.0 * np.arctan2(volume, distances), np.maximum(2.0 * np.pi - turns, 0.0)
    )
    return segment_sum(triangles, mesh.cell_offsets) / (4.0 * np.pi)


def _carried(corners: tuple[Array, ...], s: Array, volume: Array) -> tuple[list[Array], Array]:
    """Unit vectors along corners / s, and their determinant from that of the corners (n,)."""
    carried, logarithms = zip(*(_directions(points / s) for points in corners), strict=True)
    return list(carried), volume * np.exp(-np.log(s).sum() - sum(logarithms))


def _directions(vectors: Array) -> tuple[Array, Array]:
    """Unit vectors (n, d), and the logarithms of the lengths, whose squares may leave float64."""
    largest = np.abs(vectors).max(axis=1)
    scaled = vectors / largest[:, None]
    return unit(scaled), np.log(largest) + np.log(norm(scaled))
