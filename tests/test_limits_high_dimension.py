"""Limit spaces of large, non-symmetric, rank-deficient matrices, as heads of transformers give."""

import numpy as np
import pytest

from pde import limits

SIZES = [(8, 3), (64, 8), (384, 32)]


def low_rank(d, k, middle):
    """(A, X, kernel): A = X S Y^T with Y^T X = I has S's eigenvalues and, on Y's complement, 0."""
    random = np.random.default_rng([d, k])
    X, Y = random.normal(size=(2, d, k))
    Y = Y @ np.linalg.inv(X.T @ Y)
    return X @ middle @ Y.T, X, np.linalg.svd(Y.T)[2][k:].T


def spectrum(values):
    """(S, U): a symmetric matrix with these eigenvalues, the last column of U for the last one."""
    U = np.linalg.qr(np.random.default_rng(len(values)).normal(size=(len(values),) * 2))[0]
    return (U * values) @ U.T, U


def off(E, F):
    """Largest entry of the difference of the two projections; the dimensions must agree."""
    assert E.shape == F.shape
    return np.abs(E @ E.T - F @ F.T).max()


@pytest.mark.filterwarnings("ignore:the matrix is not symmetric")
@pytest.mark.parametrize(("d", "k"), SIZES)
def test_multiple_eigenvalues_keep_their_whole_space(d, k):
    """Rounding turns eigenvectors of a multiple eigenvalue into complex pairs of one real part."""
    small = np.linspace(0.1, 1.0, k)
    for top, by in (([2.0], "value"), ([2.0, 2.0], "value"), ([-2.0, 2.0], "magnitude")):
        S, U = spectrum([*small[len(top) :], *top])
        A, X, _ = low_rank(d, k, S)
        expected = np.linalg.qr(X @ U[:, k - len(top) :])[0]
        assert off(limits.dominant_eigenspace(A, by), expected) < 1e-10
        assert limits.spectral_gap(A, by) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.filterwarnings("ignore:the matrix is not symmetric")
@pytest.mark.parametrize(("d", "k"), SIZES)
def test_the_kernel_is_dominant_where_all_other_eigenvalues_are_negative(d, k):
    S, _ = spectrum(-np.linspace(1.0, 2.0, k))
    A, _, kernel = low_rank(d, k, S)
    assert off(limits.dominant_eigenspace(A), kernel) < 1e-10
    assert limits.spectral_gap(A) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.filterwarnings("ignore:the matrix is not symmetric")
def test_jordan_blocks_have_their_eigenvectors_alone():
    A, X, _ = low_rank(64, 4, np.diag([3.0, 3.0, 3.0, 1.0]) + np.diag([2.0, 0.0, 0.0], 1))
    expected = np.linalg.qr(X[:, [0, 2]])[0]
    assert off(limits.dominant_eigenspace(A, tolerance=1e-6), expected) < 1e-6


def test_what_has_no_limit_space_is_said_in_one_sentence():
    A, *_ = low_rank(384, 2, np.array([[0.0, 1.0], [-1.0, 0.0]]))
    with (
        pytest.warns(UserWarning, match="not symmetric"),
        pytest.raises(ValueError, match=r"real dominant eigenvalues, got .*turns for ever"),
    ):
        limits.dominant_eigenspace(A)


@pytest.mark.parametrize(("d", "k"), SIZES)
def test_assumptions_of_a_head(d, k):
    random = np.random.default_rng(d)
    Q, K, V = random.normal(size=(3, k, d))
    B = Q.T @ K
    report = limits.assumption_1(V.T @ V, B)
    assert not report.holds and "B is singular" in report.text
    E = np.linalg.qr(random.normal(size=(d, 2)))[0]
    assert limits.assumption_2(E, lambda x: np.ones(len(x)), p=1.0).holds
    assert not limits.assumption_2(E, lambda x: np.ones(len(x)), p=2.0).holds
    assert limits.assumption_3(lambda x: np.ones(len(x)), dim=d).holds
