"""Consensus-based optimisation on the sphere: cells and particles find a global minimum together.

    dx = lam P_x m dt + sigma |x-m| P_x dW - (sigma^2/2) (d-1) |x-m|^2 x dt
    d_t rho = -lam div(rho P_x m) + (sigma^2/2) LaplaceBeltrami(|x-m|^2 rho)

with m the mean under the weights e^{-beta J} (Fornasier, Huang, Pareschi and Sünnen,
arXiv:2001.11994, arXiv:2001.11988). Three parts:

    plain       an objective of Rastrigin's kind on S^2 with 15 minima, from the uniform law. The
                density on two meshes and clouds of several seeds go to the global minimiser, and
                their moments agree over time within three standard errors of the clouds' average
                and the difference of the meshes
    polarised   weights k(x,y) e^{-beta J(y)} (Bungert, Roith and Wacker, arXiv:2211.05238): all six
                minima of an objective at once, on cells and particles; plain consensus finds one
    many d      how often particles find the global minimiser in d = 10 and 20

The variance falls at the rate 2 lam - (d-1) sigma^2 once m stands still: with m at the minimiser,
E (1 - <x,m>) falls by lam E (1 - <x,m>^2) - (d-1) sigma^2 E <x,m> (1 - <x,m>), and <x,m> is
near 1. Cells cannot follow below their own width.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meshes import SphereMesh, icosphere
from meshes.geometry import norm
from pde import Equation, FiniteVolume, Measure, ParticleSystem, Simulation, initial
from pde.arguments import Array
from pde.consensus import ConsensusDrift, PolarisedConsensus, consensus_equation
from validation import bars, convergence, objectives, side_by_side

BETA, SIGMA = 15.0, 0.7
TIMES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0])
DOTS = 400
"""Particles in a picture."""
STEP = 0.1
"""Longest step of particles; the noise asks for shorter ones while they are far from m."""
CELLS_TOLERANCE = 1e-3
"""Error of a step on cells, as a mass: moments change by less than 1e-4 when it is 1e-4."""
ERRORS = 3.0
"""Standard errors within which moments agree."""

POLARISED = {"beta": 30.0, "kappa": 0.3}
POLARISED_TIMES = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0])
FOUND = 0.15
"""Angle within which mass has found a minimum."""

DIMENSIONS = {10: (0.35, 10.0), 20: (0.28, 20.0)}
"""d: sigma, below sqrt(2 / (d-1)), and the time at the end."""
COLD = 1e4
"""beta in many dimensions: m is the best particle, nearly."""


def cloud(equation: Equation, d: int, n: int, seed: int, times: Any, step: float = STEP) -> Any:
    """The solution for n particles from the uniform law."""
    start = initial.sample(initial.uniform(d), n, seed=1000 + seed)
    system = ParticleSystem(equation, seed=seed)
    simulation = Simulation(system, start, stepper="ssprk2", tolerance=None, max_step=step)
    return simulation.run(until=float(times[-1]), save_at=times)


def density(equation: Equation, mesh: SphereMesh, times: Any) -> Any:
    """The solution on cells from the uniform law."""
    system = FiniteVolume(mesh, equation)
    simulation = Simulation(system, initial.uniform(), tolerance=CELLS_TOLERANCE)
    return simulation.run(until=float(times[-1]), save_at=times)


def moments(mu: Measure, best: Array) -> tuple[float, float]:
    """(<E x, x*>, E |x - E x|^2), of the law that mu is in proportion to."""
    mean = mu.mean() / mu.total
    return float(mean @ best), float(1.0 - mean @ mean)


@dataclass(frozen=True, eq=False)
class Plain:
    """Moments over time, (K, 2) on two meshes, coarse and fine, and (S, K, 2) for S seeds.

    grid : the solution on the finer mesh; clouds : those of the seeds
    """

    best: Array
    cells: list[Array]
    particles: Array
    grid: Any
    clouds: list[Any]

    @property
    def width(self) -> float:
        """Of the finer mesh's cells."""
        return float(self.grid.mesh.spacing)

    @property
    def average(self) -> Array:
        """(K, 2) over the seeds."""
        return self.particles.mean(axis=0)

    @property
    def standard_error(self) -> Array:
        """(K, 2) of the average."""
        return self.particles.std(axis=0, ddof=1) / np.sqrt(len(self.particles))

    @property
    def allowed(self) -> Array:
        """(K, 2) difference of cells and particles that their errors explain."""
        return ERRORS * self.standard_error + np.abs(self.cells[1] - self.cells[0])

    @property
    def share(self) -> Array:
        """(K - 1, 2) differences as shares of what is allowed, after the start."""
        return (np.abs(self.cells[1] - self.average) / self.allowed)[1:]

    def miss(self, solution: Any) -> float:
        """Distance of the mean's direction from x* at the end."""
        mean = solution.measures[-1].mean()
        return float(norm(mean / norm(mean) - self.best))

    def rate(self, which: str) -> float:
        """Of the variance, from where it is below 0.15 on."""
        values = self.cells[1][:, 1] if which == "grid" else self.average[:, 1]
        return side_by_side.rate(TIMES, values, values < 0.15)


def plain(frequencies: Sequence[int], n: int, seeds: int) -> Plain:
    """Rastrigin's objective on S^2 by cells on two meshes and by particles."""
    best = objectives.minimiser(3)
    field = ConsensusDrift(objectives.rastrigin(best), BETA)
    equation = consensus_equation(field, SIGMA)
    meshes = [icosphere(frequency) for frequency in frequencies]
    grids = [density(equation, mesh, TIMES) for mesh in meshes]
    clouds = [cloud(equation, 3, n, seed, TIMES) for seed in range(seeds)]

    def over_time(solution: Any) -> Array:
        return np.array([moments(mu, best) for mu in solution.measures])

    particles = np.array([over_time(solution) for solution in clouds])
    return Plain(best, [over_time(grid) for grid in grids], particles, grids[-1], clouds)


@dataclass(frozen=True, eq=False)
class Polarised:
    """Measures at POLARISED_TIMES on cells and of particles; of plain consensus at the end."""

    minima: Array
    width: float
    grid: Any
    particles: Any
    plain: Measure

    def shares(self, mu: Measure) -> Array:
        """(6,) shares of the mass within FOUND of each minimum."""
        near = mu.points @ self.minima.T >= np.cos(FOUND)
        return (mu.weights @ near) / mu.total

    def found(self, mu: Measure) -> int:
        """How many minima hold at least 5 % of the mass."""
        return int(np.count_nonzero(self.shares(mu) > 0.05))


def polarised(frequency: int, n: int) -> Polarised:
    """Six equal minima, at + and - three axes in general position."""
    axes = side_by_side.AXES[3]
    J = objectives.axes_quartic(axes)
    equation = consensus_equation(PolarisedConsensus(J, **POLARISED), SIGMA)
    mesh = icosphere(frequency)
    alone = consensus_equation(ConsensusDrift(J, POLARISED["beta"]), SIGMA)
    return Polarised(
        np.concatenate([axes.T, -axes.T]),
        mesh.spacing,
        density(equation, mesh, POLARISED_TIMES),
        cloud(equation, 3, n, 0, POLARISED_TIMES),
        cloud(alone, 3, n, 0, [2.0 * POLARISED_TIMES[-1]]).measures[-1],
    )


def success_rate(name: str, d: int, n: int, seeds: int) -> float:
    """Share of the seeds whose mean ends within a quarter of a ripple of x*."""
    best = objectives.minimiser(d)
    objective = getattr(objectives, name)(best)
    sigma, until = DIMENSIONS[d]
    equation = consensus_equation(ConsensusDrift(objective, COLD), sigma)
    found = 0
    for seed in range(seeds):
        mean = cloud(equation, d, n, seed, [until], step=2.5 * STEP).measures[-1].mean()
        found += bool(norm(mean / norm(mean) - best) < 0.25 * objectives.period(d))
    return found / seeds


Rates = dict[tuple[str, int], list[float]]
"""(objective, d) -> success rates for the numbers of particles."""


def plain_table(result: Plain) -> str:
    """Moments over time: cells, particles with their standard error, the difference."""
    header = ["t"]
    for name in ("<E x, x*>", "variance"):
        header += [f"{name}, cells", "particles", "+-", "share"]
    rows = []
    for i, t in enumerate(TIMES):
        row = [f"{t:g}"]
        for k in range(2):
            share = "-" if i == 0 else f"{result.share[i - 1, k]:.2f}"
            row += [
                f"{result.cells[1][i, k]:.4f}",
                f"{result.average[i, k]:.4f}",
                f"{result.standard_error[i, k]:.4f}",
                share,
            ]
        rows.append(row)
    seeds = len(result.particles)
    title = (
        f"Rastrigin on S^2, beta = {BETA:g}, sigma = {SIGMA:g}, h = {result.width:.3f}, "
        f"{seeds} clouds; share: difference by {ERRORS:g} standard errors + mesh error"
    )
    return f"{title}\n{convergence.table(header, rows)}"


def polarised_table(result: Polarised) -> str:
    """Mass within FOUND of the six minima over time."""
    header = ["t", *(f"{name}, {what}" for name in ("cells", "particles") for what in _SHARES)]
    rows = []
    pairs = zip(result.grid.measures, result.particles.measures, strict=True)
    for t, both in zip(POLARISED_TIMES, pairs, strict=True):
        row = [f"{t:g}"]
        for mu in both:
            shares = result.shares(mu)
            row += [f"{shares.min():.3f}", f"{shares.max():.3f}", f"{shares.sum():.3f}"]
        rows.append(row)
    settings = ", ".join(f"{name} = {value:g}" for name, value in POLARISED.items())
    title = f"polarised, six minima, {settings}: mass within {FOUND:g} of a minimum"
    return f"{title}\n{convergence.table(header, rows)}"


_SHARES = ("least", "most", "all six")


def success_table(rates: Rates, numbers: Sequence[int], seeds: int) -> str:
    """Success rates by objective, dimension and number of particles."""
    header = ["objective", "d", "sigma", *(f"n = {n}" for n in numbers)]
    rows = [
        [name, str(d), f"{DIMENSIONS[d][0]:g}", *(f"{rate:.2f}" for rate in found)]
        for (name, d), found in rates.items()
    ]
    title = f"particles, beta = {COLD:g}: share of {seeds} seeds that find the global minimiser"
    return f"{title}\n{convergence.table(header, rows)}"


def promised(result: Plain, many: Polarised) -> list[bars.Bar]:
    """Cells and particles agree, end at the minimiser, and the polarised form finds all six."""
    cells, cloud = result.miss(result.grid), max(map(result.miss, result.clouds))
    found = [many.found(solution.measures[-1]) for solution in (many.grid, many.particles)]
    return [
        bars.at_most("moments, cells to particles, share of their errors", result.share.max(), 1),
        bars.at_most("cells: mean direction to x*, in cell widths", cells / result.width, 1),
        bars.at_most("particles: the same distance, all seeds", cloud, 0.05),
        bars.at_least("minima found at once, cells", found[0], 6),
        bars.at_least("minima found at once, particles", found[1], 6),
    ]


def findings(result: Plain, many: Polarised, rates: Rates) -> list[side_by_side.Finding]:
    """Rates, shares, success in many dimensions."""
    expected = 2.0 - 2.0 * SIGMA**2
    rate, one = result.rate("particles"), many.found(many.plain)
    shares = many.shares(many.grid.measures[-1])
    return [
        side_by_side.Finding(
            f"the particles' variance falls at {rate:.2f}, 2 lam - (d-1) sigma^2 = {expected:.2f}",
            abs(rate - expected) < 0.15 * expected,
        ),
        side_by_side.Finding(
            f"cells: each of six minima has {shares.min():.3f} to {shares.max():.3f} of the mass",
            bool(np.abs(shares - 1.0 / 6.0).max() < 0.01),
        ),
        side_by_side.Finding(f"plain consensus decides for {one} of the six", one == 1),
        side_by_side.Finding(
            "the largest clouds succeed at least as often as the smallest",
            all(found[-1] >= found[0] for found in rates.values()),
        ),
        *(
            side_by_side.Finding(
                f"{name}, d = {d}: found by {found[-1]:.2f} of the largest clouds", found[-1] > 0.9
            )
            for (name, d), found in rates.items()
        ),
    ]


def picture(
    result: Plain, many: Polarised, rates: Rates, numbers: Sequence[int], path: Path
) -> None:
    """The objective, the density with particles at three times, moments, polarised, success."""
    from matplotlib.figure import Figure

    from pde.panels import style

    mesh, J, fine = result.grid.mesh, objectives.rastrigin(result.best), icosphere(64)
    lows = fine.centers[objectives.local_minima(J, fine)]
    with style():
        figure = Figure(figsize=(11.0, 5.2), layout="constrained")
        axes = figure.subplots(2, 3, width_ratios=(1.15, 1.15, 1.0))
        _map(axes[0, 0], fine, -J(fine.centers), None, lows, result.best)
        axes[0, 0].set_title(f"-J, its {len(lows)} maxima (crosses), the global one (star)")
        for panel, t in zip((axes[0, 1], axes[1, 0]), (1.0, 3.0), strict=True):
            i = result.grid.index(t)
            dots = result.clouds[0].states[i][:DOTS]
            _map(panel, mesh, result.grid.states[i], dots, None, result.best)
            panel.set_title(f"density on cells and {len(dots)} particles, t = {t:g}")
        i = many.grid.index(2.0)
        dots = many.particles.states[i][:DOTS]
        _map(axes[1, 1], many.grid.mesh, many.grid.states[i], dots, many.minima, None)
        axes[1, 1].set_title("polarised, t = 2: all six minima (crosses) at once")
        _moments(axes[0, 2], result)
        _success(axes[1, 2], rates, numbers)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _map(
    axes: Any, mesh: SphereMesh, values: Array, dots: Array | None, crosses: Any, star: Any
) -> None:
    """Values on cells as a map of equal areas, with dots, crosses and a star on it."""
    from matplotlib.colors import Normalize
    from matplotlib.patheffects import withStroke

    from pde.panels import density_norm, draw_density
    from pde.projections import CellRaster, Mollweide

    projection = Mollweide(-np.pi / 2.0)
    norm = Normalize(float(values.min()), float(values.max()))
    if dots is not None:
        norm = density_norm(mesh, [values])
    draw_density(axes, CellRaster(mesh, projection, 400), values, norm)
    halo = [withStroke(linewidth=2.0, foreground="0.15")]
    if dots is not None:
        look = {"ms": 2.5, "mfc": "w", "mec": "0.2", "mew": 0.3, "zorder": 4}
        axes.plot(*projection.project(dots)[0].T, "o", **look)
    if crosses is not None:
        look = {"ms": 5, "color": "w", "zorder": 5, "path_effects": halo}
        axes.plot(*projection.project(crosses)[0].T, "x", **look)
    if star is not None:
        look = {"ms": 11, "mfc": "#e8452c", "mec": "w", "mew": 0.7, "zorder": 6}
        axes.plot(*projection.project(star[None])[0].T, "*", **look)
    axes.set_xlim(-1.02 * projection.half_width, 1.02 * projection.half_width)
    axes.set_ylim(-1.02 * projection.half_height, 1.02 * projection.half_height)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _moments(axes: Any, result: Plain) -> None:
    """Both moments over time; the particles' with their standard errors."""
    names = ("1 - <E x, x*>", "variance")
    for k, name in enumerate(names):
        flip = (lambda v: 1.0 - v) if k == 0 else (lambda v: v)
        axes.plot(TIMES, flip(result.cells[1][:, k]), color=f"C{k}", label=f"{name}, cells")
        axes.errorbar(
            TIMES,
            flip(result.average[:, k]),
            ERRORS * result.standard_error[:, k],
            fmt="o",
            ms=3,
            color=f"C{k}",
            label=f"{name}, particles",
        )
    axes.set(xlabel="t", yscale="log", title="moments, bars of three standard errors")
    axes.set_ylim(1e-3, 2.0)
    axes.grid(alpha=0.3)
    axes.legend()


def _success(axes: Any, rates: Rates, numbers: Sequence[int]) -> None:
    """Success rates against the number of particles."""
    for i, ((name, d), found) in enumerate(rates.items()):
        axes.plot(numbers, found, ("o-", "s--", "o:", "s-.")[i % 4], ms=4, label=f"{name}, d = {d}")
    axes.set(xscale="log", xlabel="particles", ylabel="share of seeds", ylim=(-0.05, 1.05))
    axes.set_xticks(numbers, [str(n) for n in numbers])
    axes.minorticks_off()
    axes.set_title("global minimiser found")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where what is promised holds."""
    parser = bars.study_parser("consensus", __doc__, [8, 16], [16, 32])
    parser.add_argument("--particles", type=int, default=2000, metavar="N")
    parser.add_argument("--seeds", type=int, default=8, metavar="S")
    parser.add_argument("--numbers", type=int, nargs="+", default=[50, 200, 800], metavar="N")
    arguments = parser.parse_args(argv)
    frequencies, seeds = bars.chosen_frequencies(arguments)[-2:], arguments.seeds
    result = plain(frequencies, arguments.particles, seeds)
    many = polarised(frequencies[0], 600)
    rates = {
        (name, d): [success_rate(name, d, n, seeds) for n in arguments.numbers]
        for d in DIMENSIONS
        for name in ("rastrigin", "ackley")
    }
    if arguments.out is not None:
        picture(result, many, rates, arguments.numbers, arguments.out / "consensus.png")
    tables = [plain_table(result), polarised_table(many)]
    tables.append(success_table(rates, arguments.numbers, seeds))
    tables.append("\n".join(map(str, findings(result, many, rates))))
    return bars.conclude(tables, promised(result, many), arguments.out, "consensus")


if __name__ == "__main__":
    sys.exit(main())
