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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pde import Measure, SelfAttention, ZeroTemperatureAttention
from pde.arguments import Array, square_matrix
from validation import bars, convergence, exact, side_by_side, wasserstein

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
        side_by_side.symmetric([2, 1]),
        side_by_side.symmetric([1, 4]),
        (10.0, 32.0, 100.0, 316.0, 1000.0),
    ),
    Case(
        "circle, not symmetric",
        square_matrix("V", [[1.2, 0.6], [-0.3, 0.7]]),
        square_matrix("B", [[1.0, -0.4], [0.5, 1.2]]),
        (10.0, 32.0, 100.0, 316.0, 1000.0),
    ),
    Case(
        "sphere, symmetric",
        side_by_side.symmetric([2, 1, 0.5]),
        side_by_side.symmetric([1, 4, 1]),
        (5.0, 10.0, 20.0, 40.0),
    ),
    Case(
        "sphere, not symmetric",
        square_matrix("V", [[1.0, 0.4, -0.2], [-0.3, 0.7, 0.5], [0.1, -0.2, 1.2]]),
        square_matrix("B", [[1.0, -0.3, 0.2], [0.4, 0.8, 0.0], [0.0, 0.3, 1.1]]),
        (5.0, 10.0, 20.0, 40.0),
    ),
)


def law(x: Array) -> Array:
    """1 + 0.6 x_1, up to a factor."""
    return 1.0 + 0.6 * x[:, 0]


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
        return side_by_side.slope(np.log(eps[used]), np.log(values[used]))


def measure(case: Case, frequency: int) -> Result:
    """Solve at zero temperature and at every beta, from the same cells and particles."""
    mesh = side_by_side.mesh_of(len(case.V), frequency)
    cold = side_by_side.run(ZeroTemperatureAttention(case.V, case.B), law, mesh, TIMES)
    flow = exact.ZeroTemperature(case.V, case.B).flow(float(TIMES[-1]))
    error = np.linalg.norm(flow(cold.particles[0].points) - cold.particles[-1].points, axis=1).max()
    at = np.searchsorted(TIMES, EXACT_AT)
    paired, particles, grid = [], [], []
    for beta in case.betas:
        warm = side_by_side.run(SelfAttention(case.V, case.B, beta), law, mesh, TIMES)
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


def table(result: Result) -> str:
    """Distances at EXACT_AT by beta, beside eps, and the fits."""
    header = ["beta", "eps"]
    for t in EXACT_AT:
        header += [f"pairing t={t:g}", "particles", "grid"]
    at = np.searchsorted(TIMES, EXACT_AT)
    rows = []
    for i, beta in enumerate(result.case.betas):
        row: list[str | float] = [f"{beta:g}", float(scale(beta))]
        for j, k in enumerate(at):
            row += [result.paired[i, k], result.particles[i, j], result.grid[i, j]]
        rows.append(side_by_side.numbers(row, ".4f"))
    fits = []
    for beta, paired in zip(result.case.betas, result.paired, strict=True):
        c1, c0, misfit = growth(TIMES[1:], paired[1:] / (2.0 * scale(beta)))
        fits.append(side_by_side.numbers([f"{beta:g}", c1, c0, misfit]))
    return "\n".join(
        [
            f"{result.case.name}: W2(rho^beta_t, rho_t), h = {result.width:.3f}",
            convergence.table(header, rows),
            "growth: W2 / (2 eps) = e^(C1 t) - e^(C0 t), fitted to the pairing",
            convergence.table(["beta", "C1", "C0", "misfit"], fits),
        ]
    )


def findings(result: Result) -> list[side_by_side.Finding]:
    """The exponents; none of the cells' distances where too few are above a cell width."""
    found = []
    for which, t in FIT_AT.items():
        q = result.exponent(which)
        if not np.isnan(q):
            text = f"{result.case.name}, {which}: W2 ~ eps^q at t = {t:g}, q = {q:.2f}, at least 1"
            found.append(side_by_side.Finding(text, q >= 0.9))
    return found


def promised(result: Result) -> list[bars.Bar]:
    """W2 below the cost of a plan; the flow of the particles at beta = infinity."""
    name, at = result.case.name, np.searchsorted(TIMES, EXACT_AT)
    excess = float((result.particles / result.paired[:, at]).max())
    return [
        bars.at_most(f"{name}: W2 of the particles to its plan's cost", excess, 1.0 + TOLERANCE),
        bars.at_most(f"{name}: zero-temperature particles to the flow", result.flow_error, 1e-4),
    ]


def panels(result: Result) -> list[side_by_side.Panel]:
    """W2 over eps and over time."""
    eps = scale(np.array(result.case.betas))
    over_eps = {
        f"pairing, t = {t:g}": (eps, result.paired[:, k], "o-", j)
        for j, (t, k) in enumerate(zip(EXACT_AT, np.searchsorted(TIMES, EXACT_AT), strict=True))
    }
    for j in range(len(EXACT_AT)):
        over_eps[f"_grid {j}"] = (eps, result.grid[:, j], "s:", j)
    middle = result.paired[len(eps) // 2, 4] * eps / eps[len(eps) // 2]
    over_eps["slope 1"] = (eps, middle, "--", 7)
    over_time = {
        f"beta = {beta:g}": (TIMES[1:], paired[1:] / (2.0 * scale(beta)), "o-", i)
        for i, (beta, paired) in enumerate(zip(result.case.betas, result.paired, strict=True))
    }
    name, log = result.case.name, {"xscale": "log", "yscale": "log"}
    return [
        side_by_side.Panel(name, "eps", "W2 (dotted: cells)", over_eps, log),
        side_by_side.Panel(name, "t", "W2 / (2 eps)", over_time, {"yscale": "log"}),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where what is proven holds."""
    parser = bars.study_parser("temperature", __doc__, [10], [24])
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds TEXT")
    arguments = parser.parse_args(argv)
    frequency = bars.chosen_frequencies(arguments)[-1]
    results = [measure(case, frequency) for case in CASES if arguments.only in case.name]
    shown = [str(f) for result in results for f in findings(result)]
    if arguments.out is not None:
        pictures = [panel for result in results for panel in panels(result)]
        side_by_side.draw(pictures, arguments.out / "temperature.png", columns=2)
    promises = [bar for result in results for bar in promised(result)]
    tables = [*map(table, results), "\n".join(shown)]
    return bars.conclude(tables, promises, arguments.out, "temperature")


if __name__ == "__main__":
    sys.exit(main())
