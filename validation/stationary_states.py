"""Stationary states of the interaction energy int int e^{<x, Dy>}: minimisers, clusters at rest.

Claims (Rigollet, arXiv:2512.01868, and works cited there; V = +-B, D = beta B):

1. Minimum, D = beta (I + eps M): the density relative to the uniform one is, to first order,
   f = 1 - eps beta (i_1(beta) / i_2(beta)) (x.Mx - tr M / 3), with coefficient 5.1406 at beta = 1.
   Found as the stationary state of V = -B with noise 1/kappa, continued to large kappa. Noise adds
   to the stiffness that the quadratic harmonics feel: the coefficient approaches its limit
   like 1/kappa.
2. Maximum on the circle, D = diag(delta, 1): two equal clusters at +-e_2 are stable for
   delta < tanh 1 = 0.7616, two at +-e_1 for delta tanh(delta) > 1, that is delta > 1.19968;
   in between neither is.
3. Four particles (+-cos phi, +-sin phi), D = diag(d1, d2), are at rest where
   tanh(d1 x^2) / tanh(d2 y^2) = d2 / d1, x = cos phi, y = sin phi.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meshes import SphereMesh, circle, icosphere
from pde import Equation, FiniteVolume, Measure, SelfAttention, initial
from pde.arguments import Array
from pde.cells.stationary import stationary_state
from validation import exact, side_by_side
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

EPS = 0.01
BETAS = (0.5, 1.0, 2.0)
KAPPAS = (1e1, 1e2, 1e3, 1e4)
PAIR_KAPPAS = (10.0, 20.0, 40.0)
SHAPE = np.diag([1.0, 0.0, -1.0])
COEFFICIENT = 5.1406
"""Of the minimiser at beta = 1, to its digits."""


def predicted(beta: float) -> float:
    """beta i_1(beta) / i_2(beta).

    >>> round(predicted(1.0), 4)
    5.1406
    """
    return beta * exact.bessel_ratio(beta)


@dataclass(frozen=True, eq=False)
class Minimiser:
    """Stationary states at growing kappa: their coefficients (k,), the last density (N,)."""

    beta: float
    kappa: Array
    coefficient: Array
    mesh: SphereMesh
    density: Array

    @property
    def limit(self) -> float:
        """Coefficient for kappa -> infinity: 1/coefficient is linear in 1/kappa."""
        inverse, x = 1.0 / self.coefficient[-2:], 1.0 / self.kappa[-2:]
        return float(1.0 / (inverse[1] - x[1] * (inverse[1] - inverse[0]) / (x[1] - x[0])))

    @property
    def error(self) -> float:
        """Of the limit, relative to the prediction."""
        return abs(self.limit / predicted(self.beta) - 1.0)


def minimiser(beta: float, frequency: int) -> Minimiser:
    """Continue the stationary state of V = -B from strong to weak noise."""
    mesh = icosphere(frequency)
    B = np.eye(3) + EPS * SHAPE
    field = SelfAttention(-B, B, beta, normalized=False, tolerance=None)
    rho = mesh.average(initial.uniform())
    quadratic = np.einsum("nd,de,ne->n", mesh.centers, SHAPE, mesh.centers)
    coefficients = []
    for kappa in KAPPAS:
        fv = FiniteVolume(mesh, Equation(field, diffusion=1.0 / kappa))
        rho = stationary_state(fv, rho, tolerance=1e-9, relaxations=0).state
        excess = rho * mesh.total_area - 1.0
        coefficients.append(-(excess @ quadratic) / (quadratic @ quadratic) / EPS)
    return Minimiser(beta, np.array(KAPPAS), np.array(coefficients), mesh, rho)


def velocity_of_angles(angles: Array, delta: float) -> Array:
    """(n,) angular velocities of particles on the circle, USA with V = B = diag(delta, 1)."""
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    D = np.diag([delta, 1.0])
    velocity = SelfAttention(D, D, 1.0, normalized=False, tolerance=None).velocity(x, Measure(x))
    return velocity[:, 1] * x[:, 0] - velocity[:, 0] * x[:, 1]


def growth_of_pair(delta: float, axis: int) -> float:
    """Largest growth rate of perturbations of two equal clusters at +-e_axis, axis 1 or 2.

    Four particles, two in each cluster, have all kinds of modes: clusters that turn together or
    against each other, and clusters that split.
    """
    base = (0.0 if axis == 1 else 0.5 * np.pi) + np.pi * np.array([0.0, 0.0, 1.0, 1.0])
    step = 1e-5
    columns = [
        (velocity_of_angles(base + e, delta) - velocity_of_angles(base - e, delta)) / (2.0 * step)
        for e in step * np.eye(4)
    ]
    return float(np.linalg.eigvals(np.array(columns).T).real.max())


def pair_threshold(axis: int) -> float:
    """delta at which the pair at +-e_axis changes its stability."""
    from scipy.optimize import brentq

    bracket = (1.0, 1.5) if axis == 1 else (0.5, 0.95)
    return float(brentq(lambda delta: growth_of_pair(delta, axis), *bracket, xtol=1e-10))


def expected_thresholds() -> dict[int, float]:
    """delta tanh(delta) = 1 for axis 1, tanh 1 for axis 2."""
    from scipy.optimize import brentq

    first = brentq(lambda delta: delta * np.tanh(delta) - 1.0, 1.0, 1.5, xtol=1e-14)
    return {1: float(first), 2: float(np.tanh(1.0))}


def four_at_rest(d1: float, d2: float) -> tuple[float, float]:
    """phi of the four particles at rest by the formula, and their largest velocity there."""
    from scipy.optimize import brentq

    def gap(phi: float) -> float:
        x2, y2 = np.cos(phi) ** 2, np.sin(phi) ** 2
        return d1 * np.tanh(d1 * x2) - d2 * np.tanh(d2 * y2)

    phi = float(brentq(gap, 1e-6, 0.5 * np.pi - 1e-6, xtol=1e-15))
    angles = np.array([phi, np.pi - phi, np.pi + phi, -phi])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    D = np.diag([d1, d2])
    field = SelfAttention(D, D, 1.0, normalized=False, tolerance=None)
    return phi, float(np.abs(field.velocity(x, Measure(x))).max())


def pairs_on_cells(delta: float, cells: int) -> tuple[SphereMesh, dict[float, Array]]:
    """Two equal clusters at +-e_2 with less and less noise: densities (N,) by kappa.

    Noise exchanges mass between them, and equal masses need not be stable: Newton steps alone,
    from the state before, keep to them.
    """
    mesh = circle(cells)
    D = np.diag([delta, 1.0])
    field = SelfAttention(D, D, 1.0, normalized=False, tolerance=None)
    rho = np.exp(4.0 * mesh.centers[:, 1] ** 2)
    rho /= rho @ mesh.areas
    found = {}
    for kappa in PAIR_KAPPAS:
        fv = FiniteVolume(mesh, Equation(field, diffusion=1.0 / kappa))
        rho = stationary_state(fv, rho, tolerance=1e-8, relaxations=0).state
        found[kappa] = rho
    return mesh, found


def tables(
    found: Sequence[Minimiser], thresholds: dict[int, float], rest: Sequence[tuple[float, ...]]
) -> list[Table]:
    """Coefficients over kappa; where pairs change their stability; four particles at rest."""
    rows = [(m.beta, *m.coefficient, m.limit, predicted(m.beta), m.error) for m in found]
    columns = ["beta:g", *each(".4f", *(f"kappa = {kappa:g}" for kappa in KAPPAS))]
    columns += [*each(".4f", "limit", "formula"), "error:.1e"]
    formulas = expected_thresholds().items()
    pairs = [(f"+-e_{axis}", thresholds[axis], value) for axis, value in formulas]
    at_rest = [*each("g", "d1", "d2"), "phi of four at rest:.6f", "largest speed:.1e"]
    return [
        Table(f"minimiser on {found[0].mesh.n_cells:,} cells", columns, rows),
        Table("", ["pair at", *each(".8f", "threshold of delta", "formula")], pairs),
        Table("", at_rest, rest),
    ]


def promised(
    found: Sequence[Minimiser], thresholds: dict[int, float], speeds: Sequence[float]
) -> Iterator[Bar]:
    """Coefficients, thresholds, particles at rest."""
    for one in found:
        # First order in eps and second in the cells.
        bound = 1.0 * one.mesh.spacing**2 + EPS
        yield Bar.at_most(f"beta = {one.beta:g}: coefficient, error", one.error, bound)
    at_one = next(one for one in found if one.beta == 1.0)
    error = abs(at_one.limit - COEFFICIENT) / COEFFICIENT
    yield Bar.at_most("beta = 1: coefficient against 5.1406, error", error, 0.01)
    for axis, expected in expected_thresholds().items():
        what = f"pair at +-e_{axis}: threshold of delta, error"
        yield Bar.at_most(what, abs(thresholds[axis] - expected), 1e-6)
    yield Bar.at_most("four particles at rest: largest speed", max(speeds), 1e-12)


def findings() -> Iterator[Finding]:
    """Both pairs on both sides of the thresholds."""
    for delta, stable in ((0.7, 2), (1.0, None), (1.3, 1)):
        rates = {axis: growth_of_pair(delta, axis) for axis in (1, 2)}
        words = ", ".join(f"+-e_{axis}: {rate:+.3f}" for axis, rate in rates.items())
        agrees = {axis for axis, rate in rates.items() if rate < -1e-6} == ({stable} - {None})
        text = f"delta = {delta:g}: growth rates {words}; stable: {stable or 'neither'}"
        yield Finding(text, agrees)


def panels(found: Sequence[Minimiser], cells: int) -> Iterator[Panel]:
    """Coefficient over kappa, growth rates over delta, two clusters on the circle."""
    curves = []
    for i, one in enumerate(found):
        limit = np.full(len(one.kappa), predicted(one.beta))
        curves.append(Curve(one.kappa, one.coefficient, "o-", i, f"beta = {one.beta:g}"))
        curves.append(Curve(one.kappa, limit, "--", i))
    yield Panel("minimiser: f = 1 - c eps x.Mx", "kappa", "c", curves, log="x")
    deltas, rates = np.linspace(0.4, 1.6, 61), []
    for axis, expected in expected_thresholds().items():
        values = [growth_of_pair(delta, axis) for delta in deltas]
        rates.append(Curve(deltas, values, "-", axis, f"clusters at +-e_{axis}"))
        rates.append(Curve([expected], [0.0], "o", axis, f"threshold {expected:.4f}"))
    yield Panel("D = diag(delta, 1)", "delta", "largest growth rate", rates)
    mesh, laws = pairs_on_cells(0.5, cells)
    angle = np.arctan2(mesh.centers[:, 1], mesh.centers[:, 0])
    order = np.argsort(angle)
    pairs = [
        Curve(angle[order], rho[order], "-", i, f"kappa = {kappa:g}")
        for i, (kappa, rho) in enumerate(laws.items())
    ]
    yield Panel("delta = 0.5, with noise", "angle", "density at rest", pairs)


def study(options: Options) -> Outcome:
    """The three claims."""
    found = [minimiser(beta, options.frequency) for beta in BETAS]
    thresholds = {axis: pair_threshold(axis) for axis in (1, 2)}
    rest = [(d1, d2, *four_at_rest(d1, d2)) for d1, d2 in ((1.0, 1.0), (0.9, 1.0), (2.0, 1.7))]
    return Outcome(
        tables(found, thresholds, rest),
        promised(found, thresholds, [row[3] for row in rest]),
        findings(),
        panels(found, side_by_side.CELLS_PER_FREQUENCY * options.frequency),
    )


main = Command(study, meshes=[10], full=[20])


if __name__ == "__main__":
    sys.exit(main())
