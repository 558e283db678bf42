"""The states of a connection, and what leads from one to the next: a table. Also how long a failed one waits."""

from __future__ import annotations

from enum import StrEnum


class ConnectionState(StrEnum):
    CLOSED = "closed"
    CONNECTING = "connecting"
    OPEN = "open"
    # The broker could not be reached, or was lost: it is tried again after a pause.
    FAILED = "failed"
    # Trying again does not help: something in the document is wrong.
    MISCONFIGURED = "misconfigured"
    CLOSING = "closing"


class StateChange(StrEnum):
    OPEN = "open"
    CONNECTED = "connected"
    LOST = "lost"
    REFUSED = "refused"
    PAUSE_OVER = "pause over"
    CLOSE = "close"
    ENDED = "ended"


_S, _H = ConnectionState, StateChange

# What is not here cannot happen, or changes nothing.
TRANSITIONS: dict[tuple[ConnectionState, StateChange], ConnectionState] = {
    (_S.CLOSED, _H.OPEN): _S.CONNECTING,
    (_S.CONNECTING, _H.CONNECTED): _S.OPEN,
    (_S.CONNECTING, _H.LOST): _S.FAILED,
    (_S.CONNECTING, _H.REFUSED): _S.MISCONFIGURED,
    (_S.OPEN, _H.LOST): _S.FAILED,
    (_S.OPEN, _H.REFUSED): _S.MISCONFIGURED,
    (_S.FAILED, _H.PAUSE_OVER): _S.CONNECTING,
    # Whoever mends the other side need not tell us.
    (_S.MISCONFIGURED, _H.PAUSE_OVER): _S.CONNECTING,
    (_S.CONNECTING, _H.CLOSE): _S.CLOSING,
    (_S.OPEN, _H.CLOSE): _S.CLOSING,
    (_S.FAILED, _H.CLOSE): _S.CLOSING,
    (_S.MISCONFIGURED, _H.CLOSE): _S.CLOSING,
    (_S.CLOSING, _H.ENDED): _S.CLOSED,
}


def after(state: ConnectionState, happening: StateChange) -> ConnectionState:
    return TRANSITIONS.get((state, happening), state)


# Seconds between two attempts: the first pause, and the longest. Each is twice the one before.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0

# A connection that was open for so long, in seconds, begins with the first pause again.
STEADY_SECONDS = 10.0


class BackOff:
    """How long to wait before the next attempt."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._first = self._next = first
        self._longest = longest

    def pause(self, seconds_open: float = 0.0) -> float:
        if seconds_open >= STEADY_SECONDS:
            self._next = self._first
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause
