"""Fields whose parameters depend on time: at every time another field.

Layers of a transformer have matrices of their own; with layers as time, V, B and beta become
functions of t (Geshkovski, Letrouit, Polyanskiy and Rigollet, arXiv:2312.10794).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pde.arguments import Array, function, number, shown
from pde.field import Field, UndefinedQuantity
from pde.measure import Measure

if TYPE_CHECKING:
    from meshes import EdgeQuadrature


class TimeDependent(Field):
    """v[mu](x, t) = field_at(t).velocity(x, mu, t).

    field_at : a function t -> Field
    at : a time at which it is defined; dimension and locality are those of the field then

    Everything is that of the field at the time asked for, at the stages of a Runge-Kutta step too;
    a step across a jump of the parameters loses its order. Steps look at the velocity between their
    stages too (`pde.time.control`); what lasts for less than a hundredth of the way between two
    landings of a run at rest may still be missed: give `Simulation` a `max_step` there.

    Raises TypeError where `field_at` gives no field, ValueError where it gives one of another
    dimension, or one that depends on the measure although that at `at` does not.

    >>> import numpy as np
    >>> from pde.fields.one_body import Drift
    >>> field = TimeDependent(lambda t: Drift(np.cos(t) * np.array([[0.0, -1.0], [1.0, 0.0]])))
    >>> field.velocity([[1.0, 0.0]], t=np.pi)
    array([[ 0., -1.]])
    """

    def __init__(self, field_at: Callable[[float], Field], at: float = 0.0) -> None:
        self.field_at = function("field_at", field_at, "t -> Field")
        first = _field(field_at, number("at", at))
        self.dim = first.dim
        self.is_nonlocal = first.is_nonlocal

    def __repr__(self) -> str:
        return f"TimeDependent({getattr(self.field_at, '__name__', self.field_at)})"

    def now(self, t: float) -> Field:
        """The field at time t, checked."""
        field = _field(self.field_at, number("t", t))
        if field.dim != self.dim:
            raise ValueError(
                f"field_at must give fields of one dimension, got d = {self.dim} and, "
                f"at t = {t:g}, d = {field.dim}"
            )
        if field.is_nonlocal and not self.is_nonlocal:
            raise ValueError(
                f"field_at gives a field that depends on the measure at t = {t:g}, but not at the "
                "time `at`: give TimeDependent such a time as `at`"
            )
        return field

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """The velocity of the field at time t."""
        return self.now(t).velocity(x, mu, t)

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """The output of the field at time t."""
        return self.now(t).output(x, mu, t)

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """The divergence of the field at time t."""
        return self.now(t).divergence(x, mu, t)

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """The potential of the field at time t."""
        return self.now(t).potential(x, mu, t)

    def energy(self, mu: Measure, t: float | None = None) -> float:
        """The energy of the field at time t, which must be given."""
        return self._then("energy", t).energy(mu, t)

    def driving_energy(self, mu: Measure, t: float | None = None) -> float:
        """The driving energy of the field at time t, which must be given.

        Along the flow dE/dt = int |v|^2 dmu + (d_t E)(mu): the energy itself changes with time.
        """
        return self._then("driving_energy", t).driving_energy(mu, t)

    def normal_velocity(
        self, edges: EdgeQuadrature, mu: Measure | None = None, t: float = 0.0
    ) -> Array:
        """The normal velocities of the field at time t, so that exact fluxes stay exact."""
        return self.now(t).normal_velocity(edges, mu, t)

    def _then(self, name: str, t: float | None) -> Field:
        if t is None:
            raise UndefinedQuantity(
                f"{name} of a TimeDependent field needs the time: {name}(mu, t)"
            )
        return self.now(t)


def _field(field_at: Callable[[float], Field], t: float) -> Field:
    field = field_at(t)
    if not isinstance(field, Field):
        raise TypeError(f"field_at must give a Field, got {shown(field)} at t = {t:g}")
    return field
