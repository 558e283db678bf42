from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.ditto.streaming import FIRST_SECONDS
from penstock.wire.ditto.subscriptions import IDLE_SECONDS, MAX_SUBSCRIPTIONS, REMEMBERED_SECONDS
from tests.conformance.ditto.phrases import row
from tests.doors.ditto.world import THING, World, command, failure, kinds, refusal, revisions, streaming

SUBSCRIBE = "subscribeForPersistedEvents"
PROTOCOL_ERROR = (400, "streaming.subscription.protocol.error")
NOT_FOUND = (404, "streaming.subscription.not.found")
TIMEOUT = (408, "streaming.subscription.timeout")
TOPIC = "ns/thing/things/twin/streaming"


# -- the seven messages ------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.streaming.subscribeForPersistedEvents")
def test_subscribe_is_answered_with_created_whatever_it_is_about(world: World) -> None:
    peer = world.connect()
    ids = [peer.subscribe(id) for id in (THING, "no:such", "policy no:such", "connection c")]
    assert ids == ["0", "1", "2", "3"]


@pytest.mark.conformance("ditto.streaming.created")
def test_created_tells_the_number_and_carries_the_headers_of_subscribe(world: World) -> None:
    answer = world.connect().ask(streaming(THING, SUBSCRIBE, {}, {"correlation-id": "a", "x": "y"}))
    assert answer == {
        "topic": f"{TOPIC}/created",
        "headers": {"correlation-id": "a", "x": "y", "content-type": "application/json"},
        "path": "/",
        "value": {"subscriptionId": "0"},
    }


@pytest.mark.conformance("ditto.streaming.subscribe.no-value")
def test_subscribe_without_a_value_is_for_all_of_the_history(world: World) -> None:
    world.make(events=3)
    peer = world.connect()
    number = peer.ask(streaming(THING, SUBSCRIBE))["value"]["subscriptionId"]
    assert revisions(peer.request(number, 3)[:-1]) == [1, 2, 3]


@pytest.mark.conformance("ditto.streaming.request")
def test_a_request_is_answered_with_as_many_items_as_it_asks_for(world: World) -> None:
    peer, number = world.subscribed(events=5)
    assert revisions(peer.request(number, 2)) == [1, 2]


@pytest.mark.conformance("ditto.streaming.next")
def test_next_carries_one_event_as_a_whole_message_and_the_headers_of_the_request(world: World) -> None:
    peer, number = world.subscribed(events=2, headers={"correlation-id": "a"})
    first, second, _ = peer.request(number, 9, headers={"correlation-id": "b"})
    assert first["topic"] == f"{TOPIC}/next"
    assert first["headers"] == {"correlation-id": "b", "content-type": "application/json"}
    assert first["path"] == "/"
    assert first["value"]["subscriptionId"] == number
    assert first["value"]["item"] == {
        "topic": "ns/thing/things/twin/events/created",
        "headers": {"correlation-id": "a", "content-type": "application/json"},
        "path": "/",
        "value": {"thingId": THING, "policyId": THING, "attributes": {"counter": 0}},
        "revision": 1,
        "timestamp": "2023-11-14T22:13:21Z",
    }
    assert second["value"]["item"]["topic"] == "ns/thing/things/twin/events/modified"
    assert (second["value"]["item"]["path"], second["value"]["item"]["value"]) == ("/attributes/counter", 1)


@pytest.mark.conformance("ditto.streaming.complete")
def test_complete_comes_after_the_last_item_with_the_number_and_the_headers_of_the_request(world: World) -> None:
    peer, number = world.subscribed(events=2)
    peer.request(number, 1)
    assert peer.request(number, 9, headers={"correlation-id": "c"})[-1] == {
        "topic": f"{TOPIC}/complete",
        "headers": {"correlation-id": "c", "content-type": "application/json"},
        "path": "/",
        "value": {"subscriptionId": number},
    }


@pytest.mark.conformance("ditto.streaming.failed")
def test_failed_carries_the_error_and_the_headers_of_the_request(world: World) -> None:
    peer = world.connect()
    number = peer.subscribe("no:such")
    assert peer.request(number, 1, "no:such", {"correlation-id": "b"}) == [
        {
            "topic": "no/such/things/twin/streaming/failed",
            "headers": {"correlation-id": "b", "content-type": "application/json"},
            "path": "/",
            "value": {
                "subscriptionId": number,
                "error": {
                    "status": 404,
                    "error": "things:thing.notfound",
                    "message": "The Thing with ID 'no:such' could not be found or requester had insufficient"
                    " permissions to access it.",
                    "description": "Check if the ID of your requested Thing was correct and you have sufficient"
                    " permissions.",
                },
            },
        }
    ]


@pytest.mark.conformance("ditto.streaming.cancel")
def test_cancel_is_not_answered_and_nothing_comes_after_it(world: World) -> None:
    peer, number = world.subscribed(events=5)
    peer.request(number, 2)
    assert peer.cancel(number) == []
    assert failure(peer.request(number, 2)) == PROTOCOL_ERROR


# -- the rules of reactive streams -------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.rule.1.1")
def test_never_more_items_than_were_requested(world: World) -> None:
    peer, number = world.subscribed(events=20)
    sent = []
    for demand in (1, 3, 2, 7):
        items = peer.request(number, demand)
        assert len(items) == demand
        sent += revisions(items)
    assert sent == list(range(1, 14))


@pytest.mark.parametrize(
    ("options", "demand", "expected"),
    [
        row("rule.1.5", {}, 100, [1, 2, 3]),
        row("complete.no-extra-demand", {}, 3, [1, 2, 3]),
        row("complete.filtered", {"filter": "lt(attributes/counter,2)"}, 2, [1, 2]),
        row("complete.empty", {"fromHistoricalRevision": 4}, 1, []),
    ],
)
def test_complete_follows_the_last_item_without_being_asked_for(
    world: World, options: dict[str, Any], demand: int, expected: list[int]
) -> None:
    peer, number = world.subscribed(events=3, **options)
    *items, end = peer.request(number, demand)
    assert (revisions(items), kinds([end])) == (expected, ["complete"])


@pytest.mark.parametrize(
    ("id", "demand", "end"),
    [
        row("rule.1.7", THING, 5, "complete"),
        row("failed.last", "no:such", 5, "failed"),
        row("failed.last.demand", THING, 0, "failed"),
    ],
)
def test_nothing_comes_after_the_end(world: World, id: str, demand: int, end: str) -> None:
    world.make(events=2)
    peer = world.connect()
    assert kinds(peer.request(peer.subscribe(id), demand, id))[-1] == end
    peer.command("modify", "/attributes/counter", 9)
    world.advance(IDLE_SECONDS * 2)
    assert peer.hear() == []


@pytest.mark.conformance("ditto.rule.1.8")
def test_a_cancelled_subscription_stops_sending_even_while_items_are_wanted(world: World) -> None:
    world.make(events=2)
    world.journaled(5000)
    peer = world.connect()
    # Newer than what the registry knows: read from the twin that is told by a later change.
    peer.command("modify", "/attributes/counter", 0)
    number = peer.subscribe()
    world.work.turns = 3
    some = revisions(peer.request(number, 5000))
    assert 0 < len(some) < 5000
    world.work.turns = None
    assert peer.cancel(number) == []


@pytest.mark.conformance("ditto.rule.3.7")
def test_after_cancel_another_cancel_does_nothing_and_a_request_is_told_that_it_is_over(world: World) -> None:
    peer, number = world.subscribed()
    assert [peer.cancel(number), peer.cancel(number)] == [[], []]
    (failed,) = peer.request(number, 1)
    assert failure([failed]) == PROTOCOL_ERROR
    message = "This subscription is considered cancelled. No more messages are processed."
    assert failed["value"]["error"]["message"] == message


@pytest.mark.conformance("ditto.rule.3.8")
def test_demand_adds_up(world: World) -> None:
    peer, number = world.subscribed(events=6)
    world.work.stands_still = True
    peer.request(number, 2)
    peer.request(number, 3)
    world.work.stands_still = False
    assert revisions(peer.hear()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "demand", [row("rule.3.17", 2**63 - 1), row("demand.beyond", 2**63 + 5), row("demand.1e30", 1e30)]
)
def test_demand_beyond_the_largest_number_is_all_there_is(world: World, demand: float) -> None:
    peer, number = world.subscribed(events=3)
    world.work.stands_still = True
    peer.request(number, demand)
    peer.request(number, demand)
    world.work.stands_still = False
    assert kinds(peer.hear()) == ["next", "next", "next", "complete"]


@pytest.mark.parametrize("demand", [row("rule.3.9", 0), row("demand.negative", -1), row("demand.missing", None)])
def test_a_demand_below_one_ends_the_subscription_with_failed(world: World, demand: int | None) -> None:
    peer, number = world.subscribed(events=3)
    value = {"subscriptionId": number} | ({} if demand is None else {"demand": demand})
    (failed,) = peer.say(streaming(THING, "request", value))
    assert failed["value"]["error"] == {
        "status": 400,
        "error": "streaming.subscription.protocol.error",
        "message": "The number of requested elements must be > 0 (see reactive-streams specification, rule 3.9)",
    }
    assert failure(peer.request(number, 1)) == PROTOCOL_ERROR


@pytest.mark.conformance("ditto.rule.not-before-the-first-request")
def test_nothing_ends_before_the_first_request(world: World) -> None:
    peer = world.connect()
    for id in ("no:such", "policy no:such", "connection c"):
        peer.subscribe(id)
    peer.subscribe(filter="not RQL")
    world.advance(IDLE_SECONDS - 1)
    assert peer.hear() == []


# -- order, time and identity ------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.streaming.lazy")
def test_what_is_written_before_the_first_request_is_included(world: World) -> None:
    peer, number = world.subscribed()
    peer.command("modify", "/attributes/counter", 7)
    assert revisions(peer.request(number, 9)[:-1]) == [1, 2]


@pytest.mark.conformance("ditto.streaming.finite")
def test_what_is_written_after_the_first_request_is_not_included(world: World) -> None:
    peer, number = world.subscribed(events=2)
    assert revisions(peer.request(number, 1)) == [1]
    peer.command("modify", "/attributes/counter", 7)
    assert kinds(peer.request(number, 9)) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.ids")
def test_numbers_count_from_zero_for_each_connection_and_are_not_used_again(world: World) -> None:
    peer = world.connect()
    assert [peer.subscribe(), peer.subscribe()] == ["0", "1"]
    peer.cancel("0")
    world.advance(REMEMBERED_SECONDS)
    assert peer.subscribe() == "2"
    assert world.connect().subscribe() == "0"


@pytest.mark.conformance("ditto.streaming.foreign")
def test_a_number_of_another_connection_is_unknown(world: World) -> None:
    first, number = world.subscribed()
    second = world.connect()
    (failed,) = second.request(number, 1)
    assert failure([failed]) == NOT_FOUND
    assert failed["value"]["error"]["message"] == f"No subscription with ID '{number}' exists."
    assert failure(second.cancel(number)) == NOT_FOUND
    assert second.subscribe() == "0"
    assert kinds(first.request(number, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.other-entity")
def test_the_entity_in_the_topic_of_a_request_does_not_matter(world: World) -> None:
    peer, number = world.subscribed()
    answers = peer.request(number, 1, id="an:other")
    assert [answer["topic"] for answer in answers] == [f"{TOPIC}/next", f"{TOPIC}/complete"]


@pytest.mark.conformance("ditto.streaming.interleaved")
def test_several_subscriptions_are_read_side_by_side(world: World) -> None:
    peer, one = world.subscribed(events=4)
    other = peer.subscribe(fromHistoricalRevision=3)
    assert revisions(peer.request(one, 2)) == [1, 2]
    assert revisions(peer.request(other, 1)) == [3]
    assert revisions(peer.request(one, 1)) == [3]
    assert kinds(peer.request(other, 1)) == ["next", "complete"]
    assert kinds(peer.request(one, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.zombie")
def test_for_ten_seconds_a_request_is_told_that_it_is_over_and_a_cancel_is_silent(world: World) -> None:
    peer, number = world.subscribed()
    assert kinds(peer.request(number, 1)) == ["next", "complete"]
    world.advance(REMEMBERED_SECONDS - 0.1)
    assert failure(peer.request(number, 1)) == PROTOCOL_ERROR
    assert peer.cancel(number) == []
    world.advance(0.1)
    assert failure(peer.request(number, 1)) == NOT_FOUND
    assert failure(peer.cancel(number)) == NOT_FOUND


@pytest.mark.parametrize("demand", [row("idle.before-request", 0), row("idle.after-request", 1)])
def test_a_subscription_in_which_nothing_is_said_fails_after_sixty_seconds(world: World, demand: int) -> None:
    peer, number = world.subscribed(events=3, headers={"correlation-id": "last"})
    if demand:
        world.advance(IDLE_SECONDS - 1)
        assert revisions(peer.request(number, demand, headers={"correlation-id": "last"})) == [1]
    world.advance(IDLE_SECONDS - 0.1)
    assert peer.hear() == []
    world.advance(0.1)
    (failed,) = peer.hear()
    assert failure([failed]) == TIMEOUT
    assert failed["headers"]["correlation-id"] == "last"
    message = f"The subscription '{number}' stopped due to a lack of interaction."
    assert failed["value"]["error"]["message"] == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        row("streaming.patience", {}, FIRST_SECONDS),
        row("streaming.timeout", {"timeout": "500ms"}, 0.5),
        row("streaming.timeout.number", {"timeout": 2}, 2.0),
    ],
)
def test_a_history_that_is_not_found_in_time_fails_with_500(
    world: World, headers: dict[str, Any], seconds: float
) -> None:
    peer, number = world.subscribed(headers=headers)
    world.work.stands_still = True
    peer.request(number, 1)
    world.advance(seconds - 0.1)
    assert peer.hear() == []
    world.advance(0.1)
    assert failure(peer.hear()) == (500, "internalerror")
    world.work.stands_still = False
    assert peer.hear() == []


@pytest.mark.conformance("ditto.streaming.limit")
def test_more_than_a_hundred_subscriptions_are_an_error_and_no_created(world: World) -> None:
    peer = world.connect()
    for _ in range(MAX_SUBSCRIPTIONS):
        peer.subscribe()
    answers = peer.say(streaming(THING, SUBSCRIBE, {}))
    assert refusal(answers) == (429, "too.many.requests")
    peer.cancel("0")
    assert peer.subscribe() == str(MAX_SUBSCRIPTIONS)


@pytest.mark.conformance("ditto.streaming.response-required")
def test_response_required_does_not_matter_to_streaming(world: World) -> None:
    peer, number = world.subscribed(headers={"response-required": False})
    assert kinds(peer.request(number, 1, headers={"response-required": "false"})) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.close")
def test_a_closed_socket_ends_its_subscriptions(world: World) -> None:
    peer, number = world.subscribed(events=3)
    peer.request(number, 1)
    peer.connection.lost()
    assert peer.request(number, 1) == []
    world.advance(IDLE_SECONDS)
    assert peer.hear() == []


# -- bad input: the documented error, and the socket goes on -----------------------------------------------------------

INVALID = (400, "json.invalid")
MISSING = (400, "json.field.missing")
UNKNOWN = (400, "protocoladapter:unknown.topicpath")


@pytest.mark.parametrize(
    ("action", "value", "expected"),
    [
        row("bad.request.no-value", "request", None, MISSING),
        row("bad.request.no-id", "request", {"demand": 1}, MISSING),
        row("bad.request.id-number", "request", {"subscriptionId": 0, "demand": 1}, INVALID),
        row("bad.request.demand-text", "request", {"subscriptionId": "0", "demand": "5"}, INVALID),
        row("bad.request.demand-true", "request", {"subscriptionId": "0", "demand": True}, INVALID),
        row("bad.request.demand-fraction", "request", {"subscriptionId": "0", "demand": 1.5}, INVALID),
        row("bad.request.list", "request", [], INVALID),
        row("bad.cancel.no-value", "cancel", None, MISSING),
        row("bad.cancel.id-null", "cancel", {"subscriptionId": None}, MISSING),
        row("bad.subscribe.text", SUBSCRIBE, "all", INVALID),
        row("bad.subscribe.revision-text", SUBSCRIBE, {"fromHistoricalRevision": "1"}, INVALID),
        row("bad.subscribe.revision-fraction", SUBSCRIBE, {"toHistoricalRevision": 0.5}, INVALID),
        row("bad.subscribe.timestamp", SUBSCRIBE, {"fromHistoricalTimestamp": "yesterday"}, INVALID),
        row("bad.subscribe.timestamp-number", SUBSCRIBE, {"toHistoricalTimestamp": 1700000000}, INVALID),
        row("bad.subscribe.filter-number", SUBSCRIBE, {"filter": 1}, INVALID),
        row("bad.streaming.created", "created", {"subscriptionId": "0"}, UNKNOWN),
        row("bad.streaming.next", "next", {"subscriptionId": "0"}, UNKNOWN),
        row("bad.streaming.unknown", "pause", {}, UNKNOWN),
    ],
)
def test_a_bad_streaming_message_is_an_error_response_and_the_subscription_goes_on(
    world: World, action: str, value: Any, expected: tuple[int, str]
) -> None:
    peer, number = world.subscribed()
    answers = peer.say(streaming(THING, action, value, {"correlation-id": "bad"}))
    assert refusal(answers) == expected
    assert answers[0]["headers"]["correlation-id"] == "bad"
    assert kinds(peer.request(number, 1)) == ["next", "complete"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        row(
            "bad.streaming.path",
            streaming(THING, SUBSCRIBE, {}) | {"path": "/attributes"},
            (400, "protocoladapter:unknown.path"),
        ),
        row(
            "bad.streaming.id",
            command("x") | {"topic": f"0bad/x/things/twin/streaming/{SUBSCRIBE}"},
            (400, "things:id.invalid"),
        ),
        row("bad.streaming.timeout", streaming(THING, SUBSCRIBE, {}, {"timeout": "soon"}), (400, "header.invalid")),
        row("bad.streaming.timeout.zero", streaming(THING, SUBSCRIBE, {}, {"timeout": 0}), (400, "header.invalid")),
        row("bad.streaming.timeout.long", streaming(THING, SUBSCRIBE, {}, {"timeout": "2m"}), (400, "header.invalid")),
    ],
)
def test_a_subscription_that_makes_no_sense_is_refused_and_takes_no_number(
    world: World, message: Any, expected: tuple[int, str]
) -> None:
    peer = world.connect()
    assert refusal(peer.say(message)) == expected
    assert peer.subscribe() == "0"


@pytest.mark.parametrize("demand", [row("unknown.request", 1), row("unknown.request-zero", 0)])
def test_a_request_to_an_unknown_subscription_fails_with_404_and_the_topic_of_the_request(
    world: World, demand: int
) -> None:
    peer, number = world.subscribed()
    (failed,) = peer.request("17", demand, "an:other")
    assert failed["topic"] == "an/other/things/twin/streaming/failed"
    assert failure([failed]) == NOT_FOUND
    assert kinds(peer.request(number, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.unknown.cancel")
def test_a_cancel_of_an_unknown_subscription_fails_with_404(world: World) -> None:
    peer, number = world.subscribed()
    assert failure(peer.cancel("17")) == NOT_FOUND
    assert kinds(peer.request(number, 1)) == ["next", "complete"]
