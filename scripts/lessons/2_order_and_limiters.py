# %% [markdown]
# # Lesson 2: order and limiters
#
# Upwind is of first order, because it takes the average of a cell for the value on its edge.
#
# **The idea.** Put a polynomial through the averages of neighbouring cells and take *its* value on
# the edge: the order of the scheme is the order of that value. And: no scheme of order two or more
# whose step is linear in $\rho$ can keep jumps free of overshoots. So limiters are not linear.

# %%
"""Lesson 2: reconstruction, its order on a smooth hill, limiters at a jump."""

# mypy: allow-untyped-defs
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, StreamFunction, initial
from pde.simulation import run_to
from validation import norms

# %% [markdown]
# ## A slope in each cell
#
# Everything turns round the circle at speed 1, so each edge carries the value $\rho^*_i$ that cell
# $i$ has on its right edge, and $h\, d\rho_i/dt = \rho^*_{i-1} - \rho^*_i$. With a slope $s_i$
#
# $$ \rho^*_i = \rho_i + \tfrac h2 s_i, \qquad
#    s_i = 0 \ \text{(upwind)} \quad\text{or}\quad
#    s_i = \frac{\rho_{i+1} - \rho_{i-1}}{2h} \ \text{(central)} . $$
#
# The line with the central slope is exact for every linear function, so it misses the value by
# $O(h^2)$. Heun's method in time, written as two Euler steps and a mean, is of order two as well.


# %%
def no_slope(rho, h):
    """(n,) zeros: upwind."""
    return np.zeros_like(rho)


def central_slope(rho, h):
    """(n,) slopes of the lines through both neighbours."""
    return (np.roll(rho, -1) - np.roll(rho, 1)) / (2 * h)


def turned(rho, slope, courant=0.4, each_step=lambda rho: None):
    """The averages after one turn by Heun's method."""
    h = 2 * np.pi / len(rho)

    def euler(rho):
        edge = rho + h / 2 * slope(rho, h)
        return rho - courant * (edge - np.roll(edge, 1))

    for _ in range(round(len(rho) / courant)):
        rho = rho / 2 + euler(euler(rho)) / 2
        each_step(rho)
    return rho


def errors(slope, cells):
    """Mean and largest error of a smooth hill after one turn, for each number of cells."""
    found = []
    for n in cells:
        hill = circle(n).average(initial.von_mises_fisher([0.0, 1.0], kappa=4.0))
        gap = abs(turned(hill, slope) - hill)
        found.append([gap.mean(), gap.max()])
    return np.array(found).T


cells = [100, 200, 400]
for slope, design in ((no_slope, 1), (central_slope, 2)):
    mean, largest = errors(slope, cells)
    order = np.log2(mean[:-1] / mean[1:])
    print(f"{slope.__name__:14s} errors {mean}, orders {order.round(2)}")
    assert abs(order[-1] - design) < 0.2

# %% [markdown]
# ## The same on the sphere, with polynomials of any degree
#
# On hexagons there are no left and right neighbours. `FiniteVolume` fits the polynomial of degree
# $k$ in the two variables of the tangent plane whose cell averages are nearest to those of the
# cells around, and which keeps the average of its own cell. It reproduces polynomials of degree
# $k$, and so is of order $k + 1$: orders 1, 2, 4, 6 are $k = 0, 1, 3, 5$.
#
# The test is a smooth hill in solid-body rotation; the exact averages come from turning the hill.

# %%
axis = np.array([1.0, 1.0, 1.0]) / np.sqrt(3)
time = 0.3


def hill_at(t):
    """The density at time t, a function of points."""
    c, s = np.cos(t), np.sin(t)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return initial.von_mises_fisher(turn @ axis, kappa=4.0)


spin = StreamFunction(lambda x, t: -x[:, 2])  # the velocity e3 × x


def error_on_sphere(system, max_step=None):
    """Relative error in l2 at the end."""
    rho = run_to(system, hill_at(0), time, max_step=max_step)
    return norms.relative(system.mesh, rho, system.mesh.average(hill_at(time)))["l2"]


meshes = [icosphere(f) for f in (10, 14, 20)]
widths = np.array([mesh.spacing for mesh in meshes])
on_sphere = {}
print("order  error on 1002, 1962, 4002 cells    observed orders")
for order in (1, 2, 4, 6):
    systems = [FiniteVolume(mesh, Equation(spin), order=order) for mesh in meshes]
    found = np.array([error_on_sphere(s, 0.6 * s.mesh.spacing**1.5) for s in systems])
    observed = np.diff(np.log(found)) / np.diff(np.log(widths))
    on_sphere[order] = found
    print(f"{order:5d}  {'  '.join(f'{e:.2e}' for e in found)}      {observed.round(2)}")
    assert order - 0.35 < observed[-1] < order + 0.35
assert on_sphere[1][-1] < 0.025 and on_sphere[2][-1] < 8e-4
assert on_sphere[4][-1] < 5e-6 and on_sphere[6][-1] < 8e-8

# %% [markdown]
# ## A trap: the order in time
#
# We took $\Delta t \sim h^{3/2}$ above. The Runge-Kutta method is of order 4, so its error is
# $\Delta t^4 \sim h^6$. With the usual $\Delta t \sim h$ it is $h^4$, and order 6 in space shows
# less than 5 on fine meshes.

# %%
found = np.array([error_on_sphere(system) for system in systems])  # those of order 6
capped = np.log(found[1] / found[2]) / np.log(widths[1] / widths[2])
print(f"order 6 with steps like h: errors {found}, observed order {capped:.2f}")
assert capped < 5

# %% [markdown]
# ## A jump
#
# Now a density that is 1 on an arc and 0 elsewhere. The central slope overshoots at both ends.

# %%
n = 200
box = circle(n).average(lambda x: np.where(x[:, 1] > 0.5, 1.0, 0.0))
jumps = {"upwind": turned(box, no_slope), "central slope": turned(box, central_slope)}
for name, rho in jumps.items():
    print(f"{name:14s} lies in [{rho.min():6.3f}, {rho.max():.3f}]")
assert jumps["central slope"].max() > 1.1 and jumps["central slope"].min() < -0.1
assert jumps["upwind"].max() <= 1 and jumps["upwind"].min() >= 0

# %% [markdown]
# ## It cannot be helped by a better slope: Godunov's theorem
#
# Let a step be linear, $\rho_i^{\rm new} = \sum_k c_k \rho_{i+k}$. It makes no new maxima and
# minima for any data iff all $c_k \ge 0$. It is of second order iff it is exact for $1$, $x$ and
# $x^2$ (up to the constant that averages differ by from values), which means
#
# $$ \sum_k c_k = 1, \qquad \sum_k k\, c_k = -\lambda, \qquad \sum_k k^2 c_k = \lambda^2 , $$
#
# with $\lambda$ the Courant number. The last two give $\sum_k (k+\lambda)^2 c_k = 0$: a sum of
# terms $\ge 0$ that vanishes. So $c_k = 0$ unless $k = -\lambda$, and $\lambda$ is an integer: a
# shift by whole cells. **Linear, monotone, second order: take two.**
#
# ## A slope that is not linear
#
# `minmod` takes the smaller of both one-sided slopes, and zero where their signs differ: the line
# stays between the averages of its neighbours.


# %%
def minmod(a, b):
    """The one of smaller modulus where the signs agree, else 0."""
    return np.where(a * b > 0, np.sign(a) * np.minimum(abs(a), abs(b)), 0)


def minmod_slope(rho, h):
    """(n,) limited slopes."""
    return minmod(rho - np.roll(rho, 1), np.roll(rho, -1) - rho) / h


def variation(rho):
    """Total variation: the sum of all steps, up and down."""
    return abs(np.diff(rho, append=rho[0])).sum()


variations = [variation(box)]
jumps["minmod"] = turned(box, minmod_slope, each_step=lambda rho: variations.append(variation(rho)))
rho = jumps["minmod"]
excess = max(rho.max() - 1, -rho.min())
print(f"minmod: outside [0, 1] by {max(excess, 0):.0e}; total variation never grows")
assert excess < 1e-14 and np.diff(variations).max() < 1e-13

# %% [markdown]
# The price is paid at the top of smooth hills, where the signs of the slopes differ: there minmod
# is upwind. The largest error falls at an order clearly below 2.

# %%
of_slope = {slope: errors(slope, cells)[1] for slope in (central_slope, minmod_slope)}
for slope, largest in of_slope.items():
    order = np.log2(largest[-2] / largest[-1])
    print(f"{slope.__name__:14s} largest error {largest[-1]:.1e}, order {order:.2f}")
    assert order > 1.8 if slope is central_slope else order < 1.6

# %% [markdown]
# ## The limiters of the library
#
# - `"positivity"` (the default) cuts from below only: no negative densities.
# - `"monotone"` keeps the range on both sides (flux-corrected transport: the upwind flux, and as
#   much of the high-order correction as the bounds allow).
# - `None`: neither.

# %%
turning = PrescribedVelocity(lambda x, t: x @ [[0, 1], [-1, 0]])
limited = {}
for limiter in (None, "positivity", "monotone"):
    system = FiniteVolume(circle(n), Equation(turning), order=4, limiter=limiter)
    limited[limiter] = run_to(system, box, 2 * np.pi)
    low, high = limited[limiter].min(), limited[limiter].max()
    print(f"order 4, limiter {limiter!s:10s}: density in [{low:6.3f}, {high:.3f}]")
assert limited[None].min() < -0.05 and limited[None].max() > 1.05
assert limited["positivity"].min() >= 0 and limited["positivity"].max() > 1.05
assert limited["monotone"].min() > -1e-14 and limited["monotone"].max() < 1 + 1e-12

# %% [markdown]
# Why is the one-sided limiter the default? Because the velocities of transformers converge, and
# then maxima have to grow. For $u = -\sin\theta$ the uniform density grows like $e^t$ at
# $\theta = 0$; to cut at the old maxima would be wrong.

# %%
sink = PrescribedVelocity(lambda x, t: x[:, 1:] * (x @ [[0, -1], [1, 0]]))
rho = run_to(FiniteVolume(circle(n), Equation(sink), order=4), initial.uniform(2), 2.0)
growth = rho.max() * 2 * np.pi
print(f"converging flow: density grew {growth:.4f} times, exactly e^2 = {np.exp(2):.4f}")
assert abs(growth / np.exp(2) - 1) < 0.005

# %% [markdown]
# ## The picture

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for order, found in on_sphere.items():
    (line,) = left.loglog(widths, found, "o-", label=f"order {order}")
    left.loglog(widths, found[0] * (widths / widths[0]) ** order, "k:", lw=1)
left.set(title="A hill on the sphere; dotted: $h^p$", xlabel="h", ylabel="relative error, l2")
left.set_xticks(widths, [f"{h:.2f}" for h in widths])
left.set_xticks([], minor=True)
left.set_ylim(1e-8, 3)
left.legend(ncols=2, loc="upper left", fontsize="small")

theta = 2 * np.pi * (np.arange(n) + 0.5) / n
for axes, curves in ((middle, jumps), (right, limited)):
    axes.plot(theta, box, "k--", lw=1, label="exact")
    for label, rho in curves.items():
        axes.plot(theta, rho, lw=1.5, label=f"{label}")
    axes.set(xlabel=r"$\theta$", xlim=(0, np.pi), ylim=(-0.3, 1.75))
    axes.legend(ncols=2, loc="upper center", fontsize="small")
middle.set(title="A jump after one turn", ylabel=r"$\rho$")
right.set_title("The same, order 4, by limiter")

out = Path(os.environ.get("LESSONS_OUT", "out/lessons"))
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "2_order_and_limiters.png", dpi=150)

# %% [markdown]
# ## Exercise 1: a parabola
#
# Find $a, b, c$ such that $a \rho_{i-1} + b \rho_i + c \rho_{i+1}$ is the value on the right edge
# of cell $i$ for every parabola, from its *averages* over three cells.


# %%
def check_1(weights):
    """Exact for 1, x and x^2 on the cells [-3/2, -1/2], [-1/2, 1/2], [1/2, 3/2]."""
    averages = [[1, 1, 1], [-1, 0, 1], [13 / 12, 1 / 12, 13 / 12]]
    assert np.allclose(np.array(averages) @ weights, [1, 1 / 2, 1 / 4]), "not exact"


answer_1 = ...  # [a, b, c]
if answer_1 is not ...:
    check_1(answer_1)

# %% [markdown]
# ## Exercise 2: a sharper limiter
#
# Write a slope that still lets the total variation never grow, with a smaller error at the jump
# than minmod. (Let the slope be as large as the central one, where twice either one-sided slope
# allows it.)


# %%
def check_2(slope):
    """Total variation does not grow, and the box is kept better."""
    found = [variation(box)]
    rho = turned(box, slope, each_step=lambda rho: found.append(variation(rho)))
    assert np.diff(found).max() < 1e-13, "the total variation grows"
    error, other = (abs(r - box).mean() for r in (rho, jumps["minmod"]))
    print(f"mean error {error:.4f}, minmod {other:.4f}")
    assert error < 0.9 * other, "no better than minmod"


answer_2 = ...  # a function (rho, h) -> (n,) slopes
if answer_2 is not ...:
    check_2(answer_2)

# %% [markdown]
# ## Exercise 3: the linear scheme of second order
#
# There is one step $\rho_i^{\rm new} = c_{-1} \rho_{i-1} + c_0 \rho_i + c_1 \rho_{i+1}$ that
# satisfies the three conditions above. Find it, and see which coefficient is negative.


# %%
def check_3(coefficients):
    """The three moments."""
    for courant in (0.2, 0.5, 0.9):
        c = np.array(coefficients(courant))
        k = np.array([-1, 0, 1])
        moments = [c.sum(), k @ c, k**2 @ c]
        assert np.allclose(moments, [1, -courant, courant**2]), f"courant {courant}"


answer_3 = ...  # a function courant -> [c_-1, c_0, c_1]
if answer_3 is not ...:
    check_3(answer_3)

# %% [markdown]
# ## Solutions
#
# 1. $(-1, 5, 2)/6$.
# 2. The monotonised central slope, $\mathrm{minmod}(2a, (a+b)/2, 2b)$ (van Leer 1977).
# 3. Lax-Wendroff: $c_{\pm 1} = \lambda(\lambda \mp 1)/2$, $c_0 = 1 - \lambda^2$; $c_1 < 0$.


# %%
def monotonised_central(rho, h):
    """Exercise 2."""
    back, ahead = rho - np.roll(rho, 1), np.roll(rho, -1) - rho
    return minmod(2 * minmod(back, ahead), (back + ahead) / 2) / h


check_1(np.array([-1, 5, 2]) / 6)
check_2(monotonised_central)
check_3(lambda c: [c * (c + 1) / 2, 1 - c**2, c * (c - 1) / 2])
