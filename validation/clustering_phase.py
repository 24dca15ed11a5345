"""When random tokens cluster: a map of temperature and time for several dimensions.

n tokens drawn uniformly from the sphere of R^d follow SA with V = B = I. For almost every start
they end in one cluster (Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794, for d >= 3;
on the circle for beta <= 1). How far they are at time t is the share of pairs with a product of at
least 0.999. For large beta a plateau lies before the end: several clusters that wait for a time
exponential in beta.

In high dimension random tokens are nearly orthogonal and all products stay near the one of
orthogonal tokens, g(t) of `exact.equiangular`: their largest difference falls like d^{-1/2}. So
the transition in the (beta, t) plane approaches the curve on which g reaches 0.999.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation
from pde.arguments import Array
from validation import exact, fits
from validation.exact.equiangular_tokens import REACHED, gaps, time_to
from validation.problems.tokens import random_tokens
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each
from validation.study.options import Option
from validation.study.panels import Image

TOKENS = 32
UNTIL = 300.0
TOLERANCE = 1e-6
"""Of a particle's step: plenty for pairs that count as one when 0.045 apart."""
DIMENSIONS = (2, 3, 8, 32, 128, 8192)
CONCENTRATION = (128, 1024, 8192, 65536)
"""Dimensions in which the distance to the equiangular product is measured."""
NEAR = 3
"""Seeds of that measurement."""


def course(x: Array, beta: float, times: Array, tolerance: float = TOLERANCE) -> list[Array]:
    """Tokens (n, d) at the times (K,) of SA with V = B = I."""
    d = x.shape[1]
    system = ParticleSystem(Equation(SelfAttention(np.eye(d), np.eye(d), beta)))
    run = Simulation(system, x, tolerance=tolerance)
    return list(run.run(until=float(times[-1]), save_at=times).states)


def clustered(x: Array) -> float:
    """Share of pairs with a product of at least REACHED."""
    return float(np.mean(gaps(x) <= 1.0 - REACHED))


@dataclass(frozen=True, eq=False)
class Map:
    """Shares of clustered pairs (B, K) over betas (B,) and times (K,) in one dimension.

    median : (B, K) log of the median over pairs of 1 - product, in the mean over draws
    climb : least relative step of the interaction energy in time; it never falls
    """

    d: int
    betas: Array
    times: Array
    share: Array
    median: Array
    climb: float

    def half(self) -> Array:
        """(B,) times at which half of the pairs are clustered; nan: not until the end."""
        level = -np.log(1.0 - REACHED)
        return np.array([fits.crossing(self.times, -row, level) for row in self.median])

    def delay(self, largest: float) -> float:
        """Mean of |log (half time / time of orthogonal tokens)| for beta <= `largest`."""
        used = self.betas <= largest
        expected = np.array([time_to(REACHED, TOKENS, beta) for beta in self.betas[used]])
        return float(np.abs(np.log(self.half()[used] / expected)).mean())


def phase_map(d: int, betas: Array, times: Array, seeds: int) -> Map:
    """The mean over `seeds` draws of tokens."""
    share, median = np.zeros((2, len(betas), len(times)))
    climb = np.inf
    for seed in range(seeds):
        x = random_tokens(TOKENS, d, seed)
        for i, beta in enumerate(betas):
            states = course(x, beta, times)
            share[i] += [clustered(y) / seeds for y in states]
            # Rounding leaves tokens of one cluster nothing apart.
            apart = [max(float(np.median(gaps(y))), 1e-30) for y in states]
            median[i] += np.log(apart) / seeds
            climb = min(climb, least_climb(states, beta))
    return Map(d, betas, times, share, median, climb)


def least_climb(states: Sequence[Array], beta: float) -> float:
    """Least relative change of the energy from one state to the next; inf for beta = 0."""
    if beta == 0.0:
        return np.inf
    eye = np.eye(states[0].shape[1])
    field = SelfAttention(eye, eye, beta, normalized=False)
    energy = np.array([field.energy(Measure(y)) for y in states])
    return float(np.min(np.diff(energy) / energy[:-1]))


def distance_to_equiangular(d: int, beta: float, seeds: int = NEAR) -> float:
    """Largest |<x_i, x_j> - g(t)| while g goes from 0 to REACHED, in the mean over draws."""
    times = np.linspace(0.0, time_to(REACHED, TOKENS, beta), 40)
    g = exact.equiangular(TOKENS, beta, 0.0, times)
    worst = []
    for seed in range(seeds):
        states = course(random_tokens(TOKENS, d, seed), beta, times, tolerance=1e-8)
        worst.append(max(np.abs(1.0 - gaps(x) - p).max() for x, p in zip(states, g, strict=True)))
    return float(np.mean(worst))


def tables(maps: Sequence[Map], near: Sequence[tuple[int, float]]) -> list[Table]:
    """Times at which half of the pairs are clustered; distance to the equiangular product."""
    orthogonal = [time_to(REACHED, TOKENS, beta) for beta in maps[0].betas]
    times = np.column_stack([maps[0].betas, *(one.half() for one in maps), orthogonal])
    heads = [*(f"d = {one.d}" for one in maps), "orthogonal"]
    half = f"{TOKENS} random tokens: time at which half of the pairs have a product >= {REACHED}"
    distances = [(d, value, value * np.sqrt(d)) for d, value in near]
    columns = ["d", "difference:.4f", "times sqrt(d):.2f"]
    return [
        Table(half, ["beta:g", *each(".2f", *heads)], times),
        Table("largest difference of a product to g(t), beta = 2", columns, distances),
    ]


def findings(maps: Sequence[Map], near: Sequence[tuple[int, float]]) -> Iterator[Finding]:
    """The curve of orthogonal tokens is approached; waiting on the way."""
    delays = [one.delay(2.0) for one in maps]
    words = ", ".join(f"{x:.3f} (d = {one.d})" for x, one in zip(delays, maps, strict=True))
    text = f"|log(time / orthogonal time)|, mean over beta <= 2: {words}"
    falling = fits.slope(np.log([one.d for one in maps]), np.log(delays)) < -0.3
    yield Finding(text, falling and delays[-1] < 0.01)
    d, value = np.transpose(near)
    slope = fits.slope(np.log(d), np.log(value))
    text = f"difference of the products to g(t) ~ d^{slope:.2f}, expected -1/2"
    yield Finding(text, abs(slope + 0.5) < 0.1)
    low = maps[0]
    waiting = (low.share[-1] > 0.1) & (low.share[-1] < 0.9)
    text = f"d = {low.d}, beta = {low.betas[-1]:g}: in several clusters at t = {low.times[-1]:g}"
    yield Finding(f"{text} ({low.share[-1, -1]:.0%} of pairs)", waiting[-1])


def promised(maps: Sequence[Map]) -> list[Bar]:
    """One cluster in the end for beta <= 1; energy never falls."""
    last = min(one.share[one.betas <= 1.0, -1].min() for one in maps)
    return [
        Bar.at_least("beta <= 1: pairs clustered in the end", last, 1.0),
        Bar.at_least("energy: least relative step in time", min(m.climb for m in maps), -1e-5),
    ]


def panels(maps: Sequence[Map]) -> list[Panel]:
    """Maps with the curve of orthogonal tokens on top."""
    fine = np.linspace(0.0, maps[0].betas[-1], 100)
    times = [time_to(REACHED, TOKENS, beta) for beta in fine]
    bar = f"share of pairs with a product >= {REACHED}"
    found = []
    for one in maps:
        label = "orthogonal tokens: g = 0.999" if one is maps[0] else ""
        share = Image(one.betas, one.times, one.share.T, bar, (0.0, 1.0))
        content: list[Curve | Image] = [share, Curve(fine, times, "-", "r", label)]
        limits = one.times[0], one.times[-1]
        found.append(Panel(f"d = {one.d}", "beta", "t", content, log="y", ylim=limits))
    return found


def study(options: Options) -> Outcome:
    """The maps, and how near tokens in high dimension come to orthogonal ones."""
    betas = np.linspace(0.0, 9.0, 19 if options.full else 10)
    times = np.geomspace(1.0, UNTIL, 101)
    maps = [phase_map(d, betas, times, 2 if options.full else 1) for d in options.dimensions]
    near = [(d, distance_to_equiangular(d, 2.0)) for d in CONCENTRATION]
    return Outcome(tables(maps, near), promised(maps), findings(maps, near), panels(maps))


D = Option.numbers("--dimensions", DIMENSIONS, "D", "of the maps")
main = Command(study, D)


if __name__ == "__main__":
    sys.exit(main())
