"""When random tokens cluster: a map of temperature and time for several dimensions.

n tokens drawn uniformly from the sphere of R^d follow SA with V = B = I. For almost every start
they end in one cluster (Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794, for d >= 3;
on the circle for beta <= 1). How far they are at time t is the share of pairs with a product of at
least 0.999. For large beta a plateau lies before the end: several clusters that wait for a time
exponential in beta.

In high dimension random tokens are nearly orthogonal and all products stay near the one of
orthogonal tokens, g(t) of `equiangular_tokens`: their largest difference falls like d^{-1/2}. So
the transition in the (beta, t) plane approaches the curve on which g reaches 0.999.

Tokens never leave the space that they span, and the equation does not see a rotation: n tokens in
R^d, d > n, are run as n tokens in R^n, whatever d is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meshes.geometry import unit
from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation, initial
from pde.arguments import Array
from validation import bars, command_line, convergence, exact, side_by_side
from validation.equiangular_tokens import REACHED, gaps, time_to

TOKENS = 32
UNTIL = 300.0
TOLERANCE = 1e-6
"""Of a particle's step: plenty for pairs that count as one when 0.045 apart."""
DIMENSIONS = (2, 3, 8, 32, 128, 8192)
CONCENTRATION = (128, 1024, 8192, 65536)
"""Dimensions in which the distance to the equiangular product is measured."""
NEAR = 3
"""Seeds of that measurement."""


def in_their_span(x: Array) -> Array:
    """(n, min(n, d)) coordinates of n tokens in R^d in an orthonormal basis of their span.

    >>> x = unit(np.random.default_rng(0).standard_normal((3, 50)))
    >>> y = in_their_span(x)
    >>> y.shape, bool(np.allclose(y @ y.T, x @ x.T))
    ((3, 3), True)
    """
    if len(x) >= x.shape[1]:
        return x
    return unit(np.ascontiguousarray(np.linalg.qr(x.T)[1].T))


def random_tokens(n: int, d: int, seed: int) -> Array:
    """n independent uniform tokens in R^d, d >= 2, in the coordinates of their span."""
    if n < 2 or d < 2:
        raise ValueError(f"n and d must be at least 2, got n = {n}, d = {d}")
    return in_their_span(initial.sample(initial.uniform(d), n, seed))


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
        return np.array([side_by_side.crossing(self.times, -row, level) for row in self.median])

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


def half_table(maps: Sequence[Map]) -> str:
    """Times at which half of the pairs are clustered."""
    rows = [
        [
            f"{beta:g}",
            *side_by_side.numbers([one.half()[i] for one in maps], ".2f"),
            f"{time_to(REACHED, TOKENS, beta):.2f}",
        ]
        for i, beta in enumerate(maps[0].betas)
    ]
    header = ["beta", *(f"d = {one.d}" for one in maps), "orthogonal"]
    title = f"{TOKENS} random tokens: time at which half of the pairs have a product >= {REACHED}"
    return f"{title}\n{convergence.table(header, rows)}"


def distance_table(near: Sequence[tuple[int, float]]) -> str:
    """Distance to the equiangular product."""
    rows = [[str(d), f"{value:.4f}", f"{value * np.sqrt(d):.2f}"] for d, value in near]
    title = "largest difference of a product to g(t), beta = 2"
    return f"{title}\n{convergence.table(['d', 'difference', 'times sqrt(d)'], rows)}"


def findings(maps: Sequence[Map], near: Sequence[tuple[int, float]]) -> list[side_by_side.Finding]:
    """The curve of orthogonal tokens is approached; waiting on the way."""
    delays = [one.delay(2.0) for one in maps]
    words = ", ".join(f"{x:.3f} (d = {one.d})" for x, one in zip(delays, maps, strict=True))
    text = f"|log(time / orthogonal time)|, mean over beta <= 2: {words}"
    falling = side_by_side.slope(np.log([one.d for one in maps]), np.log(delays)) < -0.3
    found = [side_by_side.Finding(text, falling and delays[-1] < 0.01)]
    d, value = np.transpose(near)
    slope = side_by_side.slope(np.log(d), np.log(value))
    text = f"difference of the products to g(t) ~ d^{slope:.2f}, expected -1/2"
    found.append(side_by_side.Finding(text, abs(slope + 0.5) < 0.1))
    low = maps[0]
    waiting = (low.share[-1] > 0.1) & (low.share[-1] < 0.9)
    text = f"d = {low.d}, beta = {low.betas[-1]:g}: in several clusters at t = {low.times[-1]:g}"
    found.append(side_by_side.Finding(f"{text} ({low.share[-1, -1]:.0%} of pairs)", waiting[-1]))
    return found


def promised(maps: Sequence[Map]) -> list[bars.Bar]:
    """One cluster in the end for beta <= 1; energy never falls."""
    last = min(one.share[one.betas <= 1.0, -1].min() for one in maps)
    return [
        bars.at_least("beta <= 1: pairs clustered in the end", last, 1.0),
        bars.at_least("energy: least relative step in time", min(m.climb for m in maps), -1e-5),
    ]


def picture(maps: Sequence[Map], path: Path) -> None:
    """Maps with the curve of orthogonal tokens on top."""
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(maps) // columns)
    figure = Figure(figsize=(4.0 * columns + 1.0, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    fine = np.linspace(0.0, maps[0].betas[-1], 100)
    curve = [time_to(REACHED, TOKENS, beta) for beta in fine]
    for place, one in zip(axes.flat, maps, strict=False):
        image = place.pcolormesh(
            one.betas, one.times, one.share.T, vmin=0.0, vmax=1.0, shading="nearest"
        )
        (line,) = place.plot(fine, curve, "r-", lw=1.8, label="orthogonal tokens: g = 0.999")
        place.set(yscale="log", title=f"d = {one.d}", ylim=(one.times[0], one.times[-1]))
    for place in axes[:, 0]:
        place.set_ylabel("t")
    for place in axes[-1]:
        place.set_xlabel("beta")
    axes[0, 0].legend(handles=[line], fontsize="small", loc="lower right")
    figure.colorbar(image, ax=axes, label=f"share of pairs with a product >= {REACHED}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where what is proven holds."""
    parser = command_line.study("clustering_phase", __doc__)
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, metavar="D")
    arguments = parser.parse_args(argv)
    betas = np.linspace(0.0, 9.0, 19 if arguments.full else 10)
    times = np.geomspace(1.0, UNTIL, 101)
    seeds = 2 if arguments.full else 1
    maps = [phase_map(d, betas, times, seeds) for d in arguments.dimensions]
    near = [(d, distance_to_equiangular(d, 2.0)) for d in CONCENTRATION]
    if arguments.out is not None:
        picture(maps, arguments.out / "clustering_phase.png")
    tables = [half_table(maps), distance_table(near)]
    tables.append("\n".join(map(str, findings(maps, near))))
    return bars.conclude(tables, promised(maps), arguments.out, "clustering_phase")


if __name__ == "__main__":
    sys.exit(main())
