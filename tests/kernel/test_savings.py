"""What keeps idle sessions cheap, each with the rule it must not break."""

from __future__ import annotations

import pytest

from penstock.kernel.errors import Refusal
from penstock.kernel.feed import MAX_REQUESTS
from penstock.kernel.limits import SessionLimits
from penstock.kernel.timers import Timed, Timers
from penstock.testing import Harness


class Bell(Timed):
    def __init__(self, lead: float) -> None:
        super().__init__()
        self.lead = lead
        self.rung: list[float] = []

    def expire(self, now: float) -> None:
        self.rung.append(now)


def test_a_deadline_comes_early_only_in_company_and_only_by_its_lead() -> None:
    timers = Timers()
    bells = [Bell(lead) for lead in (0.0, 0.5, 0.5, 0.5)]
    for bell, when in zip(bells, (10.0, 10.1, 10.4, 10.6), strict=True):
        timers.set(bell, when)
    timers.run(10.0)
    assert [bell.rung for bell in bells] == [[10.0], [], [], []]
    assert timers.next_deadline() == 10.1
    timers.run(10.1)
    assert [bell.rung for bell in bells] == [[10.0], [10.1], [10.4], []], "each is told the time it waited for"
    timers.run(10.6)
    assert [bell.rung for bell in bells] == [[10.0], [10.1], [10.4], [10.6]]
    assert timers.next_deadline() is None


def test_a_batch_comes_with_its_earliest_deadline_and_without_those_that_were_moved() -> None:
    timers = Timers()
    bells = [Bell(0.5) for _ in range(3)]
    for bell, when in zip(bells, (10.3, 10.4, 10.1), strict=True):
        timers.set(bell, when)
    timers.set(bells[1], 20.2)
    assert timers.next_deadline() == 10.1
    timers.run(10.1)
    assert [bell.rung for bell in bells] == [[10.3], [], [10.1]]
    timers.run(20.2)
    assert [bell.rung for bell in bells] == [[10.3], [20.2], [10.1]]


def test_a_deadline_that_loses_its_lead_is_kept() -> None:
    timers = Timers()
    bell = Bell(0.5)
    timers.set(bell, 10.3)
    bell.lead = 0.0
    timers.set(bell, 10.3)
    timers.run(10.3)
    assert bell.rung == [10.3]
    timers.set(bell, 10.35)
    timers.run(10.35)
    assert bell.rung == [10.3, 10.35]


def test_a_deadline_shorter_than_its_lead_does_not_come_round_for_ever() -> None:
    timers = Timers()

    class Eager(Bell):
        def expire(self, now: float) -> None:
            super().expire(now)
            timers.set(self, now + 0.01)

    eager = Eager(lead=1.0)
    timers.set(eager, 5.0)
    timers.run(5.0)
    assert eager.rung == [5.0]
    timers.run(5.01)
    assert eager.rung == [5.0, 5.01]


def test_keep_alives_of_sessions_bound_shortly_after_one_another_share_a_turn() -> None:
    harness = Harness(SessionLimits(default_keepalive_millis=5_000))
    channels = []
    for _ in range(5):
        channels.append(harness.open()[1])
        harness.advance(0.008)
    for channel in channels:
        channel.take()
    harness.advance(4.959)
    assert [channel.take() for channel in channels] == [[]] * 5
    harness.advance(0.001)
    assert [channel.take() for channel in channels] == [["PROBE"]] * 5


def test_early_keep_alives_do_not_add_lines_to_those_of_the_synchronisation() -> None:
    harness = Harness(SessionLimits(default_keepalive_millis=5_000, sync_millis=10_000))
    channels = []
    for _ in range(5):
        channels.append(harness.open()[1])
        harness.advance(0.008)
    for channel in channels:
        channel.take()
    harness.advance(40.0)
    assert [len(channel.take()) for channel in channels] == [8] * 5


def test_sessions_that_ask_for_the_same_have_one_request() -> None:
    harness = Harness()
    sessions = [harness.open()[0] for _ in range(4)]
    for session, number in zip(sessions, (1, 2, 1, 2), strict=True):
        harness.subscribe(session, number, "item", "a b")
    first, second, third, fourth = [next(iter(session.subscriptions.values())).request for session in sessions]
    assert first is third
    assert second is fourth
    assert (first.number, second.number) == (1, 2)
    other = harness.subscribe(harness.open()[0], 1, "item", "a b", snapshot=True)
    assert other.request.snapshot
    assert not first.snapshot
    # They are not kept for ever, and not after their data adapter has gone.
    for number in range(3, 3 + MAX_REQUESTS):
        harness.subscribe(sessions[0], number, "item", "a b")
    assert len(harness.feed._requests) <= MAX_REQUESTS
    harness.kernel.withdraw(harness.feed.adapter_set, harness.feed.name)
    assert harness.feed._requests == {}


def test_subscriptions_are_found_by_their_numbers_however_many_there_are() -> None:
    harness = Harness()
    session, channel = harness.open()
    # Down and up across the number of those that are kept without a dictionary.
    started = {number: harness.subscribe(session, number, f"item{number}", "a") for number in (9, 2, 7)}
    session.unsubscribe(2)
    del started[2]
    for number in (2, 11, 5, 1, 30):
        started[number] = harness.subscribe(session, number, f"item{number}", "a")
        assert session.subscriptions == started
        assert list(session.subscriptions) == list(started), "in the order in which they began"
    for number in list(started):
        with pytest.raises(Refusal, match=f"number {number} is in use"):
            harness.subscribe(session, number, "another", "a")
        channel.take()
        harness.publish(f"item{number}", a="x")
        assert channel.take() == [f"U,{number},1,x"]
        session.unsubscribe(number)
        harness.turn()
        assert channel.take() == [f"UNSUB,{number}"]
        del started[number]
        assert session.subscriptions == started
        with pytest.raises(Refusal, match=f"{number} not found"):
            session.subscription(number)


def test_what_sessions_are_sent_alike_is_kept_once() -> None:
    harness = Harness()
    harness.subscribe(harness.open()[0], 1, "page", "a")
    harness.publish("page", a="x" * 100)
    sessions = [harness.open()[0] for _ in range(3)]
    for session, number in zip(sessions, (1, 1, 2), strict=True):
        harness.subscribe(session, number, "page", "a", snapshot=True)
    first, second, other = [session.log._batches[0] for session in sessions]
    assert first.payload is second.payload
    assert other.payload != first.payload
    # Each is counted: at most more than is there.
    assert harness.kernel.ledger.logged >= len(first.payload) + len(second.payload) + len(other.payload)
