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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh, icosphere
from meshes.geometry import dot, tangent_projection, unit
from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation, initial, log_partition
from pde.arguments import Array
from pde.frozen import Frozen
from pde.modes import Modes, find_modes
from validation import bars, convergence, side_by_side

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


def groups(x: Array, angle: float = GROUP) -> NDArray[np.int64]:
    """(n,) number of the group of each point: points within `angle` of each other are linked.

    >>> groups(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    array([0, 1, 0])
    """
    from scipy.sparse.csgraph import connected_components

    links = x @ x.T > np.cos(angle)
    return connected_components(links, directed=False)[1].astype(np.int64)


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
    blurred = [groups(x) for x in paths(mu, beta, BLURRED, blurring=True)]
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


def table(counts: Sequence[Count], n: int) -> str:
    """Numbers of modes and clusters against beta."""
    header = ["beta", "kernel width", "modes", "scipy", "apart", "slowest rate"]
    header += [*(f"clusters, t = {time:g}" for time in BLURRED), "agreement"]
    rows = [
        [
            f"{c.beta:g}",
            f"{c.beta**-0.5:.3f}",
            str(len(c.modes)),
            str(len(c.maxima)),
            f"{c.apart:.1e}",
            f"{-c.modes.curvature.max():.3f}",
            *map(str, c.clusters),
            f"{c.agreement:.2f}",
        ]
        for c in counts
    ]
    title = f"{n} tokens from {BUMPS} bumps: modes of the kernel density; blurring clusters"
    return f"{title}\n{convergence.table(header, rows)}"


def promised(errors: Sequence[float], counts: Sequence[Count], moved: Queries) -> list[bars.Bar]:
    """The identity, the modes, the climb."""
    residual = max(c.modes.residual.max() for c in counts)
    lost = sum(int(np.count_nonzero(c.modes.reached < 0)) for c in counts)
    ends = f"ends of paths at t = {QUERIES:g} from their modes"
    return [
        bars.at_most("velocity against the mean-shift step, largest error", max(errors), 1e-12),
        bars.at_most("modes against scipy's, distance", max(c.apart for c in counts), 1e-6),
        bars.at_most("|P_x m| at the modes", residual, 1e-11),
        bars.at_most("starts that end at no mode", lost, 0),
        bars.at_most("fall of the log density along paths", moved.largest_fall, 1e-8),
        bars.at_most(ends, moved.nearest[1], 1e-4),
    ]


def findings(counts: Sequence[Count], moved: Queries) -> list[side_by_side.Finding]:
    """What no theorem promises."""
    same = all(len(c.modes) == len(c.everywhere) for c in counts)
    numbers = [len(c.modes) for c in counts]
    early, late = zip(*(c.clusters for c in counts), strict=True)
    basins = float(np.mean(moved.nearest[0] == moved.modes.reached))
    best, worst = (choose(counts, key=lambda c: c.agreement) for choose in (max, min))
    merging = f"the moving cloud's clusters go on merging: {early} at t = {BLURRED[0]:g}, then"
    return [
        side_by_side.Finding("every mode is reached from the cloud's own points", same),
        side_by_side.Finding(
            f"narrower kernels have more modes: {numbers}", numbers == sorted(numbers)
        ),
        side_by_side.Finding(
            f"some beta has one mode for each of the {BUMPS} bumps", BUMPS in numbers
        ),
        side_by_side.Finding(
            f"flow and steps of mean shift lead {100.0 * basins:.1f} % of the queries to one mode",
            basins > 0.98,
        ),
        side_by_side.Finding(f"{merging} {late} at t = {BLURRED[1]:g}", sum(late) < sum(early)),
        side_by_side.Finding(
            f"clusters are the modes' basins: adjusted Rand index {best.agreement:.2f} at beta = "
            f"{best.beta:g}, the worst {worst.agreement:.2f} at beta = {worst.beta:g}",
            best.agreement > 0.95,
        ),
    ]


def picture(mu: Measure, moved: Queries, counts: Sequence[Count], path: Path) -> None:
    """Two maps with paths, the numbers of modes and clusters against beta, the climb."""
    from matplotlib.figure import Figure

    from pde.panels import style

    times = np.concatenate([[0.0], np.geomspace(0.02, BLURRED[0], 60)])
    blurred = paths(mu, SHOWN, times, blurring=True)
    labels = groups(blurred[-1])
    clusters = np.array([blurred[-1][labels == k][0] for k in range(labels.max() + 1)])
    with style():
        figure = Figure(figsize=(9.2, 6.2), layout="constrained")
        halves: Any = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
        above, below = halves
        left, right = above.subplots(1, 2)
        _map(left, mu, moved.places, moved.modes.centers)
        left.set_title(f"plain: queries climb to the {len(moved.modes)} modes of the fixed cloud")
        image = _map(right, mu, blurred, clusters)
        right.set_title(
            f"blurring: the cloud itself, {len(clusters)} clusters at t = {times[-1]:g}"
        )
        bar = above.colorbar(image, ax=[left, right], location="bottom", shrink=0.35, aspect=30)
        bar.set_label(f"kernel density at the start, beta = {SHOWN:g}")
        left, right = below.subplots(1, 2)
        _numbers(left, counts)
        _climb(right, moved)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _map(axes: Any, mu: Measure, places: Array, ends: Array) -> Any:
    """The kernel density of the cloud at its start as a map, paths over it, and their ends."""
    from matplotlib.colors import Normalize

    from pde.panels import draw_density
    from pde.projections import CellRaster, Mollweide

    projection, mesh = Mollweide(), icosphere(48)
    # The largest value of e^{beta <x,y>} is e^beta, its integral 2 pi e^beta / beta, nearly.
    density = np.exp(log_partition(SHOWN * mesh.centers, mu)[0] - SHOWN) * SHOWN / (2.0 * np.pi)
    norm = Normalize(0.0, float(density.max()))
    image = draw_density(axes, CellRaster(mesh, projection, 400), density, norm)
    for path in np.moveaxis(places, 1, 0):
        x, y = projection.project(path)[0].T
        x = np.where(np.abs(np.diff(x, prepend=x[0])) > projection.half_width, np.nan, x)
        axes.plot(x, y, color="w", lw=0.5, alpha=0.7, zorder=4)
    axes.plot(*projection.project(mu.points)[0].T, ".", color="w", ms=2.0, zorder=4)
    axes.plot(
        *projection.project(ends)[0].T, "o", color="#e8452c", ms=5, mec="w", mew=0.7, zorder=6
    )
    axes.set_xlim(-1.02 * projection.half_width, 1.02 * projection.half_width)
    axes.set_ylim(-1.02 * projection.half_height, 1.02 * projection.half_height)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return image


def _numbers(axes: Any, counts: Sequence[Count]) -> None:
    """Numbers of modes and of clusters against beta."""
    betas = [c.beta for c in counts]
    axes.plot(betas, [len(c.maxima) for c in counts], "s", mfc="none", color="0.2", label="scipy")
    axes.plot(betas, [len(c.modes) for c in counts], ".-", label="modes, mean shift")
    for i, (time, form) in enumerate(zip(BLURRED, ("^--", "v:"), strict=True)):
        clusters = [c.clusters[i] for c in counts]
        axes.plot(betas, clusters, form, ms=4, label=f"clusters, blurring, t = {time:g}")
    axes.axhline(BUMPS, color="0.6", lw=0.8, label="bumps of the law")
    axes.set(xscale="log", yscale="log", xlabel="beta", ylabel="number")
    axes.set_xticks(betas, [f"{beta:g}" for beta in betas], minor=False)
    axes.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()


def _climb(axes: Any, moved: Queries) -> None:
    """Distance to the nearest mode along the paths: the median and the slowest."""
    cosines = np.einsum("knd,md->knm", moved.places, moved.modes.centers).max(axis=2)
    away = np.sqrt(np.maximum(2.0 - 2.0 * cosines, 1e-20))
    for share, label in ((0.5, "half of them"), (0.9, "9 of 10"), (1.0, "all")):
        axes.plot(moved.times[1:], np.quantile(away, share, axis=1)[1:], label=label)
    axes.set(xscale="log", yscale="log", xlabel="t", ylabel="distance to the nearest mode")
    axes.set_ylim(1e-6, None)  # the error that steps may have
    axes.grid(alpha=0.3)
    axes.legend(title="queries", loc="lower left")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where what is proven holds."""
    parser = bars.study_parser("mean_shift", __doc__, [96], [192])
    parser.add_argument("--tokens", type=int, default=300, metavar="N")
    parser.add_argument(
        "--betas", type=float, nargs="+", default=(5, 10, 20, SHOWN, 80, 160), metavar="BETA"
    )
    arguments = parser.parse_args(argv)
    mesh = icosphere(bars.chosen_frequencies(arguments)[-1])
    mu = cloud_of(arguments.tokens)
    errors = [identity_error(d, beta) for d, beta in IDENTITIES]
    counts = [count(mu, beta, mesh) for beta in arguments.betas]
    moved = queries(mu, find_modes(mu, SHOWN), SHOWN)
    shown = "\n".join(map(str, findings(counts, moved)))
    if arguments.out is not None:
        picture(mu, moved, counts, arguments.out / "mean_shift.png")
    tables = [table(counts, arguments.tokens), shown]
    verdicts = promised(errors, counts, moved)
    return bars.conclude(tables, verdicts, arguments.out, "mean_shift")


if __name__ == "__main__":
    sys.exit(main())
