from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.ditto.answers import error_of
from penstock.doors.ditto.commands import conditions_of, moment_of
from penstock.twins.history import PastMoment
from penstock.twins.preconditions import NO_CONDITIONS, Conditions, IfEqual, Tags, Unreadable, read
from penstock.twins.reasons import TwinRefusal
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.rql import FieldExists


def test_headers_say_which_moment_is_meant() -> None:
    assert moment_of({}) is None
    assert moment_of({"at-historical-revision": "7"}) == PastMoment(revision=7)
    assert moment_of({"at-historical-revision": 7}) == PastMoment(revision=7)
    assert moment_of({"at-historical-timestamp": "1970-01-01T00:00:01Z"}) == PastMoment(before=1_000_000_000)
    assert moment_of({"at-historical-revision": 1, "at-historical-timestamp": "x"}) == PastMoment(revision=1)
    for headers in ({"at-historical-revision": "x"}, {"at-historical-timestamp": "yesterday"}):
        with pytest.raises(DittoError) as raised:
            moment_of(headers)
        assert raised.value.code == "header.invalid"


def test_headers_are_read_as_conditions() -> None:
    assert conditions_of({"correlation-id": "c"}) is NO_CONDITIONS
    found = conditions_of({"if-match": '"a", W/"b",*', "if-equal": "skip", "condition": "exists(attributes/x)"})
    assert found == Conditions(
        Tags('"a", W/"b",*', ("a",), ("b",), is_any=True), None, IfEqual.SKIP, FieldExists("attributes/x")
    )
    assert found.has_tags
    # Between quotes a star is a tag as any other.
    assert conditions_of({"if-match": '"*", W/"*", ""'}).if_match == Tags('"*", W/"*", ""', ("*", ""), ("*",))
    # A published client sends numbers, too; as a tag one is none.
    assert isinstance(conditions_of({"if-none-match": 7}).if_none_match, Unreadable)


@pytest.mark.parametrize(
    ("name", "value", "field", "code"),
    [
        ("if-match", "nonsense", "if_match", "header.invalid"),
        ("if-match", True, "if_match", "header.invalid"),
        ("if-none-match", "", "if_none_match", "header.invalid"),
        ("if-equal", "perhaps", "if_equal", "header.invalid"),
        ("condition", "eq(a", "condition", "rql.expression.invalid"),
    ],
)
def test_a_condition_that_cannot_be_read_is_kept_with_its_error(name: str, value: Any, field: str, code: str) -> None:
    found = conditions_of({name: value})
    unreadable = getattr(found, field)
    assert isinstance(unreadable, Unreadable)
    assert isinstance(unreadable.problem, DittoError)
    assert unreadable.problem.code == code
    with pytest.raises(TwinRefusal) as raised:
        read(unreadable)
    assert error_of(raised.value) is unreadable.problem
