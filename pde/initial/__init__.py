"""Initial laws: probability densities on the sphere as functions of points, and samples of them.

Every law is a callable f: (m, d) unit points -> (m,) density with respect to surface area, with
total mass 1 by its formula (`random_band_limited`: by orthogonality). Laws also know their averages
on the cells of a mesh, `f.cell_averages(mesh)`, which finite volumes start from, of mass 1 however
narrow they are; and how to draw exact samples, `f.draw(n, rng)`, which `sample` uses. Any other
function is averaged by quadrature and sampled from its masses on a fine mesh.

Masses are kept, everywhere: a density of your own has the mass that it has, which the cells carry;
nothing is scaled to 1. Samples are places only. What carries mass there are the weights of a
`ParticleSystem`, equal of total 1 unless given: np.full(n, mass / n) for a density of another mass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from meshes import SphereMesh, circle, icosphere
from meshes.adaptive import CellIntegrals
from meshes.geometry import norm, unit
from pde.arguments import (
    Array,
    function,
    natural,
    non_negative,
    one_of,
    positive,
    real_array,
    shown,
    square_matrix,
    unit_points,
)
from pde.initial.band_limited import BandLimited
from pde.initial.laws import (
    AngularCentralGaussian,
    Law,
    Mixture,
    Spot,
    Uniform,
    VonMisesFisher,
    log_sphere_area,
)

Density = Callable[[Array], Array]

LARGEST_KAPPA = 1e12
"""A von Mises-Fisher law of a larger one sees the rounding of points."""

LARGEST_SEED = 2**128
"""Of the generators, that of the noise among them."""


def uniform(d: int = 3) -> Law:
    """The uniform law.

    >>> (uniform()(np.eye(3)) * 4 * np.pi).round(12)
    array([1., 1., 1.])
    """
    return Uniform(d)


def von_mises_fisher(mean: Any, kappa: float) -> Law:
    """f(x) = C e^{kappa <mean, x>}, C^{-1} = (2 pi)^{d/2} I_{d/2-1}(kappa) / kappa^{d/2-1}.

    mean : (d,) unit vector; 0 <= kappa <= 1e12 the concentration
    """
    kappa = non_negative("kappa", kappa)
    if kappa > LARGEST_KAPPA:
        raise ValueError(f"kappa must be <= {LARGEST_KAPPA:g}, got {kappa:.3g}")
    return VonMisesFisher(_direction("mean", mean), kappa)


def bumps(centers: Any, widths: Any, heights: Any = 1.0, floor: float = 0.0) -> Law:
    """f(x) ~ floor + sum_i heights_i e^{-|x - centers_i|^2 / (2 widths_i^2)}, total mass 1.

    centers : (k, d) unit vectors; widths >= 1e-6, heights >= 0: one for all, or (k,); floor >= 0

    A mixture of von Mises-Fisher laws (kappa_i = 1 / widths_i^2) and the uniform one.
    """
    centers = unit_points("centers", centers)
    k, d = centers.shape
    widths, heights = _one_each("widths", widths, k), _one_each("heights", heights, k)
    if k == 0 or widths.min() < LARGEST_KAPPA**-0.5 or heights.min() < 0.0:
        raise ValueError(
            f"bumps need at least one center, widths > 0 (from {LARGEST_KAPPA**-0.5:g} on) and "
            f"heights >= 0, got {k} centers, widths {shown(widths)}, heights {shown(heights)}"
        )
    floor = non_negative("floor", floor)
    largest = max(floor, float(heights.max()))
    if not largest > 0.0:
        raise ValueError("bumps must have mass: raise a height or the floor above 0")
    laws: list[Law] = [uniform(d)]
    log_masses = [_log(floor / largest) + log_sphere_area(d)]
    for center, width, height in zip(centers, widths, heights, strict=True):
        law = VonMisesFisher(center, (1.0 / width) ** 2)
        laws.append(law)
        log_masses.append(_log(height / largest) - law.log_peak)
    return Mixture(laws, np.exp(np.array(log_masses) - max(log_masses)))


def _log(x: float) -> float:
    return float(np.log(x)) if x > 0.0 else -np.inf


def spot(center: Any, radius: float) -> Law:
    """The uniform law on the cap of points within the angle `radius` of `center`.

    center : (d,) unit vector; 0 < radius <= pi. A small radius stands for a Dirac.
    """
    radius = positive("radius", radius)
    if radius > np.pi:
        raise ValueError(f"radius must be at most pi, got {radius}")
    return Spot(_direction("center", center), radius)


def angular_central_gaussian(Lambda: Any) -> Law:
    """f(x) = |Lambda|^{-1/2} (x^T Lambda^{-1} x)^{-d/2} / area: the law of z/|z|, z ~ N(0, Lambda).

    Lambda : (d, d) symmetric positive definite
    """
    Lambda = square_matrix("Lambda", Lambda)
    scale = np.abs(Lambda).max()
    symmetric = np.abs(Lambda - Lambda.T).max() <= 1e-12 * scale
    if symmetric and np.linalg.eigvalsh(Lambda)[0] > 0.0:
        # Rounding may still find it singular.
        with contextlib.suppress(np.linalg.LinAlgError):
            return AngularCentralGaussian(Lambda)
    raise ValueError(f"Lambda must be symmetric and positive definite, got {shown(Lambda)}")


def random_band_limited(seed: int, degree: int = 4, amplitude: float = 0.5, d: int = 3) -> Law:
    """A random smooth law (1 + amplitude g) / area, g harmonics of degree 1 to `degree`, |g| <= 1.

    g = sum_l sum_j c_lj P_l(<x, y_j>) with random c and y, P_l the Legendre polynomial of
    dimension d: harmonics of degree >= 1 integrate to 0, so the mass is 1. The largest |g| lies in
    [0.98, 1]. 0 <= amplitude < 1 keeps the density positive; d = 2 or 3.
    """
    amplitude = non_negative("amplitude", amplitude)
    if amplitude >= 1.0:
        raise ValueError(f"amplitude must be < 1 for a positive density, got {amplitude}")
    degree, d = natural("degree", degree, 1), one_of("d", d, (2, 3))
    return BandLimited(_generator(seed), degree, amplitude, d)


def sample(f: Density | Law, n: int, seed: int | np.random.Generator, d: int = 3) -> Array:
    """(n, d) independent samples of the density f; the same seed gives the same points.

    f : a law of this module, sampled exactly, or any density (m, d) -> (m,), for d = 2 or 3; of a
        total that is not 1 the law f / int f is sampled, for points carry no mass

    Other densities are sampled without rejection: a cell of a fine mesh (41,000 cells; 8,192 on
    the circle), or a piece of one where the density is narrower, by inversion of the cumulated
    masses, then a uniform point of it. The masses are those of `SphereMesh.average`; within a cell
    or piece the density is flattened, which moves mass by at most its diameter (of cells 0.02
    radians; 0.0008) and smooth integrals by its square.
    """
    rng, n = _generator(seed), natural("n", n)
    if isinstance(f, Law):
        return np.ascontiguousarray(f.draw(n, rng))
    function("f", f, "of points (m, d) -> (m,), or a law")
    if natural("d", d) not in (2, 3):
        raise ValueError(f"d must be 2 or 3 for a density without a sampler of its own, got {d}")
    return _sample_cells(f, n, rng, d)


def _generator(seed: Any) -> np.random.Generator:
    """The generator given, or that of a seed >= 0."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(natural("seed", seed, below=LARGEST_SEED))


def _one_each(name: str, value: Any, k: int) -> Array:
    """`value` as (k,) numbers, from one number or k."""
    array = real_array(name, value)
    if array.shape not in ((), (k,)):
        raise ValueError(
            f"{name} must hold one number, or one for each of the {k} centers, "
            f"got shape {array.shape}"
        )
    return np.broadcast_to(array, (k,))


def _direction(name: str, value: Any) -> Array:
    """`value` as a unit vector (d,)."""
    return unit_points(name, real_array(name, value, ndim=1)[None])[0]


@lru_cache
def _fine_mesh(d: int) -> SphereMesh:
    """The mesh behind `sample`, kept: ensembles sample again and again."""
    return icosphere(64) if d == 3 else circle(8192)


def _sample_cells(f: Density, n: int, rng: np.random.Generator, d: int) -> Array:
    """Cells, or pieces, by inverse cumulated masses, then uniform points of these."""
    mesh = _fine_mesh(d)
    found = CellIntegrals(mesh, f)
    if found.whole.ndim != 1:
        raise ValueError(
            f"f must map points (m, {d}) to one density (m,), got (m, "
            f"{', '.join(map(str, found.whole.shape[1:]))})"
        )
    masses = np.concatenate([found.whole, found.pieces.integrals[:, 0]])
    if masses.min() < 0.0 or not masses.sum() > 0.0:
        raise ValueError(
            f"f must be a density, >= 0 with positive mass; its cell masses on a fine mesh lie in "
            f"[{masses.min():.3g}, {masses.max():.3g}]"
        )
    cumulated = np.cumsum(masses)
    index = np.searchsorted(cumulated, rng.uniform(size=n) * cumulated[-1], side="right")
    index = np.minimum(index, len(masses) - 1)
    in_pieces = index >= mesh.n_cells
    cells, pieces = index[~in_pieces], index[in_pieces] - mesh.n_cells
    corners, points = mesh.vertices[mesh.cell_vertices], np.empty((n, d))
    start, stop = mesh.cell_offsets[cells], mesh.cell_offsets[cells + 1]
    of_pieces = found.pieces.corners[pieces]
    if d == 2:
        points[~in_pieces] = _in_arcs(corners[start], corners[stop - 1], rng)
        points[in_pieces] = _in_arcs(of_pieces[:, 0], of_pieces[:, 1], rng)
    else:
        points[~in_pieces] = _in_polygons(mesh.centers[cells], corners, start, stop, rng)
        points[in_pieces] = _in_triangles(of_pieces[:, 0], of_pieces[:, 1], of_pieces[:, 2], rng)
    return points


def _in_arcs(a: Array, b: Array, rng: np.random.Generator) -> Array:
    """One uniform point of each arc from a to b."""
    angle = 2.0 * np.arcsin(0.5 * norm(b - a)) * (rng.uniform(size=len(a)) - 0.5)
    middle, along = unit(a + b), unit(b - a)
    return np.cos(angle)[:, None] * middle + np.sin(angle)[:, None] * along


def _in_triangles(a: Array, b: Array, c: Array, rng: np.random.Generator) -> Array:
    """One uniform point of each small triangle."""
    u, v = np.sqrt(rng.uniform(size=len(a))), rng.uniform(size=len(a))
    return unit(a + u[:, None] * ((1.0 - v)[:, None] * (b - a) + v[:, None] * (c - a)))


def _in_polygons(
    center: Array, corners: Array, start: Array, stop: Array, rng: np.random.Generator
) -> Array:
    """One uniform point of each small polygon: a triangle of its fan by area, then a point of it.

    The triangles are taken as flat, an error of relative size h^2 in a density that is flattened
    over a cell of size h anyway.
    """
    sides = int((stop - start).max(initial=1))
    index = start[:, None] + np.arange(sides)
    following = np.where(index + 1 < stop[:, None], index + 1, start[:, None])
    index = np.minimum(index, stop[:, None] - 1)
    a, b = corners[index], corners[following]
    inside = start[:, None] + np.arange(sides) < stop[:, None]
    areas = norm(np.cross(a - center[:, None], b - center[:, None])) * inside
    cumulated = np.cumsum(areas, axis=1)
    pick = (cumulated < (rng.uniform(size=len(start)) * cumulated[:, -1])[:, None]).sum(axis=1)
    rows = np.arange(len(start))
    return _in_triangles(center, a[rows, pick], b[rows, pick], rng)
