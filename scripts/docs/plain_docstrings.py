"""Docstrings in this project's plain style, as reStructuredText.

The style, for a reader of the source:

    name : what it is, its shape
    first, second : two at once; third : a further one in the same line

        an indented block: a formula, a picture, a table

    `names` and `code` in single quotes, >>> examples, lists with - or 1.

Everything else is plain text: none of its signs (|P_E x|, Pi_# rho0, rho * areas) mean anything.
`restructured` turns it into what Sphinx shows as meant: parameters as a list of terms, indented
blocks to the letter, names in quotes as links where they name something documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

NAME = r"\*{0,2}[A-Za-z_]\w*"
PARAMETER = re.compile(rf"({NAME}(?:, {NAME})*) : (.+)")
NEXT_PARAMETER = re.compile(rf"; (?={NAME}(?:, {NAME})* : )")
ITEM = re.compile(r"([-*]|\d+\.) +(.+)")
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
PAPER = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
SIGNS = re.compile(r"([\\*`|_<>\[\]])")


def restructured(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring, without its indentation, as lines of reStructuredText.

    >>> print(*restructured(["Mass |m| of", "`mu`.", "", "x, y : (n,)", "    points"]), sep="\\n")
    Mass \\|m\\| of \\ :py:obj:`mu`\\ .
    <BLANKLINE>
    ``x``, ``y``
        (n,) points
    <BLANKLINE>
    """
    found: list[str] = []
    rest = [line.rstrip() for line in lines]
    while rest:
        if not rest[0]:
            rest.pop(0)
            continue
        kind = next(kind for applies, kind in KINDS if applies(rest[0]))
        found += [*kind(rest), ""]
    return found


def inline(text: str) -> str:
    """One paragraph: names in single quotes marked up, all other signs left as they are.

    >>> inline("see arXiv:2512.01868")
    'see `arXiv:2512.01868 <https://arxiv.org/abs/2512.01868>`__\\\\ '
    """
    parts = re.split(r"`([^`]+)`", text)
    parts[::2] = [_plain(part) for part in parts[::2]]
    parts[1::2] = [_code(part) for part in parts[1::2]]
    return "".join(parts)


def _plain(text: str) -> str:
    escaped = SIGNS.sub(r"\\\1", text)
    return PAPER.sub(r"`arXiv:\1 <https://arxiv.org/abs/\1>`__\\ ", escaped)


def _code(text: str) -> str:
    # An escaped space separates markup from the letters beside it and is not shown.
    role = ":py:obj:`" if IDENTIFIER.fullmatch(text) else "``"
    return rf"\ {role}{text}{'`' if role.startswith(':') else '``'}\ "


def _taken(rest: list[str], belongs: Callable[[str], bool]) -> list[str]:
    """The first line and the following ones that belong to it, removed from `rest`."""
    taken = [rest.pop(0)]
    while rest and belongs(rest[0]):
        taken.append(rest.pop(0))
    return taken


def _literal(rest: list[str]) -> list[str]:
    block = _taken(rest, lambda line: not line or line.startswith(" "))
    while not block[-1]:
        block.pop()
    margin = min(len(line) - len(line.lstrip()) for line in block if line)
    return ["::", "", *(f"    {line[margin:]}" if line else "" for line in block)]


def _example(rest: list[str]) -> list[str]:
    block = _taken(rest, bool)
    return [".. code-block:: pycon", "", *(f"    {line}" for line in block)]


def _parameters(rest: list[str]) -> list[str]:
    found = []
    while rest and (match := PARAMETER.fullmatch(rest[0])):
        block = _taken(rest, lambda line: line.startswith(" "))
        text = " ".join([match[0], *(line.strip() for line in block[1:])])
        for entry in NEXT_PARAMETER.split(text):
            names, _, meaning = entry.partition(" : ")
            found += [", ".join(f"``{name}``" for name in names.split(", "))]
            found += [f"    {inline(meaning)}"]
    return found


def _items(rest: list[str]) -> list[str]:
    found = []
    while rest and (match := ITEM.fullmatch(rest[0])):
        block = _taken(rest, lambda line: line.startswith(" "))
        text = " ".join([match[2], *(line.strip() for line in block[1:])])
        found.append(f"{match[1]} {inline(text)}")
    return found


def _paragraph(rest: list[str]) -> list[str]:
    block = _taken(rest, lambda line: bool(line) and _paragraph is _kind_of(line))
    # An escaped space keeps a first word such as "1." from beginning a list.
    text = inline(" ".join(block))
    return [text if re.match(r"[A-Za-z(\\`]", text) else rf"\ {text}"]


KINDS: tuple[tuple[Callable[[str], object], Callable[[list[str]], list[str]]], ...] = (
    (lambda line: line.startswith(" "), _literal),
    (lambda line: line.startswith(">>>"), _example),
    (PARAMETER.fullmatch, _parameters),
    (ITEM.fullmatch, _items),
    (lambda line: True, _paragraph),
)
"""What a line that begins a block can be, and how its block is written."""


def _kind_of(line: str) -> Callable[[list[str]], list[str]]:
    return next(kind for applies, kind in KINDS if applies(line))
