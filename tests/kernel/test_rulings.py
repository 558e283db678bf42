"""Limits that an administrator sets while a session runs: they win over what the metadata adapter allows, and clients
move below them as before.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import Admission, ItemGrant
from penstock.kernel.ruling import Ruling
from penstock.testing import Harness

LIMITS = st.none() | st.sampled_from([1.0, 2.0, 5.0, 50.0])
RULINGS = st.none() | st.builds(Ruling, LIMITS)


def lowest(*limits: float | None) -> float | None:
    """The naive model: the lowest of what there is."""
    return min([limit for limit in limits if limit is not None], default=None)


def test_a_bandwidth_that_is_set_is_told_and_holds(harness: Harness) -> None:
    session, channel = harness.open()
    channel.take()
    session.rule(Ruling(40.0))
    assert channel.take() == ["CONS,40"]
    assert session.max_bandwidth == 40.0
    session.rule(None)
    assert channel.take() == ["CONS,unlimited"]


def test_a_bandwidth_that_is_set_wins_over_what_the_adapter_allows(harness: Harness) -> None:
    session, channel = harness.open()
    session.admit(Admission(max_bandwidth=10.0), None)
    channel.take()
    session.rule(Ruling(None))
    assert channel.take() == ["CONS,unlimited"]
    # A later request is decided by what was set last.
    session.constrain(20.0)
    assert channel.take() == ["CONS,20"]
    session.rule(None)
    assert channel.take() == ["CONS,10"]


def test_a_client_that_may_not_manage_its_bandwidth_gets_what_is_set(harness: Harness) -> None:
    session, channel = harness.open()
    session.admit(Admission(manages_bandwidth=False), None)
    channel.take()
    session.rule(Ruling(7.5))
    # It is not told the number, because it is not asked about it either.
    assert channel.take() == ["CONS,unmanaged"]
    assert session.max_bandwidth == 7.5
    session.constrain(1.0)
    assert session.max_bandwidth == 7.5


def test_a_session_that_shares_its_stream_parts_when_its_bandwidth_is_set(harness: Harness) -> None:
    peers = [harness.open() for _ in range(2)]
    for session, _ in peers:
        harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    harness.advance(2.0)
    (first, first_channel), (_, second_channel) = peers
    assert [session.shares for session, _ in peers] == [True, True]
    for _, channel in peers:
        channel.take()
    first.rule(Ruling(1.0))
    assert not first.shares
    assert "CONS,1" in first_channel.take()
    harness.publish("a", x="2")
    assert "U,1,1,2" in second_channel.take()


def test_a_frequency_that_is_set_is_told_and_holds(harness: Harness) -> None:
    session, channel = harness.open()
    subscription = harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="0")
    channel.take()
    subscription.rule(Ruling(1.0))
    harness.turn()
    assert channel.take() == ["CONF,1,1.0,filtered"]
    for value in "123":
        harness.publish("a", x=value)
    sent = [line for line in channel.take() if line.startswith("U,")]
    harness.advance(1.5)
    sent += [line for line in channel.take() if line.startswith("U,")]
    assert len(sent) <= 2
    assert sent[-1] == "U,1,1,3"


def test_a_frequency_that_is_set_wins_over_what_the_adapter_allows(harness: Harness) -> None:
    session, channel = harness.open()
    granted = (ItemGrant("a", max_frequency=2.0), ItemGrant("b"))
    subscription = harness.subscribe(session, 1, "a b", "x", granted=granted)
    channel.take()
    subscription.rule(Ruling(5.0))
    harness.turn()
    assert channel.take() == ["CONF,1,5.0,filtered"]
    subscription.reconfigure(3.0)
    harness.turn()
    assert channel.take() == ["CONF,1,3.0,filtered"]
    subscription.rule(None)
    subscription.reconfigure(None)
    harness.turn()
    assert channel.take() == ["CONF,1,3.0,filtered", "CONF,1,unlimited,filtered"]


@pytest.mark.parametrize(("mode", "unfiltered"), [(Mode.RAW, False), (Mode.MERGE, True)])
def test_the_frequency_of_an_unfiltered_subscription_cannot_be_set(
    harness: Harness, mode: Mode, unfiltered: bool
) -> None:
    session, channel = harness.open()
    subscription = harness.subscribe(session, 1, "a", "x", mode, unfiltered=unfiltered)
    channel.take()
    with pytest.raises(Refusal, match="Subscription 1 is unfiltered") as refused:
        subscription.rule(Ruling(1.0))
    assert refused.value.reason is Reason.UNFILTERED
    assert subscription.ruling is None
    assert channel.take() == []


@given(
    allowed=LIMITS,
    manages=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from(["client", "administrator"]), LIMITS, st.booleans()), max_size=12),
)
def test_what_holds_is_the_lowest_of_what_was_asked_for_and_what_was_set_last(
    allowed: float | None, manages: bool, steps: list[tuple[str, float | None, bool]]
) -> None:
    harness = Harness()
    session, channel = harness.open()
    session.admit(Admission(max_bandwidth=allowed, manages_bandwidth=manages), None)
    subscription = harness.subscribe(session, 1, "a", "x", granted=(ItemGrant("a", max_frequency=allowed),))
    channel.take()
    asked: float | None = None
    ruled: Ruling | None = None
    for who, limit, lifts in steps:
        if who == "client":
            asked = limit
            session.constrain(limit)
            subscription.reconfigure(limit)
        else:
            ruled = None if lifts else Ruling(limit)
            session.rule(ruled)
            subscription.rule(ruled)
        most = allowed if ruled is None else ruled.limit
        harness.turn()
        assert session.max_bandwidth == lowest(most, asked if manages else None)
        assert subscription.max_frequency == lowest(most, asked)
        told = channel.take()
        assert sum(line.startswith("CONS,") for line in told) == 1
