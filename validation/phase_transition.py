"""Noise against attention: when the uniform law gives way, and whether it does so continuously.

V = B = I and noise of strength 1/kappa. Claims (Rigollet, arXiv:2512.01868, and the linear theory):

1. The uniform law is stable up to kappa_c = beta / a_1(beta) (USA), beta a_0 / a_1 (SA), with a_l
   of `exact.growth_rate`; for d = 3 beta / i_1 and beta i_0 / i_1; at beta = 0 it is d.
2. Beyond, the law concentrates about one direction, with the order parameter m = |int x drho|.
   The branch of these states leaves the uniform law at kappa_c, towards larger kappa (the
   transition is continuous) for beta below, towards smaller ones (it is discontinuous, with both
   states stable in between) for beta above a critical value: USA 1.816 for d = 3, 2.447 for d = 2.
3. beta = 0, d = 3: rho ~ e^{kappa m.x} with m = coth(kappa m) - 1 / (kappa m).

Stationary states solve rho = e^{kappa phi[rho]} / Z. The branch is followed by its amplitude, not
by kappa, so that it has no fold: of the densities e^{k phi} the one with the given m is taken, its
k is the next kappa, and phi is computed anew, until nothing changes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meshes import SphereMesh
from pde import Equation, FiniteVolume, Measure, SelfAttention, initial
from pde.arguments import Array, number
from pde.cells.stationary import stationary_state
from pde.simulation import run_to
from validation import exact, side_by_side
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

CRITICAL_BETA = {3: 1.816, 2: 2.447}
"""USA: where the transition turns discontinuous."""
THRESHOLD_BETAS = (1.0, 2.0, 5.0)
AMPLITUDES = np.concatenate([[0.05, 0.1, 0.15], np.arange(0.2, 0.93, 0.04)])
STILL = 1e-10
"""Change of log rho at which a state of the branch is accepted."""


def threshold(beta: float, d: int, normalized: bool) -> float:
    """kappa_c of the linear theory; d for beta = 0."""
    if beta == 0.0:
        return float(d)
    return float((d - 1.0) / exact.growth_rate(beta, 1, d, normalized))


def langevin(kappa: float) -> float:
    """m > 0 with m = coth(kappa m) - 1 / (kappa m), for kappa > 3.

    >>> round(langevin(4.0), 6)
    0.599839
    """
    from scipy.optimize import brentq

    if number("kappa", kappa) <= 3.0:
        raise ValueError(f"kappa must be > 3 for m > 0, got {kappa}")
    return float(brentq(lambda m: 1.0 / np.tanh(kappa * m) - 1.0 / (kappa * m) - m, 1e-4, 1.0))


@dataclass(frozen=True, eq=False)
class Branch:
    """Concentrated states: kappa (k,) over the order parameter m (k,)."""

    d: int
    beta: float
    normalized: bool
    m: Array
    kappa: Array

    @property
    def name(self) -> str:
        """For tables."""
        return f"d = {self.d}, {'SA' if self.normalized else 'USA'}, beta = {self.beta:g}"

    @property
    def expected(self) -> float:
        """kappa_c of the linear theory."""
        return threshold(self.beta, self.d, self.normalized)

    @property
    def expansion(self) -> Array:
        """(kappa_c, c, ...) with kappa = kappa_c + c m^2 + ... at the three smallest m."""
        m2 = self.m[:3] ** 2
        return np.asarray(np.linalg.solve(np.vander(m2, increasing=True), self.kappa[:3]))

    @property
    def fold(self) -> float:
        """The smallest kappa of the branch: below it only the uniform law is at rest."""
        return min(float(self.kappa.min()), float(self.expansion[0]))

    @property
    def curve(self) -> tuple[Array, Array]:
        """kappa / kappa_c and m, from the uniform law on."""
        kappa = np.concatenate([self.expansion[:1], self.kappa])
        return kappa / self.expected, np.concatenate([[0.0], self.m])


def attention(beta: float, d: int, normalized: bool) -> SelfAttention:
    """V = B = I."""
    return SelfAttention(np.eye(d), np.eye(d), beta, normalized=normalized)


def branch(
    mesh: SphereMesh, beta: float, normalized: bool, amplitudes: Array = AMPLITUDES
) -> Branch:
    """Follow the branch over the order parameter, from small values on."""
    d = mesh.ambient_dim
    field, height = attention(beta, d, normalized), mesh.centers[:, -1]
    phi, kappas = height, []
    for m in amplitudes:
        for _ in range(500):
            kappa, rho = with_mean(mesh, phi, m)
            before, phi = kappa * phi, field.potential(mesh.centers, Measure.from_mesh(mesh, rho))
            kappa, _ = with_mean(mesh, phi, m)
            if np.ptp(kappa * phi - before) < STILL:
                break
        kappas.append(kappa)
    return Branch(d, beta, normalized, np.asarray(amplitudes), np.array(kappas))


def with_mean(mesh: SphereMesh, phi: Array, m: float) -> tuple[float, Array]:
    """k and rho = e^{k phi} / Z with the mean m along the last axis; phi grows along it."""
    from scipy.optimize import brentq

    height = mesh.centroids[:, -1]

    def law(k: float) -> Array:
        masses = np.exp(k * (phi - phi.max())) * mesh.areas
        return np.asarray(masses / masses.sum())

    top = 1.0 / np.ptp(phi)
    while law(top) @ height < m:
        top *= 2.0
    k = float(brentq(lambda k: law(k) @ height - m, 0.0, top, xtol=1e-13 * top, rtol=1e-13))
    return k, law(k) / mesh.areas


def critical_beta(mesh: SphereMesh, around: float) -> float:
    """USA: where the branch's expansion kappa_c + c m^2 has c = 0."""
    from scipy.optimize import brentq

    def bend(beta: float) -> float:
        return float(branch(mesh, beta, False, AMPLITUDES[:3]).expansion[1])

    return float(brentq(bend, 0.8 * around, 1.2 * around, xtol=1e-4))


@dataclass(frozen=True)
class Growth:
    """Growth rate of a small perturbation of degree 1 in a run, and that of the linear theory."""

    name: str
    ratio: float
    measured: float
    expected: float


def growth(mesh: SphereMesh, beta: float, normalized: bool, ratio: float) -> Growth:
    """In a run at kappa = ratio kappa_c, from 1 + 0.001 z."""
    d = mesh.ambient_dim
    kappa = ratio * threshold(beta, d, normalized)
    fv = FiniteVolume(mesh, Equation(attention(beta, d, normalized), diffusion=1.0 / kappa))
    rho = (1.0 + 1e-3 * mesh.average(lambda x: x[:, -1])) / mesh.total_area
    expected = float(exact.growth_rate(beta, 1, d, normalized, diffusion=1.0 / kappa))
    time = 0.5 / abs(expected)
    end = fv.measure(run_to(fv, rho, time, tolerance=1e-7)).mean()[-1]
    start = fv.measure(rho).mean()[-1]
    name = f"d = {d}, {'SA' if normalized else 'USA'}, beta = {beta:g}"
    return Growth(name, ratio, float(np.log(end / start) / time), expected)


@dataclass(frozen=True)
class Bistability:
    """Between the fold and kappa_c: where runs from either side end, and the branch's upper m."""

    kappa: float
    from_uniform: float
    from_concentrated: float
    stationary: float


def bistability(mesh: SphereMesh, curve: Branch, until: float) -> Bistability:
    """Runs at the middle between the fold and kappa_c; of order parameters."""
    kappa = 0.5 * (curve.fold + curve.expected)
    field = attention(curve.beta, curve.d, curve.normalized)
    fv = FiniteVolume(mesh, Equation(field, diffusion=1.0 / kappa))
    axis = np.eye(curve.d)[-1]

    def order_parameter(rho: Array) -> float:
        return float(np.linalg.norm(fv.measure(rho).mean()))

    near = (1.0 + 0.05 * mesh.average(lambda x: x[:, -1])) / mesh.total_area
    peak = mesh.average(initial.von_mises_fisher(axis, 8.0))
    low, high = (order_parameter(run_to(fv, rho, until, tolerance=1e-3)) for rho in (near, peak))
    return Bistability(kappa, low, high, order_parameter(stationary_state(fv, peak).state))


def branches(mesh: SphereMesh) -> list[Branch]:
    """USA below, at and above the critical beta; SA; beta = 0."""
    critical = CRITICAL_BETA[mesh.ambient_dim]
    unnormalized = [(beta, False) for beta in sorted((1.0, 2.0, critical, 5.0))]
    normalized = [(beta, True) for beta in (0.0, *THRESHOLD_BETAS)]
    return [branch(mesh, *parameters) for parameters in (*unnormalized, *normalized)]


def tables(curves: Sequence[Branch], rates: Sequence[Growth]) -> list[Table]:
    """Thresholds, bends and folds; growth rates in runs."""
    found = []
    for curve in curves:
        measured, bend = curve.expansion[:2]
        found.append((curve.name, measured, curve.expected, bend, curve.fold / measured))
    heads = "kappa_c", "linear theory", "bend c", "fold / kappa_c"
    runs = [(rate.name, rate.ratio, rate.measured, rate.expected) for rate in rates]
    columns = ["run", "kappa / kappa_c:g", *each(".5f", "growth rate", "linear theory")]
    return [Table("", ["branch", *each(".5f", *heads)], found), Table("", columns, runs)]


def promised(
    curves: Sequence[Branch], rates: Sequence[Growth], critical: dict[int, float]
) -> Iterator[Bar]:
    """Thresholds within 1%, the closed form, critical beta within 1%, rates within 3%."""
    for curve in curves:
        error = abs(curve.expansion[0] / curve.expected - 1.0)
        yield Bar.at_most(f"{curve.name}: kappa_c, relative error", error, 0.01)
    for curve in curves:
        if curve.beta == 0.0 and curve.d == 3:
            high = curve.m > 0.3
            closed = np.array([langevin(kappa) for kappa in curve.kappa[high]])
            worst = np.abs(closed - curve.m[high]).max()
            yield Bar.at_most("d = 3, beta = 0: m to coth(kappa m) - ...", worst, 2e-3)
    for d, beta in critical.items():
        error = abs(beta / CRITICAL_BETA[d] - 1.0)
        yield Bar.at_most(f"d = {d}: critical beta {beta:.4f}, error", error, 0.01)
    for rate in rates:
        error = abs(rate.measured / rate.expected - 1.0)
        what = f"{rate.name}, kappa / kappa_c = {rate.ratio:g}: growth rate, relative error"
        yield Bar.at_most(what, error, 0.03)


def findings(curves: Sequence[Branch], two: Bistability) -> list[Finding]:
    """Which transitions are continuous; both states in between."""
    found = []
    for curve in curves:
        critical = CRITICAL_BETA[curve.d]
        if curve.normalized or abs(curve.beta / critical - 1.0) < 0.05:
            continue
        continuous = curve.fold > (1.0 - 1e-4) * curve.expansion[0]
        words = "continuous" if continuous else "discontinuous"
        text = f"{curve.name}: {words} transition, critical beta {critical:g}"
        found.append(Finding(text, continuous == (curve.beta < critical)))
    text = (
        f"d = 3, USA, beta = 5, kappa = {two.kappa:.4f}: runs end at m = {two.from_uniform:.4f} "
        f"and {two.from_concentrated:.4f}; the stationary state has m = {two.stationary:.4f}"
    )
    apart = two.from_uniform < 0.01 and abs(two.from_concentrated - two.stationary) < 0.01
    return [*found, Finding(text, apart and two.stationary > 0.3)]


def panel(d: int, normalized: bool, curves: Sequence[Branch]) -> Panel:
    """Bifurcation diagram; where a branch runs back to smaller kappa it is unstable (dashed)."""
    drawn = []
    for i, curve in enumerate(c for c in curves if (c.d, c.normalized) == (d, normalized)):
        ratio, m = curve.curve
        turn = int(np.argmin(ratio))
        drawn.append(Curve(ratio[turn:], m[turn:], "-", i, f"beta = {curve.beta:g}"))
        drawn.append(Curve(ratio[: turn + 1], m[: turn + 1], "--", i))
    drawn += [Curve([0.6, 1.0], [0, 0], "-", 7, "uniform"), Curve([1.0, 2.0], [0, 0], "--", 7)]
    title, limits = f"d = {d}, {'SA' if normalized else 'USA'}", (-0.02, 0.92)
    words = "m = |int x drho|"
    return Panel(title, "kappa / kappa_c", words, drawn, xlim=(0.6, 2.0), ylim=limits)


def study(options: Options) -> Outcome:
    """Branches, critical temperatures, growth rates, both states in between."""
    meshes = [side_by_side.mesh_of(d, options.frequency) for d in (3, 2)]
    curves = [curve for mesh in meshes for curve in branches(mesh)]
    critical = {m.ambient_dim: critical_beta(m, CRITICAL_BETA[m.ambient_dim]) for m in meshes}
    runs = [(beta, normalized) for beta in (1.0, 5.0) for normalized in (False, True)]
    rates = [growth(meshes[0], *run, ratio) for run in runs for ratio in (0.8, 1.25)]
    folded = next(c for c in curves if c.d == 3 and c.beta == 5.0 and not c.normalized)
    return Outcome(
        tables(curves, rates),
        promised(curves, rates, critical),
        findings(curves, bistability(meshes[0], folded, until=30.0)),
        [panel(*kind, curves) for kind in ((3, False), (2, False), (3, True))],
    )


main = Command(study, meshes=[8], full=[16])


if __name__ == "__main__":
    sys.exit(main())
