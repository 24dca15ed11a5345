"""Case files: every wrong key or value is named, with what is allowed and what was meant."""

import itertools
import tomllib

import pytest

from sphere_attention_scripts.case_file import (
    CaseError,
    case_tables,
    check_case,
    find_case,
    read_case,
    shipped_cases,
    to_toml,
)

GOOD = """
seed = 3
[model]
kind = "attention"
V = [2.0, 1.0, 0.5]
B = [[1, 0, 0], [0, 4, 0], [0, 0, 1]]
beta = 50
[mesh]
kind = "icosphere"
frequency = 5
[initial]
law = "bumps"
centers = [[0, 0, 1], [1, 1, 0]]
widths = 0.3
[time]
until = 1.0
"""


def case(*overrides, text=GOOD, tmp=None):
    tmp = tmp / "mine.toml"
    tmp.write_text(text)
    return read_case(tmp, overrides)


@pytest.fixture
def read(tmp_path):
    return lambda *overrides, text=GOOD: case(*overrides, text=text, tmp=tmp_path)


def test_a_good_case_is_read_with_defaults(read):
    good = read()
    assert good.seed == 3 and good.dim == 3
    assert good.model.beta == 50.0 and isinstance(good.model.beta, float)
    assert good.model.normalized is True and good.scheme.order == 2
    assert good.time.saves == [k / 8 for k in range(9)]


@pytest.mark.parametrize("name", shipped_cases())
def test_shipped_cases_are_good_and_come_back_from_what_is_written(name, tmp_path):
    first = read_case(find_case(name))
    (tmp_path / "again.toml").write_text(
        to_toml(first, {"python": "3.12", "note": 'a "quoted" \\ text'}), encoding="utf-8"
    )
    assert read_case(tmp_path / "again.toml") == first
    assert check_case(case_tables(first)) == first


def test_at_least_the_default_case_and_one_on_the_circle_are_shipped():
    assert {"concentration", "circle_kuramoto", "zero_temperature"} <= set(shipped_cases())
    concentration = read_case(find_case("concentration"))
    assert concentration.model.V == [2.0, 1.0, 0.5] and concentration.model.B == [1.0, 4.0, 1.0]
    assert concentration.model.beta == 50.0 and concentration.mesh.frequency == 20
    assert concentration.time.until == 4.0


@pytest.mark.parametrize(
    ("override", "words"),
    [
        # unknown keys: the key, the value, what is allowed, the nearest right key
        (
            "mesh.frequncy=7",
            ["'mesh.frequncy' = 7", "did you mean 'mesh.frequency'", "frequency, relax"],
        ),
        ("mesh.beta=7", ["'mesh.beta' = 7", "did you mean 'model.beta'"]),
        ("beta=7", ["'beta' = 7", "did you mean 'model.beta'"]),
        ("modle.beta=7", ["'modle' = a table", "did you mean 'model'?"]),
        ("mesh.cells=9", ["'mesh.cells'", 'kind = "icosphere"', "takes frequency, relax"]),
        ("initial.kappa=9", ["'initial.kappa'", 'law = "bumps"', "centers, widths"]),
        # wrong values
        ("mesh.frequency=0", ["'mesh.frequency' must be a whole number >= 1", "got 0"]),
        ("mesh.frequency=2.5", ["'mesh.frequency' must be a whole number", "got 2.5"]),
        ("mesh.frequency=true", ["got true"]),
        (
            "mesh.kind=icosfere",
            ["'mesh.kind'", "'icosphere', 'circle'", "did you mean 'icosphere'"],
        ),
        ("model.beta=-1", ["'model.beta' must be a number >= 0", "got -1"]),
        ("model.beta=nan", ["'model.beta' must be a number >= 0", "got nan"]),
        ('model.beta="hot"', ["'model.beta' must be a number >= 0", 'got "hot"']),
        ("model.normalized=1", ["'model.normalized' must be true or false", "got 1"]),
        ("model.V=[[1,2],[3]]", ["'model.V' must be a square matrix", "got [[1, 2], [3]]"]),
        ("model.V=[1,2]", ["'model.V' must be of dimension 3", "got 2"]),
        ("model.Q=[[1,0,0]]", ["takes either B, or Q and K", "got B and Q"]),
        ("initial.centers=[[0,0,0]]", ["must not be zero vectors"]),
        ("initial.centers=[[0,1]]", ["'initial.centers' must be of dimension 3", "got 2"]),
        ("initial.widths=-0.1", ["'initial.widths' must be a number > 0, or a list", "got -0.1"]),
        ("initial.heights=0", ["must hold some mass"]),
        ("scheme.order=5", ["'scheme.order' must be one of 1, 2, 3, 4, 6, 8", "got 5"]),
        ("scheme.order=2.0", ["got 2.0"]),
        ("scheme.limiter=posit", ["'scheme.limiter'", "did you mean 'positivity'"]),
        ("time.until=0", ["'time.until' must be a number > 0", "got 0"]),
        ("time.save_at=[0.5, 2.0]", ["'time.save_at' must lie between 0 and", "got 2"]),
        ("time=4", ["'time' must be a table [time]", "got 4"]),
        ("seed=-1", ["'seed' must be a whole number >= 0", "got -1"]),
        ("mesh.frequency", ["--set takes key=value"]),
        ("a.b.c=1", ["--set takes key=value"]),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(read, override, words):
    with pytest.raises(CaseError) as caught:
        read(override)
    message = str(caught.value)
    assert message.startswith("mine.toml: ") and "\n" not in message
    for word in words:
        assert word in message, message


def test_the_same_checks_hold_in_the_file(read):
    with pytest.raises(CaseError, match="'mesh.frequncy' = 5; did you mean 'mesh.frequency'"):
        read(text=GOOD.replace("frequency", "frequncy"))
    with pytest.raises(CaseError, match="'model.V' is missing; it must be a square matrix"):
        read(text=GOOD.replace("V = ", "# V = "))
    with pytest.raises(CaseError, match="'initial.law' is missing; it must be one of 'uniform'"):
        read(text=GOOD.replace("law = ", "# law = "))
    with pytest.raises(CaseError, match=r"mine\.toml is not valid TOML: .*line 2"):
        read(text="\nseed = = 3")
    with pytest.raises(CaseError, match="takes save_every or save_at, got both"):
        read(text=GOOD + "save_every = 0.5\nsave_at = [0.5]\n")


def test_overrides_take_toml_values_and_bare_texts(read):
    changed = read("mesh.frequency=9", "model.V=[[1,0,0],[0,1,0],[0,0,1]]", "title=short", "seed=8")
    assert changed.mesh.frequency == 9 and changed.title == "short" and changed.seed == 8
    assert changed.model.V == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_another_kind_of_table_drops_the_keys_it_does_not_take(read):
    assert read("initial.law=uniform").initial.__class__.__name__ == "Uniform"
    zero = read("model.kind=zero_temperature")
    assert zero.model.V == [2.0, 1.0, 0.5]
    with pytest.raises(CaseError, match="unknown key 'initial.centers'"):
        read("initial.law=uniform", "initial.centers=[[1,0,0]]")


def test_save_times_of_an_override_replace_the_file_s(read):
    text = GOOD + "save_every = 0.25\n"
    assert read(text=text).time.saves == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert read("time.save_at=[0.1]", text=text).time.saves == [0.0, 0.1, 1.0]
    assert read("time.until=0.1", text=text).time.saves == [0.0, 0.1]


@pytest.mark.parametrize("every", [0.1, 0.3, 0.7, 1 / 3, 1.0, 5.0])
@pytest.mark.parametrize("until", [0.9, 1.0, 4.0])
def test_saves_rise_from_zero_to_the_end_by_the_interval(read, every, until):
    saves = read(f"time.save_every={every!r}", f"time.until={until!r}").time.saves
    gaps = [b - a for a, b in itertools.pairwise(saves)]
    assert saves[0] == 0.0 and saves[-1] == until
    assert all(gap == pytest.approx(every) for gap in gaps[:-1])
    assert 1e-9 < gaps[-1] <= every * (1 + 1e-9)


def test_names_of_cases(tmp_path):
    with pytest.raises(CaseError, match="no case 'concentratoin'; did you mean 'concentration'"):
        find_case("concentratoin")
    with pytest.raises(CaseError, match=r"no case file .*none\.toml"):
        find_case(str(tmp_path / "none.toml"))
    assert find_case("concentration").is_file()


def test_what_is_written_is_toml(read):
    text = to_toml(read('title="Größe \\"x\\" \\u007f"'))
    assert tomllib.loads(text)["title"] == 'Größe "x" \x7f'
