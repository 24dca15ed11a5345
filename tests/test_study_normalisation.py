"""The study of normalisation schemes: its laws hold on few tokens, its bars can be missed."""

import dataclasses

from validation import normalisation


def test_bars_can_be_missed():
    law = normalisation.LAWS[0]
    good = normalisation.Measured(law, 2.0, 2.0, 2.0, 0.0)
    speeds = {"post_ln": (0.1, 0.1)}
    assert all(bar.met for bar in normalisation.promised([good], speeds))
    bad = dataclasses.replace(good, particles=1.9, general=2.1, apart=1e-5)
    assert not any(bar.met for bar in normalisation.promised([bad], {"post_ln": (0.1, 0.2)}))
