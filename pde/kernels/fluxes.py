"""Upwind fluxes through the edges of a mesh, and their divergence.

Every kernel gathers: it loops over cells or over edges and writes only what belongs to that cell
or edge, so the result is the same to the last bit on any number of threads. Each cell computes
what leaves it; what enters is what its neighbour computed, so mass is conserved to rounding.

Shapes: N cells, E edges, n Gauss points an edge, k fields, S stencil width. `fluxes` (E, n) holds
the integrated normal velocity weight * u.n, positive from the first to the second cell of an edge.
A local edge is one of the 2E pairs (cell, edge), in the order of `cell_edges`.
"""

import numpy as np
from numba import prange

from pde.kernels.compile import kernel

CHUNKS = 64
REASSOCIATE = {"reassoc", "contract"}
"""Sums may be reordered, once and for all when compiled: they vectorise, and stay reproducible."""

UNRESOLVED = 0.1
"""Relative correction of an edge value from which on it is not trusted, see `blend`."""


@kernel(fastmath=REASSOCIATE)
def dot(row, values):
    """sum_j row_j values_j."""
    total = 0.0
    for j in range(len(row)):
        total += row[j] * values[j]
    return total


@kernel(parallel=True)
def outflow_rates(
    fluxes, exchange, diffusion, cell_edge_offsets, cell_edges, cell_edge_signs, areas, out
):  # fmt: skip
    """out_i = (what leaves cell i per unit time at unit density) / A_i.

    exchange : (E,) edge_lengths / edge_distances of the two-point diffusion; diffusion : (N,) D
    The forward-Euler upwind step is positive iff dt * out_i <= 1 for all i.
    """
    for i in prange(len(areas)):
        total = 0.0
        for m in range(cell_edge_offsets[i], cell_edge_offsets[i + 1]):
            edge = cell_edges[m]
            total += exchange[edge] * diffusion[i]
            for g in range(fluxes.shape[1]):
                total += max(cell_edge_signs[m] * fluxes[edge, g], 0.0)
        out[i] = total / areas[i]


@kernel(parallel=True)
def side_values(
    rho, fluxes, stencils, edge_weights, cell_edge_offsets, cell_edges, cell_edge_signs, both, out
):
    """Values of each cell's polynomial at the Gauss points of its edges.

    rho : (k, N) averages; edge_weights : (2E * n, S) rows for the Gauss points of local edges
    both : also where the flow enters; the upwind values alone read half the rows
    out : (k, 2E * n), written
    """
    fields, n_cells = rho.shape
    width = stencils.shape[1]
    n_gauss = fluxes.shape[1]
    for chunk in prange(CHUNKS):
        differences = np.empty(width)
        for i in range(chunk * n_cells // CHUNKS, (chunk + 1) * n_cells // CHUNKS):
            for f in range(fields):
                average = rho[f, i]
                for j in range(width):
                    differences[j] = rho[f, stencils[i, j]] - average
                for m in range(cell_edge_offsets[i], cell_edge_offsets[i + 1]):
                    for g in range(n_gauss):
                        if both or cell_edge_signs[m] * fluxes[cell_edges[m], g] > 0.0:
                            row = m * n_gauss + g
                            out[f, row] = average + dot(edge_weights[row], differences)


@kernel
def blend(upwind, downwind, share, positive):
    """The value carried through an edge: upwind, moved towards downwind by `share`.

    positive : the value is cut at zero, and moved the less the more the two sides disagree. Where
        they agree to UNRESOLVED times the value nothing changes, to the square of that; where the
        mesh does not resolve the density (mass running into single cells, fronts) upwind alone is
        left, which alone damps oscillations from cell to cell.
    """
    correction = share * (downwind - upwind)
    if positive:
        if upwind <= 0.0:
            return 0.0
        correction /= 1.0 + (correction / upwind / UNRESOLVED) ** 2
    return upwind + correction


@kernel(parallel=True)
def outflows(
    rho, sides, across, fluxes, exchange, diffusion, cell_edge_offsets, cell_edges,
    cell_edge_signs, areas, share, positive, dt, out,
):  # fmt: skip
    """What leaves each cell through each of its edges, per unit time.

    sides : (k, 2E * n) from `side_values`; across : (2E,) the local edge on the other side
    share : of the downwind value in what is carried, 0 (upwind) to 1/2 (centred)
    positive : values are limited as in `blend`, and where a forward-Euler step `dt` would take
        more than a cell holds, all its outflows are scaled to what it holds
    out : (k, E, 2), written: out[:, e, s] leaves the cell edge_cells[e, s]
    """
    fields, n_cells = rho.shape
    n_gauss = fluxes.shape[1]
    for i in prange(n_cells):
        start, end = cell_edge_offsets[i], cell_edge_offsets[i + 1]
        for f in range(fields):
            total = 0.0
            for m in range(start, end):
                edge = cell_edges[m]
                sign = cell_edge_signs[m]
                leaving = exchange[edge] * diffusion[i] * rho[f, i]
                for g in range(n_gauss):
                    rate = sign * fluxes[edge, g]
                    if rate > 0.0:
                        value = sides[f, m * n_gauss + g]
                        other = sides[f, across[m] * n_gauss + g] if share > 0.0 else value
                        leaving += rate * blend(value, other, share, positive)
                out[f, edge, 0 if sign > 0 else 1] = leaving
                total += leaving
            # The margin keeps the rounding of later sums from reaching below zero.
            # Below the normal numbers nothing has that margin, and such a density stays put.
            held = (1.0 - 1e-14) * rho[f, i] * areas[i] if rho[f, i] > 1e-290 else 0.0
            if positive and (held <= 0.0 or dt * total > held):
                factor = held / (dt * total) if held > 0.0 else 0.0
                for m in range(start, end):
                    out[f, cell_edges[m], 0 if cell_edge_signs[m] > 0 else 1] *= factor


@kernel(parallel=True)
def divergence(flows, cell_edge_offsets, cell_edges, cell_edge_signs, areas, out):
    """Tendency (what enters - what leaves) / A of each cell.

    flows : (k, E, 2) what leaves the first and the second cell of each edge
    out : (k, N), written
    """
    fields, n_cells = out.shape
    for i in prange(n_cells):
        for f in range(fields):
            total = 0.0
            for m in range(cell_edge_offsets[i], cell_edge_offsets[i + 1]):
                edge = cell_edges[m]
                net = flows[f, edge, 1] - flows[f, edge, 0]
                total += net if cell_edge_signs[m] > 0 else -net
            out[f, i] = total / areas[i]


@kernel(parallel=True)
def upwind_flows(rho, fluxes, exchange, diffusion, edge_cells, out):
    """First-order outflows: cell averages carried by the upwind part of the flux.

    out : (k, E, 2), written as by `outflows`
    """
    fields = len(rho)
    for e in prange(len(edge_cells)):
        forth = exchange[e] * diffusion[edge_cells[e, 0]]
        back = exchange[e] * diffusion[edge_cells[e, 1]]
        for g in range(fluxes.shape[1]):
            forth += max(fluxes[e, g], 0.0)
            back += max(-fluxes[e, g], 0.0)
        for f in range(fields):
            out[f, e, 0] = forth * rho[f, edge_cells[e, 0]]
            out[f, e, 1] = back * rho[f, edge_cells[e, 1]]


@kernel(parallel=True)
def transport_factors(
    rho, low, corrections, ranges, widening, cell_edge_offsets, cell_edges, cell_edge_signs,
    cell_neighbours, areas, dt, raise_by, lower_by,
):  # fmt: skip
    """Zalesak's factors: what share of the corrections a cell can take.

    rho : (k, N) averages; low : (k, N) averages after an upwind Euler step of length dt
    corrections : (k, E) anti-diffusive flux, positive from the first to the second cell
    ranges : (k, 2) smallest and largest value allowed anywhere
    widening : a cell may leave the range of rho and low around it by this share of that range
    raise_by, lower_by : (k, N), written: the largest common factor of the corrections that raise
        (lower) the cell for which it stays within these bounds
    """
    fields, n_cells = rho.shape
    for i in prange(n_cells):
        for f in range(fields):
            largest = max(rho[f, i], low[f, i])
            smallest = min(rho[f, i], low[f, i])
            gain = 0.0
            loss = 0.0
            for m in range(cell_edge_offsets[i], cell_edge_offsets[i + 1]):
                j = cell_neighbours[m]
                largest = max(largest, rho[f, j], low[f, j])
                smallest = min(smallest, rho[f, j], low[f, j])
                entering = -cell_edge_signs[m] * corrections[f, cell_edges[m]]
                gain += max(entering, 0.0)
                loss += max(-entering, 0.0)
            room = widening * (largest - smallest)
            largest = min(largest + room, ranges[f, 1])
            smallest = max(smallest - room, ranges[f, 0])
            gain *= dt / areas[i]
            loss *= dt / areas[i]
            # The margin keeps the rounding of later sums within the bounds.
            up = (1.0 - 1e-13) * (largest - low[f, i])
            down = (1.0 - 1e-13) * (low[f, i] - smallest)
            raise_by[f, i] = min(1.0, up / gain) if gain > 0.0 else 1.0
            lower_by[f, i] = min(1.0, down / loss) if loss > 0.0 else 1.0


@kernel(parallel=True)
def edge_fluxes(
    velocities, stencils, edge_weights, edge_cells, edge_sides, normals, gauss_weights, out
):  # fmt: skip
    """Integrated normal velocities from values at the cells' centroids.

    velocities : (N, d) at the centroids; edge_weights : (2E * n, S) rows of the polynomials that
        interpolate point values; edge_sides : (E, 2) local edges of the two cells
    out : (E, n), written: weight * the mean of the two cells' polynomials, times the normal
    """
    width = stencils.shape[1]
    dim = normals.shape[1]
    n_edges, n_gauss = out.shape
    for chunk in prange(CHUNKS):
        differences = np.empty(width)
        for e in range(chunk * n_edges // CHUNKS, (chunk + 1) * n_edges // CHUNKS):
            for g in range(n_gauss):
                out[e, g] = 0.0
            for s in range(2):
                i = edge_cells[e, s]
                own = 0.0
                for a in range(dim):
                    own += velocities[i, a] * normals[e, a]
                for j in range(width):
                    k = stencils[i, j]
                    normal = 0.0
                    for a in range(dim):
                        normal += velocities[k, a] * normals[e, a]
                    differences[j] = normal - own
                for g in range(n_gauss):
                    value = own + dot(edge_weights[edge_sides[e, s] * n_gauss + g], differences)
                    out[e, g] += 0.5 * gauss_weights[e, g] * value
