"""The recovery property in memory: cut anywhere, recover from anywhere, and the client has no gap and no double."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.events import ClientEvent
from penstock.client.requests import StreamWishes
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.limits import SessionLimits
from tests.recovery.scenario import LONG_POLLING, POLLING, SHORT, STEPS, STREAMING, Cut, Manner, Run, every_cut

pytestmark = pytest.mark.timeout(600)

ALL_AT_ONCE = len(STEPS)

MANNERS = {
    "streaming, read at once": Manner(STREAMING, 1),
    "streaming, read in the end": Manner(STREAMING, ALL_AT_ONCE),
    "short streams, read at once": Manner(SHORT, 1),
    "short streams, read now and then": Manner(SHORT, 4, may_conflate=True),
    "polling now and then": Manner(POLLING, 5),
    "long polling, read at once": Manner(LONG_POLLING, 1),
}

EVERY_MANNER = pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS.keys())


def uncut(manner: Manner) -> list[ClientEvent]:
    return Run(manner).play()


def test_the_scenario_has_every_kind_of_data_notification_it_should() -> None:
    names = {type(event).__name__ for event in uncut(Manner(STREAMING, 1))}
    assert names == {
        "Subscribed",
        "Configured",
        "Update",
        "EndOfSnapshot",
        "MessageDone",
        "MessageFailed",
        "Unsubscribed",
    }


@EVERY_MANNER
def test_a_cut_at_every_byte_is_recovered_without_gap_or_double(manner: Manner) -> None:
    expected = uncut(manner)
    for size in every_cut(manner):
        run = Run(manner, [Cut(size)])
        assert run.play() == expected, f"cut after {size} bytes"
        assert run.peer.state.received == run.peer.session.log.sent


@EVERY_MANNER
def test_a_cut_at_every_byte_may_be_recovered_from_an_earlier_point(manner: Manner) -> None:
    expected = uncut(manner)
    for size in every_cut(manner):
        run = Run(manner, [Cut(size, back=1 + size % 7)])
        assert run.play() == expected, f"cut after {size} bytes"


@pytest.mark.parametrize("wishes", [SHORT, POLLING, LONG_POLLING], ids=["short streams", "polling", "long polling"])
@pytest.mark.parametrize("pace", [4, ALL_AT_ONCE])
def test_a_stream_cut_at_every_byte_may_be_recovered_by_another_kind_of_connection(
    wishes: StreamWishes, pace: int
) -> None:
    manner = Manner(STREAMING, pace, may_conflate=True)
    expected = uncut(manner)
    for size in every_cut(manner):
        assert Run(manner, [Cut(size, size % 3, wishes)]).play() == expected, f"cut after {size} bytes"


@EVERY_MANNER
@given(
    cuts=st.lists(
        st.builds(Cut, size=st.one_of(st.integers(0, 60), st.integers(0, 1_500)), back=st.integers(0, 40)),
        min_size=2,
        max_size=12,
    )
)
def test_recoveries_that_are_cut_themselves_are_recovered_without_gap_or_double(
    manner: Manner, cuts: list[Cut]
) -> None:
    assert Run(manner, cuts).play() == uncut(manner)


@pytest.mark.parametrize("kept", [0, 60, 200, 350])
def test_what_is_not_kept_any_more_is_refused_at_every_byte_and_never_replayed_wrongly(kept: int) -> None:
    manner = Manner(STREAMING, ALL_AT_ONCE)
    expected = uncut(manner)
    outcomes: set[Reason | None] = set()
    for size in every_cut(manner):
        run = Run(manner, [Cut(size)], SessionLimits(max_recovery_length=kept))
        try:
            events = run.play()
        except Refusal as refusal:
            outcomes.add(refusal.reason)
            missing = run.peer.session.log.first - run.peer.state.received
            assert missing > 0, f"cut after {size} bytes"
        else:
            outcomes.add(None)
            assert events == expected, f"cut after {size} bytes"
    assert outcomes == {None, Reason.RECOVERY}
