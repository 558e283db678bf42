"""What is too old to be of use is let go also where nothing happens any more."""

from __future__ import annotations

import pytest

from penstock.kernel.errors import Refusal
from penstock.kernel.feed import GRACE
from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False)


def age(harness: Harness) -> float:
    """Seconds that notifications are kept for recovery."""
    return harness.kernel.limits.max_recovery_age_millis / 1000


def subscribed(harness: Harness) -> tuple[Session, MemoryChannel]:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    return session, channel


@pytest.mark.parametrize("count", [1, 3], ids=["alone", "shared"])
def test_notifications_too_old_to_be_recovered_are_let_go_though_nothing_more_is_sent(
    harness: Harness, count: int
) -> None:
    sessions = [subscribed(harness)[0] for _ in range(count)]
    harness.advance(2.5)
    assert [session.shares for session in sessions] == [True] * count
    harness.publish("a", x="1")
    harness.advance(age(harness) - 1)
    harness.kernel.tidy()
    assert harness.kernel.ledger.logged > 0
    harness.advance(1.5)
    harness.kernel.tidy()
    assert harness.kernel.ledger.logged == 0
    for session in sessions:
        with pytest.raises(Refusal, match="only from 3 to 3"):
            harness.bind(session, QUIET, recovery_from=0)
        assert harness.bind(session, QUIET, recovery_from=3).take()[2:] == ["PROG,3"]


def test_an_item_that_was_given_up_is_known_only_as_long_as_late_events_are_excused(harness: Harness) -> None:
    session, _ = subscribed(harness)
    feed = harness.feed
    session.unsubscribe(1)
    harness.advance(GRACE / 2)
    harness.kernel.tidy()
    assert list(feed._released) == ["a"]
    harness.advance(GRACE)
    harness.kernel.tidy()
    assert not feed._released
