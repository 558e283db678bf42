"""What a connection does when much comes at once, and when something goes wrong that must not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.ditto.connection import MAX_UNANSWERED
from penstock.doors.ditto.service import TwinService
from tests.doors.ditto.world import THING, Message, Renewing, World, command, refusal, revisions, running
from tests.doors.ditto.world_memory import MemoryWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path) as found:
        yield found


def test_with_too_many_unanswered_commands_nothing_more_is_read(world: World) -> None:
    peer = world.connect()
    world.work.stands_still = True
    for number in range(MAX_UNANSWERED):
        assert peer.reading
        peer.say(command("create", value={}, id=f"ns:{number}"))
    assert not peer.reading
    world.work.stands_still = False
    assert [answer["status"] for answer in peer.hear()] == [201] * MAX_UNANSWERED
    assert peer.reading


def test_a_command_that_is_not_answered_before_the_socket_goes_is_done_all_the_same(world: World) -> None:
    peer = world.connect()
    world.work.stands_still = True
    peer.say(command("create", value={}))
    peer.connection.lost()
    world.work.stands_still = False
    assert peer.hear() == []
    assert world.connect().command("retrieve")["status"] == 200


class Failing:
    """A service with a mistake in it."""

    def __init__(self, service: TwinService) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def submit(self, *_: object) -> Any:
        raise KeyError("a mistake")


def test_a_mistake_of_ours_is_500_with_a_number_and_nothing_of_the_mistake(world: World) -> None:
    world.port = Failing(world.service)
    peer = world.connect()
    answers = peer.say(command("create", value={}, headers={"correlation-id": "c"}))
    assert refusal(answers) == (500, "internalerror")
    assert "mistake" not in str(answers)
    assert answers[0]["headers"]["correlation-id"] == "c"
    assert peer.say("STOP-SEND-EVENTS") == ["STOP-SEND-EVENTS:ACK"]


class Away(Renewing):
    async def renew(self, *_: object) -> Any:
        raise RuntimeError("the key server is away")


def test_a_token_that_nobody_can_check_ends_nothing_before_the_old_one_does(world: World) -> None:
    world.port = Away(world.service)
    peer = world.connect(time_to_live=30.0)
    assert refusal(peer.say("JWT-TOKEN?jwtToken=owner")) == (500, "internalerror")
    assert peer.closed is None
    world.advance(30.0)
    assert peer.closed is not None


def test_events_that_wait_are_forgotten_when_they_are_no_longer_wanted(world: World) -> None:
    world.make()
    watcher, peer = world.connect(), world.connect()
    watcher.say("START-SEND-EVENTS")
    watcher.connection.set_writable(False)
    peer.command("modify", "/attributes/counter", 5)
    assert watcher.say("STOP-SEND-EVENTS") == ["STOP-SEND-EVENTS:ACK"]
    watcher.connection.set_writable(True)
    assert watcher.hear() == []


# -- anything at all ---------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=8,
)
TOPICS = st.builds(
    "/".join,
    st.lists(
        st.sampled_from(
            [
                "ns",
                "thing",
                "things",
                "policies",
                "connections",
                "twin",
                "live",
                "commands",
                "events",
                "streaming",
                "search",
                "errors",
                "messages",
                "create",
                "modify",
                "merge",
                "delete",
                "retrieve",
                "subscribeForPersistedEvents",
                "request",
                "cancel",
                "created",
                "next",
                "_",
            ]
        )
        | st.text(max_size=3),
        max_size=7,
    ),
)
VALUES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "subscriptionId": st.sampled_from(["0", "1", "2"]) | JSON,
        "demand": st.integers(-1, 3) | JSON,
        "fromHistoricalRevision": st.integers(-3, 3) | JSON,
        "toHistoricalRevision": JSON,
        "fromHistoricalTimestamp": JSON,
        "filter": JSON,
        "thingIds": JSON,
    },
)
STREAMING = st.sampled_from(["subscribeForPersistedEvents", "request", "request", "cancel"])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "topic": TOPICS | st.builds("ns/thing/things/twin/streaming/{}".format, STREAMING) | JSON,
        "path": st.just("/") | st.text(max_size=8) | JSON,
        "headers": st.dictionaries(st.sampled_from(["correlation-id", "response-required", "x"]), JSON) | JSON,
        "value": VALUES,
        "fields": JSON,
        "status": JSON,
        "revision": JSON,
        "timestamp": JSON,
    },
)
LINES = st.builds(
    "{}?{}".format,
    st.sampled_from(["START-SEND-EVENTS", "STOP-SEND-EVENTS", "JWT-TOKEN", "START-SEND-"]),
    st.text(alphabet='abefilnrtx=&%(),/*" ', max_size=30),
)


def is_answer(message: Message | str) -> bool:
    """One of the messages that a server may send, complete."""
    if isinstance(message, str):
        return message.endswith(":ACK")
    wanted = {"topic", "headers", "path", "value"}
    if "status" in message:
        wanted.add("status")
    headers = message["headers"]
    return message.keys() == wanted and isinstance(headers["correlation-id"], str) and "content-type" in headers


@given(st.lists(MESSAGES | LINES | st.text(max_size=20), min_size=1, max_size=12))
def test_whatever_comes_is_answered_with_what_is_documented_and_the_socket_goes_on(given_: list[Message | str]) -> None:
    world = MemoryWorld()
    world.port.lengths[THING] = 5
    peer = world.connect()
    for message in given_:
        heard = peer.say(message)
        assert all(is_answer(each) for each in heard)
        assert not [each for each in heard if isinstance(each, dict) and each.get("status") == 500]
    assert peer.closed is None
    assert revisions(peer.request(peer.subscribe(), 1)) == [1]
