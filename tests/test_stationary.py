"""Stationary states: closed forms, agreement with long runs, what is refused."""

import numpy as np
import pytest
from scipy.optimize import brentq

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, SelfAttention, initial
from pde.cells.stationary import NoStationaryState, _null_vector, law_at_rest, stationary_state
from pde.field import Field
from pde.fields.one_body import Drift, PotentialDrift
from pde.simulation import run_to

NORTH = [0.0, 0.0, 1.0]


def noisy(mesh, kappa, beta=0.0, normalized=True, **options):
    d = mesh.ambient_dim
    field = SelfAttention(np.eye(d), np.eye(d), beta, normalized=normalized, **options)
    return FiniteVolume(mesh, Equation(field, diffusion=1.0 / kappa))


def langevin(kappa):
    """m = coth(kappa m) - 1 / (kappa m)."""
    return brentq(lambda m: 1.0 / np.tanh(kappa * m) - 1.0 / (kappa * m) - m, 1e-3, 1.0)


@pytest.mark.parametrize("kappa", [4.0, 8.0])
def test_beta_0_against_the_closed_form(kappa):
    errors = []
    for frequency in (6, 12):
        fv = noisy(icosphere(frequency), kappa)
        found = stationary_state(fv, initial.von_mises_fisher(NORTH, 2.0))
        m = np.linalg.norm(fv.measure(found.state).mean())
        errors.append(abs(m - langevin(kappa)))
        assert found.residual < 1e-10
    assert 1.65 < np.log2(errors[0] / errors[1]) < 2.35
    assert errors[1] < 1e-4


def test_below_the_threshold_only_the_uniform_law_is_left():
    mesh = icosphere(6)
    found = stationary_state(noisy(mesh, 2.8), initial.von_mises_fisher(NORTH, 2.0), 1e-9, 5)
    np.testing.assert_allclose(found.state, 1.0 / mesh.total_area, rtol=1e-6)


@pytest.mark.parametrize("normalized", [True, False])
def test_a_run_stays_where_the_solver_says(normalized):
    fv = noisy(icosphere(6), 8.0, beta=1.0, normalized=normalized, tolerance=None)
    rho = stationary_state(fv, initial.von_mises_fisher(NORTH, 5.0), 1e-12).state
    assert rho.max() > 3.0 * rho.min()
    assert np.abs(run_to(fv, rho, 3.0) - rho).max() < 1e-11 * rho.max()


SHIFT, D = 0.02, 0.02
TURNING = np.array([[1.0, 2.0, 0.3], [-1.5, 0.2, 0.4], [0.1, -0.6, -0.7]])


def two_wells(mesh):
    """v = P_x (x_1 + .02) e_1 as a field that knows no potential, and as one that does."""
    e = np.eye(mesh.ambient_dim)[0]
    bare = PrescribedVelocity(lambda x, t: (x[:, :1] + SHIFT) * (e - x[:, :1] * x))
    climbing = PotentialDrift(
        lambda x: 0.5 * (x[:, 0] + SHIFT) ** 2, lambda x: (x[:, :1] + SHIFT) * e
    )
    return bare, climbing


def share(mesh, rho):
    """Of the mass at x_1 > 0."""
    masses = rho * mesh.areas
    return masses[mesh.centers[:, 0] > 0].sum() / masses.sum()


@pytest.mark.parametrize(
    ("mesh", "error"), [(icosphere(8), 5e-4), (circle(100), 1e-4)], ids=["sphere", "circle"]
)
def test_wells_that_exchange_next_to_nothing_have_their_shares(mesh, error):
    """e^{(x_1 + .02)^2 / (2 D)}: .87634 of the mass on the right on the sphere, .87860 on S^1."""
    d = mesh.ambient_dim
    angles = np.linspace(0.0, np.pi, 20001)
    gibbs = np.exp((np.cos(angles) + SHIFT) ** 2 / (2 * D)) * np.sin(angles) ** (d - 2)
    right = np.trapezoid(gibbs[:10001]) / np.trapezoid(gibbs)
    assert right == pytest.approx({3: 0.87634, 2: 0.87860}[d], abs=1e-5)
    for field, bound in zip(two_wells(mesh), (error, 5e-5), strict=True):
        found = stationary_state(FiniteVolume(mesh, Equation(field, D)), np.ones(mesh.n_cells))
        assert share(mesh, found.state) == pytest.approx(right, abs=bound)
        assert found.iterations <= 3


@pytest.mark.parametrize("D", [8e-4, 6.4e-4, 3e-4])
@pytest.mark.parametrize("mesh", [icosphere(6), circle(100)], ids=["sphere", "circle"])
def test_elimination_keeps_every_digit_of_a_gibbs_law(mesh, D):
    """The drift is that of a potential, but the solver is not told: over 280 to 750 decades.

    Exchange between the wells is far below the smallest float64; it decides their shares, e : 1/e.
    """
    e = np.eye(mesh.ambient_dim)[0]
    climbing = PotentialDrift(lambda x: 0.5 * (x[:, 0] + D) ** 2, lambda x: (x[:, :1] + D) * e)
    fv = FiniteVolume(mesh, Equation(climbing, D))
    expected = law_at_rest(fv, np.ones(mesh.n_cells))
    assert np.ptp(expected) > 0.49 / D
    found = _null_vector(fv, np.ones(mesh.n_cells), 0.0)
    expected = np.maximum(expected - expected.max(), -700.0)
    np.testing.assert_allclose(found - found.max(), expected, rtol=1e-9, atol=1e-9)
    # Near the poles (1 + D)^2 and (1 - D)^2 differ by 4 D: the quotient of the masses is e^2, but
    # for the peaks' widths, which differ by as little as D.
    assert share(mesh, np.exp(found)) == pytest.approx(1.0 / (1.0 + np.exp(-2.0)), abs=1e-3)


def test_elimination_balances_what_flows_through_each_cell():
    """Measured by the fluxes of the scheme, relative to what goes in and out."""
    mesh = icosphere(6)
    fv = FiniteVolume(mesh, Equation(Drift(TURNING), 0.05))
    rho = np.exp(_null_vector(fv, np.ones(mesh.n_cells), 0.0))
    generator = fv.stage(0.0, rho).generator
    gross = generator.rates() * rho
    assert np.abs(fv.rhs(0.0, rho) / gross).max() < 1e-12
    assert np.abs(fv.rhs(0.0, rho * (1.0 + 1e-6 * mesh.centers[:, 2])) / gross).max() > 1e-8


@pytest.mark.parametrize("D", [1e-5, 1e-30])
@pytest.mark.parametrize("mesh", [icosphere(6), circle(37)], ids=["sphere", "circle"])
def test_drifts_that_fluxes_cut_are_refused(mesh, D):
    """Their rates say e^700, or no way back, where they are e^8000: shares of the cut."""
    fv = FiniteVolume(mesh, Equation(two_wells(mesh)[0], D))
    with pytest.raises(ValueError, match="diffusion must be larger .* more than 690 times"):
        stationary_state(fv, np.ones(mesh.n_cells))


def test_elimination_is_the_null_vector_of_turning_laws_too():
    """Without detailed balance, against a dense singular value decomposition."""
    mesh = icosphere(3)
    fv = FiniteVolume(mesh, Equation(Drift(TURNING), 0.3))
    generator = fv.stage(0.0, np.ones(mesh.n_cells)).generator
    dense = np.array([generator.apply(unit) for unit in np.eye(mesh.n_cells)]).T
    null = np.abs(np.linalg.svd(dense)[2][-1])
    found = np.exp(_null_vector(fv, np.ones(mesh.n_cells), 0.0))
    np.testing.assert_allclose(found, null / null.max(), rtol=1e-10)


def test_one_narrow_peak_with_tails_below_float64():
    """kappa = 800, as low temperatures without a potential have it: 1600 e-folds of one well."""
    mesh = icosphere(12)
    climbing = PotentialDrift(lambda x: x[:, 2], lambda x: 0.0 * x + NORTH)
    fv = FiniteVolume(mesh, Equation(climbing, 1.0 / 800.0))
    expected = law_at_rest(fv, np.ones(mesh.n_cells))
    assert np.ptp(expected) > 1590.0
    found = _null_vector(fv, np.ones(mesh.n_cells), 0.0)
    expected = np.maximum(expected - expected.max(), -700.0)
    np.testing.assert_allclose(found - found.max(), expected, rtol=1e-9, atol=1e-9)


def test_laws_that_nothing_decides_are_refused():
    equation = Equation(
        PrescribedVelocity(lambda x, t: np.zeros_like(x)),
        lambda x, mu, t: np.where(x[:, 2] > 0.2, 0.0, 0.1),
    )
    with pytest.raises(NoStationaryState, match="no single law at rest"):
        stationary_state(FiniteVolume(icosphere(4), equation), initial.uniform())


def test_without_a_potential_the_law_at_rest_is_the_null_vector():
    """V not a multiple of B; a run from elsewhere ends in the state found."""
    V = np.array([[1.0, 0.3, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.5]])
    equation = Equation(SelfAttention(V, np.eye(3), 1.0, tolerance=None), diffusion=0.4)
    fv = FiniteVolume(icosphere(5), equation)
    start = fv.initial_state(initial.von_mises_fisher([0.0, 0.6, 0.8], 1.0))
    found = stationary_state(fv, start, 1e-10)
    assert fv.norm(fv.rhs(0.0, found.state)) < 1e-9
    late = run_to(fv, start, 40.0, tolerance=1e-3, max_step=0.3)
    assert fv.norm(late - found.state) < 1e-10


class Spiral(Field):
    """The gradient of 2 z and a rotation about the axis: its law at rest is that of 2 z alone."""

    def velocity(self, x, mu=None, t=0.0):
        return 2.0 * (np.array(NORTH) - x[:, 2:] * x) + np.cross(NORTH, x)


def test_rotation_about_the_axis_leaves_the_gibbs_state():
    errors = []
    for frequency in (6, 12):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(Spiral(), diffusion=0.5))
        w = law_at_rest(fv, np.full(mesh.n_cells, 1.0 / mesh.total_area))
        exact = mesh.average(initial.von_mises_fisher(NORTH, 4.0))
        errors.append(fv.norm(np.exp(w) - exact))
    assert 1.65 < np.log2(errors[0] / errors[1]) < 2.35
    assert errors[1] < 0.01


def test_variable_diffusion():
    """No drift: the law at rest is 1 / D."""
    mesh = icosphere(5)
    still = PrescribedVelocity(lambda x, t: 0.0 * x)
    fv = FiniteVolume(mesh, Equation(still, diffusion=lambda x, mu, t: 1.0 + 0.5 * x[:, 2]))
    found = stationary_state(fv, np.ones(mesh.n_cells))
    np.testing.assert_allclose(np.ptp(found.state * (1.0 + 0.5 * mesh.centers[:, 2])), 0, atol=1e-9)
    assert mesh.areas @ found.state == pytest.approx(mesh.total_area, rel=1e-13)


def test_newton_finds_the_unstable_uniform_state():
    """kappa = 8 > 3: from near the uniform law relaxation leaves it, Newton's method does not."""
    fv = noisy(circle(64), 8.0)
    guess = 1.0 + 1e-3 * fv.mesh.centers[:, 0]
    still = stationary_state(fv, guess, relaxations=0).state
    assert np.ptp(still) < 1e-8
    left = stationary_state(fv, guess, relaxations=60).state
    assert np.ptp(left) > 1.0


def test_what_is_refused():
    mesh = icosphere(3)
    plain = FiniteVolume(mesh, Equation(PotentialDrift(lambda x: x[:, 2], lambda x: 0.0 * x)))
    with pytest.raises(ValueError, match="order 1 or 2 with diffusion > 0"):
        stationary_state(plain, np.ones(92))
    with pytest.raises(ValueError, match="guess must be one density > 0"):
        stationary_state(noisy(mesh, 4.0), np.r_[0.0, np.ones(91)])
    with pytest.raises(ValueError, match="tolerance must be > 0"):
        stationary_state(noisy(mesh, 4.0), np.ones(92), tolerance=0.0)
    with pytest.raises(NoStationaryState, match="within 1 Newton steps .* residual stayed at"):
        stationary_state(noisy(mesh, 30.0, 1.0), initial.uniform(), 1e-13, 1, max_newton=1)


def test_a_law_about_no_axis_of_the_mesh_is_found_up_to_the_meshs_error():
    """V = B = I: it turns slowly towards an axis of the mesh; its order parameter is right."""
    fv = noisy(icosphere(8), 8.0, beta=1.0)
    guess = initial.random_band_limited(seed=0)
    with pytest.raises(NoStationaryState, match="a law about an axis of the mesh"):
        stationary_state(fv, guess)
    found = stationary_state(fv, guess, tolerance=1e-2).state
    exact = stationary_state(fv, initial.von_mises_fisher(NORTH, 5.0)).state
    m, reference = (np.linalg.norm(fv.measure(rho).mean()) for rho in (found, exact))
    assert m == pytest.approx(reference, abs=2e-3)
