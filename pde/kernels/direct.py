"""The log-partition function by direct summation, streaming, shifted by the true maximum.

With zeta = xi log2(e) and masses w_j = m_j 2^{k_j} (m_j in [1/2, 1), k_j an integer) each term of
Z(xi) = sum_j w_j e^{<xi, y_j>} is

    w_j e^{<xi, y_j>} = m_j 2^{r_j} 2^{n_j},   n_j + r_j = <zeta, y_j> + k_j,   n_j an integer.

The shift M = max_j n_j is an integer as well: shifting, rescaling and the range of the masses
(down to denormal ones) bring no rounding at all. What is left is the product <zeta, y_j>. It is
formed from parts, zeta = zeta_high + zeta_low and y = y_high + y_low, whose high ones have at most
26 bits on a grid (`split` in pde/partition/softmax.py): <zeta_high, y_high> is exact in any order
of summation. So n_j + r_j is right to about 1e-16 and not to 1e-16 |xi|, and terms that tie at |xi|
= 1e5 are weighed against each other correctly.

Targets are the parallel direction and the sum of each runs in a fixed order: the result is bitwise
the same on any number of threads.

Arrays: targets (m, d); sources (d, n), one coordinate after the other; masses (2, n): k and m.
"""

import math

import numpy as np
from numba import prange

from pde.kernels.compile import kernel
from pde.kernels.exponential import exp2_fraction, exp2_integer, maximum, round_down

SOURCES = 512  # sources of a block: their data stay in the first-level cache
TARGETS = 32  # targets that meet a block while it is there
LN2 = math.log(2.0)

# Where exactness is claimed nothing may be reassociated; sums of positive terms may.
EXACT = {"contract", "nnan", "nsz"}
SUM = {"contract", "reassoc", "nnan", "nsz"}


@kernel(parallel=True)
def sums_3(zeta_high, zeta_low, y_high, y_low, masses, log_z, mean):
    """log Z (m,) and mean (m, 3) at all targets, d = 3. A third coordinate 0 serves d = 2."""
    n_targets, n_sources = zeta_high.shape[0], y_high.shape[1]
    for tile in prange((n_targets + TARGETS - 1) // TARGETS):
        first, last = tile * TARGETS, min(tile * TARGETS + TARGETS, n_targets)
        integer, fraction = np.empty(SOURCES), np.empty(SOURCES)
        shift, total = np.full(TARGETS, -np.inf), np.zeros(TARGETS)
        mean[first:last] = 0.0
        for start in range(0, n_sources, SOURCES):
            block = slice(start, min(start + SOURCES, n_sources))
            for t in range(first, last):
                new = _exponents_3(
                    zeta_high[t], zeta_low[t], y_high, y_low, start, masses[0, block],
                    integer, fraction,
                )  # fmt: skip
                old = shift[t - first]
                new = max(old, new)
                z, z0, z1, z2 = _block_sums_3(
                    integer, fraction, new, masses[1, block], y_high, y_low, start
                )
                rescale = exp2_integer(old - new)
                shift[t - first] = new
                total[t - first] = total[t - first] * rescale + z
                mean[t, 0] = mean[t, 0] * rescale + z0
                mean[t, 1] = mean[t, 1] * rescale + z1
                mean[t, 2] = mean[t, 2] * rescale + z2
        for t in range(first, last):
            log_z[t] = shift[t - first] * LN2 + math.log(total[t - first])
            mean[t] /= total[t - first]


@kernel(fastmath=EXACT)
def _exponents_3(zeta_high, zeta_low, points_high, points_low, start, exponent, integer, fraction):
    """n_j and r_j of a block of sources; returns the largest n_j."""
    block = slice(start, start + exponent.size)
    x_high, y_high, z_high = points_high[0, block], points_high[1, block], points_high[2, block]
    x_low, y_low, z_low = points_low[0, block], points_low[1, block], points_low[2, block]
    h0, h1, h2 = zeta_high[0], zeta_high[1], zeta_high[2]
    l0, l1, l2 = zeta_low[0], zeta_low[1], zeta_low[2]
    s0, s1, s2 = h0 + l0, h1 + l1, h2 + l2
    largest = -np.inf
    for j in range(exponent.size):
        high = h0 * x_high[j] + h1 * y_high[j] + h2 * z_high[j]
        low = (s0 * x_low[j] + s1 * y_low[j] + s2 * z_low[j]) + (
            l0 * x_high[j] + l1 * y_high[j] + l2 * z_high[j]
        )
        n = round_down(high + low + 0.5)
        fraction[j] = (high - n) + low
        integer[j] = n + exponent[j]
        largest = maximum(largest, integer[j])
    return largest


@kernel(fastmath=SUM)
def _block_sums_3(integer, fraction, shift, mantissa, points_high, points_low, start):
    """sum_j t_j and sum_j t_j y_j over a block, t_j = m_j 2^{r_j} 2^{n_j - shift}."""
    block = slice(start, start + mantissa.size)
    x_high, y_high, z_high = points_high[0, block], points_high[1, block], points_high[2, block]
    x_low, y_low, z_low = points_low[0, block], points_low[1, block], points_low[2, block]
    z, z0, z1, z2 = 0.0, 0.0, 0.0, 0.0
    for j in range(mantissa.size):
        term = exp2_fraction(fraction[j]) * (mantissa[j] * exp2_integer(integer[j] - shift))
        z += term
        z0 += term * (x_high[j] + x_low[j])
        z1 += term * (y_high[j] + y_low[j])
        z2 += term * (z_high[j] + z_low[j])
    return z, z0, z1, z2


@kernel(parallel=True)
def sums(zeta_high, zeta_low, y_high, y_low, masses, log_z, mean):
    """log Z (m,) and mean (m, d) at all targets, any d."""
    n_targets, dim = zeta_high.shape
    n_sources = y_high.shape[1]
    for tile in prange((n_targets + TARGETS - 1) // TARGETS):
        first, last = tile * TARGETS, min(tile * TARGETS + TARGETS, n_targets)
        integer, term = np.empty(SOURCES), np.empty(SOURCES)
        shift, total = np.full(TARGETS, -np.inf), np.zeros(TARGETS)
        mean[first:last] = 0.0
        for start in range(0, n_sources, SOURCES):
            block = slice(start, min(start + SOURCES, n_sources))
            for t in range(first, last):
                old = shift[t - first]
                new = _exponents(
                    zeta_high[t], zeta_low[t], y_high, y_low, start,
                    masses[0, block], integer, term,
                )  # fmt: skip
                new = max(old, new)
                rescale = exp2_integer(old - new)
                shift[t - first] = new
                total[t - first] *= rescale
                total[t - first] += _terms(integer, term, new, masses[1, block])
                for k in range(dim):
                    mean[t, k] *= rescale
                    mean[t, k] += _dot(term, y_high[k, block], y_low[k, block])
        for t in range(first, last):
            log_z[t] = shift[t - first] * LN2 + math.log(total[t - first])
            mean[t] /= total[t - first]


@kernel(parallel=True)
def covariances(zeta_high, zeta_low, y_high, y_low, masses, mean, covariance):
    """Covariance (m, d, d) of y under w e^{<xi, y>} / Z, given its mean (m, d).

    Summed around the mean, so it keeps its relative accuracy where the law is concentrated.
    """
    n_targets, dim = zeta_high.shape
    n_sources = y_high.shape[1]
    for t in prange(n_targets):
        integer, term = np.empty(SOURCES), np.empty(SOURCES)
        shift, total = -np.inf, 0.0
        covariance[t] = 0.0
        for start in range(0, n_sources, SOURCES):
            block = slice(start, min(start + SOURCES, n_sources))
            old = shift
            new = _exponents(
                zeta_high[t], zeta_low[t], y_high, y_low, start,
                masses[0, block], integer, term,
            )  # fmt: skip
            shift = max(old, new)
            rescale = exp2_integer(old - shift)
            total = total * rescale + _terms(integer, term, shift, masses[1, block])
            for k in range(dim):
                for i in range(k + 1):
                    covariance[t, k, i] *= rescale
                    covariance[t, k, i] += _centred(
                        term, y_high[k, block], y_low[k, block], mean[t, k],
                        y_high[i, block], y_low[i, block], mean[t, i],
                    )  # fmt: skip
        for k in range(dim):
            for i in range(k + 1):
                covariance[t, k, i] /= total
                covariance[t, i, k] = covariance[t, k, i]


@kernel(fastmath=EXACT)
def _exponents(zeta_high, zeta_low, y_high, y_low, start, exponent, integer, fraction):
    """n_j and r_j of a block of sources; returns the largest n_j."""
    size = exponent.size
    high, low = integer, fraction
    high[:size] = 0.0
    low[:size] = 0.0
    for k in range(zeta_high.size):
        h, l = zeta_high[k], zeta_low[k]  # noqa: E741
        k_high, k_low = y_high[k, start : start + size], y_low[k, start : start + size]
        for j in range(size):
            high[j] += h * k_high[j]
            low[j] += (h + l) * k_low[j] + l * k_high[j]
    largest = -np.inf
    for j in range(size):
        n = round_down(high[j] + low[j] + 0.5)
        fraction[j] = (high[j] - n) + low[j]
        integer[j] = n + exponent[j]
        largest = maximum(largest, integer[j])
    return largest


@kernel(fastmath=SUM)
def _terms(integer, term, shift, mantissa):
    """Turn r_j, given in `term`, into t_j = m_j 2^{r_j} 2^{n_j - shift}; returns their sum."""
    total = 0.0
    for j in range(mantissa.size):
        term[j] = exp2_fraction(term[j]) * (mantissa[j] * exp2_integer(integer[j] - shift))
        total += term[j]
    return total


@kernel(fastmath=SUM)
def _dot(term, y_high, y_low):
    """sum_j t_j y_j for one coordinate y = y_high + y_low."""
    result = 0.0
    for j in range(y_high.size):
        result += term[j] * (y_high[j] + y_low[j])
    return result


@kernel(fastmath=SUM)
def _centred(term, a_high, a_low, a_mean, b_high, b_low, b_mean):
    """sum_j t_j (a_j - mean a) (b_j - mean b) for two coordinates a, b."""
    result = 0.0
    for j in range(a_high.size):
        result += term[j] * ((a_high[j] - a_mean) + a_low[j]) * ((b_high[j] - b_mean) + b_low[j])
    return result
