"""Things and features that fit their models, and what is said of those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.reasons import (
    ModelInvalid,
    ModelNotAccessible,
    ModelsNeeded,
    NotAsModelled,
    TwinReason,
    TwinRefusal,
)
from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.twins.wot.validation import PLACEHOLDERS, Aspect, ModelRules

ROOM, SWITCH, OTHER = "https://m/room", "https://m/switch", "https://m/other"

# One property at the top, one in a category, one that may be missing; of a room and of its switch alike.
SCHEMAS: dict[str, Any] = {
    "properties": {
        "size": {"type": "integer"},
        "color": {"type": "string", "ditto:category": "status"},
        "spare": {"type": "integer"},
    },
    "tm:optional": ["/properties/spare"],
}
BOOK: dict[str, ThingModel | ModelProblem] = {
    ROOM: ThingModel(ROOM, SCHEMAS, submodels={"Switch": SWITCH}),
    SWITCH: ThingModel(SWITCH, SCHEMAS, (f"{SWITCH}/base",)),
    OTHER: ThingModel(OTHER, {}),
}
ASPECTS = tuple(Aspect)
VALUES: dict[str, Any] = {"size": 1, "status": {"color": "red"}}


def is_address(definition: str) -> bool:
    return definition.startswith("https:")


RULES = ModelRules(is_address)


def all_but(aspect: Aspect) -> tuple[Aspect, ...]:
    return tuple(each for each in ASPECTS if each is not aspect)


def feature(**more: Any) -> dict[str, Any]:
    return {"definition": [SWITCH], "properties": VALUES, **more}


def thing(**more: Any) -> dict[str, Any]:
    """A thing as its model wants it, but for what is given."""
    return {"definition": ROOM, "attributes": VALUES, "features": {"Switch": feature()}, **more}


def with_feature(**more: Any) -> dict[str, Any]:
    return thing(features={"Switch": feature(**more)})


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in document.items() if each != name}


def wrong(before: dict[str, Any] | None, after: dict[str, Any], rules: ModelRules = RULES) -> NotAsModelled | None:
    """What is wrong with a change; None if nothing is."""
    try:
        rules.check(before, after, BOOK)
    except TwinRefusal as refusal:
        if not isinstance(refusal.reason, NotAsModelled):
            raise
        return refusal.reason
    return None


def reason(rules: ModelRules, definition: Any, book: dict[str, ThingModel | ModelProblem]) -> TwinReason:
    with pytest.raises(TwinRefusal) as refused:
        rules.model(definition, book)
    return refused.value.reason


# -- models ------------------------------------------------------------------------------------------------------------


def test_a_definition_has_a_model_if_the_rules_say_so() -> None:
    assert RULES.model(ROOM, BOOK) is BOOK[ROOM]
    for none in ("org:model:1", None, 5):
        assert RULES.model(none, BOOK) is None
    assert ModelRules().model(ROOM, {}) is None


def test_a_model_that_is_not_known_is_asked_for() -> None:
    assert reason(RULES, ROOM, {}) == ModelsNeeded((ROOM,))


def test_what_is_wrong_with_a_model_is_told() -> None:
    away, bad = ModelProblem(OTHER, "away"), ModelProblem(OTHER, "bad", is_invalid=True)
    assert reason(RULES, ROOM, {ROOM: away}) == ModelNotAccessible(OTHER, "away")
    assert reason(RULES, ROOM, {ROOM: bad}) == ModelInvalid(OTHER, "bad")


# -- new things and features -------------------------------------------------------------------------------------------


def test_a_new_thing_is_filled_and_what_it_has_wins() -> None:
    filled = RULES.filled_thing({"thingId": "ns:t", "attributes": {"size": 7}, "definition": ROOM}, BOOK)
    values = {"size": 0, "status": {"color": ""}}
    assert filled == {
        "thingId": "ns:t",
        "attributes": {"size": 7, "status": {"color": ""}},
        "definition": ROOM,
        "features": {"Switch": {"definition": [SWITCH, f"{SWITCH}/base"], "properties": values}},
    }
    # What was given comes first, in its order.
    assert list(filled) == ["thingId", "attributes", "definition", "features"]


def test_a_new_feature_is_filled_and_keeps_its_definition() -> None:
    given = {"properties": {"size": 7}, "definition": [SWITCH, "org:other:1"]}
    filled = RULES.filled_feature(given, BOOK)
    assert filled == {
        "properties": {"size": 7, "status": {"color": ""}},
        "definition": [SWITCH, "org:other:1"],
    }
    assert list(filled) == ["properties", "definition"]


def test_what_is_optional_is_filled_in_if_it_is_wanted() -> None:
    rules = ModelRules(is_address, fills_optional=True)
    filled = rules.filled_thing({"definition": ROOM}, BOOK)
    assert filled["attributes"]["spare"] == filled["features"]["Switch"]["properties"]["spare"] == 0
    assert rules.filled_feature({"definition": [SWITCH]}, BOOK)["properties"]["spare"] == 0
    assert "spare" not in RULES.filled_thing({"definition": ROOM}, BOOK)["attributes"]
    assert "spare" not in RULES.filled_feature({"definition": [SWITCH]}, BOOK)["properties"]


def test_what_has_no_model_is_not_filled() -> None:
    for definition in ("org:model:1", None):
        document = {"definition": definition, "attributes": {"a": 1}}
        assert RULES.filled_thing(document, BOOK) == document
    for given in (None, {}, {"definition": None}, {"definition": ["org:model:1"]}, {"properties": {"a": 1}}):
        assert RULES.filled_feature(given, BOOK) == given
    assert RULES.skeleton("org:model:1", BOOK) is None


def test_nothing_is_filled_if_that_is_not_wanted() -> None:
    rules = ModelRules(is_address, is_filled=False)
    # The model is not even asked for.
    assert rules.filled_thing({"definition": ROOM}, {}) == {"definition": ROOM}
    assert rules.filled_feature({"definition": [SWITCH]}, {}) == {"definition": [SWITCH]}


def test_the_models_of_all_features_are_asked_for_at_once() -> None:
    submodels = {"A": SWITCH, "B": OTHER, "C": f"{OTHER}/2", "D": OTHER, "E": "org:model:1"}
    book: dict[str, ThingModel | ModelProblem] = {ROOM: ThingModel(ROOM, {}, submodels=submodels), SWITCH: BOOK[SWITCH]}
    with pytest.raises(TwinRefusal) as refused:
        RULES.skeleton(ROOM, book)
    assert refused.value.reason == ModelsNeeded((OTHER, f"{OTHER}/2"))


# -- changes -----------------------------------------------------------------------------------------------------------


def test_a_thing_as_its_model_wants_it_is_accepted() -> None:
    assert wrong(None, thing()) is None
    assert wrong(thing(), thing()) is None
    assert wrong(thing(), with_feature(properties={**VALUES, "size": 2})) is None
    assert wrong(None, thing(attributes={**VALUES, "spare": 1})) is None


def test_a_thing_without_a_model_is_as_it_likes() -> None:
    free = {"definition": "org:model:1", "attributes": {"a": 1}, "features": {"F": {"properties": {"b": 1}}, "G": None}}
    assert wrong(None, free) is None
    assert wrong(free, {"attributes": {"a": 2}}) is None
    assert wrong(None, {}) is None


def test_a_thing_without_what_its_model_requires_is_refused() -> None:
    assert wrong(None, thing(attributes={"status": {}})) == NotAsModelled(
        "Required JSON fields were missing from the Thing's attributes",
        (
            ("/attributes/size", ("Thing's attribute <size> is non optional and must be provided",)),
            ("/attributes/status/color", ("Thing's attribute <status/color> is non optional and must be provided",)),
        ),
    )
    assert wrong(None, with_feature(properties={"size": 1})) == NotAsModelled(
        "Required JSON fields were missing from the Feature <Switch>'s properties",
        (
            (
                "/features/Switch/properties/status/color",
                ("Feature <Switch>'s property <status/color> is non optional and must be provided",),
            ),
        ),
    )
    assert wrong(None, without(thing(), "attributes")) is not None
    assert wrong(None, thing(features={"Switch": without(feature(), "properties")})) is not None


def test_desired_properties_are_never_required_but_must_fit() -> None:
    assert wrong(None, with_feature(desiredProperties={"size": 1})) is None
    assert wrong(None, with_feature(desiredProperties={"size": "x"})) == NotAsModelled(
        "The Feature <Switch>'s desired property </size> contained validation errors, check the validation details.",
        (("/features/Switch/desiredProperties/size", (": {type=string found, integer expected}",)),),
    )
    assert wrong(None, with_feature(desiredProperties={"more": 1})) == NotAsModelled(
        "The Feature <Switch>'s desired properties contained JSON fields which were not defined in the model: [more]"
    )


def test_values_that_do_not_fit_are_refused_all_at_once() -> None:
    assert wrong(None, thing(attributes={**VALUES, "size": "x"})) == NotAsModelled(
        "The Thing's attribute </size> contained validation errors, check the validation details.",
        (("/attributes/size", (": {type=string found, integer expected}",)),),
    )
    assert wrong(None, thing(attributes={"size": 1, "status": {"color": 2}, "spare": None})) == NotAsModelled(
        "The Thing's attributes contained validation errors, check the validation details.",
        (
            ("/attributes/status/color", (": {type=integer found, string expected}",)),
            ("/attributes/spare", (": {type=null found, integer expected}",)),
        ),
    )


def test_what_no_model_knows_is_refused() -> None:
    assert wrong(None, thing(attributes={**VALUES, "more": 1, "status": {"color": "", "most": 2}})) == NotAsModelled(
        "The Thing's attributes contained JSON fields which were not defined in the model: [status/most, more]"
    )
    assert wrong(None, with_feature(properties={**VALUES, "more": {"a": 1}})) == NotAsModelled(
        "The Feature <Switch>'s properties contained JSON fields which were not defined in the model: [more]"
    )
    # Not an object, in which there could be what is known.
    only = ModelRules(is_address, enforced=())
    assert wrong(None, thing(attributes={"status": 1}), only) == NotAsModelled(
        "The Thing's attributes contained JSON fields which were not defined in the model: [status]"
    )


def test_a_value_that_is_an_object_has_in_it_what_its_schema_allows() -> None:
    book = {ROOM: ThingModel(ROOM, {"properties": {"size": {"type": "object"}}})}
    RULES.check(None, {"definition": ROOM, "attributes": {"size": {"height": 1, "width": 2}}}, book)


def test_values_for_placeholders_are_always_allowed() -> None:
    values = {**VALUES, PLACEHOLDERS: {"NAME": "x"}}
    assert wrong(None, thing(attributes=values)) is None
    assert wrong(None, with_feature(properties=values)) is None
    assert wrong(None, thing(attributes={**VALUES, "status": {"color": "", PLACEHOLDERS: {}}})) is not None


def test_a_thing_has_the_features_of_its_model_and_no_others() -> None:
    assert wrong(None, thing(features={})) == NotAsModelled(
        "Attempting to update the Thing with missing in the model defined features: [Switch]"
    )
    assert wrong(None, thing(features={"Switch": feature(), "A": {}, "B": {}})) == NotAsModelled(
        "Attempting to update the Thing with feature(s) which were not defined in the model: [A, B]"
    )


def test_a_feature_has_its_model_whatever_its_thing_has() -> None:
    assert wrong(None, {"features": {"F": feature()}}) is None
    told = wrong({}, {"features": {"F": feature(properties={})}})
    assert told is not None
    assert "Feature <F>'s properties" in told.text
    # The first of its definitions counts.
    assert wrong(None, {"features": {"F": {"definition": ["org:model:1", SWITCH]}}}) is None


# -- of a thing that was wrong before, what is changed counts ----------------------------------------------------------


BROKEN = thing(attributes={"size": "x", "more": 1}, features={"Other": {"properties": {"a": 1}}})


def test_a_thing_that_was_wrong_before_can_be_mended_part_by_part() -> None:
    mended = thing(attributes={"size": 2, "more": 1}, features=BROKEN["features"])
    assert wrong(BROKEN, mended) is None
    assert wrong(BROKEN, {**BROKEN, "attributes": {"size": "x", "spare": 1, "more": 1}}) is None
    assert wrong(BROKEN, {**BROKEN, "attributes": {"size": "y", "more": 1}}) is not None
    assert wrong(BROKEN, {**BROKEN, "attributes": {"size": "x", "more": 2}}) is not None
    assert wrong(BROKEN, {**BROKEN, "attributes": {"more": 1}}) is not None
    assert wrong(BROKEN, {**BROKEN, "attributes": {"size": "x"}}) is None


def test_what_is_there_cannot_become_wrong() -> None:
    assert wrong(thing(), thing(attributes={"size": 1})) is not None
    assert wrong(thing(), thing(attributes={**VALUES, "size": "x"})) is not None
    assert wrong(thing(), thing(attributes={**VALUES, "spare": "x"})) is not None
    assert wrong(thing(), thing(features={})) is not None
    assert wrong(thing(), thing(features={"Switch": feature(), "More": {}})) is not None


def test_features_that_were_missing_or_too_many_before_may_stay_so() -> None:
    assert wrong(BROKEN, {**BROKEN, "attributes": {**BROKEN["attributes"], "size": 1}}) is None
    assert wrong(BROKEN, {**BROKEN, "features": {"Other": {"properties": {"a": 2}}}}) is None
    told = wrong(BROKEN, {**BROKEN, "features": {**BROKEN["features"], "More": {}}})
    assert told is not None
    assert "[More]" in told.text


def test_a_feature_that_was_wrong_before_can_be_mended_part_by_part() -> None:
    broken = with_feature(properties={"size": "x", "more": 1})
    assert wrong(broken, {**broken, "attributes": {**VALUES, "size": 2}}) is None
    assert wrong(broken, with_feature(properties={"size": 1, "more": 1})) is None
    assert wrong(broken, with_feature(properties={"size": "y", "more": 1})) is not None
    assert wrong(broken, with_feature(properties={"size": "x", "more": 1, "spare": "x"})) is not None


def test_a_thing_with_another_definition_is_checked_as_a_whole() -> None:
    assert wrong({**BROKEN, "definition": OTHER}, BROKEN) is not None
    assert wrong(without(BROKEN, "definition"), BROKEN) is not None
    assert wrong(BROKEN, BROKEN) is None
    lenient = ModelRules(is_address, enforced=all_but(Aspect.DEFINITIONS))
    assert wrong({**BROKEN, "definition": OTHER}, BROKEN, lenient) is None


def test_a_feature_with_another_definition_is_checked_as_a_whole() -> None:
    broken = {"size": "x"}
    after = with_feature(properties=broken)
    lenient = ModelRules(is_address, enforced=all_but(Aspect.DEFINITIONS))
    for definition in ([OTHER], None):
        before = with_feature(properties=broken, definition=definition)
        assert wrong(before, after) is not None
        assert wrong(before, after, lenient) is None
    # A new one has nothing that was wrong before.
    assert wrong(thing(features={}), after, lenient) is not None


def test_a_definition_that_names_a_model_is_not_deleted() -> None:
    assert wrong(thing(), without(thing(), "definition")) == NotAsModelled(
        "The Thing's definition must not be deleted, because it names a model."
    )
    assert wrong(thing(), thing(features={"Switch": without(feature(), "definition")})) == NotAsModelled(
        "The definition of Feature <Switch> must not be deleted, because it names a model."
    )
    # One that names none may go, and one may take the place of another.
    assert wrong({"definition": "org:model:1"}, {}) is None
    assert wrong({"definition": ROOM}, {"definition": "org:model:1"}) is None
    assert wrong({"features": {"F": {"definition": ["org:model:1"]}}}, {"features": {"F": {}}}) is None
    lenient = ModelRules(is_address, forbidden=all_but(Aspect.DEFINITIONS))
    assert wrong(thing(), without(thing(), "definition"), lenient) is None


# -- rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aspect", "after"),
    [
        (Aspect.ATTRIBUTES, thing(attributes={})),
        (Aspect.ATTRIBUTES, thing(attributes={**VALUES, "size": "x"})),
        (Aspect.PROPERTIES, with_feature(properties={})),
        (Aspect.PROPERTIES, with_feature(properties={**VALUES, "size": "x"})),
        (Aspect.DESIRED_PROPERTIES, with_feature(desiredProperties={"size": "x"})),
        (Aspect.FEATURES, thing(features={})),
    ],
)
def test_an_aspect_must_be_as_the_model_says_only_if_it_is_enforced(aspect: Aspect, after: dict[str, Any]) -> None:
    assert wrong(None, after, ModelRules(is_address, enforced=(aspect,), forbidden=())) is not None
    assert wrong(None, after, ModelRules(is_address, enforced=all_but(aspect))) is None


@pytest.mark.parametrize(
    ("aspect", "after"),
    [
        (Aspect.ATTRIBUTES, thing(attributes={**VALUES, "more": 1})),
        (Aspect.PROPERTIES, with_feature(properties={**VALUES, "more": 1})),
        (Aspect.DESIRED_PROPERTIES, with_feature(desiredProperties={"more": 1})),
        (Aspect.FEATURES, thing(features={"Switch": feature(), "More": {}})),
    ],
)
def test_what_no_model_knows_is_refused_only_where_it_is_forbidden(aspect: Aspect, after: dict[str, Any]) -> None:
    assert wrong(None, after, ModelRules(is_address, enforced=(), forbidden=(aspect,))) is not None
    assert wrong(None, after, ModelRules(is_address, forbidden=all_but(aspect))) is None


def test_without_aspects_no_model_is_asked_for() -> None:
    ModelRules(is_address, enforced=(), forbidden=()).check(None, thing(), {})
    for rules in (ModelRules(is_address, enforced=()), ModelRules(is_address, forbidden=())):
        with pytest.raises(TwinRefusal) as refused:
            rules.check(None, thing(), {})
        assert refused.value.reason == ModelsNeeded((ROOM,))


def test_the_model_of_a_feature_that_is_not_changed_is_not_asked_for() -> None:
    before = {"features": {"F": feature(), "G": {}}}
    RULES.check(before, {"features": {"F": feature(), "G": {"properties": {"a": 1}}}}, {})
