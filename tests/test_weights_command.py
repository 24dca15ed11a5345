"""`sphere-attention weights`: the report on known matrices, the run, the files, what is refused."""

import csv
import subprocess
import sys

import numpy as np
import pytest

from pde import Measure, SelfAttention
from pde.fields.weights import HeadWeights
from sphere_attention_scripts import weights_report
from sphere_attention_scripts.simulate import main

TINY = ["--particles", "8", "--until", "0.5"]
AXES = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]


def on_axes(values):
    return (AXES * np.asarray(values, dtype=float)) @ AXES.T


@pytest.fixture
def symmetric(tmp_path):
    """E = axis 1, F = axis 0, F_abs = axis 4."""
    path = tmp_path / "symmetric.npz"
    np.savez(path, K=on_axes([1, 4, 1, 1, 1]), Q=np.eye(5), V=on_axes([2, 1, 0.5, 0, -3]))
    return path


def test_the_report_names_the_spaces_of_symmetric_matrices(symmetric, tmp_path, capsys):
    assert main(["weights", str(symmetric), *TINY, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "d = 5, head dimension k = 5, beta = 0.447214 for unit tokens" in said
    # V B^T has the eigenvalues 2, 4, 0.5, 0, -3: gaps 2, 1 (2 - 1) and 1 (3 - 2).
    for line in (
        "E     (A = V B^T, largest eigenvalue): dimension 1, spectral gap 2",
        "F     (A = V, largest eigenvalue): dimension 1, spectral gap 1",
        "F_abs (A = V, largest modulus): dimension 1, spectral gap 1",
        "assumption 1 holds: B is invertible (condition number 4), V B^T is symmetric",
        "assumption 2 (p = 1, tokens uniform on the sphere) fails: p = 1 >= dim E = 1",
        "assumption 3 (tokens uniform) holds",
        "8 random tokens, seed 0",
    ):
        assert line in said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"weights.txt", "weights.csv", "weights.png"}
    assert (tmp_path / "out" / "weights.txt").read_text().strip() == said.strip()
    with open(tmp_path / "out" / "weights.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == weights_report.SAVES + 1 and float(rows[-1]["t"]) == 0.5


def test_the_spaces_are_the_axes():
    V, B = on_axes([2, 1, 0.5, 0, -3]), on_axes([1, 4, 1, 1, 1])
    spaces = weights_report.limit_spaces(HeadWeights(B, np.eye(5), V))
    for name, axis in (("E", 1), ("F", 0), ("F_abs", 4)):
        assert abs(AXES[:, axis] @ spaces[name].basis[:, 0]) == pytest.approx(1.0, abs=1e-12)


def test_low_rank_and_turning_heads_are_described(tmp_path, capsys):
    """O V has the eigenvalues -0.5 +- i and ten times 0: F is its kernel, F_abs turns."""
    random = np.random.default_rng(5)
    K, Q, V = random.normal(size=(3, 2, 12))
    spiral = np.array([[-0.5, 1.0], [-1.0, -0.5]])
    np.savez(tmp_path / "low.npz", K=K, Q=Q, V=V, O=np.linalg.pinv(V) @ spiral)
    words = ["weights", str(tmp_path / "low.npz"), "--output", "O", "--layer-norm", *TINY]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "head dimension k = 2, beta = 8.48528 for unit tokens" in said
    assert "F     (A = V, largest eigenvalue): dimension 10, spectral gap 0.5" in said
    assert "F_abs (A = V, largest modulus): none: A must have real dominant eigenvalues" in said
    assert "assumption 1 fails: B is singular" in said
    rows = [line.split() for line in said.splitlines()]
    assert {tuple(row[:2]) for row in rows if row[:1] in (["V"], ["B"])} >= {("V", "2"), ("B", "2")}
    # The ten zeros come without rounding's digits.
    assert any(row[:4] == ["V", "0", "0", "0"] for row in rows)


def test_what_is_measured_of_the_tokens():
    B = on_axes([1, 2, 3, 4, 5])
    field = SelfAttention(np.eye(5), B, 1.5, tolerance=None)
    x = weights_report.random_tokens(7, 5, seed=3)
    mu = Measure(x)
    direct = np.log(np.mean(np.exp(1.5 * x @ B @ x.T))) / 1.5
    assert weights_report.interaction(field, mu) == pytest.approx(direct, rel=1e-12)
    zero = SelfAttention(np.eye(5), B, 0.0)
    assert weights_report.interaction(zero, mu) == pytest.approx(np.mean(x @ B @ x.T), rel=1e-12)
    at_rest = Measure(np.tile(x[:1], (3, 1)))
    assert weights_report.speed(field, at_rest, 0.0) < 1e-12
    none = weights_report.Space(None, "none")
    history = weights_report.follow(field, x, 0.2, {"E": none, "F": none})
    pairs = (x @ x.T)[np.triu_indices(7, 1)]
    assert history.columns["product"][0] == pytest.approx(pairs.mean(), abs=1e-13)
    assert history.columns["mean length"][0] == pytest.approx(np.linalg.norm(x.mean(axis=0)))
    assert "W2 to E" not in history.columns


def test_tokens_gather_where_the_theory_says(tmp_path, capsys):
    """V = diag(1, 0.2, ...), B = I on its axes: one cluster at the top axis, E = F."""
    V = on_axes([1.0, 0.2, 0.2, 0.1, 0.1])
    head = HeadWeights(np.eye(5), np.eye(5), V)
    spaces = weights_report.limit_spaces(head)
    tokens = weights_report.random_tokens(16, 5, seed=1)
    history = weights_report.follow(head.field(), tokens, 25.0, spaces)
    assert history.columns["mean length"][-1] > 1.0 - 1e-6
    assert history.columns["W2 to F"][-1] < 1e-3 < history.columns["W2 to F"][0]
    np.testing.assert_allclose(history.columns["W2 to E"], history.columns["W2 to F"], atol=1e-12)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.npz"], "there is no file none.npz"),
        (["FILE", "--key", "W"], "holds no array 'W'"),
        (["FILE", "--heads", "2"], "output must be given for heads = 2"),
        (["FILE", "--particles", "1"], "particles must be >= 2, got 1"),
        (["FILE", "--until", "-1"], "until must be > 0, got -1"),
        (["FILE", "--seed", "-1"], "seed must be >= 0, got -1"),
        (["FILE", "--beta", "-2"], "beta must be >= 0, got -2"),
    ],
)
def test_refusals_are_one_sentence(symmetric, capsys, words, said):
    assert main(["weights", *(str(symmetric) if word == "FILE" else word for word in words)]) == 2
    message = capsys.readouterr()
    assert message.err.startswith("sphere-attention: ") and message.err.count("\n") == 1
    assert said in message.err and message.out == ""


def test_help_is_instant():
    code = (
        "import sys\n"
        "from sphere_attention_scripts.simulate import main\n"
        "try: main(['weights', '--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'numpy', 'pde', 'matplotlib', 'scipy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--layer-norm" in done.stdout
