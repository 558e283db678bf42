from __future__ import annotations

from fnmatch import fnmatchcase

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journal.record import Columns, arrays, numbered
from penstock.journal.selection import EventSelection

NAMES = ["stock/1", "stock/12", "stock", "thing:a.b", "thing:a*b", "", "ä/ö", "a\nb", "[x]", "$^\\Q"]


@pytest.mark.parametrize(
    ("patterns", "matched"),
    [
        (("stock/1",), ["stock/1"]),
        (("stock/*",), ["stock/1", "stock/12"]),
        (("stock*",), ["stock/1", "stock/12", "stock"]),
        (("*1*",), ["stock/1", "stock/12"]),
        (("stock/?",), ["stock/1"]),
        (("?????:a.b",), ["thing:a.b"]),
        (("*",), NAMES),
        (("ä/?",), ["ä/ö"]),
        (("a?b",), ["a\nb"]),
        (("[x]", "$^*"), ["[x]", "$^\\Q"]),
        (("[a-z]?]", "nothing"), []),
        (("stock", "thing:*", "*12"), ["stock/12", "stock", "thing:a.b", "thing:a*b"]),
    ],
)
def test_patterns_match_whole_names(patterns: tuple[str, ...], matched: list[str]) -> None:
    mask = EventSelection(entities=patterns).matches(pa.array(NAMES, pa.utf8()))
    assert [name for name, hit in zip(NAMES, mask.to_pylist(), strict=True) if hit] == matched


SIGNS = st.sampled_from("ab*?.\\-^")


@given(st.text(SIGNS), st.text("ab.\\-^", max_size=6))
def test_patterns_mean_what_they_mean_in_a_shell(pattern: str, name: str) -> None:
    (hit,) = EventSelection(entities=(pattern,)).matches(pa.array([name], pa.utf8())).to_pylist()
    assert hit == fnmatchcase(name, pattern)


def test_kinds_and_times_are_chosen_together() -> None:
    rows = Columns()
    for time, kind in ((1, "update"), (2, "delete"), (3, "update"), (4, "update")):
        rows.add("e", time, kind, "", None)
    batch = numbered(arrays(rows), 1, [1, 2, 3, 4])

    def chosen(selection: EventSelection) -> list[int]:
        sequences: list[int] = selection.apply(batch).column("sequence").to_pylist()
        return sequences

    assert chosen(EventSelection()) == [1, 2, 3, 4]
    assert chosen(EventSelection(kinds=("update",))) == [1, 3, 4]
    assert chosen(EventSelection(since=2)) == [2, 3, 4]
    assert chosen(EventSelection(until=3)) == [1, 2]
    assert chosen(EventSelection(kinds=("update", "other"), since=2, until=4)) == [3]
    assert chosen(EventSelection(entities=("e*",), kinds=("delete",))) == [2]
    assert chosen(EventSelection(entities=("x",))) == []
