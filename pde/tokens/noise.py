"""Brownian motion of particles on the sphere: sqrt(2 D) dW.

A kick of length dt moves each point along a great circle by a Gaussian tangent vector of variance

    s2 = 2 D dt / (1 + (d - 2) D dt / 3)    in each of the d - 1 directions.

The divisor is the curvature's: with it a kick agrees with the heat semigroup e^{dt D Laplace} to
second order in dt on smooth functions (expand E cos(angle) = e^{-(d-1) D dt}), and on the circle
exactly; without it to first order. Small is what (d - 1) D dt is, the decay of the mean direction
in a kick. For D(x, mu, t), taken where the kick starts and integrated over its time, the scheme is
that of the Ito form and of weak order 1.

The numbers of a kick depend on the seed and on the kick's number alone (Philox, a counter-based
generator: Salmon et al., SC 2011): a run that is restarted goes on to the bit, and needs to store
no state of a generator. Kicks are counted by the system, from its first to its last in whatever
simulations: no two of them get the same numbers.
"""

from __future__ import annotations

import numpy as np

from meshes.geometry import tangent_projection
from meshes.quadrature import gauss_legendre
from pde.arguments import Array
from pde.equation import Equation
from pde.measure import Measure

LARGEST_KICK = 0.04
"""(d - 1) D dt of a step at the most: the square of its angle is 2 (d - 1) D dt, on average."""

LOOKS = 5
"""Gauss points of a step at which a diffusion that may depend on time is looked at."""


class Noise:
    """Kicks of n particles by the diffusion of `equation`.

    seed : >= 0; weights : (n,) of the particles, for diffusions that depend on the measure

    `drawn` counts the kicks of steps that were taken.
    """

    def __init__(self, equation: Equation, seed: int, weights: Array | None = None) -> None:
        self.equation, self.seed, self.weights = equation, seed, weights
        self.drawn = 0

    def step_bound(self, x: Array, t: float) -> float:
        """The step at which the fastest particle's (d - 1) D dt is LARGEST_KICK."""
        largest = (x.shape[1] - 1) * float(self._diffusion(x, t).max())
        return LARGEST_KICK / largest if largest > 0.0 else np.inf

    def small_step(self, t: float, x: Array, dt: float) -> float:
        """The step of length `dt` at the most whose kick is small also where D grows in it."""
        while callable(self.equation.diffusion):
            largest = (x.shape[1] - 1) * float(self._time(x, t, dt, LOOKS).max())
            if not largest > LARGEST_KICK * (1.0 + 1e-9):
                break
            dt *= max(0.1, 0.9 * LARGEST_KICK / largest)
        return dt

    def kick(self, t: float, x: Array, dt: float, number: int) -> Array:
        """The points (n, d) moved from t to t + dt; `number` says which kick of the seed it is."""
        time = self._time(x, t, dt, 3)
        random = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, 0, number]))
        variance = 2.0 * time / (1.0 + (x.shape[1] - 2) * time / 3.0)
        steps = tangent_projection(x, random.standard_normal(x.shape))
        steps *= np.sqrt(variance)[:, None]
        angles = np.linalg.norm(steps, axis=1, keepdims=True)
        moved = np.cos(angles) * x + np.sinc(angles / np.pi) * steps
        return moved / np.linalg.norm(moved, axis=1, keepdims=True)

    def _time(self, x: Array, t: float, dt: float, nodes: int) -> Array:
        """(n,) integrals of D from t to t + dt at the points, by Gauss points in time."""
        if not callable(self.equation.diffusion):
            return self._diffusion(x, t) * dt
        places, weights = gauss_legendre(nodes)
        times = t + 0.5 * dt * (1.0 + places)
        values = [self._diffusion(x, float(time)) for time in times]
        return np.asarray(0.5 * dt * (weights @ np.array(values)))

    def _diffusion(self, x: Array, t: float) -> Array:
        mu = Measure(x, self.weights) if callable(self.equation.diffusion) else None
        return self.equation.diffusion_at(x, mu, t)
