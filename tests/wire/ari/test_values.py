from __future__ import annotations

from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.values import (
    TokenReader,
    decode,
    encode_compatible,
    encode_modes,
    encode_smart,
    encoder,
    unescape_line,
)
from penstock.wire.ari.version import NEWEST, OLDEST, SUPPORTED, find_version

# All that Python can hold but halves of surrogate pairs, which UTF-8 cannot carry.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TRICKY = st.text(st.sampled_from("#$|%+ \r\n:,/2B5é😀\u2028a"))

# Text, compatible, smart.
ENCODINGS: list[tuple[str | None, str, str]] = [
    (None, "#", "#"),
    ("", "$", "$"),
    ("#", "%23", "%23"),
    ("$", "%24", "%24"),
    ("##", "%23%23", "##"),
    ("$1", "%241", "$1"),
    ("p w", "p+w", "p w"),
    (" ", "+", " "),
    ("a|b", "a%7Cb", "a%7Cb"),
    ("1+1=100%", "1%2B1%3D100%25", "1%2B1=100%25"),
    ("\r\n", "%0D%0A", "%0D%0A"),
    ("é😀", "%C3%A9%F0%9F%98%80", "é😀"),
    ("12:30", "12%3A30", "12:30"),
    ("%7C", "%257C", "%257C"),
]


@pytest.mark.parametrize(("text", "compatible", "smart"), ENCODINGS)
def test_text_is_encoded_in_two_ways_and_decoded_in_one(text: str | None, compatible: str, smart: str) -> None:
    assert encode_compatible(text) == compatible
    assert encode_smart(text) == smart
    assert decode(compatible) == decode(smart) == text


@given(st.none() | TEXT | TRICKY)
def test_any_text_comes_back_from_both_encodings(text: str | None) -> None:
    for encode in (encode_compatible, encode_smart):
        token = encode(text)
        assert token
        assert not set(token) & set("|\r\n")
        assert decode(token) == text
    assert encode_compatible(text).isascii()


@given(TEXT | TRICKY)
def test_an_escape_may_be_written_in_small_letters(text: str) -> None:
    token = "".join([f"%{byte:02x}" for byte in text.encode()])
    assert decode(token or "$") == text


@given(st.text("%aB2:+ 5", min_size=1))
def test_what_is_decoded_without_complaint_is_what_everybody_decodes(token: str) -> None:
    try:
        text = decode(token)
    except ValueError:
        return
    assert text == unquote_plus(token, errors="strict")


@given(st.text("%aB23A4F7CE5:+ |é#$"))
def test_a_line_decoded_at_once_is_its_tokens_decoded_one_by_one(line: str) -> None:
    whole = unescape_line(line)
    if whole is None:
        return
    tokens, raw = whole.split("|"), line.split("|")
    assert len(tokens) == len(raw)
    for token, each in zip(tokens, raw, strict=True):
        # Null, empty and nothing at all are left to the caller.
        assert token == (each if each in ("#", "$", "") else decode(each))


@pytest.mark.parametrize("escape", ["%7C", "%7c", "%23", "%24", "%zz", "%", "%C3"])
def test_a_line_with_escapes_that_would_be_misunderstood_is_not_decoded_at_once(escape: str) -> None:
    assert unescape_line(f"a|b+%3A|{escape}|c") is None


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "empty"),
        ("a%", "the percent sign at character 2 is not followed by two hexadecimal digits"),
        ("%2", "the percent sign at character 1 is not followed by two hexadecimal digits"),
        ("%20%zz", "the percent sign at character 4 is not followed by two hexadecimal digits"),
        ("%+1", "the percent sign at character 1 is not followed by two hexadecimal digits"),
        ("%C3", "the escapes are not valid UTF-8"),
        ("%ED%A0%80", "the escapes are not valid UTF-8"),
        ("%C3é", "the escapes are not valid UTF-8"),
    ],
)
def test_a_bad_escape_is_told_and_not_guessed_at(token: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        decode(token)


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert encode_compatible("a\ud800") == "a%3F"


def test_the_encoding_goes_with_the_version() -> None:
    assert [encoder(version) for version in SUPPORTED] == [
        encode_compatible,
        encode_compatible,
        encode_smart,
        encode_smart,
    ]
    assert [version.has_close_packet for version in SUPPORTED] == [False, True, True, True]


def test_a_version_is_found_by_its_name() -> None:
    assert find_version("1.8.2") == OLDEST
    assert find_version("1.9.1") == NEWEST
    for name in ("", "1.8.0", "1.8.1", "1.9.2", "1.9", "2.0.0", "1.9.1 "):
        assert find_version(name) is None


# -- typed tokens ------------------------------------------------------------------------------------------------------


def tokens(text: str) -> TokenReader:
    return TokenReader(["id", "XYZ", *text.split("|")], "XYZ", "id")


def test_every_type_is_read() -> None:
    reader = tokens("S|a+b|S|#|B|1|B|0|I|-5|L|9223372036854775807|D|1e-07|M|RMDC|M|#|M|$|F|JM|F|#|F|$|Y|aOk=|Y|")
    assert reader.text() == "a b"
    assert reader.text() is None
    assert reader.boolean() is True
    assert reader.boolean() is False
    assert reader.integer() == -5
    assert reader.integer("L") == 2**63 - 1
    assert reader.double() == 1e-07
    assert reader.modes() == ("RAW", "MERGE", "DISTINCT", "COMMAND")
    assert reader.modes() == reader.modes() == ()
    assert reader.differences() == "JM"
    assert reader.differences() is None
    assert reader.differences() == ""
    assert reader.field_value() == "hé"
    assert reader.field_value() == ""
    reader.end()


@pytest.mark.parametrize("number", ["0", "0.0", "-1", "12.5", "1e-07", "1.0E10", "1e+21", "0012.50"])
def test_decimal_numbers_of_all_languages_are_read(number: str) -> None:
    assert tokens(f"D|{number}").double() == float(number)


# The reading, the tokens, the position and what is said.
BAD_TOKENS: list[tuple[str, str, int, str]] = [
    ("text", "I|5", 3, "expected type S"),
    ("text", "S", 4, "missing"),
    ("text", "S|", 4, "empty"),
    ("text", "S|%f", 4, "the percent sign at character 1 is not followed by two hexadecimal digits"),
    ("name", "S|#", 4, "null or empty, expected a name"),
    ("name", "S|$", 4, "null or empty, expected a name"),
    ("boolean", "B|2", 4, "expected 0 or 1"),
    ("boolean", "B|true", 4, "expected 0 or 1"),
    ("integer", "I|", 4, "expected an integer"),
    ("integer", "I|#", 4, "expected an integer"),
    ("integer", "I|5.0", 4, "expected an integer"),
    ("integer", "I|\u0665", 4, "expected an integer"),
    ("integer", "I|" + "9" * 5_000, 4, "expected an integer"),
    ("integer", "L|5", 3, "expected type I"),
    ("double", "D|", 4, "expected a decimal number"),
    ("double", "D|#", 4, "expected a decimal number"),
    ("double", "D|inf", 4, "expected a decimal number"),
    ("double", "D|Infinity", 4, "expected a decimal number"),
    ("double", "D|nan", 4, "expected a decimal number"),
    ("double", "D|1e999", 4, "expected a decimal number"),
    ("double", "D|1,5", 4, "expected a decimal number"),
    ("double", "D|1_0", 4, "expected a decimal number"),
    ("modes", "M|", 4, "expected some of the letters R, M, D and C, each once"),
    ("modes", "M|MX", 4, "expected some of the letters R, M, D and C, each once"),
    ("modes", "M|MM", 4, "expected some of the letters R, M, D and C, each once"),
    ("differences", "F|", 4, "expected some of the letters J and M, each once"),
    ("differences", "F|P", 4, "expected some of the letters J and M, each once"),
    ("differences", "F|JJ", 4, "expected some of the letters J and M, each once"),
    ("field_value", "Y|a", 4, "expected Base64"),
    ("field_value", "Y|aOk=\u00e9", 4, "expected Base64"),
    ("field_value", "Y|$", 4, "expected Base64"),
    ("field_value", "Y", 4, "missing"),
    ("field_value", "Z|x", 3, "expected type S"),
    ("void", "S|x", 3, "expected type V"),
    ("void", "V|x", 4, "unexpected, the packet should have ended"),
]


@pytest.mark.parametrize(("reading", "text", "position", "message"), BAD_TOKENS)
def test_a_bad_token_is_told_with_its_place(reading: str, text: str, position: int, message: str) -> None:
    with pytest.raises(BadPacket) as caught:
        getattr(tokens(text), reading)()
    assert str(caught.value) == f"XYZ, token {position}: {message}"
    assert (caught.value.method, caught.value.position, caught.value.request) == ("XYZ", position, "id")


def test_modes_are_written_by_their_letters() -> None:
    assert encode_modes(("MERGE", "COMMAND")) == "MC"
    assert encode_modes(()) == "$"
