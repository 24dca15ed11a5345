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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshes import SphereMesh, circle, icosphere
from pde import Equation, FiniteVolume, Measure, SelfAttention, initial
from pde.arguments import Array
from pde.stationary import stationary_state
from validation import bars, convergence, side_by_side

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
    from scipy.special import spherical_in

    return float(beta * spherical_in(1, beta) / spherical_in(2, beta))


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


def minimiser_table(found: Sequence[Minimiser]) -> str:
    """Coefficients over kappa."""
    header = ["beta", *(f"kappa = {kappa:g}" for kappa in KAPPAS), "limit", "formula", "error"]
    rows = [
        [
            f"{one.beta:g}",
            *(f"{c:.4f}" for c in one.coefficient),
            f"{one.limit:.4f}",
            f"{predicted(one.beta):.4f}",
            f"{one.error:.1e}",
        ]
        for one in found
    ]
    return f"minimiser on {found[0].mesh.n_cells:,} cells\n{convergence.table(header, rows)}"


def promised(
    found: Sequence[Minimiser], thresholds: dict[int, float], speeds: Sequence[float]
) -> list[bars.Bar]:
    """Coefficients, thresholds, particles at rest."""
    kept = []
    for one in found:
        # First order in eps and second in the cells.
        bound = 1.0 * one.mesh.spacing**2 + EPS
        kept.append(bars.at_most(f"beta = {one.beta:g}: coefficient, error", one.error, bound))
    at_one = next(one for one in found if one.beta == 1.0)
    error = abs(at_one.limit - COEFFICIENT) / COEFFICIENT
    kept.append(bars.at_most("beta = 1: coefficient against 5.1406, error", error, 0.01))
    for axis, expected in expected_thresholds().items():
        what = f"pair at +-e_{axis}: threshold of delta, error"
        kept.append(bars.at_most(what, abs(thresholds[axis] - expected), 1e-6))
    kept.append(bars.at_most("four particles at rest: largest speed", max(speeds), 1e-12))
    return kept


def findings() -> list[side_by_side.Finding]:
    """Both pairs on both sides of the thresholds."""
    found = []
    for delta, stable in ((0.7, 2), (1.0, None), (1.3, 1)):
        rates = {axis: growth_of_pair(delta, axis) for axis in (1, 2)}
        words = ", ".join(f"+-e_{axis}: {rate:+.3f}" for axis, rate in rates.items())
        agrees = {axis for axis, rate in rates.items() if rate < -1e-6} == ({stable} - {None})
        text = f"delta = {delta:g}: growth rates {words}; stable: {stable or 'neither'}"
        found.append(side_by_side.Finding(text, agrees))
    return found


def panels(found: Sequence[Minimiser], cells: int) -> list[side_by_side.Panel]:
    """Coefficient over kappa, growth rates over delta, two clusters on the circle."""
    curves: dict[str, side_by_side.Curve] = {}
    for i, one in enumerate(found):
        curves[f"beta = {one.beta:g}"] = (one.kappa, one.coefficient, "o-", i)
        limit = np.full(len(one.kappa), predicted(one.beta))
        curves[f"_formula {one.beta:g}"] = (one.kappa, limit, "--", i)
    deltas = np.linspace(0.4, 1.6, 61)
    rates: dict[str, side_by_side.Curve] = {}
    for axis, expected in expected_thresholds().items():
        values = np.array([growth_of_pair(delta, axis) for delta in deltas])
        rates[f"clusters at +-e_{axis}"] = (deltas, values, "-", axis)
        rates[f"threshold {expected:.4f}"] = (np.array([expected]), np.zeros(1), "o", axis)
    pairs: dict[str, side_by_side.Curve] = {}
    mesh, laws = pairs_on_cells(0.5, cells)
    angle = np.arctan2(mesh.centers[:, 1], mesh.centers[:, 0])
    order = np.argsort(angle)
    for i, (kappa, rho) in enumerate(laws.items()):
        pairs[f"kappa = {kappa:g}"] = (angle[order], rho[order], "-", i)
    log = {"xscale": "log"}
    return [
        side_by_side.Panel("minimiser: f = 1 - c eps x.Mx", "kappa", "c", curves, log),
        side_by_side.Panel("D = diag(delta, 1)", "delta", "largest growth rate", rates),
        side_by_side.Panel("delta = 0.5, with noise", "angle", "density at rest", pairs),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; 0 where the formulas are met."""
    parser = bars.study_parser("stationary_states", __doc__, [10], [20])
    arguments = parser.parse_args(argv)
    frequency = bars.chosen_frequencies(arguments)[-1]
    found = [minimiser(beta, frequency) for beta in BETAS]
    thresholds = {axis: pair_threshold(axis) for axis in (1, 2)}
    rest = [(d1, d2, *four_at_rest(d1, d2)) for d1, d2 in ((1.0, 1.0), (0.9, 1.0), (2.0, 1.7))]
    rows = [[f"{d1:g}", f"{d2:g}", f"{phi:.6f}", f"{v:.1e}"] for d1, d2, phi, v in rest]
    if arguments.out is not None:
        drawn = panels(found, side_by_side.CELLS_PER_FREQUENCY * frequency)
        side_by_side.draw(drawn, arguments.out / "stationary_states.png")
    tables = [
        minimiser_table(found),
        convergence.table(
            ["pair at", "threshold of delta", "formula"],
            [
                [f"+-e_{axis}", f"{thresholds[axis]:.8f}", f"{value:.8f}"]
                for axis, value in expected_thresholds().items()
            ],
        ),
        convergence.table(["d1", "d2", "phi of four at rest", "largest speed"], rows),
        "\n".join(map(str, findings())),
    ]
    kept = promised(found, thresholds, [row[3] for row in rest])
    return bars.conclude(tables, kept, arguments.out, "stationary_states")


if __name__ == "__main__":
    sys.exit(main())
