"""Zero temperature from one smooth bump, until two clusters hold the mass, and its exact solution.

A = V B^T, B = I, has the eigenvalues .9, .4, -.6 on axes that no mesh is aligned with. The exact
solution is the law carried by the flow: the cells of a fine mesh, moved exactly.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from meshes import icosphere
from pde import Measure, initial
from validation import exact

AXES = Rotation.from_euler("zyx", [0.7, 0.5, 0.3]).as_matrix()
A = AXES @ np.diag([0.9, 0.4, -0.6]) @ AXES.T
LAW = initial.von_mises_fisher([0.36, 0.48, 0.8], 1.0)
TIMES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)


def exact_measures(frequency: int) -> list[Measure]:
    """The exact solution at TIMES: cells of a mesh of that frequency, moved with their masses."""
    start = Measure.from_mesh(mesh := icosphere(frequency), mesh.average(LAW))
    solution = exact.ZeroTemperature(A, np.eye(3), LAW)
    return [Measure(solution.flow(t)(start.points), start.weights) for t in TIMES]


def right_share(mu: Measure) -> float:
    """Share of the mass with <x, e> > 0, e the dominant axis; the flow keeps it."""
    return float(mu.weights[mu.points @ AXES[:, 0] > 0.0].sum()) / mu.total


def unit(mu: Measure) -> Measure:
    """Total 1, without the atoms that are too small to matter to 1e-12."""
    held = mu.weights > 1e-14 * mu.total
    return Measure(mu.points[held], mu.weights[held] / mu.weights[held].sum())
