"""Regular expressions in linear time: the same as Python's where the two languages agree, refused where not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.push.trigger.failure import Wrong
from penstock.push.trigger.pattern import MAX_DEPTH, MAX_LENGTH, MAX_SIZE, RegularExpression

_ATOMS = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "\\d", "\\w", "\\.", "(?:)", "[\\d.-]", "^", "é"]
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = inner.map(lambda text: f"(?:{text})")
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(grouped, grouped).map("|".join),
        grouped.map(lambda text: f"{text}$"),
        st.tuples(grouped, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "{2,}"])).map("".join),
        inner.map(lambda text: f"({text})"),
    )


_PATTERNS = st.recursive(_ATOMS, _larger, max_leaves=8).filter(lambda text: not re.search(r"\$[^|)]", text))


@given(_PATTERNS, st.lists(st.text("abc1._é", max_size=8), min_size=1, max_size=5))
def test_a_pattern_matches_what_the_engine_of_python_matches(pattern: str, texts: list[str]) -> None:
    made = RegularExpression(pattern)
    assert [made.matches(text) for text in texts] == [
        re.fullmatch(pattern, text, re.ASCII) is not None for text in texts
    ]


def test_the_pattern_of_the_specification_lets_pass_what_it_says() -> None:
    pattern = RegularExpression(r"Double\.parseDouble\(\$\[\d+\]\) [<>] [+-]?(\d*\.)?\d+")
    assert pattern.matches("Double.parseDouble($[1]) > 500.0")
    assert pattern.matches("Double.parseDouble($[12]) < -.5")
    assert not pattern.matches("System.exit(0)")
    assert not pattern.matches("Double.parseDouble($[1]) > 500.0 || true")
    assert not pattern.matches(" Double.parseDouble($[1]) > 500.0")


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b", "(a|aa)+b", "(?:a?){50}a{50}b"]
)
def test_what_takes_forever_with_backtracking_takes_no_time(pattern: str) -> None:
    """A minute is the limit of a test; backtracking would need years."""
    assert not RegularExpression(pattern).matches("a" * 10_000)
    assert RegularExpression(pattern).matches("a" * 60 + "b")


def test_an_automaton_that_grows_without_end_is_begun_anew() -> None:
    pattern = RegularExpression("(?:a|b)*a(?:a|b){14}")
    text = "".join("ab"[(number * number >> 3) & 1] for number in range(20_000))
    assert pattern.matches(text + "a" + "b" * 14)
    assert not pattern.matches(text + "b" + "b" * 14)


@pytest.mark.parametrize(
    ("pattern", "place", "said"),
    [
        (r"(a)\1", 3, "\\1 is not supported"),
        (r"\bword", 0, "\\b is not supported"),
        ("(?=a)", 0, "lookahead and lookbehind are not supported, because they need backtracking"),
        ("x(?<!a)", 1, "lookahead and lookbehind are not supported, because they need backtracking"),
        ("a(?>b)", 1, "(? is allowed as (?:…), (?<name>…), and (?i) or (?s) at the beginning"),
        ("a(?i)b", 1, "(? is allowed as (?:…), (?<name>…), and (?i) or (?s) at the beginning"),
        ("(?x) a", 0, "(? is allowed as (?:…), (?<name>…), and (?i) or (?s) at the beginning"),
        ("(?", 0, "(? is allowed as (?:…), (?<name>…), and (?i) or (?s) at the beginning"),
        ("(?<>a)", 0, "the name of a group must be letters and digits, closed by >"),
        ("a*+", 2, "possessive quantifiers are not supported, because they need backtracking"),
        ("a**", 2, "nothing is there that * could repeat"),
        ("*a", 0, "nothing is there that * could repeat"),
        ("a|+", 2, "nothing is there that + could repeat"),
        ("^*", 1, "^ and $ cannot be repeated"),
        ("$a", 1, "$ is allowed at the end only"),
        ("(ab", 0, "an opening ( has no closing one"),
        ("ab)", 2, "a closing ) has no opening one"),
        ("[ab", 0, "an opening [ has no closing one"),
        ("[", 0, "an opening [ has no closing one"),
        ("[]", 0, "[] has no characters; write \\] for the bracket"),
        ("[a[b]]", 2, "classes inside classes are not supported; write \\[ for the bracket"),
        ("[a&&b]", 2, "intersections of classes are not supported; write \\& for the character"),
        ("[z-a]", 2, "a range in [] must go from one character to a later one; write \\- for the sign"),
        (r"[\d-z]", 3, "a range in [] must go from one character to a later one; write \\- for the sign"),
        ("a{", 1, "a { must be a count such as {2}, {2,} or {2,5}; write \\{ for the character"),
        ("a{,5}", 1, "a { must be a count such as {2}, {2,} or {2,5}; write \\{ for the character"),
        ("a{99999}", 1, "a { must be a count such as {2}, {2,} or {2,5}; write \\{ for the character"),
        ("a{3,2}", 1, "a count that ends (2) before it begins (3)"),
        ("a\\", 1, "a \\ at the end escapes nothing"),
        (r"\y", 0, "\\y is not supported"),
        (r"\u12", 0, "the code of a character must have 4 hexadecimal digits"),
        (r"\ud83d", 0, "an unpaired surrogate is not a character; write the character itself"),
        (r"\p{Greek}", 0, "\\p{Greek} is not supported; \\p{Alpha} or \\p{Lu} are"),
        (r"\p", 0, "\\p{} is not supported; \\p{Alpha} or \\p{Lu} are"),
        ("(" * 31 + ")" * 31, 30, f"groups are nested more than {MAX_DEPTH} levels deep"),
        ("(((a{9}){9}){9}){9}", 0, f"the pattern is too large; with its repetitions it may have {MAX_SIZE} places"),
        ("((){9999}){9999}", 0, "the pattern repeats too much"),
        ("a" * 1_001, 0, f"the pattern has 1001 characters; {MAX_LENGTH} are allowed"),
    ],
)
def test_every_refusal_says_what_is_wrong_and_where(pattern: str, place: int, said: str) -> None:
    with pytest.raises(Wrong) as wrong:
        RegularExpression(pattern)
    assert (wrong.value.place, wrong.value.text) == (place, said)


@given(st.text("ab01(){}[]|*+?.^$\\-,:<>=!iswdpPxuQEAzZ&", max_size=20), st.text("ab01-]\\", max_size=6))
def test_any_text_is_a_pattern_or_wrong_at_a_place_inside_it(pattern: str, text: str) -> None:
    place = 0
    try:
        assert RegularExpression(pattern).matches(text) in (True, False)
    except Wrong as wrong:
        place = wrong.place
    assert 0 <= place <= len(pattern)
