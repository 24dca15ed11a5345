"""Velocity fields on the sphere: what is asked of one, and how fields add and scale.

A field v[mu](x, t) gives tangent velocities at any points for any measure, so the same object
drives cells and particles. A field of one's own needs one method:

    class Rotation(Field):
        def velocity(self, x, mu=None, t=0.0):
            return np.cross([0.0, 0.0, 1.0], x)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pde.arguments import LARGEST_ENTRY, Array, number, real_array, shown, unit_points
from pde.measure import Measure

if TYPE_CHECKING:
    from meshes import EdgeQuadrature


class UndefinedQuantity(ValueError):
    """A potential, energy or divergence was asked of a field that has none."""


class Field:
    """A velocity field v[mu](x, t), tangent to the unit sphere of R^d.

    is_nonlocal : whether the velocity depends on the measure; where not, `mu` may be None
    is_autonomous : whether the velocity is known not to depend on t; where it may, every step of a
        simulation looks at it at more times
    dim : the dimension d that the field lives in; None: any
    """

    is_nonlocal: bool = False
    is_autonomous: bool = False
    dim: int | None = None

    __array_ufunc__ = None
    """An array times a field is asked of the field, which refuses, not of each entry."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # What a base class says of its own velocity does not hold for another one.
        if {"velocity", "output"} & set(vars(cls)) and "is_autonomous" not in vars(cls):
            cls.is_autonomous = False

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) tangent velocities at the (m, d) unit points x."""
        raise NotImplementedError(f"{type(self).__name__} has to define velocity(x, mu, t)")

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) what a layer adds to tokens at x, before any projection: velocity = P_x output.

        Its part along x matters where tokens keep their lengths (`pde.tokens.normalisation`) and in
        layers of finite size (`pde.tokens.layers`). Raises UndefinedQuantity (a ValueError) where
        the field knows its tangential part alone.
        """
        raise UndefinedQuantity(f"{type(self).__name__} defines no output before projection")

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) surface divergence of the velocity at x.

        Raises UndefinedQuantity (a ValueError) where the field gives none.
        """
        raise UndefinedQuantity(f"{type(self).__name__} defines no divergence")

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) values at x of phi, where the velocity is its surface gradient P_x grad phi.

        The velocity climbs: v = + grad phi. phi is fixed up to a constant. Raises
        UndefinedQuantity (a ValueError) where the velocity is no gradient that the field knows.
        """
        raise UndefinedQuantity(f"{type(self).__name__} defines no potential")

    def energy(self, mu: Measure, t: float | None = None) -> float:
        """The interaction energy of mu; fields that depend on time need t.

        Raises UndefinedQuantity (a ValueError) where the field has none.
        """
        raise UndefinedQuantity(f"{type(self).__name__} defines no energy")

    def driving_energy(self, mu: Measure, t: float | None = None) -> float:
        """E(mu) with v[mu] = P_x grad (delta E / delta mu): what the flow climbs.

        The equation is then the gradient flow of E for the Wasserstein distance, upwards:
        dE/dt = int |v|^2 dmu, and delta E / delta mu is `potential` up to a constant. For a field
        that does not depend on the measure E = int potential dmu.

        t : the time, which fields that depend on it need

        Raises UndefinedQuantity (a ValueError) where no such E is known.
        """
        if self.is_nonlocal:
            raise UndefinedQuantity(f"{type(self).__name__} defines no driving energy")
        return float(mu.weights @ self.potential(mu.points, mu, 0.0 if t is None else t))

    def normal_velocity(
        self, edges: EdgeQuadrature, mu: Measure | None = None, t: float = 0.0
    ) -> Array:
        """(E, n) velocities through the edges, at their quadrature points, along their normals."""
        velocity = velocity_of(self, edges.points.reshape(-1, edges.points.shape[-1]), mu, t)
        return np.einsum("end,ed->en", velocity.reshape(edges.points.shape), edges.normals)

    def __add__(self, other: Any) -> Field:
        if not isinstance(other, Field):
            return NotImplemented
        return Sum([self, other])

    def __radd__(self, other: Any) -> Field:
        # sum(heads) starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Any) -> Field:
        return self + (-1.0) * other if isinstance(other, Field) else NotImplemented

    def __mul__(self, factor: Any) -> Field:
        return NotImplemented if isinstance(factor, Field) else Scaled(factor, self)

    __rmul__ = __mul__

    def __neg__(self) -> Field:
        return Scaled(-1.0, self)

    def _at(self, x: Any, mu: Measure | None) -> tuple[Array, Measure]:
        """(x, mu) checked, for a nonlocal field."""
        points = unit_points("x", x, self.dim)
        if not isinstance(mu, Measure):
            raise TypeError(f"mu must be a Measure for {type(self).__name__}, got {shown(mu)}")
        if mu.dim != points.shape[1]:
            raise ValueError(f"mu must live in dimension {points.shape[1]} like x, got {mu.dim}")
        if not mu.total > 0.0:
            raise ValueError(f"mu must have mass for {type(self).__name__}, got total {mu.total}")
        return points, mu


class Sum(Field):
    """The sum of fields, e.g. of attention heads."""

    def __init__(self, terms: Sequence[Field]) -> None:
        if not terms:
            raise ValueError("terms must hold at least one field, got none")
        flat: list[Field] = []
        for term in terms:
            if not isinstance(term, Field):
                raise TypeError(f"terms must be fields, got {shown(term)}")
            flat.extend(term.terms if isinstance(term, Sum) else [term])
        dims = {term.dim for term in flat if term.dim is not None}
        if len(dims) > 1:
            raise ValueError(f"fields must live in one dimension to be added, got {sorted(dims)}")
        self.terms: tuple[Field, ...] = tuple(flat)
        self.dim = dims.pop() if dims else None
        self.is_nonlocal = any(term.is_nonlocal for term in flat)
        self.is_autonomous = all(term.is_autonomous for term in flat)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """Sum of the terms' velocities."""
        return _total(velocity_of(term, x, mu, t) for term in self.terms)

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """Sum of the terms' outputs."""
        return _total(
            _values_of(term, "output", term.output(x, mu, t), np.shape(x)) for term in self.terms
        )

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """Sum of the terms' divergences."""
        return _total(
            _values_of(term, "divergence", term.divergence(x, mu, t), np.shape(x)[:1])
            for term in self.terms
        )

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """Sum of the terms' potentials."""
        return _total(potential_of(term, x, mu, t) for term in self.terms)

    def driving_energy(self, mu: Measure, t: float | None = None) -> float:
        """Sum of the terms' driving energies."""
        return sum(term.driving_energy(mu, t) for term in self.terms)

    def normal_velocity(
        self, edges: EdgeQuadrature, mu: Measure | None = None, t: float = 0.0
    ) -> Array:
        """Sum of the terms' normal velocities, so that exact fluxes stay exact."""
        return _total(normal_velocity_of(term, edges, mu, t) for term in self.terms)


class Scaled(Field):
    """A field times a number."""

    def __init__(self, factor: float, field: Field) -> None:
        self.factor = number("factor", factor)
        if abs(self.factor) > LARGEST_ENTRY:
            raise ValueError(f"factor must be up to {LARGEST_ENTRY:g} in size, got {factor:.3g}")
        self.field = field
        self.dim = field.dim
        self.is_nonlocal = field.is_nonlocal
        self.is_autonomous = field.is_autonomous

    def __repr__(self) -> str:
        return f"{self.factor:g} * ({self.field!r})"

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """factor * velocity."""
        return self.factor * velocity_of(self.field, x, mu, t)

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """factor * output."""
        return self.factor * self.field.output(x, mu, t)

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """factor * divergence."""
        return self.factor * self.field.divergence(x, mu, t)

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """factor * potential."""
        return self.factor * potential_of(self.field, x, mu, t)

    def driving_energy(self, mu: Measure, t: float | None = None) -> float:
        """factor * driving energy."""
        return self.factor * self.field.driving_energy(mu, t)

    def normal_velocity(
        self, edges: EdgeQuadrature, mu: Measure | None = None, t: float = 0.0
    ) -> Array:
        """factor * normal velocity."""
        return self.factor * normal_velocity_of(self.field, edges, mu, t)


def _total(parts: Any) -> Array:
    first, *others = parts
    return sum(others, start=first)


def velocity_of(field: Field, x: Array, mu: Measure | None, t: float) -> Array:
    """(m, d) velocities of a field, which may be of anyone's making: checked.

    Raises ValueError or TypeError, with the field's name, for another shape and for what is not
    finite.
    """
    return _values_of(field, "velocity", field.velocity(x, mu, t), np.shape(x))


def normal_velocity_of(field: Field, edges: EdgeQuadrature, mu: Measure | None, t: float) -> Array:
    """(E, n) velocities of a field through edges, checked as those of `velocity_of`."""
    values = field.normal_velocity(edges, mu, t)
    return _values_of(field, "normal_velocity", values, edges.points.shape[:2])


def potential_of(field: Field, x: Array, mu: Measure | None, t: float) -> Array:
    """(m,) potential of a field, checked as `velocity_of`."""
    return _values_of(field, "potential", field.potential(x, mu, t), np.shape(x)[:1])


def _values_of(field: Field, name: str, values: Any, shape: tuple[int, ...]) -> Array:
    what = f"{name} of {type(field).__name__}"
    values = real_array(what, values)
    if values.shape != shape:
        raise ValueError(f"{what} must have shape {shape}, got {values.shape}")
    return values
