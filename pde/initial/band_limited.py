"""Random smooth laws on the circle and the sphere: finitely many harmonics, exact samples."""

from __future__ import annotations

import numpy as np

from meshes import SphereMesh, circle, icosphere
from meshes.geometry import unit
from pde.arguments import Array, unit_points
from pde.initial.laws import Uniform, integrated, sphere_area


class BandLimited:
    """(1 + amplitude g) / area; see `pde.initial.random_band_limited`."""

    def __init__(self, rng: np.random.Generator, degree: int, amplitude: float, d: int) -> None:
        self.dim, self.degree, self.amplitude = d, degree, amplitude
        # 2 l + 1 zonal functions in general position span the harmonics of degree l.
        self.axes = Uniform(d).draw(2 * degree + 1, rng)
        self.coefficients = rng.standard_normal((degree, 2 * degree + 1))
        # On any great circle g is a trigonometric polynomial: at an angle s <= pi/(2 degree) from a
        # maximum M it is at least M cos(degree s). Points 0.2/degree apart see 98% of the maximum.
        distance = 0.2 / degree
        bound = np.abs(self._harmonics(_covering(d, distance))).max() / np.cos(degree * distance)
        self.coefficients /= bound

    def __repr__(self) -> str:
        return f"random_band_limited(degree={self.degree}, amplitude={self.amplitude:g})"

    def __call__(self, points: Array) -> Array:
        """(m,) density at (m, d) points."""
        points = unit_points("points", points, self.dim)
        return (1.0 + self.amplitude * self._harmonics(points)) / sphere_area(self.dim)

    def cell_averages(self, mesh: SphereMesh) -> Array:
        """(N,) averages on the cells of `mesh`, total mass 1 to 1e-10."""
        return integrated(self, mesh)

    def _harmonics(self, x: Array) -> Array:
        """sum_lj c_lj P_l(<x, y_j>) by the three-term recurrence of P_l, P_0 = 1, P_1 = t."""
        t = x @ self.axes.T
        previous, current = np.ones_like(t), t
        total = current @ self.coefficients[0]
        for l in range(1, self.degree):  # noqa: E741
            following = ((2 * l + self.dim - 2) * t * current - l * previous) / (l + self.dim - 2)
            previous, current = current, following
            total += current @ self.coefficients[l]
        return total

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Inversion: of the height's polynomial distribution, then of the longitude's."""
        u = rng.uniform(size=(2, n))
        if self.dim == 2:
            return _circle_points(self._longitudes(np.zeros(n), np.ones(n), u[0]))
        z = _invert_polynomial(self._height_distribution(), u[0])
        s = np.sqrt((1.0 - z) * (1.0 + z))
        ring = _circle_points(self._longitudes(z, s, u[1]))
        return unit(np.column_stack([s[:, None] * ring, z]))

    def _height_distribution(self) -> np.polynomial.Legendre:
        """P(x_3 <= z) as a polynomial of degree `degree` + 1 on [-1, 1]."""
        nodes, weights = np.polynomial.legendre.leggauss(self.degree + 1)
        on_rings = self._on_rings(nodes, np.sqrt(1.0 - nodes**2))
        marginal = on_rings.mean(axis=1)
        order = np.arange(self.degree + 1)
        basis = np.polynomial.legendre.legvander(nodes, self.degree)
        density = np.polynomial.Legendre((order + 0.5) * ((weights * marginal) @ basis))
        cumulated = density.integ(lbnd=-1.0)
        return cumulated / cumulated(1.0)

    def _on_rings(self, z: Array, s: Array) -> Array:
        """(n, 2 degree + 1) densities at equispaced longitudes of the circles at height z."""
        k = 2 * self.degree + 1
        ring = _circle_points(2.0 * np.pi * np.arange(k) / k)
        if self.dim == 2:
            return np.tile(self(ring), (len(z), 1))
        points = np.empty((len(z), k, 3))
        points[..., :2] = s[:, None, None] * ring
        points[..., 2] = z[:, None]
        return self(points.reshape(-1, 3)).reshape(len(z), k)

    def _longitudes(self, z: Array, s: Array, u: Array) -> Array:
        """Solutions of F(longitude) = u, F the distribution on the circle at height z.

        The density there is a trigonometric polynomial, so F is known exactly from 2 degree + 1
        values; bisection, since F is monotone whatever its shape.
        """
        modes = np.fft.rfft(self._on_rings(z, s), axis=1) / (2 * self.degree + 1)
        order = np.arange(1, self.degree + 1)
        ratio = 2.0 * modes[:, 1:] / (1j * order * modes[:, :1].real)
        low, high = np.zeros(len(u)), np.full(len(u), 2.0 * np.pi)
        for _ in range(52):
            middle = 0.5 * (low + high)
            waves = np.exp(1j * middle[:, None] * order) - 1.0
            cumulated = (middle + (ratio * waves).sum(axis=1).real) / (2.0 * np.pi)
            low, high = np.where(cumulated < u, middle, low), np.where(cumulated < u, high, middle)
        return 0.5 * (low + high)


def _circle_points(angle: Array) -> Array:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _covering(d: int, distance: float) -> Array:
    """Points of the sphere in R^d, d = 2 or 3, with none farther than `distance` from all."""
    if d == 2:
        return circle(int(np.ceil(np.pi / distance))).centers
    frequency = 2
    while (mesh := icosphere(frequency)).cell_radii.max() > distance:
        frequency *= 2
    return mesh.centers


def _invert_polynomial(F: np.polynomial.Legendre, u: Array) -> Array:
    """Solutions z in [-1, 1] of F(z) = u for increasing F, by bisection to rounding."""
    low, high = np.full(len(u), -1.0), np.ones(len(u))
    for _ in range(52):
        middle = 0.5 * (low + high)
        below = F(middle) < u
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
