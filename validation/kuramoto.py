"""The circle: Kuramoto's model, growth of small harmonics, and the clusters that they leave.

1. beta = 0 and V = I on the circle is Kuramoto's model of identical oscillators. Poisson kernels
   rho(x) = (1 - |w|^2) / (2 pi |x - w|^2) stay Poisson kernels (Ott, Antonsen, Chaos 18, 037113,
   2008), their mean is w, and the order parameter r = |w| follows dr/dt = r (1 - r^2) / 2, so

       r^2 / (1 - r^2) = e^t r_0^2 / (1 - r_0^2).

   Particles see the same mean up to r^n when they start as images of n equally spaced points under
   the Moebius map z -> (z + w) / (1 + conj(w) z), which makes the kernel from the uniform law.

2. For V = B = I the uniform law is at rest, and its perturbation by cos(l theta) grows at the rate
   l^2 I_l(beta) / (beta I_0(beta)) (SA), I_l(beta) l^2 / beta (USA); `exact.growth_rate`.

3. Small random perturbations of uniform therefore leave about as many clusters as the fastest
   growing harmonic has crests (Bruno, Pasqualotto, Agazzi, arXiv:2410.23228): 3 at beta = 5, 4 at
   beta = 7; and there they stay for a time exponential in beta. Neighbours of the fastest harmonic
   grow nearly as fast (.6915 for l = 4 against .6496 for l = 3 at beta = 7), so which one wins
   depends on the draw; the smaller the perturbation, the surer the fastest one. The study counts.

On cells clusters become as narrow as a cell and stay: nothing is resolved of their merging.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from meshes import circle
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, Simulation, initial
from pde.arguments import Array, positive
from pde.simulation import run_to
from validation import convergence, fits, norms
from validation.exact import InfiniteTemperature, growth_rate
from validation.side_by_side import arcs, cells_of
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each
from validation.study.options import Option
from validation.study.panels import Image

PARAMETER = np.array([0.12, -0.16])
"""w of the Poisson kernel at the start, of length 0.2."""
UNTIL = 3.0
CELLS = {2: (64, 128, 256, 512), 4: (64, 128, 256)}
"""Cells by order of the scheme."""
OSCILLATORS, WATCHED = 1000, 6.0
"""Particles, and how long: r^n < 1e-10 until then."""
DEGREES = (1, 2, 3, 4, 5)
SMALL = 1e-6
"""Amplitude of a harmonic whose growth is measured, and of the perturbation that clusters."""
SEED = 4
AMPLITUDES = (1e-3, 1e-6, 1e-9)
DRAWS = 5
DRAW_CELLS = 180
BETAS = (5.0, 7.0)
KERNEL = 1e-13
"""Tolerance of the softmax sums: a kernel's error is a perturbation, and would grow as one."""

Counts = dict[tuple[float, float], list[int]]
"""(beta, amplitude) -> numbers of clusters, by draw."""


def order_parameter(t: Any, r0: float) -> Array:
    """r(t) of Kuramoto's model from r0 in [0, 1), in closed form.

    >>> order_parameter([0.0, 4.0], 0.2).round(6)
    array([0.2     , 0.833456])
    """
    if not 0.0 <= r0 < 1.0:
        raise ValueError(f"r0 must lie in [0, 1), got {r0}")
    grown = np.exp(0.5 * np.asarray(t, dtype=float)) * r0
    # r^2 / (1 - r^2) = s^2 / (1 - r0^2), s = e^{t/2} r0
    return grown / np.sqrt(1.0 - r0**2 + grown**2)


def moebius(n: int, w: Any) -> Array:
    """(n, 2) images of n equally spaced points: a quadrature of the Poisson kernel of w.

    >>> moebius(50, [0.3, -0.4]).mean(axis=0).round(12)
    array([ 0.3, -0.4])
    """
    z = np.exp(2j * np.pi * (np.arange(n) + 0.5) / n)
    c = complex(*w)
    z = (z + c) / (1.0 + np.conj(c) * z)
    return np.stack([z.real, z.imag], axis=1)


def attention(beta: float, normalized: bool = True) -> SelfAttention:
    """SA or USA on the circle, V = B = I."""
    return SelfAttention(np.eye(2), np.eye(2), beta, normalized, tolerance=KERNEL)


def angles(points: Array) -> Array:
    """(m,) angles of the (m, 2) points."""
    return np.arctan2(points[:, 1], points[:, 0])


def mode(mu: Measure, degree: int) -> complex:
    """int e^{-i l theta} dmu."""
    return complex(mu.weights @ np.exp(-1j * degree * angles(mu.points)))


@dataclass(frozen=True, eq=False)
class Kuramoto:
    """Errors at UNTIL, by order: of the density (l1) and of |m|; courses of |m| over time."""

    density: dict[str, convergence.Study]
    mean: dict[str, convergence.Study]
    times: Array
    courses: dict[str, Array]
    particles: float


def kuramoto() -> Kuramoto:
    """Solve Kuramoto's model on cells and with particles."""
    solution = InfiniteTemperature(np.eye(2), PARAMETER)
    r = float(order_parameter(UNTIL, float(np.linalg.norm(PARAMETER))))

    def errors(order: int, cells: int) -> tuple[float, float]:
        mesh = circle(cells)
        fv = FiniteVolume(mesh, Equation(attention(0.0)), order=order)
        rho = run_to(fv, solution.density(0.0), UNTIL)
        off = norms.relative(mesh, rho, mesh.average(solution.density(UNTIL)))["l1"]
        return off, abs(float(np.linalg.norm(fv.measure(rho).mean())) - r)

    density, mean = {}, {}
    for order, cells in CELLS.items():
        h = 2.0 * np.pi / np.array(cells)
        found = np.array([errors(order, n) for n in cells])
        density[f"order {order}"] = convergence.Study(cells, h, found[:, 0])
        mean[f"order {order}"] = convergence.Study(cells, h, found[:, 1])
    times = np.linspace(0.0, WATCHED, 25)
    courses = {"grid": over_time(times, "grid"), "particles": over_time(times, "particles")}
    exact = order_parameter(times, float(np.linalg.norm(PARAMETER)))
    return Kuramoto(
        density, mean, times, courses, float(np.abs(courses["particles"] - exact).max())
    )


def over_time(times: Array, which: str) -> Array:
    """(K,) |m| on 256 cells at order 4, or of OSCILLATORS particles."""
    equation = Equation(attention(0.0))
    if which == "grid":
        system = FiniteVolume(circle(256), equation, order=4)
        run = Simulation(system, InfiniteTemperature(np.eye(2), PARAMETER).density(0.0))
    else:
        particles = ParticleSystem(equation)
        run = Simulation(particles, moebius(OSCILLATORS, PARAMETER), tolerance=1e-11)
    measures = run.run(until=float(times[-1]), save_at=times).measures
    return np.array([float(np.linalg.norm(mu.mean())) for mu in measures])


def grid_rate(beta: float, degree: int, normalized: bool, order: int, cells: int = 256) -> float:
    """Measured growth rate of cos(l theta) on cells."""
    mesh = circle(cells)
    system = FiniteVolume(mesh, Equation(attention(beta, normalized)), order=order)

    def law(x: Array) -> Array:
        return (1.0 + SMALL * np.cos(degree * angles(x))) / (2.0 * np.pi)

    return _rate(system, law, beta, degree, normalized)


def particle_rate(beta: float, degree: int, normalized: bool, n: int = 128) -> float:
    """The same for particles, which stand at equal steps of the perturbed law's mass."""
    even = 2.0 * np.pi * np.arange(n) / n
    theta = even - SMALL / degree * np.sin(degree * even)
    points = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    system = ParticleSystem(Equation(attention(beta, normalized)))
    return _rate(system, points, beta, degree, normalized)


def _rate(system: Any, state: Any, beta: float, degree: int, normalized: bool) -> float:
    """Rate at which the system's harmonic grows while it should grow e-fold."""
    span = 1.0 / float(growth_rate(beta, degree, d=2, normalized=normalized))
    # The tolerance of particles is a distance: theirs are SMALL to begin with.
    run = Simulation(system, state, stepper="ssprk54", tolerance=1e-13, max_step=span / 20.0)
    first, last = run.run(until=span).measures
    return float(np.log(abs(mode(last, degree)) / abs(mode(first, degree)))) / span


class Rate(NamedTuple):
    """The rate of one harmonic in theory, on cells of order 2 and 4, and for particles."""

    kind: str
    beta: float
    degree: int
    theory: float
    order2: float
    order4: float
    particles: float

    def error(self, which: str) -> float:
        """Relative error of one of the measured rates, by its name."""
        return abs(getattr(self, which) / self.theory - 1.0)


def rates() -> list[Rate]:
    """All rates of DEGREES at BETAS."""
    found = []
    for normalized in (True, False):
        for beta in BETAS:
            for degree in DEGREES:
                theory = float(growth_rate(beta, degree, d=2, normalized=normalized))
                measured = [grid_rate(beta, degree, normalized, order) for order in (2, 4)]
                measured.append(particle_rate(beta, degree, normalized))
                kind = "SA" if normalized else "USA"
                found.append(Rate(kind, beta, degree, theory, *measured))
    return found


def fastest(beta: float) -> int:
    """The fastest growing degree; SA and USA have the same.

    >>> fastest(5.0), fastest(7.0)
    (3, 4)
    """
    degrees = np.arange(1, 3 + int(2.0 * positive("beta", beta)))
    return int(degrees[np.argmax(growth_rate(beta, degrees, d=2))])


@dataclass(frozen=True, eq=False)
class Emergence:
    """Densities (K, N) over time from a small perturbation, and the harmonics (K, L) in them."""

    beta: float
    times: Array
    angles: Array
    density: Array
    modes: Array
    clusters: Array

    @property
    def final(self) -> int:
        """Number of clusters in the end."""
        return int(self.clusters[-1])

    def linear_error(self, degree: int) -> float:
        """Of the harmonic's measured rate against theory, until it reaches a hundredth."""
        values = self.modes[:, degree - 1]
        early = values < 0.01
        measured = -fits.rate(self.times, values, early)
        return abs(measured / float(growth_rate(self.beta, degree, d=2)) - 1.0)


def emerge(beta: float, cells: int, amplitude: float, seed: int, saves: int = 60) -> Emergence:
    """Solve from a random band-limited perturbation until clusters have stood for a while."""
    mesh = circle(cells)
    system = FiniteVolume(mesh, Equation(attention(beta)), order=2)
    law = initial.random_band_limited(seed, degree=8, amplitude=amplitude, d=2)
    top = float(growth_rate(beta, fastest(beta), d=2))
    times = np.linspace(0.0, -np.log(amplitude) / top + 15.0, saves + 1)
    # Near the uniform law nothing moves and cells bound no step; growth does.
    run = Simulation(system, cells_of(law, mesh), max_step=0.1)
    solution = run.run(until=float(times[-1]), save_at=times)
    measures = solution.measures
    theta = angles(mesh.centers)
    order = np.argsort(theta)
    return Emergence(
        beta,
        times,
        theta[order],
        solution.states[:, order],
        np.array([[2.0 * abs(mode(mu, degree)) for degree in range(1, 7)] for mu in measures]),
        np.array([arcs(mu, np.eye(2)) for mu in measures]),
    )


def draws(beta: float, amplitude: float, seeds: int) -> list[int]:
    """Numbers of clusters from `seeds` random perturbations, on few cells."""
    return [emerge(beta, DRAW_CELLS, amplitude, seed, 1).final for seed in range(seeds)]


def tables(result: Kuramoto, found: Sequence[Rate], counts: Counts) -> Iterator[Table | str]:
    """Errors and orders; rates of growth; numbers of clusters by beta and amplitude."""
    for name, density in result.density.items():
        yield density.table(f"Kuramoto, {name}, density at t = {UNTIL:g}, l1")
        yield result.mean[name].table(f"Kuramoto, {name}, |m| at t = {UNTIL:g}")
    yield f"{OSCILLATORS} particles: |m| within {result.particles:.1e} until t = {WATCHED:g}"
    heads = each(".6f", "theory", "cells, order 2", "order 4", "particles")
    title = "growth rates of cos(l theta), 256 cells, 128 particles"
    yield Table(title, ["kind", "beta:g", "l", *heads], found)
    rows = []
    for (beta, amplitude), numbers in counts.items():
        own = f"{numbers.count(fastest(beta))} of {len(numbers)}"
        rows.append((beta, amplitude, fastest(beta), " ".join(map(str, numbers)), own))
    columns = [*each("g", "beta", "amplitude"), "fastest l"]
    columns += ["clusters, by draw", "as many as the fastest"]
    yield Table(f"clusters from random perturbations, {DRAW_CELLS} cells", columns, rows)


def findings(runs: Sequence[Emergence], cells: int, counts: Counts) -> Iterator[Finding]:
    """Clusters and the fastest harmonic."""
    for run in runs:
        text = (
            f"beta = {run.beta:g}, {cells} cells, amplitude {SMALL:g}, draw {SEED}: "
            f"{run.final} clusters, fastest harmonic {fastest(run.beta)}"
        )
        yield Finding(text, run.final == fastest(run.beta))
    for beta in sorted({beta for beta, _ in counts}):
        shares = [
            numbers.count(fastest(beta)) / len(numbers)
            for (b, _), numbers in sorted(counts.items(), reverse=True)
            if b == beta
        ]
        words = ", ".join(f"{share:.0%}" for share in shares)
        text = f"beta = {beta:g}: the smaller the start, the more draws go to the fastest: {words}"
        yield Finding(text, (np.diff(shares) >= 0.0).all() and shares[-1] > 0.5)


def promised(result: Kuramoto, found: Sequence[Rate], runs: Sequence[Emergence]) -> Iterator[Bar]:
    """Orders and errors of Kuramoto's model, rates of growth."""
    for order, bound in ((2, 1e-4), (4, 1e-6)):
        density, mean = result.density[f"order {order}"], result.mean[f"order {order}"]
        what = f"Kuramoto, order {order}"
        yield Bar.at_least(f"{what}: observed, density", density.order[-1], order - 0.35)
        yield Bar.at_most(f"{what}: l1 on the finest", density.error[-1], bound)
        yield Bar.at_most(f"{what}: error of |m|", mean.error[-1], bound)
    yield Bar.at_most("Kuramoto, particles: error of |m|", result.particles, 1e-10)
    for which, bound in (("order2", 2e-3), ("order4", 1e-6), ("particles", 1e-6)):
        worst = max(rate.error(which) for rate in found)
        yield Bar.at_most(f"growth rates, {which}: relative error", worst, bound)
    for run in runs:
        degree = fastest(run.beta)
        what = f"beta = {run.beta:g}: rate of l = {degree} while small"
        yield Bar.at_most(what, run.linear_error(degree), 0.02)


def order_parameter_panel(result: Kuramoto) -> Panel:
    """|m| over time: exact, cells, particles."""
    fine = np.linspace(0.0, result.times[-1], 200)
    curves = [
        Curve(fine, order_parameter(fine, float(np.linalg.norm(PARAMETER))), "-", "k", "exact"),
        Curve(result.times, result.courses["grid"], "o", 0, "256 cells, order 4"),
        Curve(result.times, result.courses["particles"], "x", 1, "particles"),
    ]
    return Panel("Kuramoto, $\\beta = 0$", "t", "order parameter |m|", curves)


def errors_panel(result: Kuramoto) -> Panel:
    """Errors of the density and of |m| over the width."""
    curves = []
    for i, (name, one) in enumerate(result.density.items()):
        mean, label = result.mean[name], f"density, {name} (slope {one.order[-1]:.2f})"
        curves.append(Curve(one.h, one.error, "o-", i, label))
        curves.append(Curve(mean.h, mean.error, "s--", i, f"|m|, {name}"))
    title, ticks = f"Kuramoto, errors at t = {UNTIL:g}", (0.01, 0.02, 0.05, 0.1)
    return Panel(title, "h", "error", curves, log="xy", ylim=(1e-13, 1e-2), xticks=ticks)


def rates_panel(found: Sequence[Rate]) -> Panel:
    """Rates of growth over beta: theory and cells."""
    betas, curves = np.linspace(0.3, 10.0, 120), []
    for degree in DEGREES:
        theory = [float(growth_rate(beta, degree, d=2)) for beta in betas]
        curves.append(Curve(betas, theory, "-", degree, f"l = {degree}"))
        own = [(r.beta, r.order4) for r in found if r.kind == "SA" and r.degree == degree]
        curves.append(Curve.through(own, "o", degree))
    title = "growth about uniform, SA (dots: cells)"
    return Panel(title, "$\\beta$", "rate", curves, ylim=(0.0, 0.95))


def density_panel(run: Emergence) -> Panel:
    """The density over time and angle."""
    width = max(1, len(run.angles) // 400)
    blocks = len(run.angles) // width
    # Clusters are narrower than a pixel: the largest of several cells shows them.
    shown = run.density[:, : blocks * width].reshape(len(run.times), blocks, width).max(axis=2)
    theta = run.angles[: blocks * width].reshape(blocks, width).mean(axis=1)
    values = np.maximum(shown.T * 2.0 * np.pi, 1e-3)
    image = Image(run.times, theta, values, "density / uniform", (1e-2, 1e2), log=True)
    return Panel(f"$\\beta = {run.beta:g}$: {run.final} clusters", "t", "angle", [image])


def modes_panel(run: Emergence) -> Panel:
    """Harmonics over time, with the lines of the linear theory."""
    curves = []
    for degree in range(1, 7):
        values = run.modes[:, degree - 1]
        curves.append(Curve(run.times, values, "o", degree, f"l = {degree}"))
        line = values[0] * np.exp(float(growth_rate(run.beta, degree, d=2)) * run.times)
        curves.append(Curve(run.times[line < 2.0], line[line < 2.0], "-", degree))
    title = f"harmonics, $\\beta = {run.beta:g}$ (lines: linear theory)"
    return Panel(title, "t", "amplitude", curves, log="y", ylim=(3e-8, 100.0))


def study(options: Options) -> Outcome:
    """The three claims."""
    result, found = kuramoto(), rates()
    runs = [emerge(beta, options.cells, SMALL, SEED) for beta in BETAS]
    counts = {
        (beta, amplitude): draws(beta, amplitude, DRAWS)
        for beta in BETAS
        for amplitude in AMPLITUDES
    }
    panels = [order_parameter_panel(result), errors_panel(result), rates_panel(found)]
    return Outcome(
        tables(result, found, counts),
        promised(result, found, runs),
        findings(runs, options.cells, counts),
        [*panels, *map(density_panel, runs), modes_panel(runs[-1])],
    )


CELLS_OPTION = Option(
    "--cells", 800, full=10_000, type=int, metavar="N", help="of the runs to clusters"
)
main = Command(study, CELLS_OPTION)


if __name__ == "__main__":
    sys.exit(main())
