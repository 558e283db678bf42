from __future__ import annotations

import pytest

from penstock.doors.tlex.messages import BYES, MAX_REASON, TlexMessages
from penstock.exchange.farewells import Farewell
from penstock.wire.tlex.datagrams import Bye, KeepAlive, Reconnect, TimestampsRequest, TimestampsResponse, decode

MESSAGES = TlexMessages()

# Clients may look for them: they stay as they are.
TEXTS = [
    (Farewell.SHUTDOWN, "normal shutdown"),
    (Farewell.MAINTENANCE, "system maintenance"),
    (Farewell.DELETED, "session deleted"),
    (Farewell.TLC_DELETED, "TLC deleted"),
    (Farewell.TOKEN_REVOKED, "authorization token revoked"),
    (Farewell.PROTOCOL_VIOLATION, "protocol violation"),
    (Farewell.KEEP_ALIVE, "keep alive timeout"),
    (Farewell.CLOCK_DIFFERENCE, "time sync failure"),
    (Farewell.PAYLOAD_RATE, "payload rate limit exceeded"),
    (Farewell.PAYLOAD_THROUGHPUT, "payload throughput limit exceeded"),
    (Farewell.CUT_OFF, "node cut off"),
]


@pytest.mark.parametrize(("farewell", "text"), TEXTS)
def test_every_farewell_can_be_sent_alone_and_with_details(farewell: Farewell, text: str) -> None:
    assert decode(MESSAGES.bye(farewell, "")) == Bye(text)
    assert decode(MESSAGES.bye(farewell, "12 per second")) == Bye(f"{text}: 12 per second")


def test_every_farewell_has_words_and_no_two_have_the_same() -> None:
    assert set(BYES) == set(Farewell) == {farewell for farewell, _ in TEXTS}
    assert len(set(BYES.values())) == len(Farewell)


def test_details_that_cannot_be_sent_are_replaced_and_cut_off() -> None:
    assert decode(MESSAGES.bye(Farewell.DELETED, "caf\xe9")) == Bye("session deleted: caf?")
    longest = decode(MESSAGES.bye(Farewell.DELETED, "x" * 70_000))
    assert isinstance(longest, Bye)
    assert len(longest.reason) == MAX_REASON


def test_the_other_messages_are_their_datagrams() -> None:
    assert decode(MESSAGES.keep_alive) == KeepAlive()
    assert decode(MESSAGES.reconnect) == Reconnect()
    assert decode(MESSAGES.ask(5)) == TimestampsRequest(5)
    assert decode(MESSAGES.answer(5, 6, 7)) == TimestampsResponse(5, 6, 7)
