"""The states of a connection are a table, and its pauses grow."""

from __future__ import annotations

from penstock.connections.machine import BackOff, ConnectionState, StateChange, after


def test_a_connection_that_fails_is_tried_again_until_it_is_closed() -> None:
    state = ConnectionState.CLOSED
    course = [
        (StateChange.OPEN, ConnectionState.CONNECTING),
        (StateChange.LOST, ConnectionState.FAILED),
        (StateChange.PAUSE_OVER, ConnectionState.CONNECTING),
        (StateChange.CONNECTED, ConnectionState.OPEN),
        (StateChange.REFUSED, ConnectionState.MISCONFIGURED),
        (StateChange.PAUSE_OVER, ConnectionState.CONNECTING),
        (StateChange.CLOSE, ConnectionState.CLOSING),
        (StateChange.CONNECTED, ConnectionState.CLOSING),
        (StateChange.ENDED, ConnectionState.CLOSED),
    ]
    for happening, expected in course:
        state = after(state, happening)
        assert state is expected


def test_every_state_can_be_closed() -> None:
    for state in set(ConnectionState) - {ConnectionState.CLOSED}:
        assert after(after(state, StateChange.CLOSE), StateChange.ENDED) is ConnectionState.CLOSED


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_steady_time() -> None:
    back_off = BackOff(1.0, 8.0)
    assert [back_off.pause() for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert back_off.pause(seconds_open=3.0) == 8.0
    assert [back_off.pause(seconds_open=60.0), back_off.pause()] == [1.0, 2.0]
