"""What two sequences have in common, against a table of all pairs of positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlcp.edits import common_prefix, common_suffix, find_matches

WORDS = st.text("ab", max_size=30)


def longest(one: str, other: str) -> int:
    """How many characters the longest common subsequence has."""
    row = [0] * (len(other) + 1)
    for each in one:
        before, row = row, [0]
        for index, character in enumerate(other):
            row.append(before[index] + 1 if each == character else max(before[index + 1], row[index]))
    return row[-1]


@given(WORDS, WORDS)
def test_matches_are_equal_runs_in_order_and_as_long_together_as_can_be(base: str, text: str) -> None:
    matches = find_matches(base, text)
    assert matches is not None
    base_done = text_done = 0
    for base_start, text_start, length in matches:
        assert length > 0
        assert base_start >= base_done
        assert text_start >= text_done
        base_done, text_done = base_start + length, text_start + length
        assert base[base_start:base_done] == text[text_start:text_done]
    assert sum(length for _, _, length in matches) == longest(base, text)


def test_what_is_before_the_first_edit_is_a_match() -> None:
    assert find_matches("abc", "abd") == [(0, 0, 2)]
    assert find_matches("same", "same") == [(0, 0, 4)]
    assert find_matches("", "") == find_matches("a", "") == find_matches("a", "b") == []


@pytest.mark.parametrize(("base", "text"), [("", "x" * 250), ("x" * 250, ""), ("x" * 125, "y" * 125)])
def test_two_hundred_and_fifty_edits_are_searched_for_and_no_more(base: str, text: str) -> None:
    assert find_matches(base, text) == []
    assert find_matches(base + "a", text + "a") == [(len(base), len(text), 1)]
    assert find_matches(f"{base}a", f"{text}b") is None


@given(WORDS, WORDS, st.integers(0, 30))
def test_beginning_and_end_in_common_are_as_long_as_can_be(one: str, other: str, limit: int) -> None:
    prefix = common_prefix(one, other)
    assert one[:prefix] == other[:prefix]
    assert one[prefix : prefix + 1] != other[prefix : prefix + 1] or prefix == min(len(one), len(other))
    limit = min(limit, len(one), len(other))
    suffix = common_suffix(one, other, limit)
    assert one[len(one) - suffix :] == other[len(other) - suffix :]
    assert suffix == limit or one[-suffix - 1] != other[-suffix - 1]
