"""Long context: one attention layer without residual, of inverse temperature beta_n = gamma log n.

Claim (Rigollet, arXiv:2512.01868; Chen, Lin, Polyanskiy, Rigollet, arXiv:2510.05554): the outputs
y_i = m_beta[mu](x_i) of n tokens that share the pairwise product g in (0, 1), put back on the
sphere, have pairwise products that tend to

    1 (collapse),   4g / (1+3g),   g (attention is the identity)

for gamma <, =, > 1 / (1-g), as n grows.

Finite n, exactly. The attention matrix W of such tokens has two eigenvalues: 1 for the mean of all
and, for what differs from it, with N = n - 1,

    lambda = (e^beta - e^{beta g}) / (e^beta + N e^{beta g}).

The Gram matrix G has the eigenvalues s = 1 + N g and 1-g in the same spaces, and the outputs' is
W G W^T. So no vectors are needed:

    n |y|^2 = s + N lambda^2 (1-g),   n <y_i, y_j> = s - lambda^2 (1-g),
    1 - product = n lambda^2 (1-g) / (s + N lambda^2 (1-g)).

With beta = gamma log n, lambda = (1 - r) / (1 + N r), r = n^{-gamma (1-g)}: the exponents of n are
-2 (1 - gamma (1-g)) for 1 - product below the critical gamma, 1 - gamma (1-g) for product - g
above, and -1 at it. Orthogonal tokens, g = 0, are a case apart: s = 1 stays, and products tend to
1, 1/2, 0 for gamma <, =, > 1/2.

Random tokens, uniform on the sphere of R^d: with u the product of two of them,
M(beta) = E e^{beta u} = 0F1(d/2; beta^2/4) and A = M'/M, averaging numerators and softmax sums over
the tokens (annealed; the sums concentrate while beta^2 / d is small) gives with the weight
a = e^beta / (e^beta + N M) of a token on itself, q = 1-a and rho = M(2 beta) / M(beta)^2

    E |y|^2 = (a + q A)^2 + q^2 (rho - A^2) / N,
    E <y_i, y_j> = (2 a q + q^2 (1 + 2A) (N-1)/N + q^2 rho A(2 beta) / N) / N.

A token's own direction enters by a ~ n^{gamma-1} and A ~ beta/d, the others' mean by 1/sqrt(n): in
dimension d = n^alpha outputs collapse for gamma < 1/2 and alpha > 1/2 only, as orthogonal tokens
do. Below, each output keeps to its token: the law of large numbers makes the others' mean vanish.
Tokens with a common part, x = sqrt(g) e + sqrt(1-g) u, have

    |y|^2 = g + (1-g) E |y_u|^2,   <y_i, y_j> = g + (1-g) E <y_u, y_u'>   at beta (1-g),

and the three regimes again, at gamma = 1 / (1-g), once d >> beta^2.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meshes.geometry import norm, unit
from pde import Measure, log_partition
from pde.arguments import Array, non_negative, number, positive
from validation import fits
from validation.exact import equiangular_tokens
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each
from validation.study.panels import Image

PRODUCTS = (0.25, 0.5, 0.75)
SIZES = (10**2, 10**4, 10**6, 10**12)
WITHIN = (0.4, 0.5, 0.6)
"""gamma (1-g) below the critical value at which the exponents of n are measured."""
COMMON = 0.5
"""Common product of the random tokens that have one."""


@dataclass(frozen=True)
class Outputs:
    """Of one layer: mean |y|^2, mean <y_i, y_j> over pairs, and 1 - product once normalised."""

    length2: float
    inner: float
    gap: float

    @property
    def product(self) -> float:
        """Pairwise product of the outputs put back on the sphere."""
        return 1.0 - self.gap


def temperature(n: float, gamma: float) -> float:
    """beta_n = gamma log n; ValueError unless n >= 2 and gamma > 0."""
    if not number("n", n) >= 2.0:
        raise ValueError(f"n must be at least 2 tokens, got {n:g}")
    return positive("gamma", gamma) * float(np.log(n))


def equiangular_outputs(n: float, gamma: float, g: float) -> Outputs:
    """Outputs of n tokens of product g, exactly; a cost that does not depend on n.

    n : 2 to 1e300; gamma > 0; g in (-1/(n-1), 1). ValueError for what lies outside.

    >>> equiangular_outputs(10**6, 2.0, 0.5).product, critical_product(0.5)
    (0.800000..., 0.8)
    """
    beta, g = temperature(n, gamma), number("g", g)
    if not -1.0 / (n - 1.0) < g < 1.0:
        raise ValueError(
            f"g must lie in (-1/(n-1), 1) for n tokens to share it, got {g}, n = {n:g}"
        )
    exponent = -beta * (1.0 - g)
    others = float(np.exp(np.log(n - 1.0) + exponent))
    contrast = -float(np.expm1(exponent)) / (1.0 + others)
    common, own = 1.0 + (n - 1.0) * g, contrast * contrast * (1.0 - g)
    total = common + (n - 1.0) * own
    return Outputs(total / n, (common - own) / n, own * (n / total))


def critical_gamma(g: float) -> float:
    """1 / (1-g) for g in (0, 1), 1/2 for orthogonal tokens, g = 0."""
    if not 0.0 <= number("g", g) < 1.0:
        raise ValueError(f"g must lie in [0, 1) for n -> infinity, got {g}")
    return 1.0 / (1.0 - g) if g > 0.0 else 0.5


def critical_product(g: float) -> float:
    """The limit at the critical gamma: 4g / (1+3g), for g = 0 1/2."""
    critical_gamma(g)
    return 4.0 * g / (1.0 + 3.0 * g) if g > 0.0 else 0.5


def limit_product(gamma: float, g: float) -> float:
    """The limit of the outputs' product for n -> infinity, g in [0, 1).

    >>> limit_product(1.0, 0.5), limit_product(2.0, 0.5), limit_product(3.0, 0.5)
    (1.0, 0.8, 0.5)
    """
    gamma, critical = positive("gamma", gamma), critical_gamma(g)
    if gamma == critical:
        return critical_product(g)
    return 1.0 if gamma < critical else g


def crossing_gamma(n: float, g: float) -> float:
    """The gamma at which n tokens of product g have the limit's critical product, to 1e-13."""
    from scipy.optimize import brentq

    level = critical_product(g)
    span = (1e-3, 5.0 * critical_gamma(g))
    return float(
        brentq(lambda gamma: equiangular_outputs(n, gamma, g).product - level, *span, xtol=1e-13)
    )


def exponent(gamma: float, g: float, sizes: tuple[float, float]) -> float:
    """Slope in log n, between two n, of log |product - limit|, below or above criticality."""
    found = []
    for n in sizes:
        outputs = equiangular_outputs(n, gamma, g)
        below = gamma < critical_gamma(g)
        found.append(np.log(outputs.gap if below else outputs.product - g))
    return float((found[1] - found[0]) / np.log(sizes[1] / sizes[0]))


def extrapolated_gamma(g: float, sizes: tuple[float, float]) -> float:
    """Critical gamma, measured without knowing it: where the exponents of the collapse vanish."""
    gammas = np.array(WITHIN) * critical_gamma(g)
    slopes = np.array([exponent(gamma, g, sizes) for gamma in gammas])
    steepness = fits.slope(gammas, slopes)
    return float(gammas.mean() - slopes.mean() / steepness)


def random_tokens(n: int, d: int, common: float, seed: int) -> Array:
    """(n, d) uniform on the sphere; with a common part sqrt(g) e + sqrt(1-g) u in R^{d+1}.

    Raises ValueError for n < 2, d < 2 and a common product outside [0, 1).
    """
    temperature(n, 1.0)
    if d < 2:
        raise ValueError(f"d must be at least 2, got {d}")
    critical_gamma(common)
    u = unit(np.random.default_rng(seed).standard_normal((n, d)))
    if common == 0.0:
        return u
    return unit(np.column_stack([np.full(n, np.sqrt(common)), np.sqrt(1.0 - common) * u]))


def layer_outputs(x: Array, beta: float) -> Array:
    """(n, d) outputs m_beta[mu](x_i) of n tokens, mu their empirical measure: a direct sum."""
    return log_partition(non_negative("beta", beta) * x, Measure(x))[1]


def summary(y: Array) -> Outputs:
    """What the (n, d) outputs have in the mean over tokens and pairs, at O(n d)."""
    n = len(y)
    total = y.sum(axis=0)
    squares = float(np.square(y).sum())
    direction = (y / norm(y)[:, None]).sum(axis=0)
    pairs = n * (n - 1.0)
    product = (direction @ direction - n) / pairs
    return Outputs(squares / n, float(total @ total - squares) / pairs, 1.0 - float(product))


def moments(beta: float, d: float) -> tuple[float, float]:
    """(log E e^{beta u}, its derivative), u the product of two uniform points of the sphere in R^d.

    >>> abs(moments(2.0, 3)[0] - float(np.log(np.sinh(2.0) / 2.0))) < 1e-12
    True
    """
    from scipy.special import hyp0f1

    half, z = 0.5 * d, 0.25 * beta * beta
    value = hyp0f1(half, z)
    return float(np.log(value)), float(beta / d * hyp0f1(half + 1.0, z) / value)


def annealed_outputs(n: float, beta: float, d: float, common: float = 0.0) -> Outputs:
    """Outputs of random tokens in the mean over the tokens (see the module), for beta^2 << d.

    common : their common product g in [0, 1); the random parts lie in R^d
    """
    beta, N = (1.0 - common) * beta, n - 1.0
    log_m, drift = moments(beta, d)
    log_m2, drift2 = moments(2.0 * beta, d)
    own = 1.0 / (1.0 + N * np.exp(log_m - beta))
    rest, rho = 1.0 - own, np.exp(log_m2 - 2.0 * log_m)
    length2 = (own + rest * drift) ** 2 + rest**2 * (rho - drift**2) / N
    once = 2.0 * own * rest + rest**2 * ((1.0 + 2.0 * drift) * (N - 1.0) + rho * drift2) / N
    length2 = common + (1.0 - common) * length2
    inner = common + (1.0 - common) * once / N
    return Outputs(float(length2), float(inner), float((length2 - inner) / length2))


@dataclass(frozen=True)
class Sample:
    """Random tokens: means over `seeds` draws, the standard error of the product, and theory."""

    n: int
    d: int
    gamma: float
    common: float
    seeds: int
    measured: Outputs
    error: float
    theory: Outputs

    @property
    def trusted(self) -> bool:
        """Whether beta^2 / d, with the common part out, is small enough for the theory."""
        return ((1.0 - self.common) * temperature(self.n, self.gamma)) ** 2 < 0.5 * self.d

    @property
    def off(self) -> float:
        """Difference of the products in units of what is expected of it.

        |sum u|^2 / n fluctuates by sqrt(2/d) about 1, and with it what outputs have in common; the
        theory itself leaves 2% of that open, and terms of relative size 1/n.
        """
        spread = np.sqrt(2.0 / (self.d * self.seeds)) + 0.02
        shared = (self.theory.inner - self.common) / self.theory.length2
        allowed = (spread * shared + 1.0 / self.n) * self.theory.gap
        return abs(self.measured.product - self.theory.product) / float(allowed)


def sample(n: int, d: int, gamma: float, common: float, seeds: int) -> Sample:
    """Direct sums over `seeds` draws."""
    beta = temperature(n, gamma)
    found = [summary(layer_outputs(random_tokens(n, d, common, s), beta)) for s in range(seeds)]
    mean = np.array([[f.length2, f.inner, f.gap] for f in found])
    error = float(mean[:, 2].std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else np.nan
    measured = Outputs(*(float(value) for value in mean.mean(axis=0)))
    theory = annealed_outputs(n, beta, d, common)
    return Sample(n, d, gamma, common, seeds, measured, error, theory)


def formula_error(n: int = 60) -> float:
    """Largest difference of the exact formula to attention over vectors, by direct sums."""
    worst = 0.0
    for g in (-0.5 / n, 0.0, *PRODUCTS):
        x = equiangular_tokens.tokens(n, g)
        for gamma in (0.3, 1.0, 2.5):
            one = summary(layer_outputs(x, temperature(n, gamma)))
            other = equiangular_outputs(n, gamma, g)
            parts = (one.length2, other.length2), (one.inner, other.inner), (one.gap, other.gap)
            worst = max(worst, *(abs(a - b) for a, b in parts))
    return worst


def limit_tables(sizes: tuple[float, float]) -> Iterator[Table]:
    """Equiangular tokens: products and their limits; exponents of n; the critical gamma."""
    rows = []
    for g in PRODUCTS:
        for share in (0.5, 1.0, 1.5):
            gamma = share * critical_gamma(g)
            every = [equiangular_outputs(n, gamma, g) for n in SIZES]
            last = limit_product(gamma, g), every[-1].inner, every[-1].length2
            rows.append((g, gamma, *(one.product for one in every), *last))
    heads = [f"n = 10^{np.log10(n):.0f}" for n in SIZES]
    columns = ["g:g", "gamma:.3f", *each(".6f", *heads, "limit", "plain <y,y'>", "|y|^2")]
    title = "equiangular tokens: products of normalised outputs; plain ones at the largest n"
    yield Table(title, columns, rows)
    exponents = []
    for g in PRODUCTS:
        for share in (*WITHIN, 1.4, 1.6):
            expected = -2.0 * (1.0 - share) if share < 1.0 else 1.0 - share
            exponents.append((g, share, expected, exponent(share * critical_gamma(g), g, sizes)))
    columns = [*each("g", "g", "gamma (1-g)"), "exponent:.2f", "measured:.4f"]
    title = f"|product - limit| ~ n^exponent, measured from n = {sizes[0]:g} to {sizes[1]:g}"
    yield Table(title, columns, exponents)
    found = []
    for g in PRODUCTS:
        crossings = (crossing_gamma(n, g) for n in SIZES[:3])
        found.append((g, critical_gamma(g), extrapolated_gamma(g, sizes), *crossings))
    heads = ["1/(1-g)", "from the rates", *(f"crossing, n = {n:g}" for n in SIZES[:3])]
    yield Table("critical gamma", ["g:g", *each(".6f", *heads)], found)


def samples_table(samples: Sequence[Sample]) -> Table:
    """Random tokens, measured by direct sums and in theory."""
    rows = []
    for s in samples:
        model = equiangular_outputs(s.n, s.gamma, s.common).product
        products = s.measured.product, s.error, s.theory.product, model
        lengths = s.measured.length2, s.theory.length2, None if s.trusted else "*"
        rows.append((s.common, s.n, s.d, s.gamma, *products, *lengths))
    columns = ["g:g", "n", "d", "gamma:g"]
    columns += [*each(".4f", "product", "error", "theory", "equiangular", "|y|^2", "theory"), ""]
    title = "random tokens, direct sums; * beta^2/d is not small, outside the theory"
    return Table(title, columns, rows)


def phases() -> Iterator[Finding]:
    """Uniform tokens in dimension n^alpha, by the theory at n = 10^4, 10^8, 10^16."""
    for alpha, gamma, limit in ((0.75, 0.3, 1.0), (0.75, 0.7, 0.0), (0.25, 0.3, 0.0)):
        sizes = (1e4, 1e8, 1e16)
        values = [annealed_outputs(n, temperature(n, gamma), n**alpha).product for n in sizes]
        gaps = np.abs(np.array(values) - limit)
        words = ", ".join(f"{value:.3f}" for value in values)
        case = f"uniform tokens, d = n^{alpha:g}, gamma = {gamma:g}"
        text = f"{case}: products {words} tend to {limit:g}"
        yield Finding(text, (np.diff(gaps) < 0).all() and gaps[-1] < 0.1)


def high_dimension(samples: Sequence[Sample]) -> Finding:
    """Random tokens approach orthogonal ones as d grows."""
    plain = sorted((s for s in samples if s.common == 0.0 and s.gamma == 0.25), key=lambda s: s.d)
    smallest = min(s.n for s in plain)
    plain = [s for s in plain if s.n == smallest]
    model = equiangular_outputs(smallest, 0.25, 0.0).product
    gaps = [abs(s.measured.product - model) for s in plain]
    words = ", ".join(f"{s.measured.product:.3f} (d = {s.d})" for s in plain)
    text = f"uniform tokens at gamma = 1/4: {words}; orthogonal tokens {model:.3f}"
    return Finding(text, (np.diff(gaps) < 0).all())


def promised(samples: Sequence[Sample], sizes: tuple[float, float]) -> list[Bar]:
    """The formula against vectors, the limits, the critical gamma, random tokens."""
    n = SIZES[-1]
    worst = max(
        abs(equiangular_outputs(n, share * critical_gamma(g), g).product - limit)
        for g in PRODUCTS
        for share, limit in ((0.5, 1.0), (1.0, critical_product(g)), (1.5, g))
    )
    critical = [abs(extrapolated_gamma(g, sizes) / critical_gamma(g) - 1.0) for g in PRODUCTS]
    at = [abs(crossing_gamma(10**6, g) / critical_gamma(g) - 1.0) for g in PRODUCTS]
    trusted = [s.off for s in samples if s.trusted]
    return [
        Bar.at_most("formula against attention over vectors", formula_error(), 1e-12),
        Bar.at_most("products at n = 10^12 against their limits", worst, 1e-5),
        Bar.at_most("critical gamma from the rates, relative error", max(critical), 1e-3),
        Bar.at_most("critical gamma by crossing at n = 10^6, relative error", max(at), 1e-6),
        Bar.at_most("random tokens against theory, in fluctuations", max(trusted), 4.0),
    ]


def regimes_panel() -> Panel:
    """Products over gamma for growing n."""
    g, shares = COMMON, np.linspace(0.02, 2.0, 300)
    curves = []
    for i, n in enumerate(SIZES):
        values = [equiangular_outputs(n, s * critical_gamma(g), g).product for s in shares]
        curves.append(Curve(shares, values, "-", i, f"$n = 10^{{{np.log10(n):.0f}}}$"))
    curves.append(Curve([0.0, 1.0], [1.0, 1.0], "--", "k", "limit"))
    curves.append(Curve([1.0, 2.0], [g, g], "--", "k"))
    curves.append(Curve([1.0], [critical_product(g)], "o", "k"))
    title, xlabel = f"equiangular tokens, g = {g:g}", r"$\gamma\,(1-g)$"
    return Panel(title, xlabel, "product of outputs", curves)


def convergence_panel() -> Panel:
    """Distance to the limit over n, with the exponents of the theory."""
    g, sizes = COMMON, np.geomspace(10.0, 1e12, 45)
    curves, tail = [], sizes[-14:]
    for i, share in enumerate((0.4, 0.7, 1.0, 1.3, 1.6)):
        gamma = share * critical_gamma(g)
        values = []
        for n in sizes:
            one = equiangular_outputs(n, gamma, g)
            values.append(one.gap if share < 1.0 else abs(one.product - limit_product(gamma, g)))
        power = -2.0 * (1.0 - share) if share < 1.0 else (1.0 - share if share > 1.0 else -1.0)
        label = rf"$\gamma(1-g) = {share:g}$: $n^{{{power:.1f}}}$"
        curves.append(Curve(sizes, values, "-", i, label))
        curves.append(Curve(tail, 2.0 * values[-1] * (tail / tail[-1]) ** power, ":", "k"))
    title = "convergence, dotted: the exponent"
    return Panel(title, "n", "|product - limit|", curves, log="xy", ylim=(1e-13, 3.0))


def samples_panel(samples: Sequence[Sample]) -> Panel:
    """Random tokens: dots measured, lines theory."""
    gammas, curves = np.linspace(0.05, 3.0, 100), []
    for i, (common, n, d) in enumerate(sorted({(s.common, s.n, s.d) for s in samples})):
        lines = [annealed_outputs(n, temperature(n, gamma), d, common).product for gamma in gammas]
        own = [
            (s.gamma, s.measured.product) for s in samples if (s.common, s.n, s.d) == (common, n, d)
        ]
        label = f"g = {common:g}, n = {n}, d = {d}"
        curves += [Curve(gammas, lines, "-", i), Curve.through(own, "o", i, label)]
    title = "random tokens: dots measured, lines theory"
    return Panel(title, r"$\gamma$", "mean product of outputs", curves)


def map_panel() -> Panel:
    """Uniform tokens in dimension n^alpha at n = 10^8, theory."""
    n, gammas, alphas = 1e8, np.linspace(0.02, 1.2, 60), np.linspace(0.15, 1.0, 50)
    values = [
        [annealed_outputs(n, temperature(n, gamma), n**alpha).product for gamma in gammas]
        for alpha in alphas
    ]
    image = Image(gammas, alphas, values, "mean product of outputs", (0.0, 1.0))
    border = Curve([0.5, 0.5, gammas[0]], [1.0, 0.5, 0.5], "--", "w")
    title = r"uniform tokens, $d = n^\alpha$, $n = 10^8$, theory"
    return Panel(title, r"$\gamma$", r"$\alpha$", [image, border])


def study(options: Options) -> Outcome:
    """Formula, limits, direct sums."""
    cases = [(500, d, gamma, 0.0, 6) for d in (4, 16, 64, 256) for gamma in (0.25, 0.5, 0.75, 1.0)]
    cases += [(500, 64, gamma, COMMON, 6) for gamma in (0.5, 1.0, 1.5, 2.0, 2.5)]
    if options.full:
        cases += [(10_000, d, gamma, 0.0, 1) for d in (10, 100) for gamma in (0.25, 0.5, 1.0)]
        cases += [(10_000, 100, gamma, COMMON, 1) for gamma in (1.0, 2.0, 2.5)]
    samples, sizes = [sample(*case) for case in cases], (1e8, 1e12)
    return Outcome(
        [*limit_tables(sizes), samples_table(samples)],
        promised(samples, sizes),
        [high_dimension(samples), *phases()],
        [regimes_panel(), convergence_panel(), samples_panel(samples), map_panel()],
        columns=2,
    )


main = Command(study)


if __name__ == "__main__":
    sys.exit(main())
