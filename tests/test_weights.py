"""Heads from files of weights: the attention of a layer, formats, shapes, what is refused."""

import sys

import numpy as np
import pytest

from pde import Measure
from pde.fields.heads import Heads
from pde.fields.weights import HeadWeights, array_names, read_head

D, K, N_HEADS = 24, 4, 3
NAMES = {"key": "layer.key", "query": "layer.query", "value": "layer.value", "output": "layer.out"}


def layer(seed=0):
    """Matrices of low rank with decaying singular values, as training leaves them, in float32."""
    random = np.random.default_rng(seed)
    rows = N_HEADS * K
    decay = 1.5 * 0.8 ** np.arange(rows)
    found = {
        name: decay[:, None] * np.linalg.qr(random.normal(size=(D, rows)))[0].T
        for name in ("key", "query", "value")
    }
    found["output"] = random.normal(size=(D, rows)) / np.sqrt(D)
    # In C order: safetensors writes other orders without a word as if they were.
    return {NAMES[name]: np.array(M, dtype=np.float32, order="C") for name, M in found.items()}


def heads_of(path):
    return [read_head(path, **NAMES, head=h, heads=N_HEADS) for h in range(N_HEADS)]


def multi_head_attention(arrays, tokens):
    """As a layer computes it: all heads side by side, softmax row by row, then the output."""
    split = lambda M: M.reshape(N_HEADS, K, D)  # noqa: E731
    q, k, v = (
        tokens @ np.swapaxes(split(arrays[NAMES[n]]), 1, 2) for n in ("query", "key", "value")
    )
    scores = q @ np.swapaxes(k, 1, 2) / np.sqrt(K)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    mixed = weights / weights.sum(axis=2, keepdims=True) @ v
    return np.concatenate(mixed, axis=1) @ arrays[NAMES["output"]].T


def tokens(n=10, d=D):
    x = np.random.default_rng(n).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_the_heads_add_up_to_the_layer(tmp_path):
    np.savez(tmp_path / "layer.npz", **layer())
    x = tokens()
    mu = Measure(x)
    for length, layer_norm in ((1.0, False), (np.sqrt(D), True)):
        fields = [head.field(layer_norm=layer_norm) for head in heads_of(tmp_path / "layer.npz")]
        arrays = {name: matrix.astype(float) for name, matrix in layer().items()}
        expected = multi_head_attention(arrays, length * x) / length
        found = Heads(fields).output(x, mu)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_products_and_temperatures():
    random = np.random.default_rng(2)
    key, query, V = random.normal(size=(3, K, D))
    O = random.normal(size=(D, K))  # noqa: E741
    head = HeadWeights(key, query, V, O)
    np.testing.assert_allclose(head.B, query.T @ key, rtol=1e-15)
    np.testing.assert_allclose(head.value, O @ V, rtol=1e-15)
    assert (head.dim, head.head_dim) == (D, K)
    assert np.linalg.matrix_rank(head.B) == np.linalg.matrix_rank(head.value) == K
    assert head.beta() == 0.5 and head.beta(layer_norm=True) == 12.0
    assert head.field().beta == 0.5 and head.field(3.0, normalized=False).beta == 3.0
    square = HeadWeights(key, query, np.eye(D))
    np.testing.assert_array_equal(square.value, np.eye(D))


def test_rotating_the_model_rotates_the_velocity():
    random = np.random.default_rng(3)
    key, query, V = random.normal(size=(3, K, D))
    O = random.normal(size=(D, K))  # noqa: E741
    R = np.linalg.qr(random.normal(size=(D, D)))[0]
    x = tokens()
    v = HeadWeights(key, query, V, O).field().velocity(x, Measure(x))
    turned = HeadWeights(key @ R.T, query @ R.T, V @ R.T, R @ O).field()
    np.testing.assert_allclose(
        turned.velocity(x @ R.T, Measure(x @ R.T)), v @ R.T, rtol=0, atol=1e-12
    )


def test_square_matrices_need_no_output_and_no_names(tmp_path):
    random = np.random.default_rng(4)
    key, query, V = random.normal(size=(3, D, D))
    np.savez(tmp_path / "square.npz", K=key, Q=query, V=V)
    head = read_head(tmp_path / "square.npz")
    np.testing.assert_array_equal(head.value, V)
    np.testing.assert_array_equal(head.B, query.T @ key)
    assert head.head_dim == D
    assert sorted(array_names(tmp_path / "square.npz")) == ["K", "Q", "V"]


def test_safetensors_hold_the_same(tmp_path):
    numpy_format = pytest.importorskip("safetensors.numpy")
    half = {name: matrix.astype(np.float16) for name, matrix in layer().items()}
    for name, arrays in (("single", layer()), ("half", half)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        numpy_format.save_file(arrays, tmp_path / f"{name}.safetensors")
        for a, b in zip(
            heads_of(tmp_path / f"{name}.npz"),
            heads_of(tmp_path / f"{name}.safetensors"),
            strict=True,
        ):
            np.testing.assert_array_equal(a.B, b.B)
            np.testing.assert_array_equal(a.value, b.value)


def test_safetensors_that_numpy_cannot_hold(tmp_path):
    pytest.importorskip("safetensors")
    path = tmp_path / "brain.safetensors"
    header = b'{"K":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match=r"array 'K' .* stored as BF16, which numpy does not know"):
        read_head(path, "K", "K", "K")
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="is damaged or no .safetensors file"):
        read_head(path)


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match="needs the package safetensors: python -m pip install"):
        read_head(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"key": "layer.kye"}, r"no array 'layer.kye'; it holds 'layer.key', .*"),
        ({"heads": 5}, "heads must divide the head side of 'layer.key', 12, got heads = 5"),
        ({"heads": 0}, "heads must be a whole number >= 1, got 0"),
        ({"heads": 2.5}, "heads must be a whole number >= 1, got 2.5"),
        ({"head": 3}, "head must be one of 0 to 2 for heads = 3, got 3"),
        ({"head": -1}, "head must be one of 0 to 2"),
        ({"output": None}, "output must be given for heads = 3"),
        ({"output": None, "heads": 1, "head": 0}, r"V must have shape \(24, 24\) unless .* O"),
        ({"key": "odd"}, r"key and query must have one shape, got \(6, 24\) for 'odd'"),
        ({"output": "layer.value"}, "V and O must have shapes"),
        ({"value": "odd"}, r"V and O must have shapes \(k, 24\) and \(24, k\), got \(2, 24\)"),
        ({"key": "line"}, "line must have 2 dimension"),
        ({"key": "nan"}, "nan must be finite, got nan at index"),
    ],
)
def test_bad_files_names_and_shapes(tmp_path, changed, message):
    nan = np.full((12, D), np.nan)
    np.savez(tmp_path / "w.npz", **layer(), odd=np.ones((6, D)), line=np.ones(6), nan=nan)
    with pytest.raises(ValueError, match=message):
        read_head(tmp_path / "w.npz", **{**NAMES, "head": 0, "heads": N_HEADS, **changed})


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_head(tmp_path / "none.npz")
    (tmp_path / "model.bin").write_text("x")
    with pytest.raises(ValueError, match=r"as .npz or .safetensors, got .*model.bin"):
        read_head(tmp_path / "model.bin")
    for content in (b"", b"not a zip", b"PK\x03\x04 broken"):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match="is damaged or no .npz file"):
            read_head(tmp_path / "bad.npz")
    np.save(tmp_path / "one.npy", np.eye(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    with pytest.raises(ValueError, match="is damaged or no .npz file"):
        read_head(tmp_path / "one.npz")
    np.savez(tmp_path / "words.npz", K=np.array([["a", "b"]]))
    with pytest.raises(TypeError, match="K must hold real numbers"):
        read_head(tmp_path / "words.npz", "K", "K", "K")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3), (3, 3), (3, 3), None), r"K and Q must have one shape .*\(2, 3\) and \(3, 3\)"),
        (((2, 1), (2, 1), (1, 1), None), "d >= 2"),
        (((2, 3), (2, 3), (2, 3), None), r"V must have shape \(3, 3\) unless"),
        (((2, 3), (2, 3), (2, 3), (2, 3)), r"V and O must have shapes \(k, 3\) and \(3, k\)"),
    ],
)
def test_bad_matrices(shapes, message):
    with pytest.raises(ValueError, match=message):
        HeadWeights(*(None if shape is None else np.ones(shape) for shape in shapes))


def test_bad_temperatures():
    head = HeadWeights(np.eye(3), np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match="beta must be >= 0, got -1"):
        head.field(-1.0)
    with pytest.raises(ValueError, match="give one of the two"):
        head.field(1.0, layer_norm=True)
