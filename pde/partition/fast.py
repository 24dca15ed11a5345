"""The log-partition function in linear time, with a proven relative error.

Patches. Targets and sources are grouped into patches, xi = xi_c + eta with |eta| <= R and
y = c + delta with |delta| <= r, |c| = 1, such that R r is about RHO whatever beta is. Of

    Z(xi) = sum_S Z_S(xi),
    Z_S(xi) = sum_{j in S} w_j e^{<xi_c, y_j>} e^{<eta, c>} e^{<eta, delta_j>},

only the last factor couples the two sides. All terms are positive, so relative errors of terms
are relative errors of the sum, also where Z is e^{-500} of its peak.

Lower bound. With the mass W_S and the centre of mass y_S of each source patch, Jensen's inequality
gives Z(xi) >= sum_S W_S e^{<xi, y_S>}, itself the partition function of a measure, whose logarithm
is convex: log Z(xi_c + eta) >= lower + <eta, pull> with its value and gradient at xi_c.

Shares. Over a target patch, the share Z_S / Z of a source patch is at most e^b,

    b = log sum_{j in S} w_j e^{<xi_c, y_j>} - lower + R (|c - pull| + r)

(or the first term from the mass of S and the largest <xi_c, y> on its cap). Now, with the
tolerance tau,

- patches are dropped as long as their e^b add up to at most tau / 8;
- the others are summed directly, or e^{<eta, delta>} is replaced by a polynomial with relative
  error eps for |<eta, delta>| <= R r (pde/partition/expansion.py), such that either eps <= tau / 2,
  or eps e^b, summed over all those, is at most 3 tau / 8.

So the approximation Z~ satisfies |Z~ - Z| <= tau Z at every target, and log Z is right to
tau (1 + tau). The mean is computed as the ratio of sum_S (c Z~_S + grad Z~_S) and Z~, where
grad Z~_S stands for sum_j a_j e^{<eta, c>} delta_j P'(<eta, delta_j>) and the degree is such that
r eps' obeys the same bounds as eps. Relative to the exact mean m a patch is off by at most
|c - m| eps Z_S + r eps' Z_S <= 3 eps Z_S, a dropped one by |y - m| Z_S <= 2 Z_S: the mean is right
to 3 tau (1 + tau). Rounding comes on top, about 4e-16 (20 + |xi|).

Cost. A source patch matters to the targets within a few |beta B|^(-1/2) only, so both the number
of patches per target and the number of moments per pair are bounded: O(N) for every beta. Pairs of
small patches, where direct summation is cheaper, are summed directly; so is everything where an
estimate of the cost says so.
"""

from __future__ import annotations

import numpy as np

from pde.arguments import Array
from pde.kernels import fast, tree
from pde.kernels.patches import BLOCK, SHORT_ERROR, WIDTH
from pde.kernels.selection import GROUP
from pde.partition.direct import direct_sums
from pde.partition.expansion import monomials, polynomials

RHO = 1.2  # radius of target patches times radius of source patches
ASPECT = 2.0  # source patches this much larger, relative to the sphere, than target patches
SOURCES = 8  # source patches hold multiples of this many points, where they can be split
SPARSE = 8  # the same for targets, where patches of WIDTH would be too large
PADDING = BLOCK  # sources beyond the last: vectors are loaded as a whole
LARGEST_XI = 1e4  # |xi| up to which this is used, and
LARGEST_PATCH = 150.0  # radius of target patches, and |xi| times the radius of source patches,
# up to which all exponents surely stay within the range of float64
LEAST_WORK = 1300.0  # m n / (m + n) below which grouping would cost over a tenth of a direct sum
CYCLES_DIRECT = 1.8  # of a pair in pde/kernels/direct.py (2.5), less what the estimate leaves out


def fast_log_partition(
    xi: Array, points: Array, weights: Array, tolerance: float
) -> tuple[Array, Array] | None:
    """log Z (m,) and mean (m, d), d = 2 or 3, to a relative error `tolerance` of Z.

    xi (m, d), points (n, d) on the unit sphere, weights (n,) > 0. None where direct summation is
    cheaper or needed: few points, |xi| so large or a tolerance so small that rounding matters.
    """
    (m, dim), n = xi.shape, len(points)
    if m * n < LEAST_WORK * (m + n):
        return None
    low, high = xi.min(axis=0), xi.max(axis=0)
    spread = 0.5 * float(np.linalg.norm(high - low))
    size = spread + 0.5 * float(np.linalg.norm(high + low))
    if size > LARGEST_XI or tolerance < 2e-16 * max(size, 100.0):
        return None
    targets, patches, groups, sources = _patches(xi, points, weights, spread, size)
    tables = polynomials(), monomials(dim)
    fast_targets = int(np.diff(targets.begin)[targets.served].sum())
    step = max(1, len(targets.served) // 32)
    common = (sources, n + PADDING, patches, groups)
    if fast_targets:
        cost = fast.estimate(targets, step, *common, tables[0], tables[1].counts, tolerance)
    if not fast_targets or cost > CYCLES_DIRECT * n:
        return None
    log_z, mean = np.empty(m), np.empty((m, dim))
    short = tolerance >= 100.0 * SHORT_ERROR
    fast.serve_all(targets, *common, *tables, dim == 3, tolerance, short, log_z, mean)
    if fast_targets < m:
        astray = np.ones(len(targets.radius), dtype=bool)
        astray[targets.served] = False
        rest = targets.order[np.repeat(astray, np.diff(targets.begin))]
        log_z[rest], mean[rest] = direct_sums(xi[rest], points, *np.frexp(weights))
    return log_z, mean


def _patches(
    xi: Array, points: Array, weights: Array, spread: float, size: float
) -> tuple[fast.Targets, fast.Caps, fast.Caps, Array]:
    """Targets and sources grouped into patches, groups of source patches, and sorted sources."""
    m, n = len(xi), len(points)
    # WIDTH points in a square on a sphere of radius `spread` have 2 radius^2 as their area.
    multiple = WIDTH if spread * np.sqrt(2.0 * np.pi * WIDTH / m) < 0.75 * LARGEST_PATCH else SPARSE
    source_radius = min(2.0, np.sqrt(RHO * ASPECT / max(spread, 1e-300)))
    x, y = _flat(xi, 3, 0), _flat(points, 4, PADDING)
    order, *x_arrays = _empty_patches(m, multiple)
    y_order, *y_arrays = _empty_patches(n, SOURCES)
    p, q = tree.build_both(
        x, m, order, RHO / source_radius, multiple, *x_arrays,
        y, n + PADDING, y_order, source_radius, SOURCES, *y_arrays,
    )  # fmt: skip
    begin, centre, radius = _trimmed(x_arrays, p)
    y_begin, y_centre, y_radius = _trimmed(y_arrays, q)
    log_mass, mean = np.empty(q), np.empty((q, 3))
    tree.summarise(y, n + PADDING, weights, y_order, y_begin, log_mass, mean)
    if size * y_radius.max() > LARGEST_PATCH:  # Jensen's inequality would give too much away
        lower, pull = direct_sums(centre[:, : xi.shape[1]], points, *np.frexp(weights))
        pull = np.pad(pull, ((0, 0), (0, 3 - xi.shape[1])))
    else:
        lower, pull = _partition_of_patches(centre, mean, log_mass)
    served = np.flatnonzero(radius <= LARGEST_PATCH)
    groups = _empty_groups(q)
    tree.group(y_centre, y_radius, log_mass, GROUP, *groups)
    return (
        fast.Targets(x, order, begin, centre, radius, served, lower, pull),
        fast.Caps(y_begin, np.ascontiguousarray(y_centre.T), y_radius, log_mass),
        fast.Caps(y_begin, np.ascontiguousarray(groups[0].T), *groups[1:]),
        y,
    )


def _flat(points: Array, rows: int, padding: int) -> Array:
    """Coordinates one after the other in `rows` rows, zeros in the rows and columns beyond."""
    n, dim = points.shape
    flat = np.zeros((rows, n + padding))
    flat[:dim, :n] = points.T
    return flat.reshape(-1)


def _empty_patches(n: int, multiple: int) -> tuple[np.ndarray, np.ndarray, Array, Array]:
    """order, begin, centre and radius for the patches of n points."""
    most = n // multiple + 1
    order = np.arange(n, dtype=np.int32)
    return order, np.empty(most + 1, dtype=np.int64), np.empty((most, 3)), np.empty(most)


def _trimmed(arrays: list[np.ndarray], p: int) -> tuple[np.ndarray, Array, Array]:
    """begin, centre and radius of the p patches there are."""
    begin, centre, radius = arrays
    return begin[: p + 1].copy(), centre[:p].copy(), radius[:p].copy()


def _empty_groups(patches: int) -> tuple[Array, Array, Array]:
    """centre, radius and logarithm of mass for groups of patches."""
    n = -(-patches // GROUP)
    return np.empty((n, 3)), np.empty(n), np.empty(n)


def _partition_of_patches(xi: Array, mean: Array, log_mass: Array) -> tuple[Array, Array]:
    """log Z and its gradient at xi (p, 3) for the patches' masses at their centres of mass."""
    exponent = np.floor(log_mass / np.log(2.0)) + 1.0
    mantissa = np.exp(log_mass - exponent * np.log(2.0))
    return direct_sums(xi, mean, mantissa, exponent)
