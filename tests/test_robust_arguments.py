"""Every public entry meets every kind of wrong argument with one clear sentence that names it."""

import numpy as np
from strategies import (
    BAD_INTEGERS,
    BAD_NUMBERS,
    refuses_all,
    table,
)

from meshes import circle, icosphere
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
    initial,
    limits,
    log_partition,
)
from pde.analysis.clusters import clusters
from pde.analysis.modes import find_modes
from pde.callbacks import (
    Either,
    Every,
    EverySeconds,
    EverySteps,
    Monitor,
    Progress,
    Save,
    SteadyState,
)
from pde.cells.stationary import stationary_state
from pde.fields.consensus import (
    ConsensusDiffusion,
    ConsensusDrift,
    PolarisedConsensus,
    consensus_equation,
)
from pde.fields.frozen import Frozen
from pde.fields.heads import Heads
from pde.fields.one_body import PotentialDrift
from pde.fields.perceptron import Perceptron
from pde.fields.time_dependent import TimeDependent
from pde.pictures.web import export_html
from pde.restart import Checkpoint, read_restart
from pde.results.storage import ResultWriter
from pde.tokens.layers import through_layers
from pde.tokens.normalisation import NormalisedTokens
from validation import convergence, norms, wasserstein

I = np.eye(3)  # noqa: E741 - the identity
MESH = icosphere(2)
RHO = np.full(MESH.n_cells, 1.0 / MESH.total_area)
X = MESH.centers[:5]
MU = Measure(X)
FIELD = SelfAttention(I, I, 1.0)
EQUATION = Equation(FIELD)
CELLS = FiniteVolume(MESH, EQUATION)
NOISY = FiniteVolume(MESH, Equation(FIELD, 0.5))
CLOUD = ParticleSystem(EQUATION)


def first(x):
    return x[:, 0]


# --- numbers ---------------------------------------------------------------------------------

NOT_REAL = BAD_NUMBERS
NOT_POSITIVE = [*BAD_NUMBERS, -1.0, 0.0]
NOT_NEGATIVE = [*BAD_NUMBERS, -1.0]
GIVEN = [value for value in BAD_NUMBERS if value is not None]
GIVEN_POSITIVE = [*GIVEN, -1.0, 0.0]
GIVEN_INTEGER = [value for value in BAD_INTEGERS if value is not None]
SINGLE = [value for value in NOT_POSITIVE if not isinstance(value, list | np.ndarray | bool)]

NUMBERS = [
    ("beta", "beta", lambda v: SelfAttention(I, I, v), NOT_NEGATIVE),
    ("kernel", "tolerance", lambda v: SelfAttention(I, I, 1.0, tolerance=v), GIVEN_POSITIVE),
    ("log_partition", "tolerance", lambda v: log_partition(X, MU, v), GIVEN_POSITIVE),
    ("factor", "factor", lambda v: FIELD * v, NOT_REAL),
    ("factor first", "", lambda v: v * FIELD, NOT_REAL),
    ("diffusion", "diffusion", lambda v: Equation(FIELD, v), NOT_NEGATIVE),
    ("t", "t", lambda v: Simulation(CELLS, RHO, t=v), NOT_REAL),
    ("max_step", "max_step", lambda v: Simulation(CELLS, RHO, max_step=v), GIVEN_POSITIVE),
    ("tolerance", "tolerance", lambda v: Simulation(CLOUD, X, tolerance=v), GIVEN_POSITIVE),
    ("until", "until", lambda v: Simulation(CELLS, RHO).run(v), NOT_REAL),
    ("until before", "until", lambda v: Simulation(CELLS, RHO, t=1.0).run(v), [0.5, -1]),
    ("stepper", "stepper", lambda v: Simulation(CELLS, RHO, v), [*GIVEN, "rk4"]),
    ("implicit", "stepper", lambda v: Simulation(CELLS, RHO, v).run(1.0), ["implicit"]),
    ("order", "order", lambda v: FiniteVolume(MESH, EQUATION, order=v), [*BAD_INTEGERS, 5]),
    ("limiter", "limiter", lambda v: FiniteVolume(MESH, EQUATION, limiter=v), [*GIVEN, "minmod"]),
    ("velocity_at", "velocity_at", lambda v: FiniteVolume(MESH, EQUATION, velocity_at=v), GIVEN),
    ("cells t", "t", lambda v: CELLS.rhs(v, RHO), NOT_REAL),
    ("cells t step", "t", lambda v: CELLS.stable_step(v, RHO), NOT_REAL),
    ("particles t", "t", lambda v: CLOUD.rhs(v, X), NOT_REAL),
    ("seed", "seed", lambda v: ParticleSystem(EQUATION, seed=v), [*BAD_INTEGERS, 2**128]),
    ("every", "interval", Every, NOT_POSITIVE),
    ("steps", "n", EverySteps, [*BAD_INTEGERS, 0]),
    ("seconds", "seconds", EverySeconds, NOT_POSITIVE),
    ("steady", "tolerance", lambda v: SteadyState(EverySteps(), tolerance=v), NOT_POSITIVE),
    ("kappa", "kappa", lambda v: initial.von_mises_fisher(I[0], v), NOT_NEGATIVE),
    ("radius", "radius", lambda v: initial.spot(I[0], v), [*NOT_POSITIVE, 4.0]),
    ("widths", "widths", lambda v: initial.bumps(I, v), SINGLE),
    ("heights", "heights", lambda v: initial.bumps(I, 1.0, v), [v for v in SINGLE if v != 0]),
    ("floor", "floor", lambda v: initial.bumps(I, 1.0, 1.0, v), NOT_NEGATIVE),
    ("random seed", "seed", initial.random_band_limited, [*BAD_INTEGERS, 2**128]),
    ("degree", "degree", lambda v: initial.random_band_limited(1, v), [*BAD_INTEGERS, 0]),
    ("amplitude", "amplitude", lambda v: initial.random_band_limited(1, 2, v), [*NOT_NEGATIVE, 1]),
    ("random d", "d ", lambda v: initial.random_band_limited(1, 2, 0.5, v), [*BAD_INTEGERS, 4]),
    ("uniform d", "d ", initial.uniform, [*BAD_INTEGERS, 1]),
    ("sample n", "n ", lambda v: initial.sample(initial.uniform(), v, 1), BAD_INTEGERS),
    ("sample seed", "seed", lambda v: initial.sample(initial.uniform(), 2, v), BAD_INTEGERS),
    ("sample d", "d ", lambda v: initial.sample(abs, 2, 1, v), [*BAD_INTEGERS, 4]),
    ("space", "tolerance", lambda v: limits.dominant_eigenspace(I, tolerance=v), NOT_POSITIVE),
    ("by", "by", lambda v: limits.dominant_eigenspace(I, by=v), NOT_REAL),
    ("gap", "tolerance", lambda v: limits.spectral_gap(I, tolerance=v), NOT_POSITIVE),
    ("p of assumption 2", "p ", lambda v: limits.assumption_2(I[0], MU, v), NOT_POSITIVE),
    ("dim", "dim", lambda v: limits.assumption_3(initial.uniform(), v), [*BAD_INTEGERS, 1]),
    ("mass", "mass", lambda v: limits.distance_to_pair(MU, I[0], v), [*NOT_NEGATIVE, 2.0]),
    ("p", "p ", lambda v: wasserstein.distance(MU, MU, p=v), [*BAD_INTEGERS, 3]),
    ("cost", "cost", lambda v: wasserstein.distance(MU, MU, cost=v), NOT_REAL),
    ("W", "tolerance", lambda v: wasserstein.distance(MU, MU, tolerance=v), NOT_POSITIVE),
    ("frequency", "frequency", icosphere, [*BAD_INTEGERS, 0, 5983, 10**30]),
    ("relax", "relax", lambda v: icosphere(2, v), BAD_INTEGERS),
    ("circle", "n ", circle, [*BAD_INTEGERS, 2, 2**30]),
    ("quadrature", "degree", MESH.quadrature, [*BAD_INTEGERS, 0, 11]),
    ("edge_quadrature", "n ", MESH.edge_quadrature, [*BAD_INTEGERS, 0, 10**9]),
    ("cluster radius", "radius", lambda v: clusters(MU, v), [*NOT_POSITIVE, 2.0]),
    ("cluster share", "least", lambda v: clusters(MU, 0.2, v), NOT_NEGATIVE),
    ("modes beta", "beta", lambda v: find_modes(MU, v), NOT_POSITIVE),
    ("modes apart", "apart", lambda v: find_modes(MU, 1.0, apart=v), NOT_POSITIVE),
    ("at", "at", lambda v: TimeDependent(lambda t: FIELD, v), NOT_REAL),
    ("time", "t ", lambda v: TimeDependent(lambda t: FIELD).velocity(X, MU, v), NOT_REAL),
    ("alpha", "alpha", lambda v: NormalisedTokens(FIELD, "ngpt", v), GIVEN_POSITIVE),
    ("tau", "tau", lambda v: NormalisedTokens(FIELD, "mix_ln", tau=v), NOT_NEGATIVE),
    ("scheme", "scheme", lambda v: NormalisedTokens(FIELD, v), [*NOT_REAL, "rms"]),
    ("tokens t", "t ", lambda v: NormalisedTokens(FIELD).rhs(v, X), NOT_REAL),
    ("layers", "n_layers", lambda v: through_layers(FIELD, X, v), BAD_INTEGERS),
    ("layer step", "step", lambda v: through_layers(FIELD, X, 1, v), NOT_POSITIVE),
    ("layer t", "t ", lambda v: through_layers(FIELD, X, 1, 1.0, v), NOT_REAL),
    ("consensus beta", "beta", lambda v: ConsensusDrift(first, v), NOT_NEGATIVE),
    ("lam", "lam", lambda v: ConsensusDrift(first, 1.0, v), NOT_POSITIVE),
    ("polarised", "kappa", lambda v: PolarisedConsensus(first, 1.0, kappa=v), GIVEN_POSITIVE),
    ("sigma", "sigma", lambda v: consensus_equation(ConsensusDrift(first, 1.0), v), NOT_NEGATIVE),
    ("rest", "tolerance", lambda v: stationary_state(NOISY, RHO, tolerance=v), NOT_POSITIVE),
    ("rest t", "t ", lambda v: stationary_state(NOISY, RHO, t=v), NOT_REAL),
    ("relaxations", "relaxations", lambda v: stationary_state(NOISY, RHO, 1, v), BAD_INTEGERS),
    ("newton", "max_newton", lambda v: stationary_state(NOISY, RHO, 1, 1, v), BAD_INTEGERS),
    ("index", "t ", Solution([0.0], [X]).index, NOT_REAL),
    ("append", "t ", lambda v: ResultWriter("r.nc").append(v, X), NOT_REAL),
    ("errors", "errors", lambda v: convergence.study(lambda n: v, [1]), [np.nan, -1.0, None, 1j]),
]  # fmt: skip


@table(NUMBERS)
def test_numbers(name, call, values, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuses_all(name, call, values)


# --- objects ---------------------------------------------------------------------------------

OBJECTS = [None, 1, "a", object(), [[1.0], [2.0, 3.0]], np.array([[0.5, 0.0], [0.0, 0.5]])]
SOME = OBJECTS[1:]


def run_with(callback):
    return Simulation(CELLS, RHO).run(0.01, callbacks=[callback])


TYPES = [
    ("mesh", "mesh", lambda v: FiniteVolume(v, EQUATION), OBJECTS),
    ("mesh of a measure", "mesh", lambda v: Measure.from_mesh(v, RHO), OBJECTS),
    ("mesh of norms", "mesh", lambda v: norms.relative(v, RHO, RHO), OBJECTS),
    ("mesh of a solution", "mesh", lambda v: Solution([0.0], [RHO], mesh=v), SOME),
    ("equation", "equation", lambda v: FiniteVolume(MESH, v), OBJECTS),
    ("equation of particles", "equation", ParticleSystem, OBJECTS),
    ("system", "system", lambda v: Simulation(v, RHO), OBJECTS),
    ("system at rest", "system", lambda v: stationary_state(v, RHO), [*OBJECTS, CLOUD]),
    ("field", "field", Equation, OBJECTS),
    ("frozen field", "field", lambda v: Frozen(v, MU), OBJECTS),
    ("frozen measure", "mu", lambda v: Frozen(FIELD, v), OBJECTS),
    ("heads", "heads", Heads, OBJECTS),
    ("head", "head", lambda v: Heads([FIELD, v]), OBJECTS),
    ("tokens' field", "field", NormalisedTokens, OBJECTS),
    ("layers", "tokens", lambda v: through_layers(v, X, 1), OBJECTS),
    ("consensus", "field", lambda v: ConsensusDiffusion(v, 1.0), OBJECTS),
    ("measure of a field", "mu", lambda v: FIELD.velocity(X, v), OBJECTS),
    ("measure of L", "mu", lambda v: log_partition(X, v), OBJECTS),
    ("measure to space", "mu", lambda v: limits.distance_to_space(v, I[0]), OBJECTS),
    ("measure to pair", "mu", lambda v: limits.distance_to_pair(v, I[0], 0.5), OBJECTS),
    ("measure of W", "mu", lambda v: wasserstein.distance(v, MU), OBJECTS),
    ("clusters", "mu", clusters, OBJECTS),
    ("modes", "mu", lambda v: find_modes(v, 1.0), OBJECTS),
    ("f", "f must be a function", PrescribedVelocity, OBJECTS),
    ("psi", "psi must be a function", StreamFunction, OBJECTS),
    ("potential", "psi must be a function", lambda v: PotentialDrift(v, first), OBJECTS),
    ("gradient", "gradient must be a function", lambda v: PotentialDrift(first, v), OBJECTS),
    ("field_at", "field_at", TimeDependent, OBJECTS),
    ("field at t", "field_at", lambda v: TimeDependent(lambda t: v), OBJECTS),
    ("objective", "objective", lambda v: ConsensusDrift(v, 1.0), OBJECTS),
    ("activation", "activation", lambda v: Perceptron(I, I, None, v), OBJECTS),
    ("derivative", "derivative", lambda v: Perceptron(I, I, None, np.tanh, v), SOME),
    ("sampled", "f must be", lambda v: initial.sample(v, 2, 1), OBJECTS),
    ("pushed", "f must be", MU.push, OBJECTS),
    ("integrated", "f must be", MU.integrate, OBJECTS),
    ("averaged", "f must be", MESH.average, OBJECTS),
    ("error_of", "error_of", lambda v: convergence.study(v, [1, 2]), OBJECTS),
    ("resolutions", "resolutions", lambda v: convergence.study(lambda n: 1.0, v),
     [None, 5, "12", [], [0], [-1], ["a"], [np.nan], [None], [2, 1], [1, 1]]),
    ("callbacks", "callbacks", lambda v: Simulation(CELLS, RHO).run(0.1, callbacks=v),
     [*OBJECTS, Progress()]),
    ("callback", "callbacks", run_with, OBJECTS),
    ("schedule", "schedule", lambda v: Monitor(v, function=max), OBJECTS),
    ("either", "first", lambda v: Either(v, Every(1.0)), OBJECTS),
    ("or", "second", lambda v: Either(Every(1.0), v), OBJECTS),
    ("monitor", "function", lambda v: Monitor(Every(1.0), function=v), OBJECTS),
    ("density", "rho0", lambda v: limits.assumption_2(I[0], v), OBJECTS),
    ("a state of particles", "function", lambda v: Simulation(CLOUD, v), [first]),
    ("a state of tokens", "function", lambda v: Simulation(NormalisedTokens(FIELD), v), [first]),
    ("resume", "path", lambda v: Simulation(CELLS, RHO).run(0.1, resume=v), [1, object(), "\0"]),
    ("restart", "path", read_restart, [None, 1, object(), I, "a\0b"]),
    ("open", "path", Solution.open, [None, 1, object(), I, "a\0b"]),
    ("save", "path", Solution([0.0], [X]).save, [None, 1, object(), I, "a\0b"]),
    ("saving", "path", lambda v: run_with(Save(Every(1.0), v)), [None, 1, "a\0b"]),
    ("checkpoint", "path", lambda v: run_with(Checkpoint(EverySteps(), v)), [None, 1, "a\0b"]),
    ("picture", "path", Solution([0.0], [X]).plot, [1, object(), "a\0b", "a.xyz", "a"]),
    ("page", "path", lambda v: export_html(Solution([0.0], [X]), v), [None, 1, "a\0b"]),
]  # fmt: skip


@table(TYPES)
def test_objects(name, call, values):
    refuses_all(name, call, values)
