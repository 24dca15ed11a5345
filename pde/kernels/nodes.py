"""Positive quadrature nodes that carry a reconstructed density."""

import numpy as np
from numba import prange

from pde.kernels.compile import kernel
from pde.kernels.fluxes import REASSOCIATE, dot
from pde.kernels.reconstruction import monomials

CHUNKS = 64


@kernel
def pivot_on(table, row, column):
    """Gauss-Jordan: make `column` of the table the unit vector of `row`."""
    rows, columns = table.shape
    pivot = table[row, column]
    for c in range(columns):
        table[row, c] /= pivot
    for r in range(rows):
        factor = table[r, column]
        if r != row and factor != 0.0:
            for c in range(columns):
                table[r, c] -= factor * table[row, c]


@kernel
def compress(table, weights, basis):
    """Empty nodes until no more than conditions are left: weights >= 0, sums kept.

    table : (m, n) values of m independent functions at n >= m nodes, overwritten
    weights : (n,) > 0, overwritten, at most m entries stay > 0
    basis : (m,) written: the nodes that stay

    Carathéodory's argument (Tchakaloff's theorem): a node outside the basis gives its weight to
    the basis, which keeps all sums; where a basis node would fall below zero first, the two swap.
    """
    rows, columns = table.shape
    inside = np.zeros(columns, np.bool_)
    for r in range(rows):
        best = 0
        largest = -1.0
        for c in range(columns):
            if not inside[c] and abs(table[r, c]) > largest:
                best = c
                largest = abs(table[r, c])
        pivot_on(table, r, best)
        inside[best] = True
        basis[r] = best
    for c in range(columns):
        if inside[c]:
            continue
        step = weights[c]
        leaving = -1
        for r in range(rows):
            if weights[basis[r]] < -step * table[r, c]:
                step = -weights[basis[r]] / table[r, c]
                leaving = r
        weights[c] -= step
        for r in range(rows):
            weights[basis[r]] = max(weights[basis[r]] + step * table[r, c], 0.0)
        if leaving >= 0:
            weights[basis[leaving]] = 0.0
            pivot_on(table, leaving, c)
            basis[leaving] = c
        else:
            weights[c] = 0.0


@kernel(parallel=True)
def compressed(degree, frames, scales, points, weights, offsets, out_points, out_weights):
    """For each cell as many of its quadrature nodes as polynomials of `degree` need.

    scales : (N,) about 1 / cell radius
    out_points (N, m, d), out_weights (N, m) : written; m the number of polynomials
    """
    n_cells, size, dim = out_points.shape
    for chunk in prange(CHUNKS):
        values = np.empty(size - 1)
        basis = np.empty(size, np.int64)
        for i in range(chunk * n_cells // CHUNKS, (chunk + 1) * n_cells // CHUNKS):
            start = offsets[i]
            table = np.ones((size, offsets[i + 1] - start))
            left = weights[start : offsets[i + 1]].copy()
            whole = left.sum()
            for q in range(len(left)):
                monomials(frames[i], points[start + q], scales[i], degree, values)
                table[1:, q] = values
            compress(table, left, basis)
            for q in range(size):
                out_weights[i, q] = left[basis[q]] * (whole / left.sum())
                for a in range(dim):
                    out_points[i, q, a] = points[start + basis[q], a]


@kernel(parallel=True, fastmath=REASSOCIATE)
def node_masses(rho, stencils, rows, weights, out):
    """Masses of the limited reconstruction at the nodes of each cell.

    rho : (N,) averages >= 0; rows : (N, q, S) weights of differences, whose mean over the nodes
        is zero; weights, out : (N, q)

    The polynomial is scaled towards the average until its smallest value at a node is >= 0
    (Zhang, Shu, J. Comput. Phys. 229 (2010)): no order is lost, and the masses keep their sum.
    """
    n_cells, width = stencils.shape
    nodes = weights.shape[1]
    for chunk in prange(CHUNKS):
        differences = np.empty(width)
        deviations = np.empty(nodes)
        for i in range(chunk * n_cells // CHUNKS, (chunk + 1) * n_cells // CHUNKS):
            for j in range(width):
                differences[j] = rho[stencils[i, j]] - rho[i]
            lowest = 0.0
            for q in range(nodes):
                deviations[q] = dot(rows[i, q], differences)
                lowest = min(lowest, deviations[q])
            factor = 1.0
            if rho[i] + lowest < 0.0:
                factor = rho[i] / -lowest
            for q in range(nodes):
                out[i, q] = weights[i, q] * max(rho[i] + factor * deviations[q], 0.0)
