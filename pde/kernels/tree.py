"""Patches: points grouped by halving the widest side of their box again and again.

The points are reordered in place, so that every patch is a contiguous piece, and neighbouring
pieces are (mostly) neighbours in space. Works for d = 2 with a third coordinate 0.

`points` is flat: coordinate k of point j is points[k * stride + j].
"""

import math

import numpy as np
from numba import prange

from pde.kernels.compile import kernel


@kernel
def build(points, stride, index, largest_radius, multiple, on_sphere, begin, centre, radius):
    """Sort n points and index (n,) into patches; returns their number p.

    A patch is split while its radius exceeds `largest_radius` and it holds more than `multiple`
    points. All patches but one hold multiples of `multiple` points (that fill whole vectors).
    Patch i is begin[i]:begin[i + 1], in a ball with centre[i] and radius[i]; with `on_sphere`
    centres are unit vectors. begin (n // multiple + 2,), centre (., 3), radius (.,) are filled.
    """
    patches = 0
    low, high, middle = np.empty(3), np.empty(3), np.empty(3)
    waiting = np.empty((index.size // multiple + 2, 2), np.int64)
    waiting[0, 0], waiting[0, 1] = 0, index.size
    count = 1
    while count > 0:
        count -= 1
        first, last = waiting[count, 0], waiting[count, 1]
        _bounds(points, stride, first, last, low, high)
        _middle(points, stride, first, low, high, on_sphere, middle)
        r = _radius(points, stride, first, last, middle)
        if r > largest_radius and last - first > multiple:
            cut = _split(points, stride, index, first, last, low, high, multiple)
            waiting[count, 0], waiting[count, 1] = cut, last
            waiting[count + 1, 0], waiting[count + 1, 1] = first, cut
            count += 2
        else:
            begin[patches], radius[patches] = first, r
            for k in range(3):
                centre[patches, k] = middle[k]
            patches += 1
    begin[patches] = index.size
    return patches


@kernel
def _bounds(points, stride, first, last, low, high):
    for k in range(3):
        x = points[k * stride + first : k * stride + last]
        smallest, largest = x[0], x[0]
        for j in range(x.size):
            smallest = min(smallest, x[j])
            largest = max(largest, x[j])
        low[k], high[k] = smallest, largest


@kernel
def _middle(points, stride, first, low, high, on_sphere, middle):
    """The middle of the box; on the sphere its projection (one of the points where it is 0)."""
    for k in range(3):
        middle[k] = 0.5 * (low[k] + high[k])
    if on_sphere:
        length = math.sqrt(middle[0] ** 2 + middle[1] ** 2 + middle[2] ** 2)
        for k in range(3):
            middle[k] = middle[k] / length if length > 1e-3 else points[k * stride + first]


@kernel
def _radius(points, stride, first, last, middle):
    x = points[first:last]
    y = points[stride + first : stride + last]
    z = points[2 * stride + first : 2 * stride + last]
    largest = 0.0
    for j in range(x.size):
        square = (x[j] - middle[0]) ** 2 + (y[j] - middle[1]) ** 2 + (z[j] - middle[2]) ** 2
        largest = max(largest, square)
    return math.sqrt(largest)


@kernel
def _split(points, stride, index, first, last, low, high, multiple):
    """Halve the widest side, then move the cut to the nearest multiple; returns the cut."""
    axis = 0
    for k in range(1, 3):
        if high[k] - low[k] > high[axis] - low[axis]:
            axis = k
    x = points[axis * stride : axis * stride + index.size]
    value = 0.5 * (low[axis] + high[axis])
    i, j = first, last - 1
    while True:
        while i <= j and x[i] < value:
            i += 1
        while i <= j and x[j] >= value:
            j -= 1
        if i >= j:
            break
        _swap(points, stride, index, i, j)
    blocks = (last - first - 1) // multiple
    cut = first + min(blocks, max(1, (i - first + multiple // 2) // multiple)) * multiple
    if cut < i:
        _select(points, stride, index, axis, first, i, cut)
    elif cut > i:
        _select(points, stride, index, axis, i, last, cut)
    return cut


@kernel
def _swap(points, stride, index, i, j):
    for k in range(3):
        a, b = k * stride + i, k * stride + j
        points[a], points[b] = points[b], points[a]
    index[i], index[j] = index[j], index[i]


@kernel
def _select(points, stride, index, axis, first, last, cut):
    """Reorder so that x[first:cut] <= x[cut:last] (Hoare's selection)."""
    x = points[axis * stride : axis * stride + index.size]
    low, high = first, last - 1
    while low < high:
        pivot = x[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while x[i] < pivot:
                i += 1
            while x[j] > pivot:
                j -= 1
            if i <= j:
                _swap(points, stride, index, i, j)
                i += 1
                j -= 1
        if cut <= j:
            high = j
        elif cut >= i:
            low = i
        else:
            return


@kernel(parallel=True)
def build_both(x, x_stride, x_index, x_radius, x_multiple, x_begin, x_centre, x_radii,
               y, y_stride, y_index, y_radius, y_multiple, y_begin, y_centre, y_radii):  # fmt: skip
    """Patches of targets x and of sources y on the sphere, side by side; returns their numbers."""
    number = np.empty(2, np.int64)
    for which in prange(2):
        if which == 0:
            number[0] = build(x, x_stride, x_index, x_radius, x_multiple, False, x_begin,
                              x_centre, x_radii)  # fmt: skip
        else:
            number[1] = build(y, y_stride, y_index, y_radius, y_multiple, True, y_begin,
                              y_centre, y_radii)  # fmt: skip
    return number[0], number[1]


@kernel(parallel=True)
def summarise(sources, stride, weights, index, begin, log_mass, mean):
    """Masses of source patches: log2 w becomes the fourth coordinate of the sources.

    log_mass (p,) natural logarithm of each patch's mass; mean (p, 3) its centre of mass.
    """
    for p in prange(log_mass.size):
        peak = 0.0
        for j in range(begin[p], begin[p + 1]):
            peak = max(peak, weights[index[j]])
        total, m0, m1, m2 = 0.0, 0.0, 0.0, 0.0
        for j in range(begin[p], begin[p + 1]):
            sources[3 * stride + j] = math.log2(weights[index[j]])
            w = weights[index[j]] / peak
            total += w
            m0 += w * sources[j]
            m1 += w * sources[stride + j]
            m2 += w * sources[2 * stride + j]
        log_mass[p] = math.log(peak) + math.log(total)
        mean[p, 0], mean[p, 1], mean[p, 2] = m0 / total, m1 / total, m2 / total


@kernel
def group(centre, radius, log_mass, size, group_centre, group_radius, group_log_mass):
    """Caps and masses of runs of `size` consecutive source patches."""
    for g in range(group_radius.size):
        first, last = g * size, min(g * size + size, radius.size)
        peak, length = log_mass[first], 0.0
        for k in range(3):
            group_centre[g, k] = 0.0
            for p in range(first, last):
                group_centre[g, k] += centre[p, k]
            length += group_centre[g, k] ** 2
        length = math.sqrt(length)
        for k in range(3):
            group_centre[g, k] = group_centre[g, k] / length if length > 1e-3 else centre[first, k]
        reach, mass = 0.0, 0.0
        for p in range(first, last):
            square = 0.0
            for k in range(3):
                square += (centre[p, k] - group_centre[g, k]) ** 2
            reach = max(reach, math.sqrt(square) + radius[p])
            peak = max(peak, log_mass[p])
        for p in range(first, last):
            mass += math.exp(log_mass[p] - peak)
        group_radius[g], group_log_mass[g] = min(2.0, reach), peak + math.log(mass)
