"""Zonal costs c(x, y) = h(|x - y|) on the sphere and their c-transforms, without a cost matrix.

Costs are evaluated from |x - y|^2 and |x + y|^2, so that they are right to a few units of rounding
for near and for antipodal points. Points come as (d, n): a scan over the second index is then a
vector loop.
"""

import numpy as np
from numba import prange

from pde.kernels.compile import kernel

CHORDAL, CHORDAL_SQUARED, GEODESIC, GEODESIC_SQUARED = range(4)
BLOCK = 32
FASTMATH = {"nnan", "nsz", "contract"}


@kernel(fastmath=FASTMATH)
def _arctan(q):
    """arctan on [0, 1/2], rational approximation of Cephes (S. Moshier): relative error 2e-16."""
    z = q * q
    p = -8.750608600031904122785e-1
    p = p * z - 1.615753718733365076637e1
    p = p * z - 7.500855792314704667340e1
    p = p * z - 1.228866684490136173410e2
    p = p * z - 6.485021904942025371773e1
    r = z + 2.485846490142306297962e1
    r = r * z + 1.650270098316988542046e2
    r = r * z + 4.328810604912902668951e2
    r = r * z + 4.853903996359136964868e2
    r = r * z + 1.945506571482613964425e2
    return q + q * (z * p / r)


@kernel(fastmath=FASTMATH)
def _angle(minus, plus):
    """Geodesic distance from |x - y|^2 and |x + y|^2: tan(angle / 4) = |x - y| / (2 + |x + y|)."""
    near = 4.0 * _arctan(np.sqrt(min(minus, plus)) / (2.0 + np.sqrt(max(minus, plus))))
    return near if minus <= plus else np.pi - near


@kernel(fastmath=FASTMATH)
def _costs(kind, minus, plus, out):
    """h of |x - y|^2 and |x + y|^2 (used by the geodesic costs only)."""
    for k in range(out.size):
        out[k] = minus[k]
    if kind == CHORDAL:
        for k in range(out.size):
            out[k] = np.sqrt(minus[k])
    elif kind == GEODESIC:
        for k in range(out.size):
            out[k] = _angle(minus[k], plus[k])
    elif kind == GEODESIC_SQUARED:
        for k in range(out.size):
            out[k] = _angle(minus[k], plus[k]) ** 2


@kernel(fastmath=FASTMATH)
def _squares(x, i, y, start, sign, out):
    """|x_i + sign y_j|^2 for j = start, start + 1, ..."""
    for k in range(out.size):
        out[k] = 0.0
    for a in range(x.shape[0]):
        for k in range(out.size):
            out[k] += (x[a, i] + sign * y[a, start + k]) ** 2


@kernel(fastmath=FASTMATH)
def _scan(kind, x, i, y, start, plus, out):
    """Costs of x_i against y_start, y_start+1, ...; plus: scratch of the size of out."""
    _squares(x, i, y, start, -1.0, out)
    if kind >= GEODESIC:
        _squares(x, i, y, start, 1.0, plus)
    _costs(kind, out, plus, out)


@kernel(parallel=True)
def costs(kind, x, y, rows, columns):
    """c(x_i, y_j) for pairs (i, j) = (rows, columns): (n_pairs,)."""
    result = np.empty(rows.size)
    for k in prange(rows.size):
        _scan(kind, x, rows[k], y, columns[k], np.empty(1), result[k : k + 1])
    return result


@kernel
def _balls(y, g):
    """Blocks of consecutive points in balls: centres (d, n_blocks), radii, the largest g."""
    m = y.shape[1]
    n_blocks = (m + BLOCK - 1) // BLOCK
    centres = np.empty((y.shape[0], n_blocks))
    radii, largest = np.zeros(n_blocks), np.empty(n_blocks)
    for b in range(n_blocks):
        block = slice(b * BLOCK, min((b + 1) * BLOCK, m))
        for a in range(y.shape[0]):
            centres[a, b] = y[a, block].mean()
        for j in range(block.start, block.stop):
            radii[b] = max(radii[b], np.sqrt(((y[:, j] - centres[:, b]) ** 2).sum()))
        largest[b] = g[block].max()
    return centres, radii, largest


@kernel(fastmath=FASTMATH)
def _bounds(kind, x, i, centres, radii, largest, plus, out):
    """Lower bounds of c(x_i, y) - g(y) for every block: no point of it is nearer than the ball.

    The ball is taken larger by more than the rounding of radius and distance.
    """
    _squares(x, i, centres, 0, -1.0, out)
    rounding = 1e-15 * (8 + x.shape[0])
    for b in range(out.size):
        out[b] = max(np.sqrt(out[b]) - radii[b] - rounding, 0.0) ** 2
        plus[b] = max(4.0 - out[b], 0.0)
    _costs(kind, out, plus, out)
    for b in range(out.size):
        out[b] -= largest[b]


@kernel(fastmath=FASTMATH)
def _subtract(values, g):
    """values -= g; the smallest result."""
    smallest = np.inf
    for k in range(values.size):
        values[k] -= g[k]
        smallest = min(smallest, values[k])
    return smallest


@kernel
def _insert(value, column, best, where):
    """Keep the smallest values in increasing order, and where they come from."""
    k = best.size - 1
    while k > 0 and best[k - 1] > value:
        best[k], where[k] = best[k - 1], where[k - 1]
        k -= 1
    best[k], where[k] = value, column


@kernel(parallel=True)
def smallest(kind, x, y, g, count):
    """The `count` smallest of c(x_i, y_j) - g_j over j, for every i, in increasing order.

    x, y : (d, n), (d, m) unit vectors; g : (m,). Returns values (n, count) and columns (n, count)
    int32; missing ones (count > m) are inf and -1. The first value is the c-transform of g at x_i.
    Blocks of y that cannot contribute are left out: quick where neighbours in the list are
    neighbours on the sphere.
    """
    n, m = x.shape[1], y.shape[1]
    values = np.full((n, count), np.inf)
    columns = np.full((n, count), -1, dtype=np.int32)
    centres, radii, largest = _balls(y, g)
    for i in prange(n):
        bounds, scratch = np.empty(radii.size), np.empty(max(radii.size, BLOCK))
        _bounds(kind, x, i, centres, radii, largest, scratch[: radii.size], bounds)
        block = np.empty(BLOCK)
        best, where = values[i], columns[i]
        first = np.argmin(bounds)
        for b in range(-1, radii.size):
            if b < 0:
                b = first
            elif b == first or bounds[b] > best[count - 1]:
                continue
            start = b * BLOCK
            costs = block[: min(BLOCK, m - start)]
            _scan(kind, x, i, y, start, scratch[: costs.size], costs)
            if _subtract(costs, g[start : start + costs.size]) < best[count - 1]:
                for k in range(costs.size):
                    if costs[k] < best[count - 1]:
                        _insert(costs[k], start + k, best, where)
    return values, columns
