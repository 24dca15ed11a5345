"""Laws and functions on cells that may be wider than they are: masses, places, refusals."""

import numpy as np
import pytest

from meshes import circle, icosphere
from meshes.geometry import norm, segment_sum, unit
from pde import Equation, FiniteVolume, ParticleSystem, PrescribedVelocity, Simulation, initial
from pde.initial.cell_masses import cap_areas

AXIS = np.array([0.48, -0.6, 0.64])
SPHERES = [icosphere(1), icosphere(4), icosphere(20)]
CIRCLES = [circle(3), circle(64)]
TURN = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
SPECTRA = [(1.0, 1e-4, 1e-4), (1.0, 1.0, 1e-12), (1.0, 1e-12, 1e-12), (1.0, 1e-6, 1e-12)]


def places(mesh):
    """A center, a corner, the middle of an edge, and some point."""
    d = mesh.ambient_dim
    return mesh.centers[5 % mesh.n_cells], mesh.vertices[1], mesh.edge_midpoints[1], AXIS_OF[d]


AXIS_OF = {2: np.array([0.6, -0.8]), 3: AXIS}


def at_rest(mesh, **options):
    still = PrescribedVelocity(lambda x, t: np.zeros_like(x))
    return FiniteVolume(mesh, Equation(still), **options)


def counted(law, mesh, masses, n=100_000):
    """The largest deviation of cell masses from the counts of exact samples, in their spread."""
    counts = np.bincount(mesh.locate(initial.sample(law, n, seed=7)), minlength=mesh.n_cells)
    return (np.abs(counts - n * masses) / np.sqrt(n * masses * (1.0 - masses) + 1.0)).max()


@pytest.mark.parametrize("kappa", 10.0 ** np.arange(0, 13))
@pytest.mark.parametrize("mesh", SPHERES + CIRCLES, ids=repr)
def test_von_mises_fisher_laws_have_their_mass_and_their_place(mesh, kappa):
    for center in places(mesh):
        law = initial.von_mises_fisher(center, kappa)
        masses = mesh.average(law) * mesh.areas
        assert masses.sum() == pytest.approx(1.0, abs=1e-10)
        assert masses.min() >= 0.0
        near = norm(mesh.centers - law.mean) < mesh.cell_radii.max() + 9.0 * kappa**-0.5
        assert masses[near].sum() == pytest.approx(1.0, abs=1e-10)


def test_a_dirac_falls_into_its_cell_and_onto_corners_in_equal_parts():
    mesh = icosphere(20)
    law = initial.von_mises_fisher(mesh.centroids[700], 1e12)
    masses = mesh.average(law) * mesh.areas
    assert masses[700] == pytest.approx(1.0, abs=1e-10)
    on_edge = mesh.average(initial.spot(mesh.edge_midpoints[70], 1e-8)) * mesh.areas
    np.testing.assert_allclose(on_edge[mesh.edge_cells[70]], 0.5, atol=1e-7)
    # Three cells of the dodecahedron meet at each corner.
    coarse = icosphere(1)
    for law in (
        initial.spot(coarse.vertices[4], 0.01),
        initial.von_mises_fisher(coarse.vertices[4], 1e5),
    ):
        thirds = np.sort(coarse.average(law) * coarse.areas)[-3:]
        np.testing.assert_allclose(thirds, 1.0 / 3.0, rtol=1e-3)


@pytest.mark.parametrize("mesh", [icosphere(4), icosphere(20), circle(64)], ids=repr)
def test_narrow_laws_are_where_their_samples_are(mesh):
    d = mesh.ambient_dim
    center, spread = mesh.vertices[1], 0.3 * mesh.spacing
    Lambda = (TURN * [1.0, 0.5, 1e-6]) @ TURN.T if d == 3 else np.diag([1.0, 1e-4])
    for law in (
        initial.von_mises_fisher(center, spread**-2.0),
        initial.bumps([center, AXIS_OF[d]], [spread, 0.01 * spread], [1.0, 20.0], 0.01),
        initial.spot(center, spread),
        initial.spot(AXIS_OF[d], 3.0 * mesh.spacing),
        initial.spot(AXIS_OF[d], 2.5),
        initial.angular_central_gaussian(0.5 * (Lambda + Lambda.T)),
    ):
        masses = mesh.average(law) * mesh.areas
        assert masses.sum() == pytest.approx(1.0, abs=1e-10)
        assert counted(law, mesh, masses) < 5.0, law
        assert counted(law, mesh, np.roll(masses, 1)) > 20.0, law


@pytest.mark.parametrize("radius", [1e-8, 1e-4, 0.01, 0.3, 1.2, 0.5 * np.pi, 2.0, 3.1, np.pi])
@pytest.mark.parametrize("mesh", SPHERES + CIRCLES, ids=repr)
def test_areas_of_caps(mesh, radius):
    whole = 2.0 * radius if mesh.ambient_dim == 2 else 4.0 * np.pi * np.sin(0.5 * radius) ** 2
    for center in (*places(mesh), np.eye(mesh.ambient_dim)[-1]):
        areas = cap_areas(mesh, unit(center), radius)
        assert areas.sum() == pytest.approx(whole, rel=1e-12)
        assert (areas >= 0.0).all()
        assert (areas <= mesh.areas).all()
        distance = np.arccos(np.clip(mesh.centers @ center, -1.0, 1.0))
        np.testing.assert_array_equal(areas[distance > radius + mesh.cell_radii], 0.0)
        within = distance < radius - mesh.cell_radii
        np.testing.assert_allclose(areas[within], mesh.areas[within], rtol=1e-13)


def test_half_a_cell_lies_in_a_half_space():
    # Edges of an icosahedron's cells lie in planes of symmetry, halfway between two centers.
    mesh = circle(8)
    np.testing.assert_allclose(
        cap_areas(mesh, mesh.centers[0], np.pi / 4),
        [np.pi / 4, *[np.pi / 8, 0, 0, 0, 0, 0, np.pi / 8]],
        atol=1e-15,
    )
    sphere = icosphere(4)
    halves = cap_areas(sphere, np.array([0.0, 0.0, 1.0]), 0.5 * np.pi)
    upper = sphere.average(lambda x: 1.0 * (x[:, 2] > 0.0)) * sphere.areas
    np.testing.assert_allclose(halves, upper, atol=0.01 * sphere.areas.max())


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("turn", [np.eye(3), TURN], ids=["along axes", "turned"])
def test_eccentric_gaussians_have_mass_one(spectrum, turn):
    Lambda = (turn * np.array(spectrum)) @ turn.T
    law = initial.angular_central_gaussian(0.5 * (Lambda + Lambda.T))
    for mesh in SPHERES:
        masses = mesh.average(law) * mesh.areas
        assert masses.sum() == pytest.approx(1.0, abs=1e-11)
        assert masses.min() > 0.0
        # E |<x, e>|^2 for the widest axis: at least its share of the trace, less a cell's width
        share = masses @ (mesh.centroids @ turn[:, 0]) ** 2
        assert share > spectrum[0] / sum(spectrum) - 2.0 * mesh.spacing


def test_gaussians_that_are_resolved_agree_with_quadrature():
    Lambda = (TURN * [3.0, 0.5, 0.2]) @ TURN.T
    law = initial.angular_central_gaussian(0.5 * (Lambda + Lambda.T))
    for mesh in (icosphere(16), circle(64)):
        law = law if mesh.ambient_dim == 3 else initial.angular_central_gaussian([[2, 1], [1, 1]])
        nodes = mesh.quadrature(10)
        exact = segment_sum(nodes.weights * law(nodes.points), nodes.offsets) / mesh.areas
        np.testing.assert_allclose(mesh.average(law), exact, rtol=1e-8)


def test_harmonics_narrower_than_cells():
    mesh, law = icosphere(2), initial.random_band_limited(1, degree=16, amplitude=0.9)
    assert mesh.average(law) @ mesh.areas == pytest.approx(1.0, abs=1e-10)


RESOLVED = [
    initial.uniform(),
    initial.von_mises_fisher(AXIS, 30.0),
    initial.bumps([AXIS, TURN[0]], [0.3, 0.5], [1.0, 2.0], floor=0.1),
    initial.random_band_limited(3, degree=5, amplitude=0.9),
    lambda x: np.exp(x[:, 0]),
    lambda x: np.exp(3.0 * x),
]


@pytest.mark.parametrize("f", RESOLVED, ids=lambda f: getattr(f, "__name__", repr(f)))
def test_what_is_resolved_is_averaged_by_the_rule_to_the_bit(f):
    mesh = icosphere(20)
    nodes = mesh.quadrature(8)
    values = f(nodes.points)
    weights, areas = (w.reshape(-1, *[1] * (values.ndim - 1)) for w in (nodes.weights, mesh.areas))
    rule = segment_sum(weights * values, nodes.offsets) / areas
    np.testing.assert_array_equal(mesh.average(f), rule)


@pytest.mark.parametrize("mesh", [icosphere(4), icosphere(20), circle(64)], ids=repr)
@pytest.mark.parametrize("kappa", [1e3, 1e5])
def test_functions_with_narrow_peaks(mesh, kappa):
    d = mesh.ambient_dim
    law = initial.von_mises_fisher(AXIS_OF[d], kappa)
    both = mesh.average(lambda x: np.stack([5.0 * law(x), -x[:, 0]], axis=1))
    np.testing.assert_allclose(both[:, 0], 5.0 * mesh.average(law), atol=1e-6 / mesh.areas.min())
    np.testing.assert_allclose(both[:, 1], mesh.average(lambda x: -x[:, 0]), atol=1e-7)


@pytest.mark.parametrize("mesh", [icosphere(4), circle(64)], ids=repr)
def test_a_scale_finds_what_the_nodes_miss(mesh):
    d = mesh.ambient_dim
    law = initial.von_mises_fisher(AXIS_OF[d], 1e10)
    f = lambda x: 1.0 + law(x)  # noqa: E731
    found = mesh.average(f, scale=lambda x: np.maximum(2e-5, norm(x - AXIS_OF[d]) - 1e-4))
    assert found @ mesh.areas == pytest.approx(mesh.total_area + 1.0, rel=1e-6)
    assert mesh.average(f) @ mesh.areas == pytest.approx(mesh.total_area, rel=1e-6)


def test_jumps_and_singularities():
    for mesh in (icosphere(8), icosphere(20)):
        jump = mesh.average(lambda x: np.where(x @ AXIS > 0.3, 2.0, 1.0))
        exact = 1.0 + cap_areas(mesh, AXIS, np.arccos(0.3)) / mesh.areas
        assert np.abs(jump - exact).max() < 0.005
        # int 1 / |x - a| over the sphere is 4 pi, as outside a charged shell
        pole = mesh.average(lambda x: 1.0 / norm(x - AXIS))
        assert pole @ mesh.areas == pytest.approx(4.0 * np.pi, rel=1e-6)
    for n in range(3, 40):
        ring = circle(n)
        half = ring.average(lambda x: 1.0 * (x[:, 0] > 0.3)) @ ring.areas
        assert half == pytest.approx(2.0 * np.arccos(0.3), abs=1e-6)


@pytest.mark.parametrize(
    "f",
    [lambda x: 1.0 / (1e-12 + x[:, 1] ** 2), lambda x: np.sin(1e6 * x[:, 0])],
    ids=["thin ridge", "fast wave"],
)
def test_what_no_pieces_resolve_is_refused(f):
    with pytest.raises(ValueError, match="f must be wider or smoother"):
        icosphere(8).average(f)


def test_laws_of_too_many_peaks_are_refused(monkeypatch):
    monkeypatch.setattr("meshes.adaptive.MOST_PIECES", 1000)
    law = initial.bumps(unit(np.random.default_rng(1).normal(size=(30, 3))), 1e-5)
    with pytest.raises(ValueError, match="must be wider or"):
        at_rest(icosphere(4)).initial_state(law)


def test_states_start_with_the_mass_of_their_law():
    mesh = icosphere(20)
    for law in (
        initial.von_mises_fisher(AXIS, 1e5),
        initial.spot(AXIS, 0.01),
        initial.bumps([AXIS], 1e-6, floor=1e-3),
    ):
        solution = Simulation(at_rest(mesh), law).run(until=0.1)
        np.testing.assert_allclose(solution.diagnostics["mass"], 1.0, rtol=0, atol=1e-10)
        assert solution.measures[0].total == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("mesh", [icosphere(8), circle(64)], ids=repr)
def test_functions_and_arrays_keep_their_mass(mesh):
    # int e^{x_1} = 4 pi sinh 1 on the sphere, 2 pi I_0(1) on the circle
    mass = 4.0 * np.pi * np.sinh(1.0) if mesh.ambient_dim == 3 else 2.0 * np.pi * np.i0(1.0)
    f = lambda x: np.exp(x[:, 0])  # noqa: E731
    for state in (f, mesh.average(f)):
        simulation = Simulation(at_rest(mesh), state)
        np.testing.assert_array_equal(simulation.state, mesh.average(f))
        assert simulation.run(until=0.1).measures[-1].total == pytest.approx(mass, rel=1e-10)
    n = 400
    tokens = ParticleSystem(at_rest(mesh).equation, weights=np.full(n, mass / n))
    cloud = tokens.measure(initial.sample(f, n, seed=1, d=mesh.ambient_dim))
    assert cloud.total == pytest.approx(mass)
    mean = mesh.average(f) * mesh.areas @ mesh.centroids
    np.testing.assert_allclose(cloud.mean(), mean, atol=4.0 * mass / np.sqrt(n))


@pytest.mark.parametrize(
    ("f", "shape"), [(lambda x: x**2, "3"), (lambda x: x[:, :1] ** 2, "1")], ids=["three", "one"]
)
def test_functions_of_several_numbers_are_not_taken_as_densities(f, shape):
    mesh = icosphere(4)
    with pytest.raises(ValueError, match=rf"one density \(m,\).*got \(m, {shape}\).*mesh.average"):
        Simulation(at_rest(mesh), f)
    assert Simulation(at_rest(mesh), mesh.average(f)).state.shape == (mesh.n_cells, int(shape))
    with pytest.raises(ValueError, match=rf"f must map points .* got \(m, {shape}\)"):
        initial.sample(f, 10, seed=1)


@pytest.mark.parametrize("kappa", [1e5, 1e7])
@pytest.mark.parametrize("d", [2, 3])
def test_samples_of_narrow_functions_are_as_narrow(kappa, d):
    center = AXIS_OF[d]
    x = initial.sample(lambda x: np.exp(-0.5 * kappa * norm(x - center) ** 2), 20_000, 1, d=d)
    # E |x - center|^2 = (d - 1) / kappa, and somewhat more for flat pieces
    assert 0.97 < kappa / (d - 1) * (norm(x - center) ** 2).mean() < 1.06
