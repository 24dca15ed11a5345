"""How far the law at inverse temperature beta is from the zero-temperature law, at one time.

Claim (Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931, Proposition 6), for B invertible, V B^T
symmetric or not, and one initial law:

    W2(rho^beta_t, rho_t) <= 2 eps (e^{C1 t} - e^{C0 t}),   eps = sqrt(log(beta + 1) / beta).

So W2, fitted as eps^q over beta, must have q >= 1. The bound allows densities with jumps; a smooth
density has m_beta(x) = B^T x / |B^T x| + O(1/beta) by Laplace's method, so q near 2 is to be
expected at early times, less once the law is narrower than 1 / sqrt(beta). Over t the bound leaves
C0 and C1 open; they are fitted.

Two sizes of W2. Particles carry their identity: the pairing of each particle with its own
zero-temperature image is a plan, so its cost bounds W2 from above and resolves any distance; exact
transport between the clouds stands beside it. Between two densities on the same cells of width h a
shift by delta < h is a share delta / h of the mass that moves by h, W2 = sqrt(delta h): below h the
grid's distance overestimates, and only values above h count in its fit.

The proposition bounds W2 with constants that are not known here, so that its exponent, a statement
for beta -> infinity, is a finding; the exit status is that of what must hold at any size.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pde import Measure, SelfAttention, ZeroTemperatureAttention
from pde.arguments import Array, square_matrix
from validation import exact, fits, side_by_side, wasserstein
from validation.problems.axes import symmetric, tilted
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

TIMES = np.arange(0.0, 2.01, 0.25)
EXACT_AT = (0.5, 1.0, 2.0)
"""When exact transport is computed; the pairing's cost is known at all TIMES."""
FIT_AT = {"particles": 1.0, "grid": 2.0}
"""Times of the fits over beta: later for the cells, when more distances are above a cell width."""
TOLERANCE = 1e-3
"""Relative gap of W2^2 to which exact transport is computed."""


@dataclass(frozen=True, eq=False)
class Case:
    """Matrices and the inverse temperatures that the meshes resolve."""

    name: str
    V: Array
    B: Array
    betas: tuple[float, ...]


CASES = (
    Case(
        "circle, symmetric",
        symmetric([2, 1]),
        symmetric([1, 4]),
        (10.0, 32.0, 100.0, 316.0, 1000.0),
    ),
    Case(
        "circle, not symmetric",
        square_matrix("V", [[1.2, 0.6], [-0.3, 0.7]]),
        square_matrix("B", [[1.0, -0.4], [0.5, 1.2]]),
        (10.0, 32.0, 100.0, 316.0, 1000.0),
    ),
    Case(
        "sphere, symmetric", symmetric([2, 1, 0.5]), symmetric([1, 4, 1]), (5.0, 10.0, 20.0, 40.0)
    ),
    Case(
        "sphere, not symmetric",
        square_matrix("V", [[1.0, 0.4, -0.2], [-0.3, 0.7, 0.5], [0.1, -0.2, 1.2]]),
        square_matrix("B", [[1.0, -0.3, 0.2], [0.4, 0.8, 0.0], [0.0, 0.3, 1.1]]),
        (5.0, 10.0, 20.0, 40.0),
    ),
)


def scale(beta: Array | float) -> Array:
    """eps = sqrt(log(beta + 1) / beta)."""
    return np.sqrt(np.log1p(beta) / beta)


@dataclass(frozen=True, eq=False)
class Result:
    """Distances to zero temperature by beta.

    paired (n, K) : costs of the particles' own pairing at TIMES
    particles, grid (n, 3) : exact W2 at EXACT_AT
    flow_error : largest distance of a zero-temperature particle to the exact flow
    """

    case: Case
    width: float
    paired: Array
    particles: Array
    grid: Array
    flow_error: float

    def exponent(self, which: str) -> float:
        """q in W2 ~ eps^q at its time of the fit; of the grid's values those above a cell width.

        nan where fewer than two are left.
        """
        eps = scale(np.array(self.case.betas))
        values = getattr(self, which)[:, EXACT_AT.index(FIT_AT[which])]
        used = values > (self.width if which == "grid" else 0.0)
        return fits.slope(np.log(eps[used]), np.log(values[used]))


def measure(case: Case, frequency: int) -> Result:
    """Solve at zero temperature and at every beta, from the same cells and particles."""
    mesh = side_by_side.mesh_of(len(case.V), frequency)
    cold = side_by_side.run(ZeroTemperatureAttention(case.V, case.B), tilted, mesh, TIMES)
    flow = exact.ZeroTemperature(case.V, case.B).flow(float(TIMES[-1]))
    error = np.linalg.norm(flow(cold.particles[0].points) - cold.particles[-1].points, axis=1).max()
    at = np.searchsorted(TIMES, EXACT_AT)
    paired, particles, grid = [], [], []
    for beta in case.betas:
        warm = side_by_side.run(SelfAttention(case.V, case.B, beta), tilted, mesh, TIMES)
        pairs = list(zip(warm.particles, cold.particles, strict=True))
        paired.append([side_by_side.coupling_cost(mu, nu) for mu, nu in pairs])
        particles.append([distance(*pairs[i]) for i in at])
        grid.append([distance(warm.grid[i], cold.grid[i]) for i in at])
    return Result(
        case, mesh.spacing, np.array(paired), np.array(particles), np.array(grid), float(error)
    )


def distance(mu: Measure, nu: Measure) -> float:
    """Exact W2."""
    return wasserstein.distance(mu, nu, tolerance=TOLERANCE).value


def growth(times: Array, values: Array) -> tuple[float, float, float]:
    """(C1, C0, largest relative misfit) of values ~ e^{C1 t} - e^{C0 t} at times > 0."""
    from scipy.optimize import least_squares

    times, values = np.asarray(times, dtype=float), np.asarray(values, dtype=float)

    def misfit(parameters: Array) -> Array:
        # C1 = C0 + e^p > C0; the difference as a product, which is right for a small e^p too.
        c0, p = parameters
        model = c0 * times + np.log(np.expm1(np.exp(np.clip(p, -30.0, 5.0)) * times))
        return model - np.log(values)

    start = [0.0, np.log(max(values[0] / times[0], 1e-8))]
    found = least_squares(misfit, start)
    c0, gap = float(found.x[0]), float(np.exp(found.x[1]))
    return c0 + gap, c0, float(np.abs(np.expm1(found.fun)).max())


def tables(result: Result) -> list[Table]:
    """Distances at EXACT_AT by beta, beside eps, and the fits."""
    betas, at = result.case.betas, np.searchsorted(TIMES, EXACT_AT)
    of_both = np.stack([result.paired[:, at], result.particles, result.grid], axis=2)
    rows = np.column_stack([betas, scale(np.array(betas)), of_both.reshape(len(betas), -1)])
    heads = [name for t in EXACT_AT for name in (f"pairing t={t:g}", "particles", "grid")]
    fitted = [
        (beta, *growth(TIMES[1:], paired[1:] / (2.0 * scale(beta))))
        for beta, paired in zip(betas, result.paired, strict=True)
    ]
    title = f"{result.case.name}: W2(rho^beta_t, rho_t), h = {result.width:.3f}"
    words = "growth: W2 / (2 eps) = e^(C1 t) - e^(C0 t), fitted to the pairing"
    return [
        Table(title, ["beta:g", *each(".4f", "eps", *heads)], rows),
        Table(words, ["beta:g", *each(".3f", "C1", "C0", "misfit")], fitted),
    ]


def findings(result: Result) -> Iterator[Finding]:
    """The exponents; none of the cells' distances where too few are above a cell width."""
    for which, t in FIT_AT.items():
        q = result.exponent(which)
        if not np.isnan(q):
            text = f"{result.case.name}, {which}: W2 ~ eps^q at t = {t:g}, q = {q:.2f}, at least 1"
            yield Finding(text, q >= 0.9)


def promised(result: Result) -> list[Bar]:
    """W2 below the cost of a plan; the flow of the particles at beta = infinity."""
    name, at = result.case.name, np.searchsorted(TIMES, EXACT_AT)
    excess = float((result.particles / result.paired[:, at]).max())
    return [
        Bar.at_most(f"{name}: W2 of the particles to its plan's cost", excess, 1.0 + TOLERANCE),
        Bar.at_most(f"{name}: zero-temperature particles to the flow", result.flow_error, 1e-4),
    ]


def panels(result: Result) -> list[Panel]:
    """W2 over eps and over time."""
    name, betas, eps = result.case.name, result.case.betas, scale(np.array(result.case.betas))
    over_eps = []
    for j, (t, k) in enumerate(zip(EXACT_AT, np.searchsorted(TIMES, EXACT_AT), strict=True)):
        over_eps.append(Curve(eps, result.paired[:, k], "o-", j, f"pairing, t = {t:g}"))
        over_eps.append(Curve(eps, result.grid[:, j], "s:", j))
    middle = result.paired[len(eps) // 2, 4] * eps / eps[len(eps) // 2]
    over_eps.append(Curve(eps, middle, "--", 7, "slope 1"))
    over_time = [
        Curve(TIMES[1:], paired[1:] / (2.0 * scale(beta)), "o-", i, f"beta = {beta:g}")
        for i, (beta, paired) in enumerate(zip(betas, result.paired, strict=True))
    ]
    return [
        Panel(name, "eps", "W2 (dotted: cells)", over_eps, log="xy"),
        Panel(name, "t", "W2 / (2 eps)", over_time, log="y"),
    ]


def study(options: Options) -> Outcome:
    """All cases at all their temperatures."""
    results = [measure(case, options.frequency) for case in CASES if options.only in case.name]
    parts = (Outcome(tables(one), promised(one), findings(one), panels(one)) for one in results)
    return Outcome.joined(parts, columns=2)


main = Command(study, meshes=[10], full=[24], only=True)


if __name__ == "__main__":
    sys.exit(main())
