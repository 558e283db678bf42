from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET

from penstock.twins.registry import RegistrySettings
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import get, parse_pointer
from penstock.wire.ditto.topic import parse_topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral, parse_command
from tests.twins.world import (
    ALL,
    OUTSIDER,
    OWNER,
    POLICY,
    POLICY_DOCUMENT,
    READ,
    READER,
    THING,
    World,
    command,
    entry,
    event,
    event_for,
    policy_command,
)

SPARSE: dict[str, Any] = {"thingId": THING, "policyId": POLICY}
FULL: dict[str, Any] = {
    **SPARSE,
    "definition": "org:model:1.0.0",
    "attributes": {"a": 1, "deep": {"x": [1, 2], "y": "text"}},
    "features": {
        "f": {"definition": ["ns:f:1"], "properties": {"p": 5, "q": {"r": None}}, "desiredProperties": {"p": 6}},
        "g": {},
    },
}


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    yield world
    world.close()


def made(world: World, thing: dict[str, Any]) -> World:
    world.ask(command("create", value=thing))
    world.told.clear()
    return world


# -- every command to every part ---------------------------------------------------------------------------------------

# Parts and a value for each, and what its errors call it.
PARTS: dict[str, tuple[Any, str]] = {
    "/definition": ("other:model:2", "definition"),
    "/attributes": ({"b": 2}, "attributes"),
    "/attributes/a": ({"new": True}, "attribute"),
    "/attributes/deep/y": ("changed", "attribute"),
    "/features": ({"h": {"properties": {"s": 1}}}, "features"),
    "/features/f": ({"properties": {"s": 1}}, "feature"),
    "/features/f/definition": (["a:b:c"], "feature.definition"),
    "/features/f/properties": ({"s": 1}, "feature.properties"),
    "/features/f/properties/p": (7, "feature.property"),
    "/features/f/desiredProperties": ({"s": 1}, "feature.desiredProperties"),
    "/features/f/desiredProperties/p": (7, "feature.desiredProperty"),
}
VALUES = {**{path: value for path, (value, _) in PARTS.items()}, "/policyId": POLICY, "/": {}}
ACTIONS = ("modify", "merge", "delete", "retrieve")

# Status and event, or status and what is not found: where the part is there, and where the thing has none of its parts.
EXPECTED = {
    "modify": ("204 modified", "201 created"),
    "merge": ("204 merged", "204 merged"),
    "delete": ("204 deleted", "404 {}.notfound"),
    "retrieve": ("200", "404 {}.notfound"),
}
# A part of a feature is not put where the feature is not.
IN_FEATURES = {**EXPECTED, "modify": ("204 modified", "404 {}.notfound")}


def rows() -> Iterator[tuple[str, str, bool, str]]:
    for path, (_, code) in PARTS.items():
        inside = path.startswith("/features/f/")
        for action in ACTIONS:
            there, not_there = (IN_FEATURES if inside else EXPECTED)[action]
            yield action, path, True, there
            yield action, path, False, not_there.format("feature" if inside else code)


def order(action: str, path: str, value: Any) -> Command:
    return command(action, path, value if action in ("create", "modify", "merge") else UNSET)


def answer(world: World, given: Command) -> str:
    try:
        outcome = world.ask(given)
    except DittoError as error:
        return f"{error.status} {error.code.partition(':')[2]}"
    kinds = [told.change.kind for told in world.told]
    return " ".join([str(outcome.status), *kinds])


@pytest.mark.parametrize(("action", "path", "there", "expected"), list(rows()))
def test_a_command_to_a_part_does_what_it_says(
    world: World, action: str, path: str, there: bool, expected: str
) -> None:
    state, value = FULL if there else SPARSE, VALUES[path]
    made(world, state)
    assert answer(world, order(action, path, value)) == expected
    if expected in ("201 created", "204 modified"):
        assert world.ask(command("retrieve", path)).value == value
    elif expected == "204 merged":
        assert world.ask(command("retrieve", path)).value == merge(get(state, parse_pointer(path)), value)
    elif expected == "204 deleted":
        assert world.refused(command("retrieve", path)).status == 404
    else:
        assert world.ask(command("retrieve")).value == state
    twin = world.twins.thing(THING)
    assert twin is not None
    assert twin.revision == 1 + len(world.told)


@pytest.mark.parametrize("path", VALUES)
@pytest.mark.parametrize("action", ACTIONS)
def test_an_outsider_meets_the_same_whether_or_not_there_is_a_thing(world: World, action: str, path: str) -> None:
    value = VALUES.get(path, 0)
    if action == "delete" and path == "/policyId":
        return
    if path == "/" and action in ("modify", "merge"):
        # It would make the thing; only the answer to one that is there can be looked at.
        made(world, FULL)
        assert world.result(order(action, path, value), OUTSIDER) == (404, "things:thing.notfound")
        return
    given = order(action, path, value)
    missing = world.refused(given, OUTSIDER)
    made(world, FULL)
    forbidden = world.refused(given, OUTSIDER)
    assert missing == forbidden
    assert (forbidden.status, forbidden.code) == (404, "things:thing.notfound")
    assert not world.told


@pytest.mark.parametrize("action", ["create", "modify", "merge"])
@pytest.mark.parametrize(
    ("value", "headers", "status"),
    [
        ({}, {"if-match": "*"}, 412),
        ({}, {"if-match": "nonsense"}, 400),
        ({"policyId": "ns:none"}, {}, 400),
        ({"policyId": POLICY}, {}, 400),
        ({"_policy": {"entries": {}}}, {}, 403),
        ({"attributes": {"a": "x" * 102_400}}, {}, 413),
    ],
)
def test_what_is_wrong_with_a_new_thing_tells_an_outsider_nothing_of_an_old_one(
    world: World, action: str, value: Any, headers: dict[str, str], status: int
) -> None:
    given = command(action, value=value, headers=headers)
    missing = world.refused(given, OUTSIDER)
    made(world, FULL)
    assert world.refused(given, OUTSIDER) == missing
    assert missing.status == status


def test_an_outsider_who_could_make_a_thing_learns_that_it_is(world: World) -> None:
    world.ask(command("create", value={}))
    assert world.result(command("create", value={}), OUTSIDER) == (409, "things:thing.conflict")
    assert world.result(command("modify", value={}), OUTSIDER) == (404, "things:thing.notfound")


CODES = {**{path: code for path, (_, code) in PARTS.items()}, "/": "thing", "/policyId": "thing"}


@pytest.mark.parametrize(("path", "code"), [*CODES.items(), ("/attributes/not/there", "attribute")])
def test_a_reader_may_read_every_part_and_write_none(world: World, path: str, code: str) -> None:
    value = VALUES.get(path, 0)
    made(world, FULL)
    if "not" not in path:
        assert world.result(command("retrieve", path), READER) == (200, None)
    for action in ("modify", "merge"):
        assert world.result(order(action, path, value), READER) == (403, f"things:{code}.notmodifiable")
    if path != "/policyId":
        word = "notdeletable" if path == "/" else "notmodifiable"
        assert world.result(command("delete", path), READER) == (403, f"things:{code}.{word}")
    assert world.ask(command("retrieve")).value == FULL
    assert not world.told


# -- the whole thing ---------------------------------------------------------------------------------------------------


def test_a_thing_is_created_and_its_event_tells_it(world: World) -> None:
    world.told.clear()
    outcome = world.ask(command("create", value={**FULL, "_metadata": {}}, headers={"correlation-id": "c"}))
    assert (outcome.status, outcome.value, outcome.etag) == (201, FULL, '"rev:1"')
    (told,) = world.told
    assert (told.change.kind, told.change.path, told.change.value) == (Action.CREATED, "/", FULL)
    assert (told.revision, told.timestamp) == (1, world.now)
    assert event(told).envelope().to_json() == {
        "topic": "ns/thing/things/twin/events/created",
        "headers": {"correlation-id": "c", "content-type": "application/json"},
        "path": "/",
        "value": FULL,
        "revision": 1,
        "timestamp": "2023-11-14T22:13:22Z",
    }
    assert told.origin == OWNER.origin
    assert (told.before, told.after) == (None, world.twins.thing(THING))


def test_a_thing_that_exists_cannot_be_created_again(world: World) -> None:
    made(world, SPARSE)
    assert world.result(command("create", value=SPARSE)) == (409, "things:thing.conflict")


def test_modifying_a_missing_thing_creates_it_and_an_existing_one_is_replaced(world: World) -> None:
    assert answer(world, command("modify", value=FULL)) == "201 created created"  # the policy's event is the first
    world.told.clear()
    assert answer(world, command("modify", value={"attributes": {"only": 1}})) == "204 modified"
    expected = {**SPARSE, "attributes": {"only": 1}}
    assert world.ask(command("retrieve")).value == expected
    assert world.told[0].change.value == expected


def test_merging_a_missing_thing_creates_it_without_nulls(world: World) -> None:
    patch = {"policyId": POLICY, "attributes": {"a": 1, "b": None, "c": {"d": None}}}
    outcome = world.ask(command("merge", value=patch))
    assert (outcome.status, outcome.value) == (201, {**SPARSE, "attributes": {"a": 1, "c": {}}})
    assert world.told[-1].change.kind is Action.CREATED


def test_a_merge_tells_the_patch_as_it_was_sent(world: World) -> None:
    made(world, FULL)
    patch = {"definition": None, "attributes": {"a": None, "deep": {"y": "new"}}}
    assert world.ask(command("merge", value=patch)).status == 204
    assert world.told[0].change.value == patch
    seen: Any = world.ask(command("retrieve")).value
    assert "definition" not in seen
    assert seen["attributes"] == {"deep": {"x": [1, 2], "y": "new"}}
    assert event(world.told[0]).envelope().headers["content-type"] == "application/merge-patch+json"


def test_a_deleted_thing_is_gone_and_counts_on_when_it_comes_back(world: World) -> None:
    made(world, FULL)
    assert answer(world, command("delete")) == "204 deleted"
    assert world.told[0].change.value is UNSET
    assert world.result(command("retrieve")) == (404, "things:thing.notfound")
    assert world.result(command("modify", "/attributes/a", 1)) == (404, "things:thing.notfound")
    assert world.ask(command("create", value=SPARSE)).etag == '"rev:3"'
    world.restart()
    twin = world.twins.thing(THING)
    assert twin is not None
    assert (twin.revision, twin.document) == (3, SPARSE)


def test_what_is_on_the_way_and_no_object_gives_way(world: World) -> None:
    made(world, FULL)
    assert answer(world, command("modify", "/attributes/a/b/c", 1)) == "201 created"
    assert world.ask(command("retrieve", "/attributes/a")).value == {"b": {"c": 1}}


def test_properties_may_be_put_into_a_feature_that_has_none(world: World) -> None:
    made(world, FULL)
    assert answer(world, command("modify", "/features/g/properties/p/q", 1)) == "201 created"
    assert world.ask(command("retrieve", "/features/g")).value == {"properties": {"p": {"q": 1}}}


def test_a_thing_of_more_than_100_kilobytes_is_refused_and_nothing_is_journaled(world: World) -> None:
    made(world, SPARSE)
    before = world.journal.next_sequence
    assert world.result(command("modify", "/attributes/a", "x" * 102_400)) == (413, "things:thing.toolarge")
    assert world.result(command("merge", "/attributes/a", "x" * 102_400)) == (413, "things:thing.toolarge")
    assert world.result(command("create", value={"attributes": {"a": "x" * 102_400}}, id="ns:other"))[0] == 413
    room = 102_400 - len(b'{"thingId":"ns:thing","policyId":"ns:policy","attributes":{"a":""}}')
    assert world.journal.next_sequence == before
    assert world.result(command("modify", "/attributes/a", "x" * (room + 1)))[0] == 413
    assert world.result(command("modify", "/attributes/a", "x" * room))[0] == 201
    # What is large can be made smaller.
    assert world.result(command("delete", "/attributes/a"))[0] == 204


def test_a_patch_of_more_than_100_kilobytes_is_refused_even_if_it_only_deletes(world: World) -> None:
    made(world, SPARSE)
    patch = {"attributes": {f"{number:05}": None for number in range(10_000)}}
    assert world.result(command("merge", "/", patch)) == (413, "things:thing.toolarge")


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"d": value}
    return value


def test_a_thing_does_not_get_deeper_than_a_message_may_be(world: World) -> None:
    made(world, SPARSE)
    path = "/attributes" + "/x" * 100
    # The thing, its attributes and the keys of the path are 101 levels.
    assert world.result(command("modify", path, deep(28))) == (400, "json.invalid")
    assert world.result(command("merge", path, deep(28))) == (400, "json.invalid")
    assert world.result(command("modify", path, deep(27))) == (201, None)
    assert world.result(command("modify", path + "/y", 1)) == (201, None)
    # Arrays are levels as well.
    value: Any = 1
    for _ in range(28):
        value = [value]
    assert world.result(command("modify", path, value)) == (400, "json.invalid")
    assert world.result(command("modify", path, value[0])) == (204, None)
    before = world.twins.thing(THING)
    world.restart(save=True)
    assert world.twins.thing(THING) == before


def test_namespaces_of_data_adapters_are_reserved() -> None:
    world = World(settings=RegistrySettings(reserved=lambda namespace: namespace == "DEMO.STOCKS"))
    assert world.result(command("create", value={}, id="DEMO.STOCKS:item1")) == (400, "things:thing.notcreatable")
    assert world.result(command("create", value={}, id="DEMO:item1")) == (201, None)
    world.close()


# -- its policy --------------------------------------------------------------------------------------------------------


def test_a_thing_without_a_policy_gets_one_of_its_own_in_the_same_append() -> None:
    world = World()
    outcome = world.ask(command("create", value={"attributes": {"a": 1}}))
    assert outcome.value == {"thingId": THING, "policyId": THING, "attributes": {"a": 1}}
    policy = world.twins.policy(THING)
    assert policy is not None
    assert policy.document["entries"]["DEFAULT"]["subjects"] == {"nginx:owner": {"type": "generated"}}
    assert policy.document["entries"]["DEFAULT"]["resources"]["thing:/"] == ALL
    assert [told.key.group for told in world.told] == ["policies", "things"]
    assert world.journal.committed_groups == 1
    assert world.result(command("retrieve"), OUTSIDER)[0] == 404
    # The policy stays when the thing goes; then it must be named.
    world.ask(command("delete"))
    assert world.result(command("create", value={})) == (400, "things:thing.notcreatable")
    assert world.result(command("create", value={"policyId": THING}))[0] == 201
    world.close()


def test_a_policy_may_come_with_the_thing() -> None:
    world = World()
    inline = {"entries": {"A": entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL}), "B": entry("nginx:reader")}}
    outcome = world.ask(command("create", value={"_policy": inline}))
    assert outcome.value == {"thingId": THING, "policyId": THING}
    policy = world.twins.policy(THING)
    assert policy is not None
    assert policy.document == {"policyId": THING, **inline}
    for value in (
        {"_policy": inline, "policyId": POLICY},
        {"_policy": {**inline, "policyId": THING}, "policyId": "n:o"},
    ):
        assert world.result(command("create", value=value, id="ns:o")) == (400, "things:policy.id.notallowed")
    taken = {"_policy": {**inline, "policyId": THING}}
    assert world.result(command("create", value=taken, id="ns:o")) == (400, "things:thing.notcreatable")
    assert world.result(command("modify", value={"_policy": inline})) == (400, "things:policy.id.notallowed")
    without_writer = {"entries": {"A": entry("nginx:owner", **{"thing:/": ALL})}}
    assert world.result(command("create", value={"_policy": without_writer}, id="ns:o"))[0] == 403
    not_mine = {"entries": {"A": entry("nginx:reader", **{"thing:/": ALL, "policy:/": ALL})}}
    assert world.result(command("create", value={"_policy": not_mine}, id="ns:o"))[0] == 403
    assert world.twins.policy("ns:o") is None
    world.close()


def test_the_policy_of_a_new_thing_is_copied_from_another_one() -> None:
    world = World()
    # Its policy has the same ID.
    world.ask(command("create", value={}))
    original = world.twins.policy(THING)
    assert original is not None
    sources = (THING, f"{{{{ ref:things/{THING}/policyId }}}}", f"{{{{ref:things/{THING}/policyId}}}}")
    for number, source in enumerate(sources):
        id = f"ns:copy{number}"
        assert world.result(command("create", value={"_copyPolicyFrom": source}, id=id))[0] == 201
        copy = world.twins.policy(id)
        assert copy is not None
        assert copy.document == {**original.document, "policyId": id}
        thing = world.twins.thing(id)
        assert thing is not None
        assert thing.document == {"thingId": id, "policyId": id}
    own = {"_copyPolicyFrom": THING, "policyId": "ns:own-copy"}
    assert world.result(command("create", value=own, id="ns:o"))[0] == 201
    assert world.twins.policy("ns:own-copy") is not None
    for value in ("no:such", "nonsense", 7, "{{ ref:things/no:such/policyId }}"):
        assert world.result(command("create", value={"_copyPolicyFrom": value}, id="ns:p"))[0] == 400
    both = {"_copyPolicyFrom": THING, "_policy": {}}
    assert world.result(command("create", value=both, id="ns:p")) == (400, "things:policy.id.notallowed")
    # Whoever may not read all of a policy cannot copy it.
    copied = command("create", value={"_copyPolicyFrom": THING}, id="ns:p")
    assert world.result(copied, OUTSIDER)[0] == 400
    world.close()


@pytest.mark.parametrize("also", [{}, {"policyId": "ns:own"}])
def test_a_policy_that_comes_with_the_thing_may_have_an_id_of_its_own(also: dict[str, Any]) -> None:
    world = World()
    entries = {"entries": {"A": entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL})}}
    outcome = world.ask(command("create", value={"_policy": {"policyId": "ns:own", **entries}, **also}))
    assert outcome.value == {"thingId": THING, "policyId": "ns:own"}
    policy = world.twins.policy("ns:own")
    assert policy is not None
    assert policy.document == {"policyId": "ns:own", **entries}
    assert world.twins.policy(THING) is None
    assert world.ask(command("modify", "/attributes/a", 1)).status == 201
    world.close()


def test_a_thing_goes_only_under_a_policy_that_lets_its_mover_write_it(world: World) -> None:
    made(world, SPARSE)
    missing = world.refused(command("modify", "/policyId", "ns:none"))
    assert (missing.status, missing.code) == (400, "things:thing.notcreatable")
    world.ask(
        policy_command(
            "create",
            value={"entries": {"A": entry("nginx:outsider", **{"thing:/": ALL, "policy:/": ALL})}},
            id="ns:foreign",
        ),
        OUTSIDER,
    )
    foreign = world.refused(command("modify", "/policyId", "ns:foreign"))
    assert foreign.message == missing.message.replace("ns:none", "ns:foreign")
    for given in (
        command("merge", value={"policyId": "ns:foreign"}),
        command("modify", value={"policyId": "ns:foreign"}),
        command("create", value={"policyId": "ns:foreign"}, id="ns:new"),
        command("merge", "/policyId", "ns:foreign"),
    ):
        assert world.refused(given).code == "things:thing.notcreatable"
    world.ask(policy_command("create", value={"entries": POLICY_DOCUMENT["entries"]}, id="ns:other"))
    assert answer(world, command("modify", "/policyId", "ns:other")).startswith("204")
    assert world.ask(command("retrieve", "/policyId")).value == "ns:other"


def test_a_thing_whose_policy_is_gone_is_there_for_nobody(world: World) -> None:
    made(world, FULL)
    world.ask(policy_command("delete"))
    assert world.result(command("retrieve")) == (404, "things:thing.notfound")
    assert world.result(command("delete")) == (404, "things:thing.notfound")
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    assert world.ask(command("retrieve")).value == FULL


# -- partial permissions -----------------------------------------------------------------------------------------------

PARTIAL = {
    "entries": {
        "OWNER": entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL}),
        "READER": entry(
            "nginx:reader",
            **{
                "thing:/attributes": ALL,
                "thing:/attributes/deep": {"grant": [], "revoke": ["READ", "WRITE"]},
                "thing:/attributes/deep/y": READ,
                "thing:/features/f/properties/p": READ,
            },
        ),
    }
}


@pytest.fixture
def partial(world: World) -> World:
    world.ask(policy_command("modify", value=PARTIAL))
    return made(world, FULL)


def test_a_partial_reader_sees_what_was_granted(partial: World) -> None:
    world = partial
    seen = world.ask(command("retrieve"), READER).value
    assert seen == {
        "thingId": THING,
        "attributes": {"a": 1, "deep": {"y": "text"}},
        "features": {"f": {"properties": {"p": 5}}},
    }
    assert world.ask(command("retrieve", "/attributes/deep"), READER).value == {"y": "text"}
    assert world.ask(command("retrieve", fields="attributes/deep,policyId"), READER).value == {
        "attributes": {"deep": {"y": "text"}}
    }
    for path, code in (
        ("/attributes/deep/x", "attribute"),
        ("/features/g", "feature"),
        ("/features/g/properties", "feature.properties"),
        ("/features/f/definition", "feature.definition"),
        ("/definition", "definition"),
        ("/policyId", "thing"),
    ):
        assert world.result(command("retrieve", path), READER) == (404, f"things:{code}.notfound")


def test_a_partial_writer_writes_what_was_granted(partial: World) -> None:
    world = partial
    assert world.result(command("modify", "/attributes/a", 2), READER)[0] == 204
    assert world.result(command("modify", "/attributes/new", 2), READER)[0] == 201
    assert world.result(command("modify", "/attributes", {}), READER) == (403, "things:attributes.notmodifiable")
    assert world.result(command("delete", "/attributes"), READER) == (403, "things:attributes.notmodifiable")
    assert world.result(command("merge", "/", {"attributes": {"a": 3, "b": {"c": 4}}}), READER)[0] == 204
    patches: list[dict[str, Any]] = [
        {"attributes": {"a": 3, "deep": {"y": 1}}},
        {"attributes": {"a": 3, "deep": None}},
        {"attributes": None},
        {"definition": "d:e:f"},
        {"features": {}},
    ]
    for patch in patches:
        assert world.result(command("merge", "/", patch), READER) == (403, "things:thing.notmodifiable")


def test_events_are_trimmed_to_what_their_reader_may_read(partial: World) -> None:
    world = partial

    def heard(given: Command) -> Any:
        world.told.clear()
        world.ask(given)
        found = event_for(world.told[0], READER)
        assert event_for(world.told[0], OUTSIDER) is None
        return None if found is None else (found.path, found.value)

    assert heard(command("modify", "/attributes/a", 9)) == ("/attributes/a", 9)
    assert heard(command("modify", "/definition", "x:y:z")) is None
    deep = {"x": 1, "y": 2}
    assert heard(command("modify", "/attributes", {"a": 1, "deep": deep})) == (
        "/attributes",
        {"a": 1, "deep": {"y": 2}},
    )
    assert heard(command("modify", "/features/f/properties/q", 1)) is None
    patch = {"definition": None, "attributes": {"deep": {"x": None, "y": None}}, "features": {"f": None, "g": None}}
    assert heard(command("merge", "/", patch)) == (
        "/",
        {"attributes": {"deep": {"y": None}}, "features": {"f": None}},
    )
    assert heard(command("delete", "/attributes/deep")) == ("/attributes/deep", UNSET)
    assert heard(command("delete")) == ("/", UNSET)


# -- retrieving --------------------------------------------------------------------------------------------------------


def test_fields_choose_what_is_seen(world: World) -> None:
    made(world, FULL)
    assert world.ask(command("retrieve", fields="thingId,attributes/deep(x)")).value == {
        "thingId": THING,
        "attributes": {"deep": {"x": [1, 2]}},
    }
    assert world.ask(command("retrieve", "/attributes", fields="a,none")).value == {"a": 1}
    special: Any = world.ask(command("retrieve", fields="_revision,_created,_modified,_namespace,_policy")).value
    assert special["_revision"] == 1
    assert special["_created"] == special["_modified"] == "2023-11-14T22:13:22Z"
    assert special["_namespace"] == "ns"
    assert special["_policy"] == POLICY_DOCUMENT
    world.ask(command("modify", "/attributes/a", 2))
    special = world.ask(command("retrieve", fields="_revision,_created,_modified")).value
    assert special["_created"] < special["_modified"]
    assert special["_revision"] == 2
    assert world.ask(command("retrieve")).value == {**FULL, "attributes": {**FULL["attributes"], "a": 2}}


def test_several_things_are_those_that_may_be_read(world: World) -> None:
    made(world, FULL)
    world.ask(command("create", value={}, id="ns:mine"), OUTSIDER)
    topic = parse_topic("//things/twin/commands/retrieve")
    ids = [THING, "ns:none", "ns:mine"]
    given = parse_command(Envelope(topic, "/", {}, {"thingIds": ids}, "thingId"))
    assert isinstance(given, RetrieveSeveral)
    assert world.ask(given).value == [{"thingId": THING}]
    assert world.ask(given, OUTSIDER).value == [{"thingId": "ns:mine"}]
    assert world.ask(given).response(given).status == 200
    nothing = parse_command(Envelope(topic, "/", {}, {"thingIds": []}))
    assert world.ask(nothing).value == []


def test_an_outcome_is_a_response_with_its_tag(world: World) -> None:
    given = command("create", value=SPARSE, headers={"correlation-id": "c"})
    response = world.ask(given).response(given)
    assert response.to_json() == {
        "topic": "ns/thing/things/twin/commands/create",
        "headers": {"correlation-id": "c", "content-type": "application/json", "etag": '"rev:1"'},
        "path": "/",
        "value": SPARSE,
        "status": 201,
    }
    given = command("delete")
    assert world.ask(given).response(given).to_json() == {
        "topic": "ns/thing/things/twin/commands/delete",
        "headers": {"content-type": "application/json"},
        "path": "/",
        "status": 204,
    }
