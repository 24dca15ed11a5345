"""Densities with negative cells, as schemes without limiter give: measures, files, pictures."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, Measure, SelfAttention, Simulation, Solution, initial
from pde.simulation import run_to
from sphere_attention_scripts.simulate import main

I3 = np.eye(3)


def system(order=4, mesh=None, normalized=True):
    mesh = icosphere(6) if mesh is None else mesh
    d = mesh.ambient_dim
    field = SelfAttention(np.eye(d), np.eye(d), 4.0, normalized=normalized)
    return FiniteVolume(mesh, Equation(field), order=order, limiter=None)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("mesh", [icosphere(6), circle(40)], ids=["sphere", "circle"])
def test_a_measure_has_the_mass_of_all_cells(mesh, order):
    rho = np.random.default_rng(1).standard_normal(mesh.n_cells) + 0.5
    assert rho.min() < 0.0
    mu = system(order, mesh).measure(rho)
    assert mu.weights.min() >= 0.0
    assert mu.total == pytest.approx(mesh.areas @ rho, rel=1e-13)


def test_without_negative_cells_each_cell_keeps_its_own():
    fv = system()
    rho = np.random.default_rng(1).uniform(size=fv.mesh.n_cells)
    masses = fv.measure(rho).weights.reshape(fv.mesh.n_cells, -1).sum(axis=1)
    np.testing.assert_allclose(masses, rho * fv.mesh.areas, rtol=1e-13)


def test_without_mass_there_is_none():
    fv = system()
    with pytest.raises(ValueError, match=r"must have mass > 0 to be a measure, got -"):
        fv.measure(-np.ones(fv.mesh.n_cells))


def test_unnormalised_attention_does_not_feed_on_what_is_dropped():
    """Its speed is at most the mass times e^beta, whatever undershoots the scheme makes."""
    fv = system(normalized=False)
    run = Simulation(fv, initial.von_mises_fisher([0.0, 0.0, 1.0], 4.0))
    solution = run.run(0.6)
    assert solution.states[-1].min() < 0.0
    np.testing.assert_allclose(solution.diagnostics["mass"], 1.0, rtol=1e-12)
    np.testing.assert_allclose([mu.total for mu in solution.measures], 1.0, rtol=1e-12)
    assert np.abs(run.system.stage(run.t, run.state).bound) > 1e-4
    assert solution.diagnostics["energy"][-1] <= np.exp(4.0) / 8.0


def test_a_file_opens_with_the_measures_that_the_run_had(tmp_path):
    """Nodes of order 4 and all, with and without negative cells."""
    for limiter in ("positivity", None):
        fv = FiniteVolume(icosphere(6), system().equation, order=4, limiter=limiter)
        solution = Simulation(fv, initial.von_mises_fisher([0.0, 0.6, 0.8], 20.0)).run(0.5)
        solution.save(tmp_path / "a.nc")
        for saved, mu in zip(
            Solution.open(tmp_path / "a.nc").measures, solution.measures, strict=True
        ):
            np.testing.assert_array_equal(saved.points, mu.points)
            np.testing.assert_array_equal(saved.weights, mu.weights)
            assert saved.n == 10 * 362


CASE = """
title = "no limiter"
[model]
kind = "zero_temperature"
V = [2.0, 1.0, 0.5]
B = [1.0, 4.0, 1.0]
[mesh]
kind = "icosphere"
frequency = 6
[initial]
law = "random_band_limited"
[scheme]
order = 4
limiter = "none"
[time]
until = 2.0
save_every = 1.0
[compare]
particles = false
"""


def test_a_case_without_limiter_has_its_pictures(tmp_path):
    (tmp_path / "case.toml").write_text(CASE)
    out = tmp_path / "out"
    assert main(["run", str(tmp_path / "case.toml"), "--out", str(out)]) == 0
    assert Solution.open(out / "result.nc").states.min() < 0.0
    assert {"sphere.png", "map.png", "series.png"} <= {path.name for path in out.iterdir()}
    targets = [f"--{kind}={out / name}" for kind, name in (("html", "a.html"), ("vtk", "a.vtu"))]
    assert main(["export", str(out / "result.nc"), *targets]) == 0
    Solution.open(out / "result.nc").plot(out / "own.png", show_clusters=True)


def test_measures_of_ones_own_are_not_signed():
    with pytest.raises(ValueError, match="must be >= 0"):
        Measure.from_mesh(icosphere(2), -np.ones(42))
    assert run_to(system(2), initial.uniform(), 0.1).min() > 0.0
