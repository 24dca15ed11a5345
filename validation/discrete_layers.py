"""Discrete layers against the flow: first order in the step, and what steps of size 1 change.

Claim (Rigollet, arXiv:2512.01868; derivations in `pde.tokens.layers`): x <- N(x + h V m) tends to
the flow as h -> 0, at first order. Near consensus at an eigenvector of V with eigenvalue lam a
layer divides 1 - <x_i, x_j> by (1 + h lam)^2, where the flow multiplies it by e^{-2 h lam}. So

    lam > 0:     layers contract less: h = lam = 1 is worth log 2 = 0.69 units of time;
    h lam < -2:  layers contract what the flow drives apart, at a point whose sign changes with
                 every layer.

What a layer multiplies the mean of gathered tokens with is I + h V. Its eigenvalue of largest
modulus decides where they go: to F, V's largest eigenvalue, as in the flow, while h is small; for
large h to F_abs, that of largest modulus. With lam < 0 < v they are equal at h = 2/(|lam| - v).

Exact map. For V = B = I, n = N + 1 tokens with one product g and lengths r, let the attention to
each other token be w = 1/(e^{beta (1-g)} + N), that to oneself v = e^{beta (1-g)} w,
a = 1 - N w (1-g) and |A|^2 = 1 - (1-g) N w (2v + (N-1) w) (see `validation.normalisation`). As
A_i - A_j = (v - w)(theta_i - theta_j), a layer x <- x + h A gives

    r'^2 = r^2 + 2 h r a + h^2 |A|^2,   1-g' = (1-g) (r + h (v - w))^2 / r'^2,

under Pre-LN with r', under Post-LN with r = 1 before every layer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from pde import SelfAttention, Simulation
from pde.arguments import Array
from pde.simulation import run_to
from pde.tokens.causal import CausalTokens
from pde.tokens.layers import through_layers
from pde.tokens.normalisation import NormalisedTokens
from validation import convergence, exact, fits
from validation.convergence import Study
from validation.exact.equiangular_tokens import gaps, time_to, tokens
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

SYSTEMS = {
    "post_ln": {},
    "pre_ln": {},
    "peri_ln": {},
    "ngpt": {"alpha": 0.5},
    "sqrt": {},
    "mix_ln": {"tau": 1.0},
}
TIME = 2.0
"""Until when layers and flow are compared."""
STEPS = (1.0, 0.5, 0.25, 0.125)
"""Of layers that gather equiangular tokens."""
N_TOKENS, BETA, REACHED = 32, 1.0, 0.999
SCALED = (-5.0, -4.0, -3.0, -2.5, -1.75, -1.5, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
"""Values of h lam at which the contraction is measured."""
TURNING = (-3.0, 0.5, 0.2)
"""V's eigenvalues where large layers and the flow end on different axes."""
TURNING_STEPS = (1.0, 0.9, 0.7, 0.5)
UNTIL = 60.0


def cloud(n: int, d: int, seed: int = 21) -> Array:
    """(n, d) unit vectors, uniform."""
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def orders(counts: Sequence[int]) -> dict[str, Study]:
    """Errors of layers against the flow at TIME for every scheme, and causal; 24 tokens in R^16."""
    n, d = 24, 16
    V, B = 0.5 * np.random.default_rng(22).standard_normal((2, d, d)) / np.sqrt(d)
    field, x = SelfAttention(np.eye(d) + V, np.eye(d) + B, 2.0), cloud(n, d)
    systems = {scheme: NormalisedTokens(field, scheme, **o) for scheme, o in SYSTEMS.items()}
    systems["causal"] = CausalTokens(field)
    found = {}
    for name, system in systems.items():
        simulation = Simulation(system, x, tolerance=1e-9)
        times = [0.5 * TIME, TIME]  # one is tau
        flow = simulation.run(until=TIME, save_at=times).states[-1]

        def error(count: int, system: NormalisedTokens = system, flow: Array = flow) -> float:
            layers = through_layers(system, x, count, TIME / count)[-1]
            return float(np.linalg.norm(layers - flow, axis=1).max())

        found[name] = convergence.study(error, counts, lambda count: TIME / count)
    return found


def layer_map(
    gap: float, r: float, n: int, beta: float, step: float, scheme: str = "post_ln"
) -> tuple[float, float]:
    """(1-g, r) of n equiangular tokens after a layer, from (1-g, r) before; see the module.

    scheme : "post_ln" (r = 1 before and after) or "pre_ln"
    """
    N, own = n - 1, np.exp(beta * gap)
    w = 1.0 / (own + N)
    v = own * w
    radial, square = 1.0 - N * w * gap, 1.0 - gap * N * w * (2.0 * v + (N - 1.0) * w)
    length = float(np.sqrt(r**2 + 2.0 * step * r * radial + step**2 * square))
    after = float(gap * (r + step * (v - w)) ** 2 / length**2)
    return after, 1.0 if scheme == "post_ln" else length


@dataclass(frozen=True, eq=False)
class Gathering:
    """Equiangular tokens through layers: 1-g before and after each, and by the map, (K+1,)."""

    step: float
    gap: Array
    mapped: Array

    @property
    def error(self) -> float:
        """Largest relative difference of the tokens to the map."""
        return float(np.abs(self.gap / self.mapped - 1.0).max())

    def layers(self) -> float:
        """Number of layers until 1-g is 1 - REACHED, between two by the logarithm."""
        steps = np.arange(len(self.gap), dtype=float)
        return fits.crossing(steps, -np.log(self.gap), -np.log(1.0 - REACHED))


def gathering(step: float) -> Gathering:
    """N_TOKENS orthogonal tokens until well past REACHED."""
    field = SelfAttention(np.eye(N_TOKENS), np.eye(N_TOKENS), BETA)
    count = int(np.ceil(12.0 / step))
    states = through_layers(field, tokens(N_TOKENS, 0.0), count, step)
    mapped = [1.0]
    for _ in range(count):
        mapped.append(layer_map(mapped[-1], 1.0, N_TOKENS, BETA, step)[0])
    gap = [gaps(state).mean() for state in states]
    return Gathering(step, np.array(gap), np.array(mapped))


def contraction(scaled: float) -> tuple[float, float]:
    """(layer, flow): factor of 1 - <x_i, x_j> near consensus, of a layer of size 1 and in time 1.

    scaled : lam, at an eigenvector of V; the others are smaller, B is random, beta = 1
    """
    V = np.diag([scaled, 0.1 * scaled, -0.1 * scaled])
    B = np.random.default_rng(23).standard_normal((3, 3))
    x = np.array([1.0, 0.0, 0.0]) + 1e-6 * cloud(6, 3) * [0.0, 1.0, 1.0]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    field = SelfAttention(V, B, BETA)
    layer = gaps(through_layers(field, x, 1)[-1]).max() / gaps(x).max()
    flow = run_to(NormalisedTokens(field), x, 1.0, max_step=0.02)
    return float(layer), float(gaps(flow).max() / gaps(x).max())


def turning(step: float | None) -> tuple[Array, Array]:
    """(times, mean of <x, e1>^2) of tokens with V = diag(TURNING); step None: the flow."""
    x = cloud(40, 3)
    field = SelfAttention(np.diag(TURNING), np.eye(3), BETA)
    if step is None:
        solution = Simulation(NormalisedTokens(field), x).run(UNTIL, np.linspace(0.0, UNTIL, 61))
        return solution.times, np.square(solution.states[..., 0]).mean(axis=1)
    states = through_layers(field, x, round(UNTIL / step), step)
    return step * np.arange(float(len(states))), np.square(states[..., 0]).mean(axis=1)


def tables(studies: dict[str, Study], runs: Sequence[Gathering], factors: Array) -> list[Table]:
    """Errors by step and system; layers and time until REACHED; contraction by the formulas."""
    errors = np.array([one.error for one in studies.values()])
    order = np.array([one.order for one in studies.values()])
    steps = next(iter(studies.values())).h
    by_step = np.vstack([steps, errors, order.min(axis=0), order.max(axis=0)]).T
    columns = ["h:.4g", *each(".2e", *studies), *each(".3f", "order, least", "largest")]
    gathered: list[Any] = [
        (run.step, run.layers(), run.step * run.layers(), run.step / np.log1p(run.step))
        for run in runs
    ]
    gathered.append(("flow", None, time_to(REACHED, N_TOKENS, BETA), 1.0))
    heads = ["h:g", "layers:.2f", *each(".3f", "h * layers", "h / log(1+h)")]
    scaled, layer, flow = factors.T
    formulas = (1.0 + scaled) ** -2, np.exp(-2.0 * scaled)
    contracted = np.column_stack([scaled, layer, formulas[0], flow, formulas[1]])
    names = "layer", "(1 + h lam)^-2", "flow", "e^(-2 h lam)"
    return [
        Table(
            f"24 tokens in R^16, V and B random about I, beta = 2: layers to flow at t = {TIME:g}",
            columns,
            by_step,
        ),
        Table(
            f"{N_TOKENS} orthogonal tokens, V = B = I, beta = {BETA:g}, until g = {REACHED:g}",
            heads,
            gathered,
        ),
        Table(
            "factor of 1 - <x_i, x_j> near consensus", ["h lam:g", *each(".5g", *names)], contracted
        ),
    ]


def promised(studies: dict[str, Study], runs: Sequence[Gathering], rows: Any) -> Iterator[Bar]:
    """First order; the exact map; the contraction of layers and flow."""
    for name, study in studies.items():
        off = abs(study.order[-1] - 1.0)
        yield Bar.at_most(f"{name}: |order - 1| on the two finest", off, 0.1)
        yield Bar.at_most(f"{name}: finest error over h", study.error[-1] / study.h[-1], 2)
    worst = max(run.error for run in runs)
    yield Bar.at_most("equiangular tokens to the map, 1-g relative", worst, 1e-9)
    layer = max(abs(measured * (1.0 + scaled) ** 2 - 1.0) for scaled, measured, _ in rows)
    flow = max(abs(measured * np.exp(2.0 * scaled) - 1.0) for scaled, _, measured in rows)
    yield Bar.at_most("contraction of a layer to (1 + h lam)^-2, relative", layer, 1e-3)
    yield Bar.at_most("contraction of the flow to e^(-2 h lam), relative", flow, 1e-3)


def findings(runs: Sequence[Gathering], turns: dict[str, tuple[Array, Array]]) -> list[Finding]:
    """Layers are slower than the flow; large ones end on another axis."""
    time, first = time_to(REACHED, N_TOKENS, BETA), runs[0]
    needed = first.step * first.layers()
    ends = {name: float(share[-1]) for name, (_, share) in turns.items()}
    words = ", ".join(f"{name}: {share:.3f}" for name, share in ends.items())
    threshold = 2.0 / (abs(TURNING[0]) - TURNING[1])
    expected = all(
        abs(ends[f"h = {step:g}"] - (1.0 if step > threshold else 0.0)) < 0.01
        for step in TURNING_STEPS
    )
    slower = f"layers of size {first.step:g} need {needed:.2f} for what the flow does in {time:.2f}"
    where = f"V = diag{TURNING}, mean <x, e1>^2 in the end, {words}: 1 where h > {threshold:.3g}"
    return [
        Finding(slower, needed > time),
        Finding(f"{where}, else 0", expected and abs(ends["flow"]) < 0.01),
    ]


def layer_panels(studies: dict[str, Study], runs: Sequence[Gathering]) -> Iterator[Panel]:
    """Errors over h; 1-g over h times the number of layers."""
    curves = [
        Curve(one.h, one.error, "o-", i, name) for i, (name, one) in enumerate(studies.items())
    ]
    h = curves[0].x
    curves.append(Curve(h, 0.05 * h, "--", 7, "slope 1"))
    yield Panel("layers to flow", "h", "error", curves, log="xy")
    times, gathered = np.linspace(0.0, 8.0, 81), []
    for i, run in enumerate(runs):
        t = run.step * np.arange(len(run.gap))
        seen = t <= times[-1]
        gathered.append(Curve(t[seen], run.gap[seen], "o-", i, f"h = {run.step:g}"))
    flow = 1.0 - exact.equiangular(N_TOKENS, BETA, 0.0, times)
    gathered.append(Curve(times, flow, "--", 7, "flow"))
    title = f"orthogonal tokens, beta = {BETA:g}"
    yield Panel(title, "t = h * layers", "1 - g", gathered, log="y")


def consensus_panels(factors: Array, turns: dict[str, tuple[Array, Array]]) -> Iterator[Panel]:
    """Factors near consensus over h lam; the share of the first axis, before all is decided."""
    scaled, layer, flow = factors.T
    left, right = np.linspace(-5.0, -1.05, 80), np.linspace(-0.95, 4.0, 80)
    shown, inside = np.linspace(-2.5, 2.5, 80), np.abs(scaled) <= 2.5
    contracted = [
        Curve(scaled, layer, "o", 0, "layer"),
        Curve(left, (1.0 + left) ** -2, "-", 0, "(1 + h lam)^-2"),
        Curve(right, (1.0 + right) ** -2, "-", 0),
        Curve(scaled[inside], flow[inside], "s", 7, "flow"),
        Curve(shown, np.exp(-2.0 * shown), "--", 7, "e^(-2 h lam)"),
        Curve([-5.0, 4.0], [1.0, 1.0], ":", 7),
    ]
    yield Panel("contraction near consensus", "h lam", "factor of 1 - g", contracted, log="y")
    curves = []
    for i, (name, (t, share)) in enumerate(turns.items()):
        form, colour = ("--", 7) if name == "flow" else ("-", i)
        curves.append(Curve(t[t <= 0.5 * UNTIL], share[t <= 0.5 * UNTIL], form, colour, name))
    yield Panel(f"V = diag{TURNING}", "t = h * layers", "mean <x, e1>^2", curves)


def study(options: Options) -> Outcome:
    """Orders, equiangular tokens, contraction, turning."""
    counts = [2, 4, 8, 16, 32, 64, 128, *([256, 512] if options.full else [])]
    studies = orders(counts)
    runs = [gathering(step) for step in STEPS]
    factors = np.array([(scaled, *contraction(scaled)) for scaled in SCALED])
    turns = {f"h = {step:g}": turning(step) for step in TURNING_STEPS} | {"flow": turning(None)}
    return Outcome(
        tables(studies, runs, factors),
        promised(studies, runs, factors),
        findings(runs, turns),
        chain(layer_panels(studies, runs), consensus_panels(factors, turns)),
        columns=2,
    )


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
