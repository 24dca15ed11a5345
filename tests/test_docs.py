"""The documentation keeps its word: pages, pictures, commands, examples; and how it is laid out."""

import argparse
import ast
import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sphere_attention_scripts.docs import build, pictures
from sphere_attention_scripts.docs.plain_docstrings import restructured
from sphere_attention_scripts.simulate import build_parser
from validation.__main__ import studies

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "scripts" / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md"))
SYSTEMS = {path.stem: path for path in (DOCS / "systems").glob("*.md") if path.stem != "index"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def parses(words):
    """Whether a command's arguments are those of its parser."""
    if words[0] == "sphere-attention":
        build_parser().parse_args(words[1:])
    elif words[:2] == ["python", "-m"]:
        _parse(importlib.import_module(words[2]), words[3:])
    else:
        assert words[0] == "python" and (ROOT / words[1]).is_file(), words


class Parsed(Exception):
    """Raised in place of running."""


def _parse(module, arguments):
    original = argparse.ArgumentParser.parse_args

    def stop(self, args=None, namespace=None):
        original(self, args, namespace)
        raise Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        with pytest.raises(Parsed):
            module.main(arguments)


# --- pages -----------------------------------------------------------------------------------


def test_every_study_has_a_page_and_every_page_a_study():
    assert set(SYSTEMS) == set(studies())


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_a_page_has_title_formula_and_command(name):
    text = SYSTEMS[name].read_text(encoding="utf-8")
    assert re.match(r"# \S.*\n", text)
    assert re.search(r"^\$\$\n.+?^\$\$$", text, flags=re.MULTILINE | re.DOTALL), "no equation"
    commands = [
        shlex.split(line)
        for block in blocks(text, "sh")
        for line in (line.partition("#")[0].strip() for line in block.splitlines())
        if line
    ]
    assert [words for words in commands if words[:3] == ["python", "-m", f"validation.{name}"]]
    for words in commands:
        parses(words)


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_a_page_shows_the_picture_of_its_study(name):
    """A study that draws one is shown with it; every picture shown has something that makes it."""
    text = SYSTEMS[name].read_text(encoding="utf-8")
    source = (ROOT / "validation" / f"{name}.py").read_text(encoding="utf-8")
    draws = "Panel" in source or "convergence.panel" in source
    assert (f"](../pictures/{name}.png)" in text) == draws
    assert all(alt.strip() for alt in re.findall(r"!\[([^\]]*)\]", text)), "a picture says nothing"


def test_every_picture_is_referred_to_in_the_one_way_that_is_made():
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            up = "../" * len(page.relative_to(DOCS).parts[:-1])
            match = re.fullmatch(rf"{re.escape(up)}pictures/([\w-]+)\.png", target)
            assert match, (page, target)
            assert pictures.command(match[1])


def test_equations_close_and_use_no_sign_that_markdown_takes():
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"`[^`\n]*`", "", text)
        assert text.count("$$") % 2 == 0, page
        for formula in re.findall(r"\$\$(.*?)\$\$", text, flags=re.DOTALL):
            assert formula.count("{") == formula.count("}"), (page, formula)
            assert len(re.findall(r"\\left\b", formula)) == len(
                re.findall(r"\\right\b", formula)
            ), (page, formula)
            assert "\n\n" not in formula, (page, formula)
        assert re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL).count("$") % 2 == 0, page


@pytest.mark.parametrize(
    "name", sorted(n for n, p in SYSTEMS.items() if "```python" in p.read_text())
)
def test_the_python_of_a_page_runs(name, tmp_path, monkeypatch):
    """All its blocks in their order, as one session."""
    monkeypatch.chdir(tmp_path)
    session = {}
    for block in blocks(SYSTEMS[name].read_text(encoding="utf-8"), "python"):
        exec(compile(block, str(SYSTEMS[name]), "exec"), session)


def test_every_section_of_the_readme_is_on_a_page():
    included = {
        name
        for page in PAGES
        for name in re.findall(r"\{include\} (?:\.\./)?readme/([\w-]+)\.md", page.read_text())
    }
    assert included == set(build.readme_sections())


def test_measured_figures_have_commands():
    text = build.readme_sections()["measured"]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    for what, measured, command in rows[2:]:
        assert what.strip() and re.search(r"\d", measured), what
        (words,) = [shlex.split(code) for code in re.findall(r"`([^`]+)`", command)]
        if words[0] != "make":
            parses(words)


# --- laying out ------------------------------------------------------------------------------


def test_sources_are_laid_out(tmp_path):
    assert build.main(["--quick", "--sources-only", "--out", str(tmp_path)]) == 0
    source = tmp_path / "source"
    for page in PAGES:
        assert (source / page.relative_to(DOCS)).is_file()
    for name in pictures.referenced(PAGES):
        assert (source / "pictures" / f"{name}.png").stat().st_size > 1000
    index = (source / "api" / "index.md").read_text(encoding="utf-8")
    for module in (
        "meshes.sphere_mesh",
        "pde.fields.attention",
        "validation.exact",
        "validation.study",
    ):
        assert f"| [{module}]({module}.md) | " in index
        assert f".. automodule:: {module}\n" in (source / "api" / f"{module}.md").read_text()
    assert "pde.kernels" not in index
    command_line = (source / "command_line.md").read_text(encoding="utf-8")
    for words in ("## run", "## info", "## export", "--resume DIR"):
        assert words in command_line


def test_every_page_is_in_one_list(tmp_path):
    build.lay_out(tmp_path, tmp_path / "kept", quick=True)
    for index in (tmp_path / "index.md", tmp_path / "systems" / "index.md"):
        listed = " ".join(blocks(index.read_text(encoding="utf-8"), r"\{toctree\}")).split()
        listed = [name for name in listed if name not in (":maxdepth:", "1")]
        pages = {page.stem for page in index.parent.glob("*.md")} - {"index"}
        folders = {name for name in listed if "/" in name}
        assert sorted(listed) == sorted(pages | folders)


def test_a_picture_is_made_once_and_again_after_a_change(tmp_path, monkeypatch):
    """The package and the study are stand-ins; what is run is real."""
    study = (
        "import sys\nfrom pde import colour\nopen(sys.argv[2] + '/s.png', 'w').write(colour.C)\n"
    )
    for path, text in {"validation/s.py": study, "pde/colour.py": "C = 'red'\n"}.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).with_name("__init__.py").touch()
        (tmp_path / path).write_text(text)
    (tmp_path / "README.md").touch()
    runs = []
    run = pictures._run
    monkeypatch.setattr(pictures, "ROOT", tmp_path)
    monkeypatch.setattr(pictures, "_run", lambda *what: (runs.append(what), run(*what)))

    def make():
        pictures._imported.cache_clear()
        pictures.make("s", tmp_path / "s.png", tmp_path / "kept")
        return (tmp_path / "s.png").read_text(), len(runs)

    assert make() == ("red", 1)
    assert make() == ("red", 1)
    (tmp_path / "pde/colour.py").write_text("C = 'green'\n")
    assert make() == ("green", 2)
    (tmp_path / "validation/s.py").write_text("raise SystemExit(1)\n")
    with pytest.raises(pictures.PictureError, match=r"s\.png could not be made: status 1"):
        make()
    with pytest.raises(pictures.PictureError, match=r"shows pictures/t\.png, but there is no"):
        pictures.command("t")
    pictures._imported.cache_clear()


# --- docstrings ------------------------------------------------------------------------------


DOCSTRING = """Mass |m| of `mu` at P_x, Pi_# rho0, rho * areas; see `Simulation.run`
(arXiv:2512.01868).

x, y : (n, d) points
    on the sphere; t : the time
*rest : others

    rho |v|^2 = *all*

        deeper

* one thing
  that goes on
* `another`

>>> 1 + 1
2

2 is a number."""

MEANT = r"""Mass \|m\| of \ :py:obj:`mu`\  at P\_x, Pi\_# rho0, rho \* areas; see \ :py:obj:`Simulation.run`\  (`arXiv:2512.01868 <https://arxiv.org/abs/2512.01868>`__\ ).

``x``, ``y``
    (n, d) points on the sphere
``t``
    the time
``*rest``
    others

::

    rho |v|^2 = *all*

        deeper

* one thing that goes on
* \ :py:obj:`another`\ 

.. code-block:: pycon

    >>> 1 + 1
    2

\ 2 is a number.
"""  # noqa: E501, W291


def test_plain_docstrings_become_what_they_mean():
    assert "\n".join(restructured(DOCSTRING.splitlines())) == MEANT


# --- in a real browser -----------------------------------------------------------------------

BROWSER_FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync"""


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_built_pages_show_equations_and_pictures_offline(tmp_path):
    """Every page with an equation: MathJax has set all of them, without an error."""
    pytest.importorskip("sphinx")
    assert build.main(["--quick", "--out", str(tmp_path)]) == 0
    shown = 0
    for page in sorted((tmp_path / "html").glob("**/*.html")):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)"', text), page
        formulas = len(re.findall(r'class="math ', text))
        if not formulas:
            continue
        done = subprocess.run(
            [
                CHROMIUM,
                *BROWSER_FLAGS.split(),
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=20000",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert done.stdout.count("<mjx-container") == formulas, page
        assert not re.search(r'<g [^>]*(data-mml-node="merror"|fill="red")', done.stdout), page
        shown += formulas
    assert shown > 20


def test_nothing_on_the_pages_comes_from_the_network():
    """The configuration names a copy of MathJax beside the pages, not an address."""
    config = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(config) if isinstance(node, ast.Constant)]
    assert "mathjax/tex-svg.js" in texts
    assert not any("://" in text for text in texts if isinstance(text, str))


def test_the_build_needs_nothing_to_explain_itself():
    code = "from sphere_attention_scripts.docs import build; build.main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "--quick" in done.stdout
