from __future__ import annotations

import contextlib
import random
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.tlcp.errors import ControlCode, RequestError
from penstock.wire.tlcp.textdiff import decode_difference, encode_difference, encode_number, qualifies

# One unit of UTF-16 each. Few different letters make texts that have much in common.
TEXT = st.text("ab", max_size=60) | st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=40)

# Numbers, letters to add and what is neither.
DIFFERENCE = st.text("aabcdzABZ0|é", max_size=30) | st.text(max_size=20)

# What a difference may take beside the characters it adds: five numbers of a 100 kB text have four letters at most.
OVERHEAD = 15


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str]:
    """A text and the same after a few edits."""
    base = draw(TEXT)
    text = base
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, len(text)))
        text = text[:start] + draw(st.text("abc", max_size=8)) + text[end:]
    return base, text


def long_text(seed: int, length: int = 100_000) -> str:
    return "".join(random.Random(seed).choices("abcdefghij \nABC|%", k=length))


@pytest.mark.parametrize(
    ("number", "letters"),
    [(0, "a"), (1, "b"), (25, "z"), (26, "Ba"), (27, "Bb"), (51, "Bz"), (52, "Ca"), (675, "Zz"), (676, "BAa")],
)
def test_a_number_is_letters_of_radix_26_of_which_the_last_is_small(number: int, letters: str) -> None:
    assert encode_number(number) == letters
    base = "x" * number
    assert decode_difference(base, letters) == base


@given(st.integers(0, 10**12))
def test_any_number_weighs_what_its_letters_say(number: int) -> None:
    letters = encode_number(number)
    assert letters[:-1].isupper() or len(letters) == 1
    assert letters[-1].islower()
    assert int("".join("0123456789abcdefghijklmnop"[ord(letter) - 97] for letter in letters.lower()), 26) == number


@pytest.mark.parametrize(
    ("base", "text", "difference"),
    [
        ("same", "same", "e"),
        ("", "", "a"),
        ("", "new", "adnew"),
        ("old", "", "a"),
        ("old", "older", "dcer"),
        ("older", "old", "d"),
        ("the end", "an end", "acande"),
        ("one two three", "one 2 three", "eb2dg"),
        ("ab", "xab", "abxac"),
    ],
)
def test_a_difference_is_copies_additions_and_deletions_in_turn(base: str, text: str, difference: str) -> None:
    assert encode_difference(base, text) == difference
    assert decode_difference(base, difference) == text


@given(TEXT, TEXT)
@example("", "")
@example("abcabba", "cbabac")
@example("a" * 30, "a" * 26)
def test_any_text_is_rebuilt_from_any_other(base: str, text: str) -> None:
    assert decode_difference(base, encode_difference(base, text)) == text


@given(edited())
def test_any_edited_text_is_rebuilt(change: tuple[str, str]) -> None:
    base, text = change
    difference = encode_difference(base, text)
    assert decode_difference(base, difference) == text
    # Never much longer than copying nothing and adding everything.
    assert len(difference) <= len(text) + OVERHEAD


@pytest.mark.parametrize("position", [0, 1, 50_000, 99_000, 99_999])
@pytest.mark.parametrize(("added", "deleted"), [(40, 0), (1, 0), (0, 1), (0, 900), (300, 1), (1, 300), (900, 900)])
def test_one_edit_of_a_long_text_costs_what_it_adds(position: int, added: int, deleted: int) -> None:
    base = long_text(1)
    new = "+" * added
    text = base[:position] + new + base[position + deleted :]
    difference = encode_difference(base, text)
    assert decode_difference(base, difference) == text
    assert len(difference) <= added + OVERHEAD


def test_several_edits_far_apart_cost_what_they_add() -> None:
    base = text = long_text(2)
    for position in (90_000, 70_000, 30_000, 10_000):
        text = text[:position] + "*" * 20 + text[position + 10 :]
    difference = encode_difference(base, text)
    assert decode_difference(base, difference) == text
    assert len(difference) <= 4 * (20 + OVERHEAD)


@pytest.mark.parametrize(
    ("base", "text"),
    [
        (long_text(3), long_text(4)),
        # Here every way through the texts runs along for long before it fails.
        ("b" + "a" * 100_000 + "c" * 300, "d" + "a" * 100_000 + "e" * 300),
        ("b" + "ab" * 50_000 + "c" * 300, "d" + "ba" * 50_000 + "e" * 300),
    ],
    ids=["unrelated", "one letter", "two letters"],
)
def test_no_pair_of_long_texts_takes_long(base: str, text: str) -> None:
    start = time.process_time()
    difference = encode_difference(base, text)
    # Twenty times what it takes: a search without bound takes minutes.
    assert time.process_time() - start < 0.6
    assert decode_difference(base, difference) == text
    assert len(difference) <= len(text) + OVERHEAD


@pytest.mark.parametrize(
    ("base", "difference"),
    [
        ("abc", "e"),
        ("abc", "ZZZZZz"),
        ("abc", "A" * 9 + "B" * 100_000 + "a"),
        ("abc", "B"),
        ("abc", "b1"),
        ("abc", "é"),
        ("abc", "bdxy"),
        ("abc", "bae"),
        ("abc", "baacd"),
        ("", "b"),
    ],
)
def test_a_difference_that_does_not_fit_is_malformed(base: str, difference: str) -> None:
    with pytest.raises(RequestError, match="TLCP-diff") as caught:
        decode_difference(base, difference)
    assert caught.value.code == ControlCode.MALFORMED


@given(TEXT, DIFFERENCE)
def test_any_text_is_a_difference_or_malformed(base: str, difference: str) -> None:
    # Anything but the one exception fails the test.
    with contextlib.suppress(RequestError):
        decode_difference(base, difference)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("plain", True),
        ("é€\ud7ff\ue000\uffff", True),
        ("𝄞", False),
        ("a\U00010000", False),
        ("\ud800", False),
        ("x\udfff", False),
    ],
)
def test_only_texts_without_surrogates_qualify(text: str, fits: bool) -> None:
    assert qualifies(text) is fits
