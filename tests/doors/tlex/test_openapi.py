"""Requests at random, made from the OpenAPI document itself: no answer but those that it has, and never a 5xx."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.doors.tlex.openapi import OPERATIONS, document
from penstock.exchange.authorization import Role
from tests.doors.tlex.site import Site

DOCUMENT = document()
KNOWN = ("NLZH0001", "NLZH0002")
OPERATION_IDS = [f"{each.method} {each.path}" for each in OPERATIONS]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


def of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema of the document; often right, so that requests get far."""
    if "$ref" in schema:
        return of(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([of(each) for each in schema["anyOf"]])
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", [])
        parts = {name: of(each) for name, each in schema["properties"].items()}
        return st.fixed_dictionaries(
            {name: parts[name] for name in required},
            optional={name: part for name, part in parts.items() if name not in required},
        )
    if kind == "array":
        return st.lists(of(schema.get("items", {"type": "string"})), max_size=3)
    if kind == "integer":
        return st.integers(0, 2**60)
    if "pattern" in schema:
        return st.sampled_from(KNOWN) | st.from_regex(schema["pattern"])
    return st.sampled_from(("test", "TEST", *KNOWN)) | st.text(max_size=300)


def matches(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what the document says: as much of JSON Schema as it uses."""
    if "$ref" in schema:
        return matches(value, DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return any(matches(value, each) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"]
    if kind == "object":
        known = schema["properties"]
        return (
            isinstance(value, dict)
            and all(name in value for name in schema.get("required", []))
            and all(name in known and matches(each, known[name]) for name, each in value.items())
        )
    if kind == "array":
        return isinstance(value, list) and all(matches(each, schema["items"]) for each in value)
    types = {"string": str, "integer": int, "null": type(None)}
    return isinstance(value, types[kind])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory: Path = tmp_path_factory.mktemp("openapi")
    with Site(directory, {"tlex.token_millis": 100}) as running:
        for identifier in KNOWN:
            running.register(identifier)
        yield running


@pytest.mark.parametrize("index", range(len(OPERATIONS)), ids=OPERATION_IDS)
@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_asked_the_answer_is_one_of_those_in_the_document(
    hub: Site, index: int, data: st.DataObject
) -> None:
    one = OPERATIONS[index]
    described = DOCUMENT["paths"][one.path][one.method]
    path = one.path
    # What exists is chosen by number: what there is to choose from must not depend on what has happened before.
    existing = [*hub.door.hub.sessions, *[each.uuid for each in hub.store.tlcs()], "nothing"]
    for parameter in described.get("parameters", []):
        name = parameter["name"]
        if parameter["in"] == "path":
            value = data.draw(st.integers(0, 5) | st.text("abz09-_.~% äß\x00?#", min_size=1, max_size=20))
            value = existing[value % len(existing)] if isinstance(value, int) else f"x{value}"
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        elif data.draw(st.booleans()):
            value = data.draw(of(parameter["schema"]) | st.text(max_size=20))
            path += f"{'&' if '?' in path else '?'}{name}={quote(str(value).encode('utf-8', 'replace'))}"
    content = None
    if "requestBody" in described:
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        raw = data.draw(of(schema) | anything | st.binary(max_size=50))
        content = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    role = data.draw(st.sampled_from(list(Role)))
    token = hub.token(role) if data.draw(st.integers(0, 4)) else "nobody's"
    answer = hub.http.request(one.method.upper(), path, content=content, headers={"X-Authorization": token})
    assert answer.status_code < 500
    found = described["responses"].get(str(answer.status_code))
    assert found is not None, f"{answer.status_code} is not in the document: {answer.text}"
    if "content" in found:
        assert matches(answer.json(), found["content"]["application/json"]["schema"]), answer.text
    else:
        assert answer.content == b""


def test_the_document_says_all_that_a_client_needs() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["components"]["securitySchemes"]["token"]["name"] == "X-Authorization"
    for methods in DOCUMENT["paths"].values():
        for described in methods.values():
            assert {"summary", "operationId", "responses"} <= set(described)
            assert "401" in described["responses"]


def test_the_document_keeps_the_names_that_clients_are_made_from() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Session"]["title"] == "Session"
    assert schemas["SessionDetails"]["properties"]["listener"] == {"$ref": "#/components/schemas/Listener"}
    assert {each["$ref"].rpartition("/")[2] for each in _references(DOCUMENT)} == set(schemas)


def _references(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part
        for each in part.values():
            yield from _references(each)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each)
