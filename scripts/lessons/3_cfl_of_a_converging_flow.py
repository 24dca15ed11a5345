# %% [markdown]
# # Lesson 3: the CFL bound of a converging flow
#
# How long may a time step be? The usual answer, cell width over speed, is right for a flow that
# passes through. The flows of transformers converge, and then it asks for too much.
#
# **The idea.** A step may be as long as no cell loses more than it holds. What a cell *gains* costs
# no step: a pure sink, which nothing leaves, bounds no step at all.

# %%
"""Lesson 3: the positivity bound of a step, outflow limiting, stages of Runge-Kutta methods."""

# mypy: allow-untyped-defs
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, SelfAttention, Simulation, initial

# %% [markdown]
# ## The bound
#
# Cell $i$ has length $A_i$, the left edge $i$ and the right edge $i+1$. The upwind step is
#
# $$ A_i \rho_i^{\rm new} = (A_i - \Delta t\, r_i)\, \rho_i
#    + \Delta t\, (u_i^+ \rho_{i-1} + u_{i+1}^- \rho_{i+1}) ,
#    \qquad r_i = u_{i+1}^+ + u_i^- . $$
#
# $r_i$ is the rate at which cell $i$ pours out, the last bracket what it receives, which is
# $\ge 0$. So $\rho \ge 0$ stays $\ge 0$, *for all data*, if and only if
#
# $$ \Delta t\, \frac{r_i}{A_i} \le 1 \quad \text{in every cell.} $$
#
# "If" is seen at once; for "only if" let all mass be in cell $i$.


# %%
def outflow_rates(u):
    """(n,) what leaves each cell at unit density; u: velocities at the left edges."""
    return np.maximum(np.roll(u, -1), 0) + np.maximum(-u, 0)


def upwind_step(rho, u, A, dt):
    """(n,) averages on cells of lengths A after an Euler step."""
    F = np.maximum(u, 0) * np.roll(rho, 1) - np.maximum(-u, 0) * rho
    return rho + dt / A * (F - np.roll(F, -1))


n = 120
h = 2 * np.pi / n
A, u = np.full(n, h), -np.sin(h * np.arange(n))
bound = 1 / (outflow_rates(u) / A).max()

rng = np.random.default_rng(0)
lowest = min(upwind_step(rng.random(n) ** 8, u, A, bound).min() for _ in range(1000))
full = np.where(np.arange(n) == np.argmax(outflow_rates(u) / A), 1.0, 0.0)
broken = upwind_step(full, u, A, 1.2 * bound).min()
print(f"steps of the bound: least density {lowest:.1e} in 1000 random tries")
print(f"1.2 times the bound: {broken:.3f}")
assert lowest >= 0 and abs(broken + 0.2) < 1e-12

# %% [markdown]
# ## A tiny cell in three places
#
# Let everything move at speed 1 from the source at $\theta = \pi$ to the sink at $\theta = 0$, and
# let one of 62 cells be a thousand times smaller than the others. The rule "length over speed"
# gives $\Delta t \le A_{\rm tiny}$ wherever that cell is. The true bound:

# %%
regular = 61
small = 2 * np.pi / regular / 1000


def circle_with_tiny_cell(position):
    """Lengths (n,) of the cells, and velocities (n,) at their left edges; cell 0 is the tiny one.

    The tiny cell lies around `position`.
    """
    A = np.full(regular + 1, (2 * np.pi - small) / regular)
    A[0] = small
    left = position - small / 2 + np.concatenate([[0], np.cumsum(A)[:-1]])
    return A, -np.sign(np.sin(left))


places = {"in the stream": np.pi / 2, "at the source": np.pi, "at the sink": 0.0}
bounds = {}
print(f"the tiny cell has the length {small:.1e}, the others {1000 * small:.3f}")
for name, position in places.items():
    A_tiny, u_tiny = circle_with_tiny_cell(position)
    bounds[name] = 1 / (outflow_rates(u_tiny) / A_tiny).max()
    print(f"{name}: dt <= {bounds[name]:.1e} = {bounds[name] / small:.1f} tiny lengths")
assert abs(bounds["in the stream"] / small - 1) < 1e-9
assert abs(bounds["at the source"] / small - 0.5) < 1e-9
assert bounds["at the sink"] / small > 499  # half a regular cell: that around the source

# %% [markdown]
# At the source the cell pours out on both sides: half a step. At the sink it costs nothing, and
# the steps are a thousand times longer than the rule would have them. Positive, conservative, and
# the tiny cell ends up with all the mass:

# %%
A_tiny, u_tiny = circle_with_tiny_cell(0.0)
rho, dt = np.full(regular + 1, 1 / (2 * np.pi)), 0.9 * bounds["at the sink"]
steps = int(5 / dt)
for _ in range(steps):
    rho = upwind_step(rho, u_tiny, A_tiny, dt)
share, mass = A_tiny[0] * rho[0], A_tiny @ rho
print(f"{steps} steps to t = 5: share of the tiny cell {share:.6f}, mass - 1 = {mass - 1:.0e}")
assert rho.min() >= 0 and abs(mass - 1) < 1e-13 and share > 0.999

# %% [markdown]
# ## Why higher order needs more
#
# With a slope the values at a cell's edges are $\rho_i \pm \frac h2 s_i$, and one of them exceeds
# the average. A cell that pours out $\Delta t\, u\, (\rho_i + \frac h2 |s_i|)$ may run dry under a
# bound that was derived for $\Delta t\, u\, \rho_i$. Two repairs, in this order:
#
# 1. cut edge values at zero (they are outflows of something that exists);
# 2. *outflow limiting*: where all outflows $\Delta t \sum F$ of a cell exceed its content
#    $A_i\rho_i$, multiply them by the ratio. The flux is changed for both cells of an edge, so
#    that mass is still conserved.


# %%
def step(rho, dt, cut=True, limit=True):
    """A step of second order on the regular circle; also the number of cells that were limited."""
    half_slope = (np.roll(rho, -1) - np.roll(rho, 1)) / 4
    to_right = np.maximum(np.roll(u, -1), 0) * (rho + half_slope)
    to_left = np.maximum(-u, 0) * (rho - half_slope)
    if cut:
        to_right, to_left = np.maximum(to_right, 0), np.maximum(to_left, 0)
    out = dt * (to_right + to_left)
    dry = limit & (out > h * rho) & (out > 0)
    content = (1 - 1e-14) * h * rho  # a hair less, for rounding
    scale = np.where(dry, content / np.where(dry, out, 1), 1)
    to_right, to_left = scale * to_right, scale * to_left
    inflow = np.roll(to_right, 1) + np.roll(to_left, -1)
    return rho + dt / h * (inflow - to_right - to_left), dry.sum()


def heun(rho, dt, **repairs):
    """Two Euler steps and a mean."""
    first, dry_1 = step(rho, dt, **repairs)
    second, dry_2 = step(first, dt, **repairs)
    return rho / 2 + second / 2, dry_1 + dry_2


def run(rho, one_step, courant, time):
    """The density at `time`, the least density of each step, the number of limited cells."""
    lows, limited = [], 0
    dt = courant * bound
    for _ in range(round(time / dt)):
        rho, dry = one_step(rho, dt)
        lows.append(rho.min())
        limited += dry
    return rho, np.array(lows), limited


theta = h * (np.arange(n) + 0.5)
box = np.where((theta > 1.5) & (theta < 2.5), 1.0, 0.0)
repaired = {}
for name, repairs in {
    "none": {"cut": False, "limit": False},
    "cut at zero": {"cut": True, "limit": False},
    "cut, outflow limited": {"cut": True, "limit": True},
}.items():
    end, lows, limited = run(box, lambda r, dt, k=repairs: heun(r, dt, **k), 0.8, time=1.0)
    repaired[name] = end
    print(f"{name:21s} least density {lows.min():9.1e}, mass changed {h * (end - box).sum():.0e}")
    assert abs(h * (end - box).sum()) < 1e-13
    assert lows.min() >= 0 if repairs["limit"] else lows.min() < -1e-3

# %% [markdown]
# Does the limiter spoil smooth solutions? An outflow exceeds the content only where
# $\lambda (1 + \frac h2 |s_i|/\rho_i) > 1$. At the Courant fraction $\lambda = 0.8$ the density
# would have to change by half of itself from cell to cell. On a smooth hill it touches no cell:

# %%
hill = np.exp(4 * np.cos(theta - 2))
same, _, limited = run(hill, heun, 0.8, time=1.0)
free, _, _ = run(hill, lambda r, dt: heun(r, dt, cut=False, limit=False), 0.8, time=1.0)
print(f"smooth hill: {limited} cells limited")
assert limited == 0 and (same == free).all()

# %% [markdown]
# ## Stages
#
# Heun's method is a mean of $\rho$ and of what two Euler steps make of it. Means of densities
# $\ge 0$ are $\ge 0$, so everything that an Euler step preserves is preserved. Methods that can be
# written so are called *strong-stability preserving* (SSP). The midpoint rule,
#
# $$ \rho^* = \rho + \tfrac{\Delta t}2 L(\rho), \qquad \rho^{\rm new} = \rho + \Delta t L(\rho^*),$$
#
# has the same order, the same number of stages, and for linear problems it is the same method. But
# it takes from $\rho$ what $\rho^*$ could afford:


# %%
def midpoint(rho, dt):
    """The midpoint rule with the same limited steps."""
    half = rho + (step(rho, dt)[0] - rho) / 2
    full, dry = step(half, dt)
    return rho + (full - half), dry


rough = np.random.default_rng(0).random(n) ** 8
lows = {}
for method in (heun, midpoint):
    _, lows[method.__name__], _ = run(rough, method, 0.8, time=3.0)
    print(f"{method.__name__:9s} least density {lows[method.__name__].min():.1e}")
assert lows["heun"].min() >= 0 and lows["midpoint"].min() < -1e-3

# %% [markdown]
# ## In the library
#
# `system.stage(t, rho).bound` is the bound above, and a simulation steps at 0.8 of it:

# %%
sink = PrescribedVelocity(lambda x, t: x[:, 1:] * (x @ [[0, -1], [1, 0]]))
system = FiniteVolume(circle(n), Equation(sink), order=2)
print(f"by hand {bound:.12f}, by the library {system.stage(0.0, hill).bound:.12f}")
assert abs(system.stage(0.0, hill).bound / bound - 1) < 1e-12

# %% [markdown]
# The velocity of a transformer depends on the density, so it is another one at the second stage,
# and with it the bound. Here mass concentrates, speeds grow, and the bound falls within the first
# step by more than the fifth that 0.8 leaves. So each stage checks its own bound, and a step that
# breaks it is done again, shorter.

# %%
attention = SelfAttention(V=np.eye(3), B=np.eye(3), beta=1.0)
system = FiniteVolume(icosphere(8), Equation(attention), order=2)
rho = system.initial_state(initial.random_band_limited(seed=1))
first = system.stage(0.0, rho)
dt = first.stable_step
second = system.stage(dt, rho + dt * first.rhs(dt))
fall = 1 - second.bound / first.bound
print(f"attention: the bound falls by {fall:.1%} within the first step")
assert 0.2 < fall < 0.4

simulation = Simulation(system, rho)
least = simulation.run(until=6.0).diagnostics["minimum"]
print(f"{simulation.steps} steps, {simulation.rejected['bound']} redone, least {least.min():.1e}")
assert least.min() >= 0 and simulation.rejected["bound"] >= 1

# %% [markdown]
# ## The picture

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for name, position in places.items():
    A_tiny, u_tiny = circle_with_tiny_cell(position)
    angles = position + np.concatenate([[0], np.cumsum(A_tiny)[1:]])
    angles = np.where(angles > 5, angles - 2 * np.pi, angles)
    rates = outflow_rates(u_tiny) / A_tiny
    steps = 1 / np.maximum(rates, 1)  # no bound: at the top
    left.semilogy(angles[1:], steps[1:], ".", color="0.7", ms=4)
    left.semilogy(angles[0], steps[0], "o", ms=8, label=name)
left.axhline(1.0, color="k", lw=0.8, ls=":")
left.text(3.0, 1.2, "no bound", ha="center", fontsize="small")
left.text(-0.9, 0.06, "other cells", fontsize="small", color="0.5")
left.set(title="Longest step of each cell", xlabel=r"$\theta$", ylim=(2e-5, 3))
left.legend(title="tiny cell", fontsize="small", loc="lower left")

middle.axhline(0, color="k", lw=0.8)
for name, rho in repaired.items():
    middle.plot(theta, rho, label=name)
middle.set(title="Box in a converging flow, t = 1", xlabel=r"$\theta$", ylabel=r"$\rho$")
middle.set(xlim=(0, 3), ylim=(-0.4, 2.2))
middle.legend(fontsize="small", loc="upper right")

for name, low in lows.items():
    right.plot(np.arange(1, len(low) + 1), low, label=f"{name}, 0.8 of the bound")
far, low = full, []
for _ in range(len(lows["heun"])):
    far = upwind_step(far, u, A, 1.2 * bound)
    low.append(far.min())
right.plot(np.arange(1, len(low) + 1), low, ":", label="upwind, 1.2 times the bound")
right.set_yscale("symlog", linthresh=1e-4)
right.set(title="Least density of each step", xlabel="step", xlim=(0, 40), ylim=(-20, 0.1))
right.legend(fontsize="small")

out = Path(os.environ.get("LESSONS_OUT", "out/lessons"))
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "3_cfl_of_a_converging_flow.png", dpi=150)

# %% [markdown]
# ## Exercise 1: diffusion
#
# Diffusion adds the flux $D (\rho_{i-1} - \rho_i)/h$ to each edge of the regular circle. What is
# the bound for upwind with a constant velocity $u$ and diffusion $D$? (Its power of $h$ is the
# reason why diffusion is done implicitly.)


# %%
def check_1(longest):
    """The bound is sharp: a full cell stays >= 0 at 0.999 of it, and not at 1.001."""
    for speed, D in ((1.0, 0.0), (-1.0, 0.1), (0.3, 2.0)):
        dt, full = longest(speed, h, D), np.where(np.arange(n) == 7, 1.0, 0.0)
        spread = (np.roll(full, 1) - 2 * full + np.roll(full, -1)) / h**2
        for factor, positive in ((0.999, True), (1.001, False)):
            moved = upwind_step(full, np.full(n, speed), A, factor * dt) + factor * dt * D * spread
            assert (moved.min() >= 0) == positive, f"u = {speed}, D = {D}, {factor} of the bound"


answer_1 = ...  # a function (u, h, D) -> the longest step
if answer_1 is not ...:
    check_1(answer_1)

# %% [markdown]
# ## Exercise 2: three stages
#
# Write the SSP method of third order as means of Euler steps:
# $\rho^{(1)} = E\rho$, $\rho^{(2)} = \frac34 \rho + \frac14 E\rho^{(1)}$,
# $\rho^{\rm new} = \frac13 \rho + \frac23 E\rho^{(2)}$ with $E\rho = \rho + \Delta t L(\rho)$.


# %%
def check_2(method):
    """For L = i it multiplies by the Taylor polynomial of degree 3; densities stay >= 0."""
    z = 0.3j
    factor = method(lambda rho: rho + z * rho, 1.0)
    assert abs(factor - (1 + z + z**2 / 2 + z**3 / 6)) < 1e-14, "not of third order"
    rho = rough
    for _ in range(50):
        rho = method(lambda rho: step(rho, 0.8 * bound)[0], rho)
        assert rho.min() >= 0, "negative density"


answer_2 = ...  # a function (euler, rho) -> new rho, where euler(rho) is one Euler step
if answer_2 is not ...:
    check_2(answer_2)

# %% [markdown]
# ## Exercise 3: without outflow limiting
#
# Suppose that slopes are cut such that both edge values of each cell are $\ge 0$, and that $u = 1$.
# Which fraction of the bound is then safe without outflow limiting?


# %%
def check_3(fraction):
    """Safe for the worst slope and not improvable: the cell of average 1 has 2 at its edge."""
    rho, edge = np.array([0.0, 1.0, 4.0]), np.array([0.0, 2.0, 4.0])
    for factor, positive in ((0.999, True), (1.001, False)):
        moved = rho[1] + factor * fraction * (edge[0] - edge[1])
        assert (moved >= 0) == positive, f"{factor} of it"


answer_3 = ...  # a number
if answer_3 is not ...:
    check_3(answer_3)

# %% [markdown]
# ## Solutions
#
# 1. A cell pours out $|u| + 2D/h$, so $\Delta t \le h^2 / (|u| h + 2D)$: like $h^2$.
# 2. See below.
# 3. One half. Edge values of a line that is $\ge 0$ on the cell are at most $2\rho_i$. For
#    polynomials of degree $k$ on intervals the fraction is the end weight of the Gauss-Lobatto
#    rule that is exact for them (Zhang and Shu 2010): 1/6 for $k = 2, 3$ and 1/12 for $k = 4, 5$.
#    Outflow limiting makes do with 0.8 for all of them.


# %%
def third_order(euler, rho):
    """Exercise 2."""
    first = euler(rho)
    second = 3 / 4 * rho + 1 / 4 * euler(first)
    return 1 / 3 * rho + 2 / 3 * euler(second)


check_1(lambda u, h, D: h**2 / (abs(u) * h + 2 * D))
check_2(third_order)
check_3(0.5)
