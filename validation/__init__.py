"""Exact solutions, error norms, transport distances and studies.

A study is a module beside this file: `python -m validation.NAME --out DIR` prints its tables,
verdicts and findings, keeps them with a picture, and ends with status 0 if its bars are met;
`python -m validation` lists them all. What they share lies in the folders.
"""

from validation import convergence, exact, norms, wasserstein

__all__ = ["convergence", "exact", "norms", "wasserstein"]
