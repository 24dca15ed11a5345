"""The study of gradient flows: energies and moments in closed form, verdicts, files."""

from dataclasses import replace

import numpy as np
import pytest

from meshes import icosphere
from pde import Measure
from validation import exact, gradient_flow
from validation.gradient_flow import AXIS, EPS, M
from validation.problems.axes import AXES

BY_END = {case.end: case for case in gradient_flow.cases()}


def test_energies_of_the_extreme_states():
    def energy(end, points):
        return BY_END[end].field(normalized=False).energy(Measure(points))

    assert energy("Dirac", AXIS[None]) == pytest.approx(BY_END["Dirac"].energy, rel=1e-12)
    assert energy("pair", [AXIS, -AXIS]) == pytest.approx(BY_END["pair"].energy, rel=1e-12)
    assert BY_END["uniform"].energy == pytest.approx(exact.uniform_energy(1.0))
    # Worse at the other axes and for unequal pairs.
    assert energy("Dirac", AXES[3].T[1:2]) < BY_END["Dirac"].energy
    assert energy("pair", [AXIS, AXIS, -AXIS]) < BY_END["pair"].energy - 0.01


def test_the_deviation_is_the_coefficient_of_the_density():
    mesh = icosphere(12)
    rho = mesh.average(lambda x: 1.0 - 0.3 * np.einsum("mi,ij,mj->m", x, M, x) + 0.2 * x[:, 0])
    assert gradient_flow.deviation(Measure.from_mesh(mesh, rho / mesh.total_area)) == pytest.approx(
        -0.3, rel=5e-3
    )


def test_dissipation_is_the_slope_of_the_energy():
    case = BY_END["Dirac"]
    x = np.random.default_rng(4).normal(size=(12, 3))
    mu = Measure(x / np.linalg.norm(x, axis=1, keepdims=True))
    for normalized in (True, False):
        field, step = case.field(normalized), 1e-4
        ahead, behind = (mu.points + s * field.velocity(mu.points, mu) for s in (step, -step))
        energies = [
            field.energy(Measure(y / np.linalg.norm(y, axis=1, keepdims=True)))
            for y in (ahead, behind)
        ]
        slope = (energies[0] - energies[1]) / (2.0 * step)
        assert gradient_flow.dissipation(field, mu) == pytest.approx(slope, rel=1e-6)


def test_steps_back_and_wrong_ends_are_seen():
    mu = Measure(-AXIS[None])
    both = {"grid": np.array([1.0, 0.7, 0.9]), "particles": np.array([1.0, 0.9, 0.8])}
    down = replace(BY_END["near uniform"])
    result = gradient_flow.Result(down, "SA", 0.1, both, 0.5, {"grid": mu, "particles": mu})
    assert result.step_back("grid") == pytest.approx(0.2 / 0.3)
    assert [bar.met for bar in gradient_flow.promised(result)] == [False, True, False]
    assert not any(finding.agrees for finding in gradient_flow.findings(result))
    assert exact.bessel_ratio(1.0) * EPS == pytest.approx(0.102812, abs=1e-5)
