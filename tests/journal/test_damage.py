from __future__ import annotations

import pytest

from penstock.journal.damage import Damage


@pytest.mark.parametrize(
    ("first", "last", "missing"),
    [
        (None, None, "unknown records"),
        (5, None, "records from 5"),
        (5, 4, "no record"),
        (0, -1, "no record"),
        (5, 5, "records 5 to 5"),
        (5, 9, "records 5 to 9"),
    ],
)
def test_a_damage_says_where_it_is_and_what_is_missing(first: int | None, last: int | None, missing: str) -> None:
    assert str(Damage("mark", 3, 8, first, last, "torn")) == f"mark at byte 3, 8 bytes: torn; {missing} missing"
