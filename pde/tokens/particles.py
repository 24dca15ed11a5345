"""The same equation in Lagrangian form: n particles that carry fixed weights.

    dx_i = v[mu](x_i) dt + sqrt(2 D) dW_i,   mu = sum_j w_j delta_{x_j}

with W Brownian motion on the sphere (see `noise`).

For softmax attention this is the token dynamics of a transformer with layer normalisation
(Rigollet, arXiv:2512.01868), in any dimension d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pde.arguments import Array, instance, moving_points, natural, number, real_array, unit_points
from pde.equation import Equation
from pde.field import velocity_of
from pde.measure import Measure
from pde.time.contracts import Initial
from pde.time.steppers import explicit_for
from pde.tokens.noise import Noise

LARGEST_SEED = 2**128
"""Seeds are keys of the generator (see `noise`), which has 128 bits for them."""


@dataclass(frozen=True, eq=False)
class ParticleStage:
    """The velocities at one time.

    Nothing bounds a particle's step but accuracy; the default step also resolves the noise.
    """

    velocity: Array
    bound: float = np.inf
    stable_step: float = np.inf
    width: float = 0.0

    def rhs(self, dt: float | None = None) -> Array:
        """(n, d) velocities."""
        return self.velocity

    def accuracy(self, order: int) -> float:
        """Below what the default tolerance leaves where particles move by much."""
        return 1e-6

    def speed(self, velocity: Array) -> float:
        """The fastest particle's."""
        return float(np.sqrt(np.max(np.einsum("nd,nd->n", velocity, velocity))))


class ParticleSystem:
    """n particles on the unit sphere of R^d that follow `equation`.

    equation : an `Equation`; its diffusion D gives each particle the noise sqrt(2 D) dW
    weights : (n,) masses >= 0, kept in time; None: equal, total 1
    seed : of the noise; a new system with the same seed gives the same path, to the bit, while
        further simulations of one system go on with new numbers

    The state is the (n, d) array of points. A particle's step is bounded by no positivity, so a
    simulation controls the error of each step instead (`tolerance`, the largest error of any
    particle in a step, as a distance).

    >>> from pde import Equation, SelfAttention
    >>> ps = ParticleSystem(Equation(SelfAttention([[1, 0], [0, 1]], [[1, 0], [0, 1]], beta=1.0)))
    >>> ps.rhs(0.0, [[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([[0.   , 0.269],
           [0.269, 0.   ]])
    """

    order = 4
    tolerance = 1e-8

    default_stepper = explicit_for(order)

    def __init__(self, equation: Equation, weights: Any = None, seed: int = 0) -> None:
        self.equation = instance("equation", equation, Equation)
        self.weights = None if weights is None else real_array("weights", weights, ndim=1)
        self.seed = natural("seed", seed, below=LARGEST_SEED)

    def __repr__(self) -> str:
        return f"ParticleSystem({self.equation!r}, seed={self.seed})"

    @property
    def is_autonomous(self) -> bool:
        """Whether the equation is known not to depend on time by itself."""
        return self.equation.is_autonomous

    @cached_property
    def noise(self) -> Noise | None:
        """The kicks of the equation's diffusion, counted; None where that is 0."""
        if self.equation.diffusion == 0.0:
            return None
        return Noise(self.equation, self.seed, self.weights)

    def initial_state(self, given: Initial) -> Array:
        """The (n, d) unit points given; a density has to be sampled first (`initial.sample`).

        Their masses are the system's weights, whatever the density's mass was.
        """
        if callable(given):
            raise TypeError(
                "a particle system starts from points (n, d), got a function; "
                "draw points from a density with initial.sample(f, n, seed)"
            )
        points = unit_points("state", given)
        if len(points) == 0:
            raise ValueError("state must hold at least one point, got shape (0, d)")
        return self.measure(points).points.copy()

    def measure(self, state: Array) -> Measure:
        """The particles as a measure."""
        return Measure(state, self.weights)

    def project(self, state: Array) -> Array:
        """The points put back on the sphere."""
        return state / np.linalg.norm(state, axis=1, keepdims=True)

    def norm(self, difference: Array) -> float:
        """The largest distance by which any particle differs."""
        return float(np.sqrt(np.max(np.einsum("nd,nd->n", difference, difference))))

    def stage(self, t: float, state: Array) -> ParticleStage:
        """The velocities at time t.

        The field is extended off the sphere as constant along rays: stages of a Runge-Kutta step
        leave the sphere by O(dt^2), and projecting them one by one would cost its order, while
        the extended equation keeps it.
        """
        mu = self.measure(self.project(state))
        noise = self.noise
        return ParticleStage(
            velocity_of(self.equation.field, mu.points, mu, t),
            stable_step=np.inf if noise is None else noise.step_bound(mu.points, t),
        )

    def rhs(self, t: float, state: Any) -> Array:
        """(n, d) velocities of the particles."""
        return self.stage(number("t", t), self._checked(state)).rhs()

    def stable_step(self, t: float, state: Array) -> float:
        """A step that resolves the noise; infinite without: accuracy alone limits it then."""
        return self.stage(number("t", t), self._checked(state)).stable_step

    def _checked(self, state: Any) -> Array:
        """(n, d) vectors of lengths > 0, of the field's dimension, as many as there are weights."""
        points = moving_points(state, self.equation.field.dim)
        if self.weights is not None and len(points) != len(self.weights):
            raise ValueError(
                f"state must hold {len(self.weights)} points like weights, got {points.shape}"
            )
        return points

    def diagnostics(self, t: float, state: Array) -> dict[str, float]:
        """mass, mean_length |int y dmu|, spread 1 - |mean|^2 / mass^2."""
        mu = self.measure(state)
        mass, length = mu.total, float(np.linalg.norm(mu.mean()))
        spread = 1.0 - (length / mass) ** 2 if mass > 0 else np.nan
        return {"mass": mass, "mean_length": length, "spread": spread}
