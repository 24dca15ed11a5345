"""Concentration at low temperature: the way to Pi_# rho0, the closest approach, the way back.

Claim (Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931, Theorem 1): with E the eigenspace of the
largest eigenvalue of V B^T and Pi the projection on it,

    W2(rho^beta_t, Pi_# rho0) <~ sqrt(log(beta + 1) / beta) e^{Ct} + e^{-ct},

so the law first approaches Pi_# rho0 exponentially, is closest at a time O(log beta), then leaves.

What fixes c. V and B share the axes here, with products a_k = v_k b_k, a_E the largest. Mass near E
approaches it at the rate min_k (a_E - a_k) / b_E; mass near the complement of E leaves it at the
rate (a_E - a_1) / b_1, a_1 the largest of the others. Of a density that is positive there, the mass
not yet gone is of dimension k = dim E, so W2^2 keeps a share e^{-k (a_E - a_1) t / b_1}; a density
that vanishes quadratically there counts k + 2. The smaller of both rates is c. What is proven for
the zero-temperature equation is c >= min(k/2, 1) (a_E - a_1) / |B|, from
|P_E x| >= r / (r^2 + e^{-2gs})^{1/2} and ds/dt = 1 / |B^T x| >= 1 / |B|. Assumption 2 (here with
p = 1) is the condition on the mass near the complement.

Theorem 1's bound is least at t = log(beta) / (2 (c + C)) + ..., and C >= 0: the time of the minimum
should grow with log beta, with a slope of at most 1 / (2c).

Distances: for dim E = 1 exact W2 to two atoms; for dim E = 2 exact transport to Pi_# of the initial
cells. On a mesh of width h no distance much below h means anything. So on the sphere beta stays
where sqrt(log(beta) / beta) is larger than that and beta h^2 at most about 1 (else the softmax sees
single atoms, no density); on the circle, where cells are cheap, it goes to 1000. Once clusters are
narrower than 1 / sqrt(beta), every point sees its whole cluster and the rate becomes that of V: the
approach is measured before. Particles cross the complement of E one by one: one atom of mass w on
the wrong side is a distance 2 sqrt(w), which is the floor of the particles where rho0 > 0 there.

Proven, and so part of the exit status, is the rate of the zero-temperature flow; constants and
finite-beta behaviour are findings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pde import SelfAttention
from pde.arguments import Array
from pde.limits import Projection, assumption_2, distance_to_pair, distance_to_space, limit_space
from validation import exact, fits, side_by_side, wasserstein
from validation.problems.axes import symmetric, tilted
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

EARLY = 2.0
"""Until then cells and particles must agree to a cell width: nothing is narrower than a cell."""


@dataclass(frozen=True, eq=False)
class Case:
    """V and B with eigenvalues v, b on common axes; `vanishing`: a density 0 on E's complement."""

    name: str
    v: tuple[float, ...]
    b: tuple[float, ...]
    betas: tuple[float, ...]
    until: float
    vanishing: bool = False
    mesh_share: float = 1.0
    step: float = 0.25

    @cached_property
    def V(self) -> Array:
        """(d, d) value matrix."""
        return symmetric(self.v)

    @cached_property
    def B(self) -> Array:
        """(d, d) bilinear form."""
        return symmetric(self.b)

    @cached_property
    def E(self) -> Array:
        """(d, k) basis of the dominant eigenspace of V B^T."""
        return limit_space(self.V, self.B)

    def law(self, x: Array) -> Array:
        """Density up to a factor: 1 + 0.6 <x, u>, where `vanishing` times |P_E x|^2."""
        rho = tilted(x)
        return rho * np.square(x @ self.E).sum(axis=1) if self.vanishing else rho

    @property
    def times(self) -> Array:
        """(K,) when distances are measured."""
        return np.arange(0.0, self.until + 0.5 * self.step, self.step)

    @property
    def _gap(self) -> tuple[float, float, float]:
        """(gap of V B^T, |B^T x| on E, |B^T x| where the others are largest)."""
        a = np.multiply(self.v, self.b)
        on_E = np.isclose(a, a.max())
        others = np.where(on_E, -np.inf, a)
        return (
            float(a.max() - others.max()),
            abs(float(np.asarray(self.b)[on_E].max())),
            abs(float(self.b[int(others.argmax())])),
        )

    @property
    def moves(self) -> bool:
        """Whether V's largest eigenvalue lies outside E: the law leaves E again."""
        a = np.multiply(self.v, self.b)
        return not np.isclose(a[int(np.argmax(self.v))], a.max())

    @property
    def expected_rate(self) -> float:
        """c of the zero-temperature equation, from the two linearisations."""
        gap, on_E, across = self._gap
        weight = self.E.shape[1] + (2 if self.vanishing else 0)
        return min(gap / on_E, 0.5 * weight * gap / across)

    @property
    def proven_rate(self) -> float:
        """The lower bound min(k/2, 1) gap / |B| of c."""
        return min(0.5 * self.E.shape[1], 1.0) * self._gap[0] / max(map(abs, self.b))


CIRCLE = (10.0, 32.0, 100.0, 316.0, 1000.0)
CASES = (
    Case("circle, E and F differ", (2, 1), (1, 4), CIRCLE, 11.0),
    Case("circle, E and F differ, rho0 = 0 across E", (2, 1), (1, 4), CIRCLE, 11.0, True),
    Case("circle, E = F", (2, 1), (1, 1), CIRCLE, 11.0),
    Case("circle, E = F, rho0 = 0 across E", (2, 1), (1, 1), CIRCLE, 11.0, True),
    Case("sphere, dim E = 1", (2, 1, 0.5), (1, 4, 1), (10.0, 30.0, 100.0), 8.0),
    Case("sphere, dim E = 2", (2, 1, 1), (1, 4, 4), (5.0, 10.0, 30.0), 6.0, False, 0.6, 0.5),
)


def distances(case: Case, both: side_by_side.SideBySide) -> dict[str, Array]:
    """(K,) W2 to Pi_# rho0: of the cells to that of the law, of the particles to their own."""
    start = both.particles[0]
    if case.E.shape[1] > 1:
        limit = start.push(Projection(case.E))
        return both.of_both(lambda mu: wasserstein.distance(mu, limit, tolerance=1e-3).value)
    e = case.E[:, 0]
    of_law = side_by_side.half_mass(case.law, e)
    own = float(start.weights[start.points @ e > 0.0].sum())
    return {
        "grid": np.array([distance_to_pair(mu, e, of_law * mu.total) for mu in both.grid]),
        "particles": np.array([distance_to_pair(mu, e, own) for mu in both.particles]),
    }


def zero_temperature(case: Case) -> tuple[Array, NDArray[np.bool_]]:
    """(K,) W2 to the limit of the exact zero-temperature flow; (K,) bool: where it is resolved.

    Pi is kept and is the nearest-point map, so the flow's own coupling is optimal. The law is taken
    on a fine mesh; the distance is resolved while many of its cells have not left E's complement.
    """
    start = side_by_side.fine_measure(case.law, len(case.v))
    flow = exact.ZeroTemperature(case.V, case.B).flow
    values = np.array([distance_to_space(start.push(flow(t)), case.E) for t in case.times])
    return values, values**2 > 20.0 * start.weights.max()


@dataclass(frozen=True, eq=False)
class Result:
    """W2 over time by beta, of cells and particles, and at zero temperature where resolved."""

    case: Case
    width: float
    curves: dict[float, dict[str, Array]]
    cold: Array
    resolved: NDArray[np.bool_]

    def minima(self, which: str) -> Array:
        """(n, 2) time and value of the closest approach, by beta."""
        found = [fits.minimum(self.case.times, c[which]) for c in self.curves.values()]
        return np.array(found)

    def decay(self, beta: float, which: str) -> float:
        """Rate of the approach, from t = 1 until twice the minimum or 1 / sqrt(beta)."""
        t, values = self.case.times, self.curves[beta][which]
        near = values < max(2.0 * values.min(), beta**-0.5)
        return fits.rate(t, values, (t >= 1.0) & (t <= t[np.argmax(near)]))

    def rise(self, beta: float, which: str) -> float:
        """Rate of the way back, from twice the minimum until W2 = 0.6."""
        t, values = self.case.times, self.curves[beta][which]
        back = (t > t[np.argmin(values)]) & (values > 2.0 * values.min()) & (values < 0.6)
        return -fits.rate(t, values, back)

    @property
    def cold_rate(self) -> float:
        """Rate of the zero-temperature flow from t = 2 on."""
        t = self.case.times
        return fits.rate(t, self.cold, self.resolved & (t >= 2.0))

    def slope(self, which: str) -> float:
        """Of the time of the minimum against log beta, where the minimum lies inside the times."""
        times = self.minima(which)[:, 0]
        inside = times < self.case.until
        return fits.slope(np.log(list(self.curves))[inside], times[inside])


def measure(case: Case, frequency: int) -> Result:
    """Solve at all temperatures of the case."""
    mesh = side_by_side.mesh_of(len(case.v), max(2, round(case.mesh_share * frequency)))
    curves = {}
    for beta in case.betas:
        both = side_by_side.run(SelfAttention(case.V, case.B, beta), case.law, mesh, case.times)
        curves[beta] = distances(case, both)
    return Result(case, mesh.spacing, curves, *zero_temperature(case))


def table(result: Result) -> Table:
    """Closest approaches and rates, cells left, particles right, beside the theorem's scale."""
    case, rows = result.case, []
    for i, beta in enumerate(result.curves):
        row = [beta, np.sqrt(np.log(beta + 1.0) / beta)]
        for which in ("grid", "particles"):
            time, value = result.minima(which)[i]
            row += [value, time, result.decay(beta, which), result.rise(beta, which)]
        rows.append(row)
    columns = ["beta:g", *each(".3f", "sqrt(log/beta)", *("minimum", "at t", "decay", "rise") * 2)]
    return Table(
        f"{case.name}: W2 to Pi_# rho0; cells (left), particles (right), h = {result.width:.3f}\n"
        f"assumption 2 with p = 1 {assumption_in_words(case)}",
        columns,
        rows,
        f"zero temperature: rate {result.cold_rate:.3f}, from the linearisation "
        f"{case.expected_rate:.3f}, proven at least {case.proven_rate:.3f}",
    )


def assumption_in_words(case: Case) -> str:
    """Whether the case's law satisfies assumption 2, in words."""
    if case.vanishing:
        # The integral of |P_E x|^{2-p}: finite, which values on the complement alone do not tell.
        return "holds: the density vanishes like |P_E x|^2"
    return str(assumption_2(case.E, case.law))


def findings(result: Result) -> Iterator[Finding]:
    """What was measured of the claims that leave constants open: rates to 30%, slopes to 10%."""
    case = result.case
    coldest = max(result.curves)
    c = case.expected_rate
    for which in ("grid", "particles"):
        name = f"{case.name}, {which}"
        rate = result.decay(coldest, which)
        text = f"{name}: approach at beta = {coldest:g} with rate {rate:.2f}, c = {c:.2f}"
        yield Finding(text, abs(rate - c) < 0.3 * c)
        slope = result.slope(which)
        if case.moves and np.isfinite(slope):
            text = f"{name}: time of the minimum = {slope:.2f} log beta + ..., at most 1/(2c)"
            yield Finding(f"{text} = {0.5 / c:.2f}", 0.0 < slope < 0.55 / c)
    lowest = result.minima("grid")[:, 1]
    if len(lowest) > 1:
        text = f"{case.name}, grid: minimum from {lowest[0]:.3f} to {lowest[-1]:.3f}"
        yield Finding(f"{text}, falls with beta", (np.diff(lowest) < 0.0).all())


def promised(result: Result) -> list[Bar]:
    """What is proven, and that cells and particles agree while nothing is narrower than a cell."""
    case = result.case
    early = case.times <= EARLY
    apart = max(np.abs(c["grid"] - c["particles"])[early].max() for c in result.curves.values())
    proven = f"{case.name}: zero-temperature rate, proven"
    alike = f"{case.name}: cells to particles in cell widths, t <= {EARLY:g}"
    return [
        Bar.at_least(proven, result.cold_rate, 0.9 * case.proven_rate),
        Bar.at_most(alike, apart / result.width, 1.0),
    ]


def panel(result: Result) -> Panel:
    """W2 over time: cells as lines, particles as dots, the zero-temperature flow dashed."""
    curves, t = [], result.case.times
    for i, (beta, values) in enumerate(result.curves.items()):
        curves.append(Curve(t, values["grid"], "-", i, f"beta = {beta:g}"))
        curves.append(Curve(t, values["particles"], "o", i))
    cold = np.where(result.resolved, result.cold, np.nan)
    curves.append(Curve(t, cold, "--", 7, "zero temperature"))
    return Panel(result.case.name, "t", "W2 to the limit; dots: particles", curves, log="y")


def study(options: Options) -> Outcome:
    """All cases at all their temperatures."""
    results = (measure(case, options.frequency) for case in CASES if options.only in case.name)
    return Outcome.joined(
        Outcome([table(one)], promised(one), findings(one), [panel(one)]) for one in results
    )


main = Command(study, meshes=[12], full=[32], only=True)


if __name__ == "__main__":
    sys.exit(main())
