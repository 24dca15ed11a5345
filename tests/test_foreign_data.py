"""What other programs write: single precision, packed files, quantised weights, other alphabets."""

import os
import subprocess
import sys

import numpy as np
import pytest

from meshes import icosphere
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, Solution, initial
from pde.fields.weights import read_head
from pde.limits import Projection
from pde.pictures.animation import animate
from pde.pictures.web import export_html
from sphere_attention_scripts.case_file import CaseError, find_case, read_case
from sphere_attention_scripts.simulate import main
from validation import wasserstein


def single(n=1000, d=3, seed=1):
    x = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("d", [2, 3, 64, 1024])
def test_unit_vectors_of_single_precision_become_those_of_double(d):
    x = single(d=d)
    mu = Measure(x)
    np.testing.assert_allclose(np.linalg.norm(mu.points, axis=1), 1.0, rtol=0, atol=1e-8)
    np.testing.assert_allclose(mu.points, x, rtol=0, atol=1e-6)
    assert ParticleSystem(Equation(SelfAttention(np.eye(d), np.eye(d), 1.0))).initial_state(x).shape


def test_unit_vectors_of_double_precision_stay_to_the_bit():
    x = single().astype(float)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_array_equal(Measure(x).points, x)
    mixed = np.concatenate([x, single(10)])
    np.testing.assert_array_equal(Measure(mixed).points[:1000], x)


def test_directions_and_bases_of_single_precision():
    mean = single(1)[0]
    assert initial.von_mises_fisher(mean, 3.0)(np.eye(3)).shape == (3,)
    basis = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 2)))[0].astype(np.float32)
    E = Projection(basis).E
    np.testing.assert_allclose(E.T @ E, np.eye(2), rtol=0, atol=1e-14)
    np.testing.assert_allclose(E, basis, rtol=0, atol=1e-6)


@pytest.mark.parametrize("length", [1.00001, 0.99999, 1.0000021])
def test_other_lengths_are_shown_as_what_they_are(length):
    with pytest.raises(ValueError, match=f"row 0 has length {length}; divide by the lengths"):
        Measure([[length, 0.0, 0.0]])


def test_totals_of_single_precision_are_one_total():
    weights = np.random.default_rng(1).uniform(size=300).astype(np.float32)
    mu = Measure(single(300), weights / weights.sum(dtype=np.float32))
    nu = Measure(single(300, seed=2))
    assert mu.total != nu.total
    exact = wasserstein.distance(Measure(mu.points, mu.weights / mu.total), nu)
    assert wasserstein.distance(mu, nu).value == pytest.approx(exact.value, rel=1e-6)


def saved(tmp_path, name="a.nc"):
    mesh = icosphere(4)
    system = FiniteVolume(mesh, Equation(SelfAttention(np.eye(3), np.eye(3), 1.0)))
    rho = system.initial_state(initial.random_band_limited(1))
    solution = Solution([0.0], [rho], {"mass": np.ones(1)}, mesh, metadata={"title": "β = 4"})
    solution.save(tmp_path / name)
    return tmp_path / name, rho


def test_packed_files_open_as_the_numbers_that_they_stand_for(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    path, rho = saved(tmp_path)
    packed = tmp_path / "packed.nc"
    with netCDF4.Dataset(path) as source, netCDF4.Dataset(packed, "w") as target:
        source.set_auto_maskandscale(False)
        target.setncatts({name: source.getncattr(name) for name in source.ncattrs()})
        for name, dimension in source.dimensions.items():
            target.createDimension(name, None if dimension.isunlimited() else dimension.size)
        for name, old in source.variables.items():
            kind = np.int16 if name == "density" else old.dtype
            fill = old.getncattr("_FillValue") if "_FillValue" in old.ncattrs() else None
            new = target.createVariable(name, kind, old.dimensions, fill_value=fill)
            new.setncatts({k: old.getncattr(k) for k in old.ncattrs() if k != "_FillValue"})
            if name == "density":
                new.setncatts({"scale_factor": 1e-5, "add_offset": 0.08})
                new.set_auto_maskandscale(False)
                new[...] = np.round((old[...] - 0.08) / 1e-5)
            else:
                new.set_auto_maskandscale(False)
                new[...] = old[...]
    opened = Solution.open(packed)
    np.testing.assert_allclose(opened.states[0], rho, rtol=0, atol=0.51e-5)
    assert opened.measures[0].total == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, bool])
def test_quantised_weights_are_refused(tmp_path, kind):
    arrays = {name: np.ones((4, 4), np.float32) for name in ("q", "k", "v")}
    arrays["k"] = np.ones((4, 4), kind)
    np.savez(tmp_path / "w.npz", **arrays)
    match = f"array 'k' of .* is stored as {np.dtype(kind)}, the codes of quantised"
    with pytest.raises(ValueError, match=match):
        read_head(tmp_path / "w.npz", key="k", query="q", value="v")


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_what_is_not_finite_is_not_shown(tmp_path, wrong):
    mesh = icosphere(2)
    states = np.ones((2, mesh.n_cells))
    states[1, 7] = wrong
    solution = Solution([0.0, 1.0], states, mesh=mesh)
    for show in (
        lambda: export_html(solution, tmp_path / "a.html"),
        lambda: animate(solution, tmp_path / "a.gif"),
        lambda: solution.plot(tmp_path / "a.png"),
    ):
        with pytest.raises(ValueError, match=r"state 2 of 2 is (inf|nan) at index 7"):
            show()
    assert not list(tmp_path.iterdir())
    clouds = np.tile(np.eye(3), (2, 1, 1))
    clouds[1, 2, 0] = wrong
    with pytest.raises(ValueError, match=r"state 2 of 2 is (inf|nan) at index \(2, 0\)"):
        export_html(Solution([0.0, 1.0], clouds), tmp_path / "a.html")


def test_titles_that_a_terminal_cannot_show_are_spelled_out(tmp_path):
    path, _ = saved(tmp_path)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "sphere_attention_scripts.simulate", "info", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert r"\u03b2 = 4" in done.stdout


def test_a_byte_order_mark_is_skipped_and_other_encodings_are_named(tmp_path, capsys):
    text = find_case("concentration").read_text(encoding="utf-8")
    (tmp_path / "a.toml").write_text(text, encoding="utf-8-sig")
    assert read_case(tmp_path / "a.toml") == read_case(find_case("concentration"))
    (tmp_path / "b.toml").write_text(text, encoding="utf-16")
    with pytest.raises(CaseError, match="is stored as UTF-16; TOML is UTF-8"):
        read_case(tmp_path / "b.toml")
    assert main(["run", str(tmp_path / "b.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "UTF-16" in capsys.readouterr().err
