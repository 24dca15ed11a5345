"""The study of discrete layers: the exact map's limits, bars that can be missed, files."""

import dataclasses

import numpy as np
import pytest

from validation import discrete_layers, exact
from validation.discrete_layers import layer_map


def test_small_steps_of_the_map_are_the_flow():
    gap, r, count = 1.0, 1.0, 4000
    for _ in range(count):
        gap, r = layer_map(gap, r, 8, 2.0, 1.0 / count)
    assert r == 1.0
    flow = 1.0 - exact.equiangular(8, 2.0, 0.0, [0.0, 1.0])[-1]
    assert gap == pytest.approx(flow, rel=1e-3)


def test_the_map_near_consensus():
    gap, _ = layer_map(1e-9, 1.0, 5, 3.0, 1.0)
    assert gap == pytest.approx(0.25e-9, rel=1e-6)
    gap, r = layer_map(1e-9, 4.0, 5, 3.0, 1.0, "pre_ln")
    assert (gap, r) == (pytest.approx(1e-9 * (4.0 / 5.0) ** 2, rel=1e-6), pytest.approx(5.0))


def test_layers_are_counted_between_two():
    run = discrete_layers.Gathering(1.0, np.array([1.0, 1e-2, 1e-4]), np.array([1.0, 1e-2, 2e-4]))
    assert run.layers() == pytest.approx(1.5)
    assert run.error == pytest.approx(0.5)


def test_bars_and_findings_can_be_negative():
    studies = discrete_layers.orders([2, 4])
    run = discrete_layers.Gathering(1.0, np.array([1.0, 1e-4]), np.array([1.0, 2e-4]))
    wrong = list(discrete_layers.promised(studies, [run], [(1.0, 0.2, 0.1)]))
    assert [bar.met for bar in wrong[-3:]] == [False] * 3
    # steps of 1 and 0.5 are too large for the order to show
    assert not all(bar.met for bar in wrong[: 2 * len(studies) : 2])
    turns = {f"h = {step:g}": (np.zeros(1), np.zeros(1)) for step in discrete_layers.TURNING_STEPS}
    turns["flow"] = (np.zeros(1), np.ones(1))
    fast = dataclasses.replace(run, gap=np.array([1.0, 1e-9]))
    assert not any(finding.agrees for finding in discrete_layers.findings([fast], turns))
