"""Live events for many connections at once, and for those that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.twin import TwinEvent
from tests.doors.ditto.world import World, kinds, running


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path) as found:
        yield found


def test_an_event_that_many_see_is_encoded_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    watchers = [world.connect() for _ in range(5)]
    for each in watchers:
        each.say("START-SEND-EVENTS")
    encoded: list[TwinEvent] = []
    envelope = TwinEvent.envelope

    def count(event: TwinEvent, extra: Any = None) -> Envelope:
        encoded.append(event)
        return envelope(event, extra)

    monkeypatch.setattr(TwinEvent, "envelope", count)
    world.make(events=3)
    assert [kinds(each.hear()) for each in watchers] == [["created", "modified", "modified"]] * 5
    assert [event.revision for event in encoded] == [1, 2, 3]


def test_a_connection_that_is_gone_is_told_nothing_and_others_all(world: World) -> None:
    gone, stays = world.connect(), world.connect()
    for each in (gone, stays):
        each.say("START-SEND-EVENTS")
    gone.connection.lost()
    world.make()
    assert gone.hear() == []
    assert kinds(stays.hear()) == ["created"]


def test_one_who_reads_slowly_holds_up_nobody(world: World) -> None:
    slow, quick = world.connect(), world.connect()
    for each in (slow, quick):
        each.say("START-SEND-EVENTS")
    slow.connection.set_writable(False)
    world.make(events=4)
    assert [event["revision"] for event in quick.hear()] == [1, 2, 3, 4]
    assert slow.hear() == []
    slow.connection.set_writable(True)
    assert [event["revision"] for event in slow.hear()] == [1, 2, 3, 4]


def test_policies_are_not_among_live_events(world: World) -> None:
    watcher, peer = world.connect(), world.connect()
    watcher.say("START-SEND-EVENTS")
    entry = {
        "subjects": {"nginx:owner": {"type": "t"}},
        "resources": {"policy:/": {"grant": ["READ", "WRITE"], "revoke": []}},
    }
    peer.command("create", value={"entries": {"OWNER": entry}}, id="ns:policy", group="policies")
    assert watcher.hear() == []
