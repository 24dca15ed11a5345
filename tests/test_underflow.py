"""Densities at the end of the floating-point range stay densities."""

import numpy as np
import pytest

from meshes import circle
from pde import Equation, FiniteVolume, Simulation, ZeroTemperatureAttention

FIELD = ZeroTemperatureAttention(np.diag([1.0, -1.0]), np.eye(2))


@pytest.mark.parametrize("scale", [5e-324, 1e-322, 1e-310, 1e-292, 1e-288])
def test_an_euler_step_keeps_densities_of_any_size(scale):
    system = FiniteVolume(circle(24), Equation(FIELD), order=2)
    for seed in range(20):
        rho = scale * np.random.default_rng(seed).integers(0, 7, 24)
        rho[0] = 1.0
        stage = system.stage(0.0, rho)
        for share in (0.37, 0.9999):
            dt = share * stage.bound
            after = rho + dt * stage.rhs(dt)
            assert after.min() >= 0.0
            assert system.mesh.areas @ after == pytest.approx(system.mesh.areas @ rho, rel=1e-14)


def test_cells_may_run_empty():
    system = FiniteVolume(circle(24), Equation(FIELD), order=2)
    simulation = Simulation(system, lambda x: np.ones(len(x)))
    solution = simulation.run(until=1500.0, save_at=[0.0, 700.0, 1500.0])
    assert solution.states.min() >= 0.0
    assert solution.states[-1].min() < 1e-250
    assert solution.diagnostics["mass"][-1] == pytest.approx(2.0 * np.pi, rel=1e-12)
