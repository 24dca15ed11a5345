# %% [markdown]
# # Lesson 1: upwind fluxes and mass
#
# A velocity $u(\theta)$ carries a density $\rho(\theta, t)$ round the circle:
#
# $$ \partial_t \rho + \partial_\theta (\rho\, u) = 0 . $$
#
# **The idea.** Store how much is in each cell, and change it only by what crosses an edge. What
# leaves one cell enters the next, so the total mass is constant to rounding, on any mesh and for
# any velocity.

# %%
"""Lesson 1: upwind fluxes on the circle, mass, positivity, numerical diffusion."""

# mypy: allow-untyped-defs
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, SelfAttention, Simulation, initial

# %% [markdown]
# ## Cells and fluxes
#
# Cut the circle into $n$ arcs of length $h = 2\pi/n$. Let $\rho_i$ be the average of $\rho$ over
# cell $i$, and $F_i$ the flux $\rho u$ through edge $i$, which lies between the cells $i-1$ and
# $i$. The equation, integrated over a cell, is exact:
#
# $$ h \frac{d\rho_i}{dt} = F_i - F_{i+1} . $$
#
# Only the value of $\rho$ on an edge has to be guessed. Upwind takes it from the cell that the
# flow comes from:
#
# $$ F_i = u_i^+ \rho_{i-1} - u_i^- \rho_i , \qquad u^\pm = \max(\pm u, 0) . $$
#
# With Euler steps in time this is the whole scheme.

# %%
n = 64
mesh = circle(n)
h = 2 * np.pi / n
before, after = mesh.edge_cells.T  # edge i lies between cell i - 1 and cell i


def upwind(rho, u):
    """(n,) fluxes through the edges, counter-clockwise."""
    return np.maximum(u, 0) * rho[before] + np.minimum(u, 0) * rho[after]


def step(rho, u, dt, flux=upwind):
    """(n,) cell averages one Euler step later."""
    F = flux(rho, u)
    return rho + dt / h * (F - np.roll(F, -1))


# %% [markdown]
# ## Mass
#
# Sum over all cells. Every flux stands there twice, with opposite signs:
#
# $$ \frac{d}{dt} \sum_i h \rho_i = \sum_i (F_i - F_{i+1}) = 0 . $$
#
# The sum *telescopes*. It does so for every choice of $F$: conservation is a matter of the form of
# the scheme, accuracy a matter of the flux. We start from a hill of mass 1 and let it go round with
# a velocity that is not constant.

# %%
hill = mesh.average(initial.von_mises_fisher([1.0, 0.0], kappa=10.0))
hill /= h * hill.sum()
u = 1 + 0.6 * mesh.edge_midpoints[:, 0]  # u = 1 + 0.6 cos(theta)
turn = 2 * np.pi / 0.8  # the time of one turn: the integral of 1/u
steps = 4 * n
dt = turn / steps

rho, mass = hill, []
for _ in range(steps):
    rho = step(rho, u, dt)
    mass.append(h * rho.sum())
drift = np.abs(np.array(mass) - 1).max()
print(f"{steps} steps: mass drifts by {drift:.0e}, least density {rho.min():.1e}")
assert drift < 1e-13

# %% [markdown]
# ## What happens without that form
#
# By the product rule the same equation reads
# $\partial_t \rho + u\, \partial_\theta\rho + u'\rho = 0$. For smooth solutions it is the same,
# but its differences do not telescope. Mass is then as wrong as the rest of the solution: the
# error halves with $h$, where it was $10^{-16}$ before.


# %%
def product_rule_masses(n):
    """(4n,) masses over one turn, of the scheme that differences the product rule."""
    mesh, h, dt = circle(n), 2 * np.pi / n, turn / (4 * n)
    rho = mesh.average(initial.von_mises_fisher([1.0, 0.0], kappa=10.0))
    rho /= h * rho.sum()
    u, slope = 1 + 0.6 * mesh.centers[:, 0], -0.6 * mesh.centers[:, 1]
    masses = []
    for _ in range(4 * n):
        rho = rho - dt * (u * (rho - np.roll(rho, 1)) / h + slope * rho)
        masses.append(h * rho.sum())
    return np.array(masses)


lost = {m: product_rule_masses(m) for m in (64, 128, 256)}
worst = [np.abs(masses - 1).max() for masses in lost.values()]
for m, error in zip(lost, worst, strict=True):
    print(f"{m:4d} cells: largest error of the mass {error:.4f}")
assert worst[2] > 0.02 and 1.8 < worst[0] / worst[1] < 2.2 and 1.8 < worst[1] / worst[2] < 2.2

# %% [markdown]
# ## No negative densities
#
# Write the step with the fluxes put in:
#
# $$ \rho_i^{\rm new} = \Bigl(1 - \tfrac{\Delta t}{h}(u_{i+1}^+ + u_i^-)\Bigr) \rho_i
#    + \tfrac{\Delta t}{h} u_i^+ \rho_{i-1} + \tfrac{\Delta t}{h} u_{i+1}^- \rho_{i+1} . $$
#
# All weights are $\ge 0$ while the bracket is, so $\rho \ge 0$ stays. The bracket says: in one step
# no cell may lose more than it holds. Lesson 3 is about this bound. The hardest test is one full
# cell among empty ones.

# %%
rho = np.zeros(n)
rho[0] = 1 / h
lowest = 0.0
for _ in range(steps):
    rho = step(rho, u, dt)
    lowest = min(lowest, rho.min())
print(f"one full cell: least density ever {lowest}")
assert lowest == 0.0

# %% [markdown]
# ## The price: numerical diffusion
#
# Let $u = 1$ and $\lambda = \Delta t / h$. Taylor expansion of the step about
# $(\theta_i, t)$, with $\rho_{tt} = \rho_{\theta\theta}$ for the solution, gives
#
# $$ \rho_t + \rho_\theta = D\, \rho_{\theta\theta} + O(h^2),
#    \qquad D = \tfrac h2 (1 - \lambda) . $$
#
# Upwind solves an equation with diffusion, to second order. That can be measured: diffusion damps
# the mean $m(t) = \int e^{i\theta} \rho\, d\theta$ like $e^{-Dt}$. The step multiplies the mode
# $e^{i\theta}$ by
#
# $$ G = 1 - \lambda (1 - e^{-ih}), \qquad |G|^2 = 1 - 4\lambda(1-\lambda) \sin^2 \tfrac h2 , $$
#
# so the effective diffusion is exactly $D = -\log|G| / \Delta t$.


# %%
def means(n, courant, time=2.0):
    """Times and means m(t) of a hill carried at speed 1 on n cells."""
    mesh, h = circle(n), 2 * np.pi / n
    rho = mesh.average(initial.von_mises_fisher([1.0, 0.0], kappa=10.0))
    wave = mesh.centers @ [1, 1j]  # e^{i theta}
    found = [h * rho @ wave]
    for _ in range(round(time / (courant * h))):
        rho = rho - courant * (rho - np.roll(rho, 1))
        found.append(h * rho @ wave)
    return courant * h * np.arange(len(found)), np.array(found)


def diffusion(n, courant):
    """The effective diffusion coefficient, from the decay of |m|."""
    t, m = means(n, courant)
    return -np.log(abs(m[-1] / m[0])) / t[-1]


print("cells  courant  D measured  -log|G|/dt  h/2 (1 - courant)")
for cells in (32, 64, 128):
    for courant in (0.25, 0.5, 0.8):
        width = 2 * np.pi / cells
        G2 = 1 - 4 * courant * (1 - courant) * np.sin(width / 2) ** 2
        exact, leading = -0.5 * np.log(G2) / (courant * width), 0.5 * width * (1 - courant)
        D = diffusion(cells, courant)
        print(f"{cells:5d}  {courant:7.2f}  {D:10.6f}  {exact:10.6f}  {leading:17.6f}")
        assert abs(D - exact) < 1e-12
        assert abs(D - leading) < width**2 * leading
assert abs(diffusion(64, 1.0)) < 1e-12  # a shift by one cell in each step: no error at all

# %% [markdown]
# ## The same with the library
#
# `FiniteVolume` of order 1 is this scheme, on any mesh. A velocity is a field of tangent vectors;
# on the circle $u\,e_\theta$ with $e_\theta = (-\sin\theta, \cos\theta)$.

# %%
field = PrescribedVelocity(lambda x, t: (1 + 0.6 * x[:, :1]) * (x @ [[0, 1], [-1, 0]]))
system = FiniteVolume(mesh, Equation(field), order=1)
by_hand = (step(hill, u, dt) - hill) / dt
difference = np.abs(system.rhs(0.0, hill) - by_hand).max()
print(f"by hand and by FiniteVolume: {difference:.0e} apart")
assert difference < 1e-12

# %% [markdown]
# On the sphere edges have lengths and cells areas, and $d\rho_i/dt$ is the sum of the fluxes over
# the edges of cell $i$, divided by its area. Nothing else changes, not even for the velocity of a
# transformer, which depends on all of $\rho$: the mass telescopes.

# %%
sphere = icosphere(8)
attention = SelfAttention(V=np.eye(3), B=np.eye(3), beta=4.0)
system = FiniteVolume(sphere, Equation(attention), order=1)
simulation = Simulation(system, initial.random_band_limited(seed=1))
solution = simulation.run(until=4.0, save_at=np.linspace(0, 4, 9))
masses, least = solution.diagnostics["mass"], solution.diagnostics["minimum"]
print(f"{sphere.n_cells} cells, {simulation.steps} steps")
print(f"mass 1 to {np.abs(masses / masses[0] - 1).max():.0e}, least density {least.min():.0e}")
assert np.abs(masses / masses[0] - 1).max() < 1e-13 and least.min() >= 0

# %% [markdown]
# ## The picture

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")

for m in (32, 64, 256):
    coarse, rho = circle(m), circle(m).average(initial.von_mises_fisher([1.0, 0.0], kappa=10.0))
    theta = (np.arctan2(coarse.centers[:, 1], coarse.centers[:, 0]) + np.pi) % (2 * np.pi) - np.pi
    order = np.argsort(theta)
    exact_hill = rho
    for _ in range(2 * m):  # courant number 1/2, one turn
        rho = rho - 0.5 * (rho - np.roll(rho, 1))
    left.plot(theta[order], rho[order], label=f"{m} cells")
left.plot(theta[order], exact_hill[order], "k--", lw=1, label="exact")
left.set(title="After one turn with $u = 1$", xlabel=r"$\theta$", ylabel=r"$\rho$")
left.legend()

middle.axhline(0, color="k", lw=1.5, label="fluxes, any mesh")
for m, masses in lost.items():
    middle.plot(np.arange(1, 4 * m + 1) / (4 * m), masses - 1, label=f"product rule, {m}")
middle.set(title="Error of the mass", xlabel="turns", ylabel="mass - 1")
middle.legend(fontsize="small")

for m in (32, 64, 128):
    t, m_of_t = means(m, 0.5)
    loss = -np.log(abs(m_of_t / m_of_t[0]))
    (dots,) = right.plot(t[:: m // 16], loss[:: m // 16], "o", ms=4, label=f"{m} cells")
    right.plot(t, 0.25 * (2 * np.pi / m) * t, color=dots.get_color(), lw=1)
right.set(title="Damping: measured (dots), $Dt$ (lines)", xlabel="t", ylabel="$-\\log |m(t)/m(0)|$")
right.legend()

out = Path(os.environ.get("LESSONS_OUT", "out/lessons"))
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "1_upwind_and_mass.png", dpi=150)

# %% [markdown]
# ## Exercise 1: the central flux
#
# Take the mean of both cells on each edge, $F_i = u_i (\rho_{i-1} + \rho_i)/2$. It is more
# accurate, and it conserves mass as well. What does it do to one full cell among empty ones?


# %%
def check_1(flux):
    """A central flux: mass stays, positivity does not."""
    assert np.allclose(flux(np.ones(n), u), u), "a constant density has the flux u"
    moved = step(hill, u, dt, flux)
    assert abs(h * moved.sum() - 1) < 1e-13, "mass"
    full = np.where(np.arange(n) == 5, 1.0, 0.0)
    inflow = np.flatnonzero(flux(full, u))
    assert list(inflow) == [5, 6], "edges 5 and 6 see cell 5, on both sides"
    print(f"central: least density {step(full, u, dt, flux).min():.3f} after one step")


answer_1 = ...  # a function (rho, u) -> (n,) fluxes
if answer_1 is not ...:
    check_1(answer_1)

# %% [markdown]
# ## Exercise 2: how many cells?
#
# At the Courant number 0.8, how many cells does it take at least so that the numerical diffusion
# of upwind is at most $10^{-3}$?


# %%
def check_2(cells):
    """The answer is enough, and one per cent fewer are not."""
    assert diffusion(cells, 0.8) <= 1e-3, "not enough cells"
    assert diffusion(int(0.99 * cells), 0.8) > 1e-3, "fewer do it too"


answer_2 = ...  # a whole number
if answer_2 is not ...:
    check_2(answer_2)

# %% [markdown]
# ## Exercise 3: the right speed
#
# Waves do not only lose height, they also travel at a wrong speed: the mode $e^{ik\theta}$ turns
# by $-\arg G$ in a step, instead of by $k \lambda h$. At one Courant number $0 < \lambda < 1$ the
# speed is exact for all modes. Which one?


# %%
def check_3(courant):
    """The mean turns by exactly one radian in a unit of time."""
    assert 0 < courant < 1, "look between 0 and 1"
    t, m = means(32, courant)
    assert abs(np.unwrap(np.angle(m))[-1] / t[-1] - 1) < 1e-10, "the speed is not exact"


answer_3 = ...  # a number
if answer_3 is not ...:
    check_3(answer_3)

# %% [markdown]
# ## Solutions
#
# 1. The full cell's weight stays, but the cell behind it loses what it does not have: its
#    downstream edge carries half of the full cell's density. One step makes it negative.
# 2. $D = h(1-\lambda)/2 = 0.2\,\pi/n \le 10^{-3}$ gives $n \ge 628.3$, so 629 cells.
# 3. $\lambda = 1/2$: then $G = (1 + e^{-ikh})/2 = e^{-ikh/2} \cos(kh/2)$, which turns by
#    $kh/2 = k\lambda h$.


# %%
def central(rho, u):
    """Exercise 1."""
    return u * (rho[before] + rho[after]) / 2


check_1(central)
assert step(np.where(np.arange(n) == 5, 1.0, 0.0), u, dt, central).min() < 0
check_2(629)
check_3(0.5)
