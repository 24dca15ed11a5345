"""Full-size studies are skipped unless asked for with --full; processes share the cores."""

import os

import matplotlib
import pytest

matplotlib.use("Agg")


def pytest_configure(config):
    """Beside other processes one thread is the default; tests of threads ask for their own."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        import numba

        import pde  # noqa: F401 (before the first thread is started, for its waiting policy)

        numba.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the studies at their full size too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    skip = pytest.mark.skip(reason="full size: pass --full")
    for item in items:
        if "full" in item.keywords:
            item.add_marker(skip)
