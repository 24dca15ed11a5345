"""Where the mass of a measure has gathered: the clusters that tokens form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pde.arguments import Array, positive
from pde.measure import Measure

CONTRAST = {2: 4.0, 3: 10.0}
"""A cluster's cap holds at least so many times a uniform law's mass, by the dimension d.

Smooth bumps like e^{3 cos(angle)} stay below on the circle as on the sphere."""

SEEDS = 2000
"""Places where the search begins, at most."""

SHIFTS = 20
"""Steps of the search from a seed to the mean of what lies around it."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A place (d,), a unit vector, and the share of the whole mass in the cap around it."""

    center: Array
    share: float


def clusters(mu: Measure, radius: float = 0.2, least: float = 0.05) -> list[Cluster]:
    """The clusters of a measure on the circle or the sphere, the largest first.

    Mass within the angle `radius` of a cluster's center belongs to it; centers are means of what
    belongs to them (mean shift), and the caps are disjoint.

    radius : of a cap, an angle below pi/2
    least : a cluster holds at least this share of the mass, and CONTRAST times that of a uniform law

    Raises ValueError for a radius out of range and for measures of d > 3.

    >>> clusters(Measure([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [3.0, 0.0, 1.0]))[0]
    Cluster(center=array([1., 0.]), share=0.75)
    """
    from scipy.spatial import cKDTree

    if not positive("radius", radius) < 0.5 * np.pi:
        raise ValueError(f"radius must be below pi/2, got {radius}")
    if mu.dim > 3:
        raise ValueError(f"clusters are searched on the circle and the sphere, got d = {mu.dim}")
    uniform = radius / np.pi if mu.dim == 2 else 0.5 * (1.0 - np.cos(radius))
    least = max(least, min(CONTRAST[mu.dim] * uniform, 0.9))
    held = mu.weights > 0.0
    points, share = mu.points[held], mu.weights[held] / mu.total
    chord = 2.0 * np.sin(0.5 * radius)
    # The heaviest places first; points of equal weight evenly, whatever their order means.
    heaviest = np.argsort(-share, kind="stable")[: SEEDS // 2]
    evenly = np.linspace(0, len(points) - 1, min(SEEDS // 2, len(points))).astype(int)
    seeds = points[np.unique(np.concatenate([heaviest, evenly]))]
    found: list[Cluster] = []
    while len(seeds):
        tree = cKDTree(points)
        mass = np.array([share[near].sum() for near in tree.query_ball_point(seeds, chord)])
        best = int(np.argmax(mass))
        if mass[best] < least:
            break
        center = _shifted(points, share, tree, seeds[best], chord)
        near = tree.query_ball_point(center, chord)
        found.append(Cluster(center, float(share[near].sum())))
        # What is taken counts no more, so that the caps are disjoint.
        rest = np.setdiff1d(np.arange(len(points)), near)
        points, share = points[rest], share[rest]
        seeds = seeds[seeds @ center < np.cos(radius)]
        if not len(points):
            break
    return sorted((cluster for cluster in found if cluster.share >= least), key=lambda c: -c.share)


def _shifted(points: Array, share: Array, tree: Any, center: Array, chord: float) -> Array:
    """The mean of the mass in a cap, again and again with the cap around it."""
    for _ in range(SHIFTS):
        near = tree.query_ball_point(center, chord)
        mean = share[near] @ points[near]
        moved = mean / np.linalg.norm(mean)
        if moved @ center > 1.0 - 1e-12:
            break
        center = moved
    return center
