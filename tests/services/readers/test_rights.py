"""Who may read the journal over the network: tokens, when they end, and which entities they are for."""

from __future__ import annotations

import re
from fnmatch import translate
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.schema.journal import ReaderSection
from penstock.services.readers.problems import ReadingProblem
from penstock.services.readers.rights import Readers, covers, overlap

FIRST, SECOND = "first-token-of-many", "second-token-of-many"


def refusal(readers: Readers, header: str | None) -> tuple[int, str]:
    with pytest.raises(ReadingProblem) as caught:
        readers.identify(header)
    return caught.value.status, str(caught.value)


def test_a_token_stands_for_its_reader() -> None:
    readers = Readers(
        {
            "one": ReaderSection(token=FIRST, entities=("A/*",)),
            "two": ReaderSection(token=SECOND, entities=("B/*",)),
        }
    )
    assert readers.identify(f"Bearer {FIRST}").name == "one"
    assert readers.identify(f"bearer  {SECOND} ").entities == ("B/*",)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", f"Basic {FIRST}", FIRST])
def test_a_request_without_a_token_is_told_what_is_expected(header: str | None) -> None:
    status, text = refusal(Readers({"one": ReaderSection(token=FIRST, entities=("*",))}), header)
    assert status == 401
    assert text.startswith("expected the header Authorization with Bearer")


@pytest.mark.parametrize("token", [FIRST[:-1], FIRST + "x", FIRST.upper(), "ü" * 20, "\udc80"])
def test_an_unknown_token_is_refused_and_not_repeated(token: str) -> None:
    status, text = refusal(Readers({"one": ReaderSection(token=FIRST, entities=("*",))}), f"Bearer {token}")
    assert (status, text) == (401, "the token is not known")


def test_a_token_ends_at_its_time() -> None:
    now = 1_800_000_000.0
    section = ReaderSection(token=FIRST, entities=("*",), expires="2027-01-15T08:00:00Z")
    readers = Readers({"one": section}, clock=lambda: now)
    assert refusal(readers, f"Bearer {FIRST}") == (401, "the token of the reader one expired at 2027-01-15T08:00:00Z")
    earlier = Readers({"one": section}, clock=lambda: now - 1)
    assert earlier.identify(f"Bearer {FIRST}").expires == now


def test_tokens_of_a_file_are_exchanged_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# for Spark\n{FIRST}\n")
    readers = Readers({"one": ReaderSection(token_file=str(path), entities=("*",))})
    readers.identify(f"Bearer {FIRST}")
    path.write_text(f"{FIRST}\n{SECOND}\n")
    readers.identify(f"Bearer {FIRST}")
    readers.identify(f"Bearer {SECOND}")
    path.write_text(f"{SECOND}\n")
    assert refusal(readers, f"Bearer {FIRST}")[0] == 401
    path.unlink()
    readers.identify(f"Bearer {SECOND}")


def test_a_pattern_of_which_nothing_may_be_seen_is_refused_with_what_may_be() -> None:
    reader = Readers({"one": ReaderSection(token=FIRST, entities=("PLANT/A/*", "TLEX/*"))}).identify(f"Bearer {FIRST}")
    reader.check_entities(["PLANT/A/x", "PLANT/*", "*", "*/TLEX/*"])
    with pytest.raises(ReadingProblem) as caught:
        reader.check_entities(["PLANT/A/x", "PLANT/B/*"])
    assert caught.value.status == 403
    assert str(caught.value) == ("the reader one has no right to read PLANT/B/*; its entities are PLANT/A/*, TLEX/*")


def test_a_pattern_of_which_something_may_not_be_seen_is_refused_where_all_of_it_is_needed() -> None:
    reader = Readers({"one": ReaderSection(token=FIRST, entities=("PLANT/A/*", "T?/*"))}).identify(f"Bearer {FIRST}")
    reader.check_all_of(["PLANT/A/x", "PLANT/A/x.*", "T1/*"])
    for pattern in ("PLANT/*", "*", "T*/*", "PLANT/B/*"):
        with pytest.raises(ReadingProblem) as caught:
            reader.check_all_of(["PLANT/A/x", pattern])
        assert caught.value.status == 403
        assert str(caught.value) == (
            f"the reader one has no right to read all of {pattern}; its entities are PLANT/A/*, T?/*"
        )


PATTERNS = st.text("ab*?", max_size=5)
NAMES = ["".join(letters) for length in range(7) for letters in product("abc", repeat=length)]


@given(PATTERNS, PATTERNS)
def test_a_pattern_that_covers_another_fits_all_of_its_names(allowed: str, pattern: str) -> None:
    if covers(allowed, pattern):
        first, second = re.compile(translate(allowed)), re.compile(translate(pattern))
        assert all(first.match(name) for name in NAMES if second.match(name))
    assert covers(pattern, pattern)
    assert covers("*", pattern)


@given(PATTERNS, PATTERNS)
def test_patterns_overlap_if_a_name_fits_both(one: str, other: str) -> None:
    """Names of six characters are enough: beyond the letters of both, stars can stand for nothing."""
    first, second = re.compile(translate(one)), re.compile(translate(other))
    by_names = any(first.match(name) and second.match(name) for name in NAMES)
    if len(one.replace("*", "")) + len(other.replace("*", "")) <= 6:
        assert overlap(one, other) == by_names
    elif by_names:
        assert overlap(one, other)
