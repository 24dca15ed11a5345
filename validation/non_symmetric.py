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
from validation import fits, side_by_side, wasserstein
from validation.problems.axes import AXES, on_axes, tilted
from validation.side_by_side import coupling_cost
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

BETA = 50.0
SETTLED = 4.0
"""From then on the law has gathered on E."""
TOLERANCE = 1e-3


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


def report(
    case: Case,
    measured: Sequence[tuple[str, Mapping[str, float], str]],
    curves: Sequence[Curve],
    findings: Sequence[Finding],
    bars: Sequence[Bar] = (),
) -> Outcome:
    """What was measured by "grid" and "particles" beside what is expected; W2 over time."""
    columns = [f"beta = {BETA:g}", *each(".3f", "cells", "particles"), "expected"]
    rows = [(what, values["grid"], values["particles"], word) for what, values, word in measured]
    panel = Panel(case.name, "t", "W2", curves, log="y")
    return Outcome([Table(case.name, columns, rows)], bars, findings, [panel])


def complex_pair(case: Case, both: side_by_side.SideBySide) -> Outcome:
    """The moving law on the plane of E: distance to it, recurrence, turning."""
    start, t = both.particles[0], both.times
    i = int(np.searchsorted(t, SETTLED))
    images = [start.push(replacement(case.V, time)) for time in t]
    whole, half, moving, turn = {}, {}, {}, {}
    plane, found = np.linalg.svd(spectral_projector(case.V))[0][:, :2], []
    for which, measures in (("grid", both.grid), ("particles", both.particles)):
        whole[which] = distance(measures[i], measures[i + 16])
        half[which] = distance(measures[i], measures[i + 8])
        moving[which] = distance(measures[i], images[i])
        angle = turning(measures, plane)
        turn[which] = abs(angle[i + 16] - angle[i]) / (2.0 * np.pi)
        text = f"{case.name}, {which}: back after T = {case.period:.2f}"
        text += f" to {whole[which]:.3f}, half-way {half[which]:.3f} away"
        found.append(Finding(text, whole[which] < 0.4 * half[which]))
        text = f"{case.name}, {which}: the mean turns {turn[which]:.3f} times in a period, 1"
        found.append(Finding(text, abs(turn[which] - 1.0) < 0.1))
    measured = [
        (f"W2 to (Q_t)_# rho0 at t = {t[i]:.2f}", moving, "0 + temperature error"),
        ("W2(rho_t, rho_{t+T})", whole, "0 + temperature error"),
        ("W2(rho_t, rho_{t+T/2})", half, "not small"),
        ("turns of the mean in T", turn, "1"),
    ]
    fine = side_by_side.fine_measure(tilted, 3)
    moves = [(flow(case.V, time), replacement(case.V, time)) for time in t]
    cold = np.array([coupling_cost(*map(fine.push, pair)) for pair in moves])
    warm = [coupling_cost(*pair) for pair in zip(both.particles, images, strict=True)]
    curves = [
        Curve(t, cold, "--", 7, "zero temperature"),
        Curve(t, warm, "o-", 0, f"particles, beta = {BETA:g}"),
    ]
    # Mass near E's complement, E of dimension 2: W2 ~ t^{1/2} e^{-gap t}.
    rate = fits.rate(t, cold / np.sqrt(np.maximum(t, 1.0)), (t > 1.5) & (t < SETTLED))
    gap = 1.0 - float(np.sort(np.linalg.eigvals(case.V).real)[0])
    proven = Bar.at_least(f"{case.name}: zero-temperature rate, proven", rate, 0.9 * gap)
    return report(case, measured, curves, found, [proven])


def real_pair(case: Case, both: side_by_side.SideBySide) -> Outcome:
    """Two atoms at +-r: masses by the left eigenvector against masses by Pi."""
    P, start = spectral_projector(case.V), both.particles[0]
    left, _, right = np.linalg.svd(P)
    r, l = left[:, 0], right[0]  # noqa: E741
    l = l * np.sign(l @ r)  # noqa: E741
    oblique, orthogonal = (side_by_side.half_mass(tilted, e) for e in (l, r))
    to_oblique = both.of_both(lambda mu: distance_to_pair(mu, r, oblique * mu.total))
    to_orthogonal = both.of_both(lambda mu: distance_to_pair(mu, r, orthogonal * mu.total))
    found, curves = [], []
    for k, which in enumerate(to_oblique):
        mine, other = to_oblique[which], to_orthogonal[which]
        text = f"{case.name}, {which}: closest to the masses of <l, x> {mine.min():.3f},"
        text += f" to those of <r, x> {other.min():.3f}"
        found.append(Finding(text, mine.min() < 0.5 * other.min()))
        curves.append(Curve(both.times, mine, "-", k, f"{which}, to (Q_t)_#"))
        curves.append(Curve(both.times, other, ":", k, f"{which}, to Pi_#"))
    masses = {"grid": oblique, "particles": orthogonal}
    measured = [
        ("least W2 to (Q_t)_# rho0", least(to_oblique), "0 + temperature error"),
        ("least W2 to Pi_# rho0", least(to_orthogonal), "not small"),
        ("mass at +r", masses, "of <l, x> > 0; of <r, x> > 0"),
    ]
    share = float(start.push(flow(case.V, 20.0)).integrate(lambda x: x @ r > 0.0))
    own = float(start.weights @ (start.points @ l > 0.0))
    bar = Bar.at_most(f"{case.name}: mass of the flow at +r, error", abs(share - own), 1e-9)
    return report(case, measured, curves, found, [bar])


def least(values: Mapping[str, Array]) -> dict[str, float]:
    """Over time, of each."""
    return {which: float(series.min()) for which, series in values.items()}


def jordan(case: Case, both: side_by_side.SideBySide) -> Outcome:
    """No exponential rate: the zero-temperature flow's distance falls like a power of t."""
    R, start, end = AXES[3], side_by_side.fine_measure(tilted, 3), float(both.times[-1])
    times = np.geomspace(4.0, 64.0, 9)
    mass = side_by_side.half_mass(tilted, R[:, 1])
    *cold, then = (
        distance_to_pair(start.push(flow(case.V, t)), R[:, 0], mass) for t in (*times, end)
    )
    power = -fits.slope(np.log(times), np.log(cold))
    warm = both.of_both(lambda mu: distance_to_pair(mu, R[:, 0], mass * mu.total))
    curves = [Curve(times, cold, "--", 7, "zero temperature")]
    for k, (which, values) in enumerate(warm.items()):
        curves.append(Curve(both.times, values, "-", k, f"{which}, beta = {BETA:g}"))
    last = {which: values[-1] for which, values in warm.items()}
    measured = [(f"W2 at t = {end:g}", last, f"zero temperature {then:.3f}")]
    text = f"{case.name}: W2 of the zero-temperature flow ~ t^-p, p = {power:.2f}, 1/2 to 1"
    return report(case, measured, curves, [Finding(text, 0.45 < power < 1.05)])


KINDS = {"complex": complex_pair, "real": real_pair, "jordan": jordan}


def measure(case: Case, frequency: int) -> Outcome:
    """Solve at finite temperature and compare."""
    field = SelfAttention(case.V, np.eye(3), BETA)
    both = side_by_side.run(field, tilted, side_by_side.mesh_of(3, frequency), case.times)
    return KINDS[case.kind](case, both)


def study(options: Options) -> Outcome:
    """All cases."""
    cases = [case for case in CASES if options.only in case.name]
    return Outcome.joined((measure(case, options.frequency) for case in cases), columns=2)


main = Command(study, meshes=[10], full=[24], only=True)


if __name__ == "__main__":
    sys.exit(main())
