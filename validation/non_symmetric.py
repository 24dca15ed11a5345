"""V B^T not symmetric: what takes the place of Pi_# rho0, if anything does.

The theorem on concentration (Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931, Theorem 1) assumes
V B^T symmetric; the approach to the zero-temperature equation (Proposition 6) does not. With B = I
that equation's flow is x -> e^{tA} x / |e^{tA} x|, A = V, for any A. Let P be the spectral
projector of A on the invariant space E of its eigenvalues of largest real part (P A = A P, not
orthogonal for a non-normal A). Every point with P x != 0 approaches

    Q_t(x) = e^{tA} P x / |e^{tA} P x|,

at the rate of the spectral gap in real parts where the dominant eigenvalues are semisimple. So

    complex dominant pair       no limit: a law on the great circle of E that comes back after the
                                period 2 pi / w; for the block [[lam, -w1], [w2, lam]] a point at
                                the angle a turns with w2 cos^2 a + w1 sin^2 a, and w^2 = w1 w2
    real, simple, non-normal    two atoms at +-r, r the right eigenvector; the masses are those of
                                <l, x> > 0 and < 0, l the left one, not those of Pi
    Jordan block                atoms at +-r, approached algebraically: the angle falls like 1/t,
                                and mass of the order 1/t has not turned round yet in both
                                directions, which cancels for symmetric data: W2 ~ t^-p with
                                1/2 <= p <= 1

At finite temperature these are followed up to the temperature error. Measured: W2 to (Q_t)_# rho0
and to the orthogonal Pi_# rho0 (the candidate that is wrong here), recurrence W2(rho_t, rho_{t+T})
after a whole and half a period, the turning of the mean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meshes.geometry import unit
from pde import Measure, SelfAttention
from pde.arguments import Array
from pde.limits import distance_to_pair
from validation import bars, convergence, side_by_side, wasserstein

BETA = 50.0
SETTLED = 4.0
"""From then on the law has gathered on E."""
TOLERANCE = 1e-3


def on_axes(A: Any) -> Array:
    """(d, d) matrix that is A in the basis of the axes, which are in general position to meshes."""
    R = side_by_side.AXES[3]
    return R @ np.asarray(A, dtype=float) @ R.T


@dataclass(frozen=True, eq=False)
class Case:
    """The matrix V on the axes (B = I), and what its dominant eigenvalues are."""

    name: str
    block: tuple[tuple[float, ...], ...]
    kind: str

    @cached_property
    def V(self) -> Array:
        """(3, 3) value matrix."""
        return on_axes(self.block)

    @cached_property
    def period(self) -> float:
        """2 pi / w for a complex dominant pair."""
        return float(2.0 * np.pi / np.abs(np.linalg.eigvals(self.V).imag).max())

    @property
    def times(self) -> Array:
        """(K,) sixteenths of a period for a complex pair, else quarters of a unit."""
        if self.kind == "complex":
            last = int(np.ceil(16.0 * (SETTLED / self.period + 1.5)))
            return np.linspace(0.0, last * self.period / 16.0, last + 1)
        return np.arange(0.0, 8.1, 0.25)


CASES = (
    Case("complex, normal", ((1, -2, 0), (2, 1, 0), (0, 0, 0)), "complex"),
    Case("complex, non-normal", ((1, -1, 0), (4, 1, 0), (0.5, 0, 0)), "complex"),
    Case("real, non-normal", ((2, 1.5, 0), (0, 1, 0), (0, 0, 0.5)), "real"),
    Case("Jordan block", ((1, 1, 0), (0, 1, 0), (0, 0, 0)), "jordan"),
)


def law(x: Array) -> Array:
    """1 + 0.6 x_1, up to a factor."""
    return 1.0 + 0.6 * x[:, 0]


def spectral_projector(A: Any, tolerance: float = 1e-8) -> Array:
    """(d, d) P with P^2 = P, P A = A P, on the space of the eigenvalues of largest real part.

    Those eigenvalues must be simple.

    >>> spectral_projector([[2.0, 1.0], [0.0, 1.0]])
    array([[1., 1.],
           [0., 0.]])
    """
    values, right = np.linalg.eig(np.asarray(A, dtype=float))
    chosen = values.real >= values.real.max() - tolerance * np.abs(values).max()
    return (right[:, chosen] @ np.linalg.inv(right)[chosen]).real


def flow(A: Array, t: float) -> Callable[[Array], Array]:
    """x -> e^{tA} x / |e^{tA} x|."""
    from scipy.linalg import expm

    M = expm(t * A)
    return lambda x: unit(x @ M.T)


def replacement(A: Array, t: float) -> Callable[[Array], Array]:
    """Q_t: x -> e^{tA} P x / |e^{tA} P x|."""
    P, move = spectral_projector(A), flow(A, t)
    return lambda x: move(unit(x @ P.T))


def turning(measures: Sequence[Measure], plane: Array) -> Array:
    """(K,) angle of the mean in the plane (3, 2), continuous over time."""
    means = np.array([mu.mean() @ plane for mu in measures])
    return np.unwrap(np.arctan2(means[:, 1], means[:, 0]))


def distance(mu: Measure, nu: Measure) -> float:
    """Exact W2."""
    return wasserstein.distance(mu, nu, tolerance=TOLERANCE).value


@dataclass(frozen=True)
class Row:
    """A line of the table: what was measured and what is expected."""

    what: str
    grid: float
    particles: float
    expected: str

    @classmethod
    def of(cls, what: str, values: Mapping[str, float], expected: str) -> Row:
        """Of values by "grid" and "particles"."""
        return cls(what, values["grid"], values["particles"], expected)


@dataclass(frozen=True, eq=False)
class Result:
    """Rows, findings and bars of a case, and W2 over time for the picture."""

    case: Case
    rows: list[Row]
    findings: list[side_by_side.Finding]
    bars: list[bars.Bar]
    curves: dict[str, side_by_side.Curve]


def complex_pair(case: Case, both: side_by_side.SideBySide) -> Result:
    """The moving law on the plane of E: distance to it, recurrence, turning."""
    start, t = both.particles[0], both.times
    i = int(np.searchsorted(t, SETTLED))
    images = [start.push(replacement(case.V, time)) for time in t]
    gap = 1.0 - float(np.sort(np.linalg.eigvals(case.V).real)[0])
    rows, found = [], []
    whole, half, moving, turn = {}, {}, {}, {}
    plane = np.linalg.svd(spectral_projector(case.V))[0][:, :2]
    for which, measures in (("grid", both.grid), ("particles", both.particles)):
        whole[which] = distance(measures[i], measures[i + 16])
        half[which] = distance(measures[i], measures[i + 8])
        moving[which] = distance(measures[i], images[i])
        angle = turning(measures, plane)
        turn[which] = abs(angle[i + 16] - angle[i]) / (2.0 * np.pi)
        text = f"{case.name}, {which}: back after T = {case.period:.2f}"
        text += f" to {whole[which]:.3f}, half-way {half[which]:.3f} away"
        found.append(side_by_side.Finding(text, whole[which] < 0.4 * half[which]))
        text = f"{case.name}, {which}: the mean turns {turn[which]:.3f} times in a period, 1"
        found.append(side_by_side.Finding(text, abs(turn[which] - 1.0) < 0.1))
    rows = [
        Row.of(f"W2 to (Q_t)_# rho0 at t = {t[i]:.2f}", moving, "0 + temperature error"),
        Row.of("W2(rho_t, rho_{t+T})", whole, "0 + temperature error"),
        Row.of("W2(rho_t, rho_{t+T/2})", half, "not small"),
        Row.of("turns of the mean in T", turn, "1"),
    ]
    fine = side_by_side.fine_measure(law, 3)
    pairing = np.array(
        [
            side_by_side.coupling_cost(
                fine.push(flow(case.V, time)), fine.push(replacement(case.V, time))
            )
            for time in t
        ]
    )
    # Mass near E's complement, E of dimension 2: W2 ~ t^{1/2} e^{-gap t}.
    window = (t > 1.5) & (t < SETTLED)
    rate = side_by_side.rate(t, pairing / np.sqrt(np.maximum(t, 1.0)), window)
    warm = [side_by_side.coupling_cost(*pair) for pair in zip(both.particles, images, strict=True)]
    curves = {
        "zero temperature": (t, pairing, "--", 7),
        f"particles, beta = {BETA:g}": (t, warm, "o-", 0),
    }
    promise = [bars.at_least(f"{case.name}: zero-temperature rate, proven", rate, 0.9 * gap)]
    return Result(case, rows, found, promise, curves)


def real_pair(case: Case, both: side_by_side.SideBySide) -> Result:
    """Two atoms at +-r: masses by the left eigenvector against masses by Pi."""
    P, start = spectral_projector(case.V), both.particles[0]
    left, _, right = np.linalg.svd(P)
    r, l = left[:, 0], right[0]  # noqa: E741
    l = l * np.sign(l @ r)  # noqa: E741
    oblique, orthogonal = (side_by_side.half_mass(law, e) for e in (l, r))
    found, to_oblique, to_orthogonal, curves = [], {}, {}, {}
    for which, measures in (("grid", both.grid), ("particles", both.particles)):
        mine = np.array([distance_to_pair(mu, r, oblique * mu.total) for mu in measures])
        other = np.array([distance_to_pair(mu, r, orthogonal * mu.total) for mu in measures])
        to_oblique[which], to_orthogonal[which] = mine.min(), other.min()
        text = f"{case.name}, {which}: closest to the masses of <l, x> {mine.min():.3f},"
        text += f" to those of <r, x> {other.min():.3f}"
        found.append(side_by_side.Finding(text, mine.min() < 0.5 * other.min()))
        colour = 0 if which == "grid" else 1
        curves[f"{which}, to (Q_t)_#"] = (both.times, mine, "-", colour)
        curves[f"{which}, to Pi_#"] = (both.times, other, ":", colour)
    rows = [
        Row.of("least W2 to (Q_t)_# rho0", to_oblique, "0 + temperature error"),
        Row.of("least W2 to Pi_# rho0", to_orthogonal, "not small"),
        Row("mass at +r", oblique, orthogonal, "of <l, x> > 0; of <r, x> > 0"),
    ]
    share = [float(start.push(flow(case.V, 20.0)).integrate(lambda x: x @ r > 0.0))]
    own = float(start.weights @ (start.points @ l > 0.0))
    promise = [
        bars.at_most(f"{case.name}: mass of the flow at +r, error", abs(share[0] - own), 1e-9)
    ]
    return Result(case, rows, found, promise, curves)


def jordan(case: Case, both: side_by_side.SideBySide) -> Result:
    """No exponential rate: the zero-temperature flow's distance falls like a power of t."""
    R, start = side_by_side.AXES[3], side_by_side.fine_measure(law, 3)
    times = np.geomspace(4.0, 64.0, 9)
    mass = side_by_side.half_mass(law, R[:, 1])
    cold = np.array([distance_to_pair(start.push(flow(case.V, t)), R[:, 0], mass) for t in times])
    power = -side_by_side.slope(np.log(times), np.log(cold))
    last, curves = {}, {"zero temperature": (times, cold, "--", 7)}
    for k, (which, measures) in enumerate((("grid", both.grid), ("particles", both.particles))):
        values = np.array([distance_to_pair(mu, R[:, 0], mass * mu.total) for mu in measures])
        last[which] = values[-1]
        curves[f"{which}, beta = {BETA:g}"] = (both.times, values, "-", k)
    flow_then = float(
        distance_to_pair(start.push(flow(case.V, float(both.times[-1]))), R[:, 0], mass)
    )
    rows = [Row.of(f"W2 at t = {both.times[-1]:g}", last, f"zero temperature {flow_then:.3f}")]
    text = f"{case.name}: W2 of the zero-temperature flow ~ t^-p, p = {power:.2f}, 1/2 to 1"
    found = [side_by_side.Finding(text, 0.45 < power < 1.05)]
    return Result(case, rows, found, [], curves)


STUDIES = {"complex": complex_pair, "real": real_pair, "jordan": jordan}


def measure(case: Case, frequency: int) -> Result:
    """Solve at finite temperature and compare."""
    field = SelfAttention(case.V, np.eye(3), BETA)
    both = side_by_side.run(field, law, side_by_side.mesh_of(3, frequency), case.times)
    return STUDIES[case.kind](case, both)


def table(result: Result) -> str:
    """Measured and expected, of cells and particles."""
    rows = [
        [*side_by_side.numbers([row.what, row.grid, row.particles]), row.expected]
        for row in result.rows
    ]
    header = [f"beta = {BETA:g}", "cells", "particles", "expected"]
    return f"{result.case.name}\n{convergence.table(header, rows)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where what is proven holds."""
    parser = bars.study_parser("non_symmetric", __doc__, [10], [24])
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds TEXT")
    arguments = parser.parse_args(argv)
    frequency = bars.chosen_frequencies(arguments)[-1]
    results = [measure(case, frequency) for case in CASES if arguments.only in case.name]
    shown = [str(finding) for result in results for finding in result.findings]
    if arguments.out is not None:
        panels = [
            side_by_side.Panel(result.case.name, "t", "W2", result.curves, {"yscale": "log"})
            for result in results
        ]
        side_by_side.draw(panels, arguments.out / "non_symmetric.png", columns=2)
    promises = [bar for result in results for bar in result.bars]
    tables = [*map(table, results), "\n".join(shown)]
    return bars.conclude(tables, promises, arguments.out, "non_symmetric")


if __name__ == "__main__":
    sys.exit(main())
