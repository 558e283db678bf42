from __future__ import annotations

from penstock.cluster.audiences import MAX_AUDIENCES, UNUSED_SECONDS, Audiences

AB = frozenset({"a", "b"})
BC = frozenset({"b", "c"})


def test_an_audience_is_complete_when_all_members_have_confirmed() -> None:
    audiences = Audiences()
    made, is_new = audiences.of(AB, 0.0)
    assert made is not None
    assert is_new
    assert made.missing == {"a", "b"}
    assert audiences.confirm("a", made.number)
    assert audiences.waiting() == [made]
    assert audiences.confirm("b", made.number)
    assert audiences.waiting() == []
    assert audiences.of(AB, 1.0) == (made, False)


def test_who_is_not_a_member_cannot_confirm() -> None:
    audiences = Audiences()
    made, _ = audiences.of(AB, 0.0)
    assert made is not None
    assert not audiences.confirm("c", made.number)
    assert not audiences.confirm("a", made.number + 1)


def test_audiences_that_are_not_used_are_forgotten_and_their_numbers_not_given_again() -> None:
    audiences = Audiences()
    first, _ = audiences.of(AB, 0.0)
    second, _ = audiences.of(BC, UNUSED_SECONDS)
    assert audiences.expire(UNUSED_SECONDS + 1) == [first]
    again, is_new = audiences.of(AB, UNUSED_SECONDS + 1)
    assert is_new
    assert first is not None
    assert second is not None
    assert again is not None
    assert len({first.number, second.number, again.number}) == 3


def test_audiences_of_an_edge_that_is_gone_are_forgotten() -> None:
    audiences = Audiences()
    audiences.of(AB, 0.0)
    other, _ = audiences.of(BC, 0.0)
    assert [each.members for each in audiences.without("a")] == [AB]
    assert audiences.of(BC, 0.0) == (other, False)


def test_beyond_the_limit_there_are_no_more_audiences() -> None:
    audiences = Audiences()
    for number in range(MAX_AUDIENCES):
        audiences.of(frozenset({"a", str(number)}), 0.0)
    assert audiences.of(frozenset({"b", "c"}), 0.0) == (None, False)
    assert len(audiences) == MAX_AUDIENCES
