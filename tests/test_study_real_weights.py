"""The study of heads like trained ones: their spectra, the layer's sum, verdicts, files."""

from dataclasses import replace

import numpy as np

from validation import real_weights
from validation.real_weights import HEADS, OMEGA, SECOND, TOP, layer, layer_output, read_back

ARRAYS = layer(24, 6)
READ = read_back(ARRAYS)


def test_the_heads_have_the_spectra_that_are_said():
    for name, head in zip(HEADS, READ, strict=True):
        assert np.linalg.matrix_rank(head.value) == np.linalg.matrix_rank(head.B) == 6
        eigenvalues = np.linalg.eigvals(head.value)
        first, second = sorted(eigenvalues, key=lambda value: -value.real)[:2]
        if name == "turning":
            assert {first, second} == {np.conj(first), first}
            assert abs(first - (TOP + 1j * np.sign(first.imag) * OMEGA)) < 1e-12
        else:
            assert abs(first - TOP) < 1e-12 and abs(second - SECOND) < 1e-12
    symmetric, skew, _ = READ
    np.testing.assert_allclose(symmetric.value, symmetric.value.T, atol=1e-14)
    for M in (skew.value, skew.B):
        assert np.linalg.norm(M - M.T) > 0.2 * np.linalg.norm(M)
    E, F = real_weights.spaces(symmetric)
    assert abs(E[:, 0] @ F[:, 0]) < 1e-12
    assert real_weights.spaces(READ[2])[1] is None


def test_the_layer_is_the_sum_over_heads_token_by_token():
    x = real_weights.random_tokens(5, 24)
    expected = np.zeros_like(x)
    for h in range(3):
        rows = slice(6 * h, 6 * h + 6)
        Q, K, V = (ARRAYS[name][rows] for name in ("query", "key", "value"))
        O = ARRAYS["output"][:, rows]  # noqa: E741
        for i, xi in enumerate(x):
            weights = np.exp([(Q @ xi) @ (K @ xj) / np.sqrt(6) for xj in x])
            expected[i] += (
                O @ sum(w * (V @ xj) for w, xj in zip(weights, x, strict=True)) / (weights.sum())
            )
    np.testing.assert_allclose(layer_output(ARRAYS, x, 3), expected, rtol=0, atol=1e-14)


def test_wrong_files_and_wrong_rates_miss_their_bars():
    assert all(bar.met for bar in real_weights.promised(READ, ARRAYS))
    swapped = {**ARRAYS, "query": ARRAYS["key"]}
    assert not real_weights.promised(READ, swapped)[0].met
    assert [bar.met for bar in real_weights.promised([READ[1], READ[2], READ[0]], ARRAYS)[1:]] == [
        True,
        False,
        False,
    ]
    t = real_weights.TIMES
    good = real_weights.Run(
        "made up", 1.0, np.exp(-2 * TOP * t), np.exp(-(TOP - SECOND) * t), t, t, 0 * t + OMEGA
    )
    bad = replace(good, spread=np.exp(-1.9 * t), aside=np.exp(-0.5 * t), speed=0 * t)
    assert all(bar.met for bar in real_weights.measured(dict.fromkeys(HEADS, good)))
    assert not any(bar.met for bar in real_weights.measured(dict.fromkeys(HEADS, bad)))
    runs = {"symmetric": replace(good, to_E=2.0 - 0.1 * t), "cold": replace(good, to_E=0 * t + 1.0)}
    assert not any(finding.agrees for finding in real_weights.findings(runs))
