"""What the table of a run says of each saved state: the density, its limit law, the particles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pde import Measure, Simulation, limits
from pde.arguments import Array


@dataclass(frozen=True)
class Column:
    """A column of the table: its heading, how its numbers are written, its title in a picture."""

    heading: str
    form: str
    title: str


COLUMNS = {
    "t": Column("t", ".4g", "$t$"),
    "mass": Column("mass", ".13f", "mass"),
    "minimum": Column("minimum", ".2e", "smallest cell average"),
    "entropy": Column("entropy", ".5f", "entropy relative to the uniform law"),
    "mean_length": Column("|mean|", ".6f", r"length of the mean $|\int x\, d\rho_t|$"),
    # Exact for the atoms of the grid's measure, the masses at the cells' centroids.
    "w2_to_limit": Column("W2 to limit", ".5f", r"$W_2(\rho_t, \Pi_\#\rho_0)$"),
    # The distance to the laws on E's sphere, of which Pi_# rho0 is one.
    "w2_to_limit_at_least": Column(
        "W2 to limit >=", ".5f", r"lower bound of $W_2(\rho_t, \Pi_\#\rho_0)$"
    ),
    "first_moments": Column("d mean", ".1e", "first moments: largest difference to particles"),
    "second_moments": Column("d 2nd", ".1e", "second moments: largest difference to particles"),
}


@dataclass(frozen=True)
class LimitLaw:
    """Pi_# rho0 and the distance to it.

    E : (d, k) the limit space
    column : of the table: "w2_to_limit" where `distance` is exact, else "w2_to_limit_at_least"
    """

    E: Array
    column: str
    distance: Callable[[Measure], float]


def limit_law(field: Any, start: Measure) -> tuple[LimitLaw | None, str]:
    """The limit of the zero-temperature equation, or None and why there is none to compare with.

    A space E of one dimension makes Pi_# rho0 two atoms, and the distance exact; larger ones give
    the distance to E's sphere, a lower bound (limits.distance_to_pair, limits.distance_to_space).
    """
    assumption = limits.assumption_1(field.V, field.B)
    if not assumption.holds:
        return None, f"no limit law to compare with: {assumption.text}"
    E = limits.limit_space(field.V, field.B)
    d, k = E.shape
    if k == d:
        return None, "no limit law to compare with: E is the whole space, Pi_# rho0 is rho0"
    if k > 1:
        return LimitLaw(E, "w2_to_limit_at_least", lambda mu: limits.distance_to_space(mu, E)), ""
    e = E[:, 0]
    mass = float(start.weights[limits.Projection(E)(start.points) @ e > 0.0].sum())
    return LimitLaw(E, "w2_to_limit", lambda mu: limits.distance_to_pair(mu, e, mass)), ""


def largest_difference(mu: Measure, nu: Measure) -> tuple[float, float]:
    """The largest differences of entries of the first and of the second moments."""
    first = np.abs(mu.mean() - nu.mean()).max()
    second = np.abs(mu.second_moment() - nu.second_moment()).max()
    return float(first), float(second)


def table_row(
    grid: Simulation, limit: LimitLaw | None, particles: Simulation | None
) -> dict[str, float]:
    """The numbers of the table at the grid's present time; the particles stand at the same time."""
    mu = grid.system.measure(grid.state)
    diagnostics = grid.diagnostics()
    row = {"t": grid.t, **{name: diagnostics[name] for name in ("mass", "minimum", "entropy")}}
    row["mean_length"] = float(np.linalg.norm(mu.mean()))
    if limit is not None:
        row[limit.column] = limit.distance(mu)
    if particles is not None:
        cloud = particles.system.measure(particles.state)
        row["first_moments"], row["second_moments"] = largest_difference(mu, cloud)
    return row
