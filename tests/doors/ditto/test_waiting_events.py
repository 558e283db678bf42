"""What waits for a slow reader, and who is told of what was lost."""

from __future__ import annotations

import logging

import pytest

from penstock.doors.ditto.waiting_events import MAX_WAITING_EVENTS, Losses, WaitingEvents

LOG = "penstock.doors.ditto.waiting_events"


def test_what_waits_is_taken_once_and_losses_are_counted_for_all_readers() -> None:
    losses = Losses()
    one, other = WaitingEvents(losses, "nginx:one"), WaitingEvents(losses, "nginx:other")
    for number in range(MAX_WAITING_EVENTS):
        assert not one.is_full
        one.put(b"%d" % number)
    assert one.is_full
    one.lose()
    one.lose(4)
    other.lose(2)
    messages, lost = one.take()
    assert (messages, lost) == ([b"%d" % number for number in range(MAX_WAITING_EVENTS)], 5)
    assert (one.take(), one.is_full) == (([], 0), False)
    assert losses.events == 7


def test_an_operator_is_told_who_has_lost_how_many(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses()
    slow, quick = WaitingEvents(losses, "nginx:slow"), WaitingEvents(losses, "nginx:quick")
    with caplog.at_level(logging.WARNING, LOG):
        for _ in range(3):
            slow.lose()
        quick.put(b"x")
        for each in (slow, quick, slow):
            each.take()
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("WARNING", "live events were lost")
    assert vars(record)["fields"] == {"reader": "nginx:slow", "events": 3, "of_all": 3}
