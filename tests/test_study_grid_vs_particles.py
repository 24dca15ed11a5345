"""The study of cells against particles."""

import numpy as np
import pytest

from validation import grid_vs_particles


@pytest.mark.parametrize("name", grid_vs_particles.FIELDS)
def test_moments_agree_to_second_order(name):
    rows, grids = grid_vs_particles.by_mesh(name, [4, 8])
    (_, h0, *coarse, w0), (_, h1, *fine, w1) = rows
    orders = np.log(np.divide(coarse, fine)) / np.log(h0 / h1)
    # Second order within what the coarsest meshes allow; atoms a fraction of a cell apart.
    assert (orders > 1.2).all()
    assert max(fine) < 2.5e-3
    assert w1 < 0.6 * h1 and w1 < 0.6 * w0
    assert grids[-1].total == pytest.approx(1.0, abs=1e-12)


def test_bars_can_be_missed():
    far = [(642, 0.15, 1e-3, 1e-3, 0.2), (2562, 0.075, 9e-4, 2e-4, 0.04)]
    verdicts = [bar.met for bar in grid_vs_particles.mesh_bars("SA", far)]
    assert verdicts == [False, True, False, True]
    slow = [(40, 0.1, 0.1, 0.4), (640, 0.09, 0.024, 0.39)]
    verdicts = [bar.met for bar in grid_vs_particles.number_bars("SA", slow)]
    assert verdicts == [False, True, False]
