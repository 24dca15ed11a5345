"""Build the documentation: python scripts/docs/build.py --out out/docs

    README.md, scripts/docs/*.md, docstrings  ->  OUT/source  ->  OUT/html/index.html

The sources are laid out in a folder of their own, with what the machine writes: a page for each
module (from its docstrings), one for the command line (from its --help), the README's sections,
which pages include so that each is kept once, and the pictures (made by the studies, see
`pictures`). Then Sphinx builds them; a warning is an error.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sphere_attention_scripts.docs import pictures

ROOT = pictures.ROOT

DOCS = Path(__file__).resolve().parent

PACKAGES = {
    "meshes": "Grids of the sphere and the circle",
    "pde": "The equation, its discretisations, the time loop",
    "validation": "Exact solutions, norms, transport distances, studies",
}
"""What the reference describes; the compiled kernels are no part of it."""


def lay_out(source: Path, kept: Path, quick: bool = False) -> None:
    """Fill the empty folder `source` with all that Sphinx reads.

    kept : folder of pictures made before
    quick : no study runs, placeholders stand for the pictures

    Raises PictureError for a picture that nothing makes.
    """
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".md", ".css") or path.name == "conf.py":
            target = source / path.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    for folder in (source, source / "systems"):
        list_the_others(folder)
    (source / "readme").mkdir()
    for name, text in readme_sections().items():
        (source / "readme" / f"{name}.md").write_text(text, encoding="utf-8")
    reference(source / "api")
    (source / "command_line.md").write_text(command_line(), encoding="utf-8")
    (source / "pictures").mkdir()
    for name in pictures.referenced(source.rglob("*.md")):
        target = source / "pictures" / f"{name}.png"
        if quick:
            pictures.placeholder(name, target)
        else:
            pictures.make(name, target, kept)


def list_the_others(folder: Path) -> None:
    """In the index of a folder, put the pages that it does not name in place of the line `*`."""
    index = folder / "index.md"
    lines = index.read_text(encoding="utf-8").splitlines()
    pages = sorted(page.stem for page in folder.glob("*.md"))
    others = [name for name in pages if name not in (*lines, "index")]
    place = lines.index("*")
    lines[place : place + 1] = others
    index.write_text("\n".join(lines) + "\n", encoding="utf-8")


def readme_sections() -> dict[str, str]:
    """The README's sections by their headings ("two-commands"), the part above them as "top"."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    top, *rest = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    named = {re.sub(r"\W+", "-", part.partition("\n")[0][3:].lower()): part for part in rest}
    return {"top": top.partition("\n")[2], **named}


def modules(package: str) -> list[str]:
    """Full names of the package's modules that the reference describes."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / package).rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    hidden = {package, f"{package}.__main__"}
    return sorted(name for name in names - hidden if not name.startswith("pde.kernels"))


def reference(folder: Path) -> None:
    """Write a page for each module, one for each package, and the index of them."""
    folder.mkdir(parents=True)
    index = ["# Reference", "", "From the docstrings of the code.", ""]
    for package, subject in PACKAGES.items():
        named = modules(package)
        rows = [f"| [{name}]({name}.md) | {_first_line(name)} |" for name in named]
        listed = ["```{toctree}", ":hidden:", "", *named, "```"]
        index += [f"## {package}", "", f"{subject}.", "", "| module | |", "|---|---|", *rows, ""]
        index += [*listed, ""]
        for name in named:
            page = [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}"]
            page += ["   :members:", "   :show-inheritance:", "```", ""]
            (folder / f"{name}.md").write_text("\n".join(page), encoding="utf-8")
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def _first_line(module: str) -> str:
    """What a module is about, without importing it; safe in a table of Markdown."""
    text = pictures.file_of(module).read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return "".join(f"\\{sign}" if sign in r"\|*_<>[]$" else sign for sign in paragraph)


def command_line() -> str:
    """A page with what every subcommand answers to --help."""
    from sphere_attention_scripts.simulate import build_parser

    parser = build_parser()
    page = ["# Command line", "", _help(parser)]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                page += [f"## {name}", "", _help(subparser)]
    return "\n".join(page)


def _help(parser: argparse.ArgumentParser) -> str:
    return f"```text\n{parser.format_help()}```\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Build; the exit status is Sphinx's, 2 where a picture cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/docs"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="placeholders in place of pictures")
    parser.add_argument("--sources-only", action="store_true", help="lay out, do not call Sphinx")
    arguments = parser.parse_args(argv)
    source, html = arguments.out / "source", arguments.out / "html"
    for folder in (source, html):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    try:
        lay_out(source, arguments.out / "pictures", arguments.quick)
    except pictures.PictureError as failed:
        print(f"documentation: {failed}", file=sys.stderr)
        return 2
    if arguments.sources_only:
        return 0
    options = ["--fail-on-warning", "--keep-going", "--nitpicky", "-q", "-j", "auto"]
    words = [sys.executable, "-m", "sphinx", "-b", "html", *options, str(source), str(html)]
    status = subprocess.run(words).returncode
    if status == 0:
        print(f"documentation: {html / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
