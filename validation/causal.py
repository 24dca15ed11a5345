"""Causal attention: all tokens come to the first one, the later the token the later.

Claim (Karagodin, Polyanskiy, Rigollet, arXiv:2411.04990; Rigollet, arXiv:2512.01868; derivations in
`pde.tokens.causal`): with V = I the first token stays and all others come to it, for any B. Near
the end deviations are sums of the modes e^{-(1 - 1/m) t}, m = 2, ..., n; the slowest leaves 1 -
<x_1, x_k> ~ e^{-t}, against e^{-2t} without the mask, and |x_k - x_1| = (k-1) |x_2 - x_1|. The
second token is exact, for V = B = I:

    t = int_{c_0}^{c} (1 + e^{beta (1-c)}) / (1 - c^2) dc,   c = <x_1, x_2>,

and so is the first for any V: e^{tV} x_1, normalised.

Before the end, at large beta, tokens wait in clusters. With c_j = <x_k, x_j> token k has the speed

    |dx_k/dt| <= sum_{j<k} f(c_j) <= (k-1) f(c),   f(c) = e^{-beta (1-c)} (1 - c^2)^{1/2},

where it is further than delta from all earlier ones, c = 1 - delta^2/2 (the summands rise with c_j
up to c, if beta (1 - c^2) >= c): for delta = 4/sqrt(beta) e^{-8} is the small factor. Such strong
Renyi centres hardly move, and others gather at them: how many clusters wait is a question of
parking (arXiv:2411.04990, Section 5).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pde import SelfAttention, Simulation
from pde.arguments import Array
from pde.simulation import run_to
from pde.tokens.causal import CausalTokens
from pde.tokens.normalisation import NormalisedTokens
from validation import fits
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table

TOKENS = 12
"""Few enough for the formula of the modes: its binomials grow like 2^n."""
BETA = 1.0
FROM, UNTIL = 30.0, 44.0
"""Where rates are measured: the mode after the slowest has fallen by e^{-FROM/6}, a hundredth."""
MAX_STEP = 0.25
"""Keeps steps accurate relative to deviations that are far below any tolerance."""
SECOND_BETAS = (0.0, 1.0, 3.0, 6.0)
START, END = -0.5, 0.99
"""Products <x_1, x_2> between which the second token is timed."""
WAITING_BETA, WAITING_UNTIL = 64.0, 75.0
APART = 4.0 / np.sqrt(WAITING_BETA)
"""Distance delta of strong Renyi centres (arXiv:2411.04990, Figure 2)."""


def spread_tokens(n: int, d: int = 3) -> Array:
    """(n, d) unit vectors in an open half-sphere, in no order."""
    x = np.random.default_rng(11).standard_normal((n, d))
    x[:, 0] = np.abs(x[:, 0]) + 0.2
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Approach:
    """Distances |x_k - x_1| over time: times (K,), causal (K, n), and without mask the largest."""

    times: Array
    states: Array
    causal: Array
    full: Array

    def rates(self) -> Array:
        """(n-1,) c where 1 - <x_1, x_k> falls like e^{-ct} in the end, k = 2, ..., n."""
        late = self.times >= FROM
        return np.array([fits.rate(self.times, 0.5 * gap**2, late) for gap in self.causal.T[1:]])

    def full_rate(self) -> float:
        """The same without mask, where the gap is well above rounding."""
        gap = 0.5 * self.full**2
        return fits.rate(self.times, gap, (gap < 1e-4) & (gap > 1e-14))

    def lags(self) -> Array:
        """(K, n-1) |x_k - x_1| / |x_2 - x_1|."""
        return self.causal[:, 1:] / self.causal[:, 1:2]

    def mode_error(self) -> float:
        """Modes from the state at deviations below 1e-3 on, at the end, relative to the largest."""
        i = int(np.argmax(self.causal.max(axis=1) < 1e-3))
        start, end = (state - state[0] for state in (self.states[i], self.states[-1]))
        predicted = modes(start, self.times[-1] - self.times[i])
        return float(np.abs(end - predicted).max() / np.abs(end).max())


def modes(deviations: Array, t: float) -> Array:
    """(n, d) sum_m C(k-1, m-1) Delta^{m-1} delta_1 e^{-(1 - 1/m) t} of deviations (n, d).

    >>> modes(np.array([[0.0], [1.0], [2.0]]), 2.0).round(3)
    array([[0.   ],
           [0.368],
           [0.736]])
    """
    from scipy.special import comb

    order = np.arange(len(deviations))
    differences = np.array([np.diff(deviations, m, axis=0)[0] for m in range(len(order))])
    decay = np.exp(-(1.0 - 1.0 / (order + 1.0)) * t)
    return comb(order[:, None], order) @ (decay[:, None] * differences)


def approach(n: int = TOKENS, beta: float = BETA) -> Approach:
    """n tokens with a random B until UNTIL, with and without the mask."""
    x, times = spread_tokens(n), np.linspace(0.0, UNTIL, 89)
    B = np.random.default_rng(12).standard_normal((3, 3))
    field = SelfAttention(np.eye(3), B, beta)
    masked, full = (
        Simulation(system, x, max_step=MAX_STEP).run(until=UNTIL, save_at=times).states
        for system in (CausalTokens(field), NormalisedTokens(field))
    )
    causal = np.linalg.norm(masked - masked[:, :1], axis=2)
    return Approach(times, masked, causal, np.linalg.norm(full - full[:, :1], axis=2).max(axis=1))


def second_time(beta: float, start: float = START, end: float = END) -> float:
    """The time that the second token takes from the product start to end with the first."""
    from scipy.integrate import quad

    def pace(c: float) -> float:
        return float((1.0 + np.exp(beta * (1.0 - c))) / (1.0 - c**2))

    return float(quad(pace, start, end, epsrel=1e-12)[0])


def second_product(beta: float, time: float) -> float:
    """<x_1, x_2> of two causal tokens after `time`, from START."""
    x = np.array([[1.0, 0.0], [START, np.sqrt(1.0 - START**2)]])
    tokens = CausalTokens(SelfAttention(np.eye(2), np.eye(2), beta))
    first, second = run_to(tokens, x, time, tolerance=1e-10)
    return float(first @ second)


def first_error(time: float = 2.0) -> float:
    """Distance of the first token to e^{tV} x_1, normalised, for V that is not symmetric."""
    from scipy.linalg import expm

    V, B = np.random.default_rng(13).standard_normal((2, 3, 3))
    x = spread_tokens(5)
    moved = expm(time * V) @ x[0]
    then = run_to(CausalTokens(SelfAttention(V, B, BETA)), x, time)
    return float(np.linalg.norm(then[0] - moved / np.linalg.norm(moved)))


@dataclass(frozen=True, eq=False)
class Waiting:
    """Tokens on the circle at large beta: times (K,), unwrapped angles (K, n)."""

    times: Array
    angles: Array

    def centres(self) -> list[int]:
        """Strong Renyi centres: indices of tokens further than APART from all earlier ones."""
        x = np.stack([np.cos(self.angles[0]), np.sin(self.angles[0])], axis=1)
        return [k for k in range(len(x)) if (np.linalg.norm(x[:k] - x[k], axis=1) > APART).all()]

    def moved(self) -> Array:
        """(n,) largest distance of each token from its start, as an angle."""
        return np.abs(self.angles - self.angles[0]).max(axis=0)

    def clusters(self) -> int:
        """Groups of tokens at the end: gaps of more than 0.05 between neighbours."""
        ordered = np.sort(np.mod(self.angles[-1], 2.0 * np.pi))
        gaps = np.diff(np.append(ordered, ordered[0] + 2.0 * np.pi))
        return int(np.count_nonzero(gaps > 0.05))

    def speed_ratio(self) -> float:
        """Speeds of the centres at the start over their bound, the largest."""
        x = np.stack([np.cos(self.angles[0]), np.sin(self.angles[0])], axis=1)
        speeds = np.linalg.norm(circle_tokens().rhs(0.0, x), axis=1)
        cosine = 1.0 - 0.5 * APART**2
        bound = np.exp(-WAITING_BETA * (1.0 - cosine)) * np.sqrt(1.0 - cosine**2)
        return max(speeds[k] / (k * bound) for k in self.centres() if k > 0)


def circle_tokens() -> CausalTokens:
    """Causal tokens on the circle, V = B = I."""
    return CausalTokens(SelfAttention(np.eye(2), np.eye(2), WAITING_BETA))


def waiting(n: int, until: float = WAITING_UNTIL) -> Waiting:
    """n tokens drawn uniformly on the circle."""
    turn = np.random.default_rng(14).uniform(-np.pi, np.pi, n)
    x = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    times = np.concatenate([[0.0], np.geomspace(0.05, until, 60)])
    states = Simulation(circle_tokens(), x, tolerance=1e-6).run(until, save_at=times).states
    angles = np.unwrap(np.arctan2(states[..., 1], states[..., 0]), axis=0)
    return Waiting(times, angles)


def tables(found: Approach, rows: Sequence[tuple[float, float, float]]) -> list[Table]:
    """Rates and lags by token; times of the second token and its product then."""
    rates, lags = found.rates(), found.lags()[-1]
    by_token: list[Any] = [(k, rates[k - 2], lags[k - 2], k - 1) for k in (2, 3, 4, 6, 8, 10, 12)]
    by_token.append(("all, no mask", found.full_rate(), None, None))
    columns = ["token k", "rate:.4f", "|x_k - x_1| / |x_2 - x_1|:.3f", "k - 1"]
    title = f"V = I, B random, beta = {BETA:g}: 1 - <x_1, x_k> ~ e^(-rate t), t > {FROM:g}"
    second = ["beta:g", "time, formula:.6g", "product then:.8f"]
    words = f"second token, V = B = I, from <x_1, x_2> = {START:g} to {END:g}"
    return [Table(title, columns, by_token), Table(words, second, rows)]


def promised(
    found: Approach, rows: Sequence[tuple[float, float, float]], held: Waiting
) -> list[Bar]:
    """First and second token, rates, lags and modes, the bound on the centres' speed."""
    # The next mode is e^{-FROM/6} below the slowest, with a factor (k-2)/2 and more.
    worst = np.abs(found.rates() - 1.0).max()
    lag = np.abs(found.lags()[-1] / np.arange(1.0, found.causal.shape[1]) - 1.0).max()
    still = np.abs(found.states[:, 0] - found.states[0, 0]).max()
    second = max(abs(product - END) for _, _, product in rows)
    return [
        Bar.at_most("V = I: the first token moves by", still, 1e-14),
        Bar.at_most("any V: the first token to e^(tV) x_1", first_error(), 1e-7),
        Bar.at_most("the second token's product at the formula's time, error", second, 1e-7),
        Bar.at_most("rates, |rate - 1|", worst, 0.03),
        Bar.at_most("without mask, |rate - 2|", abs(found.full_rate() - 2.0), 0.01),
        Bar.at_most("lags to k - 1, relative", lag, 0.05),
        Bar.at_most("all modes, error relative to the largest deviation", found.mode_error(), 0.01),
        Bar.at_most("centres: speed at the start over its bound", held.speed_ratio(), 1.0),
    ]


def findings(held: Waiting) -> list[Finding]:
    """Centres hardly move while others gather."""
    centres, moved = held.centres(), held.moved()
    others = np.delete(moved, centres)
    n, until = len(moved), held.times[-1]
    return [
        Finding(
            f"circle, n = {n}, beta = {WAITING_BETA:g}: until t = {until:g} {len(centres)} strong "
            f"centres move by {moved[centres].max():.3f} at most, half of the others by "
            f"{np.median(others):.3f} or more",
            moved[centres].max() < np.median(others),
        ),
        Finding(
            f"at t = {until:g} there are {held.clusters()} clusters, at least one for each centre",
            held.clusters() >= len(centres),
        ),
    ]


def panels(found: Approach, held: Waiting) -> list[Panel]:
    """The approach by token, the lags, and the circle."""
    t, gaps, lags = found.times, 0.5 * found.causal**2, found.lags()
    tokens = list(enumerate((2, 3, 6, 12)))
    approaches = [Curve(t, gaps[:, k - 1], "-", i, f"causal, k = {k}") for i, k in tokens]
    above = found.full > 1e-8
    approaches.append(Curve(t[above], 0.5 * found.full[above] ** 2, "--", 7, "no mask, largest"))
    approaches.append(Curve(t, 0.02 * np.exp(-t), ":", 7, "e^-t"))
    ratios = [Curve(t, lags[:, k - 2], "-", i, f"k = {k}") for i, k in tokens[1:]]
    ratios += [Curve(t[[0, -1]], [k - 1.0] * 2, ":", i) for i, k in tokens[1:]]
    centres = held.centres()
    others = np.setdiff1d(np.arange(held.angles.shape[1]), centres)
    paths = []
    for numbers, label, colour in ((others, "other tokens", 7), (centres, "strong centres", 3)):
        for i, k in enumerate(numbers):
            words = "" if i else label
            paths.append(Curve(held.times[1:], held.angles[1:, k], "-", colour, words))
    circle = f"circle, beta = {WAITING_BETA:g}"
    return [
        Panel("to the first token", "t", "1 - <x_1, x_k>", approaches, log="y"),
        Panel("lags; dotted: k - 1", "t", "|x_k - x_1| / |x_2 - x_1|", ratios),
        Panel(circle, "t", "angle", paths, log="x", ylim=(-4.8, 3.6)),
    ]


def study(options: Options) -> Outcome:
    """The approach, the second token, the circle."""
    found = approach()
    times = [(beta, second_time(beta)) for beta in SECOND_BETAS]
    rows = [(beta, time, second_product(beta, time)) for beta, time in times]
    held = waiting(400 if options.full else 120)
    bars, seen = promised(found, rows, held), findings(held)
    return Outcome(tables(found, rows), bars, seen, panels(found, held))


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
