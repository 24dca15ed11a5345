"""V = I and B = Q^T K positive definite: collapse to E, clusters on E, slow merging.

Claim (Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931; Rigollet, arXiv:2512.01868): for V = I
three time scales part at large beta. First the mass collapses to E, the top eigenspace of B, here
a plane; then it forms clusters on the circle of E; then clusters merge, in times exponential in
beta: all of the sphere is an eigenspace of V, so nothing but the other clusters moves a cluster.

Rates. Collapse: with eigenvalues b on E and b' across, deviations fall like e^{-(1 - b'/b) t} and
mass leaves the complement of E at the rate (b - b')/b', so c = 1 - b'/b for b' <= b. Merging: two
equal clusters (or particles) at the angle phi on E see each other with the weight
1 / (1 + e^{beta b (1 - cos phi)}), so

    dphi/dt = -2 sin(phi) / (1 + e^{beta b (1 - cos phi)}),

and the time from phi to a small angle is about e^{beta b (1 - cos phi)}: its logarithm grows with
beta with the slope b (1 - cos phi).

Where the collapse ends: means of clusters are neutral for V = I (rate v - lam = 0), so a cluster
stays at the distance from E at which it became narrower than 1 / sqrt(beta). W2 to E therefore
stops at a temperature error, and does not fall to 0.

On cells there is no third phase: edges lie h/2 off a cell's centre, where a cluster attracts with
the speed h/2, so a cluster within a cell stays unless others pull by more than that. The number of
clusters on the cells must stop falling; the study shows when.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pde import Equation, ParticleSystem, SelfAttention, initial
from pde.arguments import Array
from pde.limits import distance_to_space, dominant_eigenspace
from pde.simulation import run_to
from validation import fits, side_by_side
from validation.problems.axes import symmetric
from validation.side_by_side import arcs
from validation.study import Bar, Command, Curve, Finding, Options, Outcome, Panel, Table, each
from validation.study.options import Option

EIGENVALUES = (1.0, 1.0, 0.3)
COLLAPSED = 0.15
"""Share of W2 to E at the start at which the collapse is over, above its floor."""
MERGING_BETAS = (2.0, 4.0, 6.0, 8.0)
APART, TOGETHER = 2.0 * np.pi / 3.0, 0.1
"""Angles at which two particles start and count as merged."""
LAW = initial.random_band_limited(seed=5, degree=2, amplitude=0.3)


def merging_time(beta: float, b: float = 1.0, start: float = APART, end: float = TOGETHER) -> float:
    """int_end^start (1 + e^{beta b (1 - cos phi)}) / (2 sin phi) dphi, start < pi."""
    from scipy.integrate import quad

    def inverse_speed(phi: float) -> float:
        return (1.0 + np.exp(beta * b * (1.0 - np.cos(phi)))) / (2.0 * np.sin(phi))

    return float(quad(inverse_speed, end, start, epsrel=1e-10)[0])


def pair_angle(beta: float, time: float) -> float:
    """Angle of two particles on the circle after `time`, from APART."""
    half = 0.5 * APART
    points = np.array([[np.cos(half), np.sin(half)], [np.cos(half), -np.sin(half)]])
    system = ParticleSystem(Equation(SelfAttention(np.eye(2), np.eye(2), beta)))
    x, y = run_to(system, points, time)
    return float(2.0 * np.arcsin(0.5 * np.linalg.norm(x - y)))


@dataclass(frozen=True, eq=False)
class Result:
    """Over time, by "grid" and "particles": distance to E and number of clusters, (K,)."""

    beta: float
    width: float
    times: Array
    distance: dict[str, Array]
    clusters: dict[str, Array]

    @property
    def expected_rate(self) -> float:
        """1 - b'/b."""
        return 1.0 - min(EIGENVALUES) / max(EIGENVALUES)

    def rate(self, which: str) -> float:
        """Of the collapse, from t = 0.5 on."""
        t, values = self.times, self.distance[which]
        return fits.rate(t, values, (t >= 0.5) & (values > COLLAPSED * values[0]))

    def collapsed(self, which: str) -> float:
        """When W2 to the laws on E has fallen to its share COLLAPSED."""
        values = self.distance[which]
        return fits.crossing(self.times, -values, -COLLAPSED * float(values[0]))

    def clustered(self, which: str) -> float:
        """When there are most clusters."""
        return float(self.times[np.argmax(self.clusters[which])])

    def phases(self, which: str) -> list[tuple[int, float]]:
        """(number of clusters, how long) from the largest number on."""
        begin = int(np.argmax(self.clusters[which]))
        counts, t = self.clusters[which][begin:], self.times[begin:]
        changes = np.flatnonzero(np.diff(counts)) + 1
        starts, ends = [0, *changes], [*changes, len(t) - 1]
        return [(int(counts[i]), float(t[j] - t[i])) for i, j in zip(starts, ends, strict=True)]


def measure(beta: float, frequency: int, until: float) -> Result:
    """Solve with times in geometric progression: the phases part on a logarithmic scale."""
    B = symmetric(EIGENVALUES)
    E = dominant_eigenspace(B)
    times = np.concatenate([[0.0], np.geomspace(0.25, until, 64)])
    field = SelfAttention(np.eye(3), B, beta)
    both = side_by_side.run(field, LAW, side_by_side.mesh_of(3, frequency), times)
    return Result(
        beta,
        both.width,
        times,
        both.of_both(lambda mu: distance_to_space(mu, E)),
        both.of_both(lambda mu: float(arcs(mu, E))),
    )


def table(result: Result) -> Table:
    """Distance to E and number of clusters over time."""
    rows = np.column_stack([result.times, *result.distance.values(), *result.clusters.values()])
    rows = rows[[i for i in range(len(rows)) if i % 6 == 0 or i == len(rows) - 1]]
    columns = ["t:.2f", *each(".4f", "W2 to E, cells", "particles")]
    columns += each(".0f", "clusters, cells", "particles")
    title = f"V = I, B = diag{EIGENVALUES} on its axes, beta = {result.beta:g}"
    return Table(f"{title}, h = {result.width:.3f}", columns, rows)


def findings(result: Result) -> Iterator[Finding]:
    """The rate of the collapse, the order of the phases, the slowing down of the merging."""
    for which in ("grid", "particles"):
        name, c = f"beta = {result.beta:g}, {which}", result.expected_rate
        rate = result.rate(which)
        text = f"{name}: collapse to E with rate {rate:.2f}, 1 - b'/b = {c:.2f}"
        yield Finding(text, abs(rate - c) < 0.3 * c)
        first, second = result.collapsed(which), result.clustered(which)
        text = f"{name}: collapsed at t = {first:.1f}, in clusters at t = {second:.1f}"
        yield Finding(text, first < second)
        phases = result.phases(which)
        words = ", ".join(f"{n} for {length:.0f}" for n, length in phases)
        numbers, lengths = zip(*phases, strict=True)
        merging = len(numbers) > 1 and list(numbers) == sorted(numbers, reverse=True)
        text = f"{name}: clusters merge, the last stage is the longest ({words} units of time)"
        yield Finding(text, merging and lengths[-1] == max(lengths))


def promised(
    results: Sequence[Result], rows: Sequence[tuple[float, float, float]]
) -> Iterator[Bar]:
    """The merging law of two particles; cells and particles alike while the mass collapses."""
    # Errors of a step, 1e-8, add up over the slow time; the angle falls at the rate 1 at the end.
    worst = max(abs(angle / TOGETHER - 1.0) for _, _, angle in rows)
    yield Bar.at_most("two particles: angle at the formula's time, error", worst, 1e-2)
    for result in results:
        early = result.times <= 2.0
        apart = np.abs(result.distance["grid"] - result.distance["particles"])[early].max()
        what = f"beta = {result.beta:g}: W2 to E, cells to particles in cell widths, t <= 2"
        yield Bar.at_most(what, apart / result.width, 0.5)


def merging_finding(rows: Sequence[tuple[float, float, float]]) -> Finding:
    """The logarithm of the merging time grows with beta, by the slope b (1 - cos phi)."""
    betas, times = np.array(rows)[-2:, 0], np.array(rows)[-2:, 1]
    slope, expected = fits.slope(betas, np.log(times)), 1.0 - np.cos(APART)
    text = f"merging takes e^(s beta), s = {slope:.2f}, b (1 - cos phi) = {expected:.2f}"
    return Finding(text, abs(slope - expected) < 0.2 * expected)


def panel(title: str, ylabel: str, of: str, results: Sequence[Result], log: str) -> Panel:
    """A quantity of the results over the logarithm of time."""
    curves = [
        Curve(one.times[1:], getattr(one, of)[which][1:], form, i, f"beta = {one.beta:g}, {which}")
        for i, one in enumerate(results)
        for which, form in (("grid", "-"), ("particles", "o"))
    ]
    return Panel(title, "t", ylabel, curves, log=log)


def study(options: Options) -> Outcome:
    """The three phases at all temperatures, and two particles that merge."""
    results = [measure(beta, options.frequency, options.until) for beta in options.betas]
    times = [(beta, merging_time(beta)) for beta in MERGING_BETAS]
    rows = [(beta, time, pair_angle(beta, time)) for beta, time in times]
    found = [finding for result in results for finding in findings(result)]
    columns = ["beta:g", "time, formula:.5g", "angle then:.5f"]
    title = f"two particles from the angle {APART:.3f} to {TOGETHER:g} on E"
    panels = [
        panel("collapse", "W2 to the laws on E", "distance", results, "xy"),
        panel("clusters on E (0: none yet)", "number", "clusters", results, "x"),
    ]
    tables = [*map(table, results), Table(title, columns, rows)]
    return Outcome(tables, promised(results, rows), [*found, merging_finding(rows)], panels)


main = Command(
    study,
    Option.numbers("--betas", (5.0, 10.0, 20.0), "BETA", "inverse temperatures"),
    Option("--until", 200.0, type=float, metavar="T", help="of the runs"),
    meshes=[10],
    full=[20],
)


if __name__ == "__main__":
    sys.exit(main())
