"""Exact solutions, error norms, transport distances and studies.

Every study is importable and runnable: `python -m validation.NAME --out DIR` prints its table,
saves a picture and ends with status 0 if its bars are met.
"""

from validation import convergence, exact, norms, wasserstein

__all__ = ["convergence", "exact", "norms", "wasserstein"]
