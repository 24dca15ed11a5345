"""What the time loop asks of a discretised equation, whether by cells or by particles.

A `System` turns the equation into an ordinary differential equation for an array, the state.
`stage(t, state)` evaluates everything nonlocal once; what it returns knows both the tendency and
how long a forward-Euler step may be, so that neither is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pde.arguments import Array
from pde.measure import Measure

if TYPE_CHECKING:
    from pde.cells.scharfetter_gummel import Exchange
    from pde.tokens.noise import Noise

Initial = Any | Callable[[Array], Array]
"""A state's array, or a function of points (m, d) -> (m,)."""


class Stage(Protocol):
    """The system evaluated at one time and state."""

    @property
    def bound(self) -> float:
        """The largest forward-Euler step that keeps the state admissible; inf: any."""

    @property
    def stable_step(self) -> float:
        """The step taken by default: the system's Courant fraction of `bound`."""

    def rhs(self, dt: float | None = None) -> Array:
        """The tendency d state/dt, limited so that a forward-Euler step `dt` stays admissible."""


class MovingStage(Stage, Protocol):
    """A stage that knows what moves the mass, so that steps can be judged by it
    (`pde.time.control`).

    A system whose stages do not say it is stepped by the bound and the tolerance alone.
    """

    @property
    def velocity(self) -> Array:
        """What moves the mass, an array of any shape."""

    def accuracy(self, order: int) -> float:
        """Relative error in time that a velocity may have when it has grown by e.

        order : of the stepper
        """

    @property
    def width(self) -> float:
        """h of the cells, in radians; 0 where there are none."""

    def speed(self, velocity: Array) -> float:
        """Size of such an array, or of a difference of two: mean displacement in a unit of time."""


@runtime_checkable
class LinearStage(Stage, Protocol):
    """A stage whose tendency is linear in the state once the velocity is known."""

    @property
    def generator(self) -> Exchange:
        """Q with the tendency Q state."""

    @property
    def is_positive(self) -> bool:
        """Whether steps keep states >= 0."""


class System(Protocol):
    """An equation discretised in space."""

    @property
    def order(self) -> int:
        """Order of accuracy in space."""

    @property
    def default_stepper(self) -> str:
        """Name of the stepper that goes with it."""

    @property
    def noise(self) -> Noise | None:
        """Random kicks of every step; None: the equation moves the state deterministically."""

    @property
    def is_autonomous(self) -> bool:
        """Whether stages are known not to depend on the time itself."""

    @property
    def tolerance(self) -> float | None:
        """Largest error of a step by default, relative to the state; None: no such limit."""

    def stage(self, t: float, state: Array) -> Stage:
        """Evaluate velocity and bound at (t, state)."""

    def rhs(self, t: float, state: Array) -> Array:
        """`stage(t, state).rhs()`."""

    def stable_step(self, t: float, state: Array) -> float:
        """`stage(t, state).stable_step`."""

    def initial_state(self, given: Initial) -> Array:
        """The state that an array or a function of points describes, checked."""

    def project(self, state: Array) -> Array:
        """The state put back on its constraint after a step: particles on the sphere."""

    def norm(self, difference: Array) -> float:
        """The size of a state or of a difference of two, as error tolerances measure it."""

    def measure(self, state: Array) -> Measure:
        """The measure that the state stands for, with the state's mass."""

    def diagnostics(self, t: float, state: Array) -> dict[str, float]:
        """Named numbers recorded with every saved state."""
