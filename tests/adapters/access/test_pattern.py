from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.access.pattern import Pattern


@pytest.mark.parametrize(
    ("pattern", "item"),
    [
        ("stock", "stock"),
        ("*", "anything at all"),
        ("*", ""),
        ("stock.*", "stock."),
        ("stock.*", "stock.a.b"),
        ("*.bid", "a.b.bid"),
        ("a*b*c", "a--b--c"),
        ("a*b*c", "abc"),
        ("a*ab", "aab"),
        ("a**b", "a/x/b"),
        ("portfolio.{user}", "portfolio.ada"),
        ("{user}.*", "ada.orders"),
        ("{user}/{user}", "ada/ada"),
        ("*{user}*", "of ada too"),
        ("a?c", "a?c"),
        ("[ab]", "[ab]"),
        ("a.c", "a.c"),
        ("{not a placeholder}", "{not a placeholder}"),
    ],
)
def test_items_that_a_pattern_means(pattern: str, item: str) -> None:
    assert Pattern(pattern).matches(item, "ada")


@pytest.mark.parametrize(
    ("pattern", "item"),
    [
        ("stock", "stock1"),
        ("stock", "Stock"),
        ("stock.*", "stock"),
        ("stock.*", "my.stock.a"),
        ("*.bid", "a.bid2"),
        ("ab*ba", "aba"),
        ("a*b*c", "acb"),
        ("portfolio.{user}", "portfolio.bob"),
        ("portfolio.{user}", "portfolio.ada2"),
        ("portfolio.{user}", "portfolio.{user}"),
        ("portfolio.{user}", "portfolio."),
        ("a?c", "abc"),
        ("[ab]", "a"),
        ("a.c", "abc"),
        ("a*", "\na"),
    ],
)
def test_items_that_a_pattern_does_not_mean(pattern: str, item: str) -> None:
    assert not Pattern(pattern).matches(item, "ada")


@pytest.mark.parametrize("name", ["*", "a*", "{user}", ".*", "[a-z]", "\\"])
def test_a_name_is_taken_letter_by_letter(name: str) -> None:
    pattern = Pattern("portfolio.{user}")
    assert pattern.matches(f"portfolio.{name}", name)
    assert not pattern.matches("portfolio.ada", name)


@pytest.mark.parametrize("nobody", [None, ""])
def test_nothing_personal_is_for_somebody_without_a_name(nobody: str | None) -> None:
    for text in ("{user}", "portfolio.{user}", "{user}*", "*{user}*"):
        for item in ("", "portfolio.", "portfolio.ada", "None", "{user}"):
            assert not Pattern(text).matches(item, nobody)


def test_a_personal_pattern_means_the_items_of_all_users_together() -> None:
    pattern = Pattern("portfolio.{user}.log")
    assert pattern.matches_of_anybody("portfolio.ada.log")
    assert pattern.matches_of_anybody("portfolio.bob.log")
    assert not pattern.matches_of_anybody("portfolio.ada")


@pytest.mark.parametrize("text", ["{users}", "a.{}", "{USER}", "{user}.{role}"])
def test_a_placeholder_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a placeholder"):
        Pattern(text)


def naive(pattern: str, item: str, user: str) -> bool:
    """Letter by letter, trying everything that a star can stand for."""
    if pattern.startswith("{user}"):
        return item.startswith(user) and naive(pattern[len("{user}") :], item[len(user) :], user)
    if pattern.startswith("*"):
        return any(naive(pattern[1:], item[at:], user) for at in range(len(item) + 1))
    if not pattern or not item:
        return pattern == item
    return pattern[0] == item[0] and naive(pattern[1:], item[1:], user)


# Few letters, so that many items do match; a name may hold everything that means something in a pattern.
pieces = st.sampled_from(["a", "b", ".", "*", "{user}"])
patterns = st.lists(pieces, max_size=7).map("".join)
names = st.text("ab.*", min_size=1, max_size=3)
items = st.text("ab.*", max_size=10)


@given(patterns, items, names)
def test_matching_agrees_with_trying_everything(pattern: str, item: str, user: str) -> None:
    assert Pattern(pattern).matches(item, user) == naive(pattern, item, user)


@given(st.lists(pieces, min_size=1, max_size=7), names, st.data())
def test_what_is_built_by_a_pattern_matches_it(parts: list[str], user: str, data: st.DataObject) -> None:
    filled = [user if part == "{user}" else data.draw(items) if part == "*" else part for part in parts]
    pattern = Pattern("".join(parts))
    assert pattern.matches("".join(filled), user)
    assert pattern.matches_of_anybody("".join(filled))


def test_a_hostile_item_name_takes_no_time() -> None:
    # Trying everything would take some 10^18 steps; the time limit of the test is what would tell.
    assert not Pattern("*a*a*a*a*a*a*b").matches("a" * 10_000 + "c", None)
