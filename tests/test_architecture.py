"""docs/architecture.md says what the code is: who imports whom, where the walks lead, and one meaning for each name.

To write the table of rooms again after a change: `python -m tests.test_architecture`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
PAGE = ROOT / "docs" / "architecture.md"

_ROW = re.compile(r"^\| (`[^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def room(module: str) -> str:
    return module.split(".")[1]


@cache
def imported_rooms() -> dict[str, set[str]]:
    """The rooms, and those that each of them imports."""
    graph = grimp.build_graph("penstock")
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        if module.count(".") and not module.endswith("__main__"):
            others = [other for other in graph.find_modules_directly_imported_by(module) if other.count(".")]
            found.setdefault(room(module), set()).update(room(other) for other in others)
    return {name: others - {name} for name, others in found.items()}


def knows(rooms: list[str]) -> str:
    """The last cell of a row."""
    others = set().union(*(imported_rooms()[name] for name in rooms)) - set(rooms)
    return ", ".join(f"`{name}`" for name in sorted(others)) or "nothing"


def rooms_of(cell: str) -> list[str]:
    return re.findall(r"`(\w+)(?:\.py)?`", cell)


def test_the_table_of_rooms_says_who_imports_whom() -> None:
    rows = _ROW.findall(PAGE.read_text("utf-8"))
    assert dict(rows) == {names: knows(rooms_of(names)) for names, _ in rows}


def test_the_table_has_every_room_once() -> None:
    listed = [name for names, _ in _ROW.findall(PAGE.read_text("utf-8")) for name in rooms_of(names)]
    assert sorted(listed) == sorted(imported_rooms())


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    for row in _ROW.finditer(text):
        text = text.replace(row[0], row[0].replace(f"| {row[2]} |", f"| {knows(rooms_of(row[1]))} |"))
    PAGE.write_text(text, "utf-8")
