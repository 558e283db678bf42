"""What new things and features are filled with."""

from __future__ import annotations

from typing import Any

from penstock.twins.wot.model import ThingModel
from penstock.twins.wot.skeleton import feature_skeleton, initial_values, thing_skeleton

ROOM, SWITCH, OTHER = "https://m/room", "https://m/switch", "https://m/other"

OPTIONAL: dict[str, Any] = {
    "properties": {"needed": {"type": "integer"}, "spare": {"type": "string"}},
    "tm:optional": ["/properties/spare"],
}


def test_a_value_has_its_place_below_its_category() -> None:
    schemas = {"x": {"ditto:category": "status", "default": 1}, "y": {"ditto:category": "status"}, "z": {"const": 2}}
    assert initial_values(ThingModel(ROOM, {"properties": schemas})) == {"status": {"x": 1, "y": None}, "z": 2}


def test_what_is_optional_is_left_out_unless_it_is_wanted() -> None:
    model = ThingModel(ROOM, OPTIONAL, submodels={"Switch": SWITCH})
    switch = ThingModel(SWITCH, OPTIONAL)
    few, all_of_them = {"needed": 0}, {"needed": 0, "spare": ""}
    assert initial_values(model) == few
    assert initial_values(model, with_optional=True) == all_of_them
    assert feature_skeleton(switch)["properties"] == few
    assert feature_skeleton(switch, with_optional=True)["properties"] == all_of_them
    for made, values in (
        (thing_skeleton(model, lambda _: switch), few),
        (thing_skeleton(model, lambda _: switch, with_optional=True), all_of_them),
    ):
        assert (made["attributes"], made["features"]["Switch"]["properties"]) == (values, values)


def test_a_thing_has_a_feature_for_each_submodel() -> None:
    known = {SWITCH: ThingModel(SWITCH, {"properties": {"on": {"type": "boolean"}}}, (f"{SWITCH}/base",))}
    room = ThingModel(ROOM, {"properties": {"name": {"const": "r"}}}, submodels={"Switch": SWITCH, "Other": OTHER})
    assert thing_skeleton(room, known.get) == {
        "definition": ROOM,
        "attributes": {"name": "r"},
        "features": {
            "Switch": {"definition": [SWITCH, f"{SWITCH}/base"], "properties": {"on": False}},
            # Its address is not that of a model.
            "Other": {"definition": [OTHER]},
        },
    }


def test_what_would_be_empty_is_left_out() -> None:
    assert feature_skeleton(ThingModel(SWITCH, {})) == {"definition": [SWITCH]}
    assert thing_skeleton(ThingModel(ROOM, {}), lambda _: None) == {"definition": ROOM}
