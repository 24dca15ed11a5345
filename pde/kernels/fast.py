"""The fast log-partition function: all target patches, each a task of its own.

A target patch is served start to end by one thread and in one order, so results are bitwise the
same on any number of threads, and nothing is stored per pair of patches beyond the patch at hand.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import prange

from pde.kernels.compile import kernel
from pde.kernels.exponential import LOG2_E
from pde.kernels.patches import (
    BLOCK,
    WIDTH,
    accumulate,
    accumulate_direct,
    add_moments,
    coefficients_of,
    contract,
    fill_powers,
    prepare_direct,
    weigh_block,
)
from pde.kernels.selection import DIRECT, GROUP, find, plan, refine

TASKS = 64  # lists of target patches, dealt out in turn so that lists cost about the same


class Targets(NamedTuple):
    """Sorted targets: points (3 m,), their places in the caller's order, and patches of them."""

    points: np.ndarray
    order: np.ndarray
    begin: np.ndarray
    centre: np.ndarray  # (p, 3)
    radius: np.ndarray
    served: np.ndarray  # numbers of the patches that are small enough
    lower: np.ndarray  # log Z(centre + eta) >= lower + <eta, pull>
    pull: np.ndarray  # (p, 3)


class Caps(NamedTuple):
    """Patches of sources, or groups of patches: balls around points of the sphere, and masses."""

    begin: np.ndarray
    centre: np.ndarray  # (3, p)
    radius: np.ndarray
    log_mass: np.ndarray


class Work(NamedTuple):
    """What a thread scribbles on."""

    found: np.ndarray
    bound: np.ndarray
    row: np.ndarray
    degree: np.ndarray
    group_bound: np.ndarray
    patch_bound: np.ndarray
    near: np.ndarray
    a: np.ndarray
    delta: np.ndarray
    base: np.ndarray
    partial: np.ndarray
    moments: np.ndarray
    eta: np.ndarray
    eta2: np.ndarray
    power: np.ndarray
    f: np.ndarray
    total: np.ndarray
    vector: np.ndarray


@kernel
def aligned(n):
    """An uninitialised array that begins where a cache line does."""
    memory = np.empty(n + 8)
    first = (-memory.ctypes.data % 64) // 8
    return memory[first : first + n]


@kernel
def workspace(n_patches, n_groups, n_terms, n_flat):
    """Arrays for one thread; n_terms monomials, n_flat of them without the third variable."""
    return Work(
        np.empty(n_patches, np.int64),
        np.empty(n_patches),
        np.empty(n_patches, np.int64),
        np.empty(n_patches, np.int64),
        np.empty(n_groups),
        np.empty(GROUP),
        aligned(4 * WIDTH),
        aligned(BLOCK),
        aligned(3 * BLOCK),
        aligned(n_flat * BLOCK),
        aligned(8 * n_terms),
        np.empty(n_terms),
        aligned(3 * WIDTH),
        aligned(3 * WIDTH),
        aligned(n_terms * WIDTH),
        aligned(4 * WIDTH),
        aligned(4 * WIDTH),
        np.empty((2, 3)),
    )


@kernel
def select(targets, patch, sources, stride, patches, groups, polynomials, terms, tolerance, work):
    """Fill work.found, .row, .degree for a target patch; returns (number of patches, cost)."""
    xi, pull, lower = targets.centre[patch], targets.pull[patch], targets.lower[patch]
    reach = targets.radius[patch]
    smallest = math.log(0.01 * tolerance / patches.radius.size)
    count = find(xi, reach, pull, lower, smallest, patches, groups, work.group_bound,
                 work.patch_bound, work.found, work.bound)  # fmt: skip
    for k in range(3):
        work.vector[0, k] = xi[k] * LOG2_E
    count = refine(count, sources, stride, work.vector[0], reach, pull, lower * LOG2_E, patches,
                   tolerance, work.found, work.bound)  # fmt: skip
    n_targets = targets.begin[patch + 1] - targets.begin[patch]
    cost = plan(count, n_targets, reach, patches, polynomials, terms, tolerance,
                work.found, work.bound, work.row, work.degree)  # fmt: skip
    return count, cost


@kernel
def expand(count, sources, stride, xi2, lower2, patches, polynomials, monomials, third, rows, work):
    """Moments of every patch that is expanded, turned into polynomials in eta, one after another
    in `rows`."""
    where = 0
    for i in range(count):
        degree, p = work.degree[i], work.found[i]
        if degree == DIRECT:
            continue
        n_terms = monomials.counts[degree]
        work.partial[: 8 * n_terms] = 0.0
        for first in range(patches.begin[p], patches.begin[p + 1], BLOCK):
            weigh_block(sources, stride, first, patches.begin[p + 1], xi2, lower2,
                        patches.centre[:, p], work.a, work.delta)  # fmt: skip
            add_moments(work.a, work.delta, degree, third, monomials.chain, work.base, work.partial)
        coefficients_of(work.partial, polynomials.coefficients[work.row[i], degree], degree,
                        monomials.raised, monomials.counts, where, work.moments, rows)  # fmt: skip
        where += 4 * n_terms


@kernel
def evaluate(count, n_targets, sources, stride, xi2, lower2, pull, least, patches, terms, short,
             rows, work):  # fmt: skip
    """work.total = sum over the patches found, at the targets in work.eta2 and work.power."""
    work.total[:] = 0.0
    where = 0
    for i in range(count):
        degree, p = work.degree[i], work.found[i]
        if degree == DIRECT:
            stop = patches.begin[p + 1]
            for first in range(patches.begin[p], stop, WIDTH):
                prepare_direct(sources, stride, first, xi2, lower2, pull, least, work.near)
                accumulate_direct(work.near, min(WIDTH, stop - first), work.eta2, n_targets,
                                  short, work.total)  # fmt: skip
        else:
            slopes = terms[degree - 1] if degree > 0 else 0
            contract(rows, where, slopes, terms[degree], work.power, work.f)
            for k in range(3):
                work.vector[1, k] = patches.centre[k, p] - pull[k]
            accumulate(work.f, work.eta2, work.vector[1], work.total)
            where += 4 * terms[degree]


@kernel
def serve(targets, patch, sources, stride, patches, groups, polynomials, monomials, third,
          tolerance, short, work, rows, log_z, mean):  # fmt: skip
    """log Z and mean at all targets of a patch; returns `rows`, which may have grown."""
    terms = monomials.counts
    count, _ = select(targets, patch, sources, stride, patches, groups, polynomials, terms,
                      tolerance, work)  # fmt: skip
    xi, pull, lower = targets.centre[patch], targets.pull[patch], targets.lower[patch]
    xi2, lower2 = work.vector[0], lower * LOG2_E
    size, largest = 0, DIRECT
    for i in range(count):
        largest = max(largest, work.degree[i])
        size += 4 * terms[work.degree[i]] if work.degree[i] != DIRECT else 0
    if rows.size < size:
        rows = np.empty(size + size // 2)
    expand(count, sources, stride, xi2, lower2, patches, polynomials, monomials, third, rows, work)
    # |<eta, y - pull>| <= 2 R: what is cut off here stays far below 2^-53 of Z.
    least = -1020.0 + 2.0 * LOG2_E * targets.radius[patch]
    last = targets.begin[patch + 1]
    for first in range(targets.begin[patch], last, WIDTH):
        for k in range(3):
            for i in range(WIDTH):
                eta = targets.points[k * targets.order.size + min(first + i, last - 1)] - xi[k]
                work.eta[k * WIDTH + i], work.eta2[k * WIDTH + i] = eta, eta * LOG2_E
        if largest != DIRECT:
            fill_powers(work.eta, terms[largest], monomials.parent, monomials.axis,
                        monomials.inverse, work.power)  # fmt: skip
        n_targets = min(WIDTH, last - first)
        evaluate(count, n_targets, sources, stride, xi2, lower2, pull, least, patches, terms,
                 short, rows, work)  # fmt: skip
        for i in range(n_targets):
            j, z, tilt = targets.order[first + i], work.total[i], 0.0
            for k in range(3):
                tilt += work.eta[k * WIDTH + i] * pull[k]
            log_z[j] = lower + tilt + math.log(z)
            for k in range(mean.shape[1]):
                mean[j, k] = pull[k] + work.total[(k + 1) * WIDTH + i] / z
    return rows


@kernel(parallel=True)
def serve_all(targets, sources, stride, patches, groups, polynomials, monomials, third, tolerance,
              short, log_z, mean):  # fmt: skip
    """Fill log_z (m,) and mean (m, d)."""
    for task in prange(TASKS):
        work = workspace(patches.radius.size, groups.radius.size, monomials.parent.size,
                         monomials.chain.shape[0])  # fmt: skip
        rows = np.empty(4)
        for i in range(task, targets.served.size, TASKS):
            rows = serve(targets, targets.served[i], sources, stride, patches, groups, polynomials,
                         monomials, third, tolerance, short, work, rows, log_z,
                         mean)  # fmt: skip


@kernel
def estimate(targets, step, sources, stride, patches, groups, polynomials, terms, tolerance):
    """Processor cycles per target that serve_all takes, from every step-th target patch."""
    work = workspace(patches.radius.size, groups.radius.size, 1, 1)
    cost, sample = 0.0, 0
    for i in range(step // 2, targets.served.size, step):
        patch = targets.served[i]
        cost += select(targets, patch, sources, stride, patches, groups, polynomials, terms,
                       tolerance, work)[1]  # fmt: skip
        sample += targets.begin[patch + 1] - targets.begin[patch]
    return cost / sample
