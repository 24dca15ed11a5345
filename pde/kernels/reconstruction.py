"""Least-squares polynomials on the cells of a mesh: stencils, and values as weights.

The polynomial of cell i lives in the cell's tangent plane, in orthographic coordinates
y -> <e, y> / s (e a unit tangent vector, s the size of the stencil). Its average over cell i is
the cell's average, so it is written in the functions that have none,

    p(y) = rho_i + sum_m c_m (mono_m(y) - <mono_m>_i),

and c minimises sum_j w_j^2 (<p>_j - rho_j)^2 over the stencil. Everything here is linear in the
differences rho_j - rho_i: a value p(y) is stored as the row of weights of these differences.
"""

import numpy as np
from numba import prange

from pde.kernels.compile import kernel

CHUNKS = 64


@kernel
def grow_rings(cell, rings, cell_offsets, cell_neighbours, found):
    """Write the cells within `rings` edges of `cell` to `found`, itself first; their number."""
    found[0] = cell
    count = 1
    ring_start = 0
    for _ in range(rings):
        ring_end = count
        for k in range(ring_start, ring_end):
            for m in range(cell_offsets[found[k]], cell_offsets[found[k] + 1]):
                candidate = cell_neighbours[m]
                new = True
                for n in range(count):
                    if found[n] == candidate:
                        new = False
                        break
                if new:
                    found[count] = candidate
                    count += 1
        ring_start = ring_end
    return count


@kernel(parallel=True)
def ring_stencils(rings, cell_offsets, cell_neighbours, most, stencils, counts):
    """Rows of neighbours within `rings` edges, padded by the cell itself.

    stencils : (N, S) int32, written; S the largest number of neighbours
    counts : (N,) int32, written; neighbours of each cell. Called with S = 0 it only counts.
    most : length of the scratch list, no smaller than any count + 1
    """
    n_cells = len(cell_offsets) - 1
    width = stencils.shape[1]
    for chunk in prange(CHUNKS):
        found = np.empty(most, np.int32)
        for i in range(chunk * n_cells // CHUNKS, (chunk + 1) * n_cells // CHUNKS):
            count = grow_rings(i, rings, cell_offsets, cell_neighbours, found)
            counts[i] = count - 1
            for k in range(width):
                stencils[i, k] = found[k + 1] if k + 1 < count else i


@kernel
def monomials(frame, point, scale, degree, out):
    """The monomials of degree 1 to `degree` in the orthographic coordinates of `point`.

    frame : (d - 1, d) unit tangent vectors; one variable for d = 2, two for d = 3.
    """
    variables, dim = frame.shape
    u = 0.0
    for a in range(dim):
        u += frame[0, a] * point[a]
    u *= scale
    if variables == 1:
        power = 1.0
        for t in range(degree):
            power *= u
            out[t] = power
        return
    v = 0.0
    for a in range(dim):
        v += frame[1, a] * point[a]
    v *= scale
    out[0] = u
    out[1] = v
    previous = 0
    here = 2
    for t in range(2, degree + 1):
        for k in range(t):
            out[here + k] = u * out[previous + k]
        out[here + t] = v * out[previous + t - 1]
        previous = here
        here += t + 1


@kernel
def mean_monomials(frame, scale, degree, points, weights, start, end, one, out):
    """The monomials' averages over the cell with quadrature nodes start..end."""
    size = len(out)
    for m in range(size):
        out[m] = 0.0
    total = 0.0
    for q in range(start, end):
        monomials(frame, points[q], scale, degree, one)
        total += weights[q]
        for m in range(size):
            out[m] += weights[q] * one[m]
    for m in range(size):
        out[m] /= total


@kernel
def householder(matrix, rows, tau):
    """QR of the first `rows` rows in place: R above the diagonal, reflections below.

    Column k holds the vector v_k with implied leading 1 and H_k = I - tau_k v_k v_k^T. Returns
    the smallest ratio of |R_kk| to the length of column k: zero where the fit is degenerate.
    """
    columns = matrix.shape[1]
    smallest = 1.0
    for k in range(columns):
        whole = 0.0
        for r in range(k):
            whole += matrix[r, k] ** 2
        below = 0.0
        for r in range(k, rows):
            below += matrix[r, k] ** 2
        whole += below
        length = np.sqrt(below)
        if length == 0.0:
            tau[k] = 0.0
            return 0.0
        smallest = min(smallest, np.sqrt(below / whole))
        pivot = matrix[k, k]
        diagonal = -length if pivot > 0.0 else length
        head = pivot - diagonal
        tau[k] = -head / diagonal
        for r in range(k + 1, rows):
            matrix[r, k] /= head
        matrix[k, k] = diagonal
        for c in range(k + 1, columns):
            dot = matrix[k, c]
            for r in range(k + 1, rows):
                dot += matrix[r, k] * matrix[r, c]
            dot *= tau[k]
            matrix[k, c] -= dot
            for r in range(k + 1, rows):
                matrix[r, c] -= dot * matrix[r, k]
    return smallest


@kernel
def row_of_weights(matrix, rows, tau, values, solution):
    """The least-squares functional: solution = Q R^{-T} values, overwritten in place.

    For the fit A c ~ b with A = Q R, values . c = values . R^{-1} Q^T b = solution . b.
    """
    columns = matrix.shape[1]
    for k in range(columns):
        total = values[k]
        for m in range(k):
            total -= matrix[m, k] * solution[m]
        solution[k] = total / matrix[k, k]
    for r in range(columns, rows):
        solution[r] = 0.0
    for k in range(columns - 1, -1, -1):
        dot = solution[k]
        for r in range(k + 1, rows):
            dot += matrix[r, k] * solution[r]
        dot *= tau[k]
        solution[k] -= dot
        for r in range(k + 1, rows):
            solution[r] -= dot * matrix[r, k]


@kernel(parallel=True)
def value_weights(
    degree,
    size,
    decay,
    frames,
    centers,
    stencils,
    counts,
    points,
    weights,
    offsets,
    targets,
    target_offsets,
    out,
    quality,
):
    """Weights of the differences rho_j - rho_i that give p_i at the targets of each cell.

    degree, size : of the polynomials, and the number of their monomials without the constant
    decay : the residual at cell j is weighted by distance^-decay
    frames : (N, d - 1, d) tangent vectors; centers : (N, d), where distances are measured
    stencils : (N, S) int32, the first counts[i] of row i are used
    points, weights, offsets : quadrature nodes of the cells, which give the averages
    targets : (T, d) points, those of cell i from target_offsets[i] on
    out : (T, S), written; quality : (N,), written, 0 where the fit is degenerate
    """
    n_cells, width = stencils.shape
    dim = centers.shape[1]
    for chunk in prange(CHUNKS):
        matrix = np.empty((width, size))
        tau = np.empty(size)
        own = np.empty(size)
        other = np.empty(size)
        one = np.empty(size)
        importance = np.empty(width)
        solution = np.empty(width)
        for i in range(chunk * n_cells // CHUNKS, (chunk + 1) * n_cells // CHUNKS):
            count = counts[i]
            furthest = 0.0
            for j in range(count):
                squared = 0.0
                for a in range(dim):
                    squared += (centers[stencils[i, j], a] - centers[i, a]) ** 2
                importance[j] = squared
                furthest = max(furthest, squared)
            scale = 1.0 / np.sqrt(furthest)
            mean_monomials(
                frames[i], scale, degree, points, weights, offsets[i], offsets[i + 1], one, own
            )
            for j in range(count):
                importance[j] = (furthest / importance[j]) ** (0.5 * decay)
                k = stencils[i, j]
                mean_monomials(
                    frames[i],
                    scale,
                    degree,
                    points,
                    weights,
                    offsets[k],
                    offsets[k + 1],
                    one,
                    other,
                )
                for m in range(size):
                    matrix[j, m] = importance[j] * (other[m] - own[m])
            quality[i] = householder(matrix, count, tau)
            for p in range(target_offsets[i], target_offsets[i + 1]):
                monomials(frames[i], targets[p], scale, degree, one)
                for m in range(size):
                    one[m] -= own[m]
                row_of_weights(matrix, count, tau, one, solution)
                for j in range(count):
                    out[p, j] = importance[j] * solution[j]
                for j in range(count, width):
                    out[p, j] = 0.0
