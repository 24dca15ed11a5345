"""Objectives with many minima on the sphere and one known best: tests of global optimisation.

Both are functions of z = b (x - x*), x* the minimiser, with J(x*) = 0: standard functions of global
optimisation read on the sphere of R^d (for Ackley's see Fornasier, Huang, Pareschi and Sünnen,
arXiv:2001.11988). The ripples have the period 1/b in each coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh
from pde.arguments import Array

Objective = Callable[[Array], Array]

RIPPLES = 1.25
"""b for d = 3: a dozen minima. It grows like sqrt(d), so that z stays as large per coordinate."""


def minimiser(d: int) -> Array:
    """(d,) x*, a unit vector in general position: coordinates of all sizes, signs alternating.

    >>> minimiser(2).round(3)
    array([ 0.447, -0.894])
    """
    direction = np.arange(1.0, d + 1.0) * (-1.0) ** np.arange(d)
    return direction / np.linalg.norm(direction)


def period(d: int) -> float:
    """1/b, about the distance of a minimum from the next."""
    return 1.0 / (RIPPLES * np.sqrt(d / 3.0))


def rastrigin(best: Array) -> Objective:
    """(1/d) sum_k [z_k^2 + (1 - cos 2 pi z_k) / 2].

    >>> x = minimiser(3)
    >>> rastrigin(x)(np.array([x, -x])).round(3)
    array([0.   , 2.585])
    """
    d = len(best)

    def rastrigin(x: Array) -> Array:
        z = (x - best) / period(d)
        return (z**2 + 0.5 * (1.0 - np.cos(2.0 * np.pi * z))).sum(axis=1) / d

    return rastrigin


def ackley(best: Array) -> Objective:
    """20 (1 - e^{-0.2 |z| / sqrt(d)}) + e - e^{(1/d) sum_k cos 2 pi z_k}; a cone at x*."""
    d = len(best)

    def ackley(x: Array) -> Array:
        z = (x - best) / period(d)
        bowl = 20.0 * (1.0 - np.exp(-0.2 * np.sqrt((z**2).sum(axis=1) / d)))
        return bowl + math.e - np.exp(np.cos(2.0 * np.pi * z).sum(axis=1) / d)

    return ackley


def axes_quartic(axes: Array) -> Objective:
    """1 - sum_k <x, e_k>^4: 2 d equal minima, of value 0, at + and - the columns of `axes` (d, d).

    >>> axes_quartic(np.eye(2))(np.array([[1.0, 0.0], [0.6, 0.8]])).round(4)
    array([0.    , 0.4608])
    """

    def quartic(x: Array) -> Array:
        return 1.0 - ((x @ axes) ** 4).sum(axis=1)

    return quartic


def local_minima(objective: Objective, mesh: SphereMesh) -> NDArray[np.int64]:
    """Numbers of the cells whose value is below that of all neighbours, the lowest first."""
    values = objective(mesh.centers)
    first, second = mesh.edge_cells.T
    around = np.full(mesh.n_cells, np.inf)
    np.minimum.at(around, first, values[second])
    np.minimum.at(around, second, values[first])
    found = np.flatnonzero(values < around)
    return found[np.argsort(values[found])]
