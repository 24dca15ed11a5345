"""Heads of the shape of trained ones: low rank, not symmetric, read from a file of weights.

A trained head has keys, queries and values of k rows for tokens in R^d, k much smaller than d:
V = O V_h and B = Q^T K have rank k, and assumption 1 of the limit theorems (Alcalde, Bungert, Riedl
and Roith, arXiv:2605.10931) fails, B being singular. Three synthetic heads with known spectra are
written to a file, side by side as layers keep them, and read back:

    symmetric   V and B with common eigenvectors; E, F known, E other than F
    skew        V with real eigenvalues but oblique eigenvectors, B = Q^T K of random Q, K
    turning     the top of V is a pair of eigenvalues lam +- i omega: no F

What is exact. One cluster at the point x moves with dx/dt = P_x V x whatever B and beta are, and
tokens approach it at the rate <x, V x>. So with lam and lam_2 the two largest eigenvalues of V, the
spread 1 - |mean|^2 falls like e^{-2 lam t}, and the mean comes to F at the rate lam - lam_2. With
the turning pair the cluster never stops: its speed tends to omega.

The temperature is that of the training, beta = 1/sqrt(k) for unit tokens, and once that of tokens
of length sqrt(d), as layer normalisation leaves them, beta = d/sqrt(k).

For a file of one's own: `sphere-attention weights FILE`.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pde import Equation, Measure, ParticleSystem, Simulation, limits
from pde.arguments import Array
from pde.fields.heads import Heads
from pde.fields.weights import HeadWeights, read_head
from validation import fits
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each

HEADS = ("symmetric", "skew", "turning")

TOP, SECOND, OMEGA = 1.0, 0.6, 0.25
"""lam, lam_2 and omega."""

TOKENS = 64

TIMES = np.linspace(0.0, 20.0, 81)

SETTLED = (10.0, 16.0)
"""Times between which rates are measured: after the gathering, before rounding."""


def values(k: int) -> Array:
    """(k,) eigenvalues of V on its range."""
    return np.array([TOP, SECOND, *np.linspace(0.2, -0.5, k - 2)])


def matrices(name: str, d: int, k: int) -> dict[str, Array]:
    """One head: key, query, value (k, d) and output (d, k)."""
    random = np.random.default_rng([d, k, HEADS.index(name)])
    U = np.linalg.qr(random.normal(size=(d, k)))[0]
    inner, K, Q = np.diag(values(k)), U.T, U.T
    if name == "symmetric":
        # V B^T has its largest eigenvalue where V has its second: E is another line than F.
        K = np.array([1.0, 6.0, *np.ones(k - 2)])[:, None] * U.T
    elif name == "skew":
        oblique = np.eye(k) + 0.5 * random.normal(size=(k, k)) / np.sqrt(k)
        inner = oblique @ inner @ np.linalg.inv(oblique)
        K, Q = random.normal(size=(2, k, d)) / np.sqrt(k)
    else:
        inner[:2, :2] = [[TOP, -OMEGA], [OMEGA, TOP]]
    return {"key": K, "query": Q, "value": U.T, "output": U @ inner}


def layer(d: int, k: int) -> dict[str, Array]:
    """The three heads side by side: key, query, value (3k, d) and output (d, 3k)."""
    parts = [matrices(name, d, k) for name in HEADS]
    return {
        name: np.concatenate([part[name] for part in parts], axis=int(name == "output"))
        for name in parts[0]
    }


def read_back(arrays: dict[str, Array]) -> list[HeadWeights]:
    """The heads of a layer, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.npz"
        np.savez(path, allow_pickle=False, **arrays)
        names = {name: name for name in arrays}
        return [read_head(path, **names, head=i, heads=len(HEADS)) for i in range(len(HEADS))]


def layer_output(arrays: dict[str, Array], x: Array, heads: int) -> Array:
    """(n, d) multi-head attention as a layer computes it (Vaswani et al., arXiv:1706.03762)."""
    Q, K, V = (
        arrays[name].reshape(heads, -1, x.shape[1]) @ x.T for name in ("query", "key", "value")
    )
    scores = np.einsum("hki,hkj->hij", Q, K) / np.sqrt(Q.shape[1])
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    mixed = np.einsum("hij,hkj->ihk", weights, V)
    return mixed.reshape(len(x), -1) @ arrays["output"].T


def random_tokens(n: int, d: int) -> Array:
    """(n, d) independent uniform points of the sphere."""
    x = np.random.default_rng([n, d]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Run:
    """One head's tokens over TIMES (K,).

    spread : 1 - |mean|^2
    aside : length of the unit mean's part across F; to_E, to_F : W2 to laws on their spheres;
        nan where there is no such space
    speed : root of the mean square velocity
    """

    name: str
    beta: float
    spread: Array
    aside: Array
    to_E: Array
    to_F: Array
    speed: Array

    def rate(self, series: Array) -> float:
        """Exponential rate of decay while settled."""
        window = np.abs(TIMES - np.mean(SETTLED)) <= 0.5 * np.ptp(SETTLED)
        return fits.rate(TIMES, series, window)


def spaces(head: HeadWeights) -> tuple[Array | None, Array | None]:
    """(E, F), None where the dominant eigenvalues are complex."""
    found: list[Array | None] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that matrices are not symmetric is the point
        for M in (head.value @ head.B.T, head.value):
            try:
                found.append(limits.dominant_eigenspace(M))
            except ValueError:
                found.append(None)
    return found[0], found[1]


def run(name: str, head: HeadWeights, layer_norm: bool) -> Run:
    """Random tokens driven by the head."""
    field = head.field(layer_norm=layer_norm)
    E, F = spaces(head)
    start = random_tokens(TOKENS, head.dim)
    simulation = Simulation(ParticleSystem(Equation(field)), start, tolerance=1e-7)
    measures = simulation.run(until=TIMES[-1], save_at=TIMES).measures
    means = np.array([mu.mean() for mu in measures])
    lengths = np.linalg.norm(means, axis=1)

    def distances(space: Array | None) -> Array:
        if space is None:
            return np.full(len(measures), np.nan)
        return np.array([limits.distance_to_space(mu, space) for mu in measures])

    across = np.full_like(means, np.nan) if F is None else means - means @ F @ F.T
    return Run(
        f"{name}, beta = {field.beta:.3g}",
        field.beta,
        variance(measures),
        np.linalg.norm(across, axis=1) / lengths,
        distances(E),
        distances(F),
        np.array([speed(field.velocity(mu.points, mu)) for mu in measures]),
    )


def variance(measures: Sequence[Measure]) -> Array:
    """(K,) int |x - mean|^2 dmu = 1 - |mean|^2, without cancellation."""
    return np.array([mu.weights @ np.square(mu.points - mu.mean()).sum(axis=1) for mu in measures])


def speed(v: Array) -> float:
    """Root of the mean square of the velocities (n, d)."""
    return float(np.sqrt(np.square(v).sum(axis=1).mean()))


def table(title: str, runs: Sequence[Run]) -> Table:
    """Rates and where the tokens end."""
    rows = []
    for one in runs:
        ends = (series[-1] for series in (one.spread, one.to_E, one.to_F, one.speed))
        rows.append((one.name, one.rate(one.spread), one.rate(one.aside), *ends))
    columns = ["head", *each(".4f", "rate of spread", "rate to F")]
    return Table(title, [*columns, *each(".2e", "spread", "W2 to E", "W2 to F", "speed")], rows)


def promised(heads: Sequence[HeadWeights], arrays: dict[str, Array]) -> list[Bar]:
    """What the file and the spectra must give."""
    x = random_tokens(TOKENS, heads[0].dim)
    found = Heads([head.field(tolerance=None) for head in heads]).output(x, Measure(x))
    off = float(np.abs(found - layer_output(arrays, x, len(heads))).max())
    result = [Bar.at_most("heads read from the file against the layer, difference", off, 1e-12)]
    for name, head in zip(HEADS[:2], heads, strict=False):
        _, F = spaces(head)
        residual = np.inf if F is None else np.abs(head.value @ F - TOP * F).max()
        result.append(Bar.at_most(f"{name}: V F - lam F", residual, 1e-12))
    E, _ = spaces(heads[0])
    product = heads[0].value @ heads[0].B.T
    residual = np.inf if E is None else np.abs(product @ E - 6.0 * SECOND * E).max()
    return [*result, Bar.at_most("symmetric: V B^T E - 6 lam_2 E", residual, 1e-12)]


def measured(runs: dict[str, Run]) -> Iterator[Bar]:
    """The exact rates and the speed of the turning cluster."""
    for name in HEADS:
        off = abs(runs[name].rate(runs[name].spread) / (2.0 * TOP) - 1.0)
        yield Bar.at_most(f"{name}: rate of the spread against 2 lam, off by", off, 0.01)
    for name in HEADS[:2]:
        off = abs(runs[name].rate(runs[name].aside) / (TOP - SECOND) - 1.0)
        yield Bar.at_most(f"{name}: rate to F against lam - lam_2, off by", off, 0.05)
    off = abs(runs["turning"].speed[-1] / OMEGA - 1.0)
    yield Bar.at_most("turning: speed at the end against omega, off by", off, 0.01)


def findings(runs: dict[str, Run]) -> list[Finding]:
    """What the low temperature of normalised tokens changes."""
    warm, cold = runs["symmetric"], runs["cold"]
    low, late = float(cold.to_E.min()), float(cold.to_E[-1])
    falls = f"{cold.name}: W2 to E falls from {cold.to_E[0]:.2f} to {low:.2f} before it rises again"
    stays = f"{warm.name}: W2 to E never falls by 0.1 (least {warm.to_E.min():.2f})"
    return [
        Finding(f"{falls} to {late:.2f}", low < cold.to_E[0] - 0.1 < late),
        Finding(stays, warm.to_E.min() > warm.to_E[0] - 0.1),
    ]


def panels(runs: dict[str, Run], heads: Sequence[HeadWeights]) -> Iterator[Panel]:
    """Spread, distances and speed over time; the eigenvalues of V."""
    numbered = list(enumerate(runs.values()))
    spread = [Curve(TIMES, one.spread, "-", i, one.name) for i, one in numbered]
    line = np.array([4.0, 16.0])
    spread.append(Curve(line, 20.0 * np.exp(-2.0 * TOP * line), ":", 7, "e^(-2 lam t)"))
    yield Panel("spread", "t", "1 - |mean|^2", spread, log="y", ylim=(1e-13, 1e5))
    distance = [
        Curve(TIMES, one.to_F, "-", i, f"F, {one.name}")
        for i, one in numbered
        if np.isfinite(one.aside).all()
    ]
    distance += [
        Curve(TIMES, one.to_E, "--", i, f"E, {one.name}")
        for i, one in numbered
        if one.name.startswith(HEADS[0])
    ]
    yield Panel("distances to the limit spaces", "t", "W2", distance, log="y")
    moving = [Curve(TIMES, one.speed, "-", i, one.name) for i, one in numbered]
    moving.append(Curve(TIMES[[0, -1]], [OMEGA] * 2, ":", 7, "omega"))
    yield Panel("speed", "t", "root mean square velocity", moving)
    values = [np.linalg.eigvals(head.value) for head in heads]
    spectra = [Curve(v.real, v.imag, "osx"[i], i, HEADS[i]) for i, v in enumerate(values)]
    yield Panel("eigenvalues of V", "real part", "imaginary part", spectra)


def study(options: Options) -> Outcome:
    """The three heads, the first one also in the cold."""
    d, k = (384, 32) if options.full else (128, 16)
    arrays = layer(d, k)
    heads = read_back(arrays)
    runs = {name: run(name, head, False) for name, head in zip(HEADS, heads, strict=True)}
    runs["cold"] = run(HEADS[0], heads[0], True)
    title = f"three heads of k = {k} in d = {d}, {TOKENS} random tokens"
    return Outcome(
        [table(title, list(runs.values()))],
        [*promised(heads, arrays), *measured(runs)],
        findings(runs),
        panels(runs, heads),
        columns=2,
    )


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
