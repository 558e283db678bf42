from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from penstock.twins.history import Moment, event_of, moment_of
from penstock.twins.names import Key, policy_key, thing_key
from penstock.twins.record import Record
from penstock.twins.retrieval import retrieve
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import decode
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.twin import EventItems
from tests.twins.world import NOON, OWNER, POLICY, POLICY_DOCUMENT, SECOND, THING, World, command, policy_command

KEY = thing_key(THING)


def history(*events: tuple[str, str, str | None], seconds: list[int] | None = None) -> list[Record]:
    """Records one second apart, unless told otherwise."""
    times = seconds or list(range(len(events)))
    return [
        Record(number, "DITTO/THINGS/ns:thing", number, NOON + second * SECOND, *event)
        for number, (event, second) in enumerate(zip(events, times, strict=True), 1)
    ]


THINGS = history(
    ("created", "/", '{"thingId":"ns:thing","attributes":{"n":0}}'),
    ("modified", "/attributes/n", "1"),
    ("merged", "/", '{"attributes":{"n":null,"m":2}}'),
    ("deleted", "/attributes/m", None),
    ("deleted", "/", None),
    ("created", "/", '{"thingId":"ns:thing"}'),
)


def document(moment: Moment, records: list[Record] | None = None, key: Key = KEY) -> Any:
    return moment.twin(key, THINGS if records is None else records).document


def at(seconds: float) -> Moment:
    return Moment(before=int((NOON + seconds * SECOND) * 1000))


@pytest.mark.parametrize(("revision", "attributes"), [(1, {"n": 0}), (2, {"n": 1}), (3, {"m": 2}), (4, {}), (6, None)])
def test_a_revision_is_the_state_after_it(revision: int, attributes: Any) -> None:
    twin = Moment(revision=revision).twin(KEY, THINGS)
    assert twin.document.get("attributes") == attributes
    assert twin.revision == revision
    assert twin.modified == NOON + (revision - 1) * SECOND
    assert twin.created == (NOON + 5 * SECOND if revision == 6 else NOON)


def test_a_moment_without_a_thing_is_not_found() -> None:
    with pytest.raises(DittoError) as raised:
        Moment(revision=5).twin(KEY, THINGS)
    assert (raised.value.status, raised.value.code) == (404, "things:thing.history.notfound")
    assert "at revision '5'" in raised.value.message
    with pytest.raises(DittoError) as raised:
        at(0).twin(KEY, THINGS)
    assert "at timestamp '2023-11-14T22:13:20Z'" in raised.value.message
    with pytest.raises(DittoError) as raised:
        at(0).twin(policy_key(POLICY), [])
    assert raised.value.code == "policies:policy.history.notfound"
    with pytest.raises(DittoError):
        at(4.5).twin(KEY, THINGS)


def test_a_timestamp_is_the_state_after_the_last_event_strictly_before_it() -> None:
    assert document(at(0.000001))["attributes"] == {"n": 0}
    assert document(at(1))["attributes"] == {"n": 0}
    assert document(Moment(before=(NOON + SECOND) * 1000 + 1))["attributes"] == {"n": 1}
    assert document(at(2))["attributes"] == {"n": 1}
    assert document(at(1000)) == {"thingId": THING}


def test_a_clock_that_stepped_back_takes_nothing_back() -> None:
    records = history(*[(r.kind, r.path, r.value) for r in THINGS[:4]], seconds=[0, 10, 5, 20])
    assert document(at(6), records)["attributes"] == {"m": 2}
    assert document(at(3), records)["attributes"] == {"n": 0}


def test_of_a_history_without_its_beginning_a_base_is_needed() -> None:
    with pytest.raises(DittoError):
        Moment(revision=3).twin(KEY, THINGS[1:])
    assert document(Moment(revision=6), THINGS[1:]) == {"thingId": THING}
    base = Twin({"thingId": THING, "attributes": {"n": 0, "kept": True}}, 1, NOON, NOON)
    twin = Moment(revision=3).twin(KEY, THINGS[1:], base)
    assert twin.document["attributes"] == {"kept": True, "m": 2}


@pytest.mark.parametrize(
    ("moment", "fine"),
    [
        (Moment(revision=1), True),
        (Moment(revision=6), True),
        (Moment(revision=0), False),
        (Moment(revision=-1), False),
        (Moment(revision=7), False),
        (at(1), True),
        (at(100), True),
        (at(101), False),
    ],
)
def test_what_cannot_have_been_is_told_at_once(moment: Moment, fine: bool) -> None:
    now = NOON + 100 * SECOND
    if fine:
        moment.check(KEY, 6, now)
        return
    with pytest.raises(DittoError) as raised:
        moment.check(KEY, 6, now)
    assert raised.value.status == 404


def test_headers_say_which_moment_is_meant() -> None:
    assert moment_of({}) is None
    assert moment_of({"at-historical-revision": "7"}) == Moment(revision=7)
    assert moment_of({"at-historical-revision": 7}) == Moment(revision=7)
    assert moment_of({"at-historical-timestamp": "1970-01-01T00:00:01Z"}) == Moment(before=1_000_000_000)
    assert moment_of({"at-historical-revision": 1, "at-historical-timestamp": "x"}) == Moment(revision=1)
    for headers in ({"at-historical-revision": "x"}, {"at-historical-timestamp": "yesterday"}):
        with pytest.raises(DittoError) as raised:
            moment_of(headers)
        assert raised.value.code == "header.invalid"


def test_a_record_is_the_event_it_tells_however_it_is_written() -> None:
    topic = KEY.topic
    headers = {"correlation-id": "c"}
    items = EventItems(topic, headers)
    for record in THINGS:
        event = event_of(topic, record, headers)
        envelope = decode(event.envelope().to_bytes())
        item = items.item(record.kind, record.path, record.value, record.revision, record.timestamp)
        assert decode(item) == envelope
        assert envelope["topic"] == f"ns/thing/things/twin/events/{record.kind}"
        assert ("value" in envelope) is (record.value is not None)
    assert event_of(topic, THINGS[1], headers).partial() == {
        "thingId": THING,
        "attributes": {"n": 1},
        "_revision": 2,
        "_modified": "2023-11-14T22:13:21Z",
    }
    assert event_of(topic, THINGS[4], headers).value is UNSET


def test_what_was_is_retrieved_like_what_is() -> None:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 0}}))
    for n in range(1, 4):
        world.ask(command("modify", "/attributes/n", n))
    world.ask(policy_command("modify", "/entries/X", {}))
    rights = world.twins.check_history(KEY, OWNER.subjects)
    records = [record for record in world.records() if record.entity == world.entity(THING)]
    past = Moment(revision=2).twin(KEY, records)
    outcome = retrieve(command("retrieve", fields="attributes,_revision"), past, rights, None)
    assert (outcome.value, outcome.etag) == ({"attributes": {"n": 1}, "_revision": 2}, '"rev:2"')
    assert retrieve(command("retrieve", "/attributes/n"), past, rights, None).value == 1
    with pytest.raises(DittoError):
        retrieve(command("retrieve", "/attributes/none"), past, rights, None)
    key = policy_key(POLICY)
    records = [record for record in world.records() if record.entity == world.entity(POLICY, key.group)]
    assert document(Moment(revision=1), records, key) == POLICY_DOCUMENT
    assert document(Moment(revision=2), records, key)["entries"]["X"] == {"subjects": {}, "resources": {}}
    world.close()
