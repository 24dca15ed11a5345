"""Observed orders, tables and pictures of convergence studies."""

import numpy as np
import pytest

from validation import convergence


def test_orders_of_known_powers():
    result = convergence.study(lambda n: 3.0 / n**2.5, [8, 16, 24])
    np.testing.assert_allclose(result.h, [1 / 8, 1 / 16, 1 / 24])
    assert np.isnan(result.order[0])
    np.testing.assert_allclose(result.order[1:], 2.5, rtol=1e-12)


def test_widths_can_be_given():
    result = convergence.study(lambda n: 2.0**-n, [1, 2, 3], spacing=lambda n: 2.0 ** (-n / 3))
    np.testing.assert_allclose(result.order[1:], 3.0, rtol=1e-12)


def test_errors_of_zero_have_no_order():
    result = convergence.study(lambda n: 0.0 if n > 2 else 1.0, [1, 2, 3, 4])
    assert np.isnan(result.order[2:]).all() and result.order[1] == 0.0


def test_the_table_holds_what_was_measured():
    lines = str(convergence.study(lambda n: 1.0 / n, [10, 20], name="l1")).splitlines()
    assert lines[0].split() == ["resolution", "h", "l1", "order"]
    assert lines[1].split() == ["10", "0.1", "1.000e-01"]
    assert lines[2].split() == ["20", "0.05", "5.000e-02", "1.00"]
    assert len({len(line) for line in lines if line.split()[-1] != "1.000e-01"}) == 1


def test_pictures_are_written(tmp_path):
    result = convergence.study(lambda n: 1.0 / n, [10, 20])
    path = result.plot(tmp_path / "new" / "study.png")
    assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("error_of", "resolutions", "message"),
    [
        (lambda n: 1.0, [], "at least one"),
        (lambda n: 1.0, [2, 1], "coarse to fine"),
        (lambda n: np.nan, [1, 2], "errors must be finite"),
        (lambda n: -1.0, [1, 2], "errors must be finite and >= 0"),
    ],
)
def test_bad_studies(error_of, resolutions, message):
    with pytest.raises(ValueError, match=message):
        convergence.study(error_of, resolutions)
