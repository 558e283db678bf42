from __future__ import annotations

import pytest

from penstock.wire.tlex.datagrams import Bye, decode
from penstock.wire.tlex.reasons import MAX_REASON, EndReason, Reason


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_can_be_sent_alone_and_with_details(reason: Reason) -> None:
    assert decode(reason.bye().encode()) == Bye(reason.text)
    assert decode(reason.bye("12 per second").encode()) == Bye(f"{reason.text}: 12 per second")


def test_no_two_reasons_say_the_same() -> None:
    assert len({reason.text for reason in Reason}) == len(Reason)


def test_details_that_cannot_be_sent_are_replaced_and_cut_off() -> None:
    assert Reason.DELETED.bye("caf\xe9") == Bye("session deleted: caf?")
    assert len(Reason.DELETED.bye("x" * 70_000).reason) == MAX_REASON


def test_the_ends_of_sessions_are_those_of_the_wider_interface() -> None:
    assert {str(end) for end in EndReason} == {
        "CLIENT_DISCONNECT",
        "SESSION_EXPIRED",
        "ADMIN_TERMINATION",
        "TLC_DELETED",
        "TOKEN_REVOKED",
        "CONNECTION_ERROR",
        "PROTOCOL_ERROR",
    }
