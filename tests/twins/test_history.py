from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.ditto.answers import error_of
from penstock.twins.history import PastMoment
from penstock.twins.names import EntityKey, policy_key, thing_key
from penstock.twins.reasons import TwinRefusal
from penstock.twins.record import Record
from penstock.twins.retrieval import retrieve
from penstock.twins.twin import Twin
from tests.twins.world import (
    NOON,
    OWNER,
    POLICY,
    POLICY_DOCUMENT,
    SECOND,
    THING,
    World,
    asked_of_one,
    command,
    policy_command,
)

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


def document(moment: PastMoment, records: list[Record] | None = None, key: EntityKey = KEY) -> Any:
    return moment.twin(key, THINGS if records is None else records).document


def at(seconds: float) -> PastMoment:
    return PastMoment(before=int((NOON + seconds * SECOND) * 1000))


@pytest.mark.parametrize(("revision", "attributes"), [(1, {"n": 0}), (2, {"n": 1}), (3, {"m": 2}), (4, {}), (6, None)])
def test_a_revision_is_the_state_after_it(revision: int, attributes: Any) -> None:
    twin = PastMoment(revision=revision).twin(KEY, THINGS)
    assert twin.document.get("attributes") == attributes
    assert twin.revision == revision
    assert twin.modified == NOON + (revision - 1) * SECOND
    assert twin.created == (NOON + 5 * SECOND if revision == 6 else NOON)


def test_a_moment_without_a_thing_is_not_found() -> None:
    with pytest.raises(TwinRefusal) as raised:
        PastMoment(revision=5).twin(KEY, THINGS)
    assert (error_of(raised.value).status, error_of(raised.value).code) == (404, "things:thing.history.notfound")
    assert "at revision '5'" in error_of(raised.value).message
    with pytest.raises(TwinRefusal) as raised:
        at(0).twin(KEY, THINGS)
    assert "at timestamp '2023-11-14T22:13:20Z'" in error_of(raised.value).message
    with pytest.raises(TwinRefusal) as raised:
        at(0).twin(policy_key(POLICY), [])
    assert error_of(raised.value).code == "policies:policy.history.notfound"
    with pytest.raises(TwinRefusal):
        at(4.5).twin(KEY, THINGS)


def test_a_timestamp_is_the_state_after_the_last_event_strictly_before_it() -> None:
    assert document(at(0.000001))["attributes"] == {"n": 0}
    assert document(at(1))["attributes"] == {"n": 0}
    assert document(PastMoment(before=(NOON + SECOND) * 1000 + 1))["attributes"] == {"n": 1}
    assert document(at(2))["attributes"] == {"n": 1}
    assert document(at(1000)) == {"thingId": THING}


def test_a_clock_that_stepped_back_takes_nothing_back() -> None:
    records = history(*[(r.kind, r.path, r.value) for r in THINGS[:4]], seconds=[0, 10, 5, 20])
    assert document(at(6), records)["attributes"] == {"m": 2}
    assert document(at(3), records)["attributes"] == {"n": 0}


def test_of_a_history_without_its_beginning_a_base_is_needed() -> None:
    with pytest.raises(TwinRefusal):
        PastMoment(revision=3).twin(KEY, THINGS[1:])
    assert document(PastMoment(revision=6), THINGS[1:]) == {"thingId": THING}
    base = Twin({"thingId": THING, "attributes": {"n": 0, "kept": True}}, 1, NOON, NOON)
    twin = PastMoment(revision=3).twin(KEY, THINGS[1:], base)
    assert twin.document["attributes"] == {"kept": True, "m": 2}


@pytest.mark.parametrize(
    ("moment", "fine"),
    [
        (PastMoment(revision=1), True),
        (PastMoment(revision=6), True),
        (PastMoment(revision=0), False),
        (PastMoment(revision=-1), False),
        (PastMoment(revision=7), False),
        (at(1), True),
        (at(100), True),
        (at(101), False),
    ],
)
def test_what_cannot_have_been_is_told_at_once(moment: PastMoment, fine: bool) -> None:
    now = NOON + 100 * SECOND
    if fine:
        moment.check(KEY, 6, now)
        return
    with pytest.raises(TwinRefusal) as raised:
        moment.check(KEY, 6, now)
    assert error_of(raised.value).status == 404


def test_what_was_is_retrieved_like_what_is() -> None:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 0}}))
    for n in range(1, 4):
        world.ask(command("modify", "/attributes/n", n))
    world.ask(policy_command("modify", "/entries/X", {}))
    rights = world.twins.check_history(KEY, OWNER.subjects)
    records = [record for record in world.records() if record.entity == world.entity(THING)]
    past = PastMoment(revision=2).twin(KEY, records)
    outcome = retrieve(asked_of_one("retrieve", fields="attributes,_revision"), past, rights, None)
    assert (outcome.value, outcome.tag) == ({"attributes": {"n": 1}, "_revision": 2}, "rev:2")
    assert retrieve(asked_of_one("retrieve", "/attributes/n"), past, rights, None).value == 1
    with pytest.raises(TwinRefusal):
        retrieve(asked_of_one("retrieve", "/attributes/none"), past, rights, None)
    key = policy_key(POLICY)
    records = [record for record in world.records() if record.entity == world.entity(POLICY, key.group)]
    assert document(PastMoment(revision=1), records, key) == POLICY_DOCUMENT
    assert document(PastMoment(revision=2), records, key)["entries"]["X"] == {"subjects": {}, "resources": {}}
    world.close()
