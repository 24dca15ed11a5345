"""The lessons run as they are shipped, draw, check what they claim, and open as notebooks."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "scripts" / "lessons"
LESSONS = sorted(FOLDER.glob("*.py"))

WRONG = (12345.678, [7.0, 8.0, 9.0], lambda *given, **named: 12345.678)
"""A number, a list and a function that answer no exercise."""


def cells(text):
    """(kind, source) of the cells of a percent-format file; kind is "markdown" or "code"."""
    parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)
    assert parts[0] == "", "something stands before the first cell"
    found = []
    for mark, source in zip(parts[1::2], parts[2::2], strict=True):
        assert mark in ("", " [markdown]"), f"unknown mark {mark!r}"
        if mark:
            lines = source.rstrip("\n").split("\n")
            assert all(re.match(r"#( |$)", line) for line in lines), f"no comment in {lines[0]!r}"
            found.append(("markdown", "\n".join(line[2:] for line in lines)))
        else:
            found.append(("code", source.strip("\n")))
    return found


def test_there_are_six_lessons():
    assert [path.name[:2] for path in LESSONS] == [f"{k}_" for k in range(1, 7)]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_it_opens_as_a_notebook(path):
    """Every cell stands by itself: code parses, headings lead, formulas close."""
    found = cells(path.read_text(encoding="utf-8"))
    text = [source for kind, source in found if kind == "markdown"]
    code = [source for kind, source in found if kind == "code"]
    assert re.match(rf"# Lesson {path.name[0]}: \S", text[0])
    assert len(text) >= 8 and len(code) >= 8 and "**The idea.**" in text[0]
    for source in code:
        assert ast.parse(source).body, "an empty cell"
    for source in text:
        assert source.count("$$") % 2 == 0
        assert source.count("{") == source.count("}")
        assert source.replace("$$", "").count("$") % 2 == 0
    assert text[-1].startswith("## Solutions")
    # One import cell at the top: the cells after it run in any session that has run it.
    assert not [s for s in code[1:] if re.search(r"^(import|from) ", s, flags=re.MULTILINE)]
    assert sum(source.count("assert ") for source in code) >= 10


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_it_runs_and_its_exercises_can_be_failed(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LESSONS_OUT", str(tmp_path / "pictures"))
    lesson = runpy.run_path(str(path))
    plt.close("all")
    (picture,) = (tmp_path / "pictures").iterdir()
    assert picture.name == f"{path.stem}.png" and picture.stat().st_size > 50_000
    assert [left.name for left in tmp_path.iterdir()] == ["pictures"]
    assert len(capsys.readouterr().out.splitlines()) > 5
    checks = {name: value for name, value in lesson.items() if re.fullmatch(r"check_\d", name)}
    assert len(checks) >= 2
    for name, check in checks.items():
        assert lesson[name.replace("check", "answer")] is ..., "an answer is given away"
        for wrong in WRONG:
            with pytest.raises((AssertionError, TypeError, ValueError)):
                check(wrong)


def test_it_runs_as_a_module_where_the_package_is_installed(tmp_path):
    """What a wheel offers, and the folder where pictures go by default."""
    name = LESSONS[0].stem
    done = subprocess.run(
        [sys.executable, "-m", f"sphere_attention_scripts.lessons.{name}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "lessons" / f"{name}.png").is_file()


@pytest.mark.parametrize("page", ["scripts/lessons/README.md", "scripts/docs/lessons.md"])
def test_pages_list_every_lesson(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"`(\d_\w+\.py)`", text))) == [path.name for path in LESSONS]
    for command in re.findall(r"scripts/lessons/\w+\.py", text):
        assert (ROOT / command).is_file()
