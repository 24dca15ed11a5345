"""Diffusion on cells: heat kernels, Gibbs states, positivity, Ito's form, implicit steps."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, SelfAttention, Simulation, initial
from pde.cells.scharfetter_gummel import Exchange
from pde.field import Field
from pde.fields.one_body import PotentialDrift
from pde.simulation import run_to
from pde.time.implicit import implicit

STILL = PrescribedVelocity(lambda x, t: 0.0 * x)
NORTH = np.array([0.0, 0.0, 1.0])


def dirac(mesh, i=7):
    rho = np.zeros(mesh.n_cells)
    rho[i] = 1.0 / mesh.areas[i]
    return rho


def legendre(degree):
    return np.polynomial.legendre.Legendre.basis(degree)


class Slope(Field):
    """v = P_x b grad z: the gradient of b z."""

    def __init__(self, b, known=True):
        self.b, self.known = b, known

    def velocity(self, x, mu=None, t=0.0):
        return self.b * (NORTH - x[:, 2:] * x)

    def potential(self, x, mu=None, t=0.0):
        return self.b * x[:, 2] if self.known else super().potential(x, mu, t)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_harmonics_decay_at_second_order(degree):
    """Degree l decays like exp(-l (l + 1) D t)."""
    D, until = 0.2, 0.5
    factor = np.exp(-degree * (degree + 1) * D * until)
    errors = []
    for frequency in (8, 16):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(STILL, diffusion=D))
        state = run_to(fv, lambda x: 1.0 + 0.5 * legendre(degree)(x[:, 2]), until)
        exact = mesh.average(lambda x: 1.0 + 0.5 * factor * legendre(degree)(x[:, 2]))
        errors.append(np.abs(state - exact).max())
        assert abs(mesh.areas @ (state - exact)) < 1e-12
    assert 1.65 < np.log2(errors[0] / errors[1]) < 2.35
    assert errors[1] < {1: 6e-4, 2: 1.2e-3, 3: 2e-3}[degree]


@pytest.mark.parametrize("relax", [0, 3])
def test_the_laplacian_is_of_second_order_in_the_mean(relax):
    """(1 - s Laplace) u = f of degree 2: order 2 in l1.

    At the twelve pentagons the two-point flux is consistent to first order alone, which the
    maximum norm sees on fine meshes: there 1 is what can be promised.
    """
    axis, s = np.array([0.48, 0.6, 0.64]), 0.2
    errors = []
    for frequency in (16, 32):
        mesh = icosphere(frequency, relax=relax)
        Q = Exchange.scharfetter_gummel(mesh, np.zeros(mesh.n_edges), np.ones(mesh.n_cells))
        exact = mesh.average(lambda x: legendre(2)(x @ axis))
        error = np.abs(Q.implicit_euler(s)((1.0 + 6.0 * s) * exact) - exact)
        errors.append((mesh.areas @ error / (mesh.areas @ np.abs(exact)), error.max()))
    orders = np.log2(np.divide(*errors))
    assert 1.8 < orders[0] < 2.2 and orders[1] > 0.9
    assert errors[-1][0] < 5e-4 and errors[-1][1] < 6e-4


def test_fourier_modes_decay_on_the_circle():
    errors, factor = [], np.exp(-0.4)
    for cells in (64, 128):
        mesh = circle(cells)
        fv = FiniteVolume(mesh, Equation(STILL, diffusion=0.1))
        state = run_to(fv, lambda x: 1.0 + x[:, 0] ** 2 - x[:, 1] ** 2, 1.0, tolerance=1e-6)
        exact = mesh.average(lambda x: 1.0 + factor * (x[:, 0] ** 2 - x[:, 1] ** 2))
        errors.append(np.abs(state - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    assert errors[1] < 2.5e-4


@pytest.mark.parametrize("stepper", ["implicit", "ssprk2", "euler"])
def test_gibbs_states_of_a_potential_stay(stepper):
    mesh = icosphere(8)
    fv = FiniteVolume(mesh, Equation(Slope(2.0), diffusion=0.1))
    gibbs = np.exp(20.0 * (mesh.centers[:, 2] - 1.0))
    sim = Simulation(fv, gibbs, stepper=stepper, tolerance=None if stepper != "implicit" else 1e-4)
    sim.run(until=5.0 if stepper == "implicit" else 0.5)
    np.testing.assert_allclose(sim.state, gibbs, rtol=1e-12 if stepper == "implicit" else 1e-11)


@pytest.mark.parametrize("normalized", [True, False])
def test_gibbs_states_of_attention_stay(normalized):
    """rho = e^{phi[rho] / D} / Z, by iteration; kept to 1e-12 of its maximum."""
    mesh = icosphere(8)
    field = SelfAttention(np.eye(3), np.eye(3), 1.0, normalized=normalized, tolerance=None)
    fv = FiniteVolume(mesh, Equation(field, diffusion=0.1))
    rho = fv.initial_state(initial.von_mises_fisher(NORTH, 5.0))
    for _ in range(300):
        phi = field.potential(mesh.centers, fv.measure(rho))
        rho = np.exp((phi - phi.max()) / 0.1)
        rho /= rho @ mesh.areas
    assert rho.max() / rho.min() > 1e3
    assert np.abs(run_to(fv, rho, 5.0) - rho).max() < 1e-12 * rho.max()


def test_steady_states_without_a_known_potential_are_second_order():
    errors = []
    for frequency in (6, 12):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(Slope(1.0, known=False), diffusion=0.5))
        exact = mesh.average(lambda x: np.exp(2.0 * x[:, 2]))
        start = np.full(mesh.n_cells, mesh.areas @ exact / mesh.total_area)
        state = run_to(fv, start, 8.0, tolerance=1e-3)
        errors.append(np.abs(state - exact) @ mesh.areas / (mesh.areas @ exact))
    assert 1.65 < np.log2(errors[0] / errors[1]) < 2.35
    assert errors[1] < 2.5e-3


@pytest.mark.parametrize("D", [1e-3, 0.2])
def test_positive_and_conservative_from_a_dirac(D):
    mesh = icosphere(8)
    fv = FiniteVolume(mesh, Equation(SelfAttention(np.eye(3), np.eye(3), 2.0), diffusion=D))
    solution = Simulation(fv, dirac(mesh)).run(1.0, save_at=[0.01, 0.1, 1.0])
    assert solution.diagnostics["minimum"].min() >= 0.0
    np.testing.assert_allclose(solution.diagnostics["mass"], 1.0, rtol=0, atol=1e-12)


def test_the_limited_correction_is_positive_and_conservative():
    mesh = icosphere(4)
    rng = np.random.default_rng(1)
    drift = rng.normal(size=mesh.n_edges) * mesh.edge_lengths
    Q = Exchange.scharfetter_gummel(mesh, drift, np.full(mesh.n_cells, 0.3))
    state = rng.random((mesh.n_cells, 2)) ** 8
    source = rng.normal(size=state.shape)
    assert (state + Q.apply(source)).min() < 0.0
    corrected = Q.corrected(state, source)
    assert corrected.min() >= 0.0
    np.testing.assert_allclose(mesh.areas @ corrected, mesh.areas @ state, rtol=1e-13)
    small = 1e-9 * source
    np.testing.assert_allclose(
        Q.corrected(state + 0.1, small), state + 0.1 + Q.apply(small), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("D", [1e4, 1e8, 1e16])
def test_mass_stays_however_stiff_diffusion_is(D):
    """The factorisation alone would lose 1e-16 dt times the fastest rate: 4e-7 at D = 1e8."""
    mesh = icosphere(6, relax=2)
    fv = FiniteVolume(mesh, Equation(SelfAttention(np.eye(3), np.eye(3), 2.0), diffusion=D))
    start = np.stack([dirac(mesh), dirac(mesh, 99)], axis=1)
    state = run_to(fv, start, 1.0, max_step=0.05, tolerance=None)
    np.testing.assert_allclose(mesh.areas @ state, 1.0, rtol=0, atol=1e-13)
    np.testing.assert_allclose(state * mesh.total_area, 1.0, rtol=1e-6)


def test_the_mass_of_perturbations_of_both_signs_stays_too():
    mesh = icosphere(6)
    Q = Exchange.scharfetter_gummel(mesh, np.zeros(mesh.n_edges), np.full(mesh.n_cells, 1.0))
    odd = mesh.centers[:, 2] - mesh.areas @ mesh.centers[:, 2] / mesh.total_area
    found = Q.implicit_euler(100.0)(odd)
    assert abs(mesh.areas @ found) < 1e-15
    np.testing.assert_allclose(found - 100.0 * Q.apply(found), odd, rtol=0, atol=1e-11)


def test_tails_next_to_the_smallest_numbers_stay_positive():
    """Noise against strong attention: the law reaches 5e-324 in the second step."""
    mesh = icosphere(8)
    field = SelfAttention(np.eye(3), np.eye(3), 1000.0)
    state = run_to(FiniteVolume(mesh, Equation(field, diffusion=1e-3)), dirac(mesh), 3.0)
    assert state.min() >= 0.0
    assert 0.0 < state[state > 0.0].min() < 1e-300


def test_the_operator_is_the_flux_formula():
    """Against its two forms written out, also where D vanishes or the drift does."""
    mesh = icosphere(3)
    rng = np.random.default_rng(2)
    D = rng.random(mesh.n_cells) * (rng.random(mesh.n_cells) > 0.3)
    speed = rng.normal(size=mesh.n_edges) * (rng.random(mesh.n_edges) > 0.3)
    rho = rng.random(mesh.n_cells)
    Q = Exchange.scharfetter_gummel(mesh, speed * mesh.edge_lengths, D)
    i, j = mesh.edge_cells.T
    least = np.minimum(D[i], D[j])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p = speed * mesh.edge_distances / least
        forth, back = -p / np.expm1(-p), p / np.expm1(p)
        together = least / mesh.edge_distances * (forth * rho[i] - back * rho[j])
    upwind = np.where(speed > 0, speed * rho[i], speed * rho[j])
    still = least / mesh.edge_distances * (rho[i] - rho[j])
    flux = np.where(least == 0.0, upwind, np.where(speed == 0.0, still, together))
    flux += ((D[i] - least) * rho[i] - (D[j] - least) * rho[j]) / mesh.edge_distances
    flux *= mesh.edge_lengths
    tendency = np.bincount(j, flux, mesh.n_cells) - np.bincount(i, flux, mesh.n_cells)
    np.testing.assert_allclose(Q.apply(rho), tendency / mesh.areas, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [2, 4])
def test_ito_form_of_a_variable_diffusion(order):
    """d_t rho = LaplaceBeltrami(D rho): rho = 1/D is at rest, and a moment moves as it should.

    d/dt int z rho = int D rho LaplaceBeltrami(z) = -2 int D z rho.
    """

    def D(x, mu, t):
        return 0.2 + 0.1 * x[:, 2]

    mesh = icosphere(8)
    fv = FiniteVolume(mesh, Equation(STILL, diffusion=D), order=order)
    rest = 1.0 / D(mesh.centers, None, 0.0)
    assert np.abs(fv.rhs(0.0, rest)).max() < 1e-11
    errors = []
    for frequency in (8, 16):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(STILL, diffusion=D), order=order)
        rho = mesh.average(lambda x: np.exp(x[:, 2] + 0.5 * x[:, 0]))
        z = mesh.average(lambda x: x[:, 2])
        moment = mesh.average(lambda x: x[:, 2] * D(x, None, 0.0) * np.exp(x[:, 2] + 0.5 * x[:, 0]))
        exact = -2.0 * moment @ mesh.areas
        errors.append(abs((fv.rhs(0.0, rho) * z) @ mesh.areas - exact) / abs(exact))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.35)
    assert errors[1] < 5e-3


def test_diffusion_that_depends_on_measure_and_time():
    seen = []

    def D(x, mu, t):
        seen.append((mu.total, t))
        return np.full(len(x), 0.1 * (1.0 + t))

    mesh = icosphere(8)
    fv = FiniteVolume(mesh, Equation(STILL, diffusion=D))
    rho = mesh.average(lambda x: 1.0 + 0.5 * x[:, 2])
    state = run_to(fv, rho, 1.0)
    # int_0^1 D dt = 0.15; the mesh's own rate differs by its error of second order.
    constant = run_to(FiniteVolume(mesh, Equation(STILL, diffusion=0.15)), rho, 1.0)
    assert np.abs(state - constant).max() < 1e-5
    assert seen[0][0] == pytest.approx(mesh.total_area) and seen[-1][1] > 0.9


def test_implicit_steps_are_of_second_order_in_time():
    """With a nonlinear field; the last error is bounded."""
    mesh = circle(64)
    field = SelfAttention(np.eye(2), np.eye(2), 2.0, tolerance=None)
    fv = FiniteVolume(mesh, Equation(field, diffusion=0.2))
    rho = mesh.average(lambda x: 1.0 + 0.8 * x[:, 0] + 0.3 * x[:, 1])
    reference = run_to(fv, rho, 1.0, max_step=1 / 320, tolerance=None)
    errors = [
        fv.norm(run_to(fv, rho, 1.0, max_step=dt, tolerance=None) - reference)
        for dt in (0.1, 0.05, 0.025)
    ]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders[-1] == pytest.approx(2.0, abs=0.15)
    assert errors[-1] < 2e-3


def test_steps_do_not_shrink_with_the_cells():
    counts = []
    for frequency in (4, 16):
        fv = FiniteVolume(icosphere(frequency), Equation(Slope(1.0), diffusion=0.5))
        sim = Simulation(fv, lambda x: (1.0 + 0.5 * x[:, 0]) / (4.0 * np.pi))
        sim.run(1.0)
        counts.append(sim.steps)
        assert sim.limited_by["error"] >= 0.9 * sim.steps
    assert counts[1] <= 1.05 * counts[0]
    bound = fv.stage(0.0, sim.state).bound
    assert 1.0 / counts[1] > 8.0 * bound


def test_k_densities_diffuse_together():
    mesh = icosphere(4)
    fv = FiniteVolume(mesh, Equation(Slope(1.0), diffusion=0.5))
    a, b = mesh.average(lambda x: 1.0 + x[:, 0]), mesh.average(lambda x: 2.0 + x[:, 2])
    both = run_to(fv, np.stack([a, b], axis=1), 0.3, max_step=0.02, tolerance=None)
    for column, one in zip(both.T, (a, b), strict=True):
        np.testing.assert_allclose(
            column, run_to(fv, one, 0.3, max_step=0.02, tolerance=None), rtol=1e-13
        )


@pytest.mark.parametrize(
    "field",
    [
        SelfAttention(np.eye(3), np.eye(3), 1.0, normalized=False),
        PotentialDrift(lambda x: x[:, 2] ** 2, lambda x: 2.0 * x * [0.0, 0.0, 1.0]),
    ],
    ids=["USA", "one body"],
)
def test_free_energy_falls_by_the_dissipation(field):
    """dF/dt = -int rho |v - D grad log rho|^2, to second order in the cells."""
    gaps = []
    for frequency in (6, 12):
        fv = FiniteVolume(icosphere(frequency), Equation(field, diffusion=0.2))
        law = initial.von_mises_fisher([0.6, 0.0, 0.8], 2.0)
        times = np.array([0.095, 0.1, 0.105, 0.295, 0.3, 0.305])
        found = Simulation(fv, law, tolerance=1e-6).run(0.4, save_at=times).diagnostics
        assert (np.diff(found["free_energy"]) < 0.0).all()
        assert (found["dissipation"] > 0.0).all()
        F = found["free_energy"].reshape(2, 3)
        rates = (F[:, 0] - F[:, 2]) / 0.01
        gaps.append(np.abs(rates / found["dissipation"][[1, 4]] - 1.0).max())
    assert gaps[1] < 0.01 and gaps[1] < 0.5 * gaps[0]


def test_free_energy_is_there_where_it_is_defined():
    mesh = icosphere(3)
    normalized = FiniteVolume(mesh, Equation(SelfAttention(np.eye(3), np.eye(3), 1.0), 0.1))
    rho = np.full(mesh.n_cells, 1.0 / mesh.total_area)
    assert "free_energy" not in normalized.diagnostics(0.0, rho)
    D = 0.1
    usa = SelfAttention(np.eye(3), np.eye(3), 1.0, normalized=False, tolerance=None)
    found = FiniteVolume(mesh, Equation(usa, D)).diagnostics(0.0, rho)
    assert found["free_energy"] == pytest.approx(-np.sinh(1.0) / 2.0, rel=1e-3)
    assert found["dissipation"] < 1e-4


def test_clear_errors():
    mesh = icosphere(3)
    plain = FiniteVolume(mesh, Equation(STILL))
    with pytest.raises(ValueError, match='"implicit" needs finite volumes .* diffusion > 0'):
        implicit.step(plain, 0.0, np.ones(mesh.n_cells), 0.1, plain.stage(0.0, np.ones(92)))
    wrong = FiniteVolume(mesh, Equation(STILL, diffusion=lambda x, mu, t: x))
    with pytest.raises(ValueError, match=r"diffusion\(x, mu, t\) must have shape \(92,\)"):
        wrong.rhs(0.0, np.ones(92))
    negative = FiniteVolume(mesh, Equation(STILL, diffusion=lambda x, mu, t: x[:, 2]))
    with pytest.raises(ValueError, match=r"diffusion\(x, mu, t\) must be >= 0, got -"):
        negative.rhs(0.0, np.ones(92))
    with pytest.raises(ValueError, match="diffusion must be >= 0, got -1"):
        Equation(STILL, diffusion=-1)
