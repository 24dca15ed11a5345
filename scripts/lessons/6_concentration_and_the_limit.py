# %% [markdown]
# # Lesson 6: concentration and the limit
#
# At low temperature, $\beta \to \infty$, the softmax looks at one point only. If $\rho$ has full
# support, the mean that token $x$ sees is the unit vector nearest to $B^T x$, and the equation
# becomes local:
#
# $$ \partial_t \rho + \mathrm{div}\Bigl(\rho\, P_x \frac{V B^T x}{|B^T x|}\Bigr) = 0 . $$
#
# **The idea.** This limit moves all mass to $E$, the top eigenspace of $V B^T$. At finite $\beta$
# the law follows it, comes as near to the limit as its temperature allows, at a time like
# $\log\beta$, and then leaves: clusters of finite width see themselves, and what counts for those
# is $V$ alone. (Alcalde, Bungert, Riedl, Roith, arXiv:2605.10931.)

# %%
"""Lesson 6: the zero-temperature flow, its distance to the limit, temperature, terminal phase."""

# mypy: allow-untyped-defs
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, Measure, SelfAttention, Simulation, ZeroTemperatureAttention
from pde.limits import distance_to_pair, distance_to_space
from validation.exact import zero_temperature_distance

# %% [markdown]
# ## Zero temperature, in closed form
#
# Let $B = I$, and let $V$ have the eigenvalues $\lambda$ on a line $E = \mathrm{span}(e)$ and
# $\lambda - g$ across it. The flow is linear motion, put back on the sphere:
#
# $$ x(t) = \frac{e^{tV} x_0}{|e^{tV} x_0|} . $$
#
# It keeps the nearest point on $E$, $\Pi(x) = P_E x/|P_E x|$. So $\Pi_\#\rho_t = \Pi_\#\rho_0$ is
# the limit, no plan is better than sending each point to its nearest one, and
#
# $$ W_2^2(\rho_t, \Pi_\#\rho_0) = \int |x - \Pi x|^2 d\rho_t = \int (2 - 2 |P_E x|)\, d\rho_t . $$
#
# For the uniform $\rho_0$ the height $u = |\langle e, x_0\rangle|$ is uniform on $[0, 1]$
# (Archimedes). With $q = e^{-2gt}$
#
# $$ \int |P_E x|\, d\rho_t = \int_0^1 \frac{u\, du}{\sqrt{u^2 + q (1 - u^2)}}
#    = \frac{1 - \sqrt q}{1 - q} = \frac{1}{1 + e^{-gt}} , \qquad
#    W_2^2 = \frac{2 e^{-gt}}{1 + e^{-gt}} . $$
#
# Three ways to see it: the formula, the flow of points, and finite volumes.

# %%
e = np.array([[2.0, -1.0, 2.0]]).T / 3
gap, times = 1.0, np.arange(0.0, 8.1, 1.0)
V = np.eye(3) + gap * e @ e.T
mesh = icosphere(16)


def flow(x, t):
    """Points (m, 3) at time t: e^{tV} x, up to a factor, put back on the sphere."""
    x = x + np.expm1(gap * t) * (x @ e) @ e.T
    return x / np.linalg.norm(x, axis=1, keepdims=True)


uniform = Measure(mesh.centroids, mesh.areas / mesh.total_area)
closed = np.sqrt(2 / (1 + np.exp(gap * times)))
of_points = [distance_to_space(Measure(flow(uniform.points, t), uniform.weights), e) for t in times]

cold = FiniteVolume(mesh, Equation(ZeroTemperatureAttention(V, np.eye(3))))
rho = np.full(mesh.n_cells, 1 / mesh.total_area)
solution = Simulation(cold, rho).run(until=times[-1], save_at=times)
of_cells = [distance_to_space(mu, e) for mu in solution.measures]

print("t   formula  points  cells")
for row in zip(times, closed, of_points, of_cells, strict=True):
    print("{:.0f}   {:.4f}   {:.4f}  {:.4f}".format(*row))
worst = [abs(np.array(one) - closed).max() / mesh.spacing for one in (of_points, of_cells)]
print(f"largest difference in cell widths: points {worst[0]:.2f}, cells {worst[1]:.2f}")
assert np.allclose(closed, zero_temperature_distance(times, gap, dim=1))
assert worst[0] < 0.2 and worst[1] < 0.5

# %% [markdown]
# $W_2 \approx \sqrt2\, e^{-gt/2}$, at half the rate of the gap: each point approaches at the rate
# $g$, but those near the equator wait, and the mass still waiting falls like $e^{-gt}$.
#
# ## Finite temperature
#
# Now the circle, where cells are cheap, with
#
# $$ V = R\,\mathrm{diag}(2, 1) R^T, \qquad B = R\,\mathrm{diag}(1, 4) R^T, \qquad
#    V B^T = R\,\mathrm{diag}(2, 4) R^T . $$
#
# $E$ is the second axis, while $V$ alone would prefer the first, $F$. The limit is a pair of Dirac
# masses: $p$ at $e_2$ and $1-p$ at $-e_2$, where $p$ is the share of $\rho_0$ on the side of $e_2$.
# Since $|x+e_2|^2 - |x-e_2|^2 = 4\langle x, e_2\rangle$, the best plan sends the mass with the
# largest $\langle x, e_2\rangle$ to $e_2$: $W_2$ is a sort and a sum, `distance_to_pair`.

# %%
R = np.array([[0.8, -0.6], [0.6, 0.8]])
f, e2 = R.T  # F and E
V, B = R @ np.diag([2.0, 1.0]) @ R.T, R @ np.diag([1.0, 4.0]) @ R.T
arcs = circle(240)
rho0 = arcs.average(lambda x: (1 + 0.6 * x[:, 0]) / (2 * np.pi))
p = 0.5 + 0.6 * e2[0] / np.pi  # integral of (1 + 0.6 <x, a>) / (2 pi) over the half circle of e2
assert abs(arcs.areas @ (rho0 * (arcs.centroids @ e2 > 0)) - p) < 0.005

saved = np.arange(0.0, 10.01, 0.25)
betas = np.array([10.0, 32.0, 100.0, 316.0])
runs, w2 = {}, {}
for beta in betas:
    system = FiniteVolume(arcs, Equation(SelfAttention(V, B, beta)))
    runs[beta] = Simulation(system, rho0).run(until=saved[-1], save_at=saved)
    w2[beta] = np.array([distance_to_pair(mu, e2, p) for mu in runs[beta].measures])

# %% [markdown]
# ## Approach, closest point, way back
#
# Near $E$ the limit equation is linear: at $x = (\varepsilon, 1)$ on the axes,
# $\dot\varepsilon = (2/4 - 1)\,\varepsilon$. So the approach goes like $e^{-ct}$ with $c = 1/2$,
# until $W_2$ is of the size of the temperature error. A cluster narrower than $1/\sqrt\beta$ sees
# all of itself alike; wider ones see the limit. That gives
#
# $$ \min_t W_2 \sim \beta^{-1/2}, \qquad e^{-c t_*} \sim \beta^{-1/2}
#    \ \Rightarrow\ t_* = \frac{\log\beta}{2c} + \mathrm{const} = \log\beta + \mathrm{const} . $$


# %%
def minimum(times, values):
    """Time and value of the least value, of a parabola through three logarithms."""
    i = int(np.argmin(values))
    a, b, c = np.polyfit(times[i - 1 : i + 2] - times[i], np.log(values[i - 1 : i + 2]), 2)
    return times[i] - b / (2 * a), np.exp(c - b**2 / (4 * a))


closest = np.array([minimum(saved, w2[beta]) for beta in betas])
early = (saved >= 1) & (saved <= 5)
rate = -np.polyfit(saved[early], np.log(w2[betas[-1]][early]), 1)[0]
power = np.polyfit(np.log(betas), np.log(closest[:, 1]), 1)[0]
delay = np.polyfit(np.log(betas), closest[:, 0], 1)[0]
for beta, (t, value) in zip(betas, closest, strict=True):
    print(f"beta = {beta:3.0f}: closest at t = {t:.2f}, W2 = {value:.3f}")
print(f"approach e^(-{rate:.2f} t), expected 0.5")
print(f"least W2 ~ beta^{power:.2f}, expected -0.5")
print(f"its time = {delay:.2f} log(beta) + const, expected 1")
assert abs(rate - 0.5) < 0.1 and abs(power + 0.5) < 0.05 and abs(delay - 1) < 0.1

# %% [markdown]
# ## The terminal phase
#
# When the clusters at $\pm e_2$ are narrow, each token sees its own cluster whole, $m = \pm e_2$ on
# either side. A cluster at $x = (\varepsilon, 1)$ then moves by $P_x V x$, that is
# $\dot\varepsilon = (2 - 1)\,\varepsilon$: away from $E$, towards the top eigenvector of $V$. At
# $\beta = 10$ that is over by $t = 10$.


# %%
def share_at(mu, axis):
    """Share of the mass within 30 degrees of +axis or -axis."""
    return mu.weights @ (abs(mu.points @ axis) > np.cos(np.pi / 6)) / mu.total


shares = {}
for beta in (10.0, 316.0):
    chosen = [runs[beta].measures[runs[beta].index(t)] for t in (0, 5, 10)]
    shares[beta] = np.array([[share_at(mu, axis) for axis in (e2, f)] for mu in chosen])
    print(f"beta = {beta:3.0f}, t = 0, 5, 10: at E {shares[beta][:, 0].round(2)}, ", end="")
    print(f"at F {shares[beta][:, 1].round(2)}")
assert shares[10.0][2, 1] > 0.99 and shares[316.0][2, 0] > 0.99

# %% [markdown]
# ## The picture

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
fine = np.linspace(0, 8, 200)
left.semilogy(fine, np.sqrt(2 / (1 + np.exp(gap * fine))), "k", label="formula")
left.semilogy(times, of_points, "C1x", label="points")
left.semilogy(times, of_cells, "C0o", mfc="none", label="cells")
left.axhline(mesh.spacing, color="0.6", lw=0.8, ls=":")
left.text(0.1, 0.85 * mesh.spacing, "cell width", color="0.5", fontsize="small", va="top")
left.set(title="Zero temperature: $W_2$ to the limit", xlabel="t")
left.legend()

for i, beta in enumerate(betas):
    middle.semilogy(saved, w2[beta], color=f"C{i}", label=f"$\\beta$ = {beta:.0f}")
middle.semilogy(*closest.T, "ko", ms=4, label="closest")
middle.semilogy(saved, 1.3 * np.exp(-saved / 2), "k:", lw=1, label="$e^{-t/2}$")
middle.set(title="Circle: $W_2$ to the limit", xlabel="t", ylim=(0.02, 2))
middle.legend(fontsize="small", loc="lower left")

angles = np.degrees(np.arctan2(arcs.centers[:, 1], arcs.centers[:, 0]))
order = np.argsort(angles)
density = np.log10(np.maximum(runs[32.0].states[:, order], 1e-3))
image = right.pcolormesh(saved, angles[order], density.T, cmap="viridis", shading="auto")
for axis, name, color in ((e2, "E", "w"), (f, "F", "tomato")):
    for sign in (1, -1):
        at = np.degrees(np.arctan2(sign * axis[1], sign * axis[0]))
        right.axhline(at, color=color, lw=0.8, ls="--")
        right.text(0.15, at + 3, f"{'+' if sign > 0 else '-'}{name}", color=color)
right.set(title=r"Density, $\beta = 32$", xlabel="t", ylabel="angle in degrees")
right.set_yticks([-180, -90, 0, 90, 180])
figure.colorbar(image, ax=right, label=r"$\log_{10} \rho$")

out = Path(os.environ.get("LESSONS_OUT", "out/lessons"))
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "6_concentration_and_the_limit.png", dpi=150)

# %% [markdown]
# ## Exercise 1: where to?
#
# Write a function that gives the axes $E$ and $F$ of symmetric $V$ and $B$ that commute.


# %%
def check_1(axes):
    """The two pairs above, and V = B."""
    for V_, B_, E, F in ((V, B, e2, f), (B, V, e2, e2), (V, V, f, f)):
        for found, known in zip(axes(V_, B_), (E, F), strict=True):
            assert abs(abs(found @ known) - 1) < 1e-12, "another axis"


answer_1 = ...  # a function (V, B) -> (unit vector of E, unit vector of F)
if answer_1 is not ...:
    check_1(answer_1)

# %% [markdown]
# ## Exercise 2: stay
#
# Keep $V$. Choose $B = R\,\mathrm{diag}(b_1, b_2) R^T$ with $b_1, b_2 > 0$ such that the mass
# gathers at the limit and stays there.


# %%
def check_2(b):
    """At beta = 50 the mass is in the same place at t = 6 and at t = 10."""
    b1, b2 = b
    assert b1 > 0 and b2 > 0
    system = FiniteVolume(arcs, Equation(SelfAttention(V, R @ np.diag([b1, b2]) @ R.T, 50.0)))
    later = Simulation(system, rho0).run(until=10.0, save_at=[6.0, 10.0]).measures
    top = f if 2 * b1 > b2 else e2
    assert all(share_at(mu, top) > 0.95 for mu in later), "it does not stay at E"


answer_2 = ...  # [b1, b2]
if answer_2 is not ...:
    check_2(answer_2)

# %% [markdown]
# ## Exercise 3: a plane
#
# If $E$ is a plane in $\mathbb R^3$ (still $B = I$ and the gap $g$), how fast does
# $W_2(\rho_t, \Pi_\#\rho_0)$ decay, up to powers of $t$: like $e^{-c g t}$ with which $c$?
# How much mass waits near the complement of $E$, which is now a line?


# %%
def check_3(c):
    """Against the closed form at late times."""
    t = np.array([10.0, 12.0])
    rate = -np.diff(np.log(zero_temperature_distance(t, 1.0, dim=2)))[0] / 2
    assert abs(c - rate) < 0.1, "another rate"


answer_3 = ...  # a number
if answer_3 is not ...:
    check_3(answer_3)

# %% [markdown]
# ## Solutions
#
# 1. The eigenvectors of the largest eigenvalues of $V B^T$ and of $V$.
# 2. $E = F$ is needed: $2 b_1 > b_2$, for example $b = (1, 1)$.
# 3. $c = 1$. The complement of $E$ is a pair of points: the mass within $e^{-gt}$ of it is
#    $e^{-2gt}$, where it was $e^{-gt}$ near the equator. ($W_2^2 \sim t\, e^{-2gt}$.)


# %%
def axes(V, B):
    """Exercise 1."""
    return tuple(np.linalg.eigh(A)[1][:, -1] for A in (V @ B.T, V))


check_1(axes)
check_2([1.0, 1.0])
check_3(1.0)
t = np.array([10.0, 12.0])
scaled = zero_temperature_distance(t, 1.0, dim=2) ** 2 / (t * np.exp(-2 * t))
assert abs(scaled[0] / scaled[1] - 1) < 0.05
