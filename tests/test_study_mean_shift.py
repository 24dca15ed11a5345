"""The study of mean shift: its measures of clusters, verdicts, files."""

import numpy as np
import pytest

from pde.analysis.modes import Modes
from validation import mean_shift
from validation.problems.tokens import groups


def modes_of(centers, reached):
    k = len(centers)
    return Modes(np.asarray(centers, float), np.zeros(k), -np.ones(k), np.zeros(k), reached)


def test_groups_are_chains():
    angles = np.array([0.0, 0.015, 0.03, 0.06, 2.0])
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert groups(points, mean_shift.GROUP).tolist() == [0, 0, 0, 1, 2]


def test_agreement_of_partitions():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 5, 4000)
    assert mean_shift.agreement(a, (a + 2) % 5) == 1.0
    assert abs(mean_shift.agreement(a, rng.permutation(a))) < 0.01
    # Four items in pairs, one pair split: 1 common pair of 2 and 1, 1/3 expected.
    split = mean_shift.agreement(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]))
    assert split == pytest.approx((1 - 1 / 3) / (1.5 - 1 / 3))
    assert mean_shift.agreement(np.zeros(4, int), np.zeros(4, int)) == 1.0


def test_verdicts_can_be_negative():
    e1, e2, _ = np.eye(3)
    one, two = modes_of([e1], np.array([0, -1])), modes_of([e1, e2], np.array([0, 1]))
    labels = [np.array([0, 1]), np.array([0, 1])]
    counts = [
        mean_shift.Count(5.0, two, two, two.centers, 0.0, labels),
        mean_shift.Count(9.0, one, two, one.centers, np.inf, labels),
    ]
    places = np.stack([[e1, e2], [e1, e2]])
    moved = mean_shift.Queries(np.arange(2.0), places, np.array([[0.0, 0.0], [0.0, -1.0]]), one)
    assert moved.largest_fall == 1.0 and moved.nearest[1] == pytest.approx(np.sqrt(2.0))
    met = [bar.met for bar in mean_shift.promised([1e-9], counts, moved)]
    assert met == [False, False, True, False, False, False]
    assert not any(finding.agrees for finding in mean_shift.findings(counts, moved)[:5])


def test_sets_of_unequal_size_do_not_match():
    assert mean_shift._farthest(np.eye(3), np.eye(3)[:2]) == np.inf
    assert mean_shift._farthest(np.eye(3), np.eye(3)[::-1]) == 0.0
