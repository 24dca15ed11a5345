"""Consensus-based optimisation: weighted means, limits, symmetries, derivatives, noise, errors."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import roots_jacobi

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, initial
from pde.field import UndefinedQuantity
from pde.fields.consensus import (
    ConsensusDiffusion,
    ConsensusDrift,
    PolarisedConsensus,
    consensus_equation,
)
from pde.fields.frozen import Frozen
from pde.partition.tilted import tilted, tilted_covariance, tilted_log_partition
from pde.simulation import run_to


def cloud(n, d=3, seed=0):
    x = np.random.default_rng([n, d, seed]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def measure(n, d=3):
    return Measure(cloud(n, d), np.random.default_rng(n).uniform(0.2, 1.0, n) / n)


def symmetric(d):
    A = np.random.default_rng(d).normal(size=(d, d))
    return A + A.T


def rotation(d):
    return np.linalg.qr(np.random.default_rng(d + 10).normal(size=(d, d)))[0]


def wavy(x):
    return np.cos(5.0 * x[:, 0]) + 2.0 * x[:, 1] * x[:, -1] + x[:, 0]


def along(f, x, e):
    """df/ds of f at x moved by s e and put back on the sphere: differences of fourth order."""

    def difference(h):
        ahead, behind = (
            y / np.linalg.norm(y, axis=1, keepdims=True) for y in (x + h * e, x - h * e)
        )
        return (f(ahead) - f(behind)) / (2.0 * h)

    return (4.0 * difference(5e-4) - difference(1e-3)) / 3.0


def surface_gradient(f, x):
    return np.stack([along(f, x, e) for e in np.eye(x.shape[1])], axis=1)


def surface_divergence(v, x):
    """v is extended off the sphere as constant along rays."""
    return sum(along(v, x, e)[:, k] for k, e in enumerate(np.eye(x.shape[1])))


FIELDS = {
    "plain": lambda J, d: ConsensusDrift(J, beta=3.0, lam=1.5),
    "kappa": lambda J, d: PolarisedConsensus(J, beta=3.0, kappa=0.4, lam=1.5),
    "matrix": lambda J, d: PolarisedConsensus(J, beta=3.0, B=symmetric(d), lam=1.5),
}


@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("kind", FIELDS)
def test_velocity_is_the_weighted_mean_on_paper(kind, d):
    mu, x = measure(40, d), cloud(25, d, seed=1)
    field = FIELDS[kind](wavy, d)
    weights = mu.weights * np.exp(-3.0 * wavy(mu.points))
    if kind == "plain":
        weights = np.tile(weights, (len(x), 1))
    else:
        M = np.eye(d) / 0.4**2 if kind == "kappa" else 3.0 * symmetric(d)
        away = x[:, None] - mu.points[None]
        weights = weights * np.exp(-0.5 * np.einsum("mni,ij,mnj->mn", away, M, away))
    m = weights @ mu.points / weights.sum(axis=1, keepdims=True)
    wanted = 1.5 * (m - np.sum(m * x, axis=1, keepdims=True) * x)
    assert np.abs(field.velocity(x, mu) - wanted).max() < 2e-9  # the kernel's tolerance, 1e-10
    assert np.abs(field.output(x, mu) - 1.5 * m).max() < 2e-9


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("beta", [0.5, 20.0, 1e4])
def test_polarised_with_its_own_objective_is_self_attention(d, beta):
    """J = -|y|_B^2/2, sigma = 0: SA with V = I, to rounding."""
    B = symmetric(d)
    mu, x = measure(60, d), cloud(30, d, seed=1)
    field = PolarisedConsensus(
        lambda y: -0.5 * np.einsum("ni,ij,nj->n", y, B, y), beta, B=B, tolerance=None
    )
    attention = SelfAttention(np.eye(d), B, beta, tolerance=None)
    # The objective's rounding, some 1e-16 |B|, is multiplied by beta.
    rounding = 1e-15 * max(1.0, beta * np.abs(B).sum(axis=1).max())
    assert np.abs(field.velocity(x, mu) - attention.velocity(x, mu)).max() < rounding
    if beta <= 20.0:
        assert field.divergence(x, mu) == pytest.approx(attention.divergence(x, mu), abs=1e-11)


@pytest.mark.parametrize("kind", FIELDS)
def test_rotating_everything_rotates_the_result(kind):
    R, mu, x = rotation(3), measure(40), cloud(25, seed=1)
    field = FIELDS[kind](wavy, 3)
    if kind == "matrix":
        turned = PolarisedConsensus(
            lambda y: wavy(y @ R), beta=3.0, B=R @ symmetric(3) @ R.T, lam=1.5
        )
    else:
        turned = FIELDS[kind](lambda y: wavy(y @ R), 3)
    there = Measure(mu.points @ R.T, mu.weights)
    difference = turned.velocity(x @ R.T, there) - field.velocity(x, mu) @ R.T
    assert np.abs(difference).max() < 2e-9
    D, D_turned = ConsensusDiffusion(field, 0.7), ConsensusDiffusion(turned, 0.7)
    assert D_turned(x @ R.T, there) == pytest.approx(D(x, mu), abs=2e-9)


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("kind", FIELDS)
def test_divergence_by_differences(kind, d):
    mu, x = measure(30, d), cloud(20, d, seed=1)
    field = FIELDS[kind](wavy, d)
    if kind != "plain":
        field.tolerance = None
    by_differences = surface_divergence(lambda y: field.velocity(y, mu), x)
    assert field.divergence(x, mu) == pytest.approx(by_differences, abs=1e-8)


def test_potentials():
    mu, x = measure(30), cloud(20, seed=1)
    two = PolarisedConsensus(wavy, 2.0, B=1.5 * np.eye(3), lam=0.5, tolerance=None)
    for field in (FIELDS["plain"](wavy, 3), FIELDS["kappa"](wavy, 3), two):
        field.tolerance = None
        gradient = surface_gradient(lambda y, f=field: f.potential(y, mu), x)
        assert gradient == pytest.approx(field.velocity(x, mu), abs=1e-8)
    with pytest.raises(UndefinedQuantity, match="kernel"):
        FIELDS["matrix"](wavy, 3).potential(x, mu)
    with pytest.raises(UndefinedQuantity, match="kernel"):
        PolarisedConsensus(wavy, 0.0, B=np.eye(3)).potential(x, mu)


@pytest.mark.parametrize("beta", [1e5, 1e9, 1e300])
def test_cold_means_are_the_best_atoms(beta):
    mu, x = measure(50), cloud(5, seed=1)
    best = mu.points[np.argmin(wavy(mu.points))]
    assert np.abs(ConsensusDrift(wavy, beta).consensus(x, mu) - best).max() < 1e-12
    # Atoms without mass have no say, however low they lie.
    weights = mu.weights.copy()
    weights[np.argmin(wavy(mu.points))] = 0.0
    rest = mu.points[weights > 0.0]
    second = rest[np.argmin(wavy(rest))]
    found = ConsensusDrift(wavy, beta).mean(Measure(mu.points, weights))
    assert np.abs(found - second).max() < 1e-12


def test_ties_share_by_mass():
    mu = Measure(np.eye(3), [1.0, 3.0, 5.0])
    field = ConsensusDrift(lambda x: x[:, 2], beta=1e200)
    assert field.mean(mu) == pytest.approx([0.25, 0.75, 0.0], abs=1e-15)


def test_hot_means_are_plain():
    mu, x = measure(50), cloud(5, seed=1)
    wanted = np.tile(mu.mean() / mu.total, (5, 1))
    for field in (ConsensusDrift(wavy, 0.0), PolarisedConsensus(wavy, 0.0, B=symmetric(3))):
        assert np.abs(field.consensus(x, mu) - wanted).max() < 1e-14


def test_wide_kernels_make_no_difference():
    mu, x = measure(50), cloud(5, seed=1)
    wide = PolarisedConsensus(wavy, 3.0, kappa=1e4).consensus(x, mu)
    assert wide == pytest.approx(ConsensusDrift(wavy, 3.0).consensus(x, mu), abs=1e-7)


def test_adding_a_constant_to_the_objective_changes_nothing():
    mu, x = measure(50), cloud(5, seed=1)
    for kind in FIELDS:
        lifted = FIELDS[kind](lambda y: 1.0 + wavy(y), 3).velocity(x, mu)
        assert lifted == pytest.approx(FIELDS[kind](wavy, 3).velocity(x, mu), abs=1e-9)


def numpy_polarised(x, mu, exponents, M):
    """(log Z, mean): the sums as on paper, shifted by the largest term for each x."""
    with np.errstate(divide="ignore"):
        terms = x @ M @ mu.points.T + exponents + np.log(mu.weights)
    top = terms.max(axis=1, keepdims=True)
    weights = np.exp(terms - top)
    total = weights.sum(axis=1, keepdims=True)
    return (np.log(total) + top)[:, 0], weights @ mu.points / total


@pytest.mark.parametrize("reach", [0.0, 30.0, 3000.0])
@pytest.mark.parametrize("spread", [1.0, 600.0, 5000.0, 1e7])
def test_exponents_of_any_size(reach, spread):
    """Points whose e^a underflows beside the largest decide where xi lifts them above it."""
    points = cloud(300)
    weights = np.random.default_rng(1).uniform(0.0, 1.0, 300)
    weights[:5] = 0.0
    mu, x = Measure(points, weights), cloud(40, seed=1)
    a = spread * np.random.default_rng(2).uniform(-1.0, 1.0, 300)
    a[5:10] = -np.inf
    log_z, mean = tilted_log_partition(reach * x, mu, a)
    wanted_log_z, wanted_mean = numpy_polarised(x, mu, a, reach * np.eye(3))
    size = max(1.0, reach, spread)
    assert log_z == pytest.approx(wanted_log_z, abs=4e-16 * size, rel=4e-16)
    assert mean == pytest.approx(wanted_mean, abs=1e-15 * size)
    twin, covariance = tilted_covariance(reach * x, mu, a)
    assert twin == pytest.approx(mean, abs=1e-12)
    terms = reach * x @ points.T + a + np.log(np.maximum(weights, 1e-300))
    terms[:, weights == 0.0] = -np.inf
    shares = np.exp(terms - wanted_log_z[:, None])
    away = points[None] - wanted_mean[:, None]
    spread_out = np.einsum("mn,mni,mnj->mij", shares, away, away)
    assert covariance == pytest.approx(spread_out, abs=1e-14 * size)
    # The fast sums take over where float64 holds the masses.
    assert tilted_log_partition(reach * x, mu, a, 1e-10)[1] == pytest.approx(mean, abs=1e-9)


def test_tilted_measures():
    mu = Measure(np.eye(3), [1.0, 1.0, 2.0])
    assert tilted(mu, np.zeros(3)).weights == pytest.approx([0.25, 0.25, 0.5], abs=1e-16)
    assert tilted(mu, np.array([-1e9, 0.0, -np.inf])).points.tolist() == [[0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="exponents must be 3 numbers"):
        tilted(mu, np.zeros(2))
    with pytest.raises(ValueError, match="below infinity"):
        tilted(mu, np.array([0.0, np.inf, 0.0]))
    with pytest.raises(ValueError, match="below infinity"):
        tilted(mu, np.array([0.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="must have mass"):
        tilted(mu, np.full(3, -np.inf))


def test_without_noise_particles_meet_the_closed_form():
    """With m = e fixed, u = <x,e> follows du/dt = lam (1 - u^2): u = tanh(lam t + artanh u_0)."""
    e = cloud(1, 4)[0]
    field = Frozen(ConsensusDrift(wavy, beta=5.0, lam=0.7), Measure(e[None]))
    start = cloud(20, 4, seed=3)
    end = run_to(ParticleSystem(Equation(field)), start, 1.5)
    assert end @ e == pytest.approx(np.tanh(0.7 * 1.5 + np.arctanh(start @ e)), abs=1e-7)


def test_diffusion_vanishes_at_the_consensus_alone():
    mu = measure(20)
    field = ConsensusDrift(wavy, beta=1e9)
    D = ConsensusDiffusion(field, sigma=0.6)
    best = mu.points[np.argmin(wavy(mu.points))]
    assert D(best[None], mu, 0.0) == pytest.approx(0.0, abs=1e-15)
    assert D(-best[None], mu, 0.0) == pytest.approx(0.5 * 0.36 * 4.0)
    assert (consensus_equation(field, 0.6).diffusion(mu.points, mu, 0.0) >= 0.0).all()


def towards(e, lam, sigma):
    """Consensus held at the unit vector e, as if the best particle never moved."""
    target, field = Measure(e[None]), ConsensusDrift(wavy, beta=1.0, lam=lam)
    D = ConsensusDiffusion(field, sigma)
    return Equation(Frozen(field, target), lambda x, mu, t: D(x, target, t))


def expected_powers(d, lam, sigma, t, n=48):
    """(E u, E u^2), u = <x,e>, from the uniform law: the backward equation g_t = L g, g(0) = u^k,

    L g = lam (1-u^2) g' + sigma^2 (1-u) [(1-u^2) g'' - (d-1) u g'],

    by collocation at the Gauss points of the uniform law's weight (1-u^2)^((d-3)/2).
    """
    u, weights = roots_jacobi(n, 0.5 * (d - 3), 0.5 * (d - 3))
    away = u[:, None] - u[None] + np.eye(n)
    logs, signs = np.log(np.abs(away)).sum(axis=1), np.prod(np.sign(away), axis=1)
    D = np.exp(logs[:, None] - logs[None]) * signs[:, None] * signs[None] / away
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -D.sum(axis=1))
    speed = lam * (1.0 - u**2) - sigma**2 * (1.0 - u) * (d - 1) * u
    L = speed[:, None] * D + (sigma**2 * (1.0 - u) * (1.0 - u**2))[:, None] * (D @ D)
    return weights @ expm(t * L) @ np.stack([u, u**2], axis=1) / weights.sum()


def test_the_reference_without_noise():
    """tanh(lam t + artanh u) averaged over the uniform law, d = 3: coth t - t / sinh(t)^2."""
    t = 0.7 * 1.2
    mean = expected_powers(3, 0.7, 0.0, 1.2)[0]
    assert mean == pytest.approx(1.0 / np.tanh(t) - t / np.sinh(t) ** 2, abs=1e-10)
    fine, finer = (expected_powers(6, 1.0, 0.4, 1.0, n) for n in (40, 60))
    assert fine == pytest.approx(finer, abs=1e-8)


@pytest.mark.parametrize(("d", "sigma"), [(2, 0.9), (3, 0.8), (6, 0.4), (6, 0.7)])
def test_noise_meets_the_backward_equation(d, sigma):
    """Particles drawn to a consensus that stands still: E u and E u^2 within four errors."""
    e, lam, t, n = cloud(1, d)[0], 0.8, 1.0, 20_000
    start = initial.sample(initial.uniform(d), n, seed=2)
    system = ParticleSystem(towards(e, lam, sigma), seed=1)
    options = {"stepper": "ssprk2", "tolerance": None, "max_step": 0.05}
    u = run_to(system, start, t, **options) @ e
    for values, exact in zip((u, u**2), expected_powers(d, lam, sigma, t), strict=True):
        assert abs(values.mean() - exact) < 4.0 * values.std() / np.sqrt(n)


@pytest.mark.parametrize("d", [2, 3])
def test_cells_meet_the_backward_equation_at_second_order(d):
    e, lam, sigma, t = cloud(1, d)[0], 0.8, 0.8, 1.0
    exact = expected_powers(d, lam, sigma, t)
    errors = []
    for mesh in (circle(60), circle(120)) if d == 2 else (icosphere(6), icosphere(12)):
        fv = FiniteVolume(mesh, towards(e, lam, sigma))
        state = run_to(fv, initial.uniform(d), t, tolerance=1e-4)
        u = mesh.centroids @ e
        errors.append(np.abs(state * mesh.areas @ np.stack([u, u**2], axis=1) - exact))
    assert (errors[1] < 1e-3).all()
    assert (np.log2(errors[0] / errors[1]) > 1.8).all()


def test_cells_keep_mass_and_positivity_and_turn_with_the_objective():
    """A symmetry of the mesh applied to the objective is applied to the density."""
    mesh, flip = icosphere(6), np.diag([-1.0, 1.0, 1.0])
    images = np.argmin(np.linalg.norm(mesh.centers[:, None] @ flip - mesh.centers[None], axis=2), 1)
    assert np.linalg.norm(mesh.centers @ flip - mesh.centers[images], axis=1).max() < 1e-12
    states = []
    for J in (wavy, lambda x: wavy(x @ flip)):
        fv = FiniteVolume(mesh, consensus_equation(ConsensusDrift(J, 4.0), 0.6))
        states.append(run_to(fv, initial.uniform(), 1.0))
    assert states[0].min() >= 0.0
    assert states[0] @ mesh.areas == pytest.approx(1.0, abs=1e-12)
    assert states[1] == pytest.approx(states[0][images], abs=1e-10)
    assert np.ptp(states[0]) > 0.05


def test_at_beta_0_the_uniform_law_stays():
    """m = 0 by symmetry, so that |x-m| is constant: plain diffusion."""
    mesh = icosphere(6)
    fv = FiniteVolume(mesh, consensus_equation(ConsensusDrift(wavy, 0.0), 0.6))
    rho = np.full(mesh.n_cells, 1.0 / mesh.total_area)
    assert run_to(fv, rho, 1.0) == pytest.approx(rho, rel=1e-11)


def test_errors_at_the_door():
    for make in (ConsensusDrift, lambda J, beta, **o: PolarisedConsensus(J, beta, kappa=1.0, **o)):
        with pytest.raises(ValueError, match="beta must be >= 0, got -1"):
            make(wavy, -1.0)
        with pytest.raises(ValueError, match="lam must be > 0, got 0"):
            make(wavy, 1.0, lam=0.0)
        with pytest.raises(TypeError, match="objective must be a function"):
            make(3.0, 1.0)
    with pytest.raises(ValueError, match="sigma must be >= 0, got -0.5"):
        consensus_equation(ConsensusDrift(wavy, 1.0), -0.5)
    with pytest.raises(TypeError, match="field must be a ConsensusDrift"):
        consensus_equation(SelfAttention(np.eye(3), np.eye(3), 1.0), 0.5)
    with pytest.raises(ValueError, match="one of B and kappa"):
        PolarisedConsensus(wavy, 1.0)
    with pytest.raises(ValueError, match="one of B and kappa"):
        PolarisedConsensus(wavy, 1.0, B=np.eye(3), kappa=1.0)
    with pytest.raises(ValueError, match="kappa must be > 0"):
        PolarisedConsensus(wavy, 1.0, kappa=0.0)
    with pytest.raises(ValueError, match="B must be symmetric"):
        PolarisedConsensus(wavy, 1.0, B=[[1.0, 2.0], [0.0, 1.0]])


def test_objectives_are_checked_where_they_are_used():
    mu, x = measure(10), cloud(4)
    with pytest.raises(ValueError, match=r"objective\(x\) must have shape \(10,\)"):
        ConsensusDrift(lambda y: y, 1.0).velocity(x, mu)
    with pytest.raises(ValueError, match=r"objective\(x\) must be finite, got nan"):
        ConsensusDrift(lambda y: np.full(len(y), np.nan), 1.0).velocity(x, mu)
    with pytest.raises(ValueError, match="mu must live in dimension 3"):
        ConsensusDrift(wavy, 1.0).velocity(x, measure(10, 4))
    with pytest.raises(ValueError, match="mu must have mass"):
        ConsensusDrift(wavy, 1.0).velocity(x, Measure(np.eye(3), np.zeros(3)))
