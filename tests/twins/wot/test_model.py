"""What a model has: properties with their places, affordances, what is optional."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.wot.model import EXTENSION, ModelProperty, ThingModel

W3C = "https://www.w3.org/2022/wot/td/v1.1"


def model(**document: Any) -> ThingModel:
    return ThingModel("https://m/a", document)


def test_a_property_is_optional_if_the_model_says_so() -> None:
    made = model(properties={"x": {"type": "integer"}, "y": {}}, **{"tm:optional": ["/properties/y"]})
    assert made.properties() == {
        "x": ModelProperty(("x",), {"type": "integer"}, is_optional=False),
        "y": ModelProperty(("y",), {}, is_optional=True),
    }


def test_what_is_optional_is_told_for_each_kind_of_affordance() -> None:
    made = model(**{"tm:optional": ["/properties/x", "/actions/y", 1, None]})
    assert made.optional("properties") == {"x"}
    assert made.optional("actions") == {"y"}
    assert made.optional("events") == set()
    for nothing in ({}, {"tm:optional": "/properties/x"}, {"tm:optional": None}):
        assert model(**nothing).optional("properties") == set()


def test_an_affordance_that_is_not_an_object_is_none() -> None:
    made = model(actions={"a": {"title": "A"}, "b": 1, "c": None}, events=["e"])
    assert made.affordances("actions") == {"a": {"title": "A"}}
    assert made.affordances("events") == {}
    assert made.affordances("properties") == {}


@pytest.mark.parametrize(
    ("context", "prefix"),
    [
        ([W3C, {"other": "https://example.com/", "d": EXTENSION}], "d"),
        ({"other": "https://example.com/", "d": EXTENSION}, "d"),
        # The prefix that everybody uses, where the vocabulary is not named.
        ([W3C, {"other": "https://example.com/"}], "ditto"),
        (W3C, "ditto"),
        (None, "ditto"),
    ],
)
def test_a_category_is_one_more_level_whatever_the_prefix_of_its_vocabulary(context: Any, prefix: str) -> None:
    schemas = {"x": {f"{prefix}:category": "status"}, "y": {"category": "none", "other:category": "none"}}
    found = model(**{"@context": context, "properties": schemas}).properties()
    assert {name: each.pointer for name, each in found.items()} == {"x": ("status", "x"), "y": ("y",)}


@pytest.mark.parametrize("category", ["", 1, None, ["status"], {"a": 1}])
def test_a_category_that_is_no_name_is_none(category: Any) -> None:
    assert model(properties={"x": {"ditto:category": category}}).properties()["x"].pointer == ("x",)
