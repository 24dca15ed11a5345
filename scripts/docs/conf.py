"""Sphinx: pages in Markdown (MyST), docstrings by autodoc, equations by a MathJax of our own.

Built by `make docs` (`build.py` lays the sources out, then calls Sphinx). Nothing on the pages
comes from the network: fonts are the reader's, and MathJax is one file that is copied beside them.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import shutil
import sys
from pathlib import Path
from typing import Any, TypeVar

from sphere_attention_scripts.docs.build import modules
from sphere_attention_scripts.docs.plain_docstrings import restructured

project = "sphere-attention"
author = "The sphere-attention authors"
version = release = importlib.metadata.version("sphere-attention")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["readme"]
highlight_language = "none"
nitpicky = True
smartquotes = False

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"Array": "Array"}
python_maximum_signature_line_length = 88

MATHJAX = "mathjax/tex-svg.js"
"""Input TeX, output SVG paths: one file that needs no fonts and no other file."""

mathjax_path = MATHJAX

OURS = ("meshes", "pde", "validation")


def setup(app: Any) -> dict[str, bool]:
    """Connect what this project needs beyond the extensions."""
    app.connect("builder-inited", _complete_annotations)
    app.connect("autodoc-process-bases", _bases)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("missing-reference", _reference)
    app.connect("build-finished", _copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _complete_annotations(app: Any) -> None:
    """Give every module the names that it imports for its annotations only.

    Without them a class that two modules define could not be told apart in signatures.
    """
    for name in (name for package in OURS for name in modules(package)):
        module = importlib.import_module(name)
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                exec(compile(ast.Module(node.body, []), name, "exec"), vars(module))


def _bases(app: Any, name: str, thing: Any, options: Any, bases: list[Any]) -> None:
    bases[:] = [base for base in bases if base is not object]


def _docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def _reference(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Where a name leads that Sphinx does not find by itself.

    Docstrings name things without their module: what has that name once is meant. Names of other
    packages, of arguments and of locals stay text. A full name of ours that leads nowhere is a
    mistake, and Sphinx warns.
    """
    if node.get("refdomain") != "py":
        return None
    domain, target = env.get_domain("py"), node["reftarget"].removesuffix("()")
    known = [name for name in domain.objects if name == target or name.endswith("." + target)]
    if len(known) == 1:
        where = (env, node["refdoc"], app.builder, "obj", known[0], node, contnode)
        return domain.resolve_xref(*where)
    module, _, name = target.rpartition(".")
    ours = module.split(".")[0] in OURS
    return None if ours and not _is_type_variable(module, name) else contnode


def _is_type_variable(module: str, name: str) -> bool:
    return isinstance(getattr(sys.modules.get(module), name, None), TypeVar)


def _copy_mathjax(app: Any, failed: Exception | None) -> None:
    if failed is not None or app.builder.format != "html":
        return
    # The package's name is no identifier, so that it cannot be imported, but found.
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    assert found is not None and found.submodule_search_locations
    target = Path(app.outdir, "_static", MATHJAX)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(found.submodule_search_locations[0], "static", MATHJAX), target)
