"""B = V and B = -V: attention as a gradient flow, its energy and its final states.

Claim (Rigollet, arXiv:2512.01868; Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931): for symmetric
B and V = c B, c = 1 or -1, with Z = int e^{beta <x, B y>} drho(y),

    E = 1/(2 beta) int int e^{beta <x, B y>} drho drho,
    dE/dt = c int |v|^2 drho (unnormalised, USA),   c int |v|^2 Z drho (SA),

so B = V climbs and B = -V descends. What lies at the end (formulas for the extreme states):

    B = V positive definite     the Dirac at the top eigenvector, E = e^{beta b} / (2 beta)
    B = V negative definite     an equal pair on the most negative axis, E = cosh(beta b) / (2 beta)
    B = -V = I                  the uniform law, E = sinh(beta) / (2 beta^2)
    B = -V = I + eps M          density ~ 1 - eps beta (i_1/i_2)(beta) (x^T M x - tr M/3) with the
                                modified spherical Bessel functions, to first order in eps

Only the energy is proven to be monotone; that a flow reaches the global extremum is not (masses of
two separate clusters, for one, can no longer change), so final states are findings. A cluster on
cells fills the cells around its axis: two cell widths are allowed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pde import Measure, SelfAttention, initial
from pde.arguments import Array
from pde.limits import distance_to_pair
from pde.partition.softmax import log_partition
from validation import exact, side_by_side
from validation.problems.axes import AXES, symmetric
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

TIMES = np.linspace(0.0, 24.0, 97)
EPS = 0.02
M = symmetric([1.0, -1.0, 0.0])
BALANCED = 4.0
"""Time until which the balance of energy is checked: later hardly anything changes."""
LARGEST_STEP_BACK = {"grid": 1e-3, "particles": 1e-5}
"""Relative to the whole change: the cells' energy is monotone up to the error of the scheme."""


@dataclass(frozen=True, eq=False)
class Case:
    """B, the sign c of V = c B, beta, the state at the end and its energy."""

    name: str
    B: Array
    sign: float
    beta: float
    end: str
    energy: float

    @cached_property
    def V(self) -> Array:
        """(3, 3) value matrix c B."""
        return self.sign * self.B

    def field(self, normalized: bool) -> SelfAttention:
        """SA or USA."""
        return SelfAttention(self.V, self.B, self.beta, normalized)


def cases(beta: float = 1.0) -> tuple[Case, ...]:
    """The four of the docstring."""
    near = symmetric([1, 1, 1]) + EPS * M
    positive = symmetric([1.0, 0.8, 0.4])
    return (
        Case("B = V > 0", positive, 1.0, beta, "Dirac", exact.dirac_energy(beta)),
        Case("B = V < 0", -positive, 1.0, beta, "pair", float(np.cosh(beta) / (2.0 * beta))),
        Case("B = -V = I", symmetric([1, 1, 1]), -1.0, beta, "uniform", exact.uniform_energy(beta)),
        Case("B = -V = I + eps M", near, -1.0, beta, "near uniform", np.nan),
    )


LAW = initial.von_mises_fisher([0.48, 0.6, 0.64], 0.8)
AXIS = AXES[3][:, 0]
"""Eigenvector of the largest |b|."""


def deviation(mu: Measure) -> float:
    """Coefficient a of the part a (x^T M x), tr M = 0, of mu's density to the uniform law.

    <x^T M x, x^T M x> = 2 tr(M^2) / 15 under the uniform law.
    """
    return float(15.0 * np.sum(M * mu.second_moment()) / (2.0 * np.sum(M * M)))


def dissipation(field: SelfAttention, mu: Measure) -> float:
    """int |v|^2 drho (USA), int |v|^2 Z drho (SA)."""
    square = np.square(field.velocity(mu.points, mu)).sum(axis=1)
    if field.normalized:
        log_z, _ = log_partition(field.beta * (mu.points @ field.B), mu)
        square *= np.exp(log_z)
    return float(mu.weights @ square)


@dataclass(frozen=True, eq=False)
class Result:
    """Energies (K,) over time, relative error of the balance, and the last measures."""

    case: Case
    kind: str
    width: float
    energies: dict[str, Array]
    balance: float
    last: dict[str, Measure]

    def step_back(self, which: str) -> float:
        """The largest change against the flow's direction, relative to the whole change."""
        energy = self.case.sign * self.energies[which]
        return float(max(0.0, -np.diff(energy).min()) / np.ptp(energy))

    def half(self, which: str) -> float:
        """The final mass on the side of +AXIS."""
        mu = self.last[which]
        return float(mu.weights @ (mu.points @ AXIS > 0.0))

    def end(self, which: str) -> tuple[float, float, float]:
        """(what was measured of the final state, what it should be, tolerance)."""
        mu, case = self.last[which], self.case
        if case.end == "Dirac":
            side = AXIS * np.sign(mu.mean() @ AXIS)
            return distance_to_pair(mu, side, mu.total), 0.0, 2.0 * self.width
        if case.end == "pair":
            return distance_to_pair(mu, AXIS, self.half(which)), 0.0, 2.0 * self.width
        if case.end == "uniform":
            moments = mu.second_moment() - np.eye(3) / 3.0
            return float(np.abs(mu.mean()).max() + np.abs(moments).max()), 0.0, 0.01
        expected = -EPS * case.beta * exact.bessel_ratio(case.beta)
        return deviation(mu), expected, 0.1 * abs(expected)


NAMES = {
    "Dirac": "W2 to the Dirac",
    "pair": "W2 to a pair of the masses that it has",
    "uniform": "first and second moments less the uniform law's",
    "near uniform": "coefficient of x^T M x",
}


def measure(case: Case, normalized: bool, frequency: int) -> Result:
    """Solve and evaluate energies; the balance is the particles'."""
    field = case.field(normalized)
    both = side_by_side.run(field, LAW, side_by_side.mesh_of(3, frequency), TIMES)
    energies = both.of_both(field.energy)
    early = TIMES <= BALANCED
    work = np.array([dissipation(field, mu) for mu in np.array(both.particles)[early]])
    gained = case.sign * (energies["particles"][early][-1] - energies["particles"][0])
    balance = float(abs(np.trapezoid(work, TIMES[early]) / gained - 1.0))
    last = {"grid": both.grid[-1], "particles": both.particles[-1]}
    return Result(case, "SA" if normalized else "USA", both.width, energies, balance, last)


def table(results: Sequence[Result]) -> Table:
    """Energies, steps back and final states."""
    rows = []
    for one in results:
        for which in ("grid", "particles"):
            energy = one.energies[which]
            names, numbers = (one.case.name, one.kind, which), (*energy[[0, -1]], one.case.energy)
            rows.append((*names, *numbers, one.step_back(which), *one.end(which)[:2]))
    columns = ["case", "kind", "of", *each(".4f", "E start", "E end", "E extreme")]
    columns += ["step back:.0e", *each(".4f", "final state", "expected")]
    notes = "; ".join(f"{end}: {name}" for end, name in NAMES.items())
    return Table("", columns, rows, f"final state: {notes}")


def findings(result: Result) -> Iterator[Finding]:
    """Whether the flow ends where the energy is extreme."""
    for which in ("grid", "particles"):
        value, expected, tolerance = result.end(which)
        name = f"{result.case.name}, {result.kind}, {which}"
        text = f"{name}: {NAMES[result.case.end]} {value:.4f}, expected {expected:.4f}"
        yield Finding(f"{text} to {tolerance:.4f}", abs(value - expected) <= tolerance)
        if result.case.end == "pair":
            half = result.half(which)
            text = f"{name}: mass on one side {half:.3f}, an equal pair's 0.500"
            yield Finding(text, abs(half - 0.5) < 0.01)


def promised(result: Result) -> list[Bar]:
    """The energy is monotone, and changes by what the velocities say."""
    name = f"{result.case.name}, {result.kind}"
    found = [
        Bar.at_most(f"{name}, {which}: largest step back", result.step_back(which), limit)
        for which, limit in LARGEST_STEP_BACK.items()
    ]
    # The trapezoidal rule over quarters of a unit of time.
    return [*found, Bar.at_most(f"{name}: balance of energy, error", result.balance, 0.03)]


def panels(results: Sequence[Result]) -> Iterator[Panel]:
    """Energies over time, one panel for each case."""
    for case in dict.fromkeys(result.case for result in results):
        curves = [
            Curve(TIMES, one.energies[which], form, k, f"{one.kind}, {name}")
            for k, one in enumerate(one for one in results if one.case is case)
            for which, name, form in (("grid", "cells", "-"), ("particles", "particles", "."))
        ]
        if np.isfinite(case.energy):
            curves.append(Curve(TIMES[[0, -1]], [case.energy] * 2, "--", 7, "extreme"))
        yield Panel(case.name, "t", "E", curves)


def study(options: Options) -> Outcome:
    """All cases, SA and USA."""
    kinds = itertools.product(cases(), (True, False))
    results = [measure(*kind, options.frequency) for kind in kinds]
    return Outcome(
        [table(results)],
        [bar for result in results for bar in promised(result)],
        [finding for result in results for finding in findings(result)],
        panels(results),
        columns=2,
    )


main = Command(study, meshes=[8], full=[20])


if __name__ == "__main__":
    sys.exit(main())
