"""The law at rest of a Markov chain by elimination of states, with nothing but sums of rates.

Grassmann, Taksar, Heyman, Operations Research 33 (1985): state k is left out, and what went through
it goes directly, r(j -> i) += r(j -> k) r(k -> i) / s_k with s_k the sum of its rates to the states
that are left. Nothing is subtracted, so that each entry of the law keeps its relative accuracy,
also where wells exchange next to nothing and a residual would not tell their shares.

What wells exchange is a product of many rates. Where it leaves float64 the rates are logarithms, at
seven times the cost.
"""

import numpy as np

from pde.kernels.compile import kernel

LEAST = 1e-280
"""Rates below are not held to all digits, with 1 the largest."""
TRACE = 1e-305
"""Stands for products that vanish: nothing beside LEAST, and > 0."""


@kernel
def product(a, b):
    """a b >= 0, a trace at the least where both are > 0."""
    return max(a * b, TRACE) if a > 0.0 and b > 0.0 else 0.0


@kernel
def add(a, b):
    """log(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return high + np.log1p(np.exp(low - high)) if low > high - 40.0 else high


@kernel
def eliminate(offsets, rows, down, up, left):
    """Leave out the states 0, 1, ... one by one, the last excepted.

    Column k holds the states rows[offsets[k] : offsets[k + 1]] > k that it exchanges with by the
    time it is left out: down from k to them, up from them to k. left[k] becomes s_k.

    Returns whether all states lead somewhere, at rates that float64 holds.
    """
    n = len(offsets) - 1
    for k in range(n - 1):
        start, stop = offsets[k], offsets[k + 1]
        total = 0.0
        for p in range(start, stop):
            if 0.0 < down[p] < LEAST or 0.0 < up[p] < LEAST:
                return False
            total += down[p]
        left[k] = total
        if not total > 0.0:
            return False
        for p in range(start, stop):
            into, out = up[p] / total, down[p] / total
            place = offsets[rows[p]]
            for q in range(p + 1, stop):
                while rows[place] != rows[q]:
                    place += 1
                down[place] += product(into, down[q])
                up[place] += product(up[q], out)
    return True


@kernel
def eliminate_logarithms(offsets, rows, down, up, left):
    """The same with the logarithms of all rates and sums.

    Returns the first state that leads nowhere, or -1.
    """
    n = len(offsets) - 1
    for k in range(n - 1):
        start, stop = offsets[k], offsets[k + 1]
        total = -np.inf
        for p in range(start, stop):
            total = add(total, down[p])
        left[k] = total
        if total == -np.inf:
            return k
        for p in range(start, stop):
            into, out = up[p] - total, down[p] - total
            place = offsets[rows[p]]
            for q in range(p + 1, stop):
                while rows[place] != rows[q]:
                    place += 1
                down[place] = add(down[place], into + down[q])
                up[place] = add(up[place], up[q] + out)
    return -1


@kernel
def law(offsets, rows, up, left, out):
    """out[k] = the logarithm of the mass of k at rest, that of the last state 0; all in logs."""
    n = len(offsets) - 1
    out[n - 1] = 0.0
    for k in range(n - 2, -1, -1):
        largest, total = -np.inf, 0.0
        for p in range(offsets[k], offsets[k + 1]):
            largest = max(largest, up[p] + out[rows[p]])
        if largest > -np.inf:
            for p in range(offsets[k], offsets[k + 1]):
                total += np.exp(up[p] + out[rows[p]] - largest)
            out[k] = largest + np.log(total) - left[k]
        else:
            out[k] = -np.inf
