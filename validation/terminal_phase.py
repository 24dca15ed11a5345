"""The terminal phase: from the limit space E of V B^T on to F or F_abs of V, and when.

Claim (Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931): after the mass has gathered on E it moves
to F, the eigenspace of V's largest eigenvalue, or F_abs, that of its largest modulus, the later the
larger beta. Three cases on the sphere: E = e2, F = e1 (mass first at +-e2, then at +-e1); all signs
turned, E = e2, F_abs = e1; E = F = e2 (the mass stays).

Why, by linearisation. V, B symmetric with common eigenvectors; V f = lam f, B f = b f, v the
eigenvalue of V across f. Particles at f + u_i, u_i small and across f: weights differ from equal
ones in second order only, so m = f + mean(u), and P_x V m = v mean(u) - lam u_i. Consensus at f:

    mean(u)' = (v - lam) mean(u),   (u_i - mean(u))' = -lam (u_i - mean(u)).

Half of them at -f + w_i: a particle at f gives its own cluster the share p = e^{beta b} /
(e^{beta b} + e^{-beta b}), the other one q = 1 - p, so that m = T f + p mean(u) + q mean(w) with
T = p - q = tanh(beta b), and likewise at -f with p and q exchanged. In mean(u) + mean(w) and
mean(u) - mean(w) the rates are

    v - lam T,   T (v - lam),   and -lam T for the deviations from the means.

Stable iff all are negative, whatever B is across f. So for E = e2, F = e1 a pair at +-e2 leaves
with the rate v1 - lam T, about v1 - lam: not exponentially slowly in beta, but after the time in
which a deviation of size beta^{-1/2} or so has grown, i.e. like log(beta). Slow like e^{-2 beta b}
it is only for v = lam (V = I, see `three_phases`).

Measured: shares of mass within 30 degrees of the axes over time, of cells and particles; the time
at which half of the mass is near F; a map of stability over (lam, v, b) from a few particles.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pde import Equation, ParticleSystem, SelfAttention, Simulation
from pde.arguments import Array
from validation import fits, side_by_side
from validation.problems.axes import AXES, symmetric, tilted
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each
from validation.study.options import Option

BETAS = (1.0, 2.0, 3.0, 4.0, 5.0)
SHOWN_BETA = 4.0
"""The inverse temperature whose shares are printed."""
PERTURBATION = 1e-5
DECADES = 4.0
"""The map follows a perturbation until it should have changed by this many factors e."""
NEUTRAL = 0.05
"""Rates smaller than this are not decided on the map."""


@dataclass(frozen=True)
class Case:
    """Eigenvalues on the axes, which axes are E and the terminal space (0, 1, 2), final time."""

    name: str
    v: tuple[float, ...]
    b: tuple[float, ...]
    first: int
    last: int
    until: float = 14.0


CASES = (
    Case("E = e2, F = e1", (2, 1, 0.5), (1, 4, 1), 1, 0),
    Case("E = e2, F_abs = e1", (-3, -1, -0.5), (-1, -4, -1), 1, 0),
    Case("E = F = e2", (-3, 1, 0.5), (-1, 4, 1), 1, 1),
)


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of mass near the axes over time, (K, 3), of cells and particles."""

    times: Array
    grid: Array
    particles: Array

    def transition(self, which: str, axis: int) -> float:
        """When half of the mass is near the axis; nan: never."""
        return fits.crossing(self.times, getattr(self, which)[:, axis], 0.5)


def shares(case: Case, beta: float, frequency: int) -> Shares:
    """Solve and look at the axes every quarter unit of time."""
    times = np.arange(0.0, case.until + 0.1, 0.25)
    field = SelfAttention(symmetric(case.v), symmetric(case.b), beta)
    both = side_by_side.run(field, tilted, side_by_side.mesh_of(3, frequency), times)
    near = [
        np.array([side_by_side.axis_shares(mu, AXES[3]) for mu in measures])
        for measures in (both.grid, both.particles)
    ]
    return Shares(times, *near)


def shown(by_beta: dict[float, Shares]) -> Shares:
    """At SHOWN_BETA, or the largest beta where that is not among them."""
    return by_beta.get(SHOWN_BETA, by_beta[max(by_beta)])


def consensus_rates(lam: float, v: float) -> tuple[float, float]:
    """Rates of the mean and of the deviations about all particles at f."""
    return v - lam, -lam


def pair_rates(lam: float, v: float, b: float, beta: float) -> tuple[float, float, float]:
    """Rates of the sum of means, their difference, and the deviations about equal halves at +-f."""
    T = float(np.tanh(beta * b))
    return v - lam * T, T * (v - lam), -lam * T


def clusters(pair: bool) -> Array:
    """(4, 2) particles at e1, or two each at e1 and -e1."""
    signs = np.array([1.0, 1.0, -1.0, -1.0]) if pair else np.ones(4)
    return np.stack([signs, np.zeros(4)], axis=1)


def jacobian(system: ParticleSystem, points: Array, step: float = 1e-6) -> Array:
    """(n, n) derivative of the velocities along the circle by the angles, central differences."""
    n = len(points)
    angles = np.arctan2(points[:, 1], points[:, 0])

    def speeds(at: Array) -> Array:
        x = np.stack([np.cos(at), np.sin(at)], axis=1)
        along = np.stack([-np.sin(at), np.cos(at)], axis=1)
        return np.einsum("nd,nd->n", system.rhs(0.0, x), along)

    columns = [
        (speeds(angles + step * e) - speeds(angles - step * e)) / (2.0 * step) for e in np.eye(n)
    ]
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Point:
    """One place of the stability map: the largest rate of the criteria and what came out."""

    pair: bool
    lam: float
    v: float
    b: float
    criterion: float
    linearised: float
    measured: float


def stability(pair: bool, lam: float, v: float, b: float, beta: float = 1.0) -> Point:
    """Integrate four perturbed particles on the circle and compare with the criteria.

    `linearised` is the largest real part of the numerical Jacobian's eigenvalues, `measured` the
    rate at which the largest deviation grew; b across f is 0.3.
    """
    rates = pair_rates(lam, v, b, beta) if pair else consensus_rates(lam, v)
    criterion = max(rates)
    field = SelfAttention(np.diag([lam, v]), np.diag([b, 0.3]), beta)
    system, rest = ParticleSystem(Equation(field)), clusters(pair)
    linearised = float(np.linalg.eigvals(jacobian(system, rest)).real.max())
    points = rest + PERTURBATION * np.outer([1.0, 0.3, 0.7, -0.4], [0.0, 1.0])
    points /= np.linalg.norm(points, axis=1)[:, None]
    until = DECADES / max(abs(criterion), NEUTRAL)
    simulation = Simulation(system, points, tolerance=1e-3 * PERTURBATION)
    simulation.run(until=until)
    grown = np.abs(simulation.state[:, 1]).max() / np.abs(points[:, 1]).max()
    return Point(pair, lam, v, b, criterion, linearised, float(np.log(max(grown, 1e-12)) / until))


def stability_map(full: bool) -> list[Point]:
    """All places; values off each other, so that no rate vanishes by construction."""
    lams = np.linspace(-1.9, 2.1, 9 if full else 5)
    vs = np.linspace(-2.2, 1.8, 9 if full else 5)
    points = [stability(False, lam, v, 1.0) for lam, v in itertools.product(lams, vs)]
    bs = (-1.5, -0.4, 0.4, 1.5)
    return points + [stability(True, *place) for place in itertools.product(lams, vs, bs)]


def decided(points: Sequence[Point]) -> list[Point]:
    """Those whose rate is not about 0."""
    return [point for point in points if abs(point.criterion) >= NEUTRAL]


def agreement(points: Sequence[Point]) -> float:
    """Share of the places at which integration and criteria agree on stability."""
    return float(np.mean([(p.criterion < 0.0) == (p.measured < 0.0) for p in points]))


def transitions(case: Case, by_beta: dict[float, Shares]) -> dict[str, Array]:
    """(n,) transition times by beta, of cells and particles."""
    return {
        which: np.array([found.transition(which, case.last) for found in by_beta.values()])
        for which in ("grid", "particles")
    }


def tables(case: Case, by_beta: dict[float, Shares]) -> list[Table]:
    """Shares near the axes over time, and transition times by beta."""
    one = shown(by_beta)
    rows = np.column_stack([one.times, one.grid, one.particles])[::8]
    heads = [f"{which} {axis}" for which in ("cells", "tokens") for axis in ("e1", "e2", "e3")]
    title = f"{case.name}: shares within 30 degrees of the axes, beta = {SHOWN_BETA:g}"
    moves = np.column_stack([list(by_beta), *transitions(case, by_beta).values()])
    half = f"{case.name}: time at which half of the mass is near e{case.last + 1}"
    return [
        Table(title, ["t:g", *each(".2f", *heads)], rows),
        Table(half, ["beta:g", *each(".2f", "cells", "tokens")], moves),
    ]


def map_table(points: Sequence[Point]) -> Table:
    """Agreement by kind of state."""
    rows = []
    for pair, name in ((False, "consensus"), (True, "equal pair")):
        chosen = decided([p for p in points if p.pair == pair])
        stable = [abs(p.measured - p.criterion) for p in chosen if p.criterion < 0.0]
        rows.append((name, len(chosen), len(stable), agreement(chosen), max(stable)))
    columns = ["state", "places", "stable", "agree:.1%", "rate off by:.2f"]
    return Table("stability map over (lam, v, b), beta = 1", columns, rows)


def findings(case: Case, by_beta: dict[float, Shares]) -> Iterator[Finding]:
    """Where the mass is first and last, and that it moves the later the larger beta."""
    for which, times in transitions(case, by_beta).items():
        name = f"{case.name}, {which}"
        coldest = getattr(by_beta[max(by_beta)], which)
        if case.first == case.last:
            least = float(coldest[-1, case.last])
            text = f"{name}: share near e{case.last + 1} at the end {least:.2f}"
            yield Finding(text, least > 0.9)
            continue
        peak = float(coldest[:, case.first].max())
        text = (
            f"{name}: largest share near e{case.first + 1} {peak:.2f}, then near e{case.last + 1}"
        )
        text += f" {coldest[-1, case.last]:.2f}"
        yield Finding(text, peak > 0.5 and coldest[-1, case.last] > 0.5)
        later = bool((np.diff(times) > 0.0).all())
        slope = fits.slope(np.log(list(by_beta)), times)
        text = f"{name}: the later the larger beta, time = {slope:.2f} log beta + ..."
        yield Finding(text, later)


def promised(points: Sequence[Point]) -> list[Bar]:
    """The criteria are the linearisation's, and particles obey them."""
    worst = max(abs(point.linearised - point.criterion) for point in points)
    return [
        Bar.at_most("criteria to the eigenvalues of the Jacobian", worst, 1e-6),
        Bar.at_least("share of the map's places that agree", agreement(decided(points)), 1.0),
    ]


def panels(results: dict[Case, dict[float, Shares]], points: Sequence[Point]) -> Iterator[Panel]:
    """Shares over time, transition times, the map of pairs."""
    for case, by_beta in results.items():
        one = shown(by_beta)
        lines = [Curve(one.times, one.grid[:, k], "-", k, f"e{k + 1}") for k in range(3)]
        dots = [Curve(one.times, one.particles[:, k], ".", k) for k in range(3)]
        yield Panel(case.name, "t", "share; dots: particles", [*lines, *dots])
    moving = {case: by_beta for case, by_beta in results.items() if case.first != case.last}
    times_of = [
        Curve(list(by_beta), times, "o-", 2 * i + j, f"{case.name}, {which}")
        for i, (case, by_beta) in enumerate(moving.items())
        for j, (which, times) in enumerate(transitions(case, by_beta).items())
    ]
    yield Panel("transition", "beta", "t", times_of, log="x")
    for b in sorted({p.b for p in points if p.pair}):
        here = [p for p in points if p.pair and p.b == b]
        stable = [p for p in here if p.measured < 0.0]
        unstable = [p for p in here if p.measured >= 0.0]
        places = [
            Curve([p.lam for p in stable], [p.v for p in stable], "o", 2, "stays"),
            Curve([p.lam for p in unstable], [p.v for p in unstable], "x", 3, "leaves"),
        ]
        yield Panel(f"equal pair, b = {b:g}", "lam", "v", places)


def study(options: Options) -> Outcome:
    """The cases at all temperatures, and the map of stability."""
    results = {
        case: {beta: shares(case, beta, options.frequency) for beta in sorted(options.betas)}
        for case in CASES
    }
    points = stability_map(options.full)
    return Outcome(
        [*(table for one in results.items() for table in tables(*one)), map_table(points)],
        promised(points),
        [finding for one in results.items() for finding in findings(*one)],
        panels(results, points),
        columns=4,
    )


TEMPERATURES = Option.numbers("--betas", BETAS, "BETA", "inverse temperatures")
main = Command(study, TEMPERATURES, meshes=[8], full=[20])


if __name__ == "__main__":
    sys.exit(main())
