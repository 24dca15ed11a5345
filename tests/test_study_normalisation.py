"""The study of normalisation schemes: its laws hold on few tokens, its bars can be missed."""

import dataclasses

import pytest

from validation import normalisation


def test_the_study_runs_as_a_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(normalisation, "TOKENS", 6)
    assert normalisation.main(["--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("t^-2") >= 2 and "first speed" in printed
    assert (tmp_path / "normalisation.txt").read_text() == printed
    assert (tmp_path / "normalisation.png").stat().st_size > 1000


def test_bars_can_be_missed():
    law = normalisation.LAWS[0]
    good = normalisation.Measured(law, 2.0, 2.0, 2.0, 0.0)
    speeds = {"post_ln": (0.1, 0.1)}
    assert all(bar.met for bar in normalisation.promised([good], speeds))
    bad = dataclasses.replace(good, particles=1.9, general=2.1, apart=1e-5)
    assert not any(bar.met for bar in normalisation.promised([bad], {"post_ln": (0.1, 0.2)}))


@pytest.mark.full
def test_the_study_at_its_full_size(tmp_path):
    assert normalisation.main(["--full", "--out", str(tmp_path)]) == 0
