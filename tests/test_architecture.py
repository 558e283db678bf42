"""docs/architecture.md says what the code is: who imports whom, where the walks lead, and one meaning for each name.

To write the table of rooms again after a change: `python -m tests.test_architecture`.
"""

from __future__ import annotations

import ast
import asyncio
import re
import textwrap
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import grimp
import pytest

from penstock.cluster.local import LocalHub
from penstock.config import load
from penstock.doors.ditto.http_request import HEADERS
from penstock.server import Server
from penstock.services.cluster.hub import HubPart
from penstock.wire.ditto import errors, policy_errors, thing_errors
from penstock.wire.ditto.errors import ErrorEntry

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
_LIST = re.compile(r"^1\. .*?(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)

# Stops that the code of those before them does not name, and what is in between.
_INDIRECT = {
    "doors/stream/turns.py:Turns.run": "the event loop",
    "adapters/things/adapter.py:ThingsAdapter": "the listeners of the twins",
    "doors/tlex/door.py:TlexDoor._run_turn": "the event loop",
    "transport/asgi.py:Exchange": "the network",
    "adapters/ingest/batch_routes.py:batch_routes": "the routes of the application",
    "adapters/ingest/adapter.py:IngestAdapter._take_batch": "what the adapter has given to its batches",
}


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


def test_the_row_of_cluster_says_which_modules_are_pure_and_which_are_shells() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["id"] == "pure-cluster")
    row = re.search(r"^\| `cluster` \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert row is not None
    pure, shells = (set(re.findall(r"`(\w+)`", text)) for text in row[1].split("Shells: "))
    assert pure == {name.removeprefix("penstock.cluster.") for name in contract["source_modules"]}
    modules = {file.stem for file in (SOURCE / "cluster").glob("*.py")} - {"__init__"}
    assert shells == modules - pure


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


def file_of(stop: str) -> Path:
    return (ROOT if stop.startswith("tests/") else SOURCE) / stop


def test_the_walks_lead_through_code_that_is_there() -> None:
    stops = _STOP.findall(PAGE.read_text("utf-8"))
    assert len(stops) > 50
    wrong = []
    for name, place in stops:
        file = file_of(name)
        if not file.exists() or (place and place not in definitions(file)):
            wrong.append(f"{name}:{place}")
    assert wrong == []


def test_each_stop_of_a_walk_is_named_in_the_code_of_a_stop_before_it() -> None:
    section = PAGE.read_text("utf-8").split("## Five walks")[1].split("\n## ")[0]
    walks = [_STOP.findall(walk) for walk in _LIST.findall(section)]
    assert len(walks) == 5
    unreachable = set()
    for (first, _), *stops in walks:
        passed = file_of(first).read_text("utf-8")
        for name, place in stops:
            known_as = place.rpartition(".")[2] if place else Path(name).stem
            if not re.search(rf"\b{known_as}\b", passed):
                unreachable.add(f"{name}:{place}")
            passed += file_of(name).read_text("utf-8")
    assert unreachable == set(_INDIRECT)


def test_the_page_says_in_which_order_services_open() -> None:
    async def services() -> list[str]:
        config = load(None, {"log.level": "error"}).config
        return [service.name for service in Server(config, [], hub=HubPart(LocalHub(Path()), 1))._stack.services]

    sentence = re.search(r"They open in this order: ([^.]*)\.", PAGE.read_text("utf-8"))
    assert sentence is not None
    assert re.findall(r"`([^`]+)`", sentence[1]) == asyncio.run(services())


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


# What an HTTP interface is written with: addresses, media types, methods, names that only Ditto's answers have.
_INTERFACE = re.compile(
    r"/(?:api|ws)/|\b(?:application|text)/[a-z]|^(?:GET|HEAD|PUT|POST|PATCH)$|\bditto[A-Z]|\bmergeStatus\b|\bbasic_sc\b|^htv:"
)
# Others, such as "condition" and "authorization", are also plain words.
_HEADERS = {name for name in HEADERS if "-" in name} | {"content-type", "etag"}
_CODES = {
    entry.code
    for catalogue in (errors, policy_errors, thing_errors)
    for entry in vars(catalogue).values()
    if isinstance(entry, ErrorEntry)
}


def literals(source: str) -> list[str]:
    """The texts in a module that are no docstrings."""
    tree = ast.parse(source)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose]
    return [node.value for node in constants if isinstance(node.value, str)]


def of_an_interface(source: str) -> list[str]:
    found = literals(source)
    return [text for text in found if _INTERFACE.search(text) or text.lower() in _HEADERS or text in _CODES]


@pytest.mark.parametrize("rules", ["twins", "exchange", "push"])
def test_no_literal_of_an_http_interface_stands_in_a_room_of_rules(rules: str) -> None:
    """Answers are made by doors: a rule that knows an address or an error code makes those of one protocol."""
    modules = sorted((SOURCE / rules).rglob("*.py"))
    assert len(modules) > 10
    found = {str(file.relative_to(SOURCE)): of_an_interface(file.read_text("utf-8")) for file in modules}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_the_search_for_literals_finds_those_of_a_door_and_no_docstring() -> None:
    source = """
        def answer():
            "As `/api/2` says."
            status = {"mergeStatus": 1, "schema": "dittoError"}
            return f"{base}/api/2/things", status, "If-Match", "things:thing.notfound"
    """
    wanted = ["/api/2/things", "mergeStatus", "If-Match", "things:thing.notfound", "dittoError"]
    assert sorted(of_an_interface(textwrap.dedent(source))) == sorted(wanted)
    assert of_an_interface((SOURCE / "doors/ditto/description.py").read_text("utf-8"))


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    for row in _ROW.finditer(text):
        text = text.replace(row[0], row[0].replace(f"| {row[2]} |", f"| {knows(rooms_of(row[1]))} |"))
    PAGE.write_text(text, "utf-8")
