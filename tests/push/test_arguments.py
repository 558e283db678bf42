"""Arguments: what is one, what is refused, and that converted texts mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.push import arguments
from penstock.push.refusals import PushReason, PushRefusal


def test_names_are_found_once_each_in_their_order() -> None:
    assert arguments.names("${b} and ${a} and $[3] and ${b}, $5 and {c}") == ("b", "a")


def test_names_become_indexes_and_indexes_stay() -> None:
    text = "Double.parseDouble(${stock_price}) > Double.parseDouble($[1])"
    assert arguments.names(text) == ("stock_price",)
    assert arguments.convert(text, {"stock_price": 3}, 3) == "Double.parseDouble($[3]) > Double.parseDouble($[1])"


def test_an_index_is_written_in_one_way_only_so_that_equal_triggers_coalesce() -> None:
    assert arguments.convert("$[01]", {}, 1) == "$[1]"


@pytest.mark.parametrize("text", ["", "$", "$$", "5 $ or $5", "{a} [1]", "$ {a}", "}]"])
def test_a_dollar_sign_without_bracket_is_text(text: str) -> None:
    assert arguments.names(text) == ()
    assert arguments.convert(text, {}, 1) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ab ${name", "character 4: a named argument begins with ${ and has no closing }"),
        ("${}", "character 1: a named argument has no name; write ${field}"),
        ("${other}", "character 1: the name 'other' is not a field of the subscription"),
        ("${" + "x" * 50 + "}", "character 1: the name '" + "x" * 40 + "'… is not a field of the subscription"),
        ("x$[1", "character 2: an indexed argument begins with $[ and has no closing ]"),
        ("$[]", "character 1: the index '' is not a whole number; write $[1] for the first field"),
        ("$[one]", "character 1: the index 'one' is not a whole number; write $[1] for the first field"),
        ("$[-1]", "character 1: the index '-1' is not a whole number; write $[1] for the first field"),
        ("$[١]", "character 1: the index '١' is not a whole number; write $[1] for the first field"),
        ("$[0]", "character 1: the index 0 is out of range; the subscription's fields are 1 to 2"),
        ("$[1]$[3]", "character 5: the index 3 is out of range; the subscription's fields are 1 to 2"),
        ("$[" + "9" * 5_000 + "]", "character 1: the index has 5000 digits; 6 are allowed"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(PushRefusal) as refusal:
        arguments.convert(text, {"name": 1}, 2)
    assert refusal.value.reason is PushReason.ARGUMENT
    assert refusal.value.text == said


def test_a_position_beyond_the_fields_is_refused() -> None:
    with pytest.raises(PushRefusal, match="the index 3 is out of range"):
        arguments.convert("${name}", {"name": 3}, 2)


# Texts without a dollar sign between arguments by name or index.
_TEXTS = st.text(st.characters(exclude_characters="$"), max_size=5)
_NAMES = st.sampled_from(["a", "stock_price", "ä b", "[", "1"])
_ARGUMENTS = st.one_of(_NAMES, st.integers(1, 5))


@given(st.lists(st.tuples(_TEXTS, _ARGUMENTS), max_size=6), _TEXTS)
def test_what_was_converted_has_the_same_texts_and_the_fields_that_were_meant(
    pairs: list[tuple[str, str | int]], last: str
) -> None:
    positions = {"a": 1, "stock_price": 2, "ä b": 3, "[": 4, "1": 5}
    written = "".join(text + (f"${{{what}}}" if isinstance(what, str) else f"$[{what}]") for text, what in pairs) + last
    assert arguments.names(written) == tuple(dict.fromkeys(what for _, what in pairs if isinstance(what, str)))
    converted = arguments.convert(written, positions, 5)
    assert arguments.names(converted) == ()
    assert arguments.convert(converted, {}, 5) == converted
    fields = [positions[what] - 1 if isinstance(what, str) else what - 1 for _, what in pairs]
    assert arguments.split(converted, 5) == ([*(text for text, _ in pairs), last], fields)
