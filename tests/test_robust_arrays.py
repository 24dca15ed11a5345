"""Wrong arrays, and wrong values of a caller's own functions, never get past the door."""

from dataclasses import fields

import numpy as np
import pytest
from strategies import (
    BAD_ARRAYS,
    answered_or_refused,
    attempt,
    fault,
    not_finite,
    refused,
    refuses_all,
    table,
    with_entry,
    wrong_shapes,
)

from meshes import MeshError, SphereMesh, circle, icosphere
from pde import (
    Equation,
    FiniteVolume,
    Measure,
    ParticleSystem,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    Solution,
    StreamFunction,
    ZeroTemperatureAttention,
    initial,
    limits,
    log_partition,
)
from pde.analysis.modes import find_modes
from pde.callbacks import AtTimes
from pde.field import Field
from pde.fields.consensus import ConsensusDrift, PolarisedConsensus
from pde.fields.frozen import Frozen
from pde.fields.heads import Heads
from pde.fields.one_body import Drift, PotentialDrift
from pde.fields.perceptron import Perceptron
from pde.fields.time_dependent import TimeDependent
from pde.tokens.causal import CausalTokens, causal_means, causal_output
from pde.tokens.layers import through_layers
from pde.tokens.normalisation import NormalisedTokens
from validation import norms, wasserstein

I = np.eye(3)  # noqa: E741 - the identity
MESH = icosphere(2)
RHO = np.full(MESH.n_cells, 1.0 / MESH.total_area)
X = MESH.centers[:5]
MU = Measure(X)
FIELD = SelfAttention(I, I, 1.0)
EQUATION = Equation(FIELD)
CELLS = FiniteVolume(MESH, EQUATION)
CLOUD = ParticleSystem(EQUATION)
OBJECTS = [None, 1, "a", object(), [[1.0], [2.0, 3.0]], np.array([[0.5, 0.0], [0.0, 0.5]])]


def first(x):
    return x[:, 0]


# --- arrays ----------------------------------------------------------------------------------


def bad(good, *more, rows_are_free=False):
    """Wrong versions of an array."""
    good = np.asarray(good, dtype=float)
    shapes = wrong_shapes(good)
    if rows_are_free:
        shapes = [a for a in shapes if a.ndim != good.ndim or a.shape[1:] != good.shape[1:]]
    return [*BAD_ARRAYS, *not_finite(good), *shapes, *more]


E = I[:, :2]
MASSES = MU.weights
OFF = [2.0 * X, 0.0 * X, 1e200 * X, 1e-200 * X, X * (1.0 + 1e-6)]
POINTS = bad(X, *OFF, rows_are_free=True)
ANY_D = [a for a in POINTS if not (isinstance(a, np.ndarray) and a.shape in ((5, 2), (5, 4)))]
LENGTHS = [a for a in POINTS if not any(a is off for off in (OFF[0], OFF[4]))]
STATES = [a for a in bad(RHO) if not (isinstance(a, np.ndarray) and a.shape == (42, 1))]
MATRICES = [*bad(I), I[:2], np.ones((1, 1)), np.empty((0, 3))]
ANY_SIZE = [a for a in MATRICES if not (isinstance(a, np.ndarray) and a.shape == (2, 2))]


def given(values):
    return [value for value in values if value is not None]


ARRAYS = [
    ("points", "points", Measure, ANY_D),
    ("weights", "weights", lambda v: Measure(X, v),
     given(bad(MASSES, -MASSES, np.full(5, 1e308), with_entry(MASSES, -1e-300)))),
    ("rho", "rho", lambda v: Measure.from_mesh(MESH, v), bad(RHO)),
    ("rho < 0", "weights", lambda v: Measure.from_mesh(MESH, v), [-RHO]),
    ("V", "V", lambda v: SelfAttention(v, I, 1.0), MATRICES),
    ("B", "B", lambda v: SelfAttention(I, v, 1.0), MATRICES),
    ("Q", "Q", lambda v: SelfAttention.from_qkv(v, I, I, 1.0), bad(I)),
    ("K", "K", lambda v: SelfAttention.from_qkv(I, v, I, 1.0), bad(I)),
    ("V at zero", "V", lambda v: ZeroTemperatureAttention(v, I), MATRICES),
    ("B at zero", "B", lambda v: ZeroTemperatureAttention(I, v), [*MATRICES, 0 * I, I + 1 - I]),
    ("A", "A", Drift, ANY_SIZE),
    ("B polarised", "B", lambda v: PolarisedConsensus(first, 1.0, B=v), given(ANY_SIZE)),
    ("W", "W", lambda v: Perceptron(v, I), bad(I)),
    ("A perceptron", "A", lambda v: Perceptron(I, v), bad(I)),
    ("b", "b ", lambda v: Perceptron(I, I, v), given(bad(np.ones(3)))),
    ("xi", "xi", lambda v: log_partition(v, MU), bad(X, rows_are_free=True)),
    ("cells", "state", lambda v: Simulation(CELLS, v), [*STATES, 0 * RHO, -RHO]),
    ("cells rhs", "state", lambda v: CELLS.rhs(0.0, v), STATES),
    ("cells step", "state", lambda v: CELLS.stable_step(0.0, v), STATES),
    ("cells measure", "", CELLS.measure, [*STATES, -RHO]),
    ("particles", "state", lambda v: Simulation(CLOUD, v), POINTS[:-1]),
    ("particles rhs", "state", lambda v: CLOUD.rhs(0.0, v), LENGTHS),
    ("particles step", "state", lambda v: CLOUD.stable_step(0.0, v), LENGTHS),
    ("particles measure", "points", CLOUD.measure, ANY_D),
    ("masses", "weights", lambda v: Simulation(ParticleSystem(EQUATION, v), X),
     given(bad(MASSES, -MASSES))),
    ("tokens", "state", lambda v: Simulation(NormalisedTokens(FIELD), v), POINTS),
    ("pre_ln", "state", lambda v: Simulation(NormalisedTokens(FIELD, "pre_ln"), v), LENGTHS),
    ("tokens rhs", "state", lambda v: NormalisedTokens(FIELD).rhs(0.0, v), LENGTHS),
    ("causal rhs", "state", lambda v: CausalTokens(FIELD, "pre_ln").rhs(0.0, v), LENGTHS),
    ("causal output", "x ", lambda v: causal_output(FIELD, v), POINTS),
    ("causal xi", "xi", lambda v: causal_means(v, X), bad(X)),
    ("causal y", "y ", lambda v: causal_means(X, v), bad(X)),
    ("layers", "state", lambda v: through_layers(FIELD, v, 1), POINTS),
    ("starts", "starts", lambda v: find_modes(MU, 1.0, v), given(POINTS)),
    ("mean", "mean", lambda v: initial.von_mises_fisher(v, 1.0),
     [*BAD_ARRAYS, *not_finite(I[0]), 2 * I[0], 0 * I[0], I, 1.0]),
    ("centers", "centers", lambda v: initial.bumps(v, 1.0), ANY_D),
    ("widths", "widths", lambda v: initial.bumps(I, v), [*BAD_ARRAYS, *not_finite(MASSES[:3]), I]),
    ("Lambda", "Lambda", initial.angular_central_gaussian, [*ANY_SIZE, 0 * I, -I, np.ones((3, 3))]),
    ("space of A", "A", limits.dominant_eigenspace, ANY_SIZE),
    ("gap of A", "A", limits.spectral_gap, ANY_SIZE),
    ("space of V", "V", limits.terminal_space, ANY_SIZE),
    ("V limit", "V", lambda v: limits.limit_space(v, I), MATRICES),
    ("B limit", "B", lambda v: limits.limit_space(I, v), MATRICES),
    ("B assumption", "B", lambda v: limits.assumption_1(I, v), MATRICES),
    ("E", "E", limits.Projection, [*BAD_ARRAYS, *not_finite(E), 2 * E, E.T, 1e200 * E, 0 * E]),
    ("E of mu", "E", lambda v: limits.distance_to_space(MU, v), [2 * E, E[:2], np.eye(4)]),
    ("e of mu", "e ", lambda v: limits.distance_to_pair(MU, v, 0.5), [E, 2 * I[0], [0.0, 1.0]]),
    ("E and mu", "E", lambda v: limits.assumption_2(v, MU), [2 * E, E[:2], np.eye(4)]),
    ("rho0", "rho0", limits.assumption_3, [*BAD_ARRAYS, *not_finite(RHO), [], RHO[None]]),
    ("x of Pi", "x ", limits.Projection(E), POINTS),
    ("a", "a ", lambda v: norms.relative(MESH, v, RHO), bad(RHO)),
    ("b of norms", "b ", lambda v: norms.relative(MESH, RHO, v), [*bad(RHO), 0 * RHO]),
    ("times", "times", lambda v: Solution(v, [X]), [*BAD_ARRAYS, [np.nan], [[0.0]], 0.0]),
    ("states", "states", lambda v: Solution([0.0], v), [*BAD_ARRAYS, 0.0, [], [X, X]]),
    ("states and mesh", "states", lambda v: Solution([0.0], [v], mesh=MESH), [RHO[1:], 0.0, X]),
    ("states and weights", "states", lambda v: Solution([0.0], [v], weights=MASSES), [X[1:], 1.0]),
    ("weights of states", "weights", lambda v: Solution([0.0], [X], weights=v),
     given([*BAD_ARRAYS, *not_finite(MASSES), I])),
    ("save_at", "save_at", lambda v: Simulation(CELLS, RHO).run(0.01, save_at=v),
     given([*BAD_ARRAYS, [np.nan], [-1.0], [0.0, 0.02], [[0.0]], {0.0}])),
    ("at times", "times", AtTimes, [*BAD_ARRAYS, [np.nan], [[0.0]], {0.0}]),
    ("located", "points", MESH.locate, [*bad(X, rows_are_free=True), OFF[2]]),
]  # fmt: skip


@table(ARRAYS)
def test_arrays(name, call, values):
    refuses_all(name, call, values)


FIELDS = {
    "attention": FIELD,
    "unnormalised": SelfAttention(I, I, 1.0, normalized=False),
    "zero temperature": ZeroTemperatureAttention(I, I),
    "prescribed": PrescribedVelocity(lambda x, t: 0 * x),
    "stream function": StreamFunction(lambda x, t: x[:, 0]),
    "drift": Drift(I),
    "potential": PotentialDrift(first, lambda x: 0 * x),
    "perceptron": Perceptron(I, I),
    "consensus": ConsensusDrift(first, 1.0),
    "polarised": PolarisedConsensus(first, 1.0, kappa=1.0),
    "frozen": Frozen(FIELD, MU),
    "heads": Heads([FIELD, FIELD]),
    "sum": FIELD + Drift(I),
    "scaled": 2.0 * FIELD,
    "in time": TimeDependent(lambda t: FIELD),
}
ANY_DIMENSION = ("prescribed", "potential", "consensus", "polarised")


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("method", ["velocity", "output", "divergence", "potential"])
def test_points_of_every_field(name, method):
    ask = getattr(FIELDS[name], method)
    if answered_or_refused(lambda: ask(X, MU)) is None:
        return
    refuses_all("x " if name not in ANY_DIMENSION else "", lambda x: ask(x, MU), POINTS)


@pytest.mark.parametrize("name", [name for name in FIELDS if FIELDS[name].is_nonlocal])
def test_measures_of_every_nonlocal_field(name):
    wrong = [*OBJECTS, Measure(np.eye(4)), Measure(X, 0 * MASSES), Measure(np.empty((0, 3)))]
    for method in ("velocity", "divergence", "potential", "output"):
        refuses_all("mu", lambda mu: getattr(FIELDS[name], method)(X, mu), wrong)  # noqa: B023


# --- what a caller's own functions give ------------------------------------------------------

RETURNED = [
    np.full((42, 3), np.nan), with_entry(np.zeros((42, 3)), np.inf), np.zeros((42, 2)),
    np.zeros((41, 3)), np.zeros(3), np.zeros((42, 1)), 0.0, None, "zero", 1j * np.zeros((42, 3)),
    [[0.0], [0.0, 1.0]],
]  # fmt: skip
"""No (42, 3) tangent vectors."""


class Given(Field):
    """A field of somebody's own, that gives what it is told to."""

    def __init__(self, values, is_nonlocal):
        self.values, self.is_nonlocal = values, is_nonlocal

    def velocity(self, x, mu=None, t=0.0):
        return self.values


@pytest.mark.parametrize("is_nonlocal", [True, False])
@pytest.mark.parametrize("combine", [lambda f: f, lambda f: f + Drift(I), lambda f: 2.0 * f])
def test_wrong_velocities_reach_no_kernel(is_nonlocal, combine):
    """Of fields of one's own: compiled kernels would read beyond the end of a short array."""
    for values in RETURNED:
        field = combine(Given(values, is_nonlocal))
        refused(lambda: FiniteVolume(MESH, Equation(field)).rhs(0.0, RHO))  # noqa: B023
        refused(lambda: Simulation(FiniteVolume(MESH, Equation(field)), RHO).run(0.1))  # noqa: B023
        refused(lambda: ParticleSystem(Equation(field)).rhs(0.0, MESH.centers))  # noqa: B023
    refused(lambda: Simulation(ParticleSystem(Equation(field)), MESH.centers).run(0.1))


@pytest.mark.parametrize("t", [0.0, 0.05])
def test_velocities_that_go_wrong_in_time_end_the_run_and_keep_what_was_saved(t):
    def f(x, now):
        return np.where(now >= t, np.nan, 1.0) * np.cross([0.0, 0.0, 1.0], x)

    for system, state in (
        (FiniteVolume(MESH, Equation(PrescribedVelocity(f))), RHO),
        (ParticleSystem(Equation(PrescribedVelocity(f))), X),
    ):
        sim = Simulation(system, state, max_step=0.01)
        refused(lambda: sim.run(1.0, save_at=[0.0, 0.02, 1.0]), "f(x, t) must be finite")  # noqa: B023
        assert np.isfinite(sim.state).all()
        assert sim.solution.times.tolist() == ([0.0, 0.02] if t else [0.0])


def test_values_of_functions():
    wrong = [np.full(42, np.nan), np.zeros(41), 0.0, None, 1j * np.zeros(42), np.full(42, "a")]
    for values in wrong:

        def give(*arguments, values=values):
            return values

        refused(lambda: MESH.average(give), "f must")
        refused(lambda: Simulation(CELLS, give), "f must")
        refused(lambda: StreamFunction(give).velocity(X), "psi(x, t)")
        refused(lambda: PotentialDrift(give, give).potential(X), "psi(x)")
        refused(lambda: PotentialDrift(give, give).velocity(X), "gradient(x)")
        refused(lambda: ConsensusDrift(give, 1.0).velocity(X, MU), "objective(x)")
        refused(lambda: MU.integrate(give), "f")
        refused(lambda: MU.push(give), "f")
        for diffusion in (give, lambda x, mu, t: np.full(len(x), -1.0)):
            equation = Equation(FIELD, diffusion)
            refused(lambda: FiniteVolume(MESH, equation).rhs(0.0, RHO), "diffusion(x, mu, t)")  # noqa: B023
            particles = Simulation(ParticleSystem(equation), X)
            refused(lambda: particles.run(0.1), "diffusion(x, mu, t)")  # noqa: B023


def test_fields_and_meshes_of_different_dimensions():
    refused(lambda: FiniteVolume(circle(8), EQUATION), "dimension 2")
    refused(lambda: Frozen(FIELD, Measure(np.eye(2))), "mu")
    refused(lambda: FIELD + Drift(np.eye(2)), "dimension")
    refused(lambda: Heads([FIELD, Drift(np.eye(2))]), "dimension")
    refused(lambda: wasserstein.distance(MU, Measure(np.eye(2))), "mu and nu")
    refused(lambda: wasserstein.distance(MU, Measure(X, 2 * MASSES)), "equal totals")


@pytest.mark.parametrize("mesh", [icosphere(2), circle(7)], ids=["sphere", "circle"])
def test_a_mesh_with_one_wrong_number_is_named(mesh):
    """No index out of range, no warning: MeshError with the cell or edge, or nothing is wrong."""
    rng = np.random.default_rng(3)
    names = [field.name for field in fields(SphereMesh)]
    found = 0
    for k in range(300):
        parts = {name: np.array(getattr(mesh, name)) for name in names}
        array = parts[names[k % 6]]
        place = tuple(rng.integers(size) for size in array.shape)
        if array.dtype.kind == "f":
            choices = [np.nan, np.inf, 0.0, 1e300, -array[place], array[place] + 1e-9]
        else:
            choices = [-1, 0, array[place] + 1, array[place] - 1, 10**6, 2**31 - 1, -(2**31)]
        array[place] = choices[rng.integers(len(choices))]
        _, error = attempt(lambda: SphereMesh(**parts).check())  # noqa: B023
        assert error is None or (isinstance(error, MeshError) and fault(error) is None), error
        found += error is not None
    assert found > 250
