"""Tokens under the normalisation schemes of transformers: one attention, several speeds.

A token is x_j = r_j theta_j with the direction theta_j on the sphere. Attention sees directions
alone; with its output A_j (`Field.output`: V m for softmax attention) every scheme is

    dtheta_j/dt = (1/s_j) P A_j,   P = I - theta_j theta_j^T,

    scheme     s_j            dr_j/dt               near consensus, V = I: 1 - <theta_i, theta_j>
    post_ln    1              0                     e^{-2t}
    sqrt       sqrt(t+1)      0                     e^{-4 sqrt(t+1)}
    ngpt       |A_j|/alpha_t  0                     e^{-2 int alpha_t dt}
    pre_ln     r_j            <theta_j, A_j>        t^{-2}
    peri_ln    r_j |A_j|      <theta_j, A_j>/|A_j|  t^{-2}
    mix_ln     Post-LN until tau, then Pre-LN       e^{-2t}, then (r_j(tau) + t - tau)^{-2}

(Rigollet, arXiv:2512.01868; Karagodin, Ge, Polyanskiy, Rigollet, arXiv:2510.22026). In terms of the
tokens all of them are a layer that adds u_j = (r_j/s_j) A_j, and then normalises or does not:

    dx_j/dt = P u_j  (post_ln, sqrt, ngpt),   dx_j/dt = u_j  (pre_ln, peri_ln),

since the radial part of u_j is dr_j/dt. That is the form solved here: the state is x.

The last column, for any B and beta. Let the tokens lie within eps of one point. The softmax weights
are then 1/n + O(eps), so that with the mean theta of all

    A_j = theta + sum_k (w_jk - 1/n) (theta_k - theta) = theta + O(eps^2),
    |A_j| = 1 + O(eps^2),   <theta_j, A_j> = 1 + O(eps^2),   P A_j = -(theta_j - theta) + O(eps^2).

The deviations fall at the rate 1/s, and 1 - <theta_i, theta_j>, quadratic in them, like
e^{-2 int dt/s}. It remains to insert s: constant; sqrt(t+1), whose reciprocal has the integral
2 sqrt(t+1); 1/alpha_t; and for the schemes with a radius dr/dt = 1 + O(eps^2), hence s = t + O(1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshes.geometry import norm as lengths
from meshes.geometry import tangent_projection, unit
from pde.arguments import (
    Array,
    instance,
    moving_points,
    non_negative,
    number,
    one_of,
    positive,
    unit_points,
)
from pde.field import Field
from pde.measure import Measure
from pde.time.contracts import Initial
from pde.tokens.particles import ParticleStage

SCHEMES = ("post_ln", "pre_ln", "mix_ln", "peri_ln", "ngpt", "sqrt")

WITH_RADIUS = ("pre_ln", "mix_ln", "peri_ln")
"""Schemes whose tokens have lengths of their own."""

NO_DIRECTION = 1e-14
"""An output shorter than this is the rounding of terms that cancel, and points nowhere."""


class NormalisedTokens:
    """n equal tokens in R^d that follow a field's output under a normalisation scheme.

    field : what the tokens attend with; it must have an `output`
    scheme : one of SCHEMES
    alpha : of "ngpt" alone: a number > 0, or a function of t with such values; None: 1
    tau : of "mix_ln" alone, which needs it: the time >= 0 from which on it is Pre-LN

    The state is the (n, d) array of tokens x_j = r_j theta_j. Where the scheme normalises they are
    unit vectors; for pre_ln, peri_ln and mix_ln a row's length is its radius r_j > 0, at the start
    1 in the papers, here as given. `directions(state)` are unit vectors always.

    The scheme changes at tau, where a step that `Simulation` takes should end: name tau in
    `save_at`. A step across it is one more that the error control shortens.

    Raises ValueError for an unknown scheme and for alpha or tau that are out of range or belong to
    another scheme; at run time where Peri-LN or nGPT divide by an output that is 0.

    >>> from pde import SelfAttention, Simulation
    >>> field = SelfAttention(np.eye(2), np.eye(2), beta=1.0)
    >>> tokens = NormalisedTokens(field, "pre_ln")
    >>> state = Simulation(tokens, np.eye(2)).run(until=10.0).states[-1]
    >>> a, b = tokens.directions(state)
    >>> tokens.radii(state).round(2), round(float(1.0 - a @ b), 3)
    (array([10.25, 10.25]), 0.024)
    """

    order = 4
    tolerance = 1e-8
    default_stepper = "ssprk54"
    noise = None

    is_autonomous = False

    def __init__(
        self,
        field: Field,
        scheme: str = "post_ln",
        alpha: float | Callable[[float], float] | None = None,
        tau: float | None = None,
    ) -> None:
        self.field = instance("field", field, Field)
        self.scheme: str = one_of("scheme", scheme, SCHEMES)
        if (alpha is not None and scheme != "ngpt") or (tau is not None and scheme != "mix_ln"):
            raise ValueError(
                f"alpha belongs to scheme 'ngpt' and tau to 'mix_ln', got alpha={alpha!r}, "
                f"tau={tau!r} for {scheme!r}"
            )
        if scheme == "mix_ln" and tau is None:
            raise ValueError("tau must be given for scheme 'mix_ln', a time >= 0")
        self.tau = 0.0 if tau is None else non_negative("tau", tau)
        alpha = 1.0 if alpha is None else alpha
        self.alpha = alpha if callable(alpha) else positive("alpha", alpha)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.field!r}, {self.scheme!r})"

    def initial_state(self, given: Initial) -> Array:
        """The (n, d) tokens given, checked: unit vectors, or any but 0 where they have radii."""
        if callable(given):
            raise TypeError(
                "tokens start from points (n, d), got a function; "
                "draw points from a density with initial.sample(f, n, seed)"
            )
        state = moving_points(given, self.field.dim)
        return (state if self.has_radius else unit_points("state", state)).copy()

    @property
    def has_radius(self) -> bool:
        """Whether tokens have lengths of their own."""
        return self.scheme in WITH_RADIUS

    def normalises(self, t: float) -> bool:
        """Whether a layer at time t ends with a normalisation, so that lengths stay."""
        return not self.has_radius or (self.scheme == "mix_ln" and t < self.tau)

    def directions(self, state: Array) -> Array:
        """(n, d) unit vectors theta_j."""
        return unit(state)

    def radii(self, state: Array) -> Array:
        """(n,) lengths r_j."""
        return lengths(state)

    def output(self, t: float, theta: Array) -> Array:
        """(n, d) attention outputs A_j of tokens with the directions theta (n, d)."""
        return self.field.output(theta, Measure(theta), t)

    def update(self, t: float, state: Array) -> Array:
        """(n, d) u_j = (r_j/s_j) A_j: what a layer of size 1 adds to the tokens."""
        A = self.output(t, unit(state))
        if self.scheme == "sqrt":
            return A / np.sqrt(t + 1.0)
        if self.scheme == "mix_ln" and self.normalises(t):
            return lengths(state)[:, None] * A
        if self.scheme == "peri_ln":
            return self._unit_output(t, A)
        if self.scheme == "ngpt":
            return self.alpha_at(t) * self._unit_output(t, A)
        return A

    def _unit_output(self, t: float, A: Array) -> Array:
        """(n, d) A_j / |A_j|, or a clear error where an output vanishes."""
        shortest = int(np.argmin(lengths(A)))
        if lengths(A[shortest]) < NO_DIRECTION:
            raise ValueError(
                f"scheme {self.scheme!r} divides by the length of the attention output, "
                f"which is 0 at token {shortest} and t = {t:.6g}"
            )
        return unit(A)

    def alpha_at(self, t: float) -> float:
        """alpha_t."""
        return positive(f"alpha({t:.6g})", self.alpha(t)) if callable(self.alpha) else self.alpha

    def layer(self, t: float, state: Array, step: float) -> Array:
        """The tokens after one layer of finite size: x + step u, normalised where the scheme is."""
        moved = state + step * self.update(t, state)
        if not self.normalises(t):
            return moved
        return unit(moved) * lengths(state)[:, None] if self.has_radius else unit(moved)

    def stage(self, t: float, state: Array) -> ParticleStage:
        """The tokens' velocities at time t.

        Where the scheme normalises they depend on directions alone: stages of a Runge-Kutta step
        leave the sphere by O(dt^2), and velocities constant along rays keep its order.
        """
        update = self.update(t, state)
        if self.normalises(t):
            update = tangent_projection(unit(state), update)
        return ParticleStage(update)

    def rhs(self, t: float, state: Any) -> Array:
        """(n, d) velocities dx/dt."""
        return self.stage(number("t", t), moving_points(state, self.field.dim)).rhs()

    def stable_step(self, t: float, state: Array) -> float:
        """Infinite: accuracy alone limits a token's step."""
        return np.inf

    def project(self, state: Array) -> Array:
        """The tokens put back on the sphere, where the scheme holds them there."""
        return state if self.has_radius else unit(state)

    def norm(self, difference: Array) -> float:
        """The largest distance by which any token differs."""
        return float(lengths(difference).max())

    def measure(self, state: Array) -> Measure:
        """The directions as a measure of equal masses."""
        return Measure(unit(state))

    def diagnostics(self, t: float, state: Array) -> dict[str, float]:
        """mass, mean_length |mean theta|, spread 1 - mean_length^2, radius (mean of r_j)."""
        length = float(np.linalg.norm(self.measure(state).mean()))
        return {
            "mass": 1.0,
            "mean_length": length,
            "spread": 1.0 - length**2,
            "radius": float(self.radii(state).mean()),
        }
