"""docs/architecture.md says what the code is: who imports whom, where the walks lead, and one meaning for each name.

To write the table of rooms again after a change: `python -m tests.test_architecture`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
PAGE = ROOT / "docs" / "architecture.md"

# Words that two protocols have for the same thing, or its two ends: requests and notifications of TLCP and of the older
# text protocol; what both, and remote adapters, call a request, a version, and the statistics of a subscription; what
# client and server make of a subscription, and of a row of the monitor's tables. An event is always fields and their
# values, a document an object of JSON. Every job of the pipeline has its `Settings`, every API with routes its
# `Handler`, and the kernel's `Clock` is what tests move.
SAME_MEANING = {
    "BindSession",
    "Clock",
    "Constrain",
    "CreateSession",
    "Destroy",
    "Document",
    "EndOfSnapshot",
    "Event",
    "ForceRebind",
    "Handler",
    "MessageDone",
    "MessageFailed",
    "Overflow",
    "Probe",
    "Reconfigure",
    "Request",
    "RequestError",
    "Row",
    "SendMessage",
    "Settings",
    "Statistics",
    "StreamOptions",
    "Subscribe",
    "Subscription",
    "Unsubscribe",
    "Update",
    "Version",
}

_ROW = re.compile(r"^\| (`[^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
# A capitalised name that is given a value is one of a type; constants are all upper case. Options of commands are no
# types: they are called as users type them.
_ALIAS = re.compile(
    r"^([A-Z]\w*[a-z]\w*)(?:: TypeAlias)? = (?!Annotated\[(?:[^\n]|\n(?=[ \]]))*typer\.(?:Argument|Option)\()",
    re.MULTILINE,
)
_STOP = re.compile(r"`((?:\w+/)+\w+\.py)(?::([\w.]+))?`")


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


@cache
def definitions(file: Path) -> dict[str, ast.stmt]:
    """Classes and functions of a module, and those of its classes with the class before them."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[f"{node.name}.{inner.name}"] = inner
    return found


def test_the_walks_lead_through_code_that_is_there() -> None:
    stops = _STOP.findall(PAGE.read_text("utf-8"))
    assert len(stops) > 50
    wrong = []
    for name, place in stops:
        file = (ROOT if name.startswith("tests/") else SOURCE) / name
        if not file.exists() or (place and place not in definitions(file)):
            wrong.append(f"{name}:{place}")
    assert wrong == []


def test_no_two_public_types_have_one_name_and_different_meanings() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        # Not by `definitions`: to parse all of the sources takes seconds.
        text = file.read_text("utf-8")
        for name in [*_CLASS.findall(text), *_ALIAS.findall(text)]:
            homes[name].append(str(file.relative_to(SOURCE)))
    doubled = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in doubled.items() if name not in SAME_MEANING} == {}
    assert SAME_MEANING - set(doubled) == set()


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    for row in _ROW.finditer(text):
        text = text.replace(row[0], row[0].replace(f"| {row[2]} |", f"| {knows(rooms_of(row[1]))} |"))
    PAGE.write_text(text, "utf-8")
