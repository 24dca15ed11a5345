"""The equation: a velocity field and a diffusion.

    d_t rho + div(rho v[rho]) = LaplaceBeltrami(D rho)

with v[rho] the field's velocity (softmax attention gives the transformer continuity equation of
Alcalde, Bungert, Riedl and Roith, arXiv:2605.10931, and Rigollet, arXiv:2512.01868) and D a number
(1/kappa in the noisy transformer) or a function D(x, mu, t): the Ito form, whose particles move
with sqrt(2 D) dW.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pde.arguments import LARGEST_ENTRY, Array, coefficients, instance, non_negative
from pde.field import Field
from pde.measure import Measure


@dataclass(frozen=True)
class Equation:
    """d_t rho + div(rho v[rho]) = LaplaceBeltrami(D rho) on the sphere.

    field : the velocity, e.g. `SelfAttention(V, B, beta)`
    diffusion : D >= 0, a number, or a function D(x, mu, t) -> (m,) of points (m, d), the measure
        and the time

    Raises TypeError where `field` is no field, ValueError for a negative diffusion.
    """

    field: Field
    diffusion: float | Callable = 0.0

    def __post_init__(self) -> None:
        hint = (
            ", such as SelfAttention(V, B, beta); wrap a function f(x, t) as PrescribedVelocity(f)"
        )
        instance("field", self.field, Field, hint)
        if not callable(self.diffusion):
            diffusion = non_negative("diffusion", self.diffusion)
            if diffusion > LARGEST_ENTRY:
                raise ValueError(f"diffusion must be <= {LARGEST_ENTRY:g}, got {diffusion:.3g}")
            object.__setattr__(self, "diffusion", diffusion)

    @property
    def is_nonlocal(self) -> bool:
        """Whether velocity or diffusion depend on the measure."""
        return self.field.is_nonlocal or callable(self.diffusion)

    @property
    def is_autonomous(self) -> bool:
        """Whether neither is known to depend on time by itself."""
        return self.field.is_autonomous and not callable(self.diffusion)

    def diffusion_at(self, x: Array, mu: Measure | None, t: float) -> Array:
        """(m,) values of D at the (m, d) points x.

        Raises ValueError where a function gives another shape, or values < 0 or not finite.
        """
        if not callable(self.diffusion):
            return np.full(len(x), self.diffusion)
        values = coefficients("diffusion(x, mu, t)", self.diffusion(x, mu, t))
        if values.shape != (len(x),):
            raise ValueError(
                f"diffusion(x, mu, t) must have shape ({len(x)},) for {len(x)} points, "
                f"got {values.shape}"
            )
        if len(values) and values.min() < 0.0:
            worst = int(np.argmin(values))
            raise ValueError(
                f"diffusion(x, mu, t) must be >= 0, got {values[worst]:.6g} at index {worst}"
            )
        return values
