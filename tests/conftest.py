"""Tests of full-size studies are skipped unless asked for with --full."""

import matplotlib
import pytest

matplotlib.use("Agg")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the studies at their full size too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    skip = pytest.mark.skip(reason="full size: pass --full")
    for item in items:
        if "full" in item.keywords:
            item.add_marker(skip)
