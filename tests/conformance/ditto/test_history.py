from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.ditto.phrases import NO_READ, entry, row, shared
from tests.doors.ditto.world import READ, THING, World, failure, kinds, revisions, streaming

POLICY = "policy ns:policy"

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
        row("filter.placeholders", {"filter": 'eq(topic:action,"created")'}, [1]),
        row(
            "filter.placeholders.path",
            {"filter": 'and(eq(resource:path,"/attributes/counter"),lt(_revision,4))'},
            [2, 3],
        ),
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


def moment(world: World, revision: int) -> str:
    peer = world.connect()
    (item, _) = peer.request(peer.subscribe(fromHistoricalRevision=revision, toHistoricalRevision=revision), 1)
    return str(item["value"]["item"]["timestamp"])


@pytest.mark.parametrize(
    ("after", "before", "options", "expected"),
    [
        row("range.fromHistoricalTimestamp", 7, None, {}, [8, 9, 10]),
        row("range.toHistoricalTimestamp", None, 4, {}, [1, 2, 3]),
        row("range.combined", 2, 9, {"fromHistoricalRevision": 5, "toHistoricalRevision": -4}, [5, 6]),
        row("range.timestamps-upside-down", 7, 3, {}, []),
    ],
)
def test_timestamps_exclude_the_events_at_both_ends(
    world: World, after: int | None, before: int | None, options: dict[str, Any], expected: list[int]
) -> None:
    world.make(events=10)
    times = {"fromHistoricalTimestamp": after, "toHistoricalTimestamp": before}
    chosen: dict[str, Any] = {name: moment(world, revision) for name, revision in times.items() if revision is not None}
    assert world.connect().read(**chosen, **options) == expected


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
    peer, number = world.subscribed(events=10, filter="or(eq(attributes/counter,3),eq(attributes/counter,8))")
    assert revisions(peer.request(number, 1)) == [4]
    assert kinds(peer.request(number, 1)) == ["next", "complete"]


@pytest.mark.conformance("ditto.filter.invalid")
def test_a_filter_that_does_not_parse_fails_at_the_first_request_and_the_socket_goes_on(world: World) -> None:
    peer, number = world.subscribed(filter="eq(attributes/counter")
    assert failure(peer.request(number, 1)) == (400, "rql.expression.invalid")
    assert peer.read() == [1]


# -- who may read, and what --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "id", "expected"),
    [
        row("access.missing", "owner", "no:such", "things:thing.notfound"),
        row("access.forbidden", "outsider", THING, "things:thing.notfound"),
        row("policy.missing", "owner", "policy no:such", "policies:policy.notfound"),
        row("policy.forbidden", "outsider", POLICY, "policies:policy.notfound"),
        row("connection.refused", "owner", "connection c", "connectivity:connection.notfound"),
    ],
)
def test_a_history_that_is_not_there_or_not_for_everybody_fails_with_404(
    world: World, user: str, id: str, expected: str
) -> None:
    shared(world)
    peer = world.connect(user)
    (failed,) = peer.request(peer.subscribe(id), 1, id)
    assert failure([failed]) == (404, expected)
    assert failed["topic"] == streaming(id, "failed")["topic"]


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
    new = entry("new", {"thing:/": READ})
    assert peer.command("modify", "/entries/NEW", new, "ns:policy", "policies")["status"] == 201
    assert peer.command("delete", "/entries/NEW", id="ns:policy", group="policies")["status"] == 204
    *items, end = peer.request(peer.subscribe(POLICY), 5, POLICY)
    assert {item["topic"] for item in items} == {"ns/policy/policies/streaming/next"}
    assert end["topic"] == "ns/policy/policies/streaming/complete"
    events = [item["value"]["item"] for item in items]
    assert [(event["topic"], event["path"], event["revision"]) for event in events] == [
        ("ns/policy/policies/events/created", "/", 1),
        ("ns/policy/policies/events/created", "/entries/NEW", 2),
        ("ns/policy/policies/events/deleted", "/entries/NEW", 3),
    ]
    assert all("timestamp" in event for event in events)


@pytest.mark.conformance("ditto.policy.range")
def test_the_history_of_a_policy_has_ranges_too(world: World) -> None:
    shared(world)
    peer = world.connect()
    for number in range(4):
        new = entry(f"user{number}", {"thing:/": READ})
        assert peer.command("modify", "/entries/NEW", new, "ns:policy", "policies")["status"] in (201, 204)
    assert peer.read(id=POLICY, fromHistoricalRevision=-3, toHistoricalRevision=-1) == [3, 4]


@pytest.mark.conformance("ditto.policy.partial")
def test_who_may_read_any_of_a_policy_reads_its_history(world: World) -> None:
    shared(world, reader={"policy:/entries/OWNER": READ})
    assert world.connect("reader").read(id=POLICY) == [1]


@pytest.mark.conformance("ditto.policy.filter")
def test_the_filter_of_a_policy_is_not_looked_at(world: World) -> None:
    shared(world)
    assert world.connect().read(id=POLICY, filter="not RQL") == [1]
