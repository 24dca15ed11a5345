"""What the matrices of a trained head say about its flow, and random tokens that follow it.

The limit theorems (Alcalde, Bungert, Riedl and Roith, arXiv:2605.10931) speak of E, the top
eigenspace of V B^T, and F, F_abs, those of V; they assume symmetry, which trained heads lack. The
report gives the spaces where they exist, the sentence why not where they do not, and how far the
matrices are from the assumptions.
"""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation, limits, log_partition
from pde.arguments import Array, positive
from pde.fields.weights import HeadWeights
from validation.study import Curve, Panel, aligned, draw

MEANING = {
    "E": "A = V B^T, largest eigenvalue",
    "F": "A = V, largest eigenvalue",
    "F_abs": "A = V, largest modulus",
}

SAVES = 80
"""Times at which the tokens are looked at."""

TOLERANCE = 1e-5
"""Largest error of a token's step."""


def report_on(
    head: HeadWeights,
    beta: float,
    title: str,
    particles: int,
    until: float,
    seed: int,
    out: Path | None,
) -> None:
    """Print the report and the table of the run; keep both, and a picture, in `out`.

    Raises ValueError for bad numbers, before anything is computed.
    """
    if particles < 2:
        raise ValueError(f"particles must be >= 2, got {particles}")
    positive("until", until)
    if seed < 0:
        raise ValueError(f"seed must be >= 0, got {seed}")
    field = head.field(beta)
    spaces = limit_spaces(head)
    said = "\n\n".join([f"{title}\n{heading(head, beta)}", *matrices(head), *theory(head, spaces)])
    print(said, flush=True)
    history = follow(field, random_tokens(particles, head.dim, seed), until, spaces)
    lines = f"{particles} random tokens, seed {seed}\n{history.table()}"
    print(f"\n{lines}", flush=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "weights.txt").write_text(f"{said}\n\n{lines}\n", encoding="utf-8")
        history.write(out / "weights.csv")
        draw(panels(head, history, title), out / "weights.png", columns=2)


def heading(head: HeadWeights, beta: float) -> str:
    """Sizes and temperature."""
    trained, normed = head.beta(), head.beta(layer_norm=True)
    return (
        f"d = {head.dim}, head dimension k = {head.head_dim}, beta = {beta:.6g} for unit tokens "
        f"(1/sqrt(k) = {trained:.4g}; tokens of length sqrt(d): d/sqrt(k) = {normed:.4g})"
    )


def matrices(head: HeadWeights) -> list[str]:
    """Tables: size, rank, symmetry and eigenvalues of V B^T, V and B."""
    sizes, spectra = [], []
    for name, M in products(head).items():
        singular = np.linalg.svd(M, compute_uv=False)
        rank = int(np.count_nonzero(singular > 1e-10 * max(singular[0], 1e-300)))
        total = float(np.linalg.norm(M))
        skew = float(np.linalg.norm(M - M.T)) / (2.0 * total) if total > 0.0 else 0.0
        symmetric = np.linalg.eigvalsh(0.5 * (M + M.T))
        sizes.append(
            [
                name,
                str(rank),
                f"{singular[0]:.4g}",
                f"{singular[max(rank, 1) - 1]:.3g}",
                f"{skew:.3f}",
                f"{symmetric[-1]:.4g}",
                f"{symmetric[0]:.4g}",
            ]
        )
        values = np.linalg.eigvals(M)
        first = values[np.argsort(-values.real, kind="stable")]
        modulus = values[np.argmax(np.abs(values))]
        turning = int(np.count_nonzero(np.abs(values.imag) > 1e-8 * np.abs(values).max()))
        spectra.append(
            [name, *map(shown, first[:3]), shown(first[-1]), shown(modulus), f"{turning}"]
        )
    return [
        aligned(
            ["", "rank", "norm", "least singular", "skew share", "sym. part, top", "bottom"], sizes
        ),
        aligned(
            [
                "eigenvalues",
                "largest real parts",
                "2nd",
                "3rd",
                "lowest",
                "largest modulus",
                "turning",
            ],
            spectra,
        ),
    ]


def products(head: HeadWeights) -> dict[str, Array]:
    """The (d, d) matrices that the theory looks at."""
    return {"V B^T": head.value @ head.B.T, "V": head.value, "B": head.B}


def shown(value: complex) -> str:
    """An eigenvalue in four digits, zeros of rounding left out."""
    value = complex(value)
    if abs(value.imag) <= 1e-8 * abs(value) or abs(value.imag) < 1e-12:
        return f"{value.real:.4g}" if abs(value.real) > 1e-12 else "0"
    return f"{value.real:.4g}{value.imag:+.3g}i"


@dataclass(frozen=True, eq=False)
class Space:
    """A limit space, or why there is none.

    basis : (d, k) or None
    text : its dimension and gap, or the reason
    """

    basis: Array | None
    text: str


def limit_spaces(head: HeadWeights) -> dict[str, Space]:
    """E, F and F_abs."""
    found = {}
    A, V = head.value @ head.B.T, head.value
    for name, M, by in (("E", A, "value"), ("F", V, "value"), ("F_abs", V, "magnitude")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table says what is not symmetric
            try:
                basis = limits.dominant_eigenspace(M, by)
                gap = limits.spectral_gap(M, by)
                text = f"dimension {basis.shape[1]}, spectral gap {gap:.4g}"
                found[name] = Space(basis, text)
            except ValueError as none:
                found[name] = Space(None, f"none: {none}")
    return found


def theory(head: HeadWeights, spaces: dict[str, Space]) -> list[str]:
    """The limit spaces and the assumptions of the limit theorems, in words."""
    rows = [f"{name:5s} ({MEANING[name]}): {space.text}" for name, space in spaces.items()]
    E = spaces["E"].basis

    def uniform(x: Array) -> Array:
        return np.ones(len(x))

    second: Any = "not decided: there is no E" if E is None else limits.assumption_2(E, uniform)
    assumptions = [
        f"assumption 1 {limits.assumption_1(head.value, head.B)}",
        f"assumption 2 (p = 1, tokens uniform on the sphere) {second}",
        f"assumption 3 (tokens uniform) {limits.assumption_3(uniform, head.dim)}",
    ]
    return ["\n".join(rows), "\n".join(assumptions)]


def random_tokens(n: int, d: int, seed: int) -> Array:
    """(n, d) independent uniform points of the sphere."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class History:
    """What the tokens did: `columns` of values (K,) at `times` (K,)."""

    times: Array
    columns: dict[str, Array]

    def table(self) -> str:
        """A dozen of the times."""
        picked = np.unique(np.linspace(0, len(self.times) - 1, 13).round().astype(int))
        rows = [
            [f"{self.times[i]:.2f}", *(f"{values[i]:.4f}" for values in self.columns.values())]
            for i in picked
        ]
        return aligned(["t", *self.columns], rows)

    def write(self, path: Path) -> None:
        """All times as a table."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["t", *self.columns])
            writer.writerows(zip(self.times, *self.columns.values(), strict=True))


def follow(field: SelfAttention, tokens: Array, until: float, spaces: dict[str, Space]) -> History:
    """Run the tokens and look at them.

    mean length : |mean|, 1 where all tokens agree
    spread : 1 - |mean|^2
    product : mean of <x_i, x_j> over pairs i != j
    interaction : (1/beta) log int int e^{beta <x,By>} dmu dmu
    speed : root of the mean square velocity
    W2 to E, to F : to the nearest law on the space's sphere, where there is the space
    """
    times = np.linspace(0.0, until, SAVES + 1)
    simulation = Simulation(ParticleSystem(Equation(field)), tokens, tolerance=TOLERANCE)
    measures = simulation.run(until=until, save_at=times).measures
    n = len(tokens)
    length = np.array([np.linalg.norm(mu.mean()) for mu in measures])
    columns = {
        "mean length": length,
        "spread": 1.0 - length**2,
        "product": (n * length**2 - 1.0) / (n - 1.0),
        "interaction": np.array([interaction(field, mu) for mu in measures]),
        "speed": np.array([speed(field, mu, t) for mu, t in zip(measures, times, strict=True)]),
    }
    for name in ("E", "F"):
        basis = spaces[name].basis
        if basis is not None and basis.shape[1] < basis.shape[0]:
            columns[f"W2 to {name}"] = np.array(
                [limits.distance_to_space(mu, basis) for mu in measures]
            )
    return History(times, columns)


def interaction(field: SelfAttention, mu: Measure) -> float:
    """(1/beta) log int int e^{beta <x,By>} dmu dmu; its limit <m, B m> at beta = 0."""
    if field.beta == 0.0:
        m = mu.mean()
        return float(m @ field.B @ m)
    log_z, _ = log_partition(field.beta * (mu.points @ field.B), mu)
    top = log_z.max()
    return float(top + np.log(mu.weights @ np.exp(log_z - top))) / field.beta


def speed(field: SelfAttention, mu: Measure, t: float) -> float:
    """(int |v|^2 dmu)^{1/2}."""
    v = field.velocity(mu.points, mu, t)
    return float(np.sqrt(mu.weights @ np.square(v).sum(axis=1)))


def panels(head: HeadWeights, history: History, title: str) -> list[Panel]:
    """Order, energy and speed over time; the spectra."""
    t, columns = history.times, history.columns
    distances = [name for name in columns if name.startswith("W2")]
    order = [
        Curve(t, columns[name], "--" if name in distances else "-", i, name)
        for i, name in enumerate(("mean length", "spread", "product", *distances))
    ]
    motion = [
        Curve(t, columns[name], "-", i, name) for i, name in enumerate(("interaction", "speed"))
    ]
    spectra, singular = [], []
    for i, (name, M) in enumerate(products(head).items()):
        values = np.linalg.eigvals(M)
        if name != "B":
            spectra.append(Curve(values.real, values.imag, "o", i, name))
        sizes = np.linalg.svd(M, compute_uv=False)
        sizes = sizes[sizes > 1e-10 * max(sizes[0], 1e-300)]
        singular.append(Curve(np.arange(1, len(sizes) + 1), sizes, ".-", i, name))
    return [
        Panel(f"tokens: {title}", "t", "length, product, distance", order),
        Panel("energy and speed", "t", "energy, speed", motion),
        Panel("eigenvalues", "real part", "imaginary part", spectra),
        Panel("singular values", "number", "singular value", singular, log="y"),
    ]
