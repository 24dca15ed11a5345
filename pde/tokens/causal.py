"""Causal attention: token k attends to the tokens j <= k alone.

    dx_k/dt = P V sum_{j<=k} w_kj x_j,   w_kj ~ e^{beta <x_k, B x_j>},   sum_{j<=k} w_kj = 1

(Karagodin, Polyanskiy, Rigollet, arXiv:2411.04990; Rigollet, arXiv:2512.01868). Token k sees the
measure mu_k = (1/k) sum_{j<=k} delta_{x_j}, which defines causal tokens for every field; but no one
measure drives them all, their order matters, and the mean-field limit is lost.

What follows at once: nothing that comes later changes a token. The first one moves by P V x_1
alone, x_1(t) = e^{tV} x_1 / |e^{tV} x_1|; for V = I it stays. For V = B = I and c = <x_1, x_2>,

    dc/dt = (1 - c^2) / (1 + e^{beta (1 - c)}),

and all tokens come to the first one, for any B, from almost all starts (arXiv:2411.04990,
Theorem 4.1). How fast: near consensus at x_1 the weights are 1/k + O(eps), so deviations obey

    d delta_k/dt = (1/k) sum_{j<=k} delta_j - delta_k,   k = 1, ..., n,

whatever B and beta. (1/k, j <= k) is the Cesaro matrix; by the hockey-stick identity
sum_{j<=k} C(j-1, m-1) = C(k, m) = (k/m) C(k-1, m-1) its eigenvectors are v_k = C(k-1, m-1) with
the eigenvalues 1/m. Newton's forward differences Delta^{m-1} delta_1 are therefore the modes,

    delta_k(t) = sum_{m=1}^k C(k-1, m-1) Delta^{m-1} delta_1(0) e^{-(1 - 1/m) t}.

m = 1 is where the consensus is; m = 2 is the slowest to decay: deviations fall like e^{-t/2}, so
1 - <x_1, x_k> like e^{-t}, against e^{-2t} without the mask, and in the end token k is k-1 times as
far from the first as the second is.
"""

from __future__ import annotations

import numpy as np

from pde.arguments import Array, real_array, unit_points
from pde.field import Field, Scaled, Sum
from pde.fields.attention import SelfAttention
from pde.fields.time_dependent import TimeDependent
from pde.measure import Measure
from pde.tokens.normalisation import NormalisedTokens

BLOCK_ENTRIES = 1 << 21
"""Softmax weights held at once: 16 MB."""


class CausalTokens(NormalisedTokens):
    """n tokens of which each attends to itself and those before it, under any scheme.

    field : what the tokens attend with; it must have an `output`
    scheme, alpha, tau : as for `NormalisedTokens`

    The state is the (n, d) array of tokens in their order. Softmax attention costs O(n^2 d), for
    beta = 0 O(n d); other nonlocal fields n evaluations, one for each token.

    >>> tokens = CausalTokens(SelfAttention(np.eye(2), np.eye(2), beta=0.0))
    >>> tokens.rhs(0.0, [[1.0, 0.0], [0.0, 1.0]])
    array([[0. , 0. ],
           [0.5, 0. ]])
    """

    def output(self, t: float, theta: Array) -> Array:
        """(n, d) outputs of tokens with the directions theta (n, d), in their order."""
        return causal_output(self.field, theta, t)


def causal_output(field: Field, x: Array, t: float = 0.0) -> Array:
    """(n, d) outputs of `field` at the tokens x (n, d), each seeing itself and those before it.

    Raises UndefinedQuantity (a ValueError) where the field has no `output`.

    >>> causal_output(SelfAttention(np.eye(2), np.eye(2), 0.0), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    x = unit_points("x", x, field.dim)
    if isinstance(field, Sum):
        outputs = [causal_output(term, x, t) for term in field.terms]
        return np.sum(outputs, axis=0)
    if isinstance(field, Scaled):
        return field.factor * causal_output(field.field, x, t)
    if isinstance(field, TimeDependent):
        return causal_output(field.now(t), x, t)
    if not field.is_nonlocal:
        return field.output(x, None, t)
    if isinstance(field, SelfAttention) and field.normalized:
        return causal_means(field.beta * (x @ field.B), x) @ field.V.T
    seen = [field.output(x[k : k + 1], Measure(x[: k + 1]), t) for k in range(len(x))]
    return np.concatenate(seen)


def causal_means(xi: Array, y: Array) -> Array:
    """(n, d) means sum_{j<=k} y_j e^{<xi_k, y_j>} / sum_{j<=k} e^{<xi_k, y_j>}.

    xi, y : (n, d). Exponents are taken relative to the largest one of each row: none overflows, and
    a sum holds a 1 at least. Where xi = 0 the sums are running ones.
    """
    xi, y = real_array("xi", xi, ndim=2), real_array("y", y, ndim=2)
    if xi.shape != y.shape:
        raise ValueError(f"xi and y must have one shape (n, d), got {xi.shape} and {y.shape}")
    n = len(y)
    if not xi.any():
        return np.cumsum(y, axis=0) / np.arange(1.0, n + 1.0)[:, None]
    means = np.empty_like(y)
    rows = max(1, BLOCK_ENTRIES // n)
    for begin in range(0, n, rows):
        end = min(begin + rows, n)
        exponents = xi[begin:end] @ y[:end].T
        later = np.arange(end) > np.arange(begin, end)[:, None]
        exponents[later] = -np.inf
        exponents -= exponents.max(axis=1, keepdims=True)
        weights = np.exp(exponents)
        means[begin:end] = (weights @ y[:end]) / weights.sum(axis=1, keepdims=True)
    return means
