"""Refinement of any problem: orders against a finer reference, and the parts of the error."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import Equation, SelfAttention, initial
from validation.refinement import Problem, budget, observed_orders, solve

ATTENTION = SelfAttention(np.array([[1.0, 0.3], [0.0, 0.6]]), np.eye(2), beta=3.0)
LAW = initial.von_mises_fisher([0.6, 0.8], 1.0)


@pytest.fixture(scope="module")
def on_circle():
    return Problem(Equation(ATTENTION), LAW, until=0.5, mesh_of=circle)


def test_the_whole_equation_converges_at_the_order_of_the_scheme(on_circle):
    reference = solve(on_circle, order=8, resolution=256, finer_steps=4)
    studies = observed_orders(on_circle, [2, 4], [64, 128], reference, finer_steps=4)
    for order, study in zip((2, 4), studies.values(), strict=True):
        assert order - 0.35 < study.order[-1] < order + 0.35
        assert study.error[-1] < {2: 1e-4, 4: 3e-7}[order]


def test_the_parts_add_up_to_no_less_than_the_total(on_circle):
    reference = solve(on_circle, order=8, resolution=128)
    parts = budget(on_circle, order=2, resolution=32, reference=reference)
    named = vars(parts)
    assert parts.total <= 1.05 * sum(value for name, value in named.items() if name != "total")
    assert parts.space < 2e-2 and parts.time < 2e-2
    assert "velocity" in str(parts)


def test_the_default_tolerance_is_never_the_largest_part():
    sphere = Problem(
        Equation(SelfAttention(np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 4.0, 1.0]), beta=10.0)),
        initial.von_mises_fisher([0.6, 0.0, 0.8], 1.0),
        until=0.05,
        mesh_of=icosphere,
    )
    reference = solve(sphere, order=4, resolution=16)
    for order in (2, 4):
        parts = budget(sphere, order=order, resolution=8, reference=reference)
        assert parts.tolerance < 0.01 * max(parts.space, parts.time, parts.velocity, parts.nodes)
