"""Models from documents, however they refer to one another."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.twins.wot.resolution import MAX_DOCUMENTS, DocumentsNeeded, resolved

ROOT = "https://m/"


def model(**more: Any) -> dict[str, Any]:
    return {"@type": "tm:ThingModel", **more}


def extends(*names: str) -> list[Any]:
    return [{"rel": "tm:extends", "href": name} for name in names]


def submodel(name: Any, href: str) -> dict[str, Any]:
    return {"rel": "tm:submodel", "href": href, "instanceName": name}


def made(**documents: Any) -> ThingModel:
    found = resolved(f"{ROOT}a", {ROOT + name: document for name, document in documents.items()})
    assert isinstance(found, ThingModel), found
    return found


def problem(**documents: Any) -> str:
    found = resolved(f"{ROOT}a", {ROOT + name: document for name, document in documents.items()})
    assert isinstance(found, ModelProblem)
    assert found.is_invalid
    return found.text


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(DocumentsNeeded) as needed:
        made(a=model(links=extends("b")))
    assert needed.value.url == f"{ROOT}b"


def test_a_model_is_on_top_of_those_that_it_extends() -> None:
    found = made(
        a=model(links=extends("b"), properties={"x": {"minimum": 1}}),
        b=model(
            links=extends("c"),
            properties={"x": {"type": "integer", "minimum": 0}},
            **{"tm:optional": ["/properties/x"]},
        ),
        c=model(properties={"y": {}}),
    )
    assert found.document["properties"] == {"x": {"type": "integer", "minimum": 1}, "y": {}}
    assert found.extends == (f"{ROOT}b", f"{ROOT}c")
    assert found.optional("properties") == {"x"}


def test_what_both_say_is_merged_if_both_are_objects() -> None:
    found = made(
        a=model(links=extends("b"), title={"de": "A"}, base="a", forms={"x": 1}),
        b=model(title={"de": "B", "en": "B"}, base={"x": 1}, forms="b", support="s"),
    )
    assert found.document == model(title={"de": "A", "en": "B"}, base="a", forms={"x": 1}, support="s", links=[])


def test_a_model_that_is_extended_twice_is_named_once() -> None:
    found = made(a=model(links=extends("b", "c")), b=model(links=extends("d")), c=model(links=extends("d")), d=model())
    assert found.extends == (f"{ROOT}b", f"{ROOT}d", f"{ROOT}c")


def test_what_is_optional_in_one_of_both_is_optional() -> None:
    found = made(
        a=model(links=extends("b"), **{"tm:optional": ["/properties/x", 5]}),
        b=model(**{"tm:optional": ["/properties/y", "/properties/x", None]}),
    )
    assert found.document["tm:optional"] == ["/properties/x", "/properties/y"]
    assert made(a=model(links=extends("b")), b=model()).document == model(links=[])


def test_submodels_are_inherited_and_other_links_are_not() -> None:
    licence = {"rel": "license", "href": "l"}
    found = made(
        a=model(links=[*extends("b"), submodel("S", "own"), "no link"]),
        b=model(links=[submodel("S", "below"), submodel("T", "t#/x"), licence, "no link", {"instanceName": "U"}]),
    )
    assert found.submodels == {"S": f"{ROOT}own", "T": f"{ROOT}t"}
    assert found.document["links"] == [submodel("S", "own"), "no link", submodel("T", "t#/x")]
    # As well where there is no other link.
    assert made(a=model(links=extends("b")), b=model(links=[submodel("T", "t")])).submodels == {"T": f"{ROOT}t"}
    assert made(a=model(links=[licence])).document["links"] == [licence]


def test_links_that_are_not_in_a_list_are_none() -> None:
    found = made(a=model(links=submodel("S", "b")))
    assert (found.submodels, found.extends) == ({}, ())


def test_a_model_can_be_of_more_than_one_type() -> None:
    assert made(a={"@type": ["saref:Lamp", "tm:ThingModel"]}).extends == ()
    for kind in (["saref:Lamp"], [], "no tm:ThingModel", None):
        assert "not of '@type'" in problem(a={"@type": kind})


def test_a_reference_is_replaced_and_its_neighbours_win() -> None:
    found = made(
        a=model(
            properties={
                "x": {"tm:ref": "b#/properties/y", "maximum": 5, "unit": None},
                "z": {"tm:ref": "#/properties/q"},
                "q": {"type": "string"},
            }
        ),
        b={"properties": {"y": {"type": "integer", "maximum": 9, "unit": "m"}}},
    )
    assert found.document["properties"]["x"] == {"type": "integer", "maximum": 5}
    assert found.document["properties"]["z"] == {"type": "string"}


def test_references_are_replaced_wherever_they_are() -> None:
    found = made(
        a=model(schemas=[{"tm:ref": "b#/x"}, 5, [{"tm:ref": "b#/y"}]]),
        b={"x": {"tm:ref": "#/y", "minimum": 1}, "y": {"type": "integer"}},
    )
    assert found.document["schemas"] == [{"type": "integer", "minimum": 1}, 5, [{"type": "integer"}]]


def test_a_model_that_leads_to_itself_is_refused() -> None:
    assert "itself" in problem(a=model(links=extends("b")), b=model(links=extends("a")))
    assert "itself" in problem(a=model(properties={"x": {"tm:ref": "#/properties/x"}}))


def test_a_chain_that_is_too_long_is_refused() -> None:
    def chain(length: int) -> dict[str, Any]:
        names = ["a", *[f"a{number}" for number in range(1, length)]]
        links = [extends(name) for name in names[1:]]
        return {name: model(links=each) for name, each in zip(names, [*links, []], strict=True)}

    assert len(made(**chain(16)).extends) == 15
    assert "extend one another" in problem(**chain(17))


def test_references_that_follow_one_another_too_often_are_refused() -> None:
    def chain(length: int) -> dict[str, Any]:
        return {str(number): {"tm:ref": f"#/chain/{number + 1}"} for number in range(length)} | {str(length): {"x": 1}}

    assert made(a=model(chain=chain(16))).document["chain"]["0"] == {"x": 1}
    assert "lead from one to the next" in problem(a=model(chain=chain(17)))


def test_a_model_has_as_many_values_as_are_allowed() -> None:
    # With the model itself, its type and the list.
    assert len(made(a=model(many=[0] * 49_997)).document["many"]) == 49_997
    assert "values" in problem(a=model(many=[0] * 49_998))


def test_a_small_document_cannot_stand_for_a_huge_one() -> None:
    properties: dict[str, Any] = {"p0": {"type": "string"}}
    for number in range(1, 14):
        reference = {"tm:ref": f"#/properties/p{number - 1}"}
        properties[f"p{number}"] = {"properties": {str(each): reference for each in range(10)}}
    assert "values" in problem(a=model(properties=properties))


def test_too_many_documents_are_refused() -> None:
    # With the model itself there are as many as are allowed.
    names = {f"b{number}": model() for number in range(63)}
    assert MAX_DOCUMENTS == 64
    assert "documents" in problem(a=model(links=extends(*names, "more")), **names)
    # One that there is still room for is asked for; with it there are enough.
    del names["b62"]
    with pytest.raises(DocumentsNeeded):
        made(a=model(links=extends(*names, "more")), **names)
    assert len(made(a=model(links=extends(*names, "more")), more=model(), **names).extends) == 63


def test_a_document_that_cannot_be_had_is_told() -> None:
    assert problem(a=model(links=extends("b")), b=ModelProblem("b", "Away.")) == "The model needs 'https://m/b': Away."


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "not a JSON object"),
        ({}, "not of '@type'"),
        (model(links=[{"rel": "tm:submodel", "href": "b"}]), "instanceName"),
        (model(links=[submodel("", "b")]), "instanceName"),
        (model(links=[submodel("a/b", "b")]), "instanceName"),
        (model(links=[submodel(5, "b")]), "instanceName"),
        (model(links=[submodel(["a"], "b")]), "instanceName"),
        (model(links=[{"rel": "tm:extends"}]), "not a text"),
        (model(properties={"x": {"tm:ref": "#/none"}}), "leads to nothing"),
        (model(properties={"x": {"tm:ref": "#/@type"}}), "does not lead to an object"),
        (model(properties={"x": {"tm:ref": "#/a//b"}}), "no JSON pointer"),
        (model(properties={"x": {"tm:ref": 5}}), "not a text"),
        (model(properties={"x": {"tm:ref": "https://[m"}}), "is not an address"),
        (model(properties={"x": {"pattern": "(a+)+b"}}), "could take long"),
        (model(properties={"x": {"oneOf": [{"properties": {"y": {"pattern": "(a+)+b"}}}]}}), "could take long"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(document: Any, text: str) -> None:
    assert text in problem(a=document)


def test_a_submodel_whose_name_is_no_text_is_refused_where_it_is_inherited_too() -> None:
    for name in ({"a": "b"}, ["a"]):
        assert "instanceName" in problem(a=model(links=extends("b")), b=model(links=[submodel(name, "c")]))


def test_a_pattern_that_is_matched_quickly_or_is_no_text_is_accepted() -> None:
    schemas = {"x": {"pattern": "^a+$"}, "y": {"pattern": 5}, "pattern": {"oneOf": [{"pattern": "b"}]}}
    assert made(a=model(properties=schemas)).document["properties"] == schemas
