"""What changes make of a thing, of its times and of its metadata; and changes as records have them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from penstock.twins.record import Record
from penstock.twins.twin import METADATA_HEADER, Change, Twin, after, change_of, metadata_in
from penstock.wire.ditto.kinds import Action, EntityGroup

THINGS, POLICIES = EntityGroup.THINGS, EntityGroup.POLICIES
CREATED, MODIFIED, MERGED, DELETED = Action.CREATED, Action.MODIFIED, Action.MERGED, Action.DELETED

THING: dict[str, Any] = {"thingId": "ns:t", "attributes": {"a": 1, "b": {"c": 2, "d": 3}}}
# Beside every value of the thing.
METADATA: dict[str, Any] = {"attributes": {"a": {"by": "x"}, "b": {"c": {"by": "y"}, "d": {"by": "z"}}}}
OLD = Twin(THING, 7, 100, 200, METADATA)


def changed(change: Change, twin: Twin | None = OLD) -> Twin:
    found = after(twin, change, 8, 300)
    assert found is not None
    return found


# -- what a change makes -----------------------------------------------------------------------------------------------


def test_a_new_thing_is_as_old_as_its_record() -> None:
    assert after(None, Change(CREATED, (), THING), 1, 300) == Twin(THING, 1, 300, 300, {})
    assert after(None, Change(MODIFIED, (), THING), 1, 300) == Twin(THING, 1, 300, 300, {})


def test_a_thing_keeps_the_time_when_it_was_created() -> None:
    found = changed(Change(MODIFIED, ("attributes", "a"), 5))
    assert (found.revision, found.created, found.modified) == (8, 100, 300)
    assert found.document == {"thingId": "ns:t", "attributes": {"a": 5, "b": {"c": 2, "d": 3}}}
    # The old one is as it was.
    assert OLD.document["attributes"]["a"] == 1


def test_a_patch_leaves_what_it_does_not_name_and_a_new_value_does_not() -> None:
    place, value = ("attributes", "b"), {"c": 5}
    assert changed(Change(MERGED, place, value)).document["attributes"]["b"] == {"c": 5, "d": 3}
    assert changed(Change(MODIFIED, place, value)).document["attributes"]["b"] == value
    assert changed(Change(MERGED, ("attributes",), {"b": None})).document["attributes"] == {"a": 1}
    assert changed(Change(DELETED, place)).document["attributes"] == {"a": 1}


def test_a_thing_that_is_not_there_can_only_be_made_as_a_whole() -> None:
    for change in (
        Change(MODIFIED, ("attributes",), {}),
        Change(MERGED, (), {"thingId": "ns:t"}),
        Change(MERGED, ("attributes",), {}),
        Change(DELETED, ("attributes",)),
        Change(DELETED, ()),
    ):
        assert after(None, change, 1, 300) is None


def test_a_thing_that_is_deleted_or_no_object_is_gone() -> None:
    for change in (Change(DELETED, ()), Change(MERGED, (), None), Change(MODIFIED, (), 5)):
        assert after(OLD, change, 8, 300) is None


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_metadata_of_what_is_modified_stays() -> None:
    assert changed(Change(MODIFIED, ("attributes", "a"), 5)).metadata == METADATA
    assert changed(Change(MERGED, ("attributes",), {"a": 5})).metadata == METADATA
    assert changed(Change(MERGED, ("attributes", "a"), 5)).metadata == METADATA


def test_metadata_of_what_is_deleted_is_deleted() -> None:
    rest = {"attributes": {"b": METADATA["attributes"]["b"]}}
    assert changed(Change(DELETED, ("attributes", "a"))).metadata == rest
    assert changed(Change(MERGED, ("attributes", "a"), None)).metadata == rest
    assert changed(Change(MERGED, ("attributes",), {"a": None, "b": {"c": 5}})).metadata == rest
    deeper = {"attributes": {"a": {"by": "x"}, "b": {"d": {"by": "z"}}}}
    assert changed(Change(MERGED, (), {"attributes": {"b": {"c": None}}})).metadata == deeper
    assert changed(Change(DELETED, ("attributes", "more"))).metadata == METADATA


def test_a_patch_that_deletes_where_there_is_no_metadata_makes_none() -> None:
    found = changed(Change(MERGED, ("features", "f"), {"properties": {"p": None}}))
    assert found.metadata == METADATA
    assert changed(Change(MERGED, ("attributes",), {"a": {}}), Twin(THING, 7, 100, 200)).metadata == {}


def test_metadata_that_comes_with_a_change_is_merged() -> None:
    more = Change(MODIFIED, ("attributes", "a"), 5, {"attributes": {"a": {"unit": "m", "by": None}}})
    assert changed(more).metadata["attributes"]["a"] == {"unit": "m"}
    assert changed(more).metadata["attributes"]["b"] == METADATA["attributes"]["b"]
    assert changed(more, Twin(THING, 7, 100, 200)).metadata == {"attributes": {"a": {"unit": "m"}}}
    new = Change(CREATED, (), THING, {"attributes": {"a": {"unit": "m"}}})
    assert changed(new, None).metadata == {"attributes": {"a": {"unit": "m"}}}


# -- records -----------------------------------------------------------------------------------------------------------


def record(kind: str, path: str, value: str | None, headers: str | None = None) -> Record:
    return Record(1, "DITTO/THINGS/ns:t", 1, 0, kind, path, value, headers)


@pytest.mark.parametrize(
    ("change", "path", "text"),
    [
        (Change(CREATED, (), THING), "/", '{"thingId":"ns:t","attributes":{"a":1,"b":{"c":2,"d":3}}}'),
        (Change(MODIFIED, ("attributes", "a~/b"), [1, None]), "/attributes/a~0~1b", "[1,null]"),
        (Change(MERGED, ("attributes",), None), "/attributes", "null"),
        (Change(DELETED, ("features", "f")), "/features/f", None),
    ],
)
def test_a_change_can_be_read_from_its_record(change: Change, path: str, text: str | None) -> None:
    assert (change.path, change.text) == (path, text)
    assert change_of(THINGS, record(change.kind.value, path, text)) == change


def test_a_subject_has_its_slashes_in_the_record() -> None:
    subject = Change(DELETED, ("entries", "A", "subjects", "idp:a/b"))
    assert subject.path == "/entries/A/subjects/idp:a/b"
    assert change_of(POLICIES, record("deleted", subject.path, None)) == subject
    # A feature is none.
    assert Change(DELETED, ("features", "f", "properties", "a/b")).path == "/features/f/properties/a~1b"
    assert Change(DELETED, ("entries", "a/b")).path == "/entries/a~1b"


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("other", "/", "{}"),
        ("modified", "/", "{"),
        ("modified", "/", None),
        ("deleted", "/attributes", "1"),
        ("modified", "/nowhere/at/all", "1"),
    ],
)
def test_a_record_that_has_no_change_in_it_is_none(kind: str, path: str, value: str | None) -> None:
    assert change_of(THINGS, record(kind, path, value)) is None


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (f'{{"{METADATA_HEADER}":{{"a":1}}}}', {"a": 1}),
        (f'{{"x":"{METADATA_HEADER}"}}', None),
        (f'{{"{METADATA_HEADER}":', None),
        ('{"x":1}', None),
        (None, None),
    ],
)
def test_metadata_is_read_from_the_headers(headers: str | None, found: Any) -> None:
    assert metadata_in(headers) == found
    change = change_of(THINGS, record("deleted", "/", None, headers))
    assert change is not None
    assert (change.value, change.metadata) == (UNSET, found)
