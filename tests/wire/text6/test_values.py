from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.text6.errors import BadPush
from penstock.wire.text6.values import (
    decode_values,
    encode_value,
    encode_values,
    escape,
    escape_message,
    unescape,
)

Values = tuple[str | None, ...]

# Everything that is Unicode text, with the characters that mean something made frequent.
TEXT = st.text(
    st.one_of(st.sampled_from("|#$\\u0'\",\r\n\0\x7f é€𝄞\U0010ffff"), st.characters(exclude_categories=["Cs"])),
    max_size=12,
)
VALUE = st.none() | TEXT


@st.composite
def changes(draw: st.DrawFn) -> tuple[Values, Values]:
    """A list of values and the one before it, with unchanged stretches as feeds have them."""
    previous = draw(st.lists(VALUE, min_size=1, max_size=12))
    current = [draw(VALUE) if draw(st.booleans()) else before for before in previous]
    return tuple(current), tuple(previous)


# -- the examples of 4.5.1 and chapter 5 -------------------------------------------------------------------------------

HEADLINE = "ITALY WINS SOCCER WORLD CHAMPIONSHIPS"
QUOTES: Values = ("19,6", "13:22:39", "21,9", "30000", "19,60", "19,62", "87000", "18", "20", "19", "19,1")


@pytest.mark.parametrize(
    ("text", "previous", "values"),
    [
        ("10.5|+12.5%|12:55:56", None, ("10.5", "+12.5%", "12:55:56")),
        ("10.4|+12.4%|12:57:00", ("10.5", "+12.5%", "12:55:56"), ("10.4", "+12.4%", "12:57:00")),
        (f"SPORT|{HEADLINE}|$", None, ("SPORT", HEADLINE, "")),
        (r"|ZIDANE ELECTED \u0022MVP\u0022|", ("SPORT", HEADLINE, ""), ("SPORT", 'ZIDANE ELECTED "MVP"', "")),
        (
            "19,63|13:22:40|22,0|30500|19,61|19,63|88000||||",
            QUOTES,
            ("19,63", "13:22:40", "22,0", "30500", "19,61", "19,63", "88000", *QUOTES[7:]),
        ),
        ("6,55|-8,9|13:34:59", None, ("6,55", "-8,9", "13:34:59")),
        ("15,81|-1,74|13:34:59", None, ("15,81", "-1,74", "13:34:59")),
        (
            "16,8|13:55:22|4,41|88000|16,77|16,8|52500||16,8||",
            ("16,72", "13:55:21", "3,91", "5500", "16,71", "16,72", "98000", "15", "16,72", "16", "16,1"),
            ("16,8", "13:55:22", "4,41", "88000", "16,77", "16,8", "52500", "15", "16,8", "16", "16,1"),
        ),
    ],
)
def test_the_examples_of_the_specification_read_both_ways(text: str, previous: Values | None, values: Values) -> None:
    assert encode_values(values, previous) == text
    assert decode_values(text, previous, len(values)) == values


# -- one value ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "#"),
        ("", "$"),
        ("#", "##"),
        ("$", "$$"),
        ("##", "###"),
        ("$$", "$$$"),
        ("#$", "##$"),
        ("$12.50", "$$12.50"),
        ("#1", "##1"),
        ("a#b", "a#b"),
        ("1$", "1$"),
        ("$|#", r"$$\u007C#"),
        ("|", r"\u007C"),
        ("a|b", r"a\u007Cb"),
        ("||", r"\u007C\u007C"),
        ("'", r"\u0027"),
        ('"', r"\u0022"),
        ("\\", r"\u005C"),
        (r"\u0041", r"\u005Cu0041"),
        ("\r\n", r"\u000D\u000A"),
        ("\0\t\x1f\x7f", r"\u0000\u0009\u001F\u007F"),
        ("\x80\xa0\xff", r"\u0080\u00A0\u00FF"),
        ("é€", r"\u00E9\u20AC"),
        ("\u2028\ufeff\uffff", r"\u2028\uFEFF\uFFFF"),
        ("𝄞", r"\uD834\uDD1E"),
        ("a𝄞b\U0010ffff", r"a\uD834\uDD1Eb\uDBFF\uDFFF"),
        ("#𝄞", r"##\uD834\uDD1E"),
        (" ", " "),
        ("a,b;c:d", "a,b;c:d"),
        ("EOS", "EOS"),
    ],
)
def test_a_value_is_compressed_then_escaped(value: str | None, text: str) -> None:
    assert encode_value(value) == text
    assert decode_values(text, None, 1) == (value,)


def test_of_printable_ascii_only_delimiters_quotes_and_the_backslash_are_escaped() -> None:
    printable = "".join(map(chr, range(0x20, 0x7F)))
    kept = "".join(character for character in printable if escape(character) == character)
    assert sorted(set(printable) - set(kept)) == sorted("|'\"\\")
    assert escape(kept) == kept


def test_every_other_character_of_the_first_planes_is_escaped_in_utf_16() -> None:
    for code in (*range(0x20), *range(0x7F, 0x3000), 0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x1F600, 0x10FFFF):
        units = chr(code).encode("utf-16-be")
        expected = "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
        assert escape(chr(code)) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\u00e9\u20aC", "é€"),
        (r"\ud834\udd1e", "𝄞"),
        (r"\u0041", "A"),
        (r"\u007cA\u007C", "|A|"),
        ("'\"", "'\""),
    ],
)
def test_digits_of_either_case_and_needless_escapes_are_read(text: str, value: str) -> None:
    assert decode_values(text, None, 1) == (value,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\ud800", r"\uD800"),
        ("\udc00", r"\uDC00"),
        ("a\ud834b", r"a\uD834b"),
        ("\udd1e\ud834", r"\uDD1E\uD834"),
        ("\ud834𝄞", r"\uD834\uD834\uDD1E"),
    ],
)
def test_half_of_a_surrogate_pair_is_sent_as_the_specification_allows(value: str, text: str) -> None:
    assert encode_value(value) == text
    assert decode_values(text, None, 1) == (value,)


def test_two_halves_side_by_side_are_one_character_for_every_reader() -> None:
    assert decode_values(encode_value("\ud834\udd1e"), None, 1) == ("𝄞",)


# -- lists -------------------------------------------------------------------------------------------------------------


def test_a_first_update_writes_every_field_out() -> None:
    assert encode_values(("a", None, "", "a"), None) == "a|#|$|a"


@pytest.mark.parametrize(
    ("values", "previous", "text"),
    [
        (("a",), ("a",), ""),
        ((None,), (None,), ""),
        (("",), ("",), ""),
        (("",), (None,), "$"),
        ((None,), ("",), "#"),
        (("a", "b"), ("a", "b"), "|"),
        (("x", "b", None), ("a", "b", None), "x||"),
        (("a", "b", ""), ("a", "b", None), "||$"),
    ],
)
def test_a_field_that_did_not_change_is_empty(values: Values, previous: Values, text: str) -> None:
    assert encode_values(values, previous) == text
    assert decode_values(text, previous, len(values)) == values


def test_unchanged_means_equal_not_identical() -> None:
    once, again = "".join(["ab", "cd"]), "".join(["a", "bcd"])
    assert once is not again
    assert encode_values((again, "x"), (once, "y")) == "|x"


@given(changes())
@example((("$",), ("",)))
@example((("#",), (None,)))
@example((("\\u0041|",), ("A",)))
def test_any_values_come_back_and_the_text_is_printable_ascii(change: tuple[Values, Values]) -> None:
    current, previous = change
    for before in (previous, None):
        text = encode_values(current, before)
        assert text.isascii()
        assert text.isprintable()
        assert text.count("|") == len(current) - 1
        assert decode_values(text, before, len(current)) == current


@given(st.text(st.characters() | st.sampled_from("\ud800\udfff|\\"), max_size=12))
def test_any_utf_16_text_comes_back_even_with_halves_of_pairs(text: str) -> None:
    """Equal by code units, which is all that UTF-16 knows."""
    (back,) = decode_values(encode_value(text), None, 1)
    assert back is not None
    assert back.encode("utf-16-be", "surrogatepass") == text.encode("utf-16-be", "surrogatepass")


@given(TEXT)
def test_unescaping_before_looking_at_the_first_character_gives_the_same(text: str) -> None:
    """The specification allows clients to decode in either order."""
    token = unescape(encode_value(text)) if text else "$"
    decoded = "" if token == "$" else token[1:] if token[0] in "$#" else token
    assert decoded == text


@given(TEXT)
def test_messages_are_one_line_of_ascii_that_comes_back(text: str) -> None:
    line = escape_message(text)
    assert line.isascii()
    assert line.isprintable()
    assert unescape(line) == text


def test_messages_keep_what_delimits_nothing_there() -> None:
    assert escape_message("a|b, 'c' \"d\" #$%") == "a|b, 'c' \"d\" #$%"
    assert escape_message("é\r\n\\") == r"\u00E9\u000D\u000A\u005C"


# -- what is not a value list ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "previous", "count", "complaint"),
    [
        ("a|b", None, 1, "Expected 1 values, found 2"),
        ("a", None, 2, "Expected 2 values, found 1"),
        ("a|b|", ("a", "b"), 2, "Expected 2 values, found 3"),
        ("", None, 1, "Unchanged field at value 1"),
        ("a||b", None, 3, "Unchanged field at value 2"),
        ("\\", None, 1, "character 1"),
        (r"ab\u12", None, 1, "character 3"),
        (r"\u12G4", None, 1, "character 1"),
        (r"\U00000041", None, 1, "character 1"),
        (r"\n", None, 1, "character 1"),
        (r"\u0041\\", None, 1, "character 7"),
    ],
)
def test_what_does_not_describe_the_fields_is_a_bad_line(
    text: str, previous: Values | None, count: int, complaint: str
) -> None:
    with pytest.raises(BadPush, match=complaint):
        decode_values(text, previous, count)


@given(st.text("|#$\\uD834dE01", max_size=30), st.integers(1, 4))
def test_any_text_is_values_or_a_bad_line(text: str, count: int) -> None:
    values: Values = ("",) * count
    with suppress(BadPush):
        values = decode_values(text, values, count)
    assert len(values) == count
