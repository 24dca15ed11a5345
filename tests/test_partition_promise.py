"""The promise of the fast kernel where it is made: what is dropped and what is approximated.

Measured errors stay far below the tolerance, since bounds are not met everywhere at once; so the
three shares of the tolerance are checked themselves, against the formulas of pde/partition/fast.py
written out in numpy, and shown to be used up.
"""

import numpy as np
import pytest

from meshes import icosphere
from pde import Measure, SelfAttention, log_partition
from pde.kernels.compile import kernel
from pde.kernels.fast import select, workspace
from pde.kernels.selection import DIRECT
from pde.partition.expansion import RADII, monomials, polynomials
from pde.partition.fast import PADDING, _patches

DROPPED, NEAR, FAR = 1 / 8, 1 / 2, 3 / 8


@kernel
def selected(targets, patch, sources, stride, patches, groups, table, terms, tolerance, out):
    """The number of patches that matter to a target patch; `out` lists them, row and degree."""
    work = workspace(patches.radius.size, groups.radius.size, 1, 1)
    count, _ = select(
        targets, patch, sources, stride, patches, groups, table, terms, tolerance, work
    )
    for i in range(count):
        out[i, 0], out[i, 1], out[i, 2] = work.found[i], work.row[i], work.degree[i]
    return count


class Selection:
    """What the kernel chose for one target patch, and the exact bounds e^b of all shares."""

    def __init__(self, xi, points, weights, tolerance):
        low, high = xi.min(axis=0), xi.max(axis=0)
        spread = 0.5 * np.linalg.norm(high - low)
        size = spread + 0.5 * np.linalg.norm(high + low)
        self.targets, self.patches, self.groups, self.sources = _patches(
            xi, points, weights, spread, size
        )
        self.stride, self.tolerance = len(points) + PADDING, tolerance
        flat = self.sources.reshape(4, -1)[:, : len(points)]
        self.points, self.log_weights = flat[:3].T, flat[3] * np.log(2.0)
        self.table = polynomials()

    def at(self, patch):
        t, p = self.targets, self.patches
        out = np.empty((p.radius.size, 3), np.int64)
        count = selected(
            t, patch, self.sources, self.stride, p, self.groups, self.table, monomials(3).counts,
            self.tolerance, out,
        )  # fmt: skip
        found, row, degree = out[:count].T
        xi, reach, pull = t.centre[patch], t.radius[patch], t.pull[patch]
        terms = np.exp(self.log_weights + self.points @ xi - t.lower[patch])
        mass = np.add.reduceat(terms, p.begin[:-1])
        distance = np.linalg.norm(p.centre.T - pull, axis=1) + p.radius
        shares = np.minimum(mass * np.exp(reach * distance), 1.0)
        dropped = np.ones(len(shares), bool)
        dropped[found] = False
        expanded = degree != DIRECT
        errors = np.zeros(count)
        rows, degrees, radii = row[expanded], degree[expanded], p.radius[found][expanded]
        assert (RADII[rows] >= reach * radii * (1 - 1e-9)).all()
        errors[expanded] = np.maximum(
            self.table.value_error[rows, degrees], radii * self.table.slope_error[rows, degrees]
        )
        far = errors > NEAR * self.tolerance
        return shares[dropped].sum(), (errors * shares[found])[far].sum(), expanded.sum()


def spots(points):
    """Masses over 280 decades, and two spots: shares from 1 to nothing."""
    first, second = 1.0 - points[:, 2], 1.0 + points[:, 0]
    return np.exp(-60.0 * first) + 1e-6 * np.exp(-30.0 * second) + 1e-280


CASES = [(10.0, np.ones_like), (100.0, np.ones_like), (100.0, spots), (600.0, spots), (20.0, spots)]


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8, 1e-11])
def test_no_share_of_the_tolerance_is_exceeded_and_all_are_used(tolerance):
    points = icosphere(40).centers
    dropped, far, expanded = [], [], 0
    for beta, law in CASES:
        weights = law(points[:, 2]) if law is np.ones_like else law(points)
        selection = Selection(beta * points, points, weights, tolerance)
        for patch in selection.targets.served[::23]:
            lost, blurred, count = selection.at(patch)
            dropped.append(lost / tolerance)
            far.append(blurred / tolerance)
            expanded += count
    # A hundredth more is what groups of patches may lose that are not looked into.
    assert max(dropped) <= DROPPED + 0.01 + 1e-9
    assert max(far) <= FAR + 1e-9
    assert expanded > 100
    assert max(dropped) > 0.8 * DROPPED
    assert max(far) > 0.3 * FAR


@pytest.mark.parametrize("tolerance", [1.0, 50.0, 1e300])
def test_tolerances_that_allow_everything_are_refused(tolerance):
    points = icosphere(12).centers
    with pytest.raises(ValueError, match="tolerance must be < 1, a relative error, got"):
        log_partition(50.0 * points, Measure(points), tolerance)
    with pytest.raises(ValueError, match="tolerance must be < 1"):
        SelfAttention(np.eye(3), np.eye(3), 1.0, tolerance=tolerance)


@pytest.mark.parametrize("tolerance", [0.5, 0.99])
def test_coarse_tolerances_keep_their_promise(tolerance):
    points = icosphere(40).centers
    mu = Measure(points, spots(points))
    log_z, mean = log_partition(50.0 * points, mu, tolerance)
    exact_log_z, exact_mean = log_partition(50.0 * points[::50], mu)
    assert np.abs(np.expm1(log_z[::50] - exact_log_z)).max() <= tolerance
    assert np.linalg.norm(mean[::50] - exact_mean, axis=1).max() <= 3 * tolerance * (1 + tolerance)
