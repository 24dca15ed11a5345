"""The transport kernels alone: costs, c-transforms, the simplex method, clusters."""

import numba
import numpy as np
import pytest

from pde.kernels import network_simplex, zonal
from validation.wasserstein.optimal_transport import RESOLUTION, Clusters, integer_masses, solve

KINDS = [zonal.CHORDAL, zonal.CHORDAL_SQUARED, zonal.GEODESIC, zonal.GEODESIC_SQUARED]


def cloud(n, d=3, seed=0):
    x = np.random.default_rng([n, d, seed]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cost_matrix(kind, x, y):
    near = np.linalg.norm(x[:, None] - y[None], axis=2)
    far = np.linalg.norm(x[:, None] + y[None], axis=2)
    return (near if kind < zonal.GEODESIC else 2 * np.arctan2(near, far)) ** (1 + kind % 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-5, 0.3, 1.0, 1.6, 3.0, np.pi - 1e-9, np.pi])
def test_costs_are_right_near_and_far(kind, angle):
    x, y = np.array([[1.0], [0.0]]), np.array([[np.cos(angle)], [np.sin(angle)]])
    at = np.zeros(1, dtype=np.int64)
    expected = (2 * np.sin(angle / 2) if kind < zonal.GEODESIC else angle) ** (1 + kind % 2)
    assert zonal.costs(kind, x, y, at, at)[0] == pytest.approx(expected, rel=2e-15, abs=1e-300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "m", "count"), [(2, 7, 9), (3, 500, 1), (3, 501, 12), (5, 64, 3)])
def test_smallest_reduced_costs(kind, d, m, count):
    x, y = cloud(90, d), Clusters(cloud(m, d, 1), np.ones(m, dtype=np.int64)).points
    g = np.random.default_rng(0).normal(scale=0.3, size=m)
    columns = [np.ascontiguousarray(points.T) for points in (x, y)]
    values, where = zonal.smallest(kind, *columns, g, count)
    known = cost_matrix(kind, x, y) - g
    kept = min(count, m)
    np.testing.assert_allclose(values[:, :kept], np.sort(known, axis=1)[:, :kept], atol=1e-14)
    np.testing.assert_allclose(
        np.take_along_axis(known, where[:, :kept].astype(int), axis=1), values[:, :kept], atol=1e-14
    )
    assert (values[:, kept:] == np.inf).all() and (where[:, kept:] == -1).all()


def test_threads_do_not_change_a_bit():
    x, y = (np.ascontiguousarray(cloud(700, seed=s).T) for s in (0, 1))
    g = np.random.default_rng(0).normal(size=700)
    threads = numba.get_num_threads()
    results = []
    for n in (1, threads):
        numba.set_num_threads(n)
        results.append(zonal.smallest(zonal.GEODESIC, x, y, g, 5))
    numba.set_num_threads(threads)
    for first, second in zip(*results, strict=True):
        assert first.tobytes() == second.tobytes()


def test_masses_become_integers_of_the_right_total():
    weights = np.array([0.3, 1e-17, 1e-310, 0.7, 0.0])
    found = integer_masses(weights)
    assert found.sum() == RESOLUTION and (found >= 0).all()
    assert np.abs(found / RESOLUTION - weights).max() <= 2.0**-52
    assert found[1] == round(1e-17 * RESOLUTION) and found[2] == found[4] == 0


def test_clusters_nest_and_carry_all_mass():
    x, masses = cloud(1000), np.random.default_rng(0).integers(1, 100, size=1000)
    clusters = Clusters(x, masses)
    assert sorted(clusters.order) == list(range(1000))
    sizes = [len(offsets) - 1 for offsets in clusters.levels]
    assert sizes[0] == 1 and sizes[-1] == 1000 and sizes == sorted(sizes)
    for k in range(len(sizes)):
        centres, found = clusters.level(k)
        assert found.sum() == masses.sum() and len(found) == sizes[k]
        np.testing.assert_allclose(np.linalg.norm(centres, axis=0), 1.0, rtol=1e-14)
    # Halving across the longest extent makes clusters compact: diameter ~ n^(-1/2).
    spread = [
        np.ptp(clusters.points[a:b], axis=0).max()
        for a, b in zip(clusters.levels[-2][:-1], clusters.levels[-2][1:], strict=True)
    ]
    assert np.mean(spread) < 4.0 * np.sqrt(4 * np.pi / sizes[-2]) / 2


def test_a_balanced_cluster_has_a_centre():
    x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert Clusters(x, np.ones(2, dtype=np.int64)).level(0)[0][:, 0] in x


def test_refined_plans_keep_marginals_and_stay_forests():
    rng = np.random.default_rng(0)
    supply, demand = rng.integers(1, 50, size=40), rng.integers(1, 50, size=30)
    demand[-1] += supply.sum() - demand.sum()
    if demand[-1] < 1:
        supply[-1] += 1 - demand[-1]
        demand[-1] = 1
    whole = np.zeros(1, dtype=np.int64)
    total = np.array([supply.sum()])
    plan = network_simplex.refine_plan(
        whole, whole, total, np.array([0, 40]), np.array([0, 30]), supply, demand
    )
    np.testing.assert_array_equal(np.bincount(plan[0], plan[2], 40), supply)
    np.testing.assert_array_equal(np.bincount(plan[1], plan[2], 30), demand)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(plan[0])), (plan[0], 40 + plan[1])), shape=(70, 70))
    components = connected_components(graph, directed=False)[0]
    assert len(plan[0]) == 70 - components


@pytest.mark.parametrize("kind", KINDS)
def test_potentials_are_feasible_and_complementary(kind):
    x, y = cloud(1300), cloud(900, seed=1)
    rng = np.random.default_rng(0)
    a, b = integer_masses(rng.uniform(size=1300) ** 3), integer_masses(rng.uniform(size=900))
    x, a = x[a > 0], a[a > 0]
    solution = solve(x, a, y, b, kind, 1e-9)
    reduced = cost_matrix(kind, x, y) - solution.f[:, None] - solution.g[None]
    assert reduced.min() > -1e-13
    plan = solution.plan
    assert (plan.mass > 0).all()
    for masses, ends in ((a, plan.source), (b, plan.sink)):
        moved = np.zeros_like(masses)
        np.add.at(moved, ends, plan.mass)
        np.testing.assert_array_equal(moved, masses)
    assert plan.mass @ reduced[plan.source, plan.sink] / RESOLUTION < 1e-9


def test_signatures_are_one_each():
    ones = np.ones(500, dtype=np.int64) * (RESOLUTION // 500)
    ones[0] += RESOLUTION - ones.sum()
    solve(cloud(500), ones, cloud(500, seed=1), ones, zonal.CHORDAL, 1e-9)
    for kernel in (zonal.smallest, zonal.costs, network_simplex.optimise, network_simplex.plant):
        assert len(kernel.signatures) == 1
