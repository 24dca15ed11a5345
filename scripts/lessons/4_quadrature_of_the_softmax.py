# %% [markdown]
# # Lesson 4: quadrature of the softmax
#
# Attention asks for one integral, at many $\xi$: the log-partition function of the density
#
# $$ L[\rho](\xi) = \log \int e^{\langle \xi, y\rangle} \, d\rho(y), \qquad
#    \nabla L[\rho](\xi) = \frac{\int y\, e^{\langle \xi, y\rangle} d\rho(y)}
#                               {\int e^{\langle \xi, y\rangle} d\rho(y)} . $$
#
# At $\xi = \beta B^T x$ the gradient is the softmax mean that token $x$ sees.
#
# **The idea.** The integrand varies over a cell of width $h$ by the factor $e^{\beta h}$. A
# quadrature has to be right for *that* function: for its size (overflow), for its shape within a
# cell (nodes), and at a cost that one can pay (fast sums).

# %%
"""Lesson 4: overflow, quadrature nodes and cost of the softmax integrals."""

# mypy: allow-untyped-defs
import os
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from meshes import icosphere
from meshes.quadrature import gauss_legendre
from pde import Equation, FiniteVolume, Measure, SelfAttention, initial, log_partition

# %% [markdown]
# ## A sum, and how it overflows
#
# A measure is a set of points $y_j$ with masses $w_j$. Then
# $L(\xi) = \log \sum_j w_j e^{\langle\xi, y_j\rangle}$. For $|\xi| > 709$ the exponential leaves
# the range of float64. One may take out any constant $c$:
#
# $$ L(\xi) = c + \log \sum_j w_j e^{\langle\xi, y_j\rangle - c} . $$
#
# Which one? The bound $c = |\xi|$ never overflows, but where the mass is far from $\xi$ all terms
# underflow and $L = -\infty$. The largest exponent that occurs does neither: one term is then
# $w_j e^0$.


# %%
def by_hand(xi, points, weights, shift="largest"):
    """(m,) L at (m, d) points xi."""
    exponents = xi @ points.T
    c = {
        "none": np.zeros((len(xi), 1)),
        "bound": np.linalg.norm(xi, axis=1, keepdims=True),
        "largest": exponents.max(axis=1, keepdims=True),
    }[shift]
    with np.errstate(over="ignore", divide="ignore"):
        return c[:, 0] + np.log(np.exp(exponents - c) @ weights)


pole = np.array([[0.0, 0.0, 1.0]])
far = -pole  # all mass at the other pole: L = -beta
for shift in ("none", "bound", "largest"):
    near, away = (by_hand(1000.0 * pole, y, np.ones(1), shift)[0] for y in (pole, far))
    print(f"shift {shift:8s} L = {near:6.0f} and {away:6.0f}; exactly 1000 and -1000")
    assert (shift == "largest") == (near == 1000 and away == -1000)

# %% [markdown]
# ## One cell
#
# Take an arc of width $h$ with the uniform law, seen from the side: over it the exponent changes by
# $z = \beta h$. Exactly, by the centroid, and by two Gauss points:
#
# $$ Z = \frac{\sinh(z/2)}{z/2}, \qquad Z_1 = 1, \qquad Z_2 = \cosh\frac{z}{2\sqrt 3} . $$
#
# The centroid's relative error is $z^2/24$ for small $z$. For large $z$ it is not an error but
# nonsense: the centroid carries the weight $1$ of an integral that is $e^{z/2}/z$.


# %%
def cell_error(z, nodes):
    """Relative error of a Gauss rule for the integral of e^{z s} over -1/2 < s < 1/2."""
    s, weights = gauss_legendre(nodes)
    return np.exp(np.outer(z, s / 2)) @ weights / 2 / (np.sinh(z / 2) / (z / 2)) - 1


z = np.array([0.1, 1.0, 10.0])
for nodes in (1, 2, 3, 4):
    print(f"{nodes} nodes, beta h = 0.1, 1, 10: relative errors {cell_error(z, nodes)}")
assert abs(cell_error(z, 1)[0] / (-(0.1**2) / 24) - 1) < 0.01
assert cell_error(z, 1)[2] < -0.9 and abs(cell_error(z, 4)[2]) < 0.02

# %% [markdown]
# ## The whole sphere
#
# For the uniform law and $|\xi| = \beta$
#
# $$ L(\xi) = \log \frac{\sinh \beta}{\beta}, \qquad
#    \nabla L(\xi) = \Bigl(\coth\beta - \frac1\beta\Bigr) \frac{\xi}{\beta} . $$
#
# Here the errors of neighbouring cells cancel to a large part: what has to be resolved is the whole
# bell $e^{\beta \langle x, y\rangle}$, whose width is $1/\sqrt\beta$. The centroids fail once
# $\sqrt\beta\, h > 1$, and more nodes in each cell set that off.

# %%
directions = np.random.default_rng(0).normal(size=(200, 3))
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
betas = np.array([1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0])


def exact(beta):
    """log(sinh(beta) / beta), without overflow."""
    return beta - np.log(2 * beta) + np.log1p(-np.exp(-2 * beta))


def worst_error(points, weights):
    """(8,) largest relative error of Z = e^L over all directions, for each beta."""
    mu = Measure(points, weights / weights.sum())
    found = (log_partition(beta * directions, mu)[0] - exact(beta) for beta in betas)
    return np.array([abs(np.expm1(error)).max() for error in found])


meshes = {f: icosphere(f) for f in (8, 16, 32)}
errors = {}
for m in meshes.values():
    errors[f"centroids, h = {m.spacing:.3f}"] = worst_error(m.centroids, m.areas)
mesh = meshes[16]
for degree in (2, 4):
    rule = mesh.quadrature(degree)
    count = len(rule.points) / mesh.n_cells
    errors[f"{count:.0f} nodes, h = {mesh.spacing:.3f}"] = worst_error(rule.points, rule.weights)

print(" " * 24 + "  ".join(f"{beta:7.0f}" for beta in betas))
for name, found in errors.items():
    print(f"{name:23s} " + "  ".join(f"{e:.1e}" for e in found))
coarse, middling, fine, nodes_18, nodes_36 = errors.values()
assert fine[6] < 2e-3 and middling[6] > 0.05 and coarse[6] > 1  # sqrt(beta) h = 1.2, 2.4, 4.7
assert abs(np.log2(middling[4] / fine[4]) - 2) < 0.2  # resolved: second order
assert nodes_18[6] < 2e-4 and nodes_36[6] < 1e-5

# %% [markdown]
# ## Nodes that carry the density
#
# A density is not constant in a cell. `FiniteVolume` of order 4 and more evaluates its own
# reconstruction at positive nodes; their masses add up to the cell's mass. The test has a closed
# form as well: with $\rho \sim e^{\kappa\langle e, y\rangle}$, $L$ is that of the uniform law at
# $\xi + \kappa e$, less its value at $\kappa e$.

# %%
kappa, axis = 10.0, np.array([0.0, 0.0, 1.0])
rho = mesh.average(initial.von_mises_fisher(axis, kappa))
attention = SelfAttention(np.eye(3), np.eye(3), beta=1.0)
by_order = {}
print("relative errors of Z at beta = 1, 30, 1000")
for order in (2, 4, 6):
    mu = FiniteVolume(mesh, Equation(attention), order=order).measure(rho)
    found = []
    for beta in (1.0, 30.0, 1000.0):
        xi = beta * directions
        known = exact(np.linalg.norm(xi + kappa * axis, axis=1)) - exact(kappa)
        found.append(abs(np.expm1(log_partition(xi, mu)[0] - known)).max())
    by_order[order] = np.array(found)
    count = mu.n / mesh.n_cells
    print(f"order {order}, {count:2.0f} in each cell: {'  '.join(f'{e:.1e}' for e in found)}")
for better, worse in ((4, 2), (6, 4)):
    assert (by_order[better] < 0.2 * by_order[worse]).all()

# %% [markdown]
# ## Cost
#
# All $N$ cells see all $N$ cells: $N^2$ exponentials. But between two small patches the kernel is
# simple. With $\xi = \xi_c + \eta$ and $y = c + \delta$
#
# $$ e^{\langle\xi,y\rangle} = e^{\langle\xi_c,c\rangle} e^{\langle\eta,c\rangle}
#    e^{\langle\xi_c,\delta\rangle} \cdot e^{\langle\eta,\delta\rangle} , $$
#
# and only the last factor couples target and source. For patches of radius $r$ its exponent is at
# most $\beta r^2$, so for $r = 1/\sqrt\beta$ it is a matrix of small rank, *whatever* $\beta$ is.


# %%
def rank(beta, radius, tolerance=1e-8):
    """Numerical rank of the softmax weights of 400 sources, for 400 targets in another patch."""
    rng = np.random.default_rng(1)

    def patch(center):
        points = center + radius * rng.uniform(-1, 1, size=(400, 3)) / np.sqrt(3)
        return points / np.linalg.norm(points, axis=1, keepdims=True) - center

    eta, delta = beta * patch(np.array([0.6, 0.0, 0.8])), patch(np.array([0.0, 0.6, 0.8]))
    exponents = eta @ delta.T
    kernel = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    kernel /= kernel.sum(axis=1, keepdims=True)
    sizes = np.linalg.svd(kernel, compute_uv=False)
    return int((sizes > tolerance * sizes[0]).sum())


print("   beta  rank for r = 1/sqrt(beta)  for r = 0.3")
ranks = {}
for beta in (10, 100, 1000):
    ranks[beta] = rank(beta, beta**-0.5), rank(beta, 0.3)
    print(f"{beta:7d}  {ranks[beta][0]:25d}  {ranks[beta][1]:11d}")
assert max(small for small, _ in ranks.values()) <= 30
assert ranks[10][1] < ranks[100][1] < ranks[1000][1]

# %% [markdown]
# `log_partition(xi, mu, tolerance)` uses that: $O(N)$ to the relative tolerance given. Times depend
# on the machine; checked are the accuracy, and that it is the faster one on 16,002 cells.


# %%
def best_time(f, repeats=2):
    """The shortest of several times in seconds, and the result."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        result = f()
        times.append(perf_counter() - start)
    return min(times), result


sizes, direct_times, fast_times = [], [], []
for f in (10, 20, 40):
    cells = icosphere(f)
    mu, xi = Measure(cells.centroids, cells.areas), 100.0 * cells.centroids
    direct_time, direct = best_time(lambda mu=mu, xi=xi: log_partition(xi, mu)[0])
    fast_time, fast = best_time(lambda mu=mu, xi=xi: log_partition(xi, mu, tolerance=1e-8)[0])
    sizes.append(mu.n)
    direct_times.append(direct_time)
    fast_times.append(fast_time)
    print(f"{mu.n:6d} cells: direct {direct_time:.3f} s, fast {fast_time:.3f} s")
    assert abs(fast - direct).max() < 1e-8
assert fast_times[-1] < direct_times[-1]

# %% [markdown]
# ## The picture

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
z = np.geomspace(0.1, 100, 200)
for nodes in (1, 2, 3, 4):
    left.loglog(z, abs(cell_error(z, nodes)), label=f"{nodes} node{'s' if nodes > 1 else ''}")
left.set(title="One cell", xlabel=r"$\beta h$", ylabel="relative error of Z", ylim=(1e-10, 30))
left.legend(loc="lower right")

for i, (name, found) in enumerate(errors.items()):
    middle.loglog(betas, found, "o-" if i < 3 else "s--", ms=4, label=name)
for i, one in enumerate(meshes.values()):
    middle.axvline(1 / one.spacing**2, color=f"C{i}", lw=0.8, ls=":")
middle.set(title=r"Uniform law; dotted: $\sqrt{\beta}\,h = 1$", xlabel=r"$\beta$")
middle.set_ylim(1e-13, 3e5)
middle.legend(fontsize="x-small", loc="upper left")

N = np.array(sizes)
right.loglog(N, direct_times, "o-", label="direct")
right.loglog(N, fast_times, "s-", label="fast, tolerance 1e-8")
right.loglog(N, direct_times[-1] * (N / N[-1]) ** 2, "k:", lw=1, label="$N^2$, $N$")
right.loglog(N, fast_times[-1] * (N / N[-1]), "k:", lw=1)
right.set(title=r"Time of one evaluation, $\beta = 100$", xlabel="cells", ylabel="seconds")
right.set_xticks(N, [str(count) for count in sizes])
right.set_xticks([], minor=True)
right.legend()

out = Path(os.environ.get("LESSONS_OUT", "out/lessons"))
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "4_quadrature_of_the_softmax.png", dpi=150)

# %% [markdown]
# ## Exercise 1: the softmax mean
#
# Write $\nabla L$ by hand, so that it is right for $|\xi| = 10^4$ as well.


# %%
def check_1(mean):
    """Against the library at |xi| = 10 and 10^4."""
    mu = Measure(mesh.centroids, mesh.areas)
    for beta in (10.0, 1e4):
        found = mean(beta * directions, mu.points, mu.weights)
        assert np.allclose(found, log_partition(beta * directions, mu)[1], atol=1e-12), beta


answer_1 = ...  # a function (xi, points, weights) -> (m, d) means
if answer_1 is not ...:
    check_1(answer_1)

# %% [markdown]
# ## Exercise 2: two Gauss points
#
# What is the leading term of the relative error of $Z_2$ above, $c z^4$? Find $c$.


# %%
def check_2(c):
    """Against the measured error at z = 0.1."""
    assert abs(cell_error(np.array([0.1]), 2)[0] / (c * 0.1**4) - 1) < 0.01, "not the constant"


answer_2 = ...  # a number
if answer_2 is not ...:
    check_2(answer_2)

# %% [markdown]
# ## Exercise 3: a mesh for beta = 1000
#
# Which is the coarsest `icosphere(f)` with $\sqrt\beta\, h \le 1$ at $\beta = 1000$? Use that
# $h \sim 1/f$.


# %%
def check_3(f):
    """Fine enough, and f - 1 is not."""
    assert icosphere(f).spacing <= 1000**-0.5 < icosphere(f - 1).spacing


answer_3 = ...  # a whole number
if answer_3 is not ...:
    check_3(answer_3)

# %% [markdown]
# ## Solutions
#
# 1. See below: shifted like $L$; the constant cancels in the quotient.
# 2. $\cosh(z/\sqrt{12}) = 1 + z^2/24 + z^4/3456 + \dots$ and
#    $\sinh(z/2)/(z/2) = 1 + z^2/24 + z^4/1920 + \dots$, so
#    $c = 1/3456 - 1/1920 = -1/4320$.
# 3. `32 * icosphere(32).spacing` is 1.2030, so $f \ge 1.2030 \sqrt{1000} = 38.04$: 39.


# %%
def softmax_mean(xi, points, weights):
    """Exercise 1."""
    exponents = xi @ points.T
    terms = weights * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return terms @ points / terms.sum(axis=1, keepdims=True)


check_1(softmax_mean)
check_2(-1 / 4320)
check_3(39)
assert abs(32 * icosphere(32).spacing - 1.2030) < 1e-4
