from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.doors.ditto.answers import error_of
from penstock.journal.errors import JournalClosed
from penstock.testing.disk import FakeDisk
from penstock.twins.access import Permission, ResourceKind
from penstock.twins.command import Caller
from penstock.twins.decision import Result
from penstock.twins.names import policy_key, thing_key
from penstock.twins.reasons import TwinRefusal
from penstock.twins.told import Told
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.topic import parse_topic
from penstock.wire.ditto.twin import parse_command
from tests.twins.world import (
    OUTSIDER,
    OWNER,
    POLICY,
    POLICY_DOCUMENT,
    READ,
    READER,
    THING,
    Gate,
    World,
    answered,
    asked,
    command,
    entry,
    event,
    policy_command,
)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.told.clear()
    yield world
    world.close()


def counter(world: World) -> object:
    twin = world.twins.thing(THING)
    return None if twin is None else twin.document["attributes"]["n"]


# -- while the journal commits -----------------------------------------------------------------------------------------


def test_commands_build_on_what_is_not_on_the_disk_yet_and_nobody_hears_of_it(world: World) -> None:
    gate = Gate(world.disk)
    create = world.begin(command("create", value={"policyId": POLICY, "attributes": {"n": 0}}))
    again = world.begin(command("create", value={"policyId": POLICY}))
    modify = world.begin(command("modify", "/attributes/n", 1, headers={"if-match": '"hash:none", *'}))
    read = world.begin(command("retrieve", "/attributes/n"))
    missing = world.begin(command("retrieve", "/attributes/none"))
    several = world.begin(
        parse_command(Envelope(parse_topic("_/_/things/twin/commands/retrieve"), "/", {}, {"thingIds": [THING]}))
    )
    other = world.begin(command("retrieve", id="ns:other"))
    waiting = [create, again, modify, read, missing, several]
    assert [each.status for each in waiting] == [None] * 6
    assert other.status == 404  # it has nothing to do with what waits
    assert not world.told
    assert world.twins.thing(THING) is None
    assert list(world.twins.things()) == []
    gate.open()
    world.turn()
    assert [each.status for each in waiting] == [201, 409, None, None, None, None]
    assert counter(world) == 0
    assert [told.revision for told in world.told] == [1]
    world.turn()
    assert [each.status for each in waiting] == [201, 409, 204, 200, 404, 200]
    assert read.outcome.value == 1
    assert counter(world) == 1
    assert list(world.twins.things()) == [THING]


def test_a_change_of_policy_decides_before_it_is_on_the_disk(world: World) -> None:
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 0}}))
    gate = Gate(world.disk)
    revoke = world.begin(policy_command("delete", "/entries/READER"))
    read = world.begin(command("retrieve"), READER)
    assert (revoke.status, read.status) == (None, None)
    gate.open()
    world.turn()
    assert (revoke.status, read.status) == (204, 404)


def test_a_failed_commit_takes_back_all_that_was_built_on_it(world: World) -> None:
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 0}}))
    world.told.clear()
    gate = Gate(world.disk)
    first = world.begin(command("modify", "/attributes/n", 1))
    second = world.begin(command("modify", "/attributes/n", 2))
    read = world.begin(command("retrieve", "/attributes/n"))
    new = world.begin(command("create", value={}, id="ns:new"))
    gate.open(failing=True)
    for _ in range(3):
        world.turn()
    assert [each.status for each in (first, second, read, new)] == [503] * 4
    with pytest.raises(DittoError) as raised:
        _ = first.outcome
    assert raised.value.code == "things:thing.unavailable"
    assert counter(world) == 0
    assert world.ask(command("retrieve", "/attributes/n")).value == 0
    assert (world.twins.thing("ns:new"), world.twins.policy("ns:new")) == (None, None)
    assert not world.told
    assert world.twins.commits.failed_changes == 4
    # While the disk refuses, so do we, at once.
    refused = world.begin(command("modify", "/attributes/n", 3))
    assert refused.status == 503
    assert world.begin(policy_command("delete")).status == 503
    gate.repair()
    world.journal.room().result(30)
    assert world.ask(command("modify", "/attributes/n", 4)).status == 204
    world.restart()
    assert counter(world) == 4


def test_what_was_built_on_a_failed_change_and_got_to_the_disk_stands_on_what_the_disk_has(world: World) -> None:
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 0}}))
    gate = Gate(world.disk)
    lost = world.begin(command("modify", "/attributes", {"n": 1, "lost": True}))
    gate.open(failing=True)
    # The journal fails and recovers while the registry has not heard of either.
    call = world.calls.get(timeout=30)
    gate.repair()
    world.journal.room().result(30)
    kept = world.begin(command("modify", "/attributes/n", 2))
    call()
    assert lost.status == 503
    world.turn()
    assert kept.status == 204
    twin = world.twins.thing(THING)
    assert twin is not None
    assert twin.document["attributes"] == {"n": 2}
    world.restart()
    assert world.twins.thing(THING) == twin


def test_a_closed_journal_is_told_as_unavailable(world: World) -> None:
    world.close()
    with pytest.raises(JournalClosed):
        world.journal.flush()
    assert world.result(command("create", value={})) == (503, "things:thing.unavailable")
    assert world.result(policy_command("delete")) == (503, "policies:policy.unavailable")
    assert world.result(policy_command("retrieve")) == (200, None)


# -- listeners ---------------------------------------------------------------------------------------------------------


def test_listeners_hear_of_changes_in_order_until_they_leave(world: World) -> None:
    heard: list[tuple[str, int]] = []

    def listener(told: Told) -> None:
        heard.append((str(event(told).topic), told.revision))

    leave = world.twins.listen(listener)
    world.ask(command("create", value={"policyId": POLICY}))
    world.ask(command("modify", "/attributes/n", 1))
    leave()
    world.ask(command("delete"))
    assert heard == [
        ("ns/thing/things/twin/events/created", 1),
        ("ns/thing/things/twin/events/created", 2),
    ]


def test_a_listener_that_fails_harms_nobody(world: World) -> None:
    def broken(told: Told) -> None:
        raise RuntimeError("broken")

    world.twins.listen(broken)
    after: list[Told] = []
    world.twins.listen(after.append)
    assert world.ask(command("create", value={"policyId": POLICY})).status == 201
    assert len(after) == 1
    assert world.faults == [thing_key(THING)]


def test_an_answer_that_is_not_taken_harms_nobody(world: World) -> None:
    def broken(result: object) -> None:
        raise RuntimeError("broken")

    gate = Gate(world.disk)
    world.twins.submit(asked(command("create", value={"policyId": POLICY})), OWNER, broken)
    read = world.begin(command("retrieve"))
    gate.open()
    world.turn()
    assert read.status == 200
    assert world.faults == [thing_key(THING)]


def test_who_is_answered_may_send_the_next_command_at_once(world: World) -> None:
    statuses: list[int] = []

    def delete_and_create_again(result: Result | TwinRefusal) -> None:
        statuses.append(answered(result).status)
        if len(statuses) < 6:
            given = command("delete") if len(statuses) % 2 else command("create", value={"policyId": POLICY})
            world.twins.submit(asked(given), OWNER, delete_and_create_again)

    world.twins.submit(asked(command("create", value={"policyId": POLICY})), OWNER, delete_and_create_again)
    while len(statuses) < 6:
        world.turn()
    assert statuses == [201, 204] * 3
    assert world.twins.thing(THING) is None


def test_those_who_could_read_a_thing_hear_that_it_is_gone(world: World) -> None:
    world.ask(command("create", value={"policyId": POLICY}))
    world.told.clear()
    world.ask(command("delete"))
    assert world.told[0].change_for(READER.subjects) is world.told[0].change
    assert world.told[0].change_for(OUTSIDER.subjects) is None
    world.told.clear()
    world.ask(policy_command("delete"))
    assert world.told[0].change_for(READER.subjects) is world.told[0].change


# -- what doors ask ----------------------------------------------------------------------------------------------------


def test_history_is_for_those_who_may_read_all_of_a_thing_and_any_of_a_policy(world: World) -> None:
    world.ask(command("create", value={"policyId": POLICY}))
    thing, policy = thing_key(THING), policy_key(POLICY)
    hidden = {"thing:/": READ, "thing:/attributes/secret": {"grant": [], "revoke": ["READ"]}, "policy:/entries/X": READ}
    world.ask(policy_command("modify", "/entries/PART", entry("nginx:part", **hidden)))
    part = frozenset(["nginx:part"])
    world.twins.check_history(thing, READER.subjects)
    world.twins.check_history(policy, part)
    for key, subjects, code in (
        (thing, part, "things:thing.notfound"),
        (thing, OUTSIDER.subjects, "things:thing.notfound"),
        (thing_key("ns:none"), OWNER.subjects, "things:thing.notfound"),
        (policy, OUTSIDER.subjects, "policies:policy.notfound"),
        (policy_key("ns:none"), OWNER.subjects, "policies:policy.notfound"),
    ):
        with pytest.raises(TwinRefusal) as refused:
            world.twins.check_history(key, subjects)
        assert error_of(refused.value).code == code
    world.ask(command("delete"))
    with pytest.raises(TwinRefusal):
        world.twins.check_history(thing, READER.subjects)


def test_headers_are_journaled_only_when_configured() -> None:
    headers = {"correlation-id": "c", "reason": "r", "ditto-originator": "made up"}
    originator = OWNER.names[0]
    for kept, expected in (
        ((), None),
        (("reason",), '{"reason":"r"}'),
        (("ditto-originator", "missing"), f'{{"ditto-originator":"{originator}"}}'),
    ):
        world = World(kept=kept)
        world.ask(command("create", value={}, headers=headers))
        assert {record.headers for record in world.records()} == {expected}
        world.close()


def test_a_caller_has_a_subject() -> None:
    with pytest.raises(ValueError, match="names is empty"):
        Caller(())


def test_the_registry_of_an_empty_disk_is_empty() -> None:
    world = World(FakeDisk())
    assert list(world.twins.things()) == []
    assert world.twins.count == 0
    assert world.twins.capture().twins == {}
    rights = world.twins.rights(thing_key(THING), OWNER.subjects)
    assert not rights.scope(ResourceKind.THING, Permission.READ).touches(())
    world.close()


def test_things_and_policies_are_counted_with_those_that_are_about_to_be() -> None:
    world = World()
    # A thing, and the policy that it gets.
    answer = world.begin(command("create", value={}))
    assert (world.twins.count, list(world.twins.things())) == (2, [])
    while answer.status is None:
        world.turn()
    assert (world.twins.count, list(world.twins.things())) == (2, [THING])
    world.ask(command("delete"))
    assert world.twins.count == 1
    world.close()
