"""Wasserstein distances between measures on the sphere, with certified bounds.

    W_p(mu, nu)^p = min { int c(x, y)^p dpi(x, y) : pi has marginals mu and nu },

c the chordal distance |x - y| or the geodesic one. The upper bound is the cost of a plan, the lower
one the value of dual potentials made feasible by a c-transform. Both are for the atoms given; what
a mesh adds to the distance of the continuum laws is reported apart.

`python -m validation.brackets` prints a table of brackets, times and closed forms.
"""

from validation.wasserstein.bracket import Distance, distance

__all__ = ["Distance", "distance"]
