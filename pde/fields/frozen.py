"""A field of a measure that stands still: points move, what they attend to does not.

Attention to a frozen cloud is the plain mean shift, which climbs a kernel density; attention to the
moving cloud itself is the blurring one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pde.arguments import Array, instance
from pde.field import Field
from pde.measure import Measure

if TYPE_CHECKING:
    from meshes import EdgeQuadrature


class Frozen(Field):
    """v(x, t) = v[mu](x, t) of `field` at the given mu, whatever measure is moved by it.

    field : any field; mu : the measure that it always sees

    A local field: the measure passed to its methods plays no part. Raises TypeError for what is no
    field or no measure, ValueError where their dimensions differ.

    >>> import numpy as np
    >>> from pde.fields.attention import SelfAttention
    >>> field = Frozen(SelfAttention(np.eye(2), np.eye(2), beta=1.0), Measure([[0.0, 1.0]]))
    >>> field.velocity(np.array([[1.0, 0.0]]))
    array([[0., 1.]])
    """

    def __init__(self, field: Field, mu: Measure) -> None:
        instance("field", field, Field)
        instance("mu", mu, Measure)
        if field.dim not in (None, mu.dim):
            raise ValueError(f"mu must live in dimension {field.dim} like field, got {mu.dim}")
        self.field = field
        self.mu = mu
        self.dim = mu.dim
        self.is_autonomous = field.is_autonomous

    def __repr__(self) -> str:
        return f"Frozen({self.field!r}, {self.mu!r})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities of the field at the frozen measure."""
        return self.field.velocity(x, self.mu, t)

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) output before projection of the field at the frozen measure."""
        return self.field.output(x, self.mu, t)

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) divergence of the field at the frozen measure."""
        return self.field.divergence(x, self.mu, t)

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) potential of the field at the frozen measure."""
        return self.field.potential(x, self.mu, t)

    def normal_velocity(
        self, edges: EdgeQuadrature, mu: Measure | None = None, t: float = 0.0
    ) -> Array:
        """(E, n) normal velocities of the field at the frozen measure."""
        return self.field.normal_velocity(edges, self.mu, t)
