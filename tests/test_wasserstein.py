"""Transport distances: brackets against other solvers, axioms, degenerate cases, the door."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import eye_array, kron, vstack

from meshes import circle, icosphere
from pde import initial, limits
from pde.measure import Measure
from validation import brackets, exact, wasserstein

COSTS = [(1, "chordal"), (2, "chordal"), (1, "geodesic"), (2, "geodesic")]


def cloud(n, d=3, seed=0):
    x = np.random.default_rng([n, d, seed]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def masses(n, seed=0):
    weights = np.random.default_rng([n, seed]).uniform(size=n) ** 3
    return weights / weights.sum()


def spot(n, centre, width, seed=0):
    x = np.asarray(centre) + width * np.random.default_rng([n, seed]).normal(size=(n, len(centre)))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def turned(x, angle):
    c, s = np.cos(angle), np.sin(angle)
    return x @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]]).T


def cost_matrix(mu, nu, p, cost):
    near = np.linalg.norm(mu.points[:, None] - nu.points[None], axis=2)
    far = np.linalg.norm(mu.points[:, None] + nu.points[None], axis=2)
    return (near if cost == "chordal" else 2 * np.arctan2(near, far)) ** p


def assert_contains(result, value, width=1e-8):
    assert result.lower <= value * (1 + 1e-12) and value * (1 - 1e-12) <= result.upper
    assert result.lower <= result.value <= result.upper
    assert result.upper - result.lower <= width * result.value


def assert_certified(mu, nu, result, p, cost):
    """The plan has the marginals and the cost that it claims."""
    plan = result.plan
    assert (plan.data > 0).all() and plan.nnz <= mu.n + nu.n - 1
    np.testing.assert_allclose(plan.sum(axis=1), mu.weights, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(plan.sum(axis=0), nu.weights, rtol=1e-12, atol=1e-16)
    total = (plan * cost_matrix(mu, nu, p, cost)).sum()
    assert total ** (1 / p) == pytest.approx(result.value, rel=1e-12)


@pytest.mark.parametrize(("p", "cost"), COSTS)
@pytest.mark.parametrize("d", [2, 3, 6])
def test_equal_masses_are_an_assignment(p, cost, d):
    mu, nu = Measure(cloud(300, d)), Measure(cloud(300, d, seed=1))
    costs = cost_matrix(mu, nu, p, cost)
    value = costs[linear_sum_assignment(costs)].mean() ** (1 / p)
    result = wasserstein.distance(mu, nu, p, cost)
    assert_contains(result, value)
    assert_certified(mu, nu, result, p, cost)


@pytest.mark.parametrize(("p", "cost"), COSTS)
def test_unequal_masses_are_a_linear_programme(p, cost):
    mu, nu = Measure(cloud(60), masses(60)), Measure(cloud(45), masses(45))
    rows, columns = kron(eye_array(60), np.ones((1, 45))), kron(np.ones((1, 60)), eye_array(45))
    solved = linprog(
        cost_matrix(mu, nu, p, cost).ravel(),
        A_eq=vstack([rows, columns]),
        b_eq=np.concatenate([mu.weights, nu.weights]),
    )
    result = wasserstein.distance(mu, nu, p, cost)
    assert result.value**p == pytest.approx(solved.fun, rel=1e-6)
    assert_certified(mu, nu, result, p, cost)


@pytest.mark.parametrize(("p", "cost"), COSTS)
def test_brackets_contain_what_another_library_finds(p, cost):
    ot = pytest.importorskip("ot")
    mu, nu = Measure(cloud(1500), masses(1500)), Measure(spot(900, [0, 0, 1], 0.5), masses(900))
    value = ot.emd2(mu.weights, nu.weights, cost_matrix(mu, nu, p, cost)) ** (1 / p)
    assert_contains(wasserstein.distance(mu, nu, p, cost), value)


@pytest.mark.parametrize(("p", "cost"), COSTS)
def test_metric(p, cost):
    a, b, c = (Measure(cloud(n), masses(n)) for n in (301, 120, 77))

    def w(mu, nu):
        return wasserstein.distance(mu, nu, p, cost)

    assert w(a, b).value == pytest.approx(w(b, a).value, rel=2e-9)
    assert w(a, c).lower <= w(a, b).upper + w(b, c).upper
    assert w(a, a).value <= 1e-7
    assert w(a, b).lower > 0.1


def test_rotating_both_changes_nothing():
    Q = np.linalg.qr(cloud(3))[0]
    mu, nu = Measure(cloud(400), masses(400)), Measure(spot(300, [0, 1, 0], 0.3), masses(300))
    for p, cost in COSTS:
        value = wasserstein.distance(mu, nu, p, cost).value
        both = (measure.push(lambda x: x @ Q.T) for measure in (mu, nu))
        assert wasserstein.distance(*both, p, cost).value == pytest.approx(value, rel=2e-9)


def test_costs_are_ordered():
    # W1 <= W2, and chord <= arc <= pi/2 chord.
    mu, nu = Measure(cloud(200), masses(200)), Measure(cloud(150), masses(150))
    w = {(p, cost): wasserstein.distance(mu, nu, p, cost).value for p, cost in COSTS}
    for cost in ("chordal", "geodesic"):
        assert w[1, cost] < w[2, cost]
    for p in (1, 2):
        assert w[p, "chordal"] < w[p, "geodesic"] < 0.5 * np.pi * w[p, "chordal"]


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("t", [0.0, 1.0, 3.0])
def test_projections_of_mesh_densities_are_optimal(dim, t):
    # Degenerate duals: two target points, or as many on a great circle as there are cells.
    mesh = icosphere(8)
    law = initial.angular_central_gaussian(np.diag([np.exp(2 * t)] * dim + [1.0] * (3 - dim)))
    mu = brackets.on_mesh(mesh, law)
    E = np.eye(3)[:, :dim]
    result = wasserstein.distance(mu, mu.push(limits.Projection(E)))
    assert_contains(result, limits.distance_to_space(mu, E))


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-6])
def test_narrow_spots_keep_their_relative_accuracy(width):
    # Translation of a tangent Gaussian by a vector: W2 is its length up to curvature, O(width).
    mu = Measure(spot(400, [0, 0, 1], width))
    nu = mu.push(lambda x: turned(x, 3 * width))
    result = wasserstein.distance(mu, nu)
    assert result.value == pytest.approx(3 * width, rel=10 * width**2 + 1e-6)
    assert result.upper - result.lower <= 0.01 * result.value


def test_tight_clusters_exchange_only_what_they_must():
    # 0.6/0.4 against 0.5/0.5 in two antipodal spots: a tenth crosses over.
    top, bottom = spot(300, [0, 0, 1], 1e-7), spot(200, [0, 0, -1], 1e-7)
    points = np.concatenate([top, bottom])
    mu = Measure(points, np.repeat([0.6 / 300, 0.4 / 200], [300, 200]))
    nu = Measure(points[::-1].copy(), np.repeat([0.5 / 200, 0.5 / 300], [200, 300]))
    assert wasserstein.distance(mu, nu).value ** 2 == pytest.approx(0.4, rel=1e-6)
    result = wasserstein.distance(mu, nu, p=1, cost="geodesic")
    assert result.value == pytest.approx(0.1 * np.pi, rel=1e-6)


def test_atoms_in_one_place_without_mass_or_nearly_without():
    x, y = cloud(80), cloud(60, seed=1)
    mu, nu = Measure(x, masses(80)), Measure(y, masses(60))
    value = wasserstein.distance(mu, nu).value
    split = Measure(
        np.concatenate([x, x, x]), np.concatenate([mu.weights / 2, mu.weights / 2, 0 * mu.weights])
    )
    assert_contains(wasserstein.distance(split, nu), value)
    dusty = Measure(np.concatenate([x, y]), np.concatenate([mu.weights, np.full(60, 1e-310)]))
    result = wasserstein.distance(dusty, nu)
    assert_contains(result, value)
    assert result.plan.shape == (140, 60)


def test_masses_scale_the_power():
    mu, nu = Measure(cloud(50), 7 * masses(50)), Measure(cloud(40), 7 * masses(40))
    one = wasserstein.distance(
        Measure(mu.points, mu.weights / 7), Measure(nu.points, nu.weights / 7)
    )
    assert wasserstein.distance(mu, nu).value == pytest.approx(np.sqrt(7) * one.value, rel=1e-9)


def test_a_loose_tolerance_widens_the_bracket_only():
    mu, nu = Measure(cloud(2000), masses(2000)), Measure(cloud(2500), masses(2500))
    tight, loose = (wasserstein.distance(mu, nu, tolerance=e) for e in (1e-9, 1e-2))
    assert tight.upper - tight.lower < 1e-8 * tight.value
    assert loose.upper - loose.lower < 1e-2 * tight.value
    assert loose.lower <= tight.value <= loose.upper


@pytest.mark.parametrize("cost", ["chordal", "geodesic"])
def test_the_continuum_lies_within_bracket_and_discretization(cost):
    equator = np.exp(2)
    value = exact.axial_distance(exact.axial_quantile(1, 1), exact.axial_quantile(equator, 1), cost)
    bounds = []
    for frequency in (4, 8):
        mesh = icosphere(frequency)
        mu = brackets.on_mesh(mesh, initial.uniform())
        nu = brackets.on_mesh(mesh, brackets.gaussian([equator, equator, 1]))
        result = wasserstein.distance(mu, nu, cost=cost, meshes=(mesh, mesh))
        bounds.append(result.discretization)
        assert result.lower - bounds[-1] <= value <= result.upper + bounds[-1]
        assert result.upper - result.lower <= 1e-6  # the mesh is not mixed in
    assert bounds[1] == pytest.approx(bounds[0] / 2, rel=0.1)


def test_discretization_of_the_circle():
    # Equal arcs about their midpoints: every radius is half an arc.
    mesh = circle(10)
    mu = Measure.from_mesh(mesh, np.full(10, 0.5 / np.pi))
    result = wasserstein.distance(mu, Measure(cloud(5, 2)), 1, "geodesic", meshes=(mesh, None))
    assert result.discretization == pytest.approx(np.pi / 10, rel=1e-12)
    assert wasserstein.distance(mu, mu).discretization is None


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"nu": Measure(np.eye(3), [1.0, 1.0, 1.0])}, ValueError, "equal totals.* got 1 and 3"),
        ({"nu": Measure(np.eye(3), np.full(3, (1 + 1e-5) / 3))}, ValueError, "equal totals"),
        ({"mu": Measure(np.eye(3), np.zeros(3))}, ValueError, "mu must have mass"),
        ({"nu": Measure(np.empty((0, 3)))}, ValueError, "nu must have mass"),
        ({"nu": Measure(np.eye(2))}, ValueError, "dimensions 3 and 2"),
        ({"nu": np.eye(3)}, TypeError, "nu must be a Measure, got ndarray"),
        ({"p": 3}, ValueError, "p must be one of 1, 2, got 3"),
        ({"cost": "cosine"}, ValueError, "cost must be one of 'chordal', 'geodesic'"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be > 0"),
        (
            {"meshes": (icosphere(1), None)},
            ValueError,
            "mu must hold one atom for each .* 12 cells",
        ),
    ],
)
def test_arguments_that_do_not_fit(change, error, message):
    arguments = {"mu": Measure(np.eye(3)), "nu": Measure(np.eye(3))} | change
    with pytest.raises(error, match=message):
        wasserstein.distance(**arguments)


def test_nan_never_gets_in():
    with pytest.raises(ValueError, match="weights must be finite, got nan at index"):
        Measure(np.eye(3), [0.5, np.nan, 0.5])


def test_totals_may_drift():
    mu, nu = Measure(cloud(30), masses(30)), Measure(cloud(20), masses(20))
    drifted = Measure(nu.points, nu.weights * (1 + 5e-10))
    value = wasserstein.distance(mu, nu).value
    assert wasserstein.distance(mu, drifted).value == pytest.approx(value, rel=1e-12)


def test_the_study_runs(tmp_path, capsys):
    assert brackets.main(["--frequencies", "3", "--out", str(tmp_path)]) == 0
    assert "MISSED" not in capsys.readouterr().out
    assert (tmp_path / "brackets.txt").exists()


@pytest.mark.full
def test_ten_thousand_cells():
    rows = list(brackets.measure_all([32]))
    assert max(row.width for row in rows) < 0.01
    assert np.nanmax([row.error for row in rows]) < 0.005
    assert max(row.seconds for row in rows) < 60
    assert rows[0].found.value == pytest.approx(0.3193, rel=0.005)


@pytest.mark.full
def test_forty_thousand_cells():
    mesh = icosphere(64)
    mu = brackets.on_mesh(mesh, initial.uniform())
    nu = brackets.on_mesh(mesh, brackets.gaussian([np.exp(2), np.exp(2), 1]))
    result = wasserstein.distance(mu, nu)
    assert result.upper - result.lower < 1e-6
    assert result.value == pytest.approx(0.318726, rel=1e-3)
