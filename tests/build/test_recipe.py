from __future__ import annotations

import ast
from pathlib import Path

import pytest

from penstock.build.choice import BESIDE as KNOWN_BESIDE
from penstock.build.choice import PACKAGE, ROOMS
from penstock.build.extensions import BESIDE, GROUPS, LEFT_OUT, chosen


@pytest.fixture(autouse=True)
def in_the_folder_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PACKAGE.parent)


def compiled_files() -> list[str]:
    return [path for group in GROUPS for path in (*chosen(Path(PACKAGE.name, group)), *BESIDE.get(group, ()))]


def called(function: ast.FunctionDef, owner: str) -> set[str]:
    """The names of functions that a function calls, and of methods of the same object."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
        elif isinstance(node, ast.Call) and owner and ast.unparse(node.func).startswith("self."):
            names.add(f"{owner}.{ast.unparse(node.func).removeprefix('self.')}")
    return names


def recursive(text: str) -> list[str]:
    """Functions that come back to themselves by way of others in the same module."""
    calls: dict[str, set[str]] = {}
    for node in ast.parse(text).body:
        owner = f"{node.name}" if isinstance(node, ast.ClassDef) else ""
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(function, ast.FunctionDef):
                calls[f"{owner}.{function.name}" if owner else function.name] = called(function, owner)
    found = []
    for name in calls:
        seen: set[str] = set()
        ahead = set(calls[name])
        while ahead:
            seen |= ahead
            ahead = {other for one in ahead for other in calls.get(one, set())} - seen
        if name in seen:
            found.append(name)
    return found


def test_the_hot_path_is_compiled() -> None:
    files = compiled_files()
    for name in ("kernel/feed", "kernel/view", "kernel/lane", "kernel/session", "wire/websocket", "wire/tlcp/values"):
        assert f"penstock/{name}.py" in files
    for name in ("cluster/owner", "cluster/reader"):
        assert f"penstock/{name}.py" in files


def test_what_is_compiled_is_what_the_build_depends_on() -> None:
    """A file that is compiled and not hashed would run as it was before it was edited."""
    assert ROOMS == GROUPS
    assert [f"{PACKAGE.name}/{path}" for path in KNOWN_BESIDE] == [path for each in BESIDE.values() for path in each]


def test_nothing_is_left_out_that_is_not_there() -> None:
    for path in LEFT_OUT:
        assert Path(path).exists(), path


def test_no_compiled_function_calls_itself() -> None:
    """Nothing stops it but the end of the stack, and with that the process ends; a peer may want just that."""
    assert [(path, name) for path in compiled_files() for name in recursive(Path(path).read_text())] == []


def test_functions_that_call_themselves_are_found() -> None:
    text = "def a(): b()\ndef b(): a()\nclass C:\n def d(self): self.e()\n def e(self): self.d()\n def f(self): f()\n"
    assert recursive(text) == ["a", "b", "C.d", "C.e"]
    assert recursive(Path("penstock/wire/tlcp/jsondiff.py").read_text()) != []


def test_no_record_of_msgspec_is_compiled() -> None:
    """It reads the annotations of its records, of which mypyc leaves `type` where they are unions."""
    for path in compiled_files():
        bases = {
            ast.unparse(base)
            for node in ast.walk(ast.parse(Path(path).read_text("utf-8")))
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        assert not bases & {"Struct", "msgspec.Struct"}, f"{path}: name it in LEFT_OUT"
