from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import batch, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags


def msg(number: int, **changes: object) -> str:
    """The parameter line of a message with its number as request id."""
    return params(**{"reqId": number, "message": f"m{number}", "msg_prog": number, **changes})


@pytest.mark.conformance("msg.request")
def test_a_message_is_answered_processed_and_its_outcome_told(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert batch(exchange, stream.session, msg(1), name="msg") == ["REQOK,1"]
        assert stream.read_line() == "MSGDONE,*,1"
        socket.create()
        socket.send("msg", msg(1, message="by socket"))
        assert socket.read_until("MSGDONE") == ["REQOK,1", "MSGDONE,*,1"]
        assert server.metadata.messages == ["m1", "by socket"]


@pytest.mark.conformance("msg.LS_session")
def test_a_message_without_any_session_is_refused_naming_it(exchange: Exchange) -> None:
    assert exchange.request("msg", msg(1)) == ["REQERR,1,20,LS_session is missing"]


@pytest.mark.conformance("msg.LS_message")
def test_a_message_is_any_text_even_none(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        texts = ["", "ünïcode €", "a=b&c", "two\r\nlines", "x" * 10_000]
        for number, text in enumerate(texts, start=1):
            batch(exchange, stream.session, msg(number, message=text), name="msg")
            assert stream.read_line() == f"MSGDONE,*,{number}"
        assert server.metadata.messages == texts
        answers = batch(exchange, stream.session, params(reqId=9, msg_prog=9), name="msg")
        assert answers == ["REQERR,9,65,LS_message is missing"]


@pytest.mark.conformance("msg.LS_sequence")
def test_messages_of_a_sequence_are_processed_by_their_numbers(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for number in (3, 2, 1):
            batch(exchange, stream.session, msg(number, sequence="My_seq_1"), name="msg")
        assert [stream.read_line() for _ in range(3)] == [f"MSGDONE,My_seq_1,{number}" for number in (1, 2, 3)]
        assert server.metadata.messages == ["m1", "m2", "m3"]


@pytest.mark.conformance("msg.LS_sequence.omitted")
def test_messages_without_a_sequence_do_not_wait_for_one_another(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, msg(5), msg(2), name="msg")
        assert sorted([stream.read_line(), stream.read_line()]) == ["MSGDONE,*,2", "MSGDONE,*,5"]


@pytest.mark.parametrize(
    "name",
    [
        row("msg.LS_sequence.reserved", "UNORDERED_MESSAGES"),
        row("msg.LS_sequence.invalid", "a-b"),
        row("msg.LS_sequence.empty", ""),
    ],
)
def test_a_sequence_name_that_is_not_allowed_is_error_65_naming_it(exchange: Exchange, name: str) -> None:
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, msg(1, sequence=name), name="msg")
        assert line.startswith(f"REQERR,1,65,LS_sequence={name}: expected")


@pytest.mark.conformance("msg.LS_msg_prog")
def test_a_message_number_is_needed_for_a_sequence_or_an_outcome(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for extra in ({}, {"sequence": "s"}, {"sequence": "s", "outcome": False}):
            (line,) = batch(exchange, stream.session, params(reqId=1, message="m", **extra), name="msg")
            assert line.startswith("REQERR,1,65,LS_msg_prog is missing")
        answers = batch(exchange, stream.session, params(reqId=1, message="m", outcome=False), name="msg")
        assert answers == ["REQOK,1"]
        assert server.metadata.messages == ["m"]


@pytest.mark.conformance("msg.LS_msg_prog.invalid")
def test_a_message_number_is_a_whole_number_from_1(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for value in ("0", "-1", "first", "1.0"):
            (line,) = batch(exchange, stream.session, msg(1, msg_prog=value), name="msg")
            assert line.startswith(f"REQERR,1,65,LS_msg_prog={value}")


@pytest.mark.conformance("msg.LS_msg_prog.check")
def test_a_message_number_is_checked_for_duplicates_even_without_sequence_and_outcome(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, msg(1, outcome=False), name="msg") == ["REQOK,1"]
        (line,) = batch(exchange, stream.session, msg(1, outcome=False), name="msg")
        assert line.startswith("REQERR,1,33,LS_msg_prog")
        assert server.metadata.messages == ["m1"]


@pytest.mark.conformance("msg.LS_max_wait")
def test_a_message_waits_for_missing_ones_as_long_as_the_client_says(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream(keepalive_millis=30_000, send_sync=False) as stream:
        batch(exchange, stream.session, msg(2, sequence="s", max_wait=3000), name="msg")
        clock.advance(2.9)
        assert server.metadata.messages == []
        clock.advance(0.2)
        assert tags([stream.read_line(), stream.read_line()]) == ["MSGFAIL", "MSGDONE"]
        assert server.metadata.messages == ["m2"]
        (line,) = batch(exchange, stream.session, msg(4, sequence="s", max_wait="-1"), name="msg")
        assert line.startswith("REQERR,4,65,LS_max_wait=-1")


@pytest.mark.conformance("msg.LS_max_wait.too-high")
def test_a_message_waits_no_longer_than_the_server_is_configured_for(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.socket() as socket:
        socket.create(keepalive_millis=30_000, send_sync=False)
        socket.send("msg", msg(2, sequence="s", max_wait=3_600_000), msg(2, sequence="t", reqId=3))
        assert [socket.read_line(), socket.read_line()] == ["REQOK,2", "REQOK,3"]
        clock.advance(30.1)
        lines = [line for line in (socket.read_line() for _ in range(5)) if line != "PROBE"]
        assert sorted(tags(lines)) == ["MSGDONE", "MSGDONE", "MSGFAIL", "MSGFAIL"]


@pytest.mark.conformance("msg.LS_ack")
def test_the_acknowledgement_of_a_message_is_left_out_on_request_on_a_websocket_only(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("msg", msg(1, ack=False))
        assert socket.read_line() == "MSGDONE,*,1"
        socket.send("msg", msg(1, ack=False))
        assert socket.read_line().startswith("REQERR,1,33,")
        assert batch(exchange, socket.session, msg(2, ack=False), name="msg") == ["REQOK,2"]


@pytest.mark.conformance("msg.LS_outcome")
def test_the_outcome_is_left_out_on_request(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("msg", msg(1, outcome=False, message="refuse"), msg(2, outcome=False), msg(3, outcome=True))
        assert socket.read_until("MSGDONE") == ["REQOK,1", "REQOK,2", "REQOK,3", "MSGDONE,*,3"]
        # Fire and forget: neither acknowledgement nor outcome.
        socket.send("msg", msg(4, outcome=False, ack=False), msg(5))
        assert socket.read_until("MSGDONE") == ["REQOK,5", "MSGDONE,*,5"]
        assert server.metadata.messages == ["m2", "m3", "m4", "m5"]


@pytest.mark.parametrize("name", [row(f"msg.{name}.invalid", name) for name in ("LS_ack", "LS_outcome")])
def test_a_switch_is_true_or_false(exchange: Exchange, name: str) -> None:
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, f"{msg(1)}&{name}=perhaps", name="msg")
        assert line == f"REQERR,1,65,{name}=perhaps: expected true or false"
