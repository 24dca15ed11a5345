"""The nonlocal equation at the order of the scheme: finite beta, beta = 0, sphere and circle.

What could cap the order is the velocity: a quadrature of the kernel over the density and an
interpolation to the edges. So each case here is nonlocal and has a reference of its own:

    general V, beta = 0     conformal images of the uniform law, in closed form (d = 3 and 2)
    axisymmetric V, B       the reduction to one variable, to 1e-10 (SA and USA)
    general V, B            the density along characteristics from a spectral quadrature
    growth rates            of harmonics about the uniform law, V = B = I (SA and USA, d = 3 and 2)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import eval_legendre

from meshes import SphereMesh, circle, icosphere
from pde import Equation, FiniteVolume, SelfAttention, initial
from pde.arguments import Array
from pde.cells.reconstruction import Reconstruction
from pde.simulation import run_to
from validation import convergence, exact, norms
from validation.problems.axisymmetric import axisymmetric_solution
from validation.study import Bar, Command, Options, Outcome, Table, each
from validation.transfer import evaluate

GENERAL_V = np.array([[1.0, 0.4, -0.2], [-0.3, 0.7, 0.5], [0.1, -0.2, 1.2]])
GENERAL_B = np.array([[1.0, -0.3, 0.2], [0.4, 0.8, 0.0], [0.0, 0.3, 1.1]])
CELLS_PER_FREQUENCY = 8
"""Cells of the circle for each unit of the sphere's frequency: widths are then alike."""

FLOOR = 2e-7
"""Error below which perturbations of size 1e-3, not the mesh, decide; to it comes what default
steps leave, which falls at the order too."""

ASYMPTOTIC = 24
"""Frequency from which on observed orders are held to 0.35 below the scheme's; before, to 0.85."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with a reference.

    error(mesh, order) -> float : solves and compares
    """

    name: str
    mesh_of: Callable[[int], SphereMesh]
    error: Callable[[SphereMesh, int], float]


def solve(mesh: SphereMesh, field: SelfAttention, order: int, law: Any, until: float) -> Array:
    """Cell averages at time `until`, by default steps."""
    return run_to(FiniteVolume(mesh, Equation(field), order=order), law, until)


def against_averages(field: SelfAttention, start: Any, end: Any, until: float) -> Any:
    """Relative l1 error of the averages, from the densities at the start and the end."""

    def error(mesh: SphereMesh, order: int) -> float:
        rho = solve(mesh, field, order, start, until)
        return norms.relative(mesh, rho, mesh.average(end))["l1"]

    return error


def infinite_temperature(V: Array, w0: Sequence[float], until: float) -> Any:
    """beta = 0 with any V."""
    solution = exact.InfiniteTemperature(V, w0)
    field = SelfAttention(V, np.eye(len(V)), beta=0.0)
    return against_averages(field, solution.density(0.0), solution.density(until), until)


def axisymmetric(beta: float, normalized: bool, until: float) -> Any:
    """V and B with a common axis."""
    field, solution = axisymmetric_solution(beta, normalized)
    return against_averages(field, solution.initial, solution.density(until), until)


def general(beta: float, until: float) -> Any:
    """General V and B: the reconstruction's values against the density along characteristics."""
    law = initial.von_mises_fisher([0.6, 0.0, 0.8], 1.0)
    field = SelfAttention(GENERAL_V, GENERAL_B, beta)
    nodes, weights = spectral_quadrature(32)
    paths = exact.along_characteristics(field, law, nodes, weights, until)

    def error(mesh: SphereMesh, order: int) -> float:
        rho = solve(mesh, field, order, law, until)
        # Constants in the cells would show their own first-order error, not the averages'.
        values = evaluate(Reconstruction(mesh, max(order, 2)), rho, paths.points)
        areas = paths.measure.weights / paths.density
        return float(areas @ np.abs(values - paths.density)) / paths.measure.total

    return error


def growth(beta: float, degree: int, d: int, normalized: bool) -> Any:
    """Relative error of the rate at which a harmonic grows from 1e-3 of the uniform law.

    The runs with +harmonic and -harmonic are subtracted: what both share, the mesh's own deviation
    from uniform and the quadratic effects, drops out.
    """
    field = SelfAttention(np.eye(d), np.eye(d), beta, normalized)
    rate = float(exact.growth_rate(beta, degree, d, normalized))
    until, size = 0.2 / rate, 1e-3
    axis = np.array([0.48, 0.6, 0.64]) if d == 3 else np.array([0.6, 0.8])

    def harmonic(x: Array) -> Array:
        u = np.clip(x @ axis, -1.0, 1.0)
        return eval_legendre(degree, u) if d == 3 else np.cos(degree * np.arccos(u))

    def error(mesh: SphereMesh, order: int) -> float:
        uniform = 1.0 / mesh.total_area
        rho = [
            solve(mesh, field, order, lambda x, s=s: uniform * (1 + s * size * harmonic(x)), until)
            for s in (1.0, -1.0)
        ]
        shape = mesh.average(harmonic)
        ratio = mesh.areas @ (shape * (rho[0] - rho[1])) / (mesh.areas @ shape**2)
        return float(abs(np.log(ratio / (2.0 * size * uniform)) / (rate * until) - 1.0))

    return error


def spectral_quadrature(n: int) -> tuple[Array, Array]:
    """2 n^2 nodes on the sphere, exact for polynomials of degree 2n - 1: Gauss times trapezoid."""
    heights, gauss = leggauss(n)
    angles = np.pi * np.arange(2 * n) / n
    s = np.sqrt(1.0 - heights**2)[:, None]
    points = np.stack(
        [s * np.cos(angles), s * np.sin(angles), np.tile(heights[:, None], 2 * n)], axis=-1
    )
    return points.reshape(-1, 3), np.repeat(gauss * np.pi / n, 2 * n)


def cases() -> Iterator[Case]:
    """All of them; the circle's meshes are as wide as the sphere's."""
    flat = lambda f: circle(CELLS_PER_FREQUENCY * f)  # noqa: E731
    yield Case("beta = 0, d = 3", icosphere, infinite_temperature(GENERAL_V, [0.3, 0, 0.1], 0.5))
    yield Case("beta = 0, d = 2", flat, infinite_temperature(GENERAL_V[:2, :2], [0.3, -0.1], 0.5))
    for normalized in (True, False):
        kind = "SA" if normalized else "USA"
        until = 0.4 if normalized else 0.2
        yield Case(f"axisymmetric {kind}, beta = 2", icosphere, axisymmetric(2, normalized, until))
    yield Case("general V, B, beta = 3", icosphere, general(3.0, 0.4))
    for beta, degree, normalized in ((4.0, 2, True), (1.0, 1, False), (4.0, 3, False)):
        kind = "SA" if normalized else "USA"
        for d, mesh_of in ((3, icosphere), (2, flat)):
            name = f"rate {kind}, beta = {beta:g}, l = {degree}, d = {d}"
            yield Case(name, mesh_of, growth(beta, degree, d, normalized))


def refined(case: Case, order: int, frequencies: Sequence[int]) -> convergence.Study:
    """The case's errors at one order, mesh by mesh."""
    return convergence.study(
        lambda f: case.error(case.mesh_of(f), order), frequencies, lambda f: case.mesh_of(f).spacing
    )


def time_error(mesh: SphereMesh, order: int) -> float:
    """What default steps leave of a velocity that grows by e."""
    still = Equation(SelfAttention(np.eye(mesh.ambient_dim), np.eye(mesh.ambient_dim), 0.0))
    return FiniteVolume(mesh, still, order=order).accuracy(order)


def promised(case: Case, order: int, errors: convergence.Study) -> Bar:
    """The scheme's order on the two finest meshes, or an error at the floor of the case."""
    floor = FLOOR + time_error(case.mesh_of(errors.resolutions[-1]), order)
    if errors.error[-1] < floor:
        return Bar.at_most(
            f"{case.name}, order {order}: error at its floor", errors.error[-1], floor
        )
    slack = 0.35 if errors.resolutions[-1] >= ASYMPTOTIC else 0.85
    name = f"{case.name}, order {order}: observed order"
    return Bar.at_least(name, errors.order[-1], order - slack)


def study(options: Options) -> Outcome:
    """Every case at the order of its scheme."""
    rows, studies, promises = [], {}, []
    for case in cases():
        for order in options.orders if options.only in case.name else ():
            name = f"{case.name}, order {order}"
            errors = studies[name] = refined(case, order, options.frequencies)
            rows.append((case.name, order, *errors.error, errors.order[-1]))
            if len(errors.error) > 1:
                promises.append(promised(case, order, errors))
    heads = [f"error, f = {f}" for f in options.frequencies]
    columns = ["case", "order", *each(".2e", *heads), "observed:.2f"]
    return Outcome([Table("", columns, rows)], promises, panels=[convergence.panel(studies)])


main = Command(study, meshes=[6, 12], full=[8, 16, 32], orders=[2, 4], only=True)


if __name__ == "__main__":
    sys.exit(main())
