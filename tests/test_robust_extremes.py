"""Input of extreme size: the right answer, or one clear sentence; never NaN, never a warning."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import (
    answered_or_refused,
    extreme,
    extreme_matrices,
    layouts,
    masses,
    unit_clouds,
)

from meshes import circle, icosphere
from pde import (
    Equation,
    FiniteVolume,
    Measure,
    ParticleSystem,
    SelfAttention,
    Simulation,
    ZeroTemperatureAttention,
    initial,
    limits,
    log_partition,
)
from pde.analysis.clusters import clusters
from pde.analysis.modes import find_modes
from pde.callbacks import EverySteps, Monitor
from pde.cells.stationary import stationary_state
from pde.fields.consensus import ConsensusDrift, PolarisedConsensus
from pde.fields.one_body import Drift
from pde.fields.perceptron import Perceptron
from pde.tokens.causal import causal_output
from pde.tokens.layers import through_layers
from pde.tokens.normalisation import SCHEMES, NormalisedTokens
from validation import norms, wasserstein

I = np.eye(3)  # noqa: E741 - the identity
MESH = icosphere(2)
POWERS = [2.0**k for k in (-320, -300, -1, 1, 300, 320)]

some = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
few = settings(some, max_examples=some.max_examples // 4)


def clouds():
    """Measures with masses of all kinds."""
    return unit_clouds().flatmap(lambda x: masses(len(x)).map(lambda w: Measure(x, w)))


@dataclass(frozen=True)
class StopAfter(EverySteps):
    """A schedule that ends runs of any length."""

    def due(self, sim):
        if sim.steps >= self.n:
            sim.stop("long enough")
        return False


def enough():
    return Monitor(StopAfter(20), function=max)


def size(V):
    """|V|_2, without squares that overflow."""
    largest = np.abs(V).max()
    return largest * np.linalg.norm(V / largest, 2) if largest > 0 else 0.0


# --- layouts ---------------------------------------------------------------------------------

EXACT = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -0.8, 0.6]])
AXES = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
HALVES = np.array([[0.5, 0.25, -1.0], [2.0, 0.0, 0.125], [1.0, -0.5, 4.0]])


@pytest.mark.parametrize("cloud", [EXACT, AXES])
def test_every_layout_of_an_array_gives_the_same_bits(cloud):
    weights = np.array([0.5, 0.25, 2.0, 0.125])
    mu, field = Measure(cloud, weights), SelfAttention(HALVES, HALVES.T, 2.0)
    cells = FiniteVolume(MESH, Equation(field))
    rho = 1.0 + np.arange(42) / 64

    def everything(points=cloud, w=weights, V=HALVES, xi=HALVES, state=rho):
        measure, field = Measure(points, w), SelfAttention(V, HALVES.T, 2.0)
        particles = ParticleSystem(Equation(field), w)
        return [
            *log_partition(xi, measure, 1e-10), field.velocity(points, mu),
            field.divergence(points, measure), causal_output(field, points),
            particles.rhs(0.0, points), Simulation(particles, points).state,
            through_layers(field, points, 2), FiniteVolume(MESH, cells.equation).rhs(0.0, state),
            Simulation(cells, state).state, cells.measure(state).weights,
            ZeroTemperatureAttention(V, V).velocity(points), Drift(V).velocity(points),
            limits.Projection(I[:, :2])(points), norms.relative(MESH, state, rho)["l2"],
            find_modes(measure, 2.0, points).centers, limits.limit_space(V + np.transpose(V), I),
            MESH.average(lambda x: np.asarray(state)[0] * x[:, 0]), MESH.locate(points),
        ]  # fmt: skip

    expected = everything()
    for name, array in {
        "points": cloud,
        "w": weights,
        "V": HALVES,
        "xi": HALVES,
        "state": rho,
    }.items():
        for form, given_array in layouts(array).items():
            try:
                found = everything(**{name: given_array})
            except Exception as error:
                raise AssertionError(f"{name} as {form}") from error
            for k, (a, b) in enumerate(zip(expected, found, strict=True)):
                np.testing.assert_array_equal(a, b, err_msg=f"{name} as {form}, result {k}")


# --- fields ----------------------------------------------------------------------------------


def is_tangent(x, v, scale):
    return scale == 0 or np.abs(np.einsum("nd,nd->n", x, v / scale)).max() < 1e-12


@some
@given(clouds(), unit_clouds(), extreme_matrices(), extreme_matrices(), extreme)
def test_attention_is_a_mean_at_every_temperature(mu, x, V, B, beta):
    field = answered_or_refused(lambda: SelfAttention(V, B, beta))
    if field is None:
        return
    v = answered_or_refused(lambda: field.velocity(x, mu))
    if v is not None:
        assert np.isfinite(v).all() and is_tangent(x, v, size(V))
        assert np.abs(v).max() <= size(V) * (1 + 1e-12)
    for ask in (field.output, field.divergence, field.potential):
        answer = answered_or_refused(lambda: ask(x, mu))  # noqa: B023
        assert answer is None or np.isfinite(answer).all(), ask
    for ask in (field.energy, field.driving_energy):
        answer = answered_or_refused(lambda: ask(mu))  # noqa: B023
        assert answer is None or np.isfinite(answer), ask


@some
@given(clouds(), unit_clouds(), extreme_matrices(), extreme_matrices(), extreme)
def test_unnormalised_attention_is_finite_or_refused(mu, x, V, B, beta):
    field = answered_or_refused(lambda: SelfAttention(V, B, beta, normalized=False))
    if field is None:
        return
    for ask in (field.velocity, field.output, field.divergence, field.potential):
        answer = answered_or_refused(lambda: ask(x, mu))  # noqa: B023
        assert answer is None or np.isfinite(answer).all(), ask
    energy = answered_or_refused(lambda: field.energy(mu))
    assert energy is None or np.isfinite(energy)


@some
@given(clouds(), unit_clouds(), extreme, st.sampled_from([None, 1e-10, 1e-3]))
def test_log_partition_within_its_bounds(mu, x, length, tolerance):
    """log M - |xi| <= log Z <= log M + |xi|, and the mean lies in the ball."""
    answer = answered_or_refused(lambda: log_partition(length * x, mu, tolerance), "xi")
    if answer is None:
        return
    log_z, mean = answer
    log_m = np.log(mu.total)
    room = 1e-12 * max(1.0, length, abs(log_m)) + (tolerance or 0.0)
    assert (np.abs(log_z - log_m) <= length + room).all()
    assert (np.linalg.norm(mean, axis=1) <= 1.0 + 1e-12 + 3 * (tolerance or 0.0)).all()


@some
@given(unit_clouds(), extreme_matrices(), extreme_matrices())
def test_zero_temperature(x, V, B):
    field = answered_or_refused(lambda: ZeroTemperatureAttention(V, B))
    if field is None:
        return
    v = answered_or_refused(lambda: field.velocity(x))
    if v is not None:
        assert np.abs(v).max() <= size(V) * (1 + 1e-12) and is_tangent(x, v, size(V))
    for ask in (field.output, field.divergence, field.potential):
        answer = answered_or_refused(lambda: ask(x))  # noqa: B023
        assert answer is None or np.isfinite(answer).all(), ask


@few
@given(unit_clouds(), st.sampled_from(POWERS), st.sampled_from(POWERS))
def test_sizes_of_matrices_scale_as_they_should(x, a, b):
    """Zero temperature does not see the size of B; V's is a change of time, to the bit."""
    V, B = np.diag([2.0, 1.0, 0.5]), HALVES + 4 * I
    plain = ZeroTemperatureAttention(V, B).velocity(x)
    np.testing.assert_array_equal(ZeroTemperatureAttention(V, b * B).velocity(x), plain)
    np.testing.assert_array_equal(ZeroTemperatureAttention(a * V, B).velocity(x), a * plain)
    phi = ZeroTemperatureAttention(B, B).potential(x)
    np.testing.assert_array_equal(ZeroTemperatureAttention(a * B, a * B).potential(x), a * phi)
    mu = Measure(AXES)
    assert SelfAttention(V, a * V, 1.0 / a).potential(x, mu).shape == x.shape[:1]
    np.testing.assert_array_equal(limits.dominant_eigenspace(a * V), limits.dominant_eigenspace(V))
    assert limits.spectral_gap(a * V) == a * limits.spectral_gap(V)
    f, g = 1 + x[:, 0], 2 + x[:, 1]
    f, g = np.resize(f, 42), np.resize(g, 42)
    assert norms.relative(MESH, a * f, a * g) == norms.relative(MESH, f, g)
    Lambda = np.diag([2.0, 1.0, 0.25])
    np.testing.assert_allclose(
        initial.angular_central_gaussian(a * Lambda)(x),
        initial.angular_central_gaussian(Lambda)(x),
        rtol=1e-13,
    )


@some
@given(clouds(), unit_clouds(), extreme_matrices(), extreme_matrices(), extreme, extreme)
def test_other_fields_are_finite_or_refused(mu, x, V, B, beta, other):
    makers = {
        "drift": lambda: Drift(V),
        "relu": lambda: Perceptron(V, B),
        "gelu": lambda: Perceptron(V, B, activation="gelu"),
        "tanh": lambda: Perceptron(V, V.T, activation="tanh"),
        "sigmoid": lambda: Perceptron(V, V.T, activation="sigmoid"),
        "consensus": lambda: ConsensusDrift(lambda y: other * y[:, 0], beta, lam=max(other, 1e-9)),
        "polarised": lambda: PolarisedConsensus(lambda y: y[:, 0], beta, B=V + V.T),
        "gaussian": lambda: PolarisedConsensus(
            lambda y: other * y[:, 0], beta, kappa=max(beta, 1e-9)
        ),
        "scaled": lambda: other * SelfAttention(V, I, 1.0),
        "sum": lambda: Drift(V) + other * Drift(B),
    }
    for name, make in makers.items():
        field = answered_or_refused(make)
        if field is None:
            continue
        for method in ("velocity", "output", "divergence", "potential"):
            answer = answered_or_refused(lambda: getattr(field, method)(x, mu))  # noqa: B023
            assert answer is None or np.isfinite(answer).all(), (name, method)


# --- laws, limits, comparison ----------------------------------------------------------------


@some
@given(unit_clouds(), extreme, extreme, extreme_matrices(), st.sampled_from([2, 3, 7, 300, 1000]))
def test_laws(x, a, b, A, d):
    laws = [
        lambda: initial.von_mises_fisher(x[0], a),
        lambda: initial.spot(x[0], a),
        lambda: initial.bumps(x, a, b),
        lambda: initial.bumps(x, 1.0, a, b),
        lambda: initial.angular_central_gaussian((A / (size(A) or 1.0)) @ (A / (size(A) or 1.0)).T),
        lambda: initial.angular_central_gaussian(A),
        lambda: initial.angular_central_gaussian(size(A) * (I + 0.5 * np.ones((3, 3)))),
    ]
    for k, make in enumerate(laws):
        law = answered_or_refused(make)
        if law is None:
            continue
        density = answered_or_refused(lambda: law(x))  # noqa: B023
        assert density is None or (np.isfinite(density).all() and density.min() >= 0.0), k
        drawn = answered_or_refused(lambda: initial.sample(law, 3, 1))  # noqa: B023
        assert drawn is None or np.abs(np.linalg.norm(drawn, axis=1) - 1).max() < 1e-12, k
    for make in (
        lambda: initial.uniform(d),
        lambda: initial.von_mises_fisher(np.eye(d)[0], a),
        lambda: initial.spot(np.eye(d)[0], 0.3),
    ):
        law = answered_or_refused(make)
        if law is not None:
            density = answered_or_refused(lambda: law(np.eye(d)[:2]))  # noqa: B023
            assert density is None or np.isfinite(density).all()


@some
@given(clouds(), extreme_matrices(), extreme_matrices())
@pytest.mark.filterwarnings("ignore:the matrix is not symmetric")
def test_limits(mu, V, B):
    for ask in (
        lambda: limits.dominant_eigenspace(V), lambda: limits.dominant_eigenspace(V, "magnitude"),
        lambda: limits.limit_space(V, B), lambda: limits.terminal_space(V + V.T, "magnitude"),
    ):  # fmt: skip
        E = answered_or_refused(ask)
        if E is not None:
            assert np.abs(E.T @ E - np.eye(E.shape[1])).max() < 1e-8
            assert np.isfinite(limits.distance_to_space(mu, E))
            assert np.isfinite(mu.push(limits.Projection(E)).points).all()
            answered_or_refused(lambda: limits.assumption_2(E, mu, 0.5))  # noqa: B023
    gap = answered_or_refused(lambda: limits.spectral_gap(V))
    assert gap is None or gap >= 0.0
    answered_or_refused(lambda: limits.assumption_1(V, B))


@few
@given(clouds(), extreme, extreme)
def test_clusters_modes_and_distances(mu, beta, a):
    modes = answered_or_refused(lambda: find_modes(mu, beta))
    if modes is not None:
        assert np.isfinite(modes.centers).all() and np.isfinite(modes.log_density).all()
    found = answered_or_refused(lambda: clusters(mu, min(a, 1.5)))
    assert found is None or all(0.0 <= c.share <= 1.0 + 1e-12 for c in found)
    for factor in (1.0, 1e-300, 1e300):
        scaled = answered_or_refused(lambda: Measure(mu.points, factor * mu.weights))  # noqa: B023
        other = answered_or_refused(lambda: Measure(-mu.points, factor * mu.weights))  # noqa: B023
        if scaled is None or not scaled.total > 0.0:
            continue
        d = answered_or_refused(lambda: wasserstein.distance(scaled, other))  # noqa: B023
        assert d is None or 0.0 <= d.lower <= d.value <= d.upper < np.inf


@few
@given(extreme, extreme)
def test_norms(a, b):
    f, g = a * (0.5 + np.arange(42.0) / 100), b * (1.0 - np.arange(42.0) / 100)
    answer = answered_or_refused(lambda: norms.relative(MESH, f, g))
    assert answer is None or all(np.isfinite(v) and v >= 0.0 for v in answer.values())


# --- whole runs ------------------------------------------------------------------------------


@few
@given(extreme_matrices(), extreme_matrices(), extreme, st.sampled_from([1, 2, 4]), extreme)
def test_runs_on_cells_keep_mass_and_sign_or_are_refused(V, B, beta, order, peak):
    field = answered_or_refused(lambda: SelfAttention(V, B, beta))
    if field is None:
        return
    rho = 1.0 + peak * (np.arange(42) == 5)
    system = FiniteVolume(MESH, Equation(field), order=order)

    def run():
        sim = Simulation(system, rho)
        dt = system.stable_step(0.0, rho)
        return sim.run(until=min(3.0 * dt, 1.0), callbacks=[enough()])

    solution = answered_or_refused(run)
    if solution is not None:
        assert np.isfinite(solution.states).all() and solution.states.min() >= 0.0
        mass = solution.diagnostics["mass"]
        assert abs(mass[-1] / mass[0] - 1.0) < 1e-12


@few
@given(unit_clouds(), extreme_matrices(), extreme, extreme, st.sampled_from(SCHEMES))
def test_runs_of_particles_stay_on_the_sphere_or_are_refused(x, V, beta, diffusion, scheme):
    field = answered_or_refused(lambda: SelfAttention(V, I, beta))
    if field is None:
        return
    until = 1.0 / max(1.0, size(V), diffusion)
    for make in (
        lambda: ParticleSystem(Equation(field)),
        lambda: ParticleSystem(Equation(field, diffusion), seed=3),
        lambda: NormalisedTokens(field, scheme, tau=0.1 if scheme == "mix_ln" else None),
    ):
        system = answered_or_refused(make, "diffusion")
        if system is None:
            continue

        def run(system=system, until=until):
            sim = Simulation(system, x, tolerance=None, max_step=0.5 * until)
            return sim.run(until, callbacks=[enough()])

        solution = answered_or_refused(run)
        if solution is not None:
            for mu in solution.measures:
                assert np.abs(np.linalg.norm(mu.points, axis=1) - 1).max() < 1e-12


@few
@given(extreme, extreme, st.sampled_from([1.0, 1e-3, 1e3]))
def test_noise_of_any_strength(diffusion, beta, until):
    field = SelfAttention(np.eye(2), np.eye(2), min(beta, 1e14))
    system = answered_or_refused(lambda: FiniteVolume(circle(12), Equation(field, diffusion)))
    if system is None:
        return
    law = initial.von_mises_fisher([0.0, 1.0], 3.0)

    def run():
        sim = Simulation(system, law, max_step=until / 3)
        return sim.run(until, callbacks=[enough()])

    solution = answered_or_refused(run)
    if solution is not None:
        mass = solution.diagnostics["mass"]
        assert solution.states.min() >= 0.0 and abs(mass[-1] / mass[0] - 1.0) < 1e-12
    if diffusion > 0.0:
        answered_or_refused(lambda: stationary_state(system, law, relaxations=3, max_newton=3))
