"""What a sweep runs: the product of the varied keys as named, checked cases.

`beta=10,30` and `mesh.frequency=32,64` give four runs, `beta=10_frequency=32` and so on. Nothing
heavy is imported here, so that `--help` and a wrong key cost no time.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sphere_attention_scripts.case_file import CaseError, case_tables, read_case
from sphere_attention_scripts.case_tree import TABLES, Case, Tagged

RESERVED = frozenset({"time", "save", "t", "run", "status", "seconds", "steps", "message", "mesh"})
"""Names that the dataset of a sweep uses itself; keys that end so keep their table's name."""

LONGEST_NAME = 150
"""Characters in the name of a run, which is that of its folder."""


@dataclass(frozen=True)
class Axis:
    """A varied key.

    key : with its table, `model.beta`
    label : what the axis is called in names and in the dataset: `beta` where that is unambiguous
    values : in the order given
    """

    key: str
    label: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Run:
    """One case of a sweep; name : of its folder; values : of the varied keys."""

    name: str
    values: tuple[Any, ...]
    case: Case


@dataclass(frozen=True)
class Sweep:
    """All runs of a sweep, the last axis varied fastest."""

    axes: tuple[Axis, ...]
    runs: tuple[Run, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each axis."""
        return tuple(len(axis.values) for axis in self.axes)


def expand(path: Path, vary: Sequence[str], overrides: Sequence[str] = ()) -> Sweep:
    """The runs of the case in a file, for all combinations of the values that keys are given.

    vary : texts `key=value,value,...`; overrides : texts `key=value` for all runs. A key is named
    with its table; without it where only one table has it.

    Raises CaseError, in one sentence, for whatever is wrong with any of the cases.
    """
    given = [_varied(text) for text in vary]
    common = [_with_table(text) for text in overrides]
    _refuse_twice([key for key, _ in given], "--vary names {} twice")
    _refuse_twice(
        [*{key for key, _ in given}, *{text.partition("=")[0] for text in common}],
        "{} is both varied and set",
    )
    labels = _labels([key for key, _ in given])
    texts = [[f"{key}={value}" for value in values] for key, values in given]
    cases = _checked(path, list(itertools.product(*texts)), common)
    runs = []
    for case in cases:
        values = tuple(value_of(case, key) for key, _ in given)
        runs.append(Run(_name(labels, values), values, case))
    _refuse_twice([run.name for run in runs], "--vary gives {} twice")
    axes = []
    for i, (key, _) in enumerate(given):
        different = {_slug(run.values[i]): run.values[i] for run in runs}
        axes.append(Axis(key, labels[i], tuple(different.values())))
    return Sweep(tuple(axes), tuple(runs))


def check_models(runs: Sequence[Run]) -> None:
    """Build the fields and the initial laws of all runs; CaseError for what they refuse.

    What depends on the mesh is seen only when a run starts.
    """
    from pde import Equation
    from sphere_attention_scripts.case_setup import field_of, law_of

    for run in runs:
        try:
            Equation(field_of(run.case.model), run.case.model.diffusion)
            law_of(run.case)
        except (ValueError, TypeError) as refused:
            raise CaseError(f"{run.name}: {refused}") from refused


def case_hash(case: Case) -> str:
    """A short text that differs for different cases; 2 and 2.0 in a matrix do not."""
    text = json.dumps(_floats(case_tables(case)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _floats(value: Any, inside: bool = False) -> Any:
    """The same with floats for whole numbers in lists."""
    if isinstance(value, dict):
        return {name: _floats(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_floats(part, inside=True) for part in value]
    return float(value) if inside and isinstance(value, int) else value


def value_of(case: Case, key: str) -> Any:
    """The value that a case holds for a key named with its table."""
    table, _, name = key.rpartition(".")
    tables = case_tables(case)
    return (tables[table] if table else tables)[name]


def shown(value: Any) -> str:
    """A value as text, numbers without needless digits.

    >>> shown(10.0), shown(0.1 + 0.2), shown([2.0, 1.0]), shown(True)
    ('10', '0.30000000000000004', '[2, 1]', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


def _checked(
    path: Path, combinations: Sequence[Sequence[str]], common: Sequence[str]
) -> list[Case]:
    """All cases; where some are refused, the first of these is reported."""
    cases, refused = [], []
    for combination in combinations:
        try:
            cases.append(read_case(path, [*common, *combination]))
        except CaseError as wrong:
            refused.append((combination, wrong))
    if refused:
        combination, why = refused[0]
        raise CaseError(
            f"{len(refused)} of {len(combinations)} cases refused, first with "
            f"{', '.join(combination)}: {why}"
        ) from why
    return cases


def _varied(text: str) -> tuple[str, list[str]]:
    """Key, with its table, and values of a text `key=value,value`."""
    name, equals, values = text.partition("=")
    found = list(split_values(values))
    if not equals or not name.strip() or not all(found):
        raise CaseError(f"--vary takes key=value,value, such as beta=10,30, got {text!r}")
    return full_key(name.strip()), found


def _with_table(text: str) -> str:
    """An override `key=value` with the key's table."""
    name, equals, value = text.partition("=")
    return f"{full_key(name.strip())}={value}" if equals else text


def full_key(name: str) -> str:
    """A key with its table, which may be left out where only one has it.

    Unknown keys come back as they are: reading the case says what is wrong with them.

    >>> full_key("beta"), full_key("seed")
    ('model.beta', 'seed')
    """
    if "." in name or name in {f.name for f in fields(Case)} - set(TABLES):
        return name
    found = [f"{table}.{name}" for table in TABLES if name in _keys(table)]
    if len(found) > 1:
        raise CaseError(f"{name!r} may stand for {' or '.join(found)}; write the one that is meant")
    return found[0] if found else name


def _keys(table: str) -> set[str]:
    """The keys that a table may hold, whatever its kind."""
    spec = TABLES[table]
    if isinstance(spec, Tagged):
        return {spec.tag, *(f.name for variant in spec.variants.values() for f in fields(variant))}
    return {f.name for f in fields(spec)}


def split_values(text: str) -> Iterator[str]:
    """The parts between commas that stand outside of brackets and quotes.

    >>> list(split_values('[2,1], [1,1], "a,b"'))
    ['[2,1]', '[1,1]', '"a,b"']
    """
    depth, quote, start = 0, "", 0
    for i, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[]":
            depth += 1 if sign == "[" else -1
        elif sign == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()


def _labels(keys: Sequence[str]) -> list[str]:
    """Short names of keys: without the table where no other key ends so."""
    last = [key.rpartition(".")[2] for key in keys]
    count = Counter(last)
    return [
        short if count[short] == 1 and short not in RESERVED else key
        for short, key in zip(last, keys, strict=True)
    ]


def _name(labels: Sequence[str], values: Sequence[Any]) -> str:
    """The name of a run: readable, unique for its values, a folder's on any system."""
    parts = zip(labels, map(_slug, values), strict=True)
    name = "_".join(f"{label}={slug}" for label, slug in parts)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{_digest(name)}"


def _slug(value: Any) -> str:
    """A value as a part of a name; one that had to be changed for it ends with a hash of it.

    >>> _slug(0.5), _slug("ssprk3"), _slug([2.0, 1.0])
    ('0.5', 'ssprk3', '2-1-f36c65')
    """
    text = shown(value)
    # Capitals too: some file systems take them for small letters.
    if re.fullmatch(r"[a-z0-9_+-][a-z0-9._+-]{0,39}", text):
        return text
    readable = re.sub(r"[^A-Za-z0-9.+_-]+", "-", text).strip("-.")[:40]
    return f"{readable}-{_digest(text)}".lstrip("-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _refuse_twice(names: Sequence[str], sentence: str) -> None:
    """CaseError with `sentence` on the first name that is there more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            raise CaseError(sentence.format(name))
