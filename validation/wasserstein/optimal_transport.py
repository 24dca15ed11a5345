"""Optimal transport between atoms on the sphere, solved exactly and without a cost matrix.

The linear programme  min sum c_ij P_ij,  P >= 0 with marginals a and b,  is solved on a sequence
of coarser versions of it (clusters of neighbouring atoms), from coarse to fine. On each level

1. the coarse plan, shared out among the clusters' children, is the first plan;
2. the c-transform of the coarse potential says which pairs can matter: a short list for each atom;
3. the network simplex method solves the programme over these pairs;
4. the c-transform of its potentials finds pairs outside the list that would improve the plan, or
   shows that there are none: with the potentials f and g = min_i (c_ij - f_i) the duality gap
   sum c P - sum a f - sum b g  bounds what is still to be gained. Until it closes: back to 3.

All of it is O(atoms) in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pde.arguments import Array
from pde.kernels import network_simplex, zonal

Integers = NDArray[np.int64]

RESOLUTION = 2**60  # the total mass, in the units in which masses are integers
COARSEST = 250  # clusters on the coarsest level
CHILDREN = 4  # of a cluster, about
COARSE_GAP = 1e-3  # relative duality gap that is good enough on a coarse level
SHORTLIST = 12  # pairs for each atom that a level starts with
IMPROVING = 8  # at most so many new pairs for each source in a round
ROUNDS = 200  # a level ends after these, and its bracket stays as wide as it is
PIVOTS = 100  # for each atom in a round; ten are many


@dataclass(frozen=True)
class Plan:
    """Masses moved from sources to sinks, integers in units of total / RESOLUTION."""

    source: Integers
    sink: Integers
    mass: Integers


@dataclass(frozen=True)
class Solution:
    """A plan (k pairs, with their costs) and dual potentials f (n,), g (m,): f_i + g_j <= c_ij."""

    plan: Plan
    cost: Array
    f: Array
    g: Array


def integer_masses(weights: Array) -> Integers:
    """Weights in units of total / RESOLUTION, rounded; the largest takes up the remainder."""
    masses = np.rint(weights * (RESOLUTION / weights.sum())).astype(np.int64)
    masses[np.argmax(masses)] += RESOLUTION - masses.sum()
    return masses


class Clusters:
    """Atoms in an order in which neighbours are near, cut into ever smaller clusters.

    points : (n, d), masses : (n,) integers, both in the new order; order : (n,)
    levels : level k's clusters are levels[k][c] ... levels[k][c + 1] - 1; the last level is the
        atoms.
    """

    def __init__(self, points: Array, masses: Integers) -> None:
        n = len(points)
        self.order = np.arange(n)
        offsets = np.array([0, n])
        self.levels = [offsets]
        halvings = max(round(np.log2(n / CHILDREN)), 0)
        for k in range(halvings, 0, -1):
            offsets = self._halve(points, offsets)
            if k % 2 == 1:
                self.levels.append(offsets)
        self.levels.append(np.arange(n + 1))
        self.points, self.masses = points[self.order], masses[self.order]

    def _halve(self, points: Array, offsets: Integers) -> Integers:
        """Cut every cluster of at least two atoms across its longest extent."""
        x = points[self.order]
        cluster = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        extent = np.maximum.reduceat(x, offsets[:-1]) - np.minimum.reduceat(x, offsets[:-1])
        across = x[np.arange(len(x)), extent.argmax(axis=1)[cluster]]
        self.order = self.order[np.lexsort((across, cluster))]
        return np.unique(np.concatenate([offsets, (offsets[:-1] + offsets[1:]) // 2]))

    def level(self, k: int) -> tuple[Array, Integers]:
        """Clusters as atoms: their centres of mass on the sphere (d, n_k), their masses (n_k,)."""
        start = self.levels[min(k, len(self.levels) - 1)][:-1]
        masses = np.add.reduceat(self.masses, start)
        centres = np.add.reduceat(self.points * self.masses[:, None], start)
        lengths = np.linalg.norm(centres, axis=1)
        balanced = lengths < 1e-6 * masses
        centres[balanced], lengths[balanced] = self.points[start[balanced]], 1.0
        return np.ascontiguousarray((centres / lengths[:, None]).T), masses

    def children(self, k: int, parent: int) -> Integers:
        """Offsets of the clusters of level `parent` among those of level k."""
        last = len(self.levels) - 1
        return np.searchsorted(self.levels[min(k, last)], self.levels[min(parent, last)])


@dataclass(frozen=True)
class Problem:
    """Transport of one level: points x (d, n), y (d, m), masses a (n,), b (m,), the cost's kind."""

    kind: int
    x: Array
    a: Integers
    y: Array
    b: Integers

    def cost(self, source: Integers, sink: Integers) -> Array:
        """c(x_i, y_j) of pairs."""
        return zonal.costs(self.kind, self.x, self.y, source, sink)

    def shortlist(self, plan: Plan, g: Array) -> tuple[Array, Integers, Integers]:
        """f = min_j (c_ij - g_j), and the pairs (i, j) of small c_ij - f_i - g_j or of the plan."""
        n, m = len(self.a), len(self.b)
        values, sinks = zonal.smallest(self.kind, self.x, self.y, g, min(SHORTLIST, m))
        f = np.ascontiguousarray(values[:, 0])
        _, sources = zonal.smallest(self.kind, self.y, self.x, f, min(SHORTLIST, n))
        pairs = [
            (np.arange(n)[:, None] * m + sinks).ravel(),
            (sources.astype(np.int64) * m + np.arange(m)[:, None]).ravel(),
            plan.source * m + plan.sink,
        ]
        # Sorted by source: the simplex method then works on one neighbourhood at a time, with
        # half the pivots.
        return f, *np.divmod(np.unique(np.concatenate(pairs)), m)

    def solve(self, plan: Plan, g: Array, gap: float) -> Solution:
        """Improve a plan until the relative duality gap is at most `gap`."""
        n = len(self.a)
        f, source, sink = self.shortlist(plan, g)
        cost = self.cost(source, sink)
        tree = network_simplex.plant(
            plan.source,
            plan.sink + n,
            plan.mass,
            self.cost(plan.source, plan.sink),
            n,
            np.concatenate([f, g]),
        )
        value = _total(plan.mass, self.cost(plan.source, plan.sink))
        for attempt in range(ROUNDS):
            rounding = 4.0 * np.finfo(float).eps * np.abs(tree["dual"]).max()
            tolerance = 0.01 * gap * value + rounding
            block = max(int(0.25 * np.sqrt(len(source))), 1)
            pivots = network_simplex.optimise(
                tree, source, sink + n, cost, n, tolerance, block, PIVOTS * len(tree)
            )
            f, g = tree["dual"][:n].copy(), tree["dual"][n:-1].copy()
            values, sinks = zonal.smallest(self.kind, self.x, self.y, g, IMPROVING)
            value = _total(tree["flow"], tree["cost"])
            dual = _total(self.a, values[:, 0]) + _total(self.b, g)
            improves = values < f[:, None] - tolerance
            new = np.repeat(np.arange(n), improves.sum(axis=1))
            stuck = pivots == 0 and (attempt > 0 or len(new) == 0)
            if value - dual <= gap * value + rounding or stuck:
                break
            source = np.concatenate([source, new])
            sink = np.concatenate([sink, sinks[improves].astype(np.int64)])
            cost = np.concatenate([cost, self.cost(new, sink[len(cost) :])])
        return self._solution(tree, np.ascontiguousarray(values[:, 0]), g)

    def _solution(self, tree: NDArray[np.void], f: Array, g: Array) -> Solution:
        n = len(self.a)
        node = np.flatnonzero(tree["flow"])
        parent = tree["parent"][node].astype(np.int64)
        is_source = node < n
        source, sink = np.where(is_source, node, parent), np.where(is_source, parent, node) - n
        return Solution(Plan(source, sink, tree["flow"][node]), tree["cost"][node], f, g)


def _total(masses: Integers, values: Array) -> float:
    return float(masses @ values) / RESOLUTION


def solve(x: Array, a: Integers, y: Array, b: Integers, kind: int, gap: float) -> Solution:
    """Optimal transport from atoms x (n, d) of masses a to y (m, d), b: integers > 0, equal totals.

    kind : one of the costs of pde.kernels.zonal
    gap : relative duality gap of the result
    """
    sources, sinks = Clusters(x, a), Clusters(y, b)
    finest = max(len(sources.levels), len(sinks.levels)) - 1
    largest = [max(len(sources.level(k)[1]), len(sinks.level(k)[1])) for k in range(finest + 1)]
    first = next(k for k in range(finest + 1) if k == finest or largest[k] >= COARSEST)
    plan = Plan(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([RESOLUTION]))
    parent = 0
    coarse_x, coarse_f = sources.level(0)[0], np.zeros(1)
    for k in range(first, finest + 1):
        problem = Problem(kind, *sources.level(k), *sinks.level(k))
        plan = Plan(
            *network_simplex.refine_plan(
                plan.source,
                plan.sink,
                plan.mass,
                sources.children(k, parent),
                sinks.children(k, parent),
                problem.a,
                problem.b,
            )
        )
        g = zonal.smallest(kind, problem.y, coarse_x, coarse_f, 1)[0][:, 0]
        solution = problem.solve(plan, np.ascontiguousarray(g), gap if k == finest else COARSE_GAP)
        plan, parent, coarse_x, coarse_f = solution.plan, k, problem.x, solution.f
    f, g = np.empty(len(a)), np.empty(len(b))
    f[sources.order], g[sinks.order] = solution.f, solution.g
    plan = Plan(sources.order[plan.source], sinks.order[plan.sink], plan.mass)
    return Solution(plan, solution.cost, f, g)
