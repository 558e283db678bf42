"""The rules of twins use values of the Ditto codec, but nothing of it that raises an error of the protocol."""

from __future__ import annotations

import ast
from pathlib import Path

import penstock

PACKAGE = Path(penstock.__file__).parent
CODEC = "penstock.wire.ditto."


def raises_an_entry(function: ast.FunctionDef) -> bool:
    """Whether it raises an entry of the catalogue, as in `raise POINTER_INVALID.of(text)`."""
    raised = [node.exc for node in ast.walk(function) if isinstance(node, ast.Raise)]
    return any(isinstance(error, ast.Call) and ast.unparse(error.func).endswith(".of") for error in raised)


def raising() -> set[str]:
    """Functions of the codec that raise an error of the protocol, by themselves or through one that they call."""
    found = {"wrong_type"}
    # Of each function that does not stop such an error: whom it calls. Private names are of one module.
    calls: dict[str, set[str]] = {}
    for path in (PACKAGE / "wire/ditto").glob("*.py"):
        for function in ast.parse(path.read_text()).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            names = {qualified(path, each.id) for each in called if isinstance(each, ast.Name)}
            if raises_an_entry(function):
                found.add(qualified(path, function.name))
            if "except DittoError" not in ast.unparse(function):
                calls[qualified(path, function.name)] = names
    while more := {name for name, names in calls.items() if names & found} - found:
        found |= more
    return found


def qualified(path: Path, name: str) -> str:
    return f"{path.stem}.{name}" if name.startswith("_") else name


def test_the_rules_of_twins_call_nothing_that_raises_an_error_of_the_protocol() -> None:
    refused = raising()
    imported = {
        f"{path.stem}: {name.name}"
        for path in (PACKAGE / "twins").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(CODEC)
        for name in node.names
        if name.name in refused
    }
    assert imported == set()
    # The search finds what there is to be found.
    assert {"parse_pointer", "parse_resource", "parse_rql", "check_value", "expect"} <= refused
