"""Brownian motion of particles: heat semigroup, seeds, restart, agreement with cells."""

import numpy as np
import pytest
from scipy.special import eval_gegenbauer

from meshes import icosphere
from pde import (
    Equation,
    FiniteVolume,
    ParticleSystem,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    initial,
)
from pde.callbacks import AtTimes, Callback
from pde.fields.one_body import Drift, PotentialDrift
from pde.restart import Checkpoint, RestartError
from pde.simulation import run_to
from pde.tokens.noise import Noise

STILL = PrescribedVelocity(lambda x, t: 0.0 * x)


class StopAfterOne(Callback):
    """Ends a run after its first step."""

    def notify(self, sim):
        if sim.steps == 1:
            sim.stop("one step was asked for")


def pole(n, d):
    return np.tile(np.eye(d)[-1], (n, 1))


def harmonic(degree, d, u):
    """The zonal harmonic of that degree, 1 at the pole."""
    if d == 2:
        return np.cos(degree * np.arccos(np.clip(u, -1.0, 1.0)))
    alpha = 0.5 * d - 1.0
    return eval_gegenbauer(degree, alpha, u) / eval_gegenbauer(degree, alpha, 1.0)


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("degree", [1, 2])
def test_harmonics_decay_with_the_heat_semigroup(d, degree):
    """E Y(X_t) = e^{-l (l + d - 2) D t}, within four standard errors of 60,000 paths."""
    D, t, n = 0.3, 0.6, 60_000
    system = ParticleSystem(Equation(STILL, diffusion=D), seed=degree)
    x = run_to(system, pole(n, d), t)
    values = harmonic(degree, d, x[:, -1])
    exact = np.exp(-degree * (degree + d - 2) * D * t)
    assert abs(values.mean() - exact) < 4.0 * values.std() / np.sqrt(n)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("d", [3, 5])
def test_one_kick_agrees_with_the_semigroup_to_second_order(d):
    """The expectation of one kick by quadrature over its length: no sampling noise.

    E f of the angle R with R^2 = s2 chi^2_{d-1}; the error of e^{-(d-1) s} falls by
    8 when s halves.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    grids = np.meshgrid(*[nodes] * (d - 1), indexing="ij") if d == 3 else None
    errors = []
    for s in (0.1, 0.05):
        s2 = 2.0 * s / (1.0 + (d - 2) * s / 3.0)
        if grids is not None:
            radius = np.sqrt(s2 * sum(g**2 for g in grids))
            mean = np.einsum("ij,i,j", np.cos(radius), weights, weights)
        else:
            r = np.linspace(0.0, 12.0, 4001)
            law = r ** (d - 2) * np.exp(-0.5 * r**2)
            mean = (law * np.cos(np.sqrt(s2) * r)).sum() / law.sum()
        errors.append(abs(mean - np.exp(-(d - 1) * s)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.3)
    assert errors[1] < 5e-4


def test_the_kick_has_that_law():
    noise = Noise(Equation(STILL, diffusion=0.5), seed=4)
    moved = noise.kick(0.0, pole(200_000, 3), 0.2, 7)
    s2 = 0.2 / (1.0 + 0.1 / 3.0)
    angle = np.arccos(moved[:, 2])
    assert (angle**2).mean() == pytest.approx(2.0 * s2, rel=0.02)
    assert np.abs(moved[:, :2].mean(axis=0)).max() < 5.0 * np.sqrt(s2 / 200_000)


def test_the_seed_decides_and_nothing_else():
    equation = Equation(SelfAttention(np.eye(3), np.eye(3), 2.0), diffusion=0.1)
    start = initial.sample(initial.uniform(), 50, seed=1)
    first, same, other = (
        run_to(ParticleSystem(equation, seed=seed), start, 0.5) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.01
    noise = Noise(equation, seed=3)
    kicks = [noise.kick(0.0, start, 0.1, number) for number in (0, 1)]
    assert np.abs(kicks[0] - kicks[1]).max() > 0.01


def test_restart_goes_on_to_the_bit(tmp_path):
    equation = Equation(SelfAttention(np.eye(3), np.eye(3), 2.0), diffusion=0.2)
    start = initial.sample(initial.uniform(), 40, seed=1)

    def simulation(seed=5):
        return Simulation(ParticleSystem(equation, seed=seed), start)

    times = [0.4, 1.0]
    whole = simulation().run(1.0, save_at=times)
    path = tmp_path / "restart.npz"
    simulation().run(0.4, save_at=[0.4], callbacks=[Checkpoint(AtTimes([0.4]), path)])
    rest = simulation().run(1.0, save_at=[1.0], resume=path)
    np.testing.assert_array_equal(rest.states[-1], whole.states[-1])
    with pytest.raises(RestartError, match="seed of the noise was 5 and is 6"):
        simulation(seed=6).run(1.0, resume=path)


def test_particles_agree_with_cells():
    """Moments of noisy attention on both; within four standard errors and the cells' error."""
    equation = Equation(SelfAttention(np.diag([2.0, 1.0, 0.5]), np.eye(3), 2.0), diffusion=0.1)
    law = initial.von_mises_fisher([0.6, 0.0, 0.8], 3.0)
    mesh = icosphere(12)
    fv = FiniteVolume(mesh, equation)
    mu = fv.measure(run_to(fv, law, 1.0))
    n = 4_000
    x = run_to(ParticleSystem(equation, seed=2), initial.sample(law, n, seed=3), 1.0, max_step=0.05)
    bars = 4.0 * x.std(axis=0) / np.sqrt(n) + 3e-3
    assert (np.abs(x.mean(axis=0) - mu.mean() / mu.total) < bars).all()
    second = np.abs(x.T @ x / n - mu.second_moment() / mu.total)
    assert second.max() < 4.0 / np.sqrt(n) + 3e-3


def test_weights_reach_a_diffusion_that_depends_on_the_measure():
    def D(x, mu, t):
        return np.full(len(x), mu.weights[0])

    system = ParticleSystem(Equation(STILL, diffusion=D), weights=[0.25, 0.75], seed=0)
    assert system.noise.step_bound(pole(2, 3), 0.0) == pytest.approx(0.02 / 0.25)


def test_clear_errors():
    equation = Equation(STILL, diffusion=0.1)
    with pytest.raises(TypeError, match=r"seed must be an integer, got 1\.5"):
        ParticleSystem(equation, seed=1.5)
    with pytest.raises(ValueError, match="seed must be >= 0, got -1"):
        ParticleSystem(equation, seed=-1)
    assert ParticleSystem(Equation(STILL)).noise is None


@pytest.mark.parametrize("d", [50, 400])
def test_the_mean_direction_decays_in_high_dimension(d):
    """E x(t) = e^{-(d - 1) D t} x(0): the default step resolves it whatever d is."""
    D, n = 0.1, 1_000
    t = 1.0 / ((d - 1) * D)
    x = run_to(ParticleSystem(Equation(STILL, diffusion=D), seed=d), pole(n, d), t)
    height = x[:, -1]
    assert abs(height.mean() - np.exp(-1.0)) < 4.0 * height.std() / np.sqrt(n)


def test_a_steps_length_does_not_depend_on_its_own_kicks():
    """A step shortened for the kicks it has drawn would prefer small ones: 1 - E x_1 off by 6 %.

    At a place of rest the error allows any step, and next to it only short ones.
    """
    slope = PotentialDrift(lambda x: 10.0 * x[:, 0], lambda x: np.tile([10.0, 0.0], (len(x), 1)))
    lengths, rejected = set(), 0
    for seed in range(8):
        sim = Simulation(
            ParticleSystem(Equation(slope, diffusion=0.1), seed=seed), np.array([[1.0, 0.0]])
        )
        sim.run(10.0, callbacks=[StopAfterOne()])
        lengths.add(sim.last_step)
        rejected += sim.rejected["error"]
    assert len(lengths) == 1 and rejected > 0


def test_simulations_of_one_system_go_on_with_new_numbers():
    """Twenty runs of .02 are one of .4: E z = e^{-2 D t} = .819; and a new system begins anew."""
    equation, start = Equation(Drift(np.zeros((3, 3))), 0.25), np.tile([0.0, 0.0, 1.0], (20_000, 1))
    systems = [ParticleSystem(equation, seed=3) for _ in range(2)]
    x, paths = start, []
    for _ in range(20):
        x = run_to(systems[0], x, 0.02)
    assert x[:, 2].mean() == pytest.approx(np.exp(-0.2), abs=3 * 0.25 / np.sqrt(20_000))
    for system in (ParticleSystem(equation, seed=3), systems[1]):
        paths.append(run_to(system, start[:5], 0.02))
    np.testing.assert_array_equal(paths[0], paths[1])
    again = run_to(systems[1], start[:5], 0.02)
    assert np.abs(again - paths[1]).max() > 1e-3


def test_a_restored_simulation_goes_on_with_the_numbers_of_the_snapshot():
    equation, start = Equation(Drift(np.eye(3)), 0.25), [[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]
    first = Simulation(ParticleSystem(equation, seed=3), start)
    first.run(0.2, save_at=[])
    second = Simulation(ParticleSystem(equation, seed=3), start)
    second.restore(first.snapshot())
    for run in (first, second):
        run.run(0.4, save_at=[])
    np.testing.assert_array_equal(first.state, second.state)
