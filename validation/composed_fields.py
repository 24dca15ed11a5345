"""Heads, perceptron, drift and parameters that depend on time, against exact solutions.

    dx/dt = P_x [ sum_h V_h(t) m_h[mu](x) + W(t) s(A x + b) + C(t) x ]

Multi-head attention and the perceptron of a layer (Geshkovski, Letrouit, Polyanskiy, Rigollet,
arXiv:2312.10794; Rigollet, arXiv:2512.01868) with a linear drift. Four cases are solved exactly:

    heads            two heads at beta = 0 are one with V = V_1 + V_2, whose density stays a
                     conformal image of the uniform one
    perceptron       relu with the rows +-A and the columns +-W is linear; with a drift the flow
                     is that of the matrix exp(t (W A + C))
    time             a drift a(t) C has the flow of C after the time int a
    all together     two heads at beta = 0 with V_1 + V_2 = a(t) I, and a perceptron that rotates at
                     the rate c(t): the conformal solution after the time int a, turned by int c

On cells the order in space is measured: second order on the sphere, fourth on the circle. On
particles the order in time: of the flow map where it is known, else of the mean of a cloud that is
a quadrature of the initial law. Step sizes are such that a stepper that took the parameters at the
beginning of a step for those of its stages would show first order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from meshes import SphereMesh, circle, icosphere
from meshes.geometry import norm
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, Simulation
from pde.arguments import Array
from pde.field import Field
from pde.fields.heads import Heads
from pde.fields.one_body import Drift
from pde.fields.perceptron import Perceptron
from pde.fields.time_dependent import TimeDependent
from pde.simulation import run_to
from pde.time.steppers import EXPLICIT
from validation import convergence, exact, norms
from validation.study import Bar, Command, Curve, Options, Outcome, Panel, Table, each

UNTIL = 1.0

STEPS = (10, 20, 40)
"""Numbers of steps in which particles reach UNTIL."""

STEPPERS = ("ssprk2", "ssprk3", "ssprk54")

CIRCLES = (128, 256)
"""Cells of the circle for order 4."""

NAMES = ("heads", "perceptron", "time", "all together")

Density = Callable[[Array], Array]


@dataclass(frozen=True)
class Case:
    """A field with what is exactly known of it.

    density : t -> the density, a function of points, with respect to area
    mean : t -> (d,) the mean of the exact density, or None
    flow : t -> the map of points, or None
    """

    name: str
    field: Field
    density: Callable[[float], Density]
    mean: Callable[[float], Array] | None = None
    flow: Callable[[float], Callable[[Array], Array]] | None = None


def speed(t: float) -> float:
    """a(t), which stays positive and changes within a step."""
    return 1.0 + 0.8 * np.cos(5.0 * t)


def travelled(t: float) -> float:
    """int_0^t a."""
    return t + 0.16 * np.sin(5.0 * t)


def turning(t: float) -> float:
    """c(t)."""
    return 2.0 * np.sin(4.0 * t)


def turned(t: float) -> float:
    """int_0^t c."""
    return 0.5 * (1.0 - np.cos(4.0 * t))


def matrices(d: int) -> tuple[Array, Array]:
    """(S, J): a general matrix and the rotation's generator about an axis, J^3 = -J."""
    random = np.random.default_rng(d)
    S = 0.2 * random.normal(size=(d, d))
    if d == 2:
        return S, np.array([[0.0, -1.0], [1.0, 0.0]])
    axis = np.array([0.6, 0.0, 0.8])
    return S, np.cross(np.eye(3), -axis)


def rotation(J: Array, angle: float) -> Array:
    """e^{angle J} for J^3 = -J (Rodrigues)."""
    return np.eye(len(J)) + np.sin(angle) * J + (1.0 - np.cos(angle)) * (J @ J)


def folded(M: Array) -> Perceptron:
    """The relu perceptron with W A = M: relu(z) - relu(-z) = z."""
    eye = np.eye(len(M))
    return Perceptron(np.hstack([M, -M]), np.vstack([eye, -eye]), activation="relu")


def head(V: Array, number: int) -> SelfAttention:
    """A head at beta = 0, where its B plays no part."""
    B = np.random.default_rng(number).normal(size=V.shape)
    return SelfAttention(V, B, 0.0)


def cases(d: int) -> list[Case]:
    """The four cases in dimension 2 or 3."""
    S, J = matrices(d)
    eye, w0 = np.eye(d), np.array([0.1, -0.1, 0.2])[-d:]
    two, one = exact.InfiniteTemperature(eye + S, w0), exact.InfiniteTemperature(eye, w0)
    linear = exact.ZeroTemperature(S + 0.5 * J + np.diag([0.2, -0.1, -0.1][:d]), eye)

    def all_at(t: float) -> Field:
        return Heads([head(speed(t) * (eye - S), 1), head(speed(t) * S, 2), folded(turning(t) * J)])

    def turned_density(t: float) -> Density:
        R, rho = rotation(J, turned(t)), one.density(travelled(t))
        return lambda x: rho(x @ R)

    def turned_mean(t: float) -> Array:
        return rotation(J, turned(t)) @ one.mean(travelled(t))

    perceptron = folded(S) + Drift(linear.A - S)
    moving = TimeDependent(lambda t: Drift(speed(t) * linear.A))
    return [
        Case("heads", Heads([head(eye, 1), head(S, 2)]), two.density, mean=two.mean),
        Case("perceptron", perceptron, linear.density, flow=linear.flow),
        Case(
            "time",
            moving,
            lambda t: linear.density(travelled(t)),
            flow=lambda t: linear.flow(travelled(t)),
        ),
        Case("all together", TimeDependent(all_at), turned_density, mean=turned_mean),
    ]


def cells_error(case: Case, order: int, mesh: SphereMesh) -> float:
    """Relative l2 error of the cell averages at UNTIL, by default steps."""
    system = FiniteVolume(mesh, Equation(case.field), order=order)
    end = run_to(system, mesh.average(case.density(0.0)), UNTIL)
    return norms.relative(mesh, end, mesh.average(case.density(UNTIL)))["l2"]


def quadrature(density: Density, d: int) -> Measure:
    """A cloud that integrates the density's smooth functions to 2e-11 (here)."""
    nodes = (circle(64) if d == 2 else icosphere(2)).quadrature(8)
    points = nodes.points.reshape(-1, d)
    return Measure(points, nodes.weights.reshape(-1) * density(points))


def particles_error(case: Case, cloud: Measure, stepper: str, steps: int) -> float:
    """Distance to the exact positions, the largest, or to the exact mean, at UNTIL."""
    system = ParticleSystem(Equation(case.field), cloud.weights)
    end = run_to(
        system, cloud.points, UNTIL, stepper=stepper, tolerance=None, max_step=UNTIL / steps
    )
    if case.flow is not None:
        return float(norm(end - case.flow(UNTIL)(cloud.points)).max())
    assert case.mean is not None
    return float(norm(cloud.weights @ end - case.mean(UNTIL)))


def on_cells(frequencies: Sequence[int]) -> dict[tuple[str, int], convergence.Study]:
    """Errors by case and order: order 2 on the sphere, order 4 on the circle."""
    found = {}
    for order, meshes in ((2, list(map(icosphere, frequencies))), (4, list(map(circle, CIRCLES)))):
        for case in cases(meshes[0].ambient_dim):
            error_of = partial(cells_error, case, order)
            found[case.name, order] = convergence.study(error_of, meshes, spacing_of, "l2")
    return found


def spacing_of(mesh: SphereMesh) -> float:
    """The mesh's width."""
    return mesh.spacing


def on_particles() -> dict[tuple[str, str], convergence.Study]:
    """Errors by case and stepper, over the step."""
    found = {}
    for case in cases(3):
        cloud = quadrature(case.density(0.0), 3)
        for stepper in STEPPERS:
            error_of = partial(particles_error, case, cloud, stepper)
            found[case.name, stepper] = convergence.study(error_of, list(STEPS), name="error")
    return found


def table(title: str, studies: dict[Any, convergence.Study]) -> Table:
    """One line for each case and scheme: the last two errors and their observed order."""
    rows = [
        (name, scheme, one.error[-2:][0], one.error[-1], one.order[-1])
        for (name, scheme), one in studies.items()
    ]
    columns = ["case", "order or stepper", *each(".2e", "coarse", "fine")]
    return Table(title, [*columns, "order:.2f"], rows)


LARGEST = {2: 4e-3, 4: 1e-6, "ssprk2": 3e-4, "ssprk3": 2e-5, "ssprk54": 1e-7}
"""Bars for the finest errors, of order 2 from 2,562 cells on."""


def promised(cells: dict[Any, Any], particles: dict[Any, Any]) -> Iterator[Bar]:
    """Orders in space at least the scheme's less 0.35, orders in time the stepper's to 0.15."""
    for (name, order), study in cells.items():
        what = f"{name}, cells of order {order}"
        if order == 2 and study.resolutions[-1].n_cells < 2562:
            continue
        yield Bar.at_most(f"{what}: error", study.error[-1], LARGEST[order])
        if len(study.error) > 1:
            yield Bar.at_least(f"{what}: observed", study.order[-1], order - 0.35)
    for (name, stepper), study in particles.items():
        what, off = f"{name}, {stepper}", study.order[-1] - EXPLICIT[stepper].order
        yield Bar.at_most(f"{what}: observed order, off by", abs(off), 0.15)
        yield Bar.at_most(f"{what}: error", study.error[-1], LARGEST[stepper])


def means(mesh: SphereMesh) -> list[Curve]:
    """First and third coordinate of the mean over time, all together: exact, cells, particles."""
    case = cases(3)[-1]
    assert case.mean is not None
    times, fine = np.linspace(0.0, 2.0, 21), np.linspace(0.0, 2.0, 201)
    cloud = quadrature(case.density(0.0), 3)
    equation = Equation(case.field)
    cells = Simulation(FiniteVolume(mesh, equation), case.density(0.0))
    particles = Simulation(ParticleSystem(equation, cloud.weights), cloud.points, tolerance=1e-6)
    found = {"exact": (fine, "-", np.array([case.mean(t) for t in fine]))}
    for name, form, simulation in (("cells", "o", cells), ("particles", "x", particles)):
        measures = simulation.run(until=2.0, save_at=times).measures
        found[name] = times, form, np.array([mu.mean() for mu in measures])
    return [
        Curve(at, values[:, axis], form, i, f"x{axis + 1}, {name}")
        for name, (at, form, values) in found.items()
        for i, axis in enumerate((0, 2))
    ]


def panels(cells: dict[Any, Any], particles: dict[Any, Any], mesh: SphereMesh) -> Iterator[Panel]:
    """The mean of everything together; errors on cells and of particles."""
    form = {2: "o-", 4: "s--", "perceptron": "s--", "all together": "o-"}
    space = [
        Curve(one.h, one.error, form[order], i % 4, f"{name}, order {order}")
        for i, ((name, order), one) in enumerate(cells.items())
    ]
    time = [
        Curve(one.h, one.error, form[name], STEPPERS.index(stepper), f"{name}, {stepper}")
        for (name, stepper), one in particles.items()
        if name in form
    ]
    yield Panel("all together: mean", "t", "coordinate of the mean", means(mesh))
    yield Panel("cells: sphere (2), circle (4)", "h", "relative l2 error", space, log="xy")
    yield Panel("particles", "step", "error", time, log="xy", ylim=(1e-9, 2.0))


def study(options: Options) -> Outcome:
    """All cases on cells and on particles."""
    cells, particles = on_cells(options.frequencies), on_particles()
    tables = [table("cells", cells), table("particles", particles)]
    drawn = panels(cells, particles, icosphere(min(options.frequencies)))
    return Outcome(tables, promised(cells, particles), panels=drawn)


main = Command(study, meshes=[8, 16], full=[16, 32])


if __name__ == "__main__":
    sys.exit(main())
