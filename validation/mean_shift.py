"""Attention as mean shift: tokens climb a Gaussian kernel density of the tokens.

Identity (Rigollet, arXiv:2512.01868). Let K be the Gaussian kernel of variance 1/beta in R^d,
K(x) = (beta / 2 pi)^{d/2} e^{-beta |x|^2 / 2}, and mu any measure on the sphere. Then

    (1/beta) P_x grad log(K * mu)(x) = P_x (m(x) - x) = P_x m(x),
    m(x) = int y e^{beta <x,y>} dmu(y) / int e^{beta <x,y>} dmu(y),

the velocity of self-attention with Q = K = V = I: the factors e^{-beta |x|^2 / 2} and
e^{-beta |y|^2 / 2} are constant on the sphere and cancel. m(x) - x is the mean-shift step (Fukunaga
and Hostetler, IEEE Trans. Inf. Theory 21, 1975; Cheng, IEEE PAMI 17, 1995).

Two ways to move:

    plain mean shift      queries move, the cloud stands still: dx/dt = v[cloud](x), the field
                          Frozen(SelfAttention, cloud). log(K * cloud) rises along every path, and
                          paths end in its modes on the sphere
    blurring mean shift   the cloud moves in its own density: the transformer

What is checked: the identity, on clouds in several dimensions; the modes found by mean shift
against local maxima of the density that scipy finds on its own, from every cell of a mesh that is
higher than its neighbours; the ends of the paths against the modes. What is measured: how many
modes there are at which beta, and how the clusters of the blurring version relate to them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh, icosphere
from meshes.geometry import dot, tangent_projection, unit
from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation, initial, log_partition
from pde.analysis.modes import Modes, find_modes
from pde.arguments import Array
from pde.fields.frozen import Frozen
from validation.problems.tokens import groups
from validation.study import Bar, Command, Curve, Finding, Option, Options, Outcome, Panel, Table
from validation.study.panels import SphereMap

BUMPS = 6
SHOWN = 40.0
"""beta of the picture."""
BLURRED = (40.0, 640.0)
"""Times for which the cloud moves in itself: clusters have formed; some of them have merged."""
QUERIES = 300.0
"""Time for which queries move: the slowest rates are about 0.05."""
STARTS = 32
"""Frequency of the mesh whose cells mean shift starts from, besides the cloud's points."""
GROUP = 0.02
"""Angle within which tokens belong to one group: a chain of steps below it."""
IDENTITIES = [(2, 0.5), (3, 10.0), (5, 40.0), (16, 5.0), (64, 1e3)]
"""(d, beta) at which the identity is checked."""


def cloud_of(n: int, seed: int = 3) -> Measure:
    """n samples of a mixture of BUMPS bumps of different widths on the sphere, on a thin floor."""
    rng = np.random.default_rng(11)
    centers = unit(rng.normal(size=(BUMPS, 3)))
    widths, heights = rng.uniform(0.15, 0.3, BUMPS), rng.uniform(0.6, 1.4, BUMPS)
    return Measure(initial.sample(initial.bumps(centers, widths, heights, 0.02), n, seed))


def kernel_slope(x: Array, mu: Measure, beta: float) -> Array:
    """(m, d) grad log(K * mu) in R^d at the points x (m, d), by the sums as they stand on paper."""
    squares = np.square(x[:, None] - mu.points[None]).sum(axis=2)
    # A factor common to all terms of a sum drops out of the logarithm's gradient.
    terms = mu.weights * np.exp(-0.5 * beta * (squares - squares.min(axis=1, keepdims=True)))
    return beta * ((terms @ mu.points) / terms.sum(axis=1, keepdims=True) - x)


def identity_error(d: int, beta: float, n: int = 200) -> float:
    """Largest |v - (1/beta) P_x grad log(K * mu)| at a random measure's atoms and elsewhere."""
    rng = np.random.default_rng([d, n])
    mu = Measure(unit(rng.normal(size=(n, d))), rng.uniform(0.1, 1.0, n))
    x = np.concatenate([mu.points, unit(rng.normal(size=(n, d)))])
    attention = SelfAttention(np.eye(d), np.eye(d), beta, tolerance=None)
    shift = tangent_projection(x, kernel_slope(x, mu, beta)) / beta
    return float(np.abs(attention.velocity(x, mu) - shift).max())


def scipy_maxima(mu: Measure, beta: float, mesh: SphereMesh) -> Array:
    """(k, 3) maxima of the kernel density on the sphere, the highest first, by scipy's BFGS.

    It starts in every cell of the mesh that is not lower than its neighbours.
    """
    from scipy.optimize import minimize

    values, _ = log_partition(beta * mesh.centers, mu)
    first, second = mesh.edge_cells.T
    top = np.full(mesh.n_cells, -np.inf)
    np.maximum.at(top, first, values[second])
    np.maximum.at(top, second, values[first])

    def depth(u: Array) -> tuple[float, Array]:
        """-(1/beta) log(K * mu) at u/|u|, up to a constant, and its gradient in u."""
        x = unit(u[None])
        return -log_partition(beta * x, mu)[0][0] / beta, -(
            tangent_projection(x, kernel_slope(x, mu, beta) / beta)[0] / np.linalg.norm(u)
        )

    options = {"gtol": 1e-10}
    ends = [
        unit(minimize(depth, start, jac=True, method="BFGS", options=options).x)
        for start in mesh.centers[values >= top]
    ]
    found: list[Array] = []
    for end in sorted(ends, key=lambda x: depth(x)[0]):
        if all(np.linalg.norm(end - other) > 1e-3 for other in found):
            found.append(end)
    return np.array(found)


def agreement(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Adjusted Rand index of two partitions: 1 for equal ones, 0 on average for random ones.

    Hubert and Arabie, J. Classification 2 (1985).

    >>> agreement(np.array([0, 0, 1, 1]), np.array([5, 5, 2, 2]))
    1.0
    """
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)

    def pairs(counts: Array) -> float:
        return float((counts * (counts - 1.0)).sum() / 2.0)

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = rows * columns / pairs(np.array([float(len(a))]))
    most = 0.5 * (rows + columns)
    return 1.0 if most == expected else (both - expected) / (most - expected)


@dataclass(frozen=True, eq=False)
class Count:
    """At one beta: the modes from the cloud's own points, from all cells, by scipy; the clusters.

    apart : largest distance of a mode from scipy's, inf where their numbers differ
    blurred : (n,) groups of the cloud after it has moved in itself, for each time of BLURRED
    """

    beta: float
    modes: Modes
    everywhere: Modes
    maxima: Array
    apart: float
    blurred: list[NDArray[np.int64]]

    @property
    def clusters(self) -> list[int]:
        """Numbers of groups of the blurring version, at the times of BLURRED."""
        return [int(labels.max()) + 1 for labels in self.blurred]

    @property
    def agreement(self) -> float:
        """Adjusted Rand index of the first groups and the basins of the modes."""
        return agreement(self.modes.reached, self.blurred[0])


def count(mu: Measure, beta: float, mesh: SphereMesh) -> Count:
    """Modes by mean shift and by scipy, groups of the blurring version."""
    modes, everywhere = find_modes(mu, beta), find_modes(mu, beta, icosphere(STARTS).centers)
    maxima = scipy_maxima(mu, beta, mesh)
    blurred = [groups(x, GROUP) for x in paths(mu, beta, BLURRED, blurring=True)]
    return Count(beta, modes, everywhere, maxima, _farthest(everywhere.centers, maxima), blurred)


def _farthest(a: Array, b: Array) -> float:
    """The largest distance of a point of one set from the other set; inf for unequal numbers."""
    if len(a) != len(b):
        return float("inf")
    distances = np.linalg.norm(a[:, None] - b[None], axis=2)
    return float(max(distances.min(axis=0).max(), distances.min(axis=1).max()))


def paths(mu: Measure, beta: float, times: Sequence[float] | Array, blurring: bool) -> Array:
    """(K, n, d) places at `times` of points that start at the atoms of mu.

    blurring : they move in their own density; otherwise in that of mu, which stands still
    """
    attention = SelfAttention(np.eye(mu.dim), np.eye(mu.dim), beta)
    field = attention if blurring else Frozen(attention, mu)
    system = ParticleSystem(Equation(field), mu.weights)
    simulation = Simulation(system, mu.points, tolerance=1e-6)
    return np.array(simulation.run(until=float(times[-1]), save_at=times).states)


@dataclass(frozen=True, eq=False)
class Queries:
    """Paths of queries in the fixed cloud: (K,) times, (K, n, 3) places, log densities (K, n)."""

    times: Array
    places: Array
    log_density: Array
    modes: Modes

    @property
    def largest_fall(self) -> float:
        """Of the log density along any path from one time to the next; <= 0: it never falls."""
        return float(-np.diff(self.log_density, axis=0).min())

    @property
    def nearest(self) -> tuple[NDArray[np.int64], float]:
        """(n,) the mode nearest to each end, and the largest distance of an end from it."""
        cosines = self.places[-1] @ self.modes.centers.T
        nearest = np.argmax(cosines, axis=1)
        away = self.places[-1] - self.modes.centers[nearest]
        return nearest, float(np.sqrt(dot(away, away).max()))


def queries(mu: Measure, modes: Modes, beta: float) -> Queries:
    """Every point of the cloud as a query."""
    times = np.concatenate([[0.0], np.geomspace(0.1, QUERIES, 40)])
    places = paths(mu, beta, times, blurring=False)
    logs = np.array([log_partition(beta * x, mu)[0] for x in places])
    return Queries(times, places, logs, modes)


def table(counts: Sequence[Count], n: int) -> Table:
    """Numbers of modes and clusters against beta."""
    rows = []
    for c in counts:
        numbers = len(c.modes), len(c.maxima), c.apart, -c.modes.curvature.max()
        rows.append((c.beta, c.beta**-0.5, *numbers, *c.clusters, c.agreement))
    columns = ["beta:g", "kernel width:.3f", "modes", "scipy"]
    columns += ["apart:.1e", "slowest rate:.3f"]
    columns += [*(f"clusters, t = {time:g}" for time in BLURRED), "agreement:.2f"]
    title = f"{n} tokens from {BUMPS} bumps: modes of the kernel density; blurring clusters"
    return Table(title, columns, rows)


def promised(errors: Sequence[float], counts: Sequence[Count], moved: Queries) -> list[Bar]:
    """The identity, the modes, the climb."""
    residual = max(c.modes.residual.max() for c in counts)
    lost = sum(int(np.count_nonzero(c.modes.reached < 0)) for c in counts)
    ends = f"ends of paths at t = {QUERIES:g} from their modes"
    return [
        Bar.at_most("velocity against the mean-shift step, largest error", max(errors), 1e-12),
        Bar.at_most("modes against scipy's, distance", max(c.apart for c in counts), 1e-6),
        Bar.at_most("|P_x m| at the modes", residual, 1e-11),
        Bar.at_most("starts that end at no mode", lost, 0),
        Bar.at_most("fall of the log density along paths", moved.largest_fall, 1e-8),
        Bar.at_most(ends, moved.nearest[1], 1e-4),
    ]


def findings(counts: Sequence[Count], moved: Queries) -> list[Finding]:
    """What no theorem promises."""
    same = all(len(c.modes) == len(c.everywhere) for c in counts)
    numbers = [len(c.modes) for c in counts]
    early, late = zip(*(c.clusters for c in counts), strict=True)
    basins = float(np.mean(moved.nearest[0] == moved.modes.reached))
    best, worst = (choose(counts, key=lambda c: c.agreement) for choose in (max, min))
    one = f"flow and steps of mean shift lead {100.0 * basins:.1f} % of the queries to one mode"
    merging = f"the moving cloud's clusters go on merging: {early} at t = {BLURRED[0]:g}, then"
    alike = (
        f"clusters are the modes' basins: adjusted Rand index {best.agreement:.2f} at beta = "
        f"{best.beta:g}, the worst {worst.agreement:.2f} at beta = {worst.beta:g}"
    )
    return [
        Finding("every mode is reached from the cloud's own points", same),
        Finding(f"narrower kernels have more modes: {numbers}", numbers == sorted(numbers)),
        Finding(f"some beta has one mode for each of the {BUMPS} bumps", BUMPS in numbers),
        Finding(one, basins > 0.98),
        Finding(f"{merging} {late} at t = {BLURRED[1]:g}", sum(late) < sum(early)),
        Finding(alike, best.agreement > 0.95),
    ]


def map_panel(title: str, mu: Measure, places: Array, ends: Array) -> Panel:
    """The kernel density of the cloud at its start as a map, paths over it, and their ends."""
    mesh = icosphere(48)
    # The largest value of e^{beta <x,y>} is e^beta, its integral 2 pi e^beta / beta, nearly.
    density = np.exp(log_partition(SHOWN * mesh.centers, mu)[0] - SHOWN) * SHOWN / (2.0 * np.pi)
    label, limits = f"kernel density at the start, beta = {SHOWN:g}", (0.0, float(density.max()))
    look: dict[str, Any] = {"dots": mu.points, "paths": places, "stars": ends, "label": label}
    return Panel(title, "", "", [SphereMap(mesh, density, limits, **look)])


def number_panel(counts: Sequence[Count]) -> Panel:
    """Numbers of modes and of clusters against beta."""
    betas = [c.beta for c in counts]
    curves = [
        Curve(betas, [len(c.maxima) for c in counts], "s", "0.6", "scipy"),
        Curve(betas, [len(c.modes) for c in counts], ".-", 0, "modes, mean shift"),
    ]
    for i, (time, form) in enumerate(zip(BLURRED, ("^--", "v:"), strict=True)):
        clusters = [c.clusters[i] for c in counts]
        curves.append(Curve(betas, clusters, form, i + 1, f"clusters, blurring, t = {time:g}"))
    curves.append(Curve([betas[0], betas[-1]], [BUMPS] * 2, "-", "0.6", "bumps of the law"))
    ticks = (2, 5, 10, 20, 50)
    return Panel("", "beta", "number", curves, log="xy", xticks=betas, yticks=ticks)


def climb_panel(moved: Queries) -> Panel:
    """Distance to the nearest mode along the paths: the median and the slowest."""
    cosines = np.einsum("knd,md->knm", moved.places, moved.modes.centers).max(axis=2)
    away = np.sqrt(np.maximum(2.0 - 2.0 * cosines, 1e-20))
    curves = [
        Curve(moved.times[1:], np.quantile(away, share, axis=1)[1:], "-", i, f"queries: {label}")
        for i, (share, label) in enumerate(((0.5, "half of them"), (0.9, "9 of 10"), (1.0, "all")))
    ]
    least = 1e-6  # the error that steps may have
    return Panel("", "t", "distance to the nearest mode", curves, log="xy", ylim=(least, None))


def panels(mu: Measure, moved: Queries, counts: Sequence[Count]) -> Iterator[Panel]:
    """Two maps with paths, the numbers of modes and clusters against beta, the climb."""
    times = np.concatenate([[0.0], np.geomspace(0.02, BLURRED[0], 60)])
    blurred = paths(mu, SHOWN, times, blurring=True)
    labels = groups(blurred[-1], GROUP)
    clusters = np.array([blurred[-1][labels == k][0] for k in range(labels.max() + 1)])
    plain = f"plain: queries climb to the {len(moved.modes)} modes of the fixed cloud"
    own = f"blurring: the cloud itself, {len(clusters)} clusters at t = {times[-1]:g}"
    yield map_panel(plain, mu, moved.places, moved.modes.centers)
    yield map_panel(own, mu, blurred, clusters)
    yield number_panel(counts)
    yield climb_panel(moved)


def study(options: Options) -> Outcome:
    """The identity, the modes, the climb, the clusters."""
    mesh, mu = icosphere(options.frequency), cloud_of(options.tokens)
    errors = [identity_error(d, beta) for d, beta in IDENTITIES]
    counts = [count(mu, beta, mesh) for beta in options.betas]
    moved = queries(mu, find_modes(mu, SHOWN), SHOWN)
    return Outcome(
        [table(counts, options.tokens)],
        promised(errors, counts, moved),
        findings(counts, moved),
        panels(mu, moved, counts),
        columns=2,
    )


main = Command(
    study,
    Option("--tokens", 300, type=int, metavar="N", help="in the cloud"),
    Option.numbers("--betas", (5.0, 10.0, 20.0, SHOWN, 80.0, 160.0), "BETA", "of kernels"),
    meshes=[96],
    full=[192],
)


if __name__ == "__main__":
    sys.exit(main())
