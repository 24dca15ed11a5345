"""The command line with extreme and broken words: one sentence, never a traceback or a hang."""

import pytest
from strategies import answered_or_refused, at_most, run

from pde import Solution
from sphere_attention_scripts import run_case
from sphere_attention_scripts.case_file import check_case, read_case, to_toml
from sphere_attention_scripts.simulate import main

MANY = "1" + "0" * 400

REFUSED = [
    ("model.V=[nan, 1.0]", "model.V"),
    ("model.V=[1e308, 1e308]", "V must have entries"),
    ("model.V=" + "[" * 3000, "model.V"),
    ("model.beta=nan", "model.beta"),
    ("model.beta=" + MANY, "model.beta"),
    ("model.beta=" + "9" * 5000, "model.beta"),
    ("model.beta=1e16", "beta"),
    ("model.diffusion=1e308", "diffusion"),
    ("seed=" + MANY, "seed"),
    ("seed=" + "9" * 5000, "seed"),
    ("mesh.cells=" + MANY, "n must be"),
    ("time.save_every=1e-300", "time.save_every"),
    ("time.save_every=5e-324", "time.save_every"),
    ("time.until=1e9", "time.save_every"),
    ("time.until=inf", "time.until"),
    ("scheme.stepper=implicit", "implicit"),
    ("scheme.order=8", "order 8"),
    ("title=3", "title"),
    ("=", "--set"),
    ("", "--set"),
]


@pytest.mark.parametrize(("change", "named"), REFUSED, ids=lambda text: text[:24])
def test_extreme_values_are_refused(tmp_path, capsys, change, named):
    with at_most(20):
        assert main(run(tmp_path / "out", change)) == 2
    said = capsys.readouterr().err
    assert said.startswith("sphere-attention: ") and said.count("\n") == 1
    assert named in said and len(said) < 500
    assert not (tmp_path / "out").exists()


LAWS = [
    (["initial.law=spot", "initial.center=[1e-200, 0.0]", "initial.radius=1.0"], 0),
    (["initial.law=spot", "initial.center=[1e200, 1e200]", "initial.radius=1.0"], 0),
    (["initial.law=spot", "initial.center=[1.0, 0.0]", "initial.radius=1e-300"], 2),
    (["initial.law=von_mises_fisher", "initial.mean=[0.0, 5e-324]", "initial.kappa=1e3"], 0),
    (["initial.law=von_mises_fisher", "initial.mean=[0.0, 1.0]", "initial.kappa=1e300"], 2),
    (["initial.law=bumps", "initial.centers=[[1.0, 0.0]]", "initial.widths=1e-300"], 2),
    (["initial.law=bumps", "initial.centers=[[1.0, 0.0]]", "initial.widths=1e300",
      "initial.heights=1e308"], 0),
    (["initial.law=angular_central_gaussian", "initial.Lambda=[1e-308, 1.0]"], 0),
    (["model.normalized=false", "model.beta=1000.0"], 2),
    (["model.V=[0.0, 0.0]", "model.B=[0.0, 0.0]"], 0),
    (["model.beta=0.0", "model.diffusion=5e-324"], 0),
    (["model.beta=1e6"], 0),
    (["time.until=5e-324", "time.save_every=5e-324"], 0),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "status"), LAWS)
def test_extreme_cases_run_or_are_refused(tmp_path, capsys, monkeypatch, changes, status):
    monkeypatch.setattr(run_case, "draw", lambda *parts: None)
    with at_most(30):
        assert main(run(tmp_path / "out", *changes)) == status
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if status == 0:
        mass = Solution.open(tmp_path / "out" / "result.nc").diagnostics["mass"]
        assert abs(mass - mass[0]).max() < 1e-12 * mass[0]


def test_a_field_that_leaves_the_range_later_keeps_what_was_saved(tmp_path, capsys, monkeypatch):
    """Unnormalised sums grow as mass gathers: from 5e3 past e^700."""
    monkeypatch.setattr(run_case, "draw", lambda *parts: None)
    advance = run_case.Simulation._advance

    def later(self, target):
        if self.t >= 0.1:
            raise ValueError("beta is too large for unnormalised attention")
        advance(self, target)

    monkeypatch.setattr(run_case.Simulation, "_advance", later)
    assert main(run(tmp_path / "out")) == 1
    said = capsys.readouterr().err
    assert "failed at t = 0.1: beta is too large" in said and "the 2 states saved" in said
    assert len(Solution.open(tmp_path / "out" / "result.nc").times) == 2


def test_too_little_memory_is_said(tmp_path, capsys, monkeypatch):
    def none(case):
        raise MemoryError("Unable to allocate 149. GiB")

    monkeypatch.setattr(run_case, "set_up", none)
    assert main(run(tmp_path / "out")) == 1
    assert capsys.readouterr().err.endswith("not enough memory (Unable to allocate 149. GiB)\n")


@pytest.mark.parametrize("words", [
    ["info", ""], ["info", "a\0b"], ["info", "/"], ["export", "/", "--html", "a.html"],
    ["run", "/", "--out", "z"], ["run", "\0", "--out", "z"], ["run", "no/such.toml", "--out", "z"],
    ["run", "--resume", "/"], ["run", "--resume", "a\0b"], ["run", "--out", "/proc/none"],
])  # fmt: skip
def test_paths_that_lead_nowhere(capsys, words):
    with at_most(20):
        assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("sphere-attention: ") and said.count("\n") == 1


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_forgotten_variable_is_no_folder(capsys, name):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--out", name])
    assert ended.value.code == 2
    assert "name a folder" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "-1", "1e-9", "1e9"])
def test_rates_of_animations(tmp_path, capsys, rate):
    Solution([0.0], [[[1.0, 0.0]]]).save(tmp_path / "r.nc")
    words = ["export", tmp_path / "r.nc", "--animation", tmp_path / "a.gif", "--fps", rate]
    assert main([str(word) for word in words]) == 2
    assert "frames_per_second must be" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["r.nc"]


def test_case_files_of_any_content(tmp_path):
    """Cut anywhere, with any byte changed, nested without end: a case, or a CaseError."""
    path = tmp_path / "case.toml"
    whole = to_toml(check_case({
        "model": {"kind": "attention", "V": [2.0, 1.0, 0.5], "B": [1.0, 4.0, 1.0], "beta": 5.0},
        "mesh": {"kind": "icosphere", "frequency": 2},
        "initial": {"law": "random_band_limited"},
        "time": {"until": 1.0},
    })).encode()  # fmt: skip
    texts = [b"\xff\xfe", b"\0", b"x = " + b"[" * 5000, b"x = " + b"{a=" * 3000, b"[a" * 3000]
    texts += [whole[:place] for place in range(0, len(whole), 5)]
    for place in range(0, len(whole), 2):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place // 2 % 8
        texts.append(bytes(flipped))
    refusals = 0
    for text in texts:
        path.write_bytes(text)
        refusals += answered_or_refused(lambda: read_case(path), "case.toml") is None
    assert 100 < refusals < len(texts)
