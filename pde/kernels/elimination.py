"""The law at rest of a Markov chain by elimination of states, with nothing but sums of rates.

Grassmann, Taksar, Heyman, Operations Research 33 (1985): state k is left out, and what went through
it goes directly, r(j -> i) += r(j -> k) r(k -> i) / s_k with s_k the sum of its rates to the states
that are left. Nothing is subtracted, so that each entry of the law keeps its relative accuracy,
also where wells exchange next to nothing and a residual would not tell their shares.
"""

import numpy as np

from pde.kernels.compile import kernel


@kernel
def eliminate(offsets, rows, down, up, left):
    """Leave out the states 0, 1, ... one by one, the last excepted.

    Column k holds the states rows[offsets[k] : offsets[k + 1]] > k that it exchanges with by the
    time it is left out: down from k to them, up from them to k. left[k] becomes s_k.

    Returns the first state that leads nowhere, or -1.
    """
    n = len(offsets) - 1
    for k in range(n - 1):
        start, stop = offsets[k], offsets[k + 1]
        total = 0.0
        for p in range(start, stop):
            total += down[p]
        left[k] = total
        if not total > 0.0:
            return k
        for p in range(start, stop):
            into, out = up[p] / total, down[p] / total
            place = offsets[rows[p]]
            for q in range(p + 1, stop):
                while rows[place] != rows[q]:
                    place += 1
                down[place] += into * down[q]
                up[place] += up[q] * out
    return -1


@kernel
def law(offsets, rows, up, left, out):
    """out[k] = the logarithm of the mass of k at rest, that of the last state 0."""
    n = len(offsets) - 1
    out[n - 1] = 0.0
    for k in range(n - 2, -1, -1):
        largest = -np.inf
        for p in range(offsets[k], offsets[k + 1]):
            if up[p] > 0.0:
                largest = max(largest, np.log(up[p]) + out[rows[p]])
        total = 0.0
        if largest > -np.inf:
            for p in range(offsets[k], offsets[k + 1]):
                if up[p] > 0.0:
                    total += np.exp(np.log(up[p]) + out[rows[p]] - largest)
            out[k] = largest + np.log(total) - np.log(left[k])
        else:
            out[k] = -np.inf
