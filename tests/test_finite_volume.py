"""The finite-volume scheme: conservation, positivity, exactness of constants, order, its door."""

import numba
import numpy as np
import pytest

from meshes import circle, icosphere
from pde import (
    Equation,
    FiniteVolume,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    StreamFunction,
    ZeroTemperatureAttention,
    initial,
)
from pde.cells.reconstruction import ORDERS
from pde.kernels import fluxes as flux_kernels
from pde.kernels import nodes as node_kernels
from pde.simulation import run_to
from validation import norms
from validation.exact import ZeroTemperature
from validation.problems.transport import non_divergent, slotted_cylinders

CONVERGING = ZeroTemperatureAttention(np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 4.0, 1.0]))
A = np.diag([0.9, 0.4, -0.6])


def dirac(mesh, cell=0):
    rho = np.zeros(mesh.n_cells)
    rho[cell] = 1.0 / mesh.areas[cell]
    return rho


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("field", [non_divergent(), CONVERGING], ids=["deforming", "converging"])
@pytest.mark.parametrize("start", [slotted_cylinders, dirac], ids=["cylinders", "dirac"])
def test_mass_and_positivity_from_rough_data(order, field, start):
    mesh = icosphere(8)
    fv = FiniteVolume(mesh, Equation(field), order=order)
    state = fv.initial_state(start if start is slotted_cylinders else dirac(mesh, 300))
    mass = mesh.areas @ state
    simulation = Simulation(fv, state)
    lowest = []
    while simulation.t < 1.0:
        simulation.run(until=simulation.t + 0.1, save_at=[])
        lowest.append(simulation.state.min())
        assert abs(mesh.areas @ simulation.state - mass) <= 1e-13 * mass
    assert min(lowest) >= 0.0


def test_without_limiter_rough_data_undershoot():
    """The test above has teeth: without the limiter the minimum is negative."""
    fv = FiniteVolume(icosphere(8), Equation(non_divergent()), order=4, limiter=None)
    assert run_to(fv, slotted_cylinders, 1.0).min() < -0.01


@pytest.mark.parametrize("order", ORDERS)
def test_one_euler_step_at_the_bound_empties_no_cell_below_zero(order):
    """The bound is sharp for order 1, and outflow limiting makes it hold for all orders."""
    mesh = icosphere(6)
    rng = np.random.default_rng(order)
    field = PrescribedVelocity(lambda x, t: np.cross(x, np.sin(5.0 * x[:, [1, 2, 0]])) + 0.0 * x)
    fv = FiniteVolume(mesh, Equation(field), order=order)
    for _ in range(5):
        rho = rng.exponential(size=mesh.n_cells) ** 4
        stage = fv.stage(0.0, rho)
        after = rho + stage.bound * stage.rhs(stage.bound)
        assert after.min() >= 0.0
        assert abs(mesh.areas @ (after - rho)) < 1e-13 * (mesh.areas @ rho)
    if order == 1:
        spike = dirac(mesh, int(np.argmax(fv.transport.rates(stage.fluxes, stage.diffusion))))
        too_far = 1.01 * stage.bound
        unlimited = FiniteVolume(mesh, Equation(field), order=1, limiter=None)
        assert (spike + too_far * unlimited.rhs(0.0, spike)).min() < 0.0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("limiter", ["positivity", "monotone", None])
def test_constants_stay_in_non_divergent_flow(order, limiter):
    fv = FiniteVolume(icosphere(8), Equation(non_divergent()), order=order, limiter=limiter)
    state = run_to(fv, np.full(642, 0.7), 0.5)
    assert np.abs(state - 0.7).max() < 1e-13


def test_pure_sink_costs_no_step():
    """A cell that everything enters is bounded only by its neighbours' outflow."""
    mesh = circle(8)
    sink = np.zeros(8)
    sink[0] = 1.0
    fv = FiniteVolume(mesh, Equation(PrescribedVelocity(lambda x, t: 0.0 * x)), order=1)
    assert fv.stage(0.0, sink).bound == np.inf
    towards = PrescribedVelocity(lambda x, t: mesh.centers[0] - (x @ mesh.centers[0])[:, None] * x)
    stage = FiniteVolume(mesh, Equation(towards), order=1).stage(0.0, sink)
    rates = FiniteVolume(mesh, Equation(towards), order=1).transport.rates(
        stage.fluxes, stage.diffusion
    )
    assert rates[0] == 0.0 and rates.max() > 0.0
    np.testing.assert_allclose(stage.stable_step, 0.8 / rates.max())


@pytest.mark.parametrize(
    ("order", "finest", "low", "high"),
    [
        (1, 7e-2, 0.65, 1.1),
        (2, 1.2e-3, 1.65, 2.6),
        (3, 4e-4, 2.65, 3.6),
        (4, 1.2e-4, 3.4, 4.6),
        (6, 2.5e-5, 5.0, 6.6),
        (8, 1.2e-5, 5.0, 8.6),
    ],
)
def test_order_at_zero_temperature(order, finest, low, high):
    """Uniform data, A = diag(.9, .4, -.6), t = .8: the angular central Gaussian, exactly.

    Step sizes follow the mesh, so fourth order in time rules orders 6 and 8 in the end.
    """
    errors = []
    for frequency in (8, 16):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(ZeroTemperatureAttention(A, np.eye(3))), order=order)
        state = run_to(fv, initial.uniform(), 0.8)
        exact = mesh.average(ZeroTemperature(A, np.eye(3)).density(0.8))
        errors.append(mesh.areas @ np.abs(state - exact))
    assert low < np.log2(errors[0] / errors[1]) < high
    assert errors[1] < finest


def rotation_errors(order, angle, frequencies):
    """Relative l2 errors of a smooth density turned about an oblique axis.

    Steps are short enough to leave the error of orders 6 and 8 to space.
    """
    axis = np.array([1.0, 2.0, 2.0]) / 3.0
    density = initial.von_mises_fisher([0.0, 0.6, 0.8], 6.0)

    def rotated(x):  # the density at the point turned back (Rodrigues)
        along = (x @ axis)[:, None] * axis
        return density(along + np.cos(angle) * (x - along) - np.sin(angle) * np.cross(axis, x))

    errors = []
    for frequency in frequencies:
        field = StreamFunction(lambda x, t: -(x @ axis))
        fv = FiniteVolume(icosphere(frequency), Equation(field), order=order)
        state = run_to(fv, density, angle, max_step=0.01 if order > 4 else None)
        errors.append(norms.relative(fv.mesh, state, fv.mesh.average(rotated))["l2"])
    return np.array(errors)


@pytest.mark.parametrize(
    ("order", "finest"), [(1, 0.12), (2, 6e-3), (3, 8e-4), (4, 3e-5), (6, 4e-7)]
)
def test_order_of_rotation(order, finest):
    errors = rotation_errors(order, 0.8, (16, 24))
    observed = np.log(errors[0] / errors[1]) / np.log(1.5)
    assert order - 0.35 < observed < order + 0.6
    assert errors[1] < finest


@pytest.mark.full
def test_order_8_of_rotation():
    """Order 8 shows on meshes where a test takes minutes; its error on coarse ones is bounded."""
    errors = rotation_errors(8, 0.5 * np.pi, (24, 36))
    assert 7.65 < np.log(errors[0] / errors[1]) / np.log(1.5) < 8.6
    assert errors[1] < 6e-10


def test_order_8_beats_order_6():
    assert rotation_errors(8, 0.8, (16,))[0] < 0.1 * rotation_errors(6, 0.8, (16,))[0]


@pytest.mark.parametrize("order", ORDERS)
def test_circle(order):
    """Zero temperature on S^1 against its closed form, steps short enough not to matter."""
    matrix = np.diag([0.8, -0.2])
    errors = []
    for n in (160, 240):
        mesh = circle(n)
        fv = FiniteVolume(mesh, Equation(ZeroTemperatureAttention(matrix, np.eye(2))), order=order)
        exact = mesh.average(ZeroTemperature(matrix, np.eye(2)).density(0.5))
        state = run_to(fv, initial.uniform(2), 0.5, max_step=0.002)
        errors.append(mesh.areas @ np.abs(state - exact))
    assert order - 0.35 < np.log(errors[0] / errors[1]) / np.log(1.5) < order + 0.6
    assert errors[1] < {1: 2e-2, 2: 2e-4, 3: 3e-6, 4: 3e-8, 6: 2e-10, 8: 3e-12}[order]


def test_several_densities_ride_together():
    mesh = icosphere(8)
    fv = FiniteVolume(mesh, Equation(non_divergent()), order=4)
    one, two = slotted_cylinders, initial.von_mises_fisher([-1.0, 0.0, 0.0], 5.0)
    state = np.stack([mesh.average(one), mesh.average(two)], axis=1)
    together = run_to(fv, state, 0.3)
    for k in range(2):
        np.testing.assert_array_equal(together[:, k], run_to(fv, state[:, k].copy(), 0.3))


@pytest.mark.parametrize("velocity_at", ["centroids", "edges"])
@pytest.mark.parametrize(("order", "least"), [(2, 1.65), (4, 3.5)])
def test_both_places_of_the_velocity_have_the_order(velocity_at, order, least):
    errors = []
    field = PrescribedVelocity(lambda x, t: ZeroTemperatureAttention(A, np.eye(3)).velocity(x))
    for frequency in (8, 16):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(field), order=order, velocity_at=velocity_at)
        exact = mesh.average(ZeroTemperature(A, np.eye(3)).density(0.8))
        errors.append(mesh.areas @ np.abs(run_to(fv, initial.uniform(), 0.8) - exact))
    assert least < np.log2(errors[0] / errors[1]) < order + 0.6
    assert errors[1] < {2: 2e-3, 4: 2e-4}[order]


def test_attention_on_uniform_data_stays_uniform_up_to_quadrature():
    """V = B = I leaves uniform data alone; what remains is the quadrature, falling with h."""
    equation = Equation(SelfAttention(np.eye(3), np.eye(3), beta=4.0, tolerance=None))
    for order, finest in ((2, 2e-5), (4, 3e-8)):
        drifts = []
        for frequency in (8, 16):
            fv = FiniteVolume(icosphere(frequency), equation, order=order)
            state = run_to(fv, initial.uniform(), 0.2)
            drifts.append(fv.norm(state - 0.25 / np.pi))
        assert np.log2(drifts[0] / drifts[1]) > order - 0.35
        assert drifts[1] < finest


@pytest.mark.parametrize("order", [3, 4, 6, 8])
def test_measure_carries_the_reconstruction(order):
    """Integrals against a smooth function have the order; masses are positive and exact."""

    def density(x):
        return np.exp(3.0 * x[:, 0] - 2.0 * x[:, 2])

    def test(x):
        return np.cos(4.0 * x[:, 0] + x[:, 1])

    errors = []
    for frequency in (6, 12):
        mesh = icosphere(frequency)
        fv = FiniteVolume(mesh, Equation(non_divergent()), order=order)
        mu = fv.measure(fv.initial_state(density))
        product = mesh.areas @ mesh.average(lambda x: density(x) * test(x))
        errors.append(abs(mu.integrate(test) - product) / product)
        rough = dirac(mesh, 5) + mesh.average(slotted_cylinders)
        masses = fv.measure(rough).weights.reshape(mesh.n_cells, -1)
        assert masses.min() >= 0.0
        np.testing.assert_allclose(masses.sum(axis=1), rough * mesh.areas, rtol=1e-14)
    assert np.log2(errors[0] / errors[1]) > order - 0.8  # one integral: cancellation varies
    assert errors[1] < {3: 1e-4, 4: 3e-6, 6: 1e-7, 8: 1e-8}[order]
    assert len(masses[0]) == {3: 6, 4: 10, 6: 21, 8: 36}[order]


@pytest.mark.parametrize("diffusion", [0.0, 0.3])
def test_diffusion_decays_harmonics(diffusion):
    """Degree-1 harmonics decay like exp(-2 D t); two-point fluxes are second order."""
    errors = []
    for frequency in (8, 16):
        mesh = icosphere(frequency)
        still = PrescribedVelocity(lambda x, t: 0.0 * x)
        fv = FiniteVolume(mesh, Equation(still, diffusion=diffusion), order=2)
        state = run_to(fv, lambda x: 1.0 + 0.5 * x[:, 2], 1.0)
        exact = mesh.average(lambda x: 1.0 + 0.5 * np.exp(-2.0 * diffusion) * x[:, 2])
        errors.append(np.abs(state - exact).max())
        assert abs(mesh.areas @ (state - exact)) < 1e-12
    if diffusion == 0.0:
        assert max(errors) == 0.0
    else:
        assert 1.6 < np.log2(errors[0] / errors[1]) < 2.6 and errors[1] < 1e-3


def test_diffusion_is_in_the_bound():
    mesh = icosphere(4)
    still = PrescribedVelocity(lambda x, t: 0.0 * x)
    fv = FiniteVolume(mesh, Equation(still, diffusion=2.0), order=4)
    rho = dirac(mesh)
    stage = fv.stage(0.0, rho)
    exchange = 2.0 * mesh.edge_lengths / mesh.edge_distances
    leaving = np.bincount(mesh.edge_cells.ravel(), np.repeat(exchange, 2)) / mesh.areas
    np.testing.assert_allclose(stage.bound, 1.0 / leaving.max())
    assert (rho + stage.bound * stage.rhs(stage.bound)).min() >= 0.0


def test_same_bits_on_one_and_two_threads():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    results = []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        mesh = icosphere(8)
        for limiter in ("positivity", "monotone"):
            fv = FiniteVolume(mesh, Equation(non_divergent()), order=6, limiter=limiter)
            state = run_to(fv, slotted_cylinders, 0.2)
            results.append((state, fv.measure(state).weights))
    for first, second in zip(results[:2], results[2:], strict=True):
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])


def test_rotating_everything_rotates_the_result():
    """Mesh, flow and data turned by an orthogonal matrix: the same averages on the same cells."""
    mesh = icosphere(6)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    turned = type(mesh)(
        mesh.centers @ turn.T,
        mesh.vertices @ turn.T,
        mesh.edge_cells,
        mesh.edge_vertices,
        mesh.cell_offsets,
        mesh.cell_vertices,
    )
    rho = mesh.average(slotted_cylinders)
    for order in (2, 4, 8):
        plain = FiniteVolume(mesh, Equation(ZeroTemperatureAttention(A, np.eye(3))), order=order)
        matrix = turn @ A @ turn.T
        other = FiniteVolume(
            turned, Equation(ZeroTemperatureAttention(matrix, np.eye(3))), order=order
        )
        np.testing.assert_allclose(
            run_to(other, rho, 0.3), run_to(plain, rho, 0.3), rtol=1e-10, atol=1e-12
        )


def test_diagnostics():
    mesh = icosphere(4)
    fv = FiniteVolume(mesh, Equation(non_divergent()), order=2)
    uniform = fv.diagnostics(0.0, fv.initial_state(initial.uniform()))
    assert abs(uniform["mass"] - 1.0) < 1e-14 and abs(uniform["entropy"]) < 1e-14
    assert "energy" not in uniform
    attention = SelfAttention(np.eye(3), np.eye(3), beta=2.0, normalized=False, tolerance=None)
    energetic = FiniteVolume(mesh, Equation(attention), order=4)
    found = energetic.diagnostics(0.0, energetic.initial_state(initial.uniform()))["energy"]
    np.testing.assert_allclose(found, np.sinh(2.0) / 8.0, rtol=1e-5)  # sinh(beta) / (2 beta^2)
    concentrated = fv.diagnostics(0.0, dirac(mesh, 7))
    assert concentrated["minimum"] == 0.0
    np.testing.assert_allclose(concentrated["maximum"], 1.0 / mesh.areas[7])
    np.testing.assert_allclose(concentrated["entropy"], np.log(4.0 * np.pi / mesh.areas[7]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones(5), r"state must have shape \(162,\) or \(162, k\).*got \(5,\)"),
        (np.ones((162, 0)), r"state must have shape"),
        (-np.ones(162), r"state must be >= 0, got -1 at index \(0,\)"),
        (np.zeros(162), r"state must have mass"),
        (np.full(162, np.nan), r"state must be finite, got nan"),
        (lambda x: np.full(len(x), np.nan), r"f must be finite"),
    ],
)
def test_bad_states_are_refused(given, message):
    fv = FiniteVolume(icosphere(4), Equation(non_divergent()))
    with pytest.raises(ValueError, match=message):
        fv.initial_state(given)


def test_bad_options_are_refused():
    mesh, equation = icosphere(2), Equation(non_divergent())
    with pytest.raises(ValueError, match="order must be one of"):
        FiniteVolume(mesh, equation, order=5)
    with pytest.raises(ValueError, match="limiter must be one of 'positivity', 'monotone', None"):
        FiniteVolume(mesh, equation, limiter="minmod")
    with pytest.raises(ValueError, match="velocity_at must be one of 'centroids', 'edges'"):
        FiniteVolume(mesh, equation, velocity_at="vertices")


def test_one_signature_per_kernel():
    mesh = icosphere(4)
    state = mesh.average(slotted_cylinders)
    frozen = state.copy()
    frozen.flags.writeable = False
    nonlocal_field = SelfAttention(np.eye(3), np.eye(3), beta=1.0, tolerance=None)
    for limiter in ("positivity", "monotone", None):
        for field in (non_divergent(), nonlocal_field):
            for order in (1, 2, 4):
                fv = FiniteVolume(mesh, Equation(field), order=order, limiter=limiter)
                noisy = FiniteVolume(mesh, Equation(field, diffusion=0.1), order=order)
                for given in (state, frozen, np.stack([state, state], axis=1), state[::-1]):
                    fv.rhs(0.0, given)
                    noisy.rhs(0.0, given)
                    fv.stage(0.0, fv.initial_state(given)).rhs(1e-3)
    for module in (flux_kernels, node_kernels):
        for name, kernel in vars(module).items():
            # those called from Python: the others are compiled into their callers
            if hasattr(kernel, "signatures") and kernel.targetoptions.get("parallel"):
                assert len(kernel.signatures) <= 1, name
