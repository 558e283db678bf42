"""The patch that gives a thing another definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.twins.decision import Migrated, Result
from penstock.twins.migration import migration_patch
from penstock.twins.reasons import ModelInvalid, PlaceholderUnknown, TwinRefusal
from penstock.twins.registry import RegistrySettings
from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.twins.wot.validation import ModelRules
from penstock.wire.ditto.migration import Migration
from tests.twins.world import OWNER, World, asked_of_one, command

ROOM, SWITCH, BARE = "https://m/room", "https://m/switch", "https://m/bare"

BOOK: dict[str, ThingModel | ModelProblem] = {
    ROOM: ThingModel(
        ROOM,
        {"properties": {"name": {"default": "room"}, "size": {"default": 1, "ditto:category": "status"}}},
        submodels={"Switch": SWITCH},
    ),
    SWITCH: ThingModel(SWITCH, {"properties": {"on": {"type": "boolean"}}}),
    BARE: ThingModel(BARE, {}),
}
RULES = ModelRules(lambda definition: definition.startswith("https:"))

THING: dict[str, Any] = {
    "thingId": "ns:t",
    "attributes": {"place": "hall", "count": 3, "inside": {"a/b": [1]}, "none": None},
}


def patch(
    wanted: dict[str, Any] | None = None,
    thing: dict[str, Any] | None = None,
    *,
    definition: str = ROOM,
    is_filled: bool = False,
) -> dict[str, Any]:
    known = THING if thing is None else thing
    return migration_patch(Migration(definition, {}, is_filled=is_filled), wanted or {}, known, known, RULES, BOOK)


def test_the_thing_and_its_features_get_the_definitions_of_the_model() -> None:
    assert patch() == {"definition": ROOM, "features": {"Switch": {"definition": [SWITCH]}}}
    assert patch(definition=BARE) == {"definition": BARE}


def test_what_is_missing_is_filled_in_if_that_is_wanted() -> None:
    assert patch(is_filled=True) == {
        "definition": ROOM,
        "attributes": {"name": "room", "status": {"size": 1}},
        "features": {"Switch": {"definition": [SWITCH], "properties": {"on": False}}},
    }


def test_what_is_there_is_not_filled_in() -> None:
    thing = {
        "definition": "org:old:1",
        "attributes": {"name": "mine", "status": {"size": 7}},
        "features": {"Switch": {"definition": ["org:old:2"], "properties": {"on": True}}},
    }
    # But for definitions, which are those of the model.
    assert patch(thing=thing, is_filled=True) == {
        "definition": ROOM,
        "features": {"Switch": {"definition": [SWITCH]}},
    }
    # What is no object is not filled either.
    thing = {"attributes": {"status": 5}, "features": {"Switch": None}}
    assert patch(thing=thing, is_filled=True) == {"definition": ROOM, "attributes": {"name": "room"}}


def test_what_the_client_wants_is_laid_over_what_the_model_gives() -> None:
    wanted = {
        "attributes": {"name": None, "status": 5, "more": {"x": None}},
        "features": {"Switch": {"properties": {"level": 2}}, "Old": None},
    }
    assert patch(wanted, is_filled=True) == {
        "definition": ROOM,
        # A null stays: it deletes what the thing has.
        "attributes": {"name": None, "status": 5, "more": {"x": None}},
        "features": {"Switch": {"definition": [SWITCH], "properties": {"on": False, "level": 2}}, "Old": None},
    }
    assert patch({"attributes": {"name": {"a": 1}}}, is_filled=True)["attributes"]["name"] == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ thing-json:/attributes/place }}", "hall"),
        ("{{thing-json:attributes/place}}", "hall"),
        ("${ thing-json:/attributes/place }", "hall"),
        # By itself it is the value as it is, in a text the value as text.
        ("{{ thing-json:/attributes/count }}", 3),
        ("${thing-json:/attributes/inside}", {"a/b": [1]}),
        ("{{ thing-json:/attributes/none }}", None),
        ("{{ thing-json:/attributes/inside/a~1b }}", [1]),
        ("{{ thing-json:/attributes/place }} and ${thing-json:/attributes/count}", "hall and 3"),
        ("in {{ thing-json:/attributes/inside }}", 'in {"a/b":[1]}'),
        ("thing-json:/attributes/place", "thing-json:/attributes/place"),
        ("{{ place }}", "{{ place }}"),
        (5, 5),
    ],
)
def test_the_patch_can_have_values_of_the_thing(text: Any, value: Any) -> None:
    wanted = {"attributes": {"a": text, "b": [text, {"c": text}]}}
    assert patch(wanted)["attributes"] == {"a": value, "b": [value, {"c": value}]}


def test_only_values_that_may_be_read_can_be_in_the_patch() -> None:
    text = "{{ thing-json:/attributes/secret }}"
    whole = {"attributes": {"secret": 1, "open": 2}}
    with pytest.raises(TwinRefusal) as refused:
        migration_patch(
            Migration(BARE, {}), {"attributes": {"a": text}}, whole, {"attributes": {"open": 2}}, RULES, BOOK
        )
    assert refused.value.reason == PlaceholderUnknown(text, is_of_model=False)


@pytest.mark.parametrize("text", ["{{ thing-json:/attributes/more }}", "${ thing-json:/attributes//place }"])
@pytest.mark.parametrize("around", ["{}", "in {}"])
def test_a_value_that_is_not_there_is_refused(text: str, around: str) -> None:
    with pytest.raises(TwinRefusal) as refused:
        patch({"attributes": {"a": around.replace("{}", text)}})
    assert refused.value.reason == PlaceholderUnknown(text, is_of_model=False)


def test_a_definition_without_a_model_is_refused() -> None:
    with pytest.raises(TwinRefusal) as refused:
        patch(definition="org:model:1")
    assert isinstance(refused.value.reason, ModelInvalid)
    assert refused.value.reason.url == "org:model:1"


@pytest.fixture
def world() -> Iterator[World]:
    made = World(settings=RegistrySettings(models=replace(RULES, enforced=(), forbidden=())))
    yield made
    made.close()


@pytest.mark.parametrize("tried", [False, True])
def test_the_result_of_a_migration_is_its_patch_and_one_that_is_tried_changes_nothing(
    world: World, tried: bool
) -> None:
    world.ask(command("create", value={}))
    wish = {"thingDefinitionUrl": BARE, "migrationPayload": {"attributes": {"a": 1}}}
    migrating = asked_of_one("migrate", value=wish, headers={"dry-run": "true"} if tried else {})
    results: list[Result | TwinRefusal] = []
    world.twins.submit(replace(migrating, models=BOOK), OWNER, results.append)
    while not results:
        world.turn()
    patch = {"definition": BARE, "attributes": {"a": 1}}
    assert results == [Result(Migrated("ns:thing", patch, tried), tag=None if tried else "rev:2")]
    thing = world.twins.thing("ns:thing")
    assert thing is not None
    assert thing.document.get("attributes") == (None if tried else {"a": 1})
