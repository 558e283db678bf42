from __future__ import annotations

import json
import random
from collections.abc import Iterable

import pytest

from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.differences import FORMATS, DifferenceEncoder
from penstock.wire.tlcp.values import decode_values, encode_values
from penstock.wire.tlcp.version import NEWEST

Values = tuple[str | None, ...]

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen."
EDITED = TEXT.replace("bright cold", "dark warm")

DOCUMENT = json.dumps({"title": "Menu", "items": [{"name": "soup", "price": 4}, {"name": "bread", "price": 1}]})
CHANGED = DOCUMENT.replace('"price": 4', '"price": 5')

ANY = DifferenceEncoder(FORMATS, 0)


def encode_one(encoder: DifferenceEncoder, value: str | None, before: str | None, order: str, patched: bool) -> str:
    return encoder.encode((value,), (before,), (order,), int(patched))[0]


def kind(token: str) -> str:
    """The letter of a difference; nothing for a full value."""
    return token[1] if token.startswith("^") else ""


# -- the worked example of chapter 3, "with the use of diff values" ----------------------------------------------------
# The printed patch is broken over two lines by the page; a line of the protocol has no break.

SPECIFIED = [
    (
        b'20:00:33|{"text": "aa%7Cbb", "attributes": [ { "font": "courier" }, "..." ] }',
        "20:00:33",
        {"text": "aa|bb", "attributes": [{"font": "courier"}, "..."]},
    ),
    (
        b'20:00:54|^P[{"op":"replace","path":"/text","value":"aa%7Cbb%7Ccc"},'
        b'{"op":"add","path":"/attributes/1","value":"bold"}]',
        "20:00:54",
        {"text": "aa|bb|cc", "attributes": [{"font": "courier"}, "bold", "..."]},
    ),
    (b"20:04:16|", "20:04:16", {"text": "aa|bb|cc", "attributes": [{"font": "courier"}, "bold", "..."]}),
]


def test_the_patches_of_the_specification_are_decoded_as_its_tables_show() -> None:
    previous: Values | None = None
    for line, timestamp, document in SPECIFIED:
        previous = decode_values(line.decode(), previous, 2)
        assert previous[0] == timestamp
        assert json.loads(previous[1] or "") == document


def test_the_documents_of_the_specification_are_encoded_as_it_prints_them() -> None:
    # Its dots stand for "a possibly long snippet", with which alone the patch is shorter than the value.
    snippet = "..." * 50
    previous: Values | None = None
    patched = 0
    for line, timestamp, document in SPECIFIED:
        values = (timestamp, json.dumps(document).replace("...", snippet))
        body, patched = TlcpCodec(NEWEST).update_body(values, previous, ("", "PT"), patched)
        if previous is not None:
            assert body == line + b"\r\n"
        previous = values


# -- which format ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "accepted", "used"),
    [
        ("PT", "PT", "P"),
        ("TP", "PT", "T"),
        ("P", "PT", "P"),
        ("T", "PT", "T"),
        ("", "PT", ""),
        ("PT", "T", "T"),
        ("TP", "P", "P"),
        ("PT", "P", "P"),
        ("P", "T", ""),
        ("T", "P", ""),
        ("PT", "", ""),
    ],
)
def test_the_first_format_that_the_client_accepts_is_used(order: str, accepted: str, used: str) -> None:
    token = encode_one(DifferenceEncoder(accepted, 0), CHANGED, DOCUMENT, order, False)
    assert kind(token) == used
    assert json.loads(decode_values(token, (DOCUMENT,), 1)[0] or "") == json.loads(CHANGED)


def test_a_text_that_is_not_json_goes_on_to_the_next_format() -> None:
    assert kind(encode_one(ANY, EDITED, TEXT, "PT", False)) == "T"
    assert encode_one(ANY, EDITED, TEXT, "P", False) == EDITED


def test_a_text_with_a_surrogate_pair_goes_on_to_the_next_format() -> None:
    before, value = DOCUMENT.replace("soup", "𝄞"), CHANGED.replace("soup", "𝄞")
    assert kind(encode_one(ANY, value, before, "TP", False)) == "P"
    assert encode_one(ANY, value, before, "T", False) == value
    # One of the two is enough.
    assert encode_one(ANY, CHANGED, before, "T", False) == CHANGED
    assert encode_one(ANY, value, DOCUMENT, "T", False) == value


def test_a_patch_that_is_not_shorter_goes_on_to_the_next_format() -> None:
    assert kind(encode_one(ANY, '{"a": 10000}', '{"a": 20000}', "PT", False)) == "T"


def test_a_difference_that_is_not_shorter_than_the_value_is_not_used() -> None:
    assert encode_one(ANY, "[1]", "[2]", "PT", False) == "[1]"
    assert encode_one(ANY, "x" * 99, "y" * 99, "PT", False) == "x" * 99


@pytest.mark.parametrize("added", range(12))
def test_a_difference_is_used_exactly_when_it_is_shorter(added: int) -> None:
    # "^Tb", the length of what is added, the addition itself and nothing more, against the whole of it.
    before, value = "ab", "a" + "|" * added + "xyzxyz"
    token = encode_one(ANY, value, before, "T", False)
    assert len(token) <= len(encode_values((value,), None))
    assert decode_values(token, (before,), 1) == (value,)


@pytest.mark.parametrize(("least", "used"), [(0, "T"), (len(EDITED), "T"), (len(EDITED) + 1, "")])
def test_a_value_shorter_than_the_least_length_is_sent_whole(least: int, used: str) -> None:
    assert kind(encode_one(DifferenceEncoder(FORMATS, least), EDITED, TEXT, "T", False)) == used


@pytest.mark.parametrize(
    ("value", "before", "token"),
    [
        (None, TEXT, "#"),
        ("", TEXT, "$"),
        (TEXT, None, TEXT),
        (TEXT, "", TEXT),
        (None, "", "#"),
        ("", None, "$"),
        (None, None, ""),
        ("", "", ""),
        (TEXT, TEXT, ""),
    ],
)
def test_null_and_empty_values_are_never_differences(value: str | None, before: str | None, token: str) -> None:
    for order in ("PT", "TP", "P", "T"):
        assert encode_one(ANY, value, before, order, False) == token


def test_a_difference_is_escaped_like_any_value() -> None:
    before = "x" * 60
    token = encode_one(ANY, before + "|%\r\n", before, "T", False)
    assert token == "^TCie%7C%25%0D%0A"
    assert decode_values(token, (before,), 1) == (before + "|%\r\n",)


# -- fields that the client has rebuilt from a patch -------------------------------------------------------------------


def follow(updates: Iterable[str | None], order: str) -> list[str]:
    """What is sent for each of these values of one field."""
    sent: list[str] = []
    previous: Values | None = None
    patched = 0
    for value in updates:
        body, patched = TlcpCodec(NEWEST, min_length=0).update_body((value,), previous, (order,), patched)
        sent.append(body.decode().removesuffix("\r\n"))
        previous = (value,)
    return sent


def test_a_patched_field_gets_no_text_difference_until_it_was_sent_whole() -> None:
    again = CHANGED + "  "
    broken = DOCUMENT + "}"
    sent = follow([DOCUMENT, CHANGED, broken, broken + "}", DOCUMENT, CHANGED, None, TEXT, EDITED], "PT")
    assert [kind(token) for token in sent] == ["", "P", "", "T", "T", "P", "", "", "T"]
    assert sent[2] == broken
    assert kind(follow([DOCUMENT, CHANGED, again], "PT")[2]) == "P"


def test_an_unchanged_field_stays_patched() -> None:
    broken = DOCUMENT + "}"
    sent = follow([DOCUMENT, CHANGED, CHANGED, broken], "PT")
    assert [kind(token) for token in sent] == ["", "P", "", ""]
    assert sent[2:] == ["", broken]


def test_every_field_is_remembered_on_its_own() -> None:
    orders = ("PT", "T", "", "PT")
    first = (DOCUMENT, DOCUMENT, DOCUMENT, TEXT)
    second = (CHANGED, CHANGED, CHANGED, EDITED)
    text, patched = ANY.encode(second, first, orders, 0)
    assert [kind(token) for token in text.split("|")] == ["P", "T", "", "T"]
    assert patched == 0b0001
    broken = tuple(value + "}" for value in second)
    text, patched = ANY.encode(broken, second, orders, patched)
    assert [kind(token) for token in text.split("|")] == ["", "T", "", "T"]
    assert patched == 0


def test_runs_of_unchanged_fields_stand_beside_differences() -> None:
    previous = (*("x",) * 5, TEXT, *("x",) * 2)
    values = (*("x",) * 5, EDITED, *("x",) * 2)
    text, _ = ANY.encode(values, previous, ("T",) * 8, 0)
    assert text.startswith("^5|^T")
    assert text.endswith("||")
    assert decode_values(text, previous, 8) == values


@pytest.mark.parametrize("seed", range(20))
def test_a_client_that_follows_has_the_same_texts_or_the_same_documents(seed: int) -> None:
    chance = random.Random(seed)
    choices = [None, "", TEXT, EDITED, TEXT + "𝄞", DOCUMENT, CHANGED, CHANGED + "}", "|#$^%" * 20, '[1, "x"]']
    orders = ("PT", "TP", "P", "T", "")
    previous: Values | None = None
    held: Values | None = None
    patched = 0
    for _ in range(100):
        values = tuple(chance.choice(choices) for _ in orders)
        codec = TlcpCodec(NEWEST, chance.choice(["PT", "P", "T", ""]), chance.choice([0, 50]))
        body, patched = codec.update_body(values, previous, orders, patched)
        held = decode_values(body.decode().removesuffix("\r\n"), held, len(orders))
        for index, (value, has) in enumerate(zip(values, held, strict=True)):
            if patched >> index & 1:
                assert json.loads(has or "") == json.loads(value or "")
            else:
                assert has == value
        previous = values
