"""The two sides that must agree: the rows of docs/conformance.md, and the tests of this folder with their rows."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "conformance.md"

# The heading below which rows of later versions stand; they have a reason in place of a test.
LATER = "## Not in this version"


@dataclass(frozen=True)
class Row:
    """One line of a table: the last cell names the test, or why there is none."""

    name: str
    rule: str
    section: str
    last: str


def rows(text: str) -> list[Row]:
    """All rows of the tables of a text."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 4:
            found.append(Row(cells[0].strip("`"), cells[1], cells[2], cells[3].strip("`")))
    return found


def document() -> tuple[list[Row], list[Row]]:
    """The rows of this version, and those of later ones."""
    present, heading, later = DOCUMENT.read_text().partition(LATER)
    assert heading, f"{DOCUMENT.name} has no heading {LATER!r}"
    return rows(present), rows(later)


def shown_rows() -> list[tuple[str, str]]:
    """(row, test) of every test in this folder and below; a test without row has an empty one."""
    found = []
    for file in sorted(HERE.rglob("test_*.py")):
        if file.stem == "test_table":
            continue
        place = file.relative_to(HERE)
        module = importlib.import_module(".".join([__package__, *place.with_suffix("").parts]))
        for name, function in vars(module).items():
            if name.startswith("test_") and getattr(function, "__module__", "") == module.__name__:
                found += [(row, f"{place.as_posix()}::{test}") for row, test in _cases(name, function)]
    return found


def _cases(name: str, function: object) -> Iterator[tuple[str, str]]:
    marks: list[pytest.Mark] = getattr(function, "pytestmark", [])
    own = [row for mark in marks if mark.name == "conformance" for row in mark.args]
    yield from ((row, name) for row in own)
    parameters = [case for mark in marks if mark.name == "parametrize" for case in mark.args[1]]
    for case in parameters:
        tied = [row for mark in case.marks if mark.name == "conformance" for row in mark.args]
        yield from ((row, f"{name}[{case.id}]") for row in tied or [""])
    if not own and not parameters:
        yield "", name
