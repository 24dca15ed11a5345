# %% [markdown]
# # Lesson 5: grid against particles
#
# A transformer moves $n$ tokens $x_i$ by $\dot x_i = v[\mu](x_i)$, where
# $\mu = \frac1n \sum_j \delta_{x_j}$. The continuity equation moves a density by the *same* field
# $v$. Both are measures, so both can be compared with the same numbers.
#
# **The idea.** Particles follow the equation exactly; what is wrong is where they start. Random
# starts give errors $n^{-1/2}$ in averages, cells give $h^2 \sim 1/N$. In the transport distance
# $W_2$, which sees the atoms themselves, both give $n^{-1/2}$.

# %%
"""Lesson 5: moments and transport distances of cells and particles against an exact solution."""

# mypy: allow-untyped-defs
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, initial
from pde.simulation import run_to
from validation import exact, wasserstein

# %% [markdown]
# ## One law, one field
#
# The start is a von Mises-Fisher law, $\rho_0 \sim e^{\langle e, x\rangle}$, and
# $V = B = I$, $\beta = 4$. Everything is symmetric about the axis $e$, so the equation reduces to
# one variable, the height $\langle e, x\rangle$, and can be solved there to all digits.
# (The meshes do not know of that axis: it is in general position to them.)

# %%
axis = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0][:, 2]
law = initial.von_mises_fisher(axis, kappa=1.0)
field = SelfAttention(V=np.eye(3), B=np.eye(3), beta=4.0)
equation, time = Equation(field), 1.0

reduced = exact.AxisymmetricAttention((1, 1), (1, 1), 4.0, lambda u: np.exp(u) / np.sinh(1.0), n=60)
end = reduced.density(time)
print(
    f"mean height: {reduced.density(0.0).moment(1):.6f} at the start, {end.moment(1):.9f} at t = 1"
)
assert abs(reduced.density(0.0).moment(1) - (1 / np.tanh(1) - 1)) < 1e-12

# %% [markdown]
# ## Particles by hand
#
# The whole method is one line for the velocities and one for the step. With $V = B = I$ the
# softmax mean of $x_i$ is $\sum_j w_{ij} x_j$, and the velocity its part tangent to the sphere.
# The library does the same, with a method of fourth order in time and fast sums.


# %%
def velocity(x, beta=4.0):
    """(n, d) velocities of n tokens of equal mass."""
    w = np.exp(beta * (x @ x.T - 1))
    m = (w / w.sum(axis=1, keepdims=True)) @ x
    return m - (m * x).sum(axis=1, keepdims=True) * x


def by_hand(x, steps):
    """(n, d) tokens at the end, by Euler steps put back on the sphere."""
    for _ in range(steps):
        x = x + time / steps * velocity(x)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


tokens = initial.sample(law, 300, seed=1)
moved = run_to(ParticleSystem(equation), tokens, time)
gaps = [abs(by_hand(tokens, steps) - moved).max() for steps in (20, 40, 80)]
print(
    f"Euler by hand, 20, 40, 80 steps: {', '.join(f'{gap:.1e}' for gap in gaps)} from the library"
)
assert gaps[2] < 0.01 and 1.8 < gaps[0] / gaps[1] < 2.2 and 1.8 < gaps[1] / gaps[2] < 2.2

# %% [markdown]
# ## Moments: random particles
#
# At the start the mean height of $n$ independent tokens is wrong by
#
# $$ \bigl(\mathbb E\,|\bar u - \mathbb E u|^2\bigr)^{1/2} = \frac{\sigma}{\sqrt n}, \qquad
#    \sigma^2 = \mathrm{Var}\, u = 1 - \frac{1}{\sinh^2 1} . $$
#
# The field carries that error on. Here it attracts, so the error grows a little, but it keeps its
# power of $n$. We take the root mean square over 24 clouds.

# %%
sigma = np.sqrt(1 - 1 / np.sinh(1) ** 2)
counts = np.array([100, 400, 1600])
exact_start, exact_end = reduced.density(0.0).moment(1), end.moment(1)


def rms_errors(n, clouds=24):
    """Root mean square error of the mean height of n random tokens, at the start and the end."""
    errors = []
    for seed in range(clouds):
        x = initial.sample(law, n, seed)
        y = run_to(ParticleSystem(equation), x, time, tolerance=1e-4)
        errors.append([axis @ x.mean(axis=0) - exact_start, axis @ y.mean(axis=0) - exact_end])
    return np.sqrt(np.mean(np.square(errors), axis=0))


random = np.array([rms_errors(n) for n in counts])
print("     n   start  sigma/sqrt(n)     end")
for n, (start, final) in zip(counts, random, strict=True):
    print(f"{n:6d}  {start:.4f}  {sigma / np.sqrt(n):13.4f}  {final:.4f}")
power = np.polyfit(np.log(counts), np.log(random[:, 1]), 1)[0]
print(f"at the end the error falls like n^{power:.2f}")
assert (abs(random[:, 0] / (sigma / np.sqrt(counts)) - 1) < 0.3).all()
assert (random[:, 1] > random[:, 0]).all() and abs(power + 0.5) < 0.1

# %% [markdown]
# ## Moments: cells, and particles that start from cells
#
# Finite volumes of order 2 have an error $h^2$. And particles? Put one at the centroid of each
# cell, with the mass of the cell: a *quiet start*. Then nothing is random, and their error is
# $h^2$ too. So it is not particles that cost $n^{-1/2}$, it is chance.

# %%
frequencies = (6, 8, 12, 16)
meshes = [icosphere(f) for f in frequencies]
widths, cells = np.array([[mesh.spacing, mesh.n_cells] for mesh in meshes]).T


def solve(mesh):
    """The measures at the end: of the cells, and of particles that start from them."""
    rho = mesh.average(law)
    system = FiniteVolume(mesh, equation, order=2)
    particles = ParticleSystem(equation, weights=mesh.areas * rho)
    on_cells = system.measure(run_to(system, rho, time))
    return on_cells, particles.measure(run_to(particles, mesh.centroids, time, tolerance=1e-5))


solved = [solve(mesh) for mesh in meshes]
heights = np.array([[axis @ mu.mean() for mu in pair] for pair in solved])
errors = abs(heights - exact_end)
for N, (of_cells, of_particles) in zip(cells, errors, strict=True):
    print(f"{N:6.0f} cells: error {of_cells:.1e}; as particles {of_particles:.1e}")
orders = [np.polyfit(np.log(widths), np.log(error), 1)[0] for error in errors.T]
needed = counts[-1] * (random[-1, 1] / errors[-1, 0]) ** 2
print(f"orders in h: {orders[0]:.2f} and {orders[1]:.2f}")
print(f"as many random tokens as {cells[-1]:.0f} cells are worth: {needed:.1e}")
assert all(abs(order - 2) < 0.15 for order in orders) and errors[-1].max() < 5e-4
assert needed > 1e6

# %% [markdown]
# ## Transport distance
#
# $W_2$ asks how far mass has to be carried to turn one measure into the other, here with the
# chordal cost $|x-y|^2$. It sees every atom: $n$ atoms in two dimensions are at least about
# $n^{-1/2}$ from any density, however they are placed. For the centroids of regular hexagons the
# constant is the second moment of a cell,
#
# $$ W_2 \approx \sqrt{5/36}\; h = 0.373\, h . $$
#
# Random atoms leave gaps and heaps, and are more than twice as far. The reference is a quiet start
# from 5,762 cells; it is made of atoms itself, which adds about $(0.373 \cdot 0.05)^2$ to $W_2^2$.

# %%
fine = solve(icosphere(24))[1]


def distance(mu):
    """W2 to the reference, both of total 1."""
    ours, theirs = (Measure(nu.points, nu.weights / nu.total) for nu in (mu, fine))
    return wasserstein.distance(ours, theirs, tolerance=1e-3).value


distances = []
for pair, N, h in zip(solved[:3], cells, widths, strict=False):
    tokens = initial.sample(law, int(N), seed=3)
    independent = Measure(run_to(ParticleSystem(equation), tokens, time, tolerance=1e-4))
    distances.append([distance(mu) for mu in (*pair, independent)])
    print(
        f"{N:6.0f} atoms: cells {distances[-1][0]:.4f} = {distances[-1][0] / h:.3f} h, "
        f"from cells {distances[-1][1]:.4f}, random {distances[-1][2]:.4f}"
    )
grid, quiet, chance = np.array(distances).T
powers = [np.polyfit(np.log(cells[:3]), np.log(one), 1)[0] for one in (grid, chance)]
print(f"powers of n: cells {powers[0]:.2f}, random {powers[1]:.2f}")
assert (abs(grid / widths[:3] - 0.373) < 0.03).all() and (abs(quiet / grid - 1) < 0.1).all()
assert (chance > 2 * grid).all() and (abs(np.array(powers) + 0.5) < 0.05).all()

# %% [markdown]
# ## The picture

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
left.loglog(counts, random[:, 1], "s-", color="C2", label="random particles")
left.loglog(cells, errors[:, 0], "o-", color="C0", label="cells")
left.loglog(cells, errors[:, 1], "x-", color="C1", label="particles from cells")
left.loglog(counts, random[0, 1] * (counts / 100) ** -0.5, "k:", lw=1, label="$n^{-1/2}$, $n^{-1}$")
left.loglog(cells, errors[0, 0] * cells[0] / cells, "k:", lw=1)
left.set(title="Error of the mean height, t = 1", xlabel="cells or particles", ylim=(5e-5, 0.8))
left.legend(fontsize="small", ncols=2, loc="upper center")

middle.loglog(cells[:3], chance, "C2s-", label="random particles")
middle.loglog(cells[:3], grid, "C0o-", label="cells")
middle.loglog(cells[:3], quiet, "C1x-", label="particles from cells")
middle.loglog(cells[:3], 0.373 * widths[:3], "k:", lw=1, label="0.373 h")
middle.set(title="$W_2$ to the solution, t = 1", xlabel="atoms", ylim=(0.03, 0.4))
middle.set_xticks(cells[:3], [f"{N:.0f}" for N in cells[:3]])
middle.set_xticks([], minor=True)
middle.set_yticks([0.05, 0.1, 0.2], ["0.05", "0.1", "0.2"])
middle.set_yticks([], minor=True)
middle.legend(fontsize="small")

u = np.linspace(-1, 1, 200)
bins = np.linspace(-1, 1, 21)
tokens = run_to(ParticleSystem(equation), initial.sample(law, 1600, seed=0), time)
right.hist(tokens @ axis, bins, density=True, color="C2", alpha=0.4, label="1600 random particles")
on_cells = solved[-1][0]
share, _ = np.histogram(on_cells.points @ axis, bins, weights=on_cells.weights)
right.plot((bins[1:] + bins[:-1]) / 2, share / 0.1, "C0o", ms=4, label="2562 cells")
right.plot(u, end.profile(u) / 2, "k", lw=1, label="exact")
right.set(title="Density of the height, t = 1", xlabel=r"$\langle e, x\rangle$")
right.legend(fontsize="small")

out = Path(os.environ.get("LESSONS_OUT", "out/lessons"))
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "5_grid_against_particles.png", dpi=150)

# %% [markdown]
# ## Exercise 1: how many tokens?
#
# How many independent tokens make the error of the mean height at the *start* $10^{-4}$ (root mean
# square)?


# %%
def check_1(n):
    """To one per cent."""
    assert abs(sigma / np.sqrt(n) / 1e-4 - 1) < 0.01, "not that many"


answer_1 = ...  # a number
if answer_1 is not ...:
    check_1(answer_1)

# %% [markdown]
# ## Exercise 2: pairs
#
# Give every token $x$ a partner, $x$ turned by $\pi$ about the axis $e$. What does that do to the
# mean across the axis, at the start and later?


# %%
def check_2(pairs):
    """No mean across the axis at any time; heights are still those of the law."""
    x = pairs(400, 1)
    y = run_to(ParticleSystem(equation), x, time)
    for points in (x, y):
        mean = points.mean(axis=0)
        assert abs(mean - (axis @ mean) * axis).max() < 1e-7, "there is a mean across the axis"
    assert x.shape == (400, 3) and 0.01 < np.std(x @ axis) < 1
    assert abs(axis @ x.mean(axis=0) - exact_start) < 4 * sigma / np.sqrt(200), "not the law"


answer_2 = ...  # a function (n, seed) -> (n, 3) tokens
if answer_2 is not ...:
    check_2(answer_2)

# %% [markdown]
# ## Exercise 3: a quiet start without a mesh
#
# Place $n$ tokens of *equal* mass such that the mean is wrong by less than $1/n$. The height of
# this law has the quantiles $u(q) = 1 + \log(q + (1-q) e^{-2})$, $0 < q < 1$. Hint: sunflower seeds
# turn by the golden angle $\pi (3 - \sqrt 5)$ from one to the next.


# %%
def check_3(start):
    """The mean at the start to 1/n; at the end to ten times better than chance."""
    n = 400
    x = start(n)
    assert np.shape(x) == (n, 3) and np.allclose(np.linalg.norm(x, axis=1), 1)
    assert np.linalg.norm(x.mean(axis=0) - exact_start * axis) < 1 / n, "at the start"
    y = run_to(ParticleSystem(equation), x, time)
    error = abs(axis @ y.mean(axis=0) - exact_end)
    print(f"quiet start of {n}: error {error:.1e} at the end, random {random[1, 1]:.1e}")
    assert error < 0.1 * random[1, 1], "at the end"


answer_3 = ...  # a function n -> (n, 3) tokens
if answer_3 is not ...:
    check_3(answer_3)

# %% [markdown]
# ## Solutions
#
# 1. $n = (\sigma / 10^{-4})^2 = 2.76 \cdot 10^7$.
# 2. $x \mapsto 2\langle e,x\rangle e - x$ keeps the height and reverses the rest. The field is the
#    same for both up to that turn, so partners stay partners and their mean stays on the axis. The
#    error of the height is that of $n/2$ tokens.
# 3. Heights at the quantiles $(i + \frac12)/n$, longitudes by the golden angle.


# %%
def pairs(n, seed):
    """Exercise 2."""
    x = initial.sample(law, n // 2, seed)
    return np.concatenate([x, 2 * (x @ axis)[:, None] * axis - x])


def sunflower(n):
    """Exercise 3."""
    i = np.arange(n)
    u = 1 + np.log((i + 0.5) / n + (1 - (i + 0.5) / n) * np.exp(-2))
    turn = np.pi * (3 - np.sqrt(5)) * i
    e1, e2 = np.linalg.svd(axis[None])[2][1:]
    ring = np.cos(turn)[:, None] * e1 + np.sin(turn)[:, None] * e2
    return u[:, None] * axis + np.sqrt(1 - u**2)[:, None] * ring


check_1((sigma / 1e-4) ** 2)
assert abs((sigma / 1e-4) ** 2 / 2.76e7 - 1) < 0.002
check_2(pairs)
check_3(sunflower)
