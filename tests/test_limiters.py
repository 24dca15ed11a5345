"""Limiters: bounds kept exactly, smooth data left alone, mass carried along."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, initial
from pde.cells.upwind import WIDENING, Transport
from pde.kernels.fluxes import blend
from pde.simulation import run_to
from validation import norms
from validation.problems.transport import (
    cosine_bells,
    divergent,
    gaussian_hills,
    non_divergent,
    slotted_cylinders,
)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("field", [slotted_cylinders, cosine_bells])
def test_monotone_keeps_the_range_in_non_divergent_flow(order, field):
    fv = FiniteVolume(icosphere(8), Equation(non_divergent()), order=order, limiter="monotone")
    start = fv.initial_state(field)
    end = run_to(fv, start, 1.5)
    assert start.min() - 1e-12 <= end.min() and end.max() <= start.max() + 1e-12
    assert abs(fv.mesh.areas @ (end - start)) < 1e-13


def test_range_is_left_without_the_monotone_limiter():
    for limiter in (None, "positivity"):
        fv = FiniteVolume(icosphere(8), Equation(non_divergent()), order=4, limiter=limiter)
        end = run_to(fv, slotted_cylinders, 1.5)
        assert end.min() < 0.1 - 1e-3


def test_one_euler_step_stays_within_widened_neighbours():
    """Random data, non-divergent flow, a step at the bound: each cell stays within a quarter
    more than its neighbours' range before and after the upwind step, and within the range of
    all; and the corrections do act."""
    mesh = icosphere(6)
    fv = FiniteVolume(mesh, Equation(non_divergent()), order=4, limiter="monotone")
    upwind = FiniteVolume(mesh, Equation(non_divergent()), order=1, limiter=None)
    rho = np.random.default_rng(2).random(mesh.n_cells)
    stage = fv.stage(0.3, rho)
    dt = stage.bound
    low = rho + dt * upwind.rhs(0.3, rho)
    after = rho + dt * stage.rhs(dt)
    for i in range(mesh.n_cells):
        near = mesh.cell_neighbours[mesh.cell_edge_offsets[i] : mesh.cell_edge_offsets[i + 1]]
        seen = np.concatenate([rho[near], low[near], rho[[i]], low[[i]]])
        room = WIDENING * np.ptp(seen) + 1e-13
        assert seen.min() - room <= after[i] <= seen.max() + room
    assert rho.min() - 1e-13 <= after.min() and after.max() <= rho.max() + 1e-13
    assert np.abs(after - low).max() > 1e-3


@pytest.mark.parametrize(("order", "limit"), [(4, 0.25), (6, 0.225)])
def test_monotone_does_not_flatten_smooth_hills(order, limit):
    fv = FiniteVolume(icosphere(18), Equation(non_divergent()), order=order, limiter="monotone")
    start = fv.initial_state(gaussian_hills)
    assert norms.relative(fv.mesh, run_to(fv, start, 5.0), start)["l2"] < limit


def test_positivity_leaves_smooth_positive_data_alone():
    """The unlimited result at the default step: bit for bit where the flux is upwind (order 2);
    elsewhere up to the cube of what the sides of an edge disagree by, of order h^(3 order)."""
    density = initial.von_mises_fisher([0.0, 0.6, 0.8], 2.0)
    for order in (2, 4, 8):
        states = [
            run_to(
                FiniteVolume(icosphere(12), Equation(divergent()), order=order, limiter=limiter),
                density,
                0.2,
            )
            for limiter in ("positivity", None)
        ]
        tolerance = {2: 0.0, 4: 1e-9, 8: 5e-11}[order]
        np.testing.assert_allclose(*states, rtol=tolerance, atol=0.0)


@pytest.mark.parametrize("limiter", ["positivity", "monotone"])
def test_limiters_are_homogeneous(limiter):
    """rho and c rho together: a constant mixing ratio stays constant in divergent flow."""
    fv = FiniteVolume(icosphere(8), Equation(divergent()), order=4, limiter=limiter)
    rho = fv.initial_state(slotted_cylinders)
    end = run_to(fv, np.stack([rho, 0.25 * rho], axis=1), 0.5)
    np.testing.assert_allclose(end[:, 1], 0.25 * end[:, 0], rtol=1e-13)


def test_blend_of_two_sides():
    assert blend(2.0, 4.0, 0.25, False) == 2.5
    # sides that agree: the full share, up to the square of their disagreement
    assert blend(2.0, 2.0 + 1e-3, 0.25, True) == pytest.approx(2.0 + 2.5e-4, abs=1e-9)
    # a correction of a tenth of the value is halved, and none is larger than that
    assert blend(2.0, 2.8, 0.25, True) == pytest.approx(2.1, rel=1e-14)
    assert 1.0 < max(blend(1.0, x, 0.25, True) for x in np.linspace(0, 50, 1001)) <= 1.05
    # sides that do not: upwind
    assert blend(2.0, 4e6, 0.25, True) == pytest.approx(2.0, abs=1e-6)
    assert blend(2.0, -4e6, 0.25, True) == pytest.approx(2.0, abs=1e-6)
    assert blend(-1.0, 400.0, 0.25, True) == 0.0  # nothing there to carry
    assert blend(0.0, 400.0, 0.25, True) == 0.0
    assert blend(-1.0, 3.0, 0.25, False) == 0.0


def test_outflow_is_scaled_to_what_is_there():
    """Three arcs, everything flows outwards: an Euler step of any length empties, no more."""
    mesh = circle(3)
    away = PrescribedVelocity(lambda x, t: -(mesh.centers[0] - (x @ mesh.centers[0])[:, None] * x))
    fv = FiniteVolume(mesh, Equation(away), order=1)
    stage = fv.stage(0.0, np.array([1.0, 0.0, 0.0]))
    for dt in (0.1 * stage.bound, stage.bound, 10.0 * stage.bound):
        after = stage.state + dt * stage.rhs(dt)
        assert after.min() >= 0.0
        np.testing.assert_allclose(after[0], max(1.0 - dt / stage.bound, 0.0), atol=1e-13)
        np.testing.assert_allclose(after.sum(), 1.0, rtol=1e-14)


def test_across_is_an_involution():
    mesh = icosphere(4)
    fv = FiniteVolume(mesh, Equation(non_divergent()))
    across = fv.transport.across
    assert isinstance(fv.transport, Transport)
    np.testing.assert_array_equal(across[across], np.arange(len(across)))
    np.testing.assert_array_equal(mesh.cell_edges[across], mesh.cell_edges)
    assert (across != np.arange(len(across))).all()
