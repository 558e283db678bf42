from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.ditto.streaming import FIRST_SECONDS
from penstock.wire.ditto.subscriptions import IDLE_SECONDS, MAX_SUBSCRIPTIONS, REMEMBERED_SECONDS
from tests.doors.ditto.world import (
    THING,
    World,
    command,
    failure,
    kind,
    kinds,
    refusal,
    revisions,
    streaming,
)

PROTOCOL_ERROR = (400, "streaming.subscription.protocol.error")
NOT_FOUND = (404, "streaming.subscription.not.found")
TIMEOUT = (408, "streaming.subscription.timeout")
TOPIC = "ns/thing/things/twin/streaming"


def row(name: str, *values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.conformance(f"ditto.{name}"), id=f"ditto.{name}")


# -- the seven messages ------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.streaming.subscribeForPersistedEvents")
def test_subscribe_is_answered_with_created_whatever_it_is_about(world: World) -> None:
    peer = world.connect()
    ids = [peer.subscribe(id) for id in (THING, "no:such", "policy no:such", "connection c")]
    assert ids == ["0", "1", "2", "3"]


@pytest.mark.conformance("ditto.streaming.created")
def test_created_tells_the_number_and_carries_the_headers_of_subscribe(world: World) -> None:
    answer = world.connect().ask(streaming(THING, "subscribeForPersistedEvents", {}, {"correlation-id": "a", "x": "y"}))
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
    number = peer.ask(streaming(THING, "subscribeForPersistedEvents"))["value"]["subscriptionId"]
    assert revisions(peer.request(number, 3)[:-1]) == [1, 2, 3]


@pytest.mark.conformance("ditto.streaming.request")
def test_a_request_is_answered_with_as_many_items_as_it_asks_for(world: World) -> None:
    world.make(events=5)
    peer = world.connect()
    assert revisions(peer.request(peer.subscribe(), 2)) == [1, 2]


@pytest.mark.conformance("ditto.streaming.next")
def test_next_carries_one_event_as_a_whole_message_and_the_headers_of_the_request(world: World) -> None:
    world.make(events=2)
    peer = world.connect()
    number = peer.subscribe(headers={"correlation-id": "a"})
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
    world.make(events=2)
    peer = world.connect()
    number = peer.subscribe()
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
    world.make(events=5)
    peer = world.connect()
    number = peer.subscribe()
    peer.request(number, 2)
    assert peer.cancel(number) == []
    assert failure(peer.request(number, 2)) == PROTOCOL_ERROR


# -- the rules of reactive streams -------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.rule.1.1")
def test_never_more_items_than_were_requested(world: World) -> None:
    world.make(events=20)
    peer = world.connect()
    number = peer.subscribe()
    sent = []
    for demand in (1, 3, 2, 7):
        items = peer.request(number, demand)
        assert len(items) == demand
        sent += revisions(items)
    assert sent == list(range(1, 14))


@pytest.mark.conformance("ditto.rule.1.5")
def test_fewer_items_than_requested_are_followed_by_complete(world: World) -> None:
    world.make(events=3)
    peer = world.connect()
    assert kinds(peer.request(peer.subscribe(), 100)) == ["next", "next", "next", "complete"]


@pytest.mark.conformance("ditto.rule.1.7")
def test_nothing_comes_after_the_end(world: World) -> None:
    world.make(events=2)
    peer = world.connect()
    number = peer.subscribe()
    assert kind(peer.request(number, 5)[-1]) == "complete"
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
    peer = world.connect()
    number = peer.subscribe()
    assert [peer.cancel(number), peer.cancel(number)] == [[], []]
    (failed,) = peer.request(number, 1)
    error = failed["value"]["error"]
    assert (error["status"], error["error"]) == PROTOCOL_ERROR
    assert error["message"] == "This subscription is considered cancelled. No more messages are processed."


@pytest.mark.conformance("ditto.rule.3.8")
def test_demand_adds_up(world: World) -> None:
    world.make(events=6)
    peer = world.connect()
    number = peer.subscribe()
    world.work.stands_still = True
    peer.request(number, 2)
    peer.request(number, 3)
    world.work.stands_still = False
    assert revisions(peer.hear()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "demand", [row("rule.3.17", 2**63 - 1), row("demand.beyond", 2**63 + 5), row("demand.1e30", 1e30)]
)
def test_demand_beyond_the_largest_number_is_all_there_is(world: World, demand: float) -> None:
    world.make(events=3)
    peer = world.connect()
    number = peer.subscribe()
    world.work.stands_still = True
    peer.request(number, demand)
    peer.request(number, demand)
    world.work.stands_still = False
    assert kinds(peer.hear()) == ["next", "next", "next", "complete"]


@pytest.mark.parametrize("demand", [row("rule.3.9", 0), row("demand.negative", -1), row("demand.missing", None)])
def test_a_demand_below_one_ends_the_subscription_with_failed(world: World, demand: int | None) -> None:
    world.make(events=3)
    peer = world.connect()
    number = peer.subscribe()
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


@pytest.mark.conformance("ditto.complete.no-extra-demand")
def test_complete_needs_no_extra_demand(world: World) -> None:
    world.make(events=3)
    peer = world.connect()
    assert kinds(peer.request(peer.subscribe(), 3)) == ["next", "next", "next", "complete"]


@pytest.mark.conformance("ditto.complete.filtered")
def test_complete_needs_no_extra_demand_even_if_a_filter_leaves_out_all_that_is_left(world: World) -> None:
    world.make(events=6)
    peer = world.connect()
    number = peer.subscribe(filter="lt(attributes/counter,2)")
    assert kinds(peer.request(number, 2)) == ["next", "next", "complete"]


@pytest.mark.conformance("ditto.complete.empty")
def test_an_empty_history_is_complete_at_the_first_request(world: World) -> None:
    world.make(events=2)
    peer = world.connect()
    assert kinds(peer.request(peer.subscribe(fromHistoricalRevision=3), 1)) == ["complete"]


@pytest.mark.conformance("ditto.streaming.lazy")
def test_what_is_written_before_the_first_request_is_included(world: World) -> None:
    world.make(events=1)
    peer = world.connect()
    number = peer.subscribe()
    peer.command("modify", "/attributes/counter", 7)
    assert revisions(peer.request(number, 9)[:-1]) == [1, 2]


@pytest.mark.conformance("ditto.streaming.finite")
def test_what_is_written_after_the_first_request_is_not_included(world: World) -> None:
    world.make(events=2)
    peer = world.connect()
    number = peer.subscribe()
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
    world.make()
    first, second = world.connect(), world.connect()
    number = first.subscribe()
    (failed,) = second.request(number, 1)
    error = failed["value"]["error"]
    assert (error["status"], error["error"]) == NOT_FOUND
    assert error["message"] == f"No subscription with ID '{number}' exists."
    assert failure(second.cancel(number)) == NOT_FOUND
    assert kinds(first.request(number, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.other-entity")
def test_the_entity_in_the_topic_of_a_request_does_not_matter(world: World) -> None:
    world.make()
    peer = world.connect()
    number = peer.subscribe()
    answers = peer.request(number, 1, id="an:other")
    assert [answer["topic"] for answer in answers] == [f"{TOPIC}/next", f"{TOPIC}/complete"]


@pytest.mark.conformance("ditto.streaming.interleaved")
def test_several_subscriptions_are_read_side_by_side(world: World) -> None:
    world.make(events=4)
    peer = world.connect()
    one, other = peer.subscribe(), peer.subscribe(fromHistoricalRevision=3)
    assert revisions(peer.request(one, 2)) == [1, 2]
    assert revisions(peer.request(other, 1)) == [3]
    assert revisions(peer.request(one, 1)) == [3]
    assert kinds(peer.request(other, 1)) == ["next", "complete"]
    assert kinds(peer.request(one, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.zombie")
def test_for_ten_seconds_a_request_is_told_that_it_is_over_and_a_cancel_is_silent(world: World) -> None:
    world.make()
    peer = world.connect()
    number = peer.subscribe()
    assert kinds(peer.request(number, 1)) == ["next", "complete"]
    world.advance(REMEMBERED_SECONDS - 0.1)
    assert failure(peer.request(number, 1)) == PROTOCOL_ERROR
    assert peer.cancel(number) == []
    world.advance(0.1)
    assert failure(peer.request(number, 1)) == NOT_FOUND
    assert failure(peer.cancel(number)) == NOT_FOUND


@pytest.mark.conformance("ditto.idle.before-request")
def test_a_subscription_without_a_request_fails_after_sixty_seconds(world: World) -> None:
    peer = world.connect()
    number = peer.subscribe(headers={"correlation-id": "a"})
    world.advance(IDLE_SECONDS - 0.1)
    assert peer.hear() == []
    world.advance(0.1)
    (failed,) = peer.hear()
    assert failed["headers"]["correlation-id"] == "a"
    error = failed["value"]["error"]
    assert (error["status"], error["error"]) == TIMEOUT
    assert error["message"] == f"The subscription '{number}' stopped due to a lack of interaction."


@pytest.mark.conformance("ditto.idle.after-request")
def test_a_subscription_whose_demand_is_met_fails_after_sixty_seconds(world: World) -> None:
    world.make(events=3)
    peer = world.connect()
    number = peer.subscribe()
    world.advance(IDLE_SECONDS - 1)
    assert revisions(peer.request(number, 1)) == [1]
    world.advance(IDLE_SECONDS - 1)
    assert peer.hear() == []
    world.advance(1)
    assert failure(peer.hear()) == TIMEOUT


@pytest.mark.conformance("ditto.streaming.patience")
def test_a_history_that_is_not_found_in_time_fails_with_500(world: World) -> None:
    world.make()
    peer = world.connect()
    number = peer.subscribe()
    world.work.stands_still = True
    peer.request(number, 1)
    world.advance(FIRST_SECONDS)
    assert failure(peer.hear()) == (500, "internalerror")
    world.work.stands_still = False
    assert peer.hear() == []


@pytest.mark.conformance("ditto.streaming.limit")
def test_more_than_a_hundred_subscriptions_are_an_error_and_no_created(world: World) -> None:
    peer = world.connect()
    for _ in range(MAX_SUBSCRIPTIONS):
        peer.subscribe()
    answers = peer.say(streaming(THING, "subscribeForPersistedEvents", {}))
    assert refusal(answers) == (429, "too.many.requests")
    peer.cancel("0")
    assert peer.subscribe() == str(MAX_SUBSCRIPTIONS)


@pytest.mark.conformance("ditto.streaming.response-required")
def test_response_required_does_not_matter_to_streaming(world: World) -> None:
    world.make()
    peer = world.connect()
    number = peer.subscribe(headers={"response-required": False})
    assert kinds(peer.request(number, 1, headers={"response-required": "false"})) == ["next", "complete"]


@pytest.mark.conformance("ditto.streaming.close")
def test_a_closed_socket_ends_its_subscriptions(world: World) -> None:
    world.make(events=3)
    peer = world.connect()
    number = peer.subscribe()
    peer.request(number, 1)
    peer.connection.lost()
    assert peer.request(number, 1) == []
    world.advance(IDLE_SECONDS)
    assert peer.hear() == []


# -- ranges and filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        row("range.all", {}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        row("range.fromHistoricalRevision", {"fromHistoricalRevision": 8}, [8, 9, 10]),
        row("range.toHistoricalRevision", {"toHistoricalRevision": 3}, [1, 2, 3]),
        row("range.both", {"fromHistoricalRevision": 5, "toHistoricalRevision": 7}, [5, 6, 7]),
        row("range.from-zero", {"fromHistoricalRevision": 0, "toHistoricalRevision": 2}, [1, 2]),
        row("range.from-negative", {"fromHistoricalRevision": -3}, [8, 9, 10]),
        row("range.from-before-the-first", {"fromHistoricalRevision": -99, "toHistoricalRevision": 2}, [1, 2]),
        row("range.to-zero", {"fromHistoricalRevision": 9, "toHistoricalRevision": 0}, [9, 10]),
        row("range.to-negative", {"toHistoricalRevision": -7}, [1, 2, 3]),
        row("range.upside-down", {"fromHistoricalRevision": 7, "toHistoricalRevision": 5}, []),
        row("range.outside", {"fromHistoricalRevision": 11}, []),
        row("range.before-everything", {"toHistoricalRevision": -99}, []),
        row("filter.partial", {"filter": "ge(attributes/counter,7)"}, [8, 9, 10]),
        row(
            "filter.ne",
            {"fromHistoricalRevision": 5, "toHistoricalRevision": 9, "filter": "ne(attributes/counter,6)"},
            [5, 6, 8, 9],
        ),
    ],
)
def test_a_range_selects_events(world: World, options: dict[str, Any], expected: list[int]) -> None:
    world.make(events=10)
    assert world.connect().read(**options) == expected


@pytest.fixture
def dated(world: World) -> World:
    """Ten events, each a second after the one before."""
    world.make(events=10)
    return world


def moment(world: World, revision: int) -> str:
    peer = world.connect()
    (item, _) = peer.request(peer.subscribe(fromHistoricalRevision=revision, toHistoricalRevision=revision), 1)
    return str(item["value"]["item"]["timestamp"])


@pytest.mark.conformance("ditto.range.fromHistoricalTimestamp")
def test_from_a_timestamp_is_after_it_and_not_at_it(dated: World) -> None:
    assert dated.connect().read(fromHistoricalTimestamp=moment(dated, 7)) == [8, 9, 10]


@pytest.mark.conformance("ditto.range.toHistoricalTimestamp")
def test_to_a_timestamp_is_before_it_and_not_at_it(dated: World) -> None:
    assert dated.connect().read(toHistoricalTimestamp=moment(dated, 4)) == [1, 2, 3]


@pytest.mark.conformance("ditto.range.combined")
def test_revisions_and_timestamps_restrict_together(dated: World) -> None:
    chosen: dict[str, Any] = {"fromHistoricalTimestamp": moment(dated, 2), "toHistoricalTimestamp": moment(dated, 9)}
    assert dated.connect().read(**chosen, fromHistoricalRevision=5, toHistoricalRevision=-4) == [5, 6]


@pytest.mark.conformance("ditto.range.timestamps-upside-down")
def test_timestamps_upside_down_are_an_empty_history(dated: World) -> None:
    chosen: dict[str, Any] = {"fromHistoricalTimestamp": moment(dated, 7), "toHistoricalTimestamp": moment(dated, 3)}
    assert dated.connect().read(**chosen) == []


@pytest.mark.conformance("ditto.range.clock-stepped-back")
def test_the_stream_ends_at_the_first_event_that_is_not_before_the_timestamp(world: World) -> None:
    world.make(events=3)
    end = moment(world, 3)
    peer = world.connect()
    world.now -= 60_000_000
    assert peer.command("modify", "/attributes/counter", 3)["status"] == 204
    assert peer.read(toHistoricalTimestamp=end) == [1, 2]
    assert peer.read() == [1, 2, 3, 4]


@pytest.mark.conformance("ditto.filter.demand")
def test_what_a_filter_leaves_out_takes_no_demand(world: World) -> None:
    world.make(events=10)
    peer = world.connect()
    number = peer.subscribe(filter="or(eq(attributes/counter,3),eq(attributes/counter,8))")
    assert revisions(peer.request(number, 1)) == [4]
    assert kinds(peer.request(number, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.filter.invalid")
def test_a_filter_that_does_not_parse_fails_at_the_first_request(world: World) -> None:
    world.make()
    peer = world.connect()
    number = peer.subscribe(filter="eq(attributes/counter")
    assert failure(peer.request(number, 1)) == (400, "rql.expression.invalid")


# -- who may read, and what --------------------------------------------------------------------------------------------


def policy(**readers: dict[str, Any]) -> dict[str, Any]:
    entries = {"OWNER": {"subjects": {"nginx:owner": {"type": "t"}}, "resources": ALL_OF_IT}}
    for name, resources in readers.items():
        entries[name] = {"subjects": {f"nginx:{name}": {"type": "t"}}, "resources": resources}
    return {"policyId": "ns:policy", "entries": entries}


ALL = {"grant": ["READ", "WRITE"], "revoke": []}
READ = {"grant": ["READ"], "revoke": []}
NO_READ = {"grant": [], "revoke": ["READ"]}
ALL_OF_IT = {"thing:/": ALL, "policy:/": ALL}


def shared(world: World, **readers: dict[str, Any]) -> None:
    peer = world.connect()
    assert peer.command("create", value=policy(**readers), id="ns:policy", group="policies")["status"] == 201
    assert peer.command("create", value={"policyId": "ns:policy", "attributes": {"x": 1}})["status"] == 201


@pytest.mark.conformance("ditto.access.missing")
def test_the_history_of_a_thing_that_is_not_there_fails_with_404(world: World) -> None:
    peer = world.connect()
    assert failure(peer.request(peer.subscribe("no:such"), 1)) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.access.forbidden")
def test_outsiders_are_told_the_same_as_of_a_thing_that_is_not_there(world: World) -> None:
    world.make()
    peer = world.connect("outsider")
    assert failure(peer.request(peer.subscribe(), 1)) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.access.restricted")
def test_who_may_not_read_all_of_a_thing_does_not_read_its_history(world: World) -> None:
    shared(world, reader={"thing:/": READ, "thing:/attributes/secret": NO_READ}, whole={"thing:/": READ})
    restricted, whole = world.connect("reader"), world.connect("whole")
    assert failure(restricted.request(restricted.subscribe(), 1)) == (404, "things:thing.notfound")
    assert whole.read() == [1]


@pytest.mark.conformance("ditto.access.deleted")
def test_the_history_of_a_deleted_thing_is_there_again_when_it_is(world: World) -> None:
    world.make()
    peer = world.connect()
    assert peer.command("delete")["status"] == 204
    assert failure(peer.request(peer.subscribe(), 1)) == (404, "things:thing.notfound")
    assert peer.command("create", value={"policyId": THING})["status"] == 201
    assert peer.read() == [1, 2, 3]


@pytest.mark.conformance("ditto.policy.streaming")
def test_the_history_of_a_policy_has_no_channel_in_its_topics(world: World) -> None:
    shared(world)
    peer = world.connect()
    entry = {"subjects": {"nginx:new": {"type": "t"}}, "resources": {"thing:/": READ}}
    assert peer.command("modify", "/entries/NEW", entry, "ns:policy", "policies")["status"] == 201
    id = "policy ns:policy"
    first, second, end = peer.request(peer.subscribe(id), 5, id)
    assert first["topic"] == "ns/policy/policies/streaming/next"
    assert first["value"]["item"]["topic"] == "ns/policy/policies/events/created"
    assert second["value"]["item"]["topic"] == "ns/policy/policies/events/created"
    assert (second["value"]["item"]["path"], second["value"]["item"]["revision"]) == ("/entries/NEW", 2)
    assert end["topic"] == "ns/policy/policies/streaming/complete"


@pytest.mark.conformance("ditto.policy.partial")
def test_who_may_read_any_of_a_policy_reads_its_history_and_others_get_404(world: World) -> None:
    shared(world, reader={"policy:/entries/OWNER": READ})
    reader, outsider = world.connect("reader"), world.connect("outsider")
    id = "policy ns:policy"
    assert reader.read(id=id) == [1]
    assert failure(outsider.request(outsider.subscribe(id), 1, id)) == (404, "policies:policy.notfound")


@pytest.mark.conformance("ditto.policy.filter")
def test_the_filter_of_a_policy_is_not_looked_at(world: World) -> None:
    shared(world)
    assert world.connect().read(id="policy ns:policy", filter="not RQL") == [1]


@pytest.mark.conformance("ditto.connection.refused")
def test_connections_have_no_history(world: World) -> None:
    peer = world.connect()
    id = "connection c"
    number = peer.subscribe(id)
    (failed,) = peer.request(number, 1, id)
    assert failed["topic"] == "_/c/connections/streaming/failed"
    assert failure([failed]) == (404, "connectivity:connection.notfound")


# -- bad input: the documented error, and the socket goes on -----------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "value", "expected"),
    [
        row("bad.request.no-value", "request", None, (400, "json.field.missing")),
        row("bad.request.no-id", "request", {"demand": 1}, (400, "json.field.missing")),
        row("bad.request.id-number", "request", {"subscriptionId": 0, "demand": 1}, (400, "json.invalid")),
        row("bad.request.demand-text", "request", {"subscriptionId": "0", "demand": "5"}, (400, "json.invalid")),
        row("bad.request.demand-true", "request", {"subscriptionId": "0", "demand": True}, (400, "json.invalid")),
        row("bad.request.demand-fraction", "request", {"subscriptionId": "0", "demand": 1.5}, (400, "json.invalid")),
        row("bad.request.list", "request", [], (400, "json.invalid")),
        row("bad.cancel.no-value", "cancel", None, (400, "json.field.missing")),
        row("bad.cancel.id-null", "cancel", {"subscriptionId": None}, (400, "json.field.missing")),
        row("bad.subscribe.text", "subscribeForPersistedEvents", "all", (400, "json.invalid")),
        row(
            "bad.subscribe.revision-text",
            "subscribeForPersistedEvents",
            {"fromHistoricalRevision": "1"},
            (400, "json.invalid"),
        ),
        row(
            "bad.subscribe.revision-fraction",
            "subscribeForPersistedEvents",
            {"toHistoricalRevision": 0.5},
            (400, "json.invalid"),
        ),
        row(
            "bad.subscribe.timestamp",
            "subscribeForPersistedEvents",
            {"fromHistoricalTimestamp": "yesterday"},
            (400, "json.invalid"),
        ),
        row(
            "bad.subscribe.timestamp-number",
            "subscribeForPersistedEvents",
            {"toHistoricalTimestamp": 1700000000},
            (400, "json.invalid"),
        ),
        row("bad.subscribe.filter-number", "subscribeForPersistedEvents", {"filter": 1}, (400, "json.invalid")),
        row("bad.streaming.created", "created", {"subscriptionId": "0"}, (400, "protocoladapter:unknown.topicpath")),
        row("bad.streaming.next", "next", {"subscriptionId": "0"}, (400, "protocoladapter:unknown.topicpath")),
        row("bad.streaming.unknown", "pause", {}, (400, "protocoladapter:unknown.topicpath")),
    ],
)
def test_a_bad_streaming_message_is_an_error_response_and_the_subscription_goes_on(
    world: World, action: str, value: Any, expected: tuple[int, str]
) -> None:
    world.make()
    peer = world.connect()
    assert peer.subscribe() == "0"
    answers = peer.say(streaming(THING, action, value, {"correlation-id": "bad"}))
    assert refusal(answers) == expected
    assert answers[0]["headers"]["correlation-id"] == "bad"
    assert kinds(peer.request("0", 1)) == ["next", "complete"]


@pytest.mark.parametrize(
    "demand",
    [row("unknown.request", 1), row("unknown.request-zero", 0)],
)
def test_a_request_to_an_unknown_subscription_fails_with_404_and_the_topic_of_the_request(
    world: World, demand: int
) -> None:
    (failed,) = world.connect().request("17", demand, "an:other")
    assert failed["topic"] == "an/other/things/twin/streaming/failed"
    assert failure([failed]) == NOT_FOUND


@pytest.mark.conformance("ditto.unknown.cancel")
def test_a_cancel_of_an_unknown_subscription_fails_with_404(world: World) -> None:
    assert failure(world.connect().cancel("17")) == NOT_FOUND


@pytest.mark.conformance("ditto.bad.streaming.path")
def test_a_streaming_message_with_another_path_is_refused(world: World) -> None:
    message = streaming(THING, "subscribeForPersistedEvents", {}) | {"path": "/attributes"}
    assert refusal(world.connect().say(message)) == (400, "protocoladapter:unknown.path")


@pytest.mark.conformance("ditto.bad.streaming.id")
def test_a_subscription_to_what_is_no_identifier_is_refused(world: World) -> None:
    message = command("x") | {"topic": "0bad/x/things/twin/streaming/subscribeForPersistedEvents"}
    assert refusal(world.connect().say(message)) == (400, "things:id.invalid")
