"""Probability laws on the sphere that know their density and draw exact samples.

Densities are with respect to surface area and of total mass 1 by their formulas. The functions that
check arguments and make these laws are in `pde.initial`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import betainc, gammaln, ive

from meshes.geometry import norm, unit
from pde.arguments import Array, natural, unit_points


@runtime_checkable
class Law(Protocol):
    """A density that can draw exact samples of itself."""

    dim: int

    def __call__(self, points: Array) -> Array:
        """(m,) density with respect to surface area at (m, d) points."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""


def sphere_area(d: int) -> float:
    """Surface area of the unit sphere of R^d: 2 pi, 4 pi, 2 pi^2 for d = 2, 3, 4."""
    return float(2.0 * np.exp(0.5 * d * np.log(np.pi) - gammaln(0.5 * d)))


class Uniform:
    """The uniform law on the sphere of R^dim."""

    def __init__(self, d: int) -> None:
        self.dim = natural("d", d, 2)

    def __repr__(self) -> str:
        return f"uniform({self.dim})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        return np.full(len(unit_points("points", points, self.dim)), 1.0 / sphere_area(self.dim))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        return unit(rng.standard_normal((n, self.dim)))


class VonMisesFisher:
    """f(x) = peak e^{-kappa |x - mean|^2 / 2}; see `pde.initial.von_mises_fisher`."""

    def __init__(self, mean: Array, kappa: float) -> None:
        self.mean, self.kappa, self.dim = mean, kappa, len(mean)
        order = 0.5 * self.dim - 1.0
        if kappa == 0.0:
            self.peak = 1.0 / sphere_area(self.dim)
        else:
            # e^kappa / int e^{kappa <mean, x>} dx with the exponentially scaled Bessel function
            log_integral = (
                0.5 * self.dim * np.log(2.0 * np.pi)
                + np.log(ive(order, kappa))
                - order * np.log(kappa)
            )
            self.peak = float(np.exp(-log_integral))

    def __repr__(self) -> str:
        return f"von_mises_fisher({self.mean.tolist()}, {self.kappa:g})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        # <mean, x> - 1 = -|x - mean|^2 / 2
        return self.peak * np.exp(-0.5 * self.kappa * norm(points - self.mean) ** 2)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        if self.kappa == 0.0:
            return Uniform(self.dim).draw(n, rng)
        if self.dim == 3:
            # The height's distribution function is inverted in closed form.
            u = rng.uniform(size=n)
            height = 1.0 + np.log(u + (1.0 - u) * np.exp(-2.0 * self.kappa)) / self.kappa
            return points_around(self.mean, height, rng)
        from scipy.stats import vonmises_fisher

        # scipy's sampler wants the mean to rounding
        return vonmises_fisher(unit(self.mean), self.kappa).rvs(n, random_state=rng).reshape(n, -1)


class Mixture:
    """The laws in the given proportions."""

    def __init__(self, laws: list[Law], masses: Array) -> None:
        if not masses.sum() > 0.0:
            raise ValueError("bumps must have mass: raise a height or the floor above 0")
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

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        counts = rng.multinomial(n, self.shares)
        points = [law.draw(k, rng) for law, k in zip(self.laws, counts, strict=True)]
        return rng.permutation(np.concatenate(points))


class Spot:
    """The uniform law on a cap; see `pde.initial.spot`."""

    def __init__(self, center: Array, radius: float) -> None:
        self.center, self.radius, self.dim = center, radius, len(center)
        # Share of the sphere within the angle r <= pi/2: betainc(sin^2 r) / 2.
        near = 0.5 * betainc(0.5 * (self.dim - 1), 0.5, np.sin(radius) ** 2)
        self.share = float(near if radius <= 0.5 * np.pi else 1.0 - near)
        self.chord = 2.0 * np.sin(0.5 * radius)

    def __repr__(self) -> str:
        return f"spot({self.center.tolist()}, {self.radius:g})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        inside = norm(points - self.center) <= self.chord
        return np.where(inside, 1.0 / (self.share * sphere_area(self.dim)), 0.0)

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
        self.root = np.linalg.cholesky(Lambda)

    def __repr__(self) -> str:
        return f"angular_central_gaussian({self.Lambda.tolist()})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        lengths = norm(np.linalg.solve(self.root, points.T).T)
        root_determinant = np.prod(np.diag(self.root))
        return lengths**-self.dim / (root_determinant * sphere_area(self.dim))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, d) independent samples."""
        return unit(rng.standard_normal((n, self.dim)) @ self.root.T)


def points_around(center: Array, height: Array, rng: np.random.Generator) -> Array:
    """(n, d) points with <x, center> = height, uniform on the rings of equal height."""
    g = rng.standard_normal((len(height), len(center)))
    across = unit(g - (g @ center)[:, None] * center)
    s = np.sqrt(np.maximum((1.0 - height) * (1.0 + height), 0.0))
    return unit(height[:, None] * center + s[:, None] * across)
