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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import SphereMesh, icosphere
from meshes.geometry import norm
from pde import Equation, FiniteVolume, Measure, ParticleSystem, Simulation, initial
from pde.arguments import Array
from pde.fields.consensus import ConsensusDrift, PolarisedConsensus, consensus_equation
from validation import fits
from validation.problems import objectives
from validation.problems.axes import AXES
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each
from validation.study.options import Option
from validation.study.panels import SphereMap

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
        return fits.rate(TIMES, values, values < 0.15)


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
    axes = AXES[3]
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


def plain_table(result: Plain) -> Table:
    """Moments over time: cells, particles with their standard error, the difference."""
    share = np.vstack([[np.nan, np.nan], result.share])
    values = np.stack([result.cells[1], result.average, result.standard_error, share], axis=2)
    columns = ["t:g"]
    for name in ("<E x, x*>", "variance"):
        columns += [*each(".4f", f"{name}, cells", "particles", "+-"), "share:.2f"]
    title = (
        f"Rastrigin on S^2, beta = {BETA:g}, sigma = {SIGMA:g}, h = {result.width:.3f}, "
        f"{len(result.particles)} clouds; share: difference by {ERRORS:g} standard errors + mesh "
        "error"
    )
    return Table(title, columns, np.column_stack([TIMES, values.reshape(len(TIMES), -1)]))


def polarised_table(result: Polarised) -> Table:
    """Mass within FOUND of the six minima over time."""
    words = ("least", "most", "all six")
    heads = [f"{name}, {what}" for name in ("cells", "particles") for what in words]
    rows = []
    for t, *both in zip(
        POLARISED_TIMES, result.grid.measures, result.particles.measures, strict=True
    ):
        shares = np.array([result.shares(mu) for mu in both])
        ends = np.stack([shares.min(axis=1), shares.max(axis=1), shares.sum(axis=1)], axis=1)
        rows.append((t, *ends.ravel()))
    settings = ", ".join(f"{name} = {value:g}" for name, value in POLARISED.items())
    title = f"polarised, six minima, {settings}: mass within {FOUND:g} of a minimum"
    return Table(title, ["t:g", *each(".3f", *heads)], rows)


def promised(result: Plain, many: Polarised) -> list[Bar]:
    """Cells and particles agree, end at the minimiser, and the polarised form finds all six."""
    cells, cloud = result.miss(result.grid), max(map(result.miss, result.clouds))
    found = [many.found(solution.measures[-1]) for solution in (many.grid, many.particles)]
    return [
        Bar.at_most("moments, cells to particles, share of their errors", result.share.max(), 1),
        Bar.at_most("cells: mean direction to x*, in cell widths", cells / result.width, 1),
        Bar.at_most("particles: the same distance, all seeds", cloud, 0.05),
        Bar.at_least("minima found at once, cells", found[0], 6),
        Bar.at_least("minima found at once, particles", found[1], 6),
    ]


def findings(result: Plain, many: Polarised, rates: Rates) -> Iterator[Finding]:
    """Rates, shares, success in many dimensions."""
    expected = 2.0 - 2.0 * SIGMA**2
    rate, one = result.rate("particles"), many.found(many.plain)
    shares = many.shares(many.grid.measures[-1])
    law = f"the particles' variance falls at {rate:.2f}, 2 lam - (d-1) sigma^2 = {expected:.2f}"
    six = f"cells: each of six minima has {shares.min():.3f} to {shares.max():.3f} of the mass"
    more = "the largest clouds succeed at least as often as the smallest"
    yield from [
        Finding(law, abs(rate - expected) < 0.15 * expected),
        Finding(six, np.abs(shares - 1.0 / 6.0).max() < 0.01),
        Finding(f"plain consensus decides for {one} of the six", one == 1),
        Finding(more, all(few[-1] >= few[0] for few in rates.values())),
    ]
    for (name, d), by_number in rates.items():
        text = f"{name}, d = {d}: found by {by_number[-1]:.2f} of the largest clouds"
        yield Finding(text, by_number[-1] > 0.9)


def maps(result: Plain, many: Polarised) -> Iterator[Panel]:
    """The objective; the density with particles at two times; the polarised one."""
    J, fine, best = objectives.rastrigin(result.best), icosphere(64), result.best[None]
    lows, values = fine.centers[objectives.local_minima(J, fine)], -J(fine.centers)
    look: dict[str, Any] = {"longitude": -np.pi / 2.0}
    limits = float(values.min()), float(values.max())
    title = f"-J, its {len(lows)} maxima (crosses), the global one (star)"
    yield Panel(title, "", "", [SphereMap(fine, values, limits, crosses=lows, stars=best, **look)])
    for t in (1.0, 3.0):
        i = result.grid.index(t)
        dots = result.clouds[0].states[i][:DOTS]
        density = SphereMap(result.grid.mesh, result.grid.states[i], dots=dots, stars=best, **look)
        yield Panel(f"density on cells and {len(dots)} particles, t = {t:g}", "", "", [density])
    i = many.grid.index(2.0)
    dots = many.particles.states[i][:DOTS]
    density = SphereMap(many.grid.mesh, many.grid.states[i], dots=dots, crosses=many.minima, **look)
    yield Panel("polarised, t = 2: all six minima (crosses) at once", "", "", [density])


def moment_panel(result: Plain) -> Panel:
    """Both moments over time; the particles' with their standard errors."""
    curves = []
    for k, (name, base, sign) in enumerate((("1 - <E x, x*>", 1.0, -1.0), ("variance", 0.0, 1.0))):
        cells, average = base + sign * result.cells[1][:, k], base + sign * result.average[:, k]
        error = ERRORS * result.standard_error[:, k]
        curves.append(Curve(TIMES, cells, "-", k, f"{name}, cells"))
        curves.append(Curve(TIMES, average, "o", k, f"{name}, particles", error))
    title = f"moments, bars of {ERRORS:g} standard errors"
    return Panel(title, "t", "", curves, log="y", ylim=(1e-3, 2.0))


def panels(result: Plain, many: Polarised, rates: Rates, numbers: Sequence[int]) -> Iterator[Panel]:
    """The objective, the density with particles, moments, polarised, success."""
    objective, early, late, six = maps(result, many)
    curves = [
        Curve(numbers, found, ("o-", "s--", "o:", "s-.")[i % 4], i, f"{name}, d = {d}")
        for i, ((name, d), found) in enumerate(rates.items())
    ]
    success = Panel(
        "global minimiser found",
        "particles",
        "share of seeds",
        curves,
        log="x",
        ylim=(-0.05, 1.05),
        xticks=numbers,
    )
    yield from (objective, early, moment_panel(result), late, six, success)


def study(options: Options) -> Outcome:
    """Plain, polarised, many dimensions."""
    seeds, numbers = options.seeds, options.numbers
    result = plain(options.frequencies[-2:], options.particles, seeds)
    many = polarised(options.frequencies[-2:][0], 600)
    rates = {
        (name, d): [success_rate(name, d, n, seeds) for n in numbers]
        for d in DIMENSIONS
        for name in ("rastrigin", "ackley")
    }
    columns = ["objective", "d", "sigma:g"]
    columns += each(".2f", *(f"n = {n}" for n in numbers))
    title = f"particles, beta = {COLD:g}: share of {seeds} seeds that find the global minimiser"
    rows = [(name, d, DIMENSIONS[d][0], *found) for (name, d), found in rates.items()]
    return Outcome(
        [plain_table(result), polarised_table(many), Table(title, columns, rows)],
        promised(result, many),
        findings(result, many, rates),
        panels(result, many, rates, numbers),
    )


main = Command(
    study,
    Option("--particles", 2000, type=int, metavar="N", help="in a cloud"),
    Option("--seeds", 8, type=int, metavar="S", help="clouds"),
    Option.numbers("--numbers", [50, 200, 800], "N", "in many dimensions"),
    meshes=[8, 16],
    full=[16, 32],
)


if __name__ == "__main__":
    sys.exit(main())
