"""Normalisation schemes: the same attention contracts tokens exponentially, or like t^{-2}.

Claim (Rigollet, arXiv:2512.01868; Karagodin, Ge, Polyanskiy, Rigollet, arXiv:2510.22026): schemes
of normalisation are speeds 1/s_j of one dynamics. With V = I and tokens near consensus
1 - <theta_i, theta_j> falls like e^{-2 int dt/s} (derived in `pde.tokens.normalisation`): like
e^{-2t} for Post-LN, e^{-2 alpha t} for nGPT, e^{-4 sqrt(t+1)} for sqrt-scaling, t^{-2} for Pre- and
Peri-LN, and first the one, then the other for Mix-LN.

Reduction. For V = B = I and n = N + 1 tokens with one product g for all pairs, token j attends to
itself with the weight w e^{beta (1-g)} and to every other one with w = 1/(e^{beta (1-g)} + N), so

    <theta_j, A_j> = 1 - N w (1-g),
    |A_j|^2 = 1 - (1-g) N w^2 (2 e^{beta (1-g)} + N - 1),
    d/dt log(1-g) = -(2/s) w (1 + N g),

and s, dr/dt as the scheme has them: two equations, solved here to 1e-11 in log(1-g), which keeps
1-g exact near consensus. Orthogonal tokens with r = 1 start at dg/dt = 2/(s (e^beta + N)), that is
2/(e^beta + N) for Post- and Pre-LN, and 2/sqrt(e^{2 beta} + N) for Peri-LN and, times alpha, nGPT:
to divide by |A| pays where attention averages over many.

The study runs particles on such tokens against the reduction, and general tokens (any B) against
the laws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from pde import SelfAttention, Simulation
from pde.arguments import Array, non_negative
from pde.tokens.normalisation import NormalisedTokens
from validation import fits
from validation.exact.equiangular_tokens import check_product, gaps, tokens
from validation.study import Bar, Command, Curve, Options, Outcome, Panel, Table, each

TOKENS, FULL_TOKENS = 32, 128
"""Number of the equiangular tokens by default, with --full."""
BETA = 1.0
TAU = 6.0
"""When Mix-LN changes."""
ALPHA = 0.5
"""nGPT's alpha."""
TOLERANCE = 1e-10
"""Of a step: 1-g is to be right in relative terms while it falls by six orders."""


@dataclass(frozen=True, eq=False)
class Law:
    """log(1-g) falls by `rate` per unit of `clock(t)` for times in `window`.

    options : of the scheme; text : the law in words
    """

    scheme: str
    text: str
    rate: float
    clock: Callable[[Array], Array]
    window: tuple[float, float]
    options: Mapping[str, Any] = field(default_factory=dict)


LAWS = (
    Law("post_ln", "e^(-2 t)", 2.0, lambda t: t, (5.0, 8.0)),
    Law("ngpt", "e^(-2 alpha t)", 2.0 * ALPHA, lambda t: t, (9.0, 15.0), {"alpha": ALPHA}),
    Law("sqrt", "e^(-4 sqrt(t+1))", 4.0, lambda t: np.sqrt(t + 1.0), (12.0, 24.0)),
    Law("mix_ln", "e^(-2 t)", 2.0, lambda t: t, (5.0, TAU), {"tau": TAU}),
    Law(
        "mix_ln",
        "(1+t-tau)^-2",
        2.0,
        lambda t: np.log(1.0 + t - TAU),
        (300.0, 1000.0),
        {"tau": TAU},
    ),
    Law("pre_ln", "t^-2", 2.0, np.log, (300.0, 1000.0)),
    Law("peri_ln", "t^-2", 2.0, np.log, (300.0, 1000.0)),
)


def reduction(
    scheme: str, n: int, beta: float, product: float, times: Any, **options: float
) -> tuple[Array, Array]:
    """(1-g, r) over time, (k,) each, of n equiangular tokens under a scheme, V = B = I, r(0) = 1.

    times : (k,) increasing, >= 0; options : alpha (a number) or tau of the scheme

    >>> gap, r = reduction("pre_ln", 2, 0.0, 0.0, [0.0, 3.0])
    >>> (gap * r**2).round(9)  # for beta = 0 every token adds the same, differences are kept
    array([1., 1.])
    """
    product, beta = check_product(n, product), non_negative("beta", beta)
    system = NormalisedTokens(SelfAttention(np.eye(2), np.eye(2), beta), scheme, **options)
    times, N = np.asarray(times, dtype=float), n - 1

    def slope(t: float, y: Array) -> list[float]:
        gap, r = float(np.exp(y[0])), float(y[1])
        own = float(np.exp(beta * gap))
        w = 1.0 / (own + N)
        radial = 1.0 - N * w * gap
        length = float(np.sqrt(1.0 - gap * N * w**2 * (2.0 * own + N - 1.0)))
        grows = not system.normalises(t)
        s = {
            "sqrt": np.sqrt(t + 1.0),
            "ngpt": length / system.alpha_at(t),
            "peri_ln": r * length,
            "pre_ln": r,
            "mix_ln": r if grows else 1.0,
        }.get(scheme, 1.0)
        growth = radial / length if scheme == "peri_ln" else radial
        return [-2.0 * w * (1.0 + N * (1.0 - gap)) / s, growth if grows else 0.0]

    start = np.array([np.log1p(-product), 1.0])
    solved = _solve(slope, start, times, [system.tau] if scheme == "mix_ln" else [])
    return np.exp(solved[0]), solved[1]


def _solve(
    slope: Callable[[float, Array], list[float]], start: Array, times: Array, breaks: list[float]
) -> Array:
    """(2, k) solution at `times`, solved apart between the times where the equation changes."""
    from scipy.integrate import solve_ivp

    ends = [0.0, *(b for b in breaks if 0.0 < b < times[-1]), float(times[-1])]
    found = np.empty((len(start), len(times)))
    for begin, end in pairwise(ends):
        inside = (times >= begin) & (times <= end)

        # The equation of this piece holds up to its end, where the next one begins.
        def piece(t: float, y: Array, last: float = np.nextafter(end, begin)) -> list[float]:
            return slope(min(t, last), y)

        solved = solve_ivp(
            piece, (begin, end), start, "DOP853", dense_output=True, rtol=1e-12, atol=1e-12
        )
        if inside.any():
            found[:, inside] = solved.sol(times[inside])
        start = solved.y[:, -1]
    return found


@dataclass(frozen=True, eq=False)
class Course:
    """Tokens over time: the largest gap 1 - <theta_i, theta_j> and the mean of r_j, (K,)."""

    times: Array
    gap: Array
    radius: Array

    def rate(self, law: Law) -> float:
        """The fall of log(1-g) per unit of the law's clock, in its window."""
        inside = (self.times >= law.window[0]) & (self.times <= law.window[1])
        return -fits.slope(law.clock(self.times[inside]), np.log(self.gap[inside]))


def run(system: NormalisedTokens, x: Array, times: Array) -> Course:
    """The tokens x (n, d) from t = times[0] on, seen at `times`."""
    simulation = Simulation(system, x, tolerance=TOLERANCE)
    states = simulation.run(until=float(times[-1]), save_at=times).states
    gap = [gaps(system.directions(state)).max() for state in states]
    radius = [system.radii(state).mean() for state in states]
    return Course(times, np.array(gap), np.array(radius))


def times_of(laws: Sequence[Law]) -> Array:
    """Times that show the start and resolve the windows of one scheme's laws; tau is one."""
    last = max(law.window[1] for law in laws)
    windows = [np.linspace(*law.window, 9) for law in laws]
    return np.unique(np.concatenate([[0.0], np.geomspace(0.05, last, 40), *windows]))


def equiangular_course(laws: Sequence[Law], n: int, beta: float) -> tuple[Course, Course]:
    """(particles, reduction) from n orthogonal tokens under the scheme of the laws."""
    scheme, options, times = laws[0].scheme, laws[0].options, times_of(laws)
    system = NormalisedTokens(SelfAttention(np.eye(n), np.eye(n), beta), scheme, **options)
    particles = run(system, tokens(n, 0.0), times)
    return particles, Course(times, *reduction(scheme, n, beta, 0.0, times, **options))


def general_course(laws: Sequence[Law], beta: float, n: int = 12, d: int = 3) -> Course:
    """n tokens in a cap about one point, V = I, B a random matrix; radii from 0.5 to 2."""
    rng = np.random.default_rng(7)
    x = np.eye(d)[0] + 0.5 * rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    field_of_all = SelfAttention(np.eye(d), rng.standard_normal((d, d)), beta)
    system = NormalisedTokens(field_of_all, laws[0].scheme, **laws[0].options)
    if laws[0].scheme in ("pre_ln", "peri_ln"):
        x = x * np.linspace(0.5, 2.0, n)[:, None]
    return run(system, x, times_of(laws))


def first_speed(scheme: str, n: int, beta: float, **options: float) -> tuple[float, float]:
    """(particles, formula) dg/dt of n orthogonal tokens with r = 1."""
    system = NormalisedTokens(SelfAttention(np.eye(n), np.eye(n), beta), scheme, **options)
    v, N = system.rhs(0.0, np.eye(n)), n - 1
    averaged = scheme in ("peri_ln", "ngpt")
    slow = np.sqrt(np.exp(2.0 * beta) + N) if averaged else np.exp(beta) + N
    return float(v[0, 1] + v[1, 0]), float(2.0 * options.get("alpha", 1.0) / slow)


@dataclass(frozen=True, eq=False)
class Measured:
    """One law: rates of the particles, of the reduction and of general tokens.

    apart : largest relative difference of 1-g between particles and reduction
    """

    law: Law
    particles: float
    exact: float
    general: float
    apart: float


def by_scheme() -> dict[str, list[Law]]:
    """The laws of each scheme."""
    schemes: dict[str, list[Law]] = {}
    for law in LAWS:
        schemes.setdefault(law.scheme, []).append(law)
    return schemes


def tables(
    rows: Sequence[Measured], speeds: Mapping[str, tuple[float, float]], n: int
) -> list[Table]:
    """The laws with what was measured; first speeds of orthogonal tokens."""
    laws = []
    for row in rows:
        law, window = row.law, f"{row.law.window[0]:g} - {row.law.window[1]:g}"
        measured = row.particles, row.exact, row.general, row.apart
        laws.append((law.scheme, law.text, window, law.rate, *measured))
    columns = ["scheme", "1 - g", "window", "rate:g"]
    columns += [*each(".4f", "tokens", "reduction", "any B"), "1-g apart:.1e"]
    title = (
        f"V = B = I, {n} orthogonal tokens, beta = {BETA:g}; alpha = {ALPHA:g}, tau = {TAU:g};\n"
        "rate: fall of log(1-g) per unit of t, sqrt(t+1), log t or log(1+t-tau)"
    )
    first = [(scheme, *pair) for scheme, pair in speeds.items()]
    words = f"first speed dg/dt of {n} orthogonal tokens, beta = {BETA:g}"
    return [
        Table(title, columns, laws),
        Table(words, ["scheme", *each(".6f", "tokens", "formula")], first),
    ]


def promised(rows: Sequence[Measured], speeds: Mapping[str, tuple[float, float]]) -> list[Bar]:
    """Particles follow the reduction; both, and general tokens, contract by the laws."""
    found = []
    for row in rows:
        name = f"{row.law.scheme}, {row.law.text}"
        found.append(Bar.at_most(f"{name}: 1-g, tokens to reduction", row.apart, 1e-6))
        error = abs(row.particles - row.exact)
        found.append(Bar.at_most(f"{name}: rate, tokens to reduction", error, 1e-5))
        # At finite times the reduction itself is off by O(1/t), or by O(1-g).
        error = abs(row.particles / row.law.rate - 1.0)
        found.append(Bar.at_most(f"{name}: rate, tokens to law", error, 0.02))
        error = abs(row.general / row.law.rate - 1.0)
        found.append(Bar.at_most(f"{name}: rate, any B, to law", error, 0.02))
    worst = max(abs(measured / formula - 1.0) for measured, formula in speeds.values())
    return [*found, Bar.at_most("first speeds to the formula", worst, 1e-12)]


def panels(courses: Mapping[str, tuple[Course, Course]], n: int) -> Iterator[Panel]:
    """1-g over time on two scales, and the first speeds over beta."""
    title, limits = "dots: tokens, lines: reduction", (1e-9, 2.0)
    for last, log in ((20.0, "y"), (np.inf, "xy")):
        curves = []
        for i, (scheme, (particles, exact)) in enumerate(courses.items()):
            seen = (exact.times <= last) & (exact.times > 0.0)
            curves.append(Curve(exact.times[seen], exact.gap[seen], "-", i))
            curves.append(Curve(particles.times[seen], particles.gap[seen], "o", i, scheme))
        if last == np.inf:
            t = np.array([30.0, 1000.0])
            curves.append(Curve(t, 3.0 * t**-2.0, "--", 7, "t^-2"))
        yield Panel(title, "t", "1 - g", curves, log=log, ylim=limits)
    betas, speeds = np.linspace(0.0, 6.0, 13), []
    for i, scheme in enumerate(courses):
        # The others start at the speed of Post-LN.
        if scheme in ("post_ln", "ngpt", "peri_ln"):
            options = {"alpha": ALPHA} if scheme == "ngpt" else {}
            pairs = np.array([first_speed(scheme, n, beta, **options) for beta in betas])
            label = "post_ln, pre_ln, mix_ln, sqrt" if scheme == "post_ln" else scheme
            speeds += [Curve(betas, pairs[:, 1], "-", i), Curve(betas, pairs[:, 0], "o", i, label)]
    yield Panel("first speed from g = 0", "beta", "dg/dt", speeds, log="y")


def study(options: Options) -> Outcome:
    """Every scheme's laws."""
    n, beta = FULL_TOKENS if options.full else TOKENS, BETA
    rows, courses, speeds = [], {}, {}
    for scheme, laws in by_scheme().items():
        particles, exact = courses[scheme] = equiangular_course(laws, n, beta)
        general = general_course(laws, beta)
        apart = float(np.abs(particles.gap / exact.gap - 1.0).max())
        rows += [
            Measured(law, particles.rate(law), exact.rate(law), general.rate(law), apart)
            for law in laws
        ]
        speeds[scheme] = first_speed(scheme, n, beta, **laws[0].options)
    return Outcome(tables(rows, speeds, n), promised(rows, speeds), panels=panels(courses, n))


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
