"""The classical transport tests on the sphere: flows, initial fields, what other schemes reach.

Lauritzen, Skamarock, Prather, Taylor, Geosci. Model Dev. 5 (2012) for the deforming flows and the
fields; Nair, Lauritzen, J. Comput. Phys. 229 (2010); Williamson et al., J. Comput. Phys. 102
(1992), case 1, for solid-body rotation. Radius 1, period T = 5: every flow brings the initial
field back at t = T, so the exact solution is the initial field.

lambda is longitude, theta latitude, lambda' = lambda - 2 pi t/T, c(t) = cos(pi t/T).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pde.arguments import Array
from pde.fields.prescribed import PrescribedVelocity, StreamFunction

PERIOD = 5.0


def _unit(longitude: float, latitude: float) -> Array:
    cos = np.cos(latitude)
    return np.array([cos * np.cos(longitude), cos * np.sin(longitude), np.sin(latitude)])


def _longitude_latitude(x: Array) -> tuple[Array, Array]:
    return np.arctan2(x[:, 1], x[:, 0]), np.arcsin(np.clip(x[:, 2], -1.0, 1.0))


CENTERS = (_unit(5 * np.pi / 6, 0.0), _unit(7 * np.pi / 6, 0.0))
"""Centres x_1, x_2 of the hills, bells and cylinders."""


# ----------------------------------------------------------------------------------------- flows
def non_divergent() -> StreamFunction:
    """Deformation that winds fields into filaments and unwinds them (Lauritzen et al., eq. 18-19).

    psi = 2 sin^2(lambda') cos^2(theta) c - (2 pi/T) sin(theta).
    """

    def psi(x: Array, t: float) -> Array:
        angle = 2.0 * np.pi * t / PERIOD
        y = x[..., 1] * np.cos(angle) - x[..., 0] * np.sin(angle)  # cos(theta) sin(lambda')
        return 2.0 * np.cos(np.pi * t / PERIOD) * y**2 - 2.0 * np.pi / PERIOD * x[..., 2]

    return StreamFunction(psi)


def divergent() -> PrescribedVelocity:
    """Deformation that compresses and expands (Lauritzen et al., eq. 20-21).

    u = -sin^2(lambda'/2) sin(2 theta) cos^2(theta) c + (2 pi/T) cos(theta),
    v = (1/2) sin(lambda') cos^3(theta) c.
    """

    def velocity(x: Array, t: float) -> Array:
        angle = 2.0 * np.pi * t / PERIOD
        cos_angle, sin_angle, c = np.cos(angle), np.sin(angle), np.cos(np.pi * t / PERIOD)
        sin_theta = x[:, 2]
        cos_theta = np.hypot(x[:, 0], x[:, 1])
        # The products with cos(theta) are polynomials in x: regular at the poles.
        cos_longitude = x[:, 0] * cos_angle + x[:, 1] * sin_angle  # cos(theta) cos(lambda')
        sin_longitude = x[:, 1] * cos_angle - x[:, 0] * sin_angle
        # u / cos(theta) and v / cos(theta)
        u = -sin_theta * cos_theta * (cos_theta - cos_longitude) * c + 2.0 * np.pi / PERIOD
        v = 0.5 * sin_longitude * cos_theta * c
        eastward = np.stack([-x[:, 1], x[:, 0], np.zeros(len(x))], axis=1)
        northward = np.stack([-x[:, 2] * x[:, 0], -x[:, 2] * x[:, 1], cos_theta**2], axis=1)
        return u[:, None] * eastward + v[:, None] * northward

    return PrescribedVelocity(velocity)


def solid_body(angle: float) -> StreamFunction:
    """One revolution in T about an axis tilted by `angle` from the poles (Williamson case 1)."""
    omega = 2.0 * np.pi / PERIOD * np.array([-np.sin(angle), 0.0, np.cos(angle)])
    return StreamFunction(lambda x, t: -(x @ omega))


# --------------------------------------------------------------------------------- initial fields
def gaussian_hills(x: Array) -> Array:
    """Sum of 0.95 exp(-5 |x - x_i|^2): smooth."""
    return 0.95 * np.exp(-10.0 * (1.0 - x @ np.stack(CENTERS, axis=1))).sum(axis=1)


def _distance(x: Array, center: Array) -> Array:
    return 2.0 * np.arcsin(np.clip(0.5 * np.linalg.norm(x - center, axis=1), 0.0, 1.0))


def cosine_bells(x: Array) -> Array:
    """0.1 + 0.9 (1 + cos(2 pi r_i))/2 within r_i < 1/2: one continuous derivative."""
    result = np.full(len(x), 0.1)
    for center in CENTERS:
        r = _distance(x, center)
        result += np.where(r < 0.5, 0.45 * (1.0 + np.cos(2.0 * np.pi * r)), 0.0)
    return result


def slotted_cylinders(x: Array) -> Array:
    """1 on two discs with a slot each, 0.1 elsewhere: discontinuous."""
    longitude, latitude = _longitude_latitude(x)
    result = np.full(len(x), 0.1)
    for center, side in zip(CENTERS, (-1.0, 1.0), strict=True):
        middle = np.arctan2(center[1], center[0])
        off = np.abs((longitude - middle + np.pi) % (2.0 * np.pi) - np.pi)
        solid = (off >= 1.0 / 12.0) | (side * latitude > 5.0 / 24.0)
        result[(_distance(x, center) <= 0.5) & solid] = 1.0
    return result


def correlated(chi: Array) -> Array:
    """-0.8 chi^2 + 0.9: a second tracer as a function of the first, for mixing diagnostics."""
    return 0.9 - 0.8 * chi**2


def correlated_bells(x: Array) -> Array:
    """The second tracer for the cosine bells."""
    return correlated(cosine_bells(x))


def williamson_bell(x: Array) -> Array:
    """(1 + cos(3 pi r))/2 within r < 1/3 of (3 pi/2, 0), 0 elsewhere."""
    r = _distance(x, _unit(3 * np.pi / 2, 0.0))
    return np.where(r < 1.0 / 3.0, 0.5 * (1.0 + np.cos(3.0 * np.pi * r)), 0.0)


FIELDS = {
    "gaussian hills": gaussian_hills,
    "cosine bells": cosine_bells,
    "slotted cylinders": slotted_cylinders,
    "correlated bells": correlated_bells,
}


# ------------------------------------------------------------- diagnostics of tracer correlations
def preserved_filaments(areas: Array, start: Array, middle: Array, thresholds: Array) -> Array:
    """Percentage of the area where the tracer is >= each threshold that is left at T/2.

    Non-divergent flow keeps 100 (Lauritzen et al., eq. 27); thresholds no cell reaches give nan.
    """
    before = np.array([areas @ (start >= level) for level in thresholds])
    after = np.array([areas @ (middle >= level) for level in thresholds])
    return np.divide(100.0 * after, before, out=np.full(len(before), np.nan), where=before > 0.0)


def _distance_to_curve(
    chi: Array, xi: Array, low: float, high: float, span: float, drop: float
) -> Array:
    """(N,) distances to the curve on [low, high], chi in units of span and xi of drop."""
    grid = np.linspace(low, high, 46)

    def squared(s: Array) -> Array:
        return ((chi - s.T) / span).T ** 2 + ((xi - correlated(s).T) / drop).T ** 2

    s = grid[np.argmin(squared(np.broadcast_to(grid, (len(chi), len(grid)))), axis=1)]
    for _ in range(6):  # Newton's method for the foot point, from the nearest of the grid
        off = xi - correlated(s)
        slope = -(chi - s) / span**2 + 1.6 * s * off / drop**2
        bend = 1.0 / span**2 + 1.6 * (off + 1.6 * s**2) / drop**2
        s = np.clip(s - slope / np.maximum(bend, 0.1), low, high)
    return np.sqrt(np.minimum(squared(s), squared(np.full(len(s), high))))


def mixing(areas: Array, chi: Array, xi: Array) -> dict[str, float]:
    """Mean distances of (chi, xi) from the curve xi = correlated(chi), by what they mean.

    chi, xi : (N,) cosine bells and correlated bells at T/2
    "real": inside the hull of the curve, as physical mixing does; "unmixing": outside of it but
    within the initial ranges; "overshooting": beyond them (Lauritzen et al., eq. 28-30)
    """
    low, high = 0.1, 1.0
    top, bottom = (float(correlated(np.array(end))) for end in (low, high))
    span, drop = high - low, top - bottom
    distance = _distance_to_curve(chi, xi, low, high, span, drop)
    within = (chi >= low) & (chi <= high) & (xi >= bottom) & (xi <= top)
    chord = top - drop * (chi - low) / span
    hull = within & (xi <= correlated(chi)) & (xi >= chord)
    shares = {"real": hull, "unmixing": within & ~hull, "overshooting": ~within}
    return {name: float(areas @ (distance * mask) / areas.sum()) for name, mask in shares.items()}


@dataclass(frozen=True)
class Row:
    """What another scheme reaches in the non-divergent flow; nan where it isn't known."""

    scheme: str
    hills: tuple[float, float, float]
    """l2 of the Gaussian hills at 2.16, 1.08, 0.54 degrees."""
    bells: tuple[float, float, float]
    resolution: float
    """Minimal resolution in degrees."""
    source: str


_NAN = float("nan")
OTHERS = (
    Row("Skamarock-Gassmann, 3rd order, beta = 0.25", (0.169, 0.0340, 0.00445),
        (0.312, 0.109, 0.0216), 0.65, "recomputed"),
    Row("the same, monotone (Zalesak)", (0.150, 0.0366, _NAN),
        (0.298, 0.0904, 0.0142), 0.74, "recomputed"),
    Row("k-exact order 4, upwind, icosahedral", (0.123, 0.0243, _NAN),
        (0.255, _NAN, _NAN), _NAN, "published code, recomputed"),
    Row("FARSIGHT", (_NAN,) * 3, (_NAN,) * 3, 0.19, "published"),
    Row("Miura-type on hexagons", (_NAN,) * 3, (_NAN,) * 3, 0.25, "published"),
    Row("ICON-FFSL", (_NAN,) * 3, (_NAN,) * 3, 0.42, "published"),
    Row("cubic fit on hexagons", (_NAN,) * 3, (_NAN,) * 3, 0.3, "published"),
    Row("CSLAM (semi-Lagrangian, cubed sphere)", (_NAN,) * 3, (_NAN,) * 3, 1.5, "published"),
)  # fmt: skip
OTHERS_DEGREES = (2.16, 1.08, 0.54)
THRESHOLD = 0.033
"""The l2 error of the cosine bells that defines the minimal resolution."""
