"""Relative norms of cell averages."""

import numpy as np
import pytest

from meshes import circle, icosphere
from validation import norms


def test_norms_of_known_differences():
    mesh = icosphere(4)
    b = mesh.average(lambda x: 2.0 + x[:, 2])
    assert norms.relative(mesh, b, b) == {"l1": 0.0, "l2": 0.0, "linf": 0.0}
    for value in norms.relative(mesh, 1.1 * b, b).values():
        assert value == pytest.approx(0.1, rel=1e-12)
    # |a - b| = 1 against b = 2 + z: I|b| = 8 pi, I b^2 = 4 pi (4 + 1/3)
    one = norms.relative(mesh, b + 1.0, b)
    assert one["l1"] == pytest.approx(0.5, rel=1e-12)
    assert one["l2"] == pytest.approx((4 + 1 / 3) ** -0.5, rel=1e-3)
    assert one["linf"] == pytest.approx(1.0 / b.max(), rel=1e-12)


def test_norms_weigh_by_area_and_take_absolute_values():
    mesh = icosphere(3)
    b = np.where(mesh.centers[:, 2] > 0, 1.0, -1.0)
    a = b.copy()
    a[5] += 1.0
    result = norms.relative(mesh, a, b)
    share = mesh.areas[5] / mesh.total_area
    assert result["l1"] == pytest.approx(share, rel=1e-12)
    assert result["l2"] == pytest.approx(np.sqrt(share), rel=1e-12)
    assert result["linf"] == pytest.approx(1.0, rel=1e-12)


def test_bad_arguments():
    mesh = circle(5)
    with pytest.raises(ValueError, match="a must hold one average for each"):
        norms.relative(mesh, np.ones(4), np.ones(5))
    with pytest.raises(ValueError, match="b must not vanish"):
        norms.relative(mesh, np.ones(5), np.zeros(5))
    with pytest.raises(ValueError, match="a must be finite"):
        norms.relative(mesh, np.full(5, np.nan), np.ones(5))
