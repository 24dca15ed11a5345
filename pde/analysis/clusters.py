"""Where the mass of a measure has gathered: the clusters that tokens form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pde.arguments import Array, instance, non_negative, positive
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
    belongs to them (mean shift). Caps are disjoint: what trails from a cluster is no second one.

    radius : of a cap, an angle below pi/2
    least : a cluster holds at least this share of the mass, and CONTRAST times a uniform law's

    Raises ValueError for a radius out of range and for measures of d > 3.

    >>> clusters(Measure([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [3.0, 0.0, 1.0]))[0]
    Cluster(center=array([1., 0.]), share=0.75)
    """
    from scipy.spatial import cKDTree

    instance("mu", mu, Measure)
    least = non_negative("least", least)
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
    tree = cKDTree(points)
    mass = np.array([share[near].sum() for near in tree.query_ball_point(seeds, chord)])
    while len(seeds):
        best = int(np.argmax(mass))
        if mass[best] < least:
            break
        center = _shifted(points, share, tree, seeds[best], chord)
        apart = all(center @ other.center < np.cos(2.0 * radius) for other in found)
        if apart:
            found.append(Cluster(center, float(share[tree.query_ball_point(center, chord)].sum())))
        # No second search from near where this one began, nor from near what it found.
        left = seeds @ seeds[best] < np.cos(0.5 * radius)
        left[best] = False  # also where rounding is wider than the radius
        left &= seeds @ center < np.cos(2.0 * radius if apart else 0.5 * radius)
        seeds, mass = seeds[left], mass[left]
    return sorted(found, key=lambda cluster: -cluster.share)


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
