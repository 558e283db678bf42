"""Headers that are journaled with each change, and come back as `historical-headers` with what was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.twins.milestone import EVERY
from tests.doors.ditto.site import EVENTS, Site
from tests.doors.ditto.world import World, command, running

KEPT = ("ditto-originator", "reason")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path, kept_headers=KEPT) as found:
        yield found


def test_what_was_comes_with_the_headers_of_the_change_that_led_to_it(world: World) -> None:
    peer = world.connect()
    peer.command("create", value={"attributes": {"x": 0}}, headers={"reason": "new"})
    peer.command("modify", "/attributes/x", 1, headers={"reason": "müde", "ditto-originator": "somebody"})
    peer.command("modify", "/attributes/x", 2)
    found = [peer.ask(command("retrieve", headers={"at-historical-revision": each})) for each in (1, 2, 3)]
    assert [answer["headers"]["historical-headers"] for answer in found] == [
        {"ditto-originator": "nginx:owner", "reason": "new"},
        {"ditto-originator": "nginx:owner", "reason": "müde"},
        {"ditto-originator": "nginx:owner"},
    ]
    assert "historical-headers" not in peer.command("retrieve")["headers"]


def test_the_items_of_a_history_carry_them(world: World) -> None:
    peer = world.connect()
    peer.command("create", value={}, headers={"reason": "new"})
    for number in range(EVERY):
        peer.command("modify", "/attributes/x", number)
    *items, _ = peer.request(peer.subscribe(headers={"correlation-id": "c"}), 2 * EVERY)
    headers = [item["value"]["item"]["headers"] for item in items]
    owner = {"ditto-originator": "nginx:owner"}
    common = {"correlation-id": "c", "content-type": "application/json"}
    assert headers[0] == common | {"historical-headers": {**owner, "reason": "new"}}
    assert headers[1:] == [common | {"historical-headers": owner}] * EVERY


def test_they_are_a_header_of_the_answer_over_http(tmp_path: Path) -> None:
    with Site(tmp_path, {"ditto.historical_headers": ["Reason", "ditto-originator"]}) as site:
        alice = site.of("alice")
        alice.put("/things/ns:kept", json={}, headers={"reason": "new"})
        answer = alice.get("/things/ns:kept", params={"at-historical-revision": 1})
        kept = {"ditto-originator": "nginx:alice", "reason": "new"}
        assert json.loads(answer.headers["historical-headers"]) == kept
        assert "historical-headers" not in alice.get("/things/ns:kept").headers
        parameters = {"from-historical-revision": "1", "fields": "_context"}
        (line,) = alice.get("/things/ns:kept", params=parameters, headers=EVENTS).text.split()
        assert json.loads(line.removeprefix("data:"))["_context"]["headers"]["historical-headers"] == kept
