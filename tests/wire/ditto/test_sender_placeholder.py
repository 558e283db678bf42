from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.resource import Part, Resource
from penstock.wire.ditto.sender_placeholder import with_sender

ME = "nginx:me"
PLACEHOLDER = "{{ request:subjectId }}"


def entry(*names: str) -> dict[str, Any]:
    return {"subjects": {name: {"type": "x"} for name in names}, "resources": {}}


@pytest.mark.parametrize("written", [PLACEHOLDER, "{{request:subjectId}}", "${request.subjectId}"])
def test_the_sender_takes_the_place_of_the_placeholder(written: str) -> None:
    resource = Resource(Part.POLICY, ())
    policy = {"entries": {"OWNER": entry(written, "nginx:other")}, "imports": {}}
    assert with_sender(resource, policy, ME) == (
        resource,
        {"entries": {"OWNER": entry(ME, "nginx:other")}, "imports": {}},
    )


WHERE = {
    Part.ENTRIES: (("entries",), {"E": entry(PLACEHOLDER)}, {"E": entry(ME)}),
    Part.ENTRY: (("entries", "E"), entry(PLACEHOLDER), entry(ME)),
    Part.SUBJECTS: (("entries", "E", "subjects"), {PLACEHOLDER: {}}, {ME: {}}),
    Part.THING: ((), {"_policy": {"entries": {"E": entry(PLACEHOLDER)}}}, {"_policy": {"entries": {"E": entry(ME)}}}),
}


@pytest.mark.parametrize("part", WHERE)
def test_wherever_a_policy_has_subjects(part: Part) -> None:
    pointer, given, expected = WHERE[part]
    assert with_sender(Resource(part, pointer), given, ME)[1] == expected


def test_a_subject_can_be_addressed_by_it() -> None:
    resource = Resource(Part.SUBJECT, ("entries", "E", "subjects", PLACEHOLDER))
    found, value = with_sender(resource, {"type": PLACEHOLDER}, ME)
    assert found.pointer == ("entries", "E", "subjects", ME)
    assert value == {"type": PLACEHOLDER}, "values are not changed"


def test_attributes_are_not_changed() -> None:
    thing = {"attributes": {PLACEHOLDER: PLACEHOLDER}}
    assert with_sender(Resource(Part.THING, ()), thing, ME)[1] == thing


@pytest.mark.parametrize("given", [UNSET, [], "text", {"entries": []}, {"entries": {"E": []}}, {"entries": {"E": {}}}])
def test_what_has_no_subjects_stays(given: Any) -> None:
    assert with_sender(Resource(Part.POLICY, ()), given, ME)[1] == given


@pytest.mark.parametrize("name", ["{{ request:subject }}", "{{ time:now }}", "{{}}", "x:${thing.id}"])
def test_other_placeholders_are_refused(name: str) -> None:
    with pytest.raises(DittoError, match="placeholder"):
        with_sender(Resource(Part.SUBJECTS, ()), {name: {}}, ME)
