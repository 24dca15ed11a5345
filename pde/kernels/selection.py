"""Which source patches matter to a patch of targets, and how they are summed.

Bounds are for targets xi = xi_c + eta with |eta| <= R and sources y = c + delta with |delta| <= r.
Z has the linear lower bound log Z(xi) >= lower + <eta, pull>; the share of a source patch S is
Z_S / Z. See pde/partition/fast.py for how the bounds add up.
"""

import math

from pde.kernels.compile import kernel
from pde.kernels.patches import BLOCK, WIDTH, total_weight

GROUP = 32  # consecutive source patches that are dropped together
DIRECT = -1

# Shares of the tolerance, together 1: patches dropped, patches near (of any share), patches far.
DROPPED, NEAR, FAR = 0.125, 0.5, 0.375
SINGLE = 1.0 / 32.0  # largest part of the tolerance that one dropped patch may take
CROWD = 4.0  # a far patch gets this over the number of patches; the exact sum is watched

# Processor cycles per pair or per moment and point, measured; only their ratios matter.
CYCLES_DIRECT, CYCLES_CONTRACT, CYCLES_MOMENT, CYCLES_ROW = 1.5, 0.26, 0.15, 6.0


@kernel(fastmath={"contract", "reassoc", "nnan", "nsz"})
def share_bounds(xi, reach, pull, lower, centre, radius, log_mass, first, last, bound):
    """bound[i] >= log(share) for the source caps first..last, from their masses alone.

    <xi, y> + <eta, y - pull> <= <xi, c> + max <xi, delta> + R (|c - pull| + r). On the unit sphere
    |delta| = s gives <xi, delta> <= t s - n s^2 / 2 with n, t the parts of xi along c and across.
    """
    c0, c1, c2 = centre[0], centre[1], centre[2]
    square = xi[0] * xi[0] + xi[1] * xi[1] + xi[2] * xi[2]
    for i in range(first, last):
        normal = xi[0] * c0[i] + xi[1] * c1[i] + xi[2] * c2[i]
        across = math.sqrt(max(0.0, square - normal * normal))
        s = min(radius[i], across / max(normal, 1e-300))
        s = s if normal > 0.0 else radius[i]
        rise = s * (across - 0.5 * normal * s)
        d0, d1, d2 = c0[i] - pull[0], c1[i] - pull[1], c2[i] - pull[2]
        distance = math.sqrt(d0 * d0 + d1 * d1 + d2 * d2) + radius[i]
        bound[i - first] = log_mass[i] + normal + rise + reach * distance - lower


@kernel
def find(xi, reach, pull, lower, smallest, patches, groups, group_bound, patch_bound, found, bound):
    """List the source patches whose share may exceed e^smallest; returns their number."""
    n_groups, n_patches, count = groups.radius.size, patches.radius.size, 0
    share_bounds(xi, reach, pull, lower, groups.centre, groups.radius, groups.log_mass,
                 0, n_groups, group_bound)  # fmt: skip
    for g in range(n_groups):
        if group_bound[g] > smallest:
            first, last = g * GROUP, min(g * GROUP + GROUP, n_patches)
            share_bounds(xi, reach, pull, lower, patches.centre, patches.radius, patches.log_mass,
                         first, last, patch_bound)  # fmt: skip
            for i in range(last - first):
                if patch_bound[i] > smallest:
                    found[count], bound[count] = first + i, patch_bound[i]
                    count += 1
    return count


@kernel
def refine(count, sources, stride, xi2, reach, pull, lower2, patches, tolerance, found, bound):
    """Sharpen the bounds by the exact masses sum_j w_j e^{<xi_c, y_j>}, drop what adds up to
    at most DROPPED * tolerance; returns the number left."""
    left, dropped = 0, 0.0
    for i in range(count):
        p = found[i]
        mass = total_weight(sources, stride, patches.begin[p], patches.begin[p + 1], xi2, lower2)
        square = 0.0
        for k in range(3):
            square += (patches.centre[k, p] - pull[k]) ** 2
        sharper = math.log(max(mass, 1e-300)) + reach * (math.sqrt(square) + patches.radius[p])
        b = min(bound[i], sharper)
        share = math.exp(min(b, 0.0))
        if share <= SINGLE * tolerance and dropped + share <= DROPPED * tolerance:
            dropped += share
        else:
            found[left], bound[left] = p, b
            left += 1
    return left


@kernel
def choose_degree(product, radius, allowed, polynomials):
    """(row, degree) of the cheapest polynomial for |<eta, delta>| <= product; (0, DIRECT): none."""
    row = max(0, math.ceil(4.0 * math.log2(max(product, 2.0**-12)) - 1e-9) + 48)
    if row < polynomials.value_error.shape[0]:
        value, slope = polynomials.value_error[row], polynomials.slope_error[row]
        for degree in range(value.size):
            if max(value[degree], radius * slope[degree]) <= allowed:
                return row, degree
    return 0, DIRECT


@kernel
def plan(
    count, n_targets, reach, patches, polynomials, terms, tolerance, found, bound, row, degree
):
    """Choose a polynomial or direct summation for each patch found; returns the cost in cycles.

    Near patches: relative error <= NEAR * tolerance, whatever their share. Far ones: error times
    bound of the share adds up to at most FAR * tolerance.
    """
    blocks = (n_targets + WIDTH - 1) // WIDTH * WIDTH
    halves = (n_targets + 15) // 16 * 16
    near, used, cost = NEAR * tolerance, 0.0, 200.0 * blocks
    for i in range(count):
        p = found[i]
        n_sources = patches.begin[p + 1] - patches.begin[p]
        share = math.exp(min(bound[i], 0.0))
        left = FAR * tolerance - used
        allowed = max(near, left * min(1.0, CROWD / (count - i)) / share)
        row[i], degree[i] = choose_degree(
            reach * patches.radius[p], patches.radius[p], allowed, polynomials
        )
        direct = CYCLES_DIRECT * n_sources * halves
        if degree[i] != DIRECT:
            n_terms = terms[degree[i]]
            vectors = (n_sources + BLOCK - 1) // BLOCK * BLOCK
            expanded = 2.2 * blocks + n_terms * (
                CYCLES_ROW + CYCLES_CONTRACT * blocks + CYCLES_MOMENT * vectors
            )
            if expanded > direct:
                degree[i] = DIRECT
        if degree[i] == DIRECT:
            cost += direct
            continue
        cost += expanded
        error = max(
            polynomials.value_error[row[i], degree[i]],
            patches.radius[p] * polynomials.slope_error[row[i], degree[i]],
        )
        if error > near:
            used += error * share
    return cost + 3.0 * count * 32.0
