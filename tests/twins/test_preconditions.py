from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from penstock.twins.access import Scope
from penstock.twins.preconditions import (
    Conditions,
    Current,
    Tags,
    allowed_patch,
    changes_nothing,
    check_tags,
    minimal,
    value_tag,
)
from penstock.twins.reasons import ConditionFailed, ConditionHidden, TagMismatch, TwinRefusal
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import same
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import keys_of
from penstock.wire.ditto.rql import parse_rql
from tests.twins.world import ALL, OWNER, POLICY, POLICY_DOCUMENT, READ, READER, World, command, entry, policy_command
from tests.wire.ditto.values import VALUES


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"a": 1, "b": {"c": 2}}}))
    world.told.clear()
    yield world
    world.close()


A, B = (f'"{value_tag(value)}"' for value in (1, 2))


@pytest.mark.parametrize(
    ("action", "path", "headers", "expected"),
    [
        ("modify", "/", {"if-match": '"rev:1"'}, 204),
        ("modify", "/", {"if-match": '"rev:2"'}, 412),
        ("modify", "/", {"if-match": 'W/"rev:1"'}, 412),
        ("modify", "/", {"if-match": '"rev:0", "rev:1"'}, 204),
        ("modify", "/", {"if-match": '"rev:0", *'}, 204),
        ("modify", "/", {"if-match": '"*"'}, 412),
        ("modify", "/", {"if-match": "*"}, 204),
        ("modify", "/", {"if-none-match": "*"}, 412),
        ("modify", "/", {"if-none-match": '"rev:1"'}, 412),
        ("modify", "/", {"if-none-match": 'W/"rev:1"'}, 412),
        ("modify", "/", {"if-none-match": '"rev:7"'}, 204),
        ("modify", "/", {"if-match": '"rev:1"', "if-none-match": "*"}, 412),
        ("merge", "/", {"if-match": '"rev:1"'}, 204),
        ("merge", "/", {"if-match": '"rev:3"'}, 412),
        ("delete", "/", {"if-match": '"rev:3"'}, 412),
        ("delete", "/", {"if-match": '"rev:1"'}, 204),
        ("retrieve", "/", {"if-none-match": '"rev:1"'}, 304),
        ("retrieve", "/", {"if-none-match": 'W/"rev:1"'}, 304),
        ("retrieve", "/", {"if-none-match": '"rev:9"'}, 200),
        ("retrieve", "/", {"if-match": '"rev:9"'}, 412),
        ("modify", "/attributes/a", {"if-match": A}, 204),
        ("modify", "/attributes/a", {"if-match": '"rev:1"'}, 412),
        ("modify", "/attributes/a", {"if-none-match": "*"}, 412),
        ("modify", "/attributes/new", {"if-none-match": "*"}, 201),
        ("modify", "/attributes/new", {"if-match": "*"}, 412),
        ("retrieve", "/attributes/a", {"if-none-match": A}, 304),
        ("retrieve", "/attributes/a", {"if-none-match": B}, 200),
        # Nothing is there: that is told first.
        ("delete", "/attributes/new", {"if-match": "*"}, 404),
        ("retrieve", "/attributes/new", {"if-none-match": "*"}, 404),
        ("modify", "/", {"if-match": "rev:1"}, 400),
        ("modify", "/", {"if-match": ""}, 400),
        ("retrieve", "/", {"if-none-match": '"a" "b"'}, 400),
    ],
)
def test_tags_decide_whether_a_command_is_done(
    world: World, action: str, path: str, headers: dict[str, str], expected: int
) -> None:
    value: Any = {"attributes": {}} if path == "/" else 5
    more = {"value": value} if action in ("modify", "merge") else {}
    assert world.result(command(action, path, headers=headers, **more))[0] == expected
    assert len(world.told) == (expected in (201, 204))


def test_a_thing_that_is_missing_matches_no_tag(world: World) -> None:
    for headers in ({"if-match": "*"}, {"if-match": '"rev:0"'}):
        new = command("modify", value={"policyId": POLICY}, id="ns:new", headers=headers)
        assert world.result(new) == (412, "things:precondition.failed")
    assert world.result(command("retrieve", id="ns:new", headers={"if-match": "*"}))[0] == 404
    new = command("modify", value={"policyId": POLICY}, id="ns:new", headers={"if-none-match": "*"})
    assert world.result(new) == (201, None)


def test_policies_have_tags_and_errors_of_their_own(world: World) -> None:
    assert world.ask(policy_command("retrieve")).etag == '"rev:1"'
    error = world.refused(policy_command("retrieve", headers={"if-none-match": '"rev:1"'}))
    assert (error.status, error.code) == (304, "policies:precondition.notmodified")
    error = world.refused(policy_command("modify", value=POLICY_DOCUMENT, headers={"if-match": '"rev:2"'}))
    assert (error.status, error.code) == (412, "policies:precondition.failed")
    assert "Header value: '\"rev:2\"', actual entity-tag: '\"rev:1\"'" in error.message
    entries = {"entries": POLICY_DOCUMENT["entries"]}
    new = policy_command("create", value=entries, id="ns:new", headers={"if-match": "*"})
    assert world.result(new) == (412, "policies:precondition.failed")


def test_the_answer_to_a_change_has_the_tag_that_a_reader_gets_next(world: World) -> None:
    for each in (
        command("modify", "/attributes/a", {"x": 1, "y": [2]}),
        command("modify", "/attributes/new", "text"),
        command("merge", "/attributes/b", {"d": 3}),
        command("modify", value={"attributes": {"a": {}, "b": {}, "new": 0}}),
    ):
        etag = world.ask(each).etag
        assert etag is not None
        assert world.ask(command("retrieve", each.path)).etag == etag
    assert world.ask(command("delete", "/attributes/a")).etag is None


def test_a_tag_tells_nothing_of_what_its_holder_may_not_read(world: World) -> None:
    hidden = entry("nginx:reader", **{"thing:/": READ, "thing:/attributes/b/c": {"grant": [], "revoke": ["READ"]}})
    world.ask(policy_command("modify", "/entries/READER", hidden))
    before = world.ask(command("retrieve", "/attributes/b"), READER).etag
    world.ask(command("modify", "/attributes/b/c", "secret"))
    assert world.ask(command("retrieve", "/attributes/b"), READER).etag == before
    assert world.ask(command("retrieve", "/attributes/b"), OWNER).etag != before


def test_the_order_of_keys_is_of_no_account() -> None:
    assert value_tag({"a": 1, "b": {"c": 2, "d": 3}}) == value_tag({"b": {"d": 3, "c": 2}, "a": 1})
    assert value_tag(1) != value_tag("1")
    # Those that clients have kept are still good after an update of the server.
    assert value_tag({"b": 1, "a": [None]}) == "hash:014b0861ae86ca97"
    other = Conditions(if_match=Tags(value_tag(2), (value_tag(2),)))
    with pytest.raises(TwinRefusal) as raised:
        check_tags(EntityGroup.THINGS, other, Current(True, value_tag(1)), reading=False)
    assert raised.value.reason == TagMismatch(False, False, value_tag(2), value_tag(1))


# -- if-equal ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "path", "value", "wish", "expected"),
    [
        ("modify", "/attributes/a", 1, "skip", 412),
        ("modify", "/attributes/a", 1, "update", 204),
        ("modify", "/attributes/a", 1, None, 204),
        ("modify", "/attributes/a", True, "skip", 204),
        ("modify", "/attributes/a", 1, "skip-minimizing-merge", 412),
        ("modify", "/attributes/new", 1, "skip", 201),
        ("modify", "/", {"attributes": {"b": {"c": 2}, "a": 1}}, "skip", 412),
        ("modify", "/", {"attributes": {"b": {"c": 2}}}, "skip", 204),
        ("modify", "/policyId", POLICY, "skip", 412),
        ("merge", "/", {"attributes": {"a": 1}}, "skip", 412),
        ("merge", "/", {"attributes": {"none": None}}, "skip", 412),
        ("merge", "/attributes/none", None, "skip", 412),
        ("merge", "/attributes/a", None, "skip", 204),
        ("merge", "/", {"attributes": {"a": 2}}, "skip", 204),
        ("modify", "/attributes/a", 1, "perhaps", 400),
    ],
)
def test_what_changes_nothing_can_be_skipped(
    world: World, action: str, path: str, value: Any, wish: str | None, expected: int
) -> None:
    headers = {} if wish is None else {"if-equal": wish}
    assert world.result(command(action, path, value, headers=headers))[0] == expected
    assert len(world.told) == (expected in (201, 204))


def test_a_merge_may_be_reduced_to_what_it_changes(world: World) -> None:
    patch = {"attributes": {"a": 1, "b": {"c": 3, "none": None}, "new": {"x": 1}}}
    world.ask(command("merge", "/", patch, headers={"if-equal": "skip-minimizing-merge"}))
    assert world.told[0].change.value == {"attributes": {"b": {"c": 3}, "new": {"x": 1}}}
    assert world.ask(command("retrieve", "/attributes")).value == {"a": 1, "b": {"c": 3}, "new": {"x": 1}}


@given(VALUES, VALUES)
def test_a_reduced_patch_does_what_the_patch_does(current: Any, patch: Any) -> None:
    assert same(merge(current, minimal(current, patch)), merge(current, patch))
    if patch is not None:
        assert changes_nothing(current, patch) is same(merge(current, patch), current)


# -- condition ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("eq(attributes/a,1)", 204),
        ("eq(attributes/a,2)", 412),
        ("and(exists(attributes/b/c),not(exists(attributes/z)))", 204),
        ('eq(thingId,"ns:thing")', 204),
        ("eq(_revision,1)", 204),
        ("lt(_modified,time:now)", 204),
        ("gt(_modified,time:now)", 412),
        ("gt(_modified,time:now-1h)", 204),
        ("gt(_modified,time:now+1h[d])", 204),
        ("gt(_modified,time:now-1parsec)", 400),
        ("eq(attributes/a", 400),
    ],
)
def test_a_condition_must_be_true_of_the_thing(world: World, condition: str, expected: int) -> None:
    headers = {"condition": condition}
    assert world.result(command("retrieve", headers=headers))[0] == (200 if expected == 204 else expected)
    assert world.result(command("modify", "/attributes/b/c", 1, headers=headers))[0] == expected
    assert len(world.told) == (expected == 204)


def test_a_condition_may_ask_only_what_may_be_read(world: World) -> None:
    rights = {"thing:/": ALL, "thing:/attributes/a": {"grant": [], "revoke": ["READ"]}}
    world.ask(policy_command("modify", "/entries/READER", entry("nginx:reader", **rights)))
    for condition, expected in (
        ("eq(attributes/a,1)", 412),
        ("or(eq(attributes/b/c,2),exists(attributes))", 412),
        ("eq(attributes/b/c,2)", 204),
        ("not(exists(features/*/properties))", 204),
    ):
        asked = command("modify", "/attributes/b/c", 2, headers={"condition": condition})
        assert world.result(asked, READER)[0] == expected


# -- conditions of parts -----------------------------------------------------------------------------------------------

TWIN = Twin({"thingId": "ns:t", "attributes": {"a": 1, "b": 2}}, 3, 0, 0)
PATCH: Any = {"attributes": {"a": 5, "b": 6}}


def scope(*paths: str) -> Scope:
    found = Scope()
    for path in paths:
        found.add(keys_of(path), True)
    return found


def part(condition: str, pointer: tuple[str, ...] = ("attributes", "a")) -> Conditions:
    return Conditions(parts=((pointer, parse_rql(condition)),))


def test_a_part_of_a_patch_is_left_out_if_its_condition_is_not_true() -> None:
    everything = scope("/")
    for condition in ("eq(attributes/b,2)", "eq(_revision,3)", 'eq(thingId,"ns:t")'):
        assert allowed_patch(part(condition), PATCH, TWIN, everything, 0) == PATCH
    assert allowed_patch(part("eq(attributes/b,7)"), PATCH, TWIN, everything, 0) == {"attributes": {"b": 6}}
    with pytest.raises(TwinRefusal) as refused:
        allowed_patch(part("eq(attributes/b,7)", ()), PATCH, TWIN, everything, 0)
    assert refused.value.reason == ConditionFailed()


def test_a_part_of_a_new_thing_may_have_a_condition_that_anybody_may_ask() -> None:
    left = {"attributes": {"b": 6}}
    assert allowed_patch(part("exists(attributes/a)"), PATCH, None, scope(), 0) == left
    assert allowed_patch(part("not(exists(attributes/a))"), PATCH, None, scope(), 0) == PATCH


def test_the_condition_of_a_part_may_ask_only_what_may_be_read() -> None:
    readable = scope("/attributes/a")
    assert allowed_patch(part("eq(attributes/a,1)"), PATCH, TWIN, readable, 0) == PATCH
    with pytest.raises(TwinRefusal) as refused:
        allowed_patch(part("and(eq(attributes/a,1),eq(attributes/b,2))"), PATCH, TWIN, readable, 0)
    assert refused.value.reason == ConditionHidden()
