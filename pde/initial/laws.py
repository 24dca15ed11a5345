"""Probability laws on the sphere that know their density and draw exact samples.

Densities are with respect to surface area and of total mass 1 by their formulas, and so are their
averages on the cells of any mesh, however narrow the law: `law.cell_averages(mesh)`, which
`mesh.average(law)` gives. The functions that check arguments and make these laws are in
`pde.initial`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import betainc, gammaln, hyp0f1, ive

from meshes import SphereMesh
from meshes.geometry import norm, unit
from pde.arguments import Array, natural, shown, unit_points
from pde.initial.cell_masses import cap_areas, gaussian_masses

LARGEST_LOGARITHM = 709.0
"""e to this power is within the range of float64."""

EPSILON = 1e-17
"""kappa below which a von Mises-Fisher law is uniform to rounding."""


TOLERANCE = 1e-10
"""Of the masses of laws on cells (`SphereMesh.average`), and of their total."""

WIDTHS = 9.0
"""Beyond so many widths a von Mises-Fisher law has no mass: e^{-40}."""


@runtime_checkable
class Law(Protocol):
    """A density that can draw exact samples of itself."""

    dim: int

    def __call__(self, points: Array) -> Array:
        """(m,) density with respect to surface area at (m, d) points."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""


def integrated(law: Any, mesh: SphereMesh) -> Array:
    """(N,) cell averages of a law by quadrature that follows it down to the lengths `law.scale`.

    Raises ValueError where they do not sum to 1.
    """
    averages = mesh.average(law.__call__, getattr(law, "scale", None), TOLERANCE)
    mass = float(averages @ mesh.areas)
    if not abs(mass - 1.0) <= TOLERANCE:
        raise ValueError(
            f"a law must be wider or have fewer peaks to be seen by {mesh!r}: its cells hold "
            f"{mass:.9g} of the mass 1 of {shown(law)}"
        )
    return averages


def sphere_area(d: int) -> float:
    """Surface area of the unit sphere of R^d: 2 pi, 4 pi, 2 pi^2 for d = 2, 3, 4."""
    return float(2.0 * np.exp(log_sphere_area(d) - np.log(2.0)))


def log_sphere_area(d: int) -> float:
    """Its logarithm, for any d."""
    return float(np.log(2.0) + 0.5 * d * np.log(np.pi) - gammaln(0.5 * d))


def density_of(logarithm: Any, law: Law) -> Array:
    """e^logarithm, or a clear error where that is beyond the range of float64."""
    logarithm = np.asarray(logarithm, dtype=float)
    if logarithm.max(initial=0.0) > LARGEST_LOGARITHM:
        raise ValueError(
            f"the density of {shown(law)} leaves the range of float64 in d = {law.dim}; "
            "samples can be drawn all the same"
        )
    return np.exp(logarithm)


def log_ive(order: float, kappa: float) -> float:
    """log(e^{-kappa} I_order(kappa)), kappa > 0.

    scipy's ive is NaN beyond 1e9, where Hankel's expansion (Abramowitz and Stegun, 9.7.1) is exact,
    and underflows for large orders, where I_nu(z) = (z/2)^nu 0F1(nu + 1, z^2/4) / Gamma(nu + 1).
    """
    if kappa > 1e9:
        square, series, term = 4.0 * order**2, 1.0, 1.0
        for k in range(1, 5):
            term *= -(square - (2 * k - 1) ** 2) / (k * 8.0 * kappa)
            series += term
        return float(np.log(series) - 0.5 * np.log(2.0 * np.pi * kappa))
    scaled = float(ive(order, kappa))
    if scaled > np.finfo(float).tiny:
        return float(np.log(scaled))
    series = float(hyp0f1(order + 1.0, 0.25 * kappa**2))
    return float(order * np.log(0.5 * kappa) - gammaln(order + 1.0) + np.log(series) - kappa)


class Uniform:
    """The uniform law on the sphere of R^dim."""

    def __init__(self, d: int) -> None:
        self.dim = natural("d", d, 2)

    def __repr__(self) -> str:
        return f"uniform({self.dim})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        n = len(unit_points("points", points, self.dim))
        return density_of(np.full(n, -log_sphere_area(self.dim)), self)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        return unit(rng.standard_normal((n, self.dim)))


class VonMisesFisher:
    """f(x) = peak e^{-kappa |x - mean|^2 / 2}; see `pde.initial.von_mises_fisher`."""

    def __init__(self, mean: Array, kappa: float) -> None:
        self.mean, self.kappa, self.dim = unit(mean), kappa, len(mean)
        order = 0.5 * self.dim - 1.0
        if kappa < EPSILON:
            self.log_peak = -log_sphere_area(self.dim)
        else:
            # e^kappa / int e^{kappa <mean, x>} dx with the exponentially scaled Bessel function
            self.log_peak = (
                order * np.log(kappa) - 0.5 * self.dim * np.log(2.0 * np.pi) - log_ive(order, kappa)
            )

    def __repr__(self) -> str:
        return f"von_mises_fisher({self.mean.tolist()}, {self.kappa:g})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        # <mean, x> - 1 = -|x - mean|^2 / 2
        return density_of(self.log_peak - 0.5 * self.kappa * norm(points - self.mean) ** 2, self)

    def scale(self, points: Array) -> Array:
        """(m,) radii around points (m, d) in which the law is either smooth or without mass."""
        width = max(self.kappa, EPSILON) ** -0.5
        return np.maximum(2.0 * width, norm(points - self.mean) - WIDTHS * width)

    def cell_averages(self, mesh: SphereMesh) -> Array:
        """(N,) averages on the cells of `mesh`, total mass 1 to 1e-10."""
        return integrated(self, mesh)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        if self.kappa < EPSILON:
            return Uniform(self.dim).draw(n, rng)
        if self.dim == 3:
            # The height's distribution function is inverted in closed form.
            u = rng.uniform(size=n)
            if self.kappa < 0.5:  # where u + (1 - u) e^{-2 kappa} is near 1
                height = 1.0 + np.log1p((1.0 - u) * np.expm1(-2.0 * self.kappa)) / self.kappa
            else:
                height = 1.0 + np.log(u + (1.0 - u) * np.exp(-2.0 * self.kappa)) / self.kappa
            return points_around(self.mean, height, rng)
        from scipy.stats import vonmises_fisher

        return vonmises_fisher(self.mean, self.kappa).rvs(n, random_state=rng).reshape(n, -1)


class Mixture:
    """The laws in the given proportions."""

    def __init__(self, laws: list[Law], masses: Array) -> None:
        self.laws, self.shares, self.dim = laws, masses / masses.sum(), laws[0].dim

    def __repr__(self) -> str:
        return " + ".join(
            f"{share:.3g} {law!r}" for share, law in zip(self.shares, self.laws, strict=True)
        )

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        density = np.zeros(len(points))
        for share, law in zip(self.shares, self.laws, strict=True):
            density += share * law(points)
        return density

    def scale(self, points: Array) -> Array:
        """(m,) the smallest of the laws' scales at points (m, d)."""
        scales = [law.scale(points) for law in self.laws if isinstance(law, VonMisesFisher)]
        return np.min([np.full(len(points), np.pi), *scales], axis=0)

    def cell_averages(self, mesh: SphereMesh) -> Array:
        """(N,) averages on the cells of `mesh`, total mass 1 to 1e-10."""
        return integrated(self, mesh)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        counts = rng.multinomial(n, self.shares)
        points = [law.draw(k, rng) for law, k in zip(self.laws, counts, strict=True)]
        return rng.permutation(np.concatenate(points))


class Spot:
    """The uniform law on a cap; see `pde.initial.spot`."""

    def __init__(self, center: Array, radius: float) -> None:
        self.center, self.radius, self.dim = unit(center), radius, len(center)
        # Share of the sphere within the angle r <= pi/2: betainc(sin^2 r) / 2.
        near = 0.5 * betainc(0.5 * (self.dim - 1), 0.5, np.sin(radius) ** 2)
        self.share = float(near if radius <= 0.5 * np.pi else 1.0 - near)
        self.chord = 2.0 * np.sin(0.5 * radius)
        if not self.share > 0.0:
            raise ValueError(
                f"radius must leave the cap an area within the range of float64, got {radius:.3g} "
                f"in d = {self.dim}"
            )

    def __repr__(self) -> str:
        return f"spot({self.center.tolist()}, {self.radius:g})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        inside = norm(points - self.center) <= self.chord
        height = density_of(-np.log(self.share) - log_sphere_area(self.dim), self)
        return np.where(inside, height, 0.0)

    def cell_averages(self, mesh: SphereMesh) -> Array:
        """(N,) averages on the cells of `mesh`, exact: the jump is not smeared."""
        unit_points("points", mesh.centers[:1], self.dim)
        areas = cap_areas(mesh, self.center, self.radius)
        return areas / areas.sum() / mesh.areas

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        u = rng.uniform(size=n)
        if self.dim == 2:
            return points_around(self.center, np.cos(self.radius * u), rng)
        if self.dim == 3:
            return points_around(self.center, 1.0 - 0.5 * self.chord**2 * u, rng)
        from scipy.special import betaincinv

        # u * share = P(angle <= r) up to the equator, its mirror image beyond.
        below = u * self.share
        half = 0.5 * (self.dim - 1)
        sine_square = betaincinv(half, 0.5, 2.0 * np.minimum(below, 1.0 - below))
        height = np.copysign(np.sqrt(1.0 - sine_square), 0.5 - below)
        return points_around(self.center, height, rng)


class AngularCentralGaussian:
    """The law of z/|z|, z ~ N(0, Lambda)."""

    def __init__(self, Lambda: Array) -> None:
        self.Lambda, self.dim = Lambda, len(Lambda)
        # Its size plays no part; powers of two change no digit.
        self.root = np.linalg.cholesky(np.ldexp(Lambda, -np.frexp(np.abs(Lambda).max())[1]))

    def __repr__(self) -> str:
        return f"angular_central_gaussian({self.Lambda.tolist()})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        solved = np.linalg.solve(self.root, points.T)
        # Squares of large ones may leave the range of float64.
        largest = np.abs(solved).max(axis=0)
        lengths = largest * np.linalg.norm(solved / largest, axis=0)
        log_determinant = np.log(np.diag(self.root)).sum()
        logarithm = -self.dim * np.log(lengths) - log_determinant - log_sphere_area(self.dim)
        return density_of(logarithm, self)

    def cell_averages(self, mesh: SphereMesh) -> Array:
        """(N,) averages on the cells of `mesh`, exact."""
        unit_points("points", mesh.centers[:1], self.dim)
        return gaussian_masses(mesh, self.root) / mesh.areas

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        return unit(rng.standard_normal((n, self.dim)) @ self.root.T)


def points_around(center: Array, height: Array, rng: np.random.Generator) -> Array:
    """(n, d) points with <x, center> = height, uniform on the rings of equal height."""
    g = rng.standard_normal((len(height), len(center)))
    across = unit(g - (g @ center)[:, None] * center)
    s = np.sqrt(np.maximum((1.0 - height) * (1.0 + height), 0.0))
    return unit(height[:, None] * center + s[:, None] * across)
