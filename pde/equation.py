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

from pde.arguments import non_negative
from pde.field import Field


@dataclass(frozen=True)
class Equation:
    """d_t rho + div(rho v[rho]) = LaplaceBeltrami(D rho) on the sphere.

    field : the velocity, e.g. `SelfAttention(V, B, beta)`
    diffusion : D >= 0, a number or a function D(x, mu, t) -> (m,)

    Raises TypeError where `field` is no field, ValueError for a negative diffusion.
    """

    field: Field
    diffusion: float | Callable = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.field, Field):
            raise TypeError(
                f"field must be a Field such as SelfAttention(V, B, beta), got {self.field!r}; "
                "wrap a function f(x, t) as PrescribedVelocity(f)"
            )
        if not callable(self.diffusion):
            object.__setattr__(self, "diffusion", non_negative("diffusion", self.diffusion))
