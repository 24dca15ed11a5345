"""The direct kernel against fifty digits, at its stated accuracy, where it could go wrong."""

import os
import subprocess
import sys

import high_precision
import numba
import numpy as np
import pytest

from pde import Measure, log_partition
from pde.kernels import direct, exponential
from pde.kernels.compile import kernel
from pde.partition.softmax import log_partition_covariance


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def assert_exact(xi, mu):
    """log Z to 1e-13 max(1, |log Z|), the mean to 1e-12."""
    xi = np.asarray(xi, dtype=float)
    log_z, mean = log_partition(xi, mu)
    expected_z, expected_mean, _ = high_precision.log_partition(xi, mu.points, mu.weights)
    assert np.all(np.abs(log_z - expected_z) <= 1e-13 * np.maximum(1.0, np.abs(expected_z)))
    assert np.abs(mean - expected_mean).max() <= 1e-12


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("dim", [2, 3, 4, 7])
@pytest.mark.parametrize("size", [0.0, 1.0, 50.0, 1e3, 1e5])
def test_random_measures(dim, size, rng):
    mu = Measure(unit(rng.normal(size=(60, dim))), rng.random(60))
    assert_exact(size * unit(rng.normal(size=(8, dim))), mu)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_products_that_tie_at_large_xi(dim, rng):
    """Two far points whose products with |xi| = 1e5 differ by about 1: rounding them to float64
    (1e-11) would already cost more than the accuracy claimed."""
    points = unit(rng.normal(size=(2, dim)))
    difference = points[0] - points[1]
    xi = rng.normal(size=(20, dim))
    xi -= np.outer(xi @ difference, difference) / (difference @ difference)
    xi = 1e5 * unit(xi) + np.outer(rng.normal(size=20), difference) / (difference @ difference)
    mu = Measure(points, [0.3, 0.7])
    assert_exact(xi, mu)
    _, mean = log_partition(xi, mu)
    share = (mean - points[1]) @ difference / (difference @ difference)
    assert np.all((share > 0.001) & (share < 0.999))  # the cases are ties indeed


def test_far_below_the_peak(rng):
    """Z = e^-700 of its peak over xi, and log Z around 0 from cancelling large numbers."""
    mu = Measure(unit([0.0, 0.0, 1.0] + 0.01 * rng.normal(size=(50, 3))), rng.random(50))
    assert_exact([[0.0, 0.0, -700.0], [0.0, 0.0, 700.0], [1e5, 0.0, 0.0]], mu)
    tiny = Measure(mu.points, 1e-304 * mu.weights)
    assert_exact([[0.0, 0.0, 700.0], [0.0, 0.0, -700.0]], tiny)


def test_weights_zero_denormal_and_huge(rng):
    points = unit(rng.normal(size=(40, 3)))
    weights = 10.0 ** rng.uniform(-323, -300, size=40)
    weights[::3] = 0.0
    xi = np.concatenate([np.zeros((1, 3)), 300 * unit(rng.normal(size=(6, 3)))])
    assert_exact(xi, Measure(points, weights))
    weights[1] = 1e-2
    assert_exact(xi, Measure(points, weights))
    assert_exact(xi, Measure(points, 1e300 * rng.random(40)))


def test_a_massless_point_does_not_set_the_shift():
    """The largest product belongs to a point without mass, e^2000 above the others."""
    mu = Measure([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.0, 0.25, 0.25])
    assert_exact([[1e3, -1e3, 0.0], [1e5, -1e5 + 1.0, 0.0]], mu)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_many_blocks_of_sources_in_any_order(dim, rng):
    """Growing and falling maxima over several blocks, against numpy in extended precision."""
    n = 3 * direct.SOURCES + 5
    points = unit(rng.normal(size=(n, dim)))
    xi = 400 * unit(rng.normal(size=(2 * direct.TARGETS + 3, dim)))
    for order in (np.argsort(points[:, 0]), np.argsort(-points[:, 0])):
        mu = Measure(points[order], rng.random(n))
        s = xi.astype(np.longdouble) @ mu.points.T.astype(np.longdouble)
        peak = s.max(axis=1, keepdims=True)
        terms = np.exp(s - peak) * mu.weights
        z = terms.sum(axis=1)
        log_z, mean = log_partition(xi, mu)
        assert np.abs(log_z - (peak[:, 0] + np.log(z))).max() < 400 * 1e-13
        assert np.abs(mean - (terms @ mu.points) / z[:, None]).max() < 1e-12


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_covariance(dim, rng):
    mu = Measure(unit(rng.normal(size=(50, dim))), rng.random(50))
    xi = np.concatenate(
        [10 * unit(rng.normal(size=(5, dim))), 1e3 * unit(rng.normal(size=(3, dim)))]
    )
    log_z, mean, covariance = log_partition_covariance(xi, mu)
    expected = high_precision.log_partition(xi, mu.points, mu.weights)
    assert np.abs(log_z - expected[0]).max() < 1e-10
    assert np.abs(mean - expected[1]).max() < 1e-12
    trace = np.trace(expected[2], axis1=1, axis2=2)[:, None, None]
    assert np.all(np.abs(covariance - expected[2]) <= 1e-12 * trace + 1e-16)


def test_covariance_keeps_its_relative_accuracy_when_concentrated(rng):
    """Spread 1e-4: E yy^T - mean mean^T would lose eight digits."""
    mu = Measure(unit([0.0, 0.6, 0.8] + 1e-4 * rng.normal(size=(30, 3))))
    _, _, covariance = log_partition_covariance(np.ones((1, 3)), mu)
    expected = high_precision.log_partition(np.ones((1, 3)), mu.points, mu.weights)[2]
    assert np.abs(covariance - expected).max() <= 1e-11 * np.abs(expected).max()


def test_bitwise_equal_on_one_and_two_threads(rng):
    mu = Measure(unit(rng.normal(size=(3000, 3))), rng.random(3000))
    xi = 80 * unit(rng.normal(size=(301, 3)))
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            results.append(np.column_stack(log_partition(xi, mu)))
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(*results)


def test_one_signature_per_kernel():
    """In a process of its own, since other tests call the kernels too."""
    script = """
import numpy as np
from pde import Measure, log_partition
from pde.kernels import direct
from pde.partition.softmax import log_partition_covariance
for d in (2, 3, 5):
    points = np.eye(d)
    frozen = points.copy()
    frozen.flags.writeable = False
    xi = np.arange(4.0 * d).reshape(4, d)
    locked = xi.copy()
    locked.flags.writeable = False
    for mu in (Measure(points), Measure(frozen, np.ones(d)), Measure(points[::-1])):
        for x in (xi, xi[::-1], xi.astype(np.float32), np.asfortranarray(xi), locked):
            log_partition(x, mu)
            log_partition_covariance(x, mu)
print([len(f.signatures) for f in (direct.sums_3, direct.sums, direct.covariances)])
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=True
    )
    assert run.stdout.strip() == "[1, 1, 1]"


@pytest.mark.parametrize(
    ("xi", "message"),
    [
        (np.zeros((2, 4)), r"xi must have shape \(m, 3\)"),
        (np.zeros(3), "xi must have 2 dim"),
        (np.array([[0.0, np.nan, 0.0]]), "xi must be finite"),
    ],
)
def test_bad_targets(xi, message):
    with pytest.raises(ValueError, match=message):
        log_partition(xi, Measure(np.eye(3)))


def test_no_mass():
    with pytest.raises(ValueError, match="mu must have mass"):
        log_partition(np.zeros((1, 3)), Measure(np.eye(3), np.zeros(3)))


def test_no_targets():
    log_z, mean = log_partition(np.zeros((0, 3)), Measure(np.eye(3)))
    assert log_z.shape == (0,) and mean.shape == (0, 3)


@kernel
def exp_of_all(x, result):
    for i in range(x.size):
        result[i] = exponential.exp(x[i])


def test_exponential():
    x = np.concatenate(
        [np.linspace(-745.0, 709.0, 20001), np.linspace(-1, 1, 2001), [0.0, -0.0, 1e-300]]
    )
    result = np.empty_like(x)
    exp_of_all(x, result)
    expected = np.exp(x.astype(np.longdouble))
    spacing = np.maximum(4e-16 * expected, 5e-324)  # denormal results: their last bit
    assert np.all(np.abs(result - expected) <= spacing)
    edges = np.array([-np.inf, -1e300, -746.0, 710.0, np.inf])
    result = np.empty_like(edges)
    exp_of_all(edges, result)
    assert result.tolist() == [0.0, 0.0, 0.0, np.inf, np.inf]
