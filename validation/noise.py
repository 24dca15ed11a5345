"""Noise alone and with a potential: heat kernel, Gibbs states, free energy, Brownian particles.

Claims. (1) Degree-l harmonics decay like e^{-l (l + d - 2) t / kappa}; the two-point flux gives
that at second order in the cell width, in steps that do not shrink with the cells. (2) Where the
velocity is the gradient of a potential phi, the Gibbs density e^{kappa phi} is at rest, to
rounding. (3) With noise, unnormalised attention is the gradient flow of the free energy
(1/kappa) int rho log rho - E(rho): it falls at the rate int rho |v - grad log rho / kappa|^2.
(4) n particles with sqrt(2/kappa) dW have the same moments, up to n^{-1/2}.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from meshes import SphereMesh, icosphere
from pde import (
    Equation,
    FiniteVolume,
    ParticleSystem,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    initial,
)
from pde.arguments import Array
from pde.fields.one_body import Drift
from pde.simulation import run_to
from validation.study import Bar, Command, Curve, Options, Outcome, Panel, Table

KAPPA = 5.0
DEGREES = (1, 2, 3, 4)
UNTIL = 1.0
LAW = initial.von_mises_fisher([0.6, 0.0, 0.8], 4.0)
PARTICLES = 20_000


def still(x: Array, t: float) -> Array:
    """No velocity."""
    return np.zeros_like(x)


def harmonic(degree: int, mesh: SphereMesh) -> Array:
    """(N,) cell averages of the Legendre polynomial of that degree in the height."""
    legendre = np.polynomial.legendre.Legendre.basis(degree)
    return mesh.average(lambda x: legendre(x[:, 2]))


@dataclass(frozen=True)
class Decay:
    """Of one harmonic on one mesh: relative error of its amplitude, and steps taken."""

    degree: int
    frequency: int
    h: float
    error: float
    steps: int
    measured: float


def decay(degree: int, frequency: int) -> Decay:
    """Start from 1 + P_l / 2; the amplitude is the density's product with P_l."""
    mesh = icosphere(frequency)
    fv = FiniteVolume(mesh, Equation(PrescribedVelocity(still), diffusion=1.0 / KAPPA))
    shape = harmonic(degree, mesh)
    start = (1.0 + 0.5 * shape) / mesh.total_area
    run = Simulation(fv, start, tolerance=1e-5)
    run.run(UNTIL, save_at=[])
    test = shape * mesh.areas
    rate = -np.log((run.state @ test) / (start @ test)) / UNTIL
    exact = degree * (degree + 1) / KAPPA
    error = float(abs(rate / exact - 1.0))
    return Decay(degree, frequency, mesh.spacing, error, run.steps, float(rate))


def decays(frequencies: Sequence[int]) -> dict[int, list[Decay]]:
    """For each degree, on all meshes."""
    return {degree: [decay(degree, f) for f in frequencies] for degree in DEGREES}


def gibbs_drift(frequency: int) -> float:
    """Largest change of a Gibbs density in a run, relative to its maximum; potential x.A x / 2."""
    A = np.array([[1.0, 0.5, 0.0], [0.5, -1.0, 0.2], [0.0, 0.2, 0.5]])
    mesh = icosphere(frequency)
    fv = FiniteVolume(mesh, Equation(Drift(A), diffusion=1.0 / KAPPA))
    gibbs = np.exp(KAPPA * fv.equation.field.potential(mesh.centers))
    return float(np.abs(run_to(fv, gibbs, 5.0) - gibbs).max() / gibbs.max())


@dataclass(frozen=True, eq=False)
class Flow:
    """Free energy of a run over time, and what its dissipation adds up to."""

    times: Array
    energy: Array
    dissipated: Array

    @property
    def gap(self) -> float:
        """Largest difference of the two losses, relative to the whole loss."""
        lost = self.energy[0] - self.energy
        return float(np.abs(lost - self.dissipated).max() / lost[-1])


def free_energy(frequency: int) -> Flow:
    """Unnormalised attention with noise, from LAW."""
    field = SelfAttention(np.eye(3), np.eye(3), 1.0, normalized=False)
    fv = FiniteVolume(icosphere(frequency), Equation(field, diffusion=1.0 / KAPPA))
    times = np.linspace(0.0, 2.0, 81)
    found = Simulation(fv, LAW, tolerance=1e-5).run(2.0, save_at=times).diagnostics
    rates = found["dissipation"]
    steps = 0.5 * (rates[1:] + rates[:-1]) * np.diff(times)
    return Flow(times, found["free_energy"], np.concatenate([[0.0], np.cumsum(steps)]))


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments over time (K, 12) of cells and particles, and n^{-1/2}."""

    times: Array
    grid: Array
    particles: Array
    error: float

    @property
    def gap(self) -> float:
        """Largest difference of a moment in units of n^{-1/2}; its standard deviation is < 1."""
        return float(np.abs(self.grid - self.particles).max() / self.error)


def moments(frequency: int, n: int) -> Moments:
    """Attention with noise on cells and particles."""
    field = SelfAttention(np.diag([2.0, 1.0, 0.5]), np.eye(3), 2.0)
    equation = Equation(field, diffusion=1.0 / KAPPA)
    times = np.linspace(0.0, 3.0, 13)
    grid = Simulation(FiniteVolume(icosphere(frequency), equation), LAW)
    cloud = Simulation(
        ParticleSystem(equation, seed=1), initial.sample(LAW, n, seed=2), tolerance=1e-5
    )
    both = []
    for run in (grid, cloud):
        measures = run.run(float(times[-1]), save_at=times).measures
        both.append(
            np.array([np.r_[mu.mean(), mu.second_moment().ravel()] / mu.total for mu in measures])
        )
    return Moments(times, both[0], both[1], n**-0.5)


def decay_table(found: dict[int, list[Decay]]) -> Table:
    """Errors of the rates and orders."""
    rows = []
    for degree, series in found.items():
        orders = [None, *(_order(*pair) for pair in pairwise(series))]
        rate = degree * (degree + 1) / KAPPA
        for one, order in zip(series, orders, strict=True):
            rows.append((degree, one.frequency, one.measured, rate, one.error, order, one.steps))
    columns = ["degree", "frequency", "rate:.5f", "l(l+1)/kappa:.4f"]
    columns += ["relative error:.2e", "order:.2f", "steps"]
    return Table("", columns, rows)


def _order(coarse: Decay, fine: Decay) -> float:
    return float(np.log(coarse.error / fine.error) / np.log(coarse.h / fine.h))


def promised(
    found: dict[int, list[Decay]], gibbs: float, flow: Flow, both: Moments
) -> Iterator[Bar]:
    """Order two with a bound on the last error, Gibbs states, free energy, moments."""
    for degree, series in found.items():
        order = _order(series[-2], series[-1])
        yield Bar.at_least(f"degree {degree}: observed order", order, 1.65)
        yield Bar.at_most(f"degree {degree}: observed order", order, 2.35)
        # The two-point operator's relative error on degree l is about l (l + 1) h^2 / 24.
        bound = degree * (degree + 1) * series[-1].h ** 2 / 12.0
        yield Bar.at_most(f"degree {degree}: error of the rate", series[-1].error, bound)
    yield Bar.at_most("Gibbs density: change until t = 5", gibbs, 1e-12)
    yield Bar.at_most("free energy: largest rise", float(np.diff(flow.energy).max()), 0.0)
    yield Bar.at_most("free energy: loss against dissipation", flow.gap, 0.01)
    yield Bar.at_most("moments, cells to particles, in n^(-1/2)", both.gap, 5.0)


def panels(found: dict[int, list[Decay]], flow: Flow, both: Moments) -> list[Panel]:
    """Errors over h, free energy over time, moments over time."""
    errors = [
        Curve([one.h for one in series], [one.error for one in series], "o-", i, f"l = {degree}")
        for i, (degree, series) in enumerate(found.items())
    ]
    h = np.array(errors[-1].x)
    errors.append(Curve(h, 0.5 * h**2, ":", 7, "h^2"))
    lost = (flow.energy[0] - flow.dissipated)[::4]
    energy = [
        Curve(flow.times, flow.energy, "-", 0, "F(t)"),
        Curve(flow.times[::4], lost, "o", 1, "F(0) - dissipated"),
    ]
    means = [
        Curve(both.times, values[:, i], form, i, f"mean {axis}, {name}")
        for i, axis in enumerate("xyz")
        for name, values, form in (("cells", both.grid, "-"), ("particles", both.particles, "o"))
    ]
    return [
        Panel("decay of harmonics", "h", "relative error of the rate", errors, log="xy"),
        Panel("free energy, USA, beta = 1", "t", "F", energy),
        Panel(f"SA, beta = 2, kappa = {KAPPA:g}", "t", "mean", means),
    ]


def study(options: Options) -> Outcome:
    """The four claims."""
    found = decays(options.frequencies)
    gibbs, flow = gibbs_drift(options.frequency), free_energy(options.frequency)
    both = moments(options.frequency, PARTICLES if options.full else PARTICLES // 5)
    promises = promised(found, gibbs, flow, both)
    return Outcome([decay_table(found)], promises, panels=panels(found, flow, both))


main = Command(study, meshes=[6, 12], full=[8, 16, 32])


if __name__ == "__main__":
    sys.exit(main())
