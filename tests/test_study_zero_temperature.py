"""The study of the zero-temperature equation: its errors, its bars, its files."""

import numpy as np
import pytest

from validation import zero_temperature


@pytest.mark.parametrize("form", zero_temperature.FORMS)
def test_second_order_reaches_its_bars_on_small_meshes(form):
    results, study = zero_temperature.errors(zero_temperature.FORMS[form], [8, 16], order=2)
    assert study.order[-1] > 1.65
    assert study.error[-1] < 1.5e-3
    assert results[-1].distance < 3e-4
    assert results[-1].norms["linf"] < 5e-3


def test_a_missed_bar_is_an_exit_status(capsys, monkeypatch):
    coarse = zero_temperature.Result(10242, 0.04, {"l1": 6e-4, "l2": 1.0, "linf": 1.0}, 0.0)
    monkeypatch.setattr(zero_temperature, "solve", lambda B, f, order: coarse)
    assert zero_temperature.main(["--frequencies", "32"]) == 1
    assert "MISSED  B = I, order 2: l1 at 10242 cells: 0.0006 <= 0.0005" in capsys.readouterr().out


@pytest.mark.full
def test_order_6_reaches_its_bar():
    _, study = zero_temperature.errors(np.eye(3), [32], order=6)
    assert study.error[0] < 1e-6
