"""Tokens with one product for all pairs: the particle system against its exact reduction.

Claim (Rigollet, arXiv:2512.01868; Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794):
for V = B = I, n tokens on the sphere of any R^d whose pairwise products all equal g keep that
symmetry, and with N = n - 1

    dg/dt = 2 (1-g) (N g + 1) / (e^{beta (1-g)} + N)    (SA)
    dg/dt = (2/n) e^{beta g} (1-g) (N g + 1)            (USA)

Orthogonal tokens (g = 0) are the model of random tokens in high dimension. Near the end 1-g decays
at the rate 2 (SA) or 2 e^beta (USA).

Times. The variable u = log((N g + 1) / (1 - g)) takes both equations apart, for
du = n dg / ((1-g) (N g + 1)) and 1-g = n / (e^u + N):

    dt = (e^{beta (1-g)} + N) / (2 n) du   (SA),     dt = e^{-beta g} / 2 du   (USA).

So the time from one product to another is an integral of a smooth function; for beta = 0 it is
half the difference of u. For large beta SA waits about e^{beta (1-g)} / (2 beta) near its start,
a time exponential in beta, while USA becomes faster.

The study runs the particle system on such tokens, in the least dimension and in larger ones, from
different products, and holds it against the reduction.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshes.geometry import norm
from pde import Equation, ParticleSystem, SelfAttention, Simulation
from pde.arguments import Array, non_negative, number
from validation import bars, command_line, convergence, exact, side_by_side

REACHED = 0.999
"""The product at which tokens count as one cluster."""
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


def check_product(n: int, product: float) -> float:
    """The product as a number that n >= 2 tokens can share: in (-1/(n-1), 1]; else ValueError."""
    product = number("product", product)
    if n < 2:
        raise ValueError(f"n must be at least 2 tokens, got {n}")
    if not -1.0 / (n - 1) < product <= 1.0:
        raise ValueError(
            f"product must lie in (-1/(n-1), 1] for n tokens to share it, got {product}, n = {n}"
        )
    return product


def tokens(n: int, product: float, d: int | None = None, seed: int = 0) -> Array:
    """(n, d) unit vectors with all pairwise products equal, turned at random.

    d >= n (None: n); ValueError for products that n vectors cannot share and for d < n.

    >>> x = tokens(3, 0.25, d=5)
    >>> (x @ x.T).round(12)
    array([[1.  , 0.25, 0.25],
           [0.25, 1.  , 0.25],
           [0.25, 0.25, 1.  ]])
    """
    product = check_product(n, product)
    d = n if d is None else d
    if d < n:
        raise ValueError(f"d must be at least n for linearly independent tokens, got {d} < {n}")
    # The symmetric root of the Gram matrix, of eigenvalues 1 + N g (once) and 1 - g.
    x = np.full((n, n), (np.sqrt(1.0 + (n - 1) * product) - np.sqrt(1.0 - product)) / n)
    x[np.diag_indices(n)] += np.sqrt(1.0 - product)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    x = x @ turn[:n]
    return x / norm(x)[:, None]


def progress(n: int, product: float) -> float:
    """u = log((N g + 1) / (1 - g)), infinite at g = 1."""
    if product == 1.0:
        return np.inf
    return float(np.log1p((n - 1) * product) - np.log1p(-product))


def time_to(
    product: float, n: int, beta: float, start: float = 0.0, normalized: bool = True
) -> float:
    """The time that n equiangular tokens take from the product `start` to `product` < 1.

    beta >= 0; normalized: SA, else USA. An integral over u (see the module), to 1e-12 relative.
    Raises ValueError for n < 2 and for products out of range or not increasing.

    >>> round(time_to(0.999, n=32, beta=4.0), 3)
    6.954
    """
    from scipy.integrate import quad

    beta = non_negative("beta", beta)
    start, product = check_product(n, start), check_product(n, product)
    if not start <= product < 1.0:
        raise ValueError(f"product must lie in [start, 1) = [{start:g}, 1), got {product:g}")

    def pace(u: float) -> float:
        """dt/du."""
        gap = n / (np.exp(u) + n - 1.0)
        if normalized:
            return float((np.exp(beta * gap) + n - 1.0) / (2.0 * n))
        return float(0.5 * np.exp(-beta * (1.0 - gap)))

    first, last = progress(n, start), progress(n, product)
    # A start above the slow place leaves a narrow peak at u = first: shown to the quadrature.
    inner = first + np.array([1e-2, 1e-1, 1.0]) * n / (n + beta)
    points = inner[inner < last]
    return float(quad(pace, first, last, epsabs=0.0, epsrel=1e-12, limit=500, points=points)[0])


def gaps(x: Array) -> Array:
    """1 - <x_i, x_j> of all pairs of the (n, d) unit vectors x, exact also near 0."""
    i, j = np.triu_indices(len(x), 1)
    return 0.5 * np.square(x[i] - x[j]).sum(axis=1)


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


def known_table(clocks: Sequence[Clock]) -> str:
    """Times to REACHED."""
    rows = [
        [
            "SA" if c.normalized else "USA",
            f"{c.beta:g}",
            f"{KNOWN[c.beta]:.6g}" if c.normalized else "-",
            f"{c.time:.6f}",
            f"{c.late:.1e}",
            f"{c.spread:.1e}",
        ]
        for c in clocks
    ]
    header = ["", "beta", "known", "reduction", "particles later by", "spread of products"]
    title = f"n = 32 orthogonal tokens: time to the product {REACHED}"
    return f"{title}\n{convergence.table(header, rows)}"


def course_table(courses: Sequence[Course]) -> str:
    """Particles against the reduction over time."""
    rows = []
    for one in courses:
        n, d, beta, product, normalized = one.case
        kind = "SA" if normalized else "USA"
        numbers = [f"{one.times[-1]:.4f}", f"{one.error:.1e}", f"{one.spread.max():.1e}"]
        rows.append([kind, str(n), str(d), f"{beta:g}", f"{product:g}", *numbers])
    header = ["", "n", "d", "beta", "g(0)", f"time to {REACHED}", "error of g", "spread"]
    return "particles against the reduction over time\n" + convergence.table(header, rows)


def rate_table(rows: Sequence[tuple[str, float, float, float, float]]) -> str:
    """Rates of the end."""
    cells = [
        [kind, f"{beta:g}", f"{limit:.5f}", f"{expected:.5f}", f"{measured:.5f}"]
        for kind, beta, limit, expected, measured in rows
    ]
    header = ["", "beta", "limit", "reduction", "particles"]
    title = f"rate of 1-g between {LATE[0]:g} and {LATE[1]:g}; the limit is 2 (SA), 2 e^beta (USA)"
    return f"{title}\n{convergence.table(header, cells)}"


def waiting(betas: Array) -> tuple[float, float]:
    """(slope of log time in beta, expected): SA from orthogonal tokens, e^beta / (2 beta)."""
    times = [time_to(REACHED, 2, beta) for beta in betas]
    return side_by_side.slope(betas, np.log(times)), side_by_side.slope(
        betas, betas - np.log(betas)
    )


def findings() -> list[side_by_side.Finding]:
    """Waiting times of SA grow exponentially in beta, USA's fall."""
    slope, expected = waiting(np.linspace(30.0, 40.0, 6))
    text = f"two tokens, SA: log time grows by {slope:.3f} a unit of beta, formula {expected:.3f}"
    found = [side_by_side.Finding(text, abs(slope - expected) < 0.02)]
    times = [time_to(REACHED, 32, beta, normalized=False) for beta in (0.0, 4.0, 9.0)]
    words = ", ".join(f"{time:.3f}" for time in times)
    text = f"32 tokens, USA: the time falls with beta: {words} at beta = 0, 4, 9"
    found.append(side_by_side.Finding(text, times[0] > times[1] > times[2]))
    return found


def promised(
    clocks: Sequence[Clock],
    courses: Sequence[Course],
    rates: Sequence[tuple[str, float, float, float, float]],
) -> list[bars.Bar]:
    """Known times met by the reduction, the reduction by the particles."""
    known = [c for c in clocks if c.normalized]
    worst = max(abs(c.time / KNOWN[c.beta] - 1.0) for c in known)
    pairs = [abs(measured / expected - 1.0) for _, _, _, expected, measured in rates]
    limits = [abs(measured / limit - 1.0) for _, _, limit, _, measured in rates]
    return [
        bars.at_most("reduction: relative error of the known times", worst, 1e-4),
        bars.at_most("particles: late at REACHED by", max(abs(c.late) for c in clocks), 1e-5),
        bars.at_most("particles: error of g over time", max(c.error for c in courses), 1e-7),
        bars.at_most("spread of the products", max(c.spread.max() for c in courses), 1e-9),
        bars.at_most("final rate against the reduction", max(pairs), 1e-4),
        bars.at_most("final rate against its limit", max(limits), 5e-3),
    ]


def panels(courses: Sequence[Course], clocks: Sequence[Clock]) -> list[side_by_side.Panel]:
    """Products over time, their gap to 1, and times over beta."""
    curves, left = {}, {}
    for i, one in enumerate(courses):
        n, d, beta, product, normalized = one.case
        label = f"{'SA' if normalized else 'USA'} n={n} d={d} $\\beta$={beta:g}"
        fine = np.linspace(0.0, one.times[-1], 200)
        line = exact.equiangular(n, beta, product, fine, normalized)
        curves[f"_{i}"], left[f"_{i}"] = (fine, line, "-", i), (fine, 1.0 - line, "-", i)
        curves[label] = (one.times, one.particles, "o", i)
        left[f"_{label}"] = (one.times, 1.0 - one.particles, "o", i)
    guide = np.linspace(2.0, 4.0, 2)
    left["decay $e^{-2t}$"] = (guide, 0.03 * np.exp(-2.0 * (guide - 2.0)), "--", 7)
    betas = np.linspace(0.0, 10.0, 60)
    times = {}
    for i, (name, kind) in enumerate((("SA", True), ("USA", False))):
        values = [time_to(REACHED, 32, beta, normalized=kind) for beta in betas]
        times[f"{name}, reduction"] = (betas, values, "-", i)
        # The particles' own: the formula's time, corrected by what they are late.
        own = [(c.beta, c.time + c.late) for c in clocks if c.normalized == kind]
        times[f"{name}, particles"] = (*np.transpose(own), "o", i)
    return [
        side_by_side.Panel("lines: reduction, dots: particles", "t", "product g", curves),
        side_by_side.Panel("the end", "t", "1 - g", left, {"yscale": "log"}),
        side_by_side.Panel(
            f"n = 32, from g = 0 to {REACHED}", "beta", "time", times, {"yscale": "log"}
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where the particles follow the reduction."""
    parser = command_line.study("equiangular_tokens", __doc__)
    arguments = parser.parse_args(argv)
    clocks = [clock(beta, normalized) for normalized in (True, False) for beta in KNOWN]
    courses = [course(case) for case in (*CASES, *(LARGE if arguments.full else ()))]
    rates = []
    for normalized, beta in ((True, 0.0), (True, 2.0), (False, 1.0), (False, 2.0)):
        measured, expected = final_rate(beta, normalized)
        kind = "SA" if normalized else "USA"
        rates.append((kind, beta, limit_rate(beta, normalized), expected, measured))
    shown = findings()
    if arguments.out is not None:
        path = arguments.out / "equiangular_tokens.png"
        side_by_side.draw(panels(courses, clocks), path)
    tables = [known_table(clocks), course_table(courses), rate_table(rates)]
    tables.append("\n".join(map(str, shown)))
    bars_kept = promised(clocks, courses, rates)
    return bars.conclude(tables, bars_kept, arguments.out, "equiangular_tokens")


if __name__ == "__main__":
    sys.exit(main())
