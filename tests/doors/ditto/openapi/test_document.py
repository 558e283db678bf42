"""The OpenAPI document and the routes of the door: each has all that the other has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Match, Route

from penstock.doors.ditto.http_request import HEADERS, ROOT
from penstock.doors.ditto.openapi.document import OPERATIONS, PLACE, MoreRoutes, document
from penstock.doors.ditto.openapi.operation import DittoOperation
from penstock.services.connections import openapi as connections
from penstock.services.connections.routes import connection_routes
from penstock.wire.ditto.document import encode
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.resource import Part, parse_resource
from penstock.wire.ditto.unsupported import NAMES
from tests.doors.ditto.site import Site
from tests.support.administration import write_users

ALL = (*OPERATIONS, *connections.OPERATIONS)


def unused(*_: object) -> Any:
    raise AssertionError("no request is sent")


def served(more: MoreRoutes | None = None) -> Any:
    return json.loads(encode(document(more)))


DOCUMENT = served(
    MoreRoutes(connection_routes(unused, unused), connections.OPERATIONS, connections.schemas(), connections.PARAMETERS)
)


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[Route]:
    """Those of a server with connections, in the order in which they are tried."""
    directory: Path = tmp_path_factory.mktemp("routes")
    write_users(directory / "admins")
    with Site(directory / "site", {"admin.users": str(directory / "admins")}) as site:
        assert site.client().get(PLACE).json() == DOCUMENT
        door = site.server.ditto
        assert door is not None
        found = [each for each in door.routes().routes if isinstance(each, Route)]
        return [each for each in found if each.methods and each.path != f"{ROOT}{PLACE}"]


def filled(path: str) -> str:
    return re.sub(r"\{\w+\}", "a:b", path)


def route_of(one: DittoOperation, routes: list[Route]) -> tuple[str, str] | None:
    scope = {"type": "http", "method": one.method.upper(), "path": ROOT + filled(one.path), "root_path": ""}
    for route in routes:
        if route.matches(scope)[0] is Match.FULL:
            return one.method.upper(), route.path
    return None


def test_every_route_is_in_the_document_and_every_operation_has_a_route(routes: list[Route]) -> None:
    there = {(method, route.path) for route in routes for method in route.methods or () if method != "HEAD"}
    assert [f"{one.method} {one.path}" for one in ALL if route_of(one, routes) is None] == []
    assert {route_of(one, routes) for one in ALL} == there


def test_every_part_of_things_and_policies_is_in_the_document() -> None:
    parts: set[Part] = set()
    for one in OPERATIONS:
        group, _, rest = one.path.removeprefix("/").partition("/")
        if one.method == "get" and group in ("things", "policies") and rest and one.tag != "Messages":
            parts.add(parse_resource(EntityGroup(group), "/" + filled(rest).partition("/")[2]).part)
    assert parts == set(Part)


def test_every_header_that_has_an_effect_is_in_the_document() -> None:
    named = {each["name"] for each in DOCUMENT["components"]["parameters"].values()}
    assert set(HEADERS) - set(NAMES) - named == set()


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*[references(each) for each in value.values()])
    return set().union(*[references(each) for each in value]) if isinstance(value, list) else set()


def test_all_that_is_referred_to_is_there_and_nothing_else() -> None:
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "parameters", "responses")
        for name in DOCUMENT["components"][kind]
    }
    assert references(DOCUMENT) == there


def test_operations_have_names_of_their_own() -> None:
    assert len({one.identity for one in ALL}) == len(ALL) == len({(one.method, one.path) for one in ALL})


def test_it_is_served_to_everybody(site: Site) -> None:
    answer = site.client().get(PLACE)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == served()
    assert not [path for path in answer.json()["paths"] if path.startswith("/connections")]


def test_an_error_is_as_described(alice: httpx.Client) -> None:
    answer = alice.get("/things/nothing")
    described = DOCUMENT["components"]["schemas"]["Error"]
    assert set(described["required"]) <= set(answer.json()) <= set(described["properties"])
