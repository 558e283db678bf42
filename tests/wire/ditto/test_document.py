from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from penstock.wire.ditto.document import (
    MAX_DEPTH,
    MAX_LONG,
    MIN_LONG,
    decode,
    encode,
    expect,
    expect_long,
    same,
)
from penstock.wire.ditto.errors import DittoError

from .values import VALUES


@given(VALUES)
def test_what_is_encoded_is_decoded(value: Any) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "nope", "NaN", "1e400", '{"a":1} x', "'a'", '"\\ud800"', b"\xff", b'"\xff"', '{"a":}', "[" * 100_000],
)
def test_a_text_that_is_no_json_is_error_400(text: str | bytes) -> None:
    with pytest.raises(DittoError) as caught:
        decode(text)
    assert (caught.value.status, caught.value.code) == (400, "json.invalid")
    assert caught.value.message.startswith("Failed to parse JSON string '")


@pytest.mark.parametrize("form", [str, str.encode])
def test_an_error_quotes_the_first_sixty_characters(form: Callable[[str], str | bytes]) -> None:
    for length, quoted in ((60, "x" * 60), (61, "x" * 60 + "…")):
        with pytest.raises(DittoError) as caught:
            decode(form("x" * length))
        assert caught.value.message.startswith(f"Failed to parse JSON string '{quoted}'!")


def test_as_many_levels_as_allowed_are_read_and_one_more_is_not() -> None:
    assert decode("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    with pytest.raises(DittoError, match=f"more than {MAX_DEPTH} levels"):
        decode("[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(decode("[" + ",".join(["{}"] * 1000) + "]")) == 1000


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), ("1", 1), ([1], [True]), ({"a": 1}, {"a": True}), (None, False), ([], {})]
)
def test_values_of_different_types_are_not_the_same(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert not same(other, one)


def test_a_boolean_is_no_number() -> None:
    with pytest.raises(DittoError, match="Value <true> for </demand> is not of type <Long>!"):
        expect_long(True, "/demand")
    with pytest.raises(DittoError, match="is not of type <JsonObject>!"):
        expect([], dict, "/value")


@pytest.mark.parametrize(
    ("given_value", "taken"),
    [(1, 1), (5.0, 5), (-0.0, 0), (1e30, MAX_LONG), (-1e30, MIN_LONG), (10**30, MAX_LONG), (2**63 - 1, MAX_LONG)],
)
def test_a_whole_number_is_taken_however_written_and_saturates(given_value: Any, taken: int) -> None:
    assert expect_long(given_value, "/demand") == taken


@pytest.mark.parametrize("value", [1.5, "1", None, [], {}, True])
def test_anything_else_is_no_whole_number(value: Any) -> None:
    with pytest.raises(DittoError) as caught:
        expect_long(value, "/demand")
    assert caught.value.code == "json.invalid"
