from __future__ import annotations

import pytest

from penstock.doors.ditto.waiting_events import MAX_WAITING_EVENTS
from tests.conformance.ditto.phrases import NO_READ, row, shared
from tests.doors.ditto.world import READ, THING, Renewing, World, command, kinds, refusal


@pytest.mark.parametrize(
    "name",
    [
        row("live.START-SEND-EVENTS", "START-SEND-EVENTS"),
        row("live.STOP-SEND-EVENTS", "STOP-SEND-EVENTS"),
        row("live.START-SEND-MESSAGES", "START-SEND-MESSAGES"),
        row("live.STOP-SEND-MESSAGES", "STOP-SEND-MESSAGES"),
        row("live.START-SEND-LIVE-COMMANDS", "START-SEND-LIVE-COMMANDS"),
        row("live.STOP-SEND-LIVE-COMMANDS", "STOP-SEND-LIVE-COMMANDS"),
        row("live.START-SEND-LIVE-EVENTS", "START-SEND-LIVE-EVENTS"),
        row("live.STOP-SEND-LIVE-EVENTS", "STOP-SEND-LIVE-EVENTS"),
        row("live.START-SEND-POLICY-ANNOUNCEMENTS", "START-SEND-POLICY-ANNOUNCEMENTS"),
        row("live.STOP-SEND-POLICY-ANNOUNCEMENTS", "STOP-SEND-POLICY-ANNOUNCEMENTS"),
    ],
)
def test_a_control_message_is_acknowledged_by_its_name(world: World, name: str) -> None:
    peer = world.connect()
    assert peer.say(name) == [f"{name}:ACK"]
    assert peer.say(f"{name}?namespaces=ns") == [f"{name}:ACK"]


@pytest.mark.conformance("ditto.live.event")
def test_events_come_with_revision_and_time_and_the_correlation_id_of_their_command(world: World) -> None:
    watcher = world.connect()
    watcher.say("START-SEND-EVENTS")
    world.connect().command("create", value={"attributes": {"x": 1}}, headers={"correlation-id": "c"})
    assert watcher.hear() == [
        {
            "topic": "ns/thing/things/twin/events/created",
            "headers": {"correlation-id": "c", "content-type": "application/json"},
            "path": "/",
            "value": {"thingId": THING, "policyId": THING, "attributes": {"x": 1}},
            "revision": 1,
            "timestamp": "2023-11-14T22:13:22Z",
        }
    ]


@pytest.mark.conformance("ditto.live.kinds")
def test_every_kind_of_change_is_an_event(world: World) -> None:
    watcher, peer = world.connect(), world.connect()
    watcher.say("START-SEND-EVENTS")
    peer.command("create", value={})
    peer.command("modify", "/attributes/x", 1)
    peer.command("modify", "/attributes/x", 2)
    peer.command("merge", "/attributes", {"x": None, "y": 1})
    peer.command("delete", "/attributes")
    peer.command("delete")
    events = watcher.hear()
    assert kinds(events) == ["created", "created", "modified", "merged", "deleted", "deleted"]
    assert [event["revision"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert events[3]["headers"]["content-type"] == "application/merge-patch+json"
    assert "value" not in events[5]


@pytest.mark.conformance("ditto.live.no-echo")
def test_a_connection_is_not_told_of_its_own_changes(world: World) -> None:
    peer, other = world.connect(), world.connect()
    for each in (peer, other):
        each.say("START-SEND-EVENTS")
    assert [answer.get("status") for answer in peer.say(command("create", value={}))] == [201]
    assert kinds(other.hear()) == ["created"]


@pytest.mark.conformance("ditto.live.stop")
def test_after_stop_no_events_come(world: World) -> None:
    watcher, peer = world.connect(), world.connect()
    watcher.say("START-SEND-EVENTS")
    peer.command("create", value={})
    assert kinds(watcher.hear()) == ["created"]
    watcher.say("STOP-SEND-EVENTS")
    peer.command("delete")
    assert watcher.hear() == []


@pytest.mark.conformance("ditto.live.namespaces")
def test_only_events_of_the_namespaces_that_were_named_come(world: World) -> None:
    watcher = world.connect()
    watcher.say("START-SEND-EVENTS?namespaces=one,two")
    for id in ("one:x", "two:x", "three:x", "one.more:x"):
        world.make(id)
    assert [event["topic"] for event in watcher.hear()] == [
        "one/x/things/twin/events/created",
        "two/x/things/twin/events/created",
    ]


@pytest.mark.conformance("ditto.live.filter")
def test_a_filter_sees_what_the_event_tells(world: World) -> None:
    watcher = world.connect()
    watcher.say("START-SEND-EVENTS?filter=gt(attributes/counter,2)")
    world.make(events=5)
    assert [event["revision"] for event in watcher.hear()] == [4, 5]


@pytest.mark.conformance("ditto.live.filter.placeholders")
def test_a_filter_may_ask_for_action_and_path(world: World) -> None:
    watcher = world.connect()
    watcher.say('START-SEND-EVENTS?filter=and(eq(topic:action,"modified"),like(resource:path,"/attributes/*"))')
    world.make(events=2)
    assert [event["revision"] for event in watcher.hear()] == [2]


@pytest.mark.conformance("ditto.live.extraFields")
def test_extra_fields_are_those_of_the_thing_as_it_now_is(world: World) -> None:
    watcher, peer = world.connect(), world.connect()
    peer.command("create", value={"attributes": {"a": 1, "b": 2}})
    watcher.say("START-SEND-EVENTS?extraFields=attributes/a&filter=eq(attributes/a,1)")
    peer.command("modify", "/attributes/b", 3)
    (event,) = watcher.hear()
    assert (event["value"], event["extra"]) == (3, {"attributes": {"a": 1}})


@pytest.mark.conformance("ditto.live.again")
def test_a_second_start_takes_the_place_of_the_first(world: World) -> None:
    watcher = world.connect()
    watcher.say("START-SEND-EVENTS?namespaces=one")
    watcher.say("START-SEND-EVENTS?namespaces=two")
    world.make("one:x")
    world.make("two:x")
    assert [event["topic"] for event in watcher.hear()] == ["two/x/things/twin/events/created"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        row("live.bad-filter", "filter=eq(attributes/x", (400, "rql.expression.invalid")),
        row("live.bad-escape", "filter=%ZZ", (400, "protocoladapter:unknown.signal")),
        row("live.bad-extraFields", "extraFields=a(b", (400, "json.fieldselector.invalid")),
        row("live.bad-parameter", "filter", (400, "protocoladapter:unknown.signal")),
    ],
)
def test_a_start_that_cannot_be_understood_is_an_error_and_no_acknowledgement(
    world: World, parameters: str, expected: tuple[int, str]
) -> None:
    watcher = world.connect()
    assert refusal(watcher.say(f"START-SEND-EVENTS?{parameters}")) == expected
    world.make()
    assert watcher.hear() == []


@pytest.mark.conformance("ditto.live.permission")
def test_events_go_to_those_who_may_read_and_hold_what_they_may_read(world: World) -> None:
    shared(world, whole={"thing:/": READ}, part={"thing:/": READ, "thing:/attributes/secret": NO_READ})
    whole, part, outsider = world.connect("whole"), world.connect("part"), world.connect("outsider")
    for each in (whole, part, outsider):
        each.say("START-SEND-EVENTS")
    peer = world.connect()
    peer.command("modify", "/attributes", {"open": 1, "secret": 2})
    peer.command("modify", "/attributes/secret", 3)
    assert [event["value"] for event in whole.hear()] == [{"open": 1, "secret": 2}, 3]
    assert [event["value"] for event in part.hear()] == [{"open": 1}]
    assert outsider.hear() == []


@pytest.mark.conformance("ditto.live.permission.revoked")
def test_a_permission_that_is_taken_away_ends_the_events(world: World) -> None:
    shared(world, reader={"thing:/": READ})
    reader, peer = world.connect("reader"), world.connect()
    reader.say("START-SEND-EVENTS")
    peer.command("modify", "/attributes/x", 1)
    assert kinds(reader.hear()) == ["modified"]
    peer.command("delete", "/entries/reader", id="ns:policy", group="policies")
    peer.command("modify", "/attributes/x", 2)
    assert reader.hear() == []


@pytest.mark.conformance("ditto.live.slow")
def test_a_slow_reader_is_told_how_many_events_it_has_lost_and_where(world: World) -> None:
    world.make()
    watcher, peer = world.connect(), world.connect()
    watcher.say("START-SEND-EVENTS")
    watcher.connection.set_writable(False)
    for number in range(MAX_WAITING_EVENTS + 7):
        peer.command("modify", "/attributes/counter", number)
    assert watcher.hear() == []
    assert world.service.losses.events == 7
    watcher.connection.set_writable(True)
    *events, complaint = watcher.hear()
    assert [event["revision"] for event in events] == list(range(2, MAX_WAITING_EVENTS + 2))
    assert refusal([complaint]) == (429, "too.many.requests")
    assert complaint["topic"] == "unknown/unknown/things/twin/errors"
    assert complaint["value"]["message"].startswith("7 events were lost here")
    peer.command("modify", "/attributes/counter", 0)
    assert [event["revision"] for event in watcher.hear()] == [MAX_WAITING_EVENTS + 9]


@pytest.mark.conformance("ditto.live.unread")
def test_nothing_is_read_from_a_client_that_does_not_read(world: World) -> None:
    peer = world.connect()
    peer.connection.set_writable(False)
    assert not peer.reading
    peer.connection.set_writable(True)
    assert peer.reading


# -- tokens ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def renewing(world: World) -> World:
    world.port = Renewing(world.service)
    return world


@pytest.mark.conformance("ditto.token.renewed")
def test_a_new_token_of_the_same_subject_is_taken_without_a_word(renewing: World) -> None:
    peer = renewing.connect(time_to_live=30.0)
    renewing.advance(29)
    assert peer.say("JWT-TOKEN?jwtToken=owner") == []
    renewing.advance(59)
    assert peer.closed is None
    renewing.advance(1)
    assert peer.closed == (1008, "The token has expired.")


@pytest.mark.conformance("ditto.token.expired")
def test_a_connection_ends_with_its_token(renewing: World) -> None:
    peer = renewing.connect(time_to_live=30.0)
    renewing.advance(29.9)
    assert peer.closed is None
    renewing.advance(0.1)
    assert refusal(peer.hear()) == (401, "gateway:authentication.failed")
    assert peer.closed == (1008, "The token has expired.")


@pytest.mark.parametrize(
    "line",
    [row("token.other", "JWT-TOKEN?jwtToken=somebody"), row("token.missing", "JWT-TOKEN")],
)
def test_a_token_that_is_not_the_subject_s_ends_the_connection(renewing: World, line: str) -> None:
    peer = renewing.connect(time_to_live=30.0)
    assert refusal(peer.say(line)) == (401, "gateway:authentication.failed")
    assert peer.closed is not None
    assert peer.say("START-SEND-EVENTS") == []
