"""Records of a log take effect once, whatever is read again: the ledger against a naive model, with crashes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connections.offsets import OffsetLedger


def test_the_lowest_that_is_not_settled_is_where_to_go_on() -> None:
    ledger = OffsetLedger()
    assert [ledger.begin(number) for number in (5, 6, 9)] == [True, True, True]
    ledger.settle(6)
    assert ledger.low == 5
    ledger.settle(5)
    assert ledger.low == 9
    ledger.settle(9)
    assert ledger.low == 10


def test_what_is_settled_or_under_way_is_not_begun_again() -> None:
    ledger = OffsetLedger()
    ledger.begin(1)
    assert not ledger.begin(1)
    ledger.settle(1)
    assert not ledger.begin(0)
    assert not ledger.begin(1)
    assert ledger.begin(2)


def test_one_that_must_come_again_keeps_the_place() -> None:
    ledger = OffsetLedger()
    for number in (1, 2, 3):
        ledger.begin(number)
    ledger.settle(1)
    ledger.settle(3)
    assert ledger.low == 2
    ledger.restart()
    assert [ledger.begin(number) for number in (2, 3, 4)] == [True, False, True]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    ledger = OffsetLedger.of_marks(['{"offset":9,"part":0,"low":9,"generation":0}'])
    assert (ledger.low, ledger.end) == (9, 10)
    ledger.forget()
    assert ledger.end == 0
    assert ledger.begin(0)


@pytest.mark.parametrize("parts", [1, 2])
@given(seed=st.integers(0, 2**32))
def test_every_part_takes_effect_once_through_crashes_and_refusals(seed: int, parts: int) -> None:
    chance = random.Random(seed)
    records = 30
    refused = {number for number in range(records) if chance.random() < 0.2}
    effects: list[tuple[int, int]] = []
    marks: list[str] = []
    for _ in range(50):
        # A process: from what the journal has.
        ledger = OffsetLedger.of_marks(marks[-200:])
        at = ledger.low or 0
        under_way: list[tuple[int, int]] = []
        crashed = False
        while (at < records or under_way) and not crashed:
            if at < records and (chance.random() < 0.6 or not under_way):
                if ledger.begin(at):
                    under_way += [(at, part) for part in range(parts)]
                at += 1
            else:
                # The journal has the order in which they were begun.
                number, part = under_way.pop(0)
                if number not in refused and not ledger.is_applied(number, part):
                    effects.append((number, part))
                    marks.append(ledger.mark(number, part))
                if not any(other == number for other, _ in under_way):
                    ledger.settle(number)
            crashed = chance.random() < 0.05
        if not crashed:
            break
    wanted = [(number, part) for number in range(records) if number not in refused for part in range(parts)]
    assert len(effects) == len(set(effects))
    if not crashed:
        assert sorted(effects) == wanted


def test_a_log_that_was_made_anew_is_not_taken_for_the_one_before() -> None:
    ledger = OffsetLedger()
    marks = []

    def deal_with(offset: int) -> None:
        assert ledger.begin(offset)
        marks.append(ledger.mark(offset, 0))
        ledger.settle(offset)

    for offset in range(100):
        deal_with(offset)
    ledger.forget()
    for offset in range(3):
        deal_with(offset)
    found = OffsetLedger.of_marks(marks)
    assert found.low == 2
    assert not found.begin(1)
    assert found.is_applied(2, 0)
    assert not found.is_applied(3, 0)
