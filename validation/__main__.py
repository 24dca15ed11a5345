"""All studies and their claims: `python -m validation`; each is `python -m validation.NAME`."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent


def studies() -> dict[str, str]:
    """What each study is about, by its name: the first sentence of its module, none imported."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)]
        if "main" in names:
            words = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
            found[path.stem] = words.partition(". ")[0].rstrip(".")
    return found


def main() -> None:
    """Print them."""
    for name, claim in studies().items():
        print(textwrap.fill(claim, 100, initial_indent=f"{name:20}", subsequent_indent=" " * 20))


if __name__ == "__main__":
    main()
