"""Tokens with one product for all pairs: the particle system against its exact reduction.

Claim (Rigollet, arXiv:2512.01868; Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794):
for V = B = I, n tokens on the sphere of any R^d whose pairwise products all equal g keep that
symmetry, and with N = n - 1

    dg/dt = 2 (1-g) (N g + 1) / (e^{beta (1-g)} + N)    (SA)
    dg/dt = (2/n) e^{beta g} (1-g) (N g + 1)            (USA)

Orthogonal tokens (g = 0) are the model of random tokens in high dimension. Near the end 1-g decays
at the rate 2 (SA) or 2 e^beta (USA). Times in closed form: `exact.equiangular_tokens`.

The study runs the particle system on such tokens, in the least dimension and in larger ones, from
different products, and holds it against the reduction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pde import Equation, ParticleSystem, SelfAttention, Simulation
from pde.arguments import Array
from validation import exact, fits
from validation.exact.equiangular_tokens import REACHED, gaps, time_to, tokens
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

KNOWN = {0.0: 5.186, 1.0: 5.270, 2.0: 5.458, 4.0: 6.954, 6.0: 15.995, 9.0: 178.73}
"""Times of SA from orthogonal tokens to REACHED for n = 32, by beta, to half of the last digit."""
CASES = (
    (32, 32, 1.0, 0.0, True),
    (32, 128, 4.0, 0.0, True),
    (3, 3, 2.0, -0.4, True),
    (100, 100, 2.0, 0.2, True),
    (2, 2, 1.0, -0.9, True),
    (32, 32, 1.0, 0.0, False),
    (3, 8, 2.0, -0.4, False),
)
"""(n, d, beta, product at the start, SA or USA) of the runs over time."""
LARGE = ((200, 200, 4.0, 0.0, True), (32, 512, 4.0, 0.0, True))
"""More of them at full size."""
LATE = (1e-3, 1e-5)
"""Values of 1-g between which the final rate is measured."""


def kind(normalized: bool) -> str:
    """SA or USA."""
    return "SA" if normalized else "USA"


def simulation(
    n: int, d: int, beta: float, product: float, normalized: bool, tolerance: float = 1e-9
) -> Simulation:
    """n equiangular tokens in R^d at t = 0."""
    field = SelfAttention(np.eye(d), np.eye(d), beta, normalized)
    system = ParticleSystem(Equation(field))
    return Simulation(system, tokens(n, product, d), tolerance=tolerance)


def limit_rate(beta: float, normalized: bool) -> float:
    """Rate at which 1-g decays in the end: 2 (SA), 2 e^beta (USA)."""
    return 2.0 if normalized else float(2.0 * np.exp(beta))


@dataclass(frozen=True)
class Clock:
    """The time to REACHED from orthogonal tokens, and what the particles say of it.

    late : time by which the particles are late; spread : largest difference of two products then
    """

    beta: float
    normalized: bool
    time: float
    late: float
    spread: float


def clock(beta: float, normalized: bool = True, n: int = 32) -> Clock:
    """Run n orthogonal tokens for the time of the formula."""
    time = time_to(REACHED, n, beta, normalized=normalized)
    run = simulation(n, n, beta, 0.0, normalized)
    run.run(until=time, save_at=[])
    gap = gaps(run.state)
    left = float(gap.mean()) / (1.0 - REACHED)
    return Clock(
        beta, normalized, time, np.log(left) / limit_rate(beta, normalized), float(np.ptp(gap))
    )


@dataclass(frozen=True, eq=False)
class Course:
    """One of CASES over time: the reduction's product, and the particles' mean and spread."""

    case: tuple[int, int, float, float, bool]
    times: Array
    reduction: Array
    particles: Array
    spread: Array

    @property
    def error(self) -> float:
        """Largest difference of the products."""
        return float(np.abs(self.particles - self.reduction).max())


def course(case: tuple[int, int, float, float, bool]) -> Course:
    """Products over time, until they reach REACHED."""
    n, _, beta, product, normalized = case
    times = np.linspace(0.0, time_to(REACHED, n, beta, product, normalized), 25)
    states = simulation(*case).run(until=times[-1], save_at=times).states
    gap = np.array([gaps(x) for x in states])
    reduction = exact.equiangular(n, beta, product, times, normalized)
    return Course(case, times, reduction, 1.0 - gap.mean(axis=1), np.ptp(gap, axis=1))


def final_rate(beta: float, normalized: bool, n: int = 32) -> tuple[float, float]:
    """(measured, expected between the same products) rate at which 1-g decays from LATE[0] on."""
    begin, end = (time_to(1.0 - gap, n, beta, 0.0, normalized) for gap in LATE)
    states = simulation(n, n, beta, 0.0, normalized).run(until=end, save_at=[begin, end]).states
    first, last = (float(gaps(x).mean()) for x in states)
    return np.log(first / last) / (end - begin), np.log(LATE[0] / LATE[1]) / (end - begin)


def tables(
    clocks: Sequence[Clock], courses: Sequence[Course], rates: Sequence[tuple[Any, ...]]
) -> list[Table]:
    """Times to REACHED; particles against the reduction over time; rates of the end."""
    times = []
    for c in clocks:
        known_time = KNOWN[c.beta] if c.normalized else np.nan
        times.append((kind(c.normalized), c.beta, known_time, c.time, c.late, c.spread))
    known = ["kind", "beta:g", "known:.6g", "reduction:.6f"]
    known += each(".1e", "particles later by", "spread of products")
    over_time = [
        (kind(one.case[-1]), *one.case[:-1], one.times[-1], one.error, one.spread.max())
        for one in courses
    ]
    columns = ["kind", "n", "d", *each("g", "beta", "g(0)")]
    columns += [f"time to {REACHED}:.4f", *each(".1e", "error of g", "spread")]
    ends = ["kind", "beta:g", *each(".5f", "limit", "reduction", "particles")]
    title = f"rate of 1-g between {LATE[0]:g} and {LATE[1]:g}; the limit is 2 (SA), 2 e^beta (USA)"
    return [
        Table(f"n = 32 orthogonal tokens: time to the product {REACHED}", known, times),
        Table("particles against the reduction over time", columns, over_time),
        Table(title, ends, rates),
    ]


def waiting(betas: Array) -> tuple[float, float]:
    """(slope of log time in beta, expected): SA from orthogonal tokens, e^beta / (2 beta)."""
    times = [time_to(REACHED, 2, beta) for beta in betas]
    return fits.slope(betas, np.log(times)), fits.slope(betas, betas - np.log(betas))


def findings() -> list[Finding]:
    """Waiting times of SA grow exponentially in beta, USA's fall."""
    slope, expected = waiting(np.linspace(30.0, 40.0, 6))
    text = f"two tokens, SA: log time grows by {slope:.3f} a unit of beta, formula {expected:.3f}"
    found = [Finding(text, abs(slope - expected) < 0.02)]
    times = [time_to(REACHED, 32, beta, normalized=False) for beta in (0.0, 4.0, 9.0)]
    words = ", ".join(f"{time:.3f}" for time in times)
    text = f"32 tokens, USA: the time falls with beta: {words} at beta = 0, 4, 9"
    return [*found, Finding(text, times[0] > times[1] > times[2])]


def promised(
    clocks: Sequence[Clock],
    courses: Sequence[Course],
    rates: Sequence[tuple[str, float, float, float, float]],
) -> list[Bar]:
    """Known times met by the reduction, the reduction by the particles."""
    known = [c for c in clocks if c.normalized]
    worst = max(abs(c.time / KNOWN[c.beta] - 1.0) for c in known)
    pairs = [abs(measured / expected - 1.0) for _, _, _, expected, measured in rates]
    limits = [abs(measured / limit - 1.0) for _, _, limit, _, measured in rates]
    return [
        Bar.at_most("reduction: relative error of the known times", worst, 1e-4),
        Bar.at_most("particles: late at REACHED by", max(abs(c.late) for c in clocks), 1e-5),
        Bar.at_most("particles: error of g over time", max(c.error for c in courses), 1e-7),
        Bar.at_most("spread of the products", max(c.spread.max() for c in courses), 1e-9),
        Bar.at_most("final rate against the reduction", max(pairs), 1e-4),
        Bar.at_most("final rate against its limit", max(limits), 5e-3),
    ]


def panels(courses: Sequence[Course], clocks: Sequence[Clock]) -> Iterator[Panel]:
    """Products over time, their gap to 1, and times over beta."""
    curves, left = [], []
    for i, one in enumerate(courses):
        n, d, beta, product, normalized = one.case
        label = f"{kind(normalized)} n={n} d={d} $\\beta$={beta:g}"
        fine = np.linspace(0.0, one.times[-1], 200)
        line = exact.equiangular(n, beta, product, fine, normalized)
        curves += [Curve(fine, line, "-", i), Curve(one.times, one.particles, "o", i, label)]
        left += [Curve(fine, 1.0 - line, "-", i), Curve(one.times, 1.0 - one.particles, "o", i)]
    guide = np.linspace(2.0, 4.0, 2)
    decay = 0.03 * np.exp(-2.0 * (guide - 2.0))
    left.append(Curve(guide, decay, "--", 7, "decay $e^{-2t}$"))
    betas, times = np.linspace(0.0, 10.0, 60), []
    for i, normalized in enumerate((True, False)):
        values = [time_to(REACHED, 32, beta, normalized=normalized) for beta in betas]
        times.append(Curve(betas, values, "-", i, f"{kind(normalized)}, reduction"))
        # The particles' own: the formula's time, corrected by what they are late.
        own = np.transpose(
            [(c.beta, c.time + c.late) for c in clocks if c.normalized == normalized]
        )
        times.append(Curve.through(own, "o", i, f"{kind(normalized)}, particles"))
    yield Panel("lines: reduction, dots: particles", "t", "product g", curves)
    yield Panel("the end", "t", "1 - g", left, log="y")
    yield Panel(f"n = 32, from g = 0 to {REACHED}", "beta", "time", times, log="y")


def study(options: Options) -> Outcome:
    """Times, courses, rates of the end."""
    clocks = [clock(beta, normalized) for normalized in (True, False) for beta in KNOWN]
    courses = [course(case) for case in (*CASES, *(LARGE if options.full else ()))]
    rates = []
    for normalized, beta in ((True, 0.0), (True, 2.0), (False, 1.0), (False, 2.0)):
        measured, expected = final_rate(beta, normalized)
        rates.append((kind(normalized), beta, limit_rate(beta, normalized), expected, measured))
    bars = promised(clocks, courses, rates)
    return Outcome(tables(clocks, courses, rates), bars, findings(), panels(courses, clocks))


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
