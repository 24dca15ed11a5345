"""Transfer between meshes: exact for constants, of the reconstruction's order for smooth data."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import initial
from pde.cells.reconstruction import Reconstruction
from validation.transfer import evaluate, transfer


def smooth(x):
    return np.exp(x @ np.array([0.6, -0.8, 1.0]))


@pytest.mark.parametrize("order", [2, 4, 6])
def test_values_are_of_the_order_of_the_reconstruction(order):
    points = initial.sample(initial.uniform(), 4000, seed=1)
    errors = []
    for frequency in (12, 24):
        mesh = icosphere(frequency)
        values = evaluate(Reconstruction(mesh, order), mesh.average(smooth), points)
        errors.append(np.sqrt(np.mean((values - smooth(points)) ** 2)))
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.35
    assert errors[1] < {2: 3e-3, 4: 3e-5, 6: 3e-7}[order]


@pytest.mark.parametrize("order", [2, 4, 6])
def test_averages_are_no_worse_than_values(order):
    source, target = icosphere(24), icosphere(5)
    moved = transfer(source.average(smooth), source, target, order)
    errors = np.abs(moved - target.average(smooth))
    assert errors.max() < {2: 3e-3, 4: 3e-5, 6: 3e-7}[order]


def test_constants_are_exact_and_values_lie_in_their_cells():
    source = icosphere(6)
    np.testing.assert_allclose(
        transfer(np.full(source.n_cells, 0.25), source, icosphere(4), 4), 0.25, rtol=1e-14
    )
    rho = np.arange(source.n_cells, dtype=float)
    values = evaluate(Reconstruction(source, 1), rho, source.centers[::-1])
    np.testing.assert_array_equal(values, rho[::-1])


def test_the_circle():
    source, target = circle(48), circle(7)
    f = lambda x: np.exp(x[:, 0])  # noqa: E731
    moved = transfer(source.average(f), source, target, 6)
    # (2 pi / 48)^6 = 5e-6
    np.testing.assert_allclose(moved, target.average(f), rtol=0, atol=2e-6)
