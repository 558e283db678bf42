from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.tlcp.errors import ControlCode, RequestError
from penstock.wire.tlcp.values import decode_values, encode_value, encode_values

Values = tuple[str | None, ...]

# Everything UTF-8 can carry, with the characters that mean something made frequent.
TEXT = st.text(st.one_of(st.sampled_from("|#$^%,\r\n\0 0129"), st.characters(exclude_categories=["Cs"])), max_size=12)
VALUE = st.none() | TEXT
SEVERAL = st.lists(VALUE, min_size=1, max_size=40)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Values, Values]:
    """A list of values and the one before it, with long unchanged stretches as feeds have them."""
    previous = draw(SEVERAL)
    current = [draw(VALUE) if draw(st.integers(0, 3)) == 0 else before for before in previous]
    return tuple(current), tuple(previous)


# -- the worked examples of chapter 3, "Real-Time Update" --------------------------------------------------------------
# Where the printed line disagrees with the table and the prose below it, the line here follows those: the first one
# separates its two nulls ("two null fields and an empty field"), and the third ends in "$" ("it sets status field to
# its initial empty value"). The fifth keeps the printed price and change: its table shows others, the prose none.

QUOTES: list[tuple[str, Values]] = [
    (
        "20:00:33|3.04|0.0|2.41|3.67|3.03|3.04|#|#|$",
        ("20:00:33", "3.04", "0.0", "2.41", "3.67", "3.03", "3.04", None, None, ""),
    ),
    (
        "20:00:54|3.07|0.98|||3.06|3.07|||Suspended",
        ("20:00:54", "3.07", "0.98", "2.41", "3.67", "3.06", "3.07", None, None, "Suspended"),
    ),
    (
        "20:04:16|3.02|-0.65|||3.01|3.02|||$",
        ("20:04:16", "3.02", "-0.65", "2.41", "3.67", "3.01", "3.02", None, None, ""),
    ),
    (
        "20:04:40|^4|3.02|3.03|||",
        ("20:04:40", "3.02", "-0.65", "2.41", "3.67", "3.02", "3.03", None, None, ""),
    ),
    (
        "20:06:10|3.05|0.32|^7",
        ("20:06:10", "3.05", "0.32", "2.41", "3.67", "3.02", "3.03", None, None, ""),
    ),
    (
        "20:06:49|3.08|1.31|||3.08|3.09|||",
        ("20:06:49", "3.08", "1.31", "2.41", "3.67", "3.08", "3.09", None, None, ""),
    ),
]

PIPED = '{"text": "aa|bb", "attributes": [ { "font": "courier" }, "..." ] }'


def test_the_quotes_of_the_specification_are_encoded_as_it_prints_them() -> None:
    previous: Values | None = None
    for line, values in QUOTES:
        assert encode_values(values, previous) == line
        previous = values


def test_the_quotes_of_the_specification_are_decoded_as_its_tables_show() -> None:
    previous: Values | None = None
    for line, values in QUOTES:
        assert decode_values(line, previous, 10) == values
        previous = values


def test_the_text_example_of_the_specification_escapes_its_pipes_and_nothing_else() -> None:
    line = '20:00:33|{"text": "aa%7Cbb", "attributes": [ { "font": "courier" }, "..." ] }'
    assert encode_values(("20:00:33", PIPED), None) == line
    assert decode_values(line, None, 2) == ("20:00:33", PIPED)


def test_a_field_that_did_not_change_is_empty_as_in_the_last_text_example() -> None:
    assert encode_values(("20:04:16", PIPED), ("20:00:54", PIPED)) == "20:04:16|"
    assert decode_values("20:04:16|", ("20:00:54", PIPED), 2) == ("20:04:16", PIPED)


@pytest.mark.parametrize(
    ("line", "previous", "values"),
    [
        ("Anduct|11:02:33|3.11", None, ("Anduct", "11:02:33", "3.11")),
        ("|11:03:39|", ("Anduct", "11:02:33", "3.11"), ("Anduct", "11:03:39", "3.11")),
        ("|11:04:29|3.09", ("Anduct", "11:03:39", "3.11"), ("Anduct", "11:04:29", "3.09")),
        ("||14.66", ("Ations Europe", "15:55:08", "14.81"), ("Ations Europe", "15:55:08", "14.66")),
    ],
)
def test_the_updates_of_chapter_5_read_both_ways(line: str, previous: Values | None, values: Values) -> None:
    assert encode_values(values, previous) == line
    assert decode_values(line, previous, 3) == values


# -- one value ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "#"),
        ("", "$"),
        ("#", "%23"),
        ("$", "%24"),
        ("^", "%5E"),
        ("#1", "%231"),
        ("$12.50", "%2412.50"),
        ("^3", "%5E3"),
        ("^Ptest", "%5EPtest"),
        ("a#b", "a#b"),
        ("1$", "1$"),
        ("x^2", "x^2"),
        ("##", "%23#"),
        ("$|$", "%24%7C$"),
        ("%", "%25"),
        ("%41", "%2541"),
        ("100%", "100%25"),
        ("a|b", "a%7Cb"),
        ("|", "%7C"),
        ("line\r\nbreak", "line%0D%0Abreak"),
        ("\r", "%0D"),
        ("\n#", "%0A#"),
        ("a,b", "a,b"),
        (" ", " "),
        ("+", "+"),
        ("é€𝄞", "é€𝄞"),
        ("\x00\x7f\x85\u2028", "\x00\x7f\x85\u2028"),
    ],
)
def test_a_value_is_escaped_only_where_it_would_be_misread(value: str | None, text: str) -> None:
    assert encode_value(value) == text
    assert decode_values(text, None, 1) == (value,)


# -- differences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "before", "value"),
    [
        ("^P[]", "{}", "{}"),
        ('^P[{"op":"add","path":"/a","value":"x%7Cy%25"}]', "{}", '{"a":"x|y%"}'),
        ('^P[{"op":"replace","path":"","value":null}]', "[1]", "null"),
        ('^P[{"op":"add","path":"/-","value":"é𝄞"}]', "[ 1 ]", '[1,"é𝄞"]'),
        ("^Td", "abcdef", "abc"),
        ("^Ta", "abcdef", ""),
        ("^Tbcx%7Cbb", "abc", "ax|c"),
        ("^Tbb%0Aab", "abc", "a\nb"),
        ("^Tadnew", "", "new"),
    ],
)
def test_a_difference_is_applied_to_the_value_before(token: str, before: str, value: str) -> None:
    assert decode_values(f"|{token}|#", ("left", before, "right"), 3) == ("left", value, None)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [*range(1, 12), 99, 100, 101, 999, 1000])
@pytest.mark.parametrize("position", ["start", "middle", "end", "all"])
def test_a_run_is_written_with_a_caret_exactly_when_that_is_shorter(length: int, position: str) -> None:
    before = ["a"] * (position in ("middle", "end"))
    after = ["z"] * (position in ("middle", "start"))
    previous = ("x",) * (len(before) + length + len(after))
    values = (*before, *["x"] * length, *after)
    with_empties = "|".join([*before, *[""] * length, *after])
    with_caret = "|".join([*before, f"^{length}", *after])
    expected = with_caret if len(with_caret) < len(with_empties) else with_empties
    assert encode_values(values, previous) == expected
    assert decode_values(with_caret, previous, len(values)) == values
    assert decode_values(with_empties, previous, len(values)) == values


def test_two_runs_with_one_change_between_them_stay_apart() -> None:
    previous = ("x",) * 11
    values = (*("x",) * 5, "y", *("x",) * 5)
    assert encode_values(values, previous) == "^5|y|^5"


def test_null_and_empty_are_different_values() -> None:
    assert encode_values((None, ""), ("", None)) == "#|$"
    assert encode_values((None, ""), (None, "")) == "|"


# -- any values --------------------------------------------------------------------------------------------------------


@given(SEVERAL)
@example(["^4", "#", "$", "%", "|", "\r\n", None, ""])
def test_any_first_update_is_decoded_to_what_was_encoded(values: list[str | None]) -> None:
    assert decode_values(encode_values(tuple(values), None), None, len(values)) == tuple(values)


@given(changes())
def test_any_later_update_is_decoded_to_what_was_encoded(change: tuple[Values, Values]) -> None:
    values, previous = change
    assert decode_values(encode_values(values, previous), previous, len(values)) == values


@given(changes())
def test_a_value_list_is_one_line_that_names_every_field(change: tuple[Values, Values]) -> None:
    values, previous = change
    for text in (encode_values(values, previous), encode_values(values, None)):
        assert "\r" not in text
        assert "\n" not in text
        runs = [int(token[1:]) for token in text.split("|") if token.startswith("^")]
        assert len(text.split("|")) + sum(runs) - len(runs) == len(values)


def test_lists_of_different_lengths_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="2 values after 1"):
        encode_values(("a", "b"), ("a",))


# -- what is not a value list ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "previous"),
    [
        ("a", None),
        ("a|b|c|d", None),
        ("|b|c", None),
        ("^3", None),
        ("", None),
        ("^4", ("x", "y", "z")),
        ("^2|^2", ("x", "y", "z")),
        ("^0|a|b|c", ("x", "y", "z")),
        ("^03", ("x", "y", "z")),
        ("^" + "9" * 5000, ("x", "y", "z")),
        ("^\u00b3", ("x", "y", "z")),
        ("^\u0663", ("x", "y", "z")),
        ("^3x", ("x", "y", "z")),
        ("^|b|c", ("x", "y", "z")),
        ("^P[]|b|c", ("x", "y", "z")),
        ("^P[|b|c", ("{}", "y", "z")),
        ("^P|b|c", ("{}", "y", "z")),
        ("^P[%FF]|b|c", ("{}", "y", "z")),
        ("^P[]|b|c", None),
        ("^P[]|b|c", (None, "y", "z")),
        ("a|b|c|^P[]", ("{}", "y", "z")),
        ("^Tz|b|c", ("x", "y", "z")),
        ("^TB|b|c", ("x", "y", "z")),
        ("^Tb|b|c", None),
        ("^Tb|b|c", (None, "y", "z")),
        ("a|b|c|^Tb", ("x", "y", "z")),
        ("a|^Tb|c", ("x",)),
        ("^?|b|c", ("x", "y", "z")),
        ("%FF|b|c", None),
        ("%C3|b|c", None),
        ("%ED%A0%80|b|c", None),
        ("||", ("x",)),
    ],
)
def test_a_list_that_does_not_describe_all_fields_is_malformed(text: str, previous: Values | None) -> None:
    with pytest.raises(RequestError) as caught:
        decode_values(text, previous, 3)
    assert caught.value.code == ControlCode.MALFORMED


@given(st.text(max_size=30) | st.text("^|#$%0123456789ABCDEFabPT[]{}", max_size=30), st.integers(0, 5))
def test_any_text_is_a_value_list_or_malformed(text: str, count: int) -> None:
    for previous in (None, ("p",) * count):
        outcome = 0
        try:
            outcome = len(decode_values(text, previous, count))
        except RequestError as error:
            outcome = error.code
        assert outcome in (count, ControlCode.MALFORMED)
