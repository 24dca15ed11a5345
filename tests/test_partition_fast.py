"""The fast kernel keeps the error bound it is given, for measures of every kind."""

import tracemalloc

import high_precision
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pde.partition.fast
from meshes import icosphere
from pde import Measure, log_partition
from pde.partition.expansion import MAX_DEGREE, RADII, monomials, polynomials
from pde.partition.fast import fast_log_partition

B = np.array([[0.9, 0.3, -0.2], [-0.1, 0.7, 0.4], [0.2, -0.3, 0.5]])  # not symmetric


@pytest.fixture(scope="module")
def points():
    return icosphere(24).centers  # 5,762 points


@pytest.fixture
def always_fast(monkeypatch):
    """Take the fast way also where direct summation is cheaper."""
    monkeypatch.setattr(pde.partition.fast, "LEAST_WORK", 0.0)
    monkeypatch.setattr(pde.partition.fast, "CYCLES_DIRECT", np.inf)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def assert_within(xi, mu, tolerance, targets=300):
    """log Z to the tolerance and the mean to three times that, against direct summation."""
    result = fast_log_partition(xi, mu.points, mu.weights, tolerance)
    assert result is not None, "direct summation was chosen"
    chosen = np.random.default_rng(1).permutation(len(xi))[:targets]
    log_z, mean = log_partition(xi[chosen], mu)
    rounding = 1e-15 * (20.0 + np.abs(xi).max())
    assert np.abs(result[0][chosen] - log_z).max() <= 1.0001 * tolerance + rounding
    error = np.linalg.norm(result[1][chosen] - mean, axis=1)
    assert error.max() <= 3.0003 * tolerance + rounding
    return np.abs(result[0][chosen] - log_z).max()


@pytest.mark.parametrize("beta", [0.0, 1e-3, 10.0, 100.0, 1000.0, 5000.0])
@pytest.mark.parametrize("tolerance", [1e-5, 1e-8, 1e-11])
def test_smooth_density(points, beta, tolerance, always_fast):
    mu = Measure(points, 1.0 + 0.5 * points[:, 0] * points[:, 1])
    assert_within(beta * points @ B, mu, tolerance)


@pytest.mark.parametrize("beta", [10.0, 100.0, 1000.0])
def test_spot_over_almost_nothing(points, beta, always_fast):
    """Z falls to e^-700 of its peak; far from the spot masses of 1e-280 decide."""
    weights = np.maximum(np.exp(-400.0 * (1.0 - points[:, 2])), 1e-280)
    assert_within(beta * points @ B, Measure(points, weights), 1e-8)


def test_the_error_follows_the_tolerance(points, always_fast):
    """The bound is not met by accident: the error falls with it, and is not mere rounding."""
    mu = Measure(points, 1.0 + 0.5 * points[:, 0])
    errors = [assert_within(50.0 * points @ B, mu, 10.0**-k) for k in (3, 6, 9)]
    assert errors[0] > 1e-7
    assert errors[1] < 1e-2 * errors[0] and errors[2] < 1e-2 * errors[1]


def test_circle(always_fast):
    angle = np.linspace(0.0, 2.0 * np.pi, 4000, endpoint=False)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mu = Measure(x, 1.2 + np.sin(3.0 * angle))
    for beta in (1.0, 100.0, 3000.0):
        assert_within(beta * x @ B[:2, :2], mu, 1e-9)


def test_clusters_and_zeros(always_fast):
    """Particles in tight clusters, a few astray, many without mass, some on the same spot."""
    rng = np.random.default_rng(3)
    centres = unit(rng.normal(size=(3, 3)))
    x = centres[rng.integers(3, size=5000)] + 10.0 ** rng.uniform(-9, -1, (5000, 1)) * rng.normal(
        size=(5000, 3)
    )
    x[:50] = rng.normal(size=(50, 3))
    x[50:200] = centres[0]
    x = unit(x)
    weights = rng.random(5000) * (rng.random(5000) < 0.6)
    massive = weights > 0
    for beta in (5.0, 300.0, 5000.0):
        assert_within(beta * x @ B, Measure(x[massive], weights[massive]), 1e-8)
        log_z, _ = log_partition(beta * x[:5] @ B, Measure(x, weights), 1e-8)
        assert np.abs(log_z - log_partition(beta * x[:5] @ B, Measure(x, weights))[0]).max() < 1e-8


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.sampled_from([2, 3]),
    log_beta=st.floats(-2.0, 4.0),
    log_tolerance=st.floats(-11.0, -2.0),
    spread=st.floats(0.0, 300.0),
    n=st.integers(1, 60),
)
def test_any_measure(seed, dim, log_beta, log_tolerance, spread, n):
    """Random points, masses over `spread` decades, matrices and targets, against fifty digits."""
    rng = np.random.default_rng(seed)
    points = unit(rng.normal(size=(n, dim)) + rng.choice([0.0, 5.0]) * rng.normal(size=dim))
    weights = 10.0 ** -(spread * rng.random(n))
    matrix = rng.normal(size=(dim, dim))
    xi = 10.0**log_beta * unit(rng.normal(size=(200, dim))) @ (matrix / np.linalg.norm(matrix, 2))
    tolerance = 10.0**log_tolerance
    least, cycles = pde.partition.fast.LEAST_WORK, pde.partition.fast.CYCLES_DIRECT
    pde.partition.fast.LEAST_WORK, pde.partition.fast.CYCLES_DIRECT = 0.0, np.inf
    try:
        result = fast_log_partition(xi, points, weights, tolerance)
    finally:
        pde.partition.fast.LEAST_WORK, pde.partition.fast.CYCLES_DIRECT = least, cycles
    if result is None:
        return
    log_z, mean, _ = high_precision.log_partition(xi[:4], points, weights)
    rounding = 4e-15 * (20.0 + np.abs(xi).max())
    assert np.abs(result[0][:4] - log_z).max() <= 1.01 * tolerance + rounding
    assert np.linalg.norm(result[1][:4] - mean, axis=1).max() <= 3.03 * tolerance + rounding


def test_direct_where_that_is_cheaper(points):
    """Small problems, few targets, dimensions beyond three, rounding: bitwise the direct sum."""
    mu = Measure(points, np.ones(len(points)))
    few = 100.0 * points[:50] @ B
    assert np.array_equal(log_partition(few, mu, 1e-8)[1], log_partition(few, mu)[1])
    assert fast_log_partition(few, points, mu.weights, 1e-8) is None
    assert fast_log_partition(1e5 * points, points, mu.weights, 1e-8) is None
    assert fast_log_partition(1e3 * points, points, mu.weights, 1e-14) is None
    four = Measure(np.eye(4))
    xi = np.ones((3, 4))
    assert np.array_equal(log_partition(xi, four, 1e-3)[0], log_partition(xi, four)[0])


def test_bitwise_equal_on_one_and_two_threads(points):
    mu = Measure(points, 1.0 + 0.5 * points[:, 0])
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            results.append(
                np.column_stack(fast_log_partition(80.0 * points @ B, points, mu.weights, 1e-8))
            )
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(*results)


def test_rotating_everything_rotates_the_mean(points, always_fast):
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    weights = 1.0 + 0.5 * points[:, 0]
    xi = 200.0 * points @ B
    log_z, mean = fast_log_partition(xi, points, weights, 1e-9)
    turned_z, turned_mean = fast_log_partition(xi @ rotation, points @ rotation, weights, 1e-9)
    assert np.abs(turned_z - log_z).max() <= 2e-9
    assert np.abs(turned_mean - mean @ rotation).max() <= 6e-9


def test_memory_stays_below_a_hundred_bytes_per_point():
    x = icosphere(64).centers
    weights = 1.0 + 0.5 * x[:, 0]
    fast_log_partition(100.0 * x, x, weights, 1e-8)
    xi = 100.0 * x
    tracemalloc.start()
    assert fast_log_partition(xi, x, weights, 1e-8) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 100 * len(x) + 4_000_000  # two threads' workspaces do not grow with N


@pytest.mark.parametrize("tolerance", [0.0, -1e-8, np.nan])
def test_bad_tolerance(points, tolerance):
    with pytest.raises(ValueError, match="tolerance must be"):
        log_partition(points, Measure(points), tolerance)


@pytest.mark.parametrize("g", [0, 20, 40, 49, 56])
def test_polynomials_keep_their_errors(g):
    """|P - e^z| <= eps e^z and |P' - e^z| <= eps' e^z on points that the fit has not seen."""
    z = RADII[g] * np.cos(np.linspace(0.0, np.pi, 1777))
    z = z.astype(np.longdouble)
    table = polynomials()
    for degree in range(MAX_DEGREE + 1):
        value, slope = np.zeros_like(z), np.zeros_like(z)
        for k in range(degree, -1, -1):
            slope = slope * z + value
            value = value * z + np.longdouble(table.coefficients[g, degree, k]) / np.prod(
                np.arange(1, k + 1), dtype=np.longdouble
            )
        assert np.abs(value * np.exp(-z) - 1.0).max() <= table.value_error[g, degree]
        assert np.abs(slope * np.exp(-z) - 1.0).max() <= table.slope_error[g, degree]


@pytest.mark.parametrize("dim", [2, 3])
def test_monomials_multiply_out(dim):
    """sum_{|alpha| = k} e_alpha(eta) delta^alpha = <eta, delta>^k / k!"""
    table = monomials(dim)
    rng = np.random.default_rng(dim)
    eta, delta = np.zeros(3), np.zeros(3)
    eta[:dim], delta[:dim] = rng.normal(size=(2, dim))
    scaled, plain = [1.0], [1.0]
    for p in range(1, len(table.parent)):
        axis = table.axis[p]
        scaled.append(scaled[table.parent[p]] * eta[axis] * table.inverse[p])
        plain.append(plain[table.parent[p]] * delta[axis])
    product, power, first = np.array(scaled) * np.array(plain), 1.0, 0
    for k, last in enumerate(table.counts):
        assert product[first:last].sum() == pytest.approx(power, rel=1e-11)
        power *= (eta @ delta) / (k + 1)
        first = last
    for p in range(table.counts[-2]):
        for k in range(dim):
            assert plain[table.raised[p, k]] == pytest.approx(plain[p] * delta[k], rel=1e-12)
    for r, row in enumerate(table.chain if dim == 3 else []):
        for k in range(MAX_DEGREE - int(np.searchsorted(table.counts, row[0], side="right")) + 1):
            assert plain[row[k]] == pytest.approx(
                plain[table.chain[r, 0]] * delta[2] ** k, rel=1e-12
            )
