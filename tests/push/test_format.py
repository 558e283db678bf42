"""Notification formats: what is taken, what is refused and how, and that every payload is JSON with the right texts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.push import format as formats
from penstock.push.format import AUTO, MAX_DEPTH, MAX_LENGTH, Format
from penstock.push.refusals import PushReason, PushRefusal


def test_the_example_of_the_specification_is_filled_in_as_it_says() -> None:
    written = '{ "aps" : {\n  "alert" : "Your stock ${stock_name} is now ${last_price}"\n }\n}'
    assert formats.names(written) == ("stock_name", "last_price")
    made = Format.parse(written, 2, positions={"stock_name": 1, "last_price": 2})
    assert made.text == '{"aps":{"alert":"Your stock $[1] is now $[2]"}}'
    assert made.fill(("Anduct", "13.63"), 0) == '{"aps":{"alert":"Your stock Anduct is now 13.63"}}'
    assert not made.uses_badge


def test_what_is_stored_reads_as_the_same_format() -> None:
    made = Format.parse('{"a": ["$[1]", {"b": "x$[02]y"}], "c": 1.50, "d": null, "e": true, "é": "\\u00e9"}', 2)
    assert made.text == '{"a":["$[1]",{"b":"x$[2]y"}],"c":1.5,"d":null,"e":true,"é":"é"}'
    assert Format.parse(made.text, 2).text == made.text


def test_a_name_is_found_however_json_spells_it() -> None:
    written = '{"a": "\\u0024{pr\\u00e9cio} and ${\\"}"}'
    assert formats.names(written) == ("précio", '"')
    assert Format.parse(written, 2, positions={"précio": 1, '"': 2}).fill(("1", "2"), 0) == '{"a":"1 and 2"}'


def test_a_null_is_an_empty_text() -> None:
    assert Format.parse('{"a": "[$[1]]"}', 1).fill((None,), 0) == '{"a":"[]"}'


def test_a_value_is_text_even_if_it_looks_like_json_or_an_argument() -> None:
    value = '"},"b":"$[2] ${c}\\\n\u2028😀'
    payload = Format.parse('{"a": "$[1]", "d": "$[2]"}', 2).fill((value, "two"), 0)
    assert json.loads(payload) == {"a": value, "d": "two"}


def test_half_a_character_in_a_value_does_not_make_the_payload_unsendable() -> None:
    assert Format.parse('{"a": "$[1]"}', 1).fill(("x\ud800y",), 0).encode() == b'{"a":"x?y"}'


def test_the_badge_auto_is_the_count_as_a_number() -> None:
    made = Format.parse('{"aps": {"alert": "$[1]", "badge": "AUTO"}}', 1)
    assert made.uses_badge
    assert made.text == '{"aps":{"alert":"$[1]","badge":"AUTO"}}'
    assert made.fill(("x",), 7) == '{"aps":{"alert":"x","badge":7}}'


@pytest.mark.parametrize(
    "text",
    ['{"aps":{"badge":"auto"}}', '{"aps":{"alert":"AUTO"}}', '{"badge":"AUTO"}', '{"aps":{"x":{"badge":"AUTO"}}}'],
)
def test_auto_is_a_text_in_any_other_place(text: str) -> None:
    made = Format.parse(text, 1)
    assert not made.uses_badge
    assert made.fill(("x",), 7) == text


def test_the_provider_may_leave_out_what_it_does_not_know_and_sees_indexed_arguments_only() -> None:
    seen: list[dict[str, Any]] = []

    def check(structure: dict[str, Any]) -> dict[str, Any]:
        seen.append(structure)
        return {"aps": structure["aps"]}

    made = Format.parse('{"aps": "${a}", "other": 1}', 1, check, {"a": 1})
    assert seen == [{"aps": "$[1]", "other": 1}]
    assert made.text == '{"aps":"$[1]"}'


def test_a_format_of_which_the_provider_leaves_nothing_is_empty() -> None:
    with pytest.raises(PushRefusal, match="no member that the platform knows") as refusal:
        Format.parse('{"a": 1}', 1, lambda structure: {})
    assert refusal.value.reason is PushReason.FORMAT_EMPTY


NOT_JSON = "the notification format is not valid: "


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("", PushReason.FORMAT_EMPTY, "the notification format is empty; it must be a JSON object"),
        (" \n", PushReason.FORMAT_EMPTY, "the notification format is empty; it must be a JSON object"),
        ("{}", PushReason.FORMAT_EMPTY, "the notification format is an empty object"),
        (
            "{",
            PushReason.FORMAT_NOT_JSON,
            NOT_JSON + "Expecting property name enclosed in double quotes at character 2",
        ),
        ('{"a":1} x', PushReason.FORMAT_NOT_JSON, NOT_JSON + "Extra data at character 9"),
        ("[1]", PushReason.FORMAT_NOT_JSON, NOT_JSON + "it must be an object, such as {…}"),
        ('"text"', PushReason.FORMAT_NOT_JSON, NOT_JSON + "it must be an object, such as {…}"),
        ('{"a":NaN}', PushReason.FORMAT_NOT_JSON, NOT_JSON + "NaN is not a number in JSON"),
        ('{"a":-Infinity}', PushReason.FORMAT_NOT_JSON, NOT_JSON + "-Infinity is not a number in JSON"),
        ('{"a":1e400}', PushReason.FORMAT_NOT_JSON, NOT_JSON + "the number 1e400 is too large"),
        (
            '{"a":' + "9" * 5_000 + "}",
            PushReason.FORMAT_NOT_JSON,
            NOT_JSON + f"the number {'9' * 40}… has 5000 digits; 40 are allowed",
        ),
        ('{"a":1,"b":2,"a":3}', PushReason.FORMAT_NOT_JSON, NOT_JSON + "the member 'a' is there twice"),
        (
            '{"a":"\\ud800"}',
            PushReason.FORMAT_NOT_JSON,
            NOT_JSON + "a string has an unpaired surrogate, which UTF-8 cannot encode",
        ),
        (
            '{"a":' * 33 + "1" + "}" * 33,
            PushReason.FORMAT_NOT_JSON,
            NOT_JSON + f"it is nested more than {MAX_DEPTH} levels deep",
        ),
        ("[" * 8_000, PushReason.FORMAT_NOT_JSON, None),
        (
            '{"a":"' + "x" * 100_000 + '"}',
            PushReason.TOO_LONG,
            f"the notification format has 100008 characters; {MAX_LENGTH} are allowed",
        ),
        (
            '{"a":{"b":["x","${c}"]}}',
            PushReason.ARGUMENT,
            "notification format, /a/b/1, character 1: the name 'c' is not a field of the subscription",
        ),
        (
            '{"a":"x $[3]"}',
            PushReason.ARGUMENT,
            "notification format, /a, character 3: the index 3 is out of range; the subscription's fields are 1 to 2",
        ),
        (
            '{"a":{"$[1]":"x"}}',
            PushReason.ARGUMENT,
            "notification format, /a: the member '$[1]' has an argument in its name; arguments are allowed in values"
            " only",
        ),
    ],
)
def test_every_refusal_says_what_is_wrong_and_where(text: str, reason: PushReason, said: str | None) -> None:
    with pytest.raises(PushRefusal) as refusal:
        Format.parse(text, 2)
    assert refusal.value.reason is reason
    assert said is None or refusal.value.text == said


@pytest.mark.parametrize("text", ["", "{", '{"${a}": 1}', '{"a": "${b"}'])
def test_names_are_not_looked_for_in_what_is_no_format(text: str) -> None:
    with pytest.raises(PushRefusal):
        formats.names(text)


# -- any structure ----------------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_STRINGS = st.lists(
    st.one_of(_TEXT.filter(lambda text: "$" not in text), st.sampled_from(["$[1]", "$[2]", "$[3]", AUTO]))
)
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
)
_KEYS = st.one_of(_TEXT.filter(lambda text: "$" not in text), st.sampled_from(["aps", "badge"]))
_STRUCTURES = st.dictionaries(
    _KEYS,
    st.recursive(
        st.one_of(_LEAVES, _STRINGS.map("".join)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
        max_leaves=10,
    ),
    min_size=1,
    max_size=4,
)


def naively(node: Any, values: tuple[str | None, ...], badge: int, inside_aps: bool = False) -> Any:
    """The structure with everything replaced, one string after the other."""
    if isinstance(node, dict):
        return {
            key: badge
            if inside_aps and key == "badge" and value == AUTO
            else naively(value, values, badge, key == "aps")
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [naively(value, values, badge) for value in node]
    if isinstance(node, str):
        return re.sub(r"\$\[([123])\]", lambda match: values[int(match[1]) - 1] or "", node)
    return node


@given(_STRUCTURES, st.tuples(*[st.one_of(st.none(), _TEXT)] * 3), st.integers(0, 99))
def test_a_payload_is_the_structure_with_its_arguments_replaced(
    structure: dict[str, Any], values: tuple[str | None, ...], badge: int
) -> None:
    made = Format.parse(json.dumps(structure), 3)
    assert json.loads(made.text) == structure
    assert json.loads(made.fill(values, badge)) == naively(structure, values, badge)
