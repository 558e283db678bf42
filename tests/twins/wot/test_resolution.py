"""Models from documents, however they refer to one another."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.twins.wot.resolution import MAX_DOCUMENTS, MAX_STEPS, DocumentsNeeded, resolved

ROOT = "https://m/"


def model(**more: Any) -> dict[str, Any]:
    return {"@type": "tm:ThingModel", **more}


def extends(*names: str) -> list[dict[str, str]]:
    return [{"rel": "tm:extends", "href": name} for name in names]


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


def test_a_model_that_leads_to_itself_is_refused() -> None:
    assert "itself" in problem(a=model(links=extends("b")), b=model(links=extends("a")))
    assert "itself" in problem(a=model(properties={"x": {"tm:ref": "#/properties/x"}}))


def test_a_chain_that_is_too_long_is_refused() -> None:
    chain = {f"a{number or ''}": model(links=extends(f"a{number + 1}")) for number in range(MAX_STEPS + 2)}
    assert "extend one another" in problem(**chain)


def test_a_small_document_cannot_stand_for_a_huge_one() -> None:
    properties: dict[str, Any] = {"p0": {"type": "string"}}
    for number in range(1, 14):
        reference = {"tm:ref": f"#/properties/p{number - 1}"}
        properties[f"p{number}"] = {"properties": {str(each): reference for each in range(10)}}
    assert "values" in problem(a=model(properties=properties))


def test_too_many_documents_are_refused() -> None:
    names = {f"b{number}": model() for number in range(MAX_DOCUMENTS)}
    assert "documents" in problem(a=model(links=extends(*names, "more")), **names)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "not a JSON object"),
        ({}, "not of '@type'"),
        (model(links=[{"rel": "tm:submodel", "href": "b"}]), "instanceName"),
        (model(links=[{"rel": "tm:extends"}]), "not a text"),
        (model(properties={"x": {"tm:ref": "#/none"}}), "leads to nothing"),
        (model(properties={"x": {"tm:ref": "#/@type"}}), "does not lead to an object"),
        (model(properties={"x": {"pattern": "(a+)+b"}}), "could take long"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(document: Any, text: str) -> None:
    assert text in problem(a=document)
