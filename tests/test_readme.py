"""The README keeps its word: its code runs, its commands exist, its paths are there."""

import configparser
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from sphere_attention_scripts.case_file import check_case, shipped_cases
from sphere_attention_scripts.simulate import build_parser, main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
TINY = ["--set", "mesh.frequency=3", "--set", "time.until=0.05", "--quiet"]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def commands():
    lines = (
        line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()
    )
    return [shlex.split(line) for line in lines if line]


def measured_commands():
    """Commands in the last column of the table of measured figures."""
    table = TEXT.partition("<!-- measured:begin -->")[2].partition("<!-- measured:end -->")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    return [shlex.split(code) for row in rows for code in re.findall(r"`([^`]+)`", row[-2])]


def tiny_command(words):
    """The same command on tiny meshes; of two values for a key the later one counts."""
    if words[0] == "run":
        return [*words, *TINY]
    if words[0] == "sweep":
        short = ["--set", "time.until=0.05", "--quiet", "--workers", "1"]
        return [word.replace("frequency=16,32", "frequency=2,3") for word in words] + short
    return words


def test_the_code_runs(tmp_path, monkeypatch):
    """All python blocks in their order, as one session, on tiny meshes."""
    pytest.importorskip("xarray")
    monkeypatch.chdir(tmp_path)
    for words in commands():
        if words[0] == "sphere-attention":
            assert main(tiny_command(words[1:])) == 0
    session = {}
    for block in blocks("python"):
        tiny = re.sub(r"icosphere\(\d+\)", "icosphere(4)", block).replace("500, seed", "50, seed")
        exec(compile(tiny, "README.md", "exec"), session)
    for name in ("first.png", "tokens.png", "own.png"):
        assert (tmp_path / name).stat().st_size > 5000
    np.testing.assert_allclose(session["own"].mesh.total_area, 4 * np.pi)


def test_the_first_picture_takes_twelve_lines():
    lines = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(lines) <= 12


def test_every_command_exists():
    extras = _setup()["options.extras_require"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len(commands()) >= 7
    for words in [*commands(), *measured_commands()]:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, flags=re.MULTILINE), words
        elif words[0] == "sphere-attention":
            build_parser().parse_args(words[1:])
        elif words[:2] == ["python", "-m"]:
            assert words[2] == "pip" or importlib.util.find_spec(words[2]), words
            for extra in re.findall(r"\[(\w+)\]", " ".join(words)):
                assert extra in extras, words
        else:
            assert words[0] == "python" and (ROOT / words[1]).is_file(), words


def test_the_case_shown_is_a_right_one_and_shipped_ones_are_named():
    (shown,) = blocks("toml")
    case = check_case(tomllib.loads(shown))
    default = tomllib.loads((ROOT / "scripts/cases/concentration.toml").read_text(encoding="utf-8"))
    assert check_case(default) == case
    for name in shipped_cases():
        assert f"`{name}`" in TEXT


def test_every_path_named_is_there():
    table = TEXT.partition("## Where things are")[2].partition("## Measured")[0]
    paths = re.findall(r"`([\w./]+/)`", table)
    assert len(paths) >= 6
    for path in paths:
        assert (ROOT / path).is_dir(), path


def test_the_python_versions_are_those_of_the_package():
    assert _setup()["options"]["python_requires"] == ">=3.11"
    assert "Python 3.11 to 3.14" in TEXT


def _setup():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config
