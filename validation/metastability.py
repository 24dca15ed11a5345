"""Clusters that wait: the staircase of merging, and its times exponential in beta.

For V = B = I tokens gather in clusters within a time of order 1 to 10; then the clusters wait, and
merge one pair after the other (Geshkovski, Koubbi, Polyanskiy, Rigollet, arXiv:2410.06833;
Rigollet, arXiv:2512.01868). The number of clusters and the interaction energy are staircases over
the logarithm of time.

A cluster acts as one token of its mass. Two clusters of masses w and 1-w at the angle phi approach
at the speed

    -dphi/dt = sin(phi) [ (1-w) / (1-w + w E) + w / (w + (1-w) E) ],   E = e^{beta (1 - cos phi)},

so they need about E / (beta sin^2(phi) ((1-w)/w + w/(1-w))): the lighter one does the way. (For
w = 1/2 this is `three_phases.merging_time`.) With several clusters the closest pair is faster than
all others, exponentially in beta. As beta -> infinity it alone moves, the two shares of its way
being as the squares of the masses: that limit foretells, stage by stage, which clusters wait at
which angle, and the formula above how long.

So the study may replace a cluster by one token of its mass as soon as it is narrow (`coarse`). What
is left is slow and few, and is followed until times that the tokens themselves cannot reach: they
would force steps of order 1 for ever. Attention is computed to rounding, so that is right while
waiting times stay below 1e13 or so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshes.geometry import unit
from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation
from pde.arguments import Array, non_negative, number
from pde.callbacks import Callback, EverySteps, Monitor
from pde.simulation import run_to
from validation.problems.tokens import groups, random_tokens
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

ANGLE = 0.1
"""Tokens within this angle, by a chain of neighbours, are one cluster."""
NARROW = 0.02
"""Tokens within this angle are replaced by one in a coarse run."""
TOKENS, SEED = 64, 1
CASES = ((2, 5.0), (3, 4.0), (3, 8.0), (3, 16.0), (8, 8.0))
"""(d, beta) of the staircases."""
SHARES = (0.5, 0.2, 0.05)
PAIR_BETAS = (1.0, 3.0, 5.0, 7.0)
APART = 2.0
"""Angle at which two clusters start; they count as merged at ANGLE."""
CIRCLE = np.cumsum([0.0, 0.8, 1.0, 1.1])
"""Angles of four equal clusters on the circle."""
CIRCLE_BETAS = (5.0, 8.0, 11.0, 14.0, 17.0)

Pair = tuple[float, float, float, float]
"""Share of the mass, beta, time by the formula, angle then."""


def merged(x: Array, weights: Array, angle: float = NARROW) -> tuple[Array, Array]:
    """Each cluster as one point (its direction) with its mass: (k, d), (k,)."""
    labels = groups(x, angle)
    of_cluster = (labels == np.arange(labels.max() + 1)[:, None]).astype(float)
    return unit(of_cluster @ (weights[:, None] * x)), of_cluster @ weights


def pair_time(beta: float, share: float = 0.5, start: float = APART, end: float = ANGLE) -> float:
    """Time in which clusters of the masses share, 1-share come from angle `start` to `end`.

    beta >= 0; share in (0, 1); 0 < end <= start < pi. An integral (see the module).
    Raises ValueError for arguments out of range.
    """
    from scipy.integrate import quad

    beta, share = non_negative("beta", beta), number("share", share)
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must lie in (0, 1), got {share}")
    if not 0.0 < end <= start < np.pi:
        raise ValueError(f"angles must satisfy 0 < end <= start < pi, got {end}, {start}")
    other = 1.0 - share

    def inverse_speed(phi: float) -> float:
        far = np.exp(beta * (1.0 - np.cos(phi)))
        pull = other / (other + share * far) + share / (share + other * far)
        return float(1.0 / (np.sin(phi) * pull))

    return float(quad(inverse_speed, end, start, epsabs=0.0, epsrel=1e-11, limit=200)[0])


def angle_of_pair(beta: float, share: float, time: float) -> float:
    """Angle of two weighted tokens on the circle after `time`, from APART."""
    half = 0.5 * APART
    points = np.array([[np.cos(half), np.sin(half)], [np.cos(half), -np.sin(half)]])
    equation = Equation(SelfAttention(np.eye(2), np.eye(2), beta))
    x, y = run_to(ParticleSystem(equation, [share, 1.0 - share]), points, time, tolerance=1e-10)
    return float(2.0 * np.arcsin(0.5 * np.linalg.norm(x - y)))


@dataclass(eq=False)
class StopWhenNarrow(Callback):
    """Ends a run once two tokens are within `angle`."""

    schedule: EverySteps = field(default_factory=EverySteps)
    angle: float = NARROW

    def act(self, sim: Simulation) -> None:
        """Look at the closest pair."""
        products = sim.state @ sim.state.T
        if np.max(products[np.triu_indices(len(products), 1)]) >= np.cos(self.angle):
            sim.stop("two tokens are one")


@dataclass(frozen=True, eq=False)
class Staircase:
    """Number of clusters, and energy as a share of one cluster's, over time (K,)."""

    times: Array
    clusters: Array
    energy: Array

    def reached(self, k: int) -> float:
        """The time from which on there are at most k clusters; nan: never."""
        above = np.flatnonzero(self.clusters > k)
        last = int(above[-1]) + 1 if len(above) else 0
        return float(self.times[last]) if last < len(self.times) else np.nan


def _watcher(beta: float, weights: Array, d: int) -> Monitor:
    """Collects after every step (number of clusters, energy as a share of one cluster's)."""
    attention = SelfAttention(np.eye(d), np.eye(d), beta, normalized=False)
    one = np.exp(beta) / (2.0 * beta)

    def watch(_: float, x: Array) -> tuple[float, float]:
        return float(groups(x, ANGLE).max() + 1), attention.energy(Measure(x, weights)) / one

    return Monitor(EverySteps(1), function=watch)


def full(x: Array, beta: float, until: float, tolerance: float = 1e-6) -> Staircase:
    """Follow all tokens, looking after every step; beta > 0."""
    n, d = x.shape
    system = ParticleSystem(Equation(SelfAttention(np.eye(d), np.eye(d), beta)))
    monitor = _watcher(beta, np.full(n, 1.0 / n), d)
    run = Simulation(system, x, tolerance=tolerance)
    run.run(until=until, save_at=[], callbacks=[monitor])
    return Staircase(np.array(monitor.times), *np.transpose(monitor.values))


def coarse(
    x: Array, beta: float, until: float, weights: Array | None = None, tolerance: float = 1e-6
) -> Staircase:
    """The same with narrow clusters replaced by one token each, until one is left."""
    n, d = x.shape
    weights = np.full(n, 1.0 / n) if weights is None else weights
    equation = Equation(SelfAttention(np.eye(d), np.eye(d), beta))
    times: list[float] = []
    values: list[tuple[float, float]] = []
    t = 0.0
    while t < until:
        x, weights = merged(x, weights)
        if len(x) == 1:
            times, values = [*times, t, until], [*values, (1.0, 1.0), (1.0, 1.0)]
            break
        monitor = _watcher(beta, weights, d)
        run = Simulation(ParticleSystem(equation, weights), x, t=t, tolerance=tolerance)
        run.run(until=until, save_at=[], callbacks=[monitor, StopWhenNarrow()])
        times, values = times + monitor.times, values + monitor.values
        t, x = run.t, run.state
    return Staircase(np.array(times), *np.transpose(values))


def stages(angles: Array) -> list[tuple[float, float]]:
    """(angle, share of the first one's mass) of the pairs that merge in turn as beta -> infinity.

    angles : (k,) of equal clusters on the circle. The closest neighbours merge, and meet where
    they share the way as the squares of their masses.

    >>> [(round(phi, 3), round(w, 3)) for phi, w in stages(np.array([0.0, 1.0, 2.5]))]
    [(1.0, 0.5), (2.0, 0.667)]
    """
    theta, masses = np.sort(angles), np.ones(len(angles))
    found = []
    while len(theta) > 1:
        gap = np.append(np.diff(theta), theta[0] + 2.0 * np.pi - theta[-1])
        i = int(np.argmin(gap))
        j = (i + 1) % len(theta)
        found.append((float(gap[i]), float(masses[i] / (masses[i] + masses[j]))))
        theta[i] += masses[j] ** 2 / (masses[i] ** 2 + masses[j] ** 2) * gap[i]
        masses[i] += masses[j]
        theta, masses = np.delete(theta, j), np.delete(masses, j)
        order = np.argsort(theta % (2.0 * np.pi))
        theta, masses = theta[order] % (2.0 * np.pi), masses[order]
    return found


def circle_times(beta: float, until: float = 1e14) -> list[float]:
    """Times at which four equal clusters on the circle become three, two, one."""
    x = np.stack([np.cos(CIRCLE), np.sin(CIRCLE)], axis=1)
    stairs = coarse(x, beta, until, tolerance=1e-7)
    return [stairs.reached(k) for k in (3, 2, 1)]


def foretold_times(beta: float) -> Array:
    """(3,) the same from the limit's stages, each as long as its pair alone would need."""
    return np.cumsum([pair_time(beta, share, phi) for phi, share in stages(CIRCLE)])


@dataclass(frozen=True, eq=False)
class Case:
    """All tokens, and the coarse run, from one start."""

    d: int
    beta: float
    tokens: Staircase
    clusters: Staircase

    def agreement(self, largest: int = 12, earliest: float = 10.0) -> float:
        """Largest relative difference of the times at which at most k clusters are left.

        For all k <= `largest` that the tokens reach after `earliest`; nan: there is none.
        """
        pairs = [(self.tokens.reached(k), self.clusters.reached(k)) for k in range(1, largest + 1)]
        found = [abs(b / a - 1.0) for a, b in pairs if a > earliest]
        return max(found) if found else np.nan


def case(d: int, beta: float, until: float) -> Case:
    """Random tokens; the coarse run goes on for a thousand times as long."""
    x = random_tokens(TOKENS, d, SEED)
    return Case(d, beta, full(x, beta, until), coarse(x, beta, 1e3 * until))


def tables(cases: Sequence[Case], pairs: Sequence[Pair], times: Array) -> list[Table]:
    """When at most k clusters are left; two clusters; four clusters on the circle."""
    left = (6, 5, 4, 3, 2, 1)
    stairs = [
        (one.d, one.beta, name, *(run.reached(k) for k in left))
        for one in cases
        for name, run in (("tokens", one.tokens), ("clusters", one.clusters))
    ]
    columns = ["d", "beta:g", "followed"]
    columns += each(".4g", *(f"at most {k}" for k in left))
    both = np.stack([times, [foretold_times(beta) for beta in CIRCLE_BETAS]], axis=2)
    heads = [head for k in (3, 2, 1) for head in (f"to {k}", "foretold")]
    angles = ", ".join(f"{phi:.3f}" for phi, _ in stages(CIRCLE))
    return [
        Table(
            f"{TOKENS} random tokens: time from which on at most k clusters are left",
            columns,
            stairs,
        ),
        Table(
            f"two clusters of masses w and 1-w from the angle {APART:g} to {ANGLE:g}",
            [*each("g", "w", "beta"), "time, formula:.5g", "angle then:.6f"],
            pairs,
        ),
        Table(
            f"four equal clusters on the circle, merging times; the limit's angles {angles}",
            ["beta:g", *each(".4g", *heads)],
            np.column_stack([CIRCLE_BETAS, both.reshape(len(times), -1)]),
        ),
    ]


def findings(cases: Sequence[Case], times: Array) -> Iterator[Finding]:
    """Waiting is what takes the time; the staircase on the circle is as foretold."""
    errors = [
        float(np.abs(row / foretold_times(beta) - 1.0).max())
        for beta, row in zip(CIRCLE_BETAS, times, strict=True)
    ]
    words = ", ".join(f"{error:.1%}" for error in errors)
    text = f"four clusters, times off the foretold ones: {words} for growing beta"
    yield Finding(text, (np.diff(errors) < 0.0).all() and errors[-1] < 0.05)
    for one in cases:
        stairs = np.array([one.clusters.reached(k) for k in range(6, 0, -1)])
        known = stairs[~np.isnan(stairs)]
        words = ", ".join(f"{t:.3g}" for t in known)
        if len(known) < len(stairs):
            words += f" and none more until {one.clusters.times[-1]:.3g}"
            known = np.append(known, one.clusters.times[-1])
        text = f"d = {one.d}, beta = {one.beta:g}: at most 6, 5, ... clusters at t = {words}"
        yield Finding(text, (known[1:] / known[:-1]).max(initial=1.0) > 3.0)


def promised(cases: Sequence[Case], pairs: Sequence[Pair]) -> Iterator[Bar]:
    """Two clusters by the formula; energy climbs; coarse runs agree with the tokens."""
    worst = max(abs(angle / ANGLE - 1.0) for _, _, _, angle in pairs)
    yield Bar.at_most("two clusters: angle at the formula's time, error", worst, 1e-4)
    climb = min(float(np.diff(one.tokens.energy).min()) for one in cases)
    yield Bar.at_least("energy: least step, share of one cluster's", climb, -1e-6)
    for one in cases:
        what = f"d = {one.d}, beta = {one.beta:g}: times of clusters against tokens"
        yield Bar.at_most(what, one.agreement(), 0.02)


def stairs_panels(cases: Sequence[Case]) -> Iterator[Panel]:
    """Numbers of clusters and energy over time: lines coarse runs, dots all tokens."""
    for title, ylabel, values, log in (
        ("dots: all tokens, lines: coarse", "clusters", lambda run: run.clusters, "xy"),
        ("interaction energy", "share of one cluster's", lambda run: run.energy, "x"),
    ):
        curves = []
        for i, one in enumerate(cases):
            stairs, whole = one.clusters, one.tokens
            shown = np.unique(np.geomspace(1, len(whole.times), 40).astype(int)) - 1
            label = f"d = {one.d}, $\\beta$ = {one.beta:g}"
            curves.append(Curve(stairs.times + 0.1, values(stairs), "-", i, label))
            curves.append(Curve(whole.times[shown] + 0.1, values(whole)[shown], "o", i))
        yield Panel(title, "t", ylabel, curves, log=log)


def panels(cases: Sequence[Case], pairs: Sequence[Pair], times: Array) -> Iterator[Panel]:
    """Staircases and merging times."""
    yield from stairs_panels(cases)
    fine, merging = np.linspace(0.0, 8.0, 60), []
    for i, share in enumerate(SHARES):
        formula = [pair_time(beta, share) for beta in fine]
        own = [(beta, time) for w, beta, time, _ in pairs if w == share]
        merging.append(Curve(fine, formula, "-", i, f"masses {share:g} : {1 - share:g}"))
        merging.append(Curve.through(own, "o", i))
    yield Panel(f"two clusters, from angle {APART:g}", "beta", "time", merging, log="y")
    betas, four = np.linspace(CIRCLE_BETAS[0], CIRCLE_BETAS[-1], 40), []
    lines = np.array([foretold_times(beta) for beta in betas])
    for k, (phi, _) in enumerate(stages(CIRCLE)):
        four.append(Curve(betas, lines[:, k], "-", k))
        four.append(Curve(CIRCLE_BETAS, times[:, k], "o", k, f"to {3 - k}: pair at {phi:.2f}"))
    title = "four clusters on the circle, lines: foretold"
    yield Panel(title, "beta", "time", four, log="y")


def study(options: Options) -> Outcome:
    """Staircases, pairs, four clusters on the circle."""
    until = 3000.0 if options.full else 300.0
    cases = [case(d, beta, until) for d, beta in CASES]
    pairs = []
    for share in SHARES:
        for beta in PAIR_BETAS:
            time = pair_time(beta, share)
            pairs.append((share, beta, time, angle_of_pair(beta, share, time)))
    times = np.array([circle_times(beta) for beta in CIRCLE_BETAS])
    return Outcome(
        tables(cases, pairs, times),
        promised(cases, pairs),
        findings(cases, times),
        panels(cases, pairs, times),
        columns=2,
    )


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
