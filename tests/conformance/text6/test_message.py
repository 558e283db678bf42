from __future__ import annotations

import asyncio

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import row
from tests.conformance.text6.phrases import OK, SYNC_ERROR, Device, error
from tests.support.background import BackgroundServer
from tests.support.raw import params


@pytest.mark.conformance("text6.message.synchronous")
def test_a_message_without_sequence_is_answered_when_it_has_been_processed(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        for text in ("first", "second", "first"):
            assert device.message(tap.session, message=text) == OK
            assert server.metadata.messages[-1] == text
        # The push contents do not speak of it.
        assert device.message(tap.session, message="m", sequence="s", msg_prog=1) == OK
        assert tap.read_line() == "MSG,s,1,DONE"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        row("text6.message.synchronous.negative", "refuse with code", error(-3, "refused, on purpose")),
        row("text6.message.synchronous.34", "refuse", error(34, "refused, on purpose")),
        row("text6.message.synchronous.35", "crash", error(35, "The metadata adapter failed on this message")),
    ],
)
def test_a_synchronous_message_that_fails_is_answered_with_its_code(device: Device, text: str, expected: str) -> None:
    with device.create() as tap:
        assert device.message(tap.session, message=text) == expected
        assert device.message(tap.session, message="next") == OK


@pytest.mark.conformance("text6.message.asynchronous")
def test_a_message_of_a_sequence_is_taken_in_and_its_outcome_told_in_the_stream(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        assert device.message(tap.session, message="m", sequence="orders", msg_prog=1) == OK
        assert tap.read_line() == "MSG,orders,1,DONE"
        assert server.metadata.messages == ["m"]


@pytest.mark.conformance("text6.message.limit")
@pytest.mark.config({"limits.max_pending_messages": 3})
def test_more_messages_without_an_outcome_than_configured_wait_to_be_taken_in(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = server.call(asyncio.Event)

    async def message(*_: object) -> None:
        await gate.wait()

    monkeypatch.setattr(server.metadata, "message", message)
    with device.create() as tap:
        for number in range(1, 4):
            assert device.message(tap.session, message="m", sequence="s", msg_prog=number) == OK
        with device.exchange.http() as http:
            line = params(session=tap.session, message="m", sequence="s", msg_prog=4)
            http.post("send_message", line, query="")
            # Meanwhile others are answered.
            assert device.control(tap.session, op="constrain") == OK
            server.call(gate.set)
            http.read_head()
            assert http.read_body().decode() == OK
        assert [tap.read_line() for _ in range(4)] == [f"MSG,s,{number},DONE" for number in range(1, 5)]


@pytest.mark.conformance("text6.message.LS_session")
def test_a_message_belongs_to_a_session(device: Device) -> None:
    for more in ({}, {"sequence": "s", "msg_prog": 1}):
        assert device.fail("send_message", params(message="m", **more)) == "LS_session is missing\n"
        for session in ("", "nonsense"):
            assert device.message(session, message="m", **more) == SYNC_ERROR


@pytest.mark.conformance("text6.message.LS_message")
def test_a_message_is_any_text_even_none(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        texts = ["", "ünïcode €", "a=b&c", "two\r\nlines", "x" * 10_000]
        for text in texts:
            assert device.message(tap.session, message=text) == OK
        assert server.metadata.messages == texts
        assert device.fail("send_message", params(session=tap.session)) == "LS_message is missing\n"


@pytest.mark.conformance("text6.message.LS_sequence")
def test_messages_of_a_sequence_are_processed_by_their_numbers(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        for number in (3, 2, 1):
            assert device.message(tap.session, message=f"m{number}", sequence="My_seq_1", msg_prog=number) == OK
        assert tap.read(3) == [f"MSG,My_seq_1,{number},DONE" for number in (1, 2, 3)]
        assert server.metadata.messages == ["m1", "m2", "m3"]


@pytest.mark.conformance("text6.message.LS_sequence.UNORDERED_MESSAGES")
def test_unordered_messages_do_not_wait_for_one_another_and_have_unique_numbers(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        for number in (5, 2):
            request = {"sequence": "UNORDERED_MESSAGES", "msg_prog": number, "max_wait": 10**6}
            assert device.message(tap.session, message=f"m{number}", **request) == OK
            assert tap.read_line() == f"MSG,UNORDERED_MESSAGES,{number},DONE"
        assert server.metadata.messages == ["m5", "m2"]
        answer = device.message(tap.session, message="again", sequence="UNORDERED_MESSAGES", msg_prog=5)
        assert answer == error(33, "LS_msg_prog: Message number 5 is already enqueued")
        device.message(tap.session, message="refuse", sequence="UNORDERED_MESSAGES", msg_prog=1)
        assert tap.read_line() == "MSG,UNORDERED_MESSAGES,1,ERR,34,refused, on purpose"


@pytest.mark.conformance("text6.message.LS_sequence.invalid")
def test_a_sequence_is_letters_digits_and_underscores_and_comes_with_a_number(device: Device) -> None:
    with device.create() as tap:
        for name in ("", "a-b", "ä", "a,b", "x" * 257):
            text = device.fail("send_message", params(session=tap.session, message="m", sequence=name, msg_prog=1))
            assert text.startswith("LS_sequence=")
        text = device.fail("send_message", params(session=tap.session, message="m", sequence="s"))
        assert text == "LS_msg_prog is missing; it is required with LS_sequence\n"


@pytest.mark.conformance("text6.message.LS_msg_prog")
def test_a_message_number_is_a_whole_number_from_1_and_comes_with_a_sequence(device: Device) -> None:
    with device.create() as tap:
        for value in ("0", "-1", "first", "1.0"):
            text = device.fail("send_message", params(session=tap.session, message="m", sequence="s", msg_prog=value))
            assert text.startswith(f"LS_msg_prog={value}: expected")
        text = device.fail("send_message", params(session=tap.session, message="m", msg_prog=1))
        assert text == "LS_sequence is missing; it is required with LS_msg_prog\n"


@pytest.mark.conformance("text6.message.LS_max_wait")
def test_a_message_waits_for_missing_ones_as_long_as_the_client_says(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create() as tap:
        device.message(tap.session, message="m2", sequence="s", msg_prog=2, max_wait=3000)
        clock.advance(2.9)
        assert server.metadata.messages == []
        clock.advance(0.2)
        assert [line[:11] for line in tap.read(2)] == ["MSG,s,1,ERR", "MSG,s,2,DON"]
        assert server.metadata.messages == ["m2"]


@pytest.mark.conformance("text6.message.LS_max_wait.limit")
def test_a_message_waits_no_longer_than_the_server_is_configured_for(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create(polling=True, polling_millis=15_000, idle_millis=0) as tap:
        device.message(tap.session, message="m", sequence="s", msg_prog=2, max_wait=3_600_000)
        device.message(tap.session, message="m", sequence="t", msg_prog=2)
        for _ in range(2):
            clock.advance(14)
            with device.bind(tap.session, polling=True, polling_millis=15_000) as poll:
                assert poll.read_rest() == "LOOP 15000\r\n"
        clock.advance(2.1)
        with device.bind(tap.session, polling=True) as poll:
            lines = poll.read_rest().split("\r\n")
        assert sorted(line.split(",")[3] for line in lines if line.startswith("MSG")) == ["DONE", "DONE", "ERR", "ERR"]


@pytest.mark.conformance("text6.message.LS_max_wait.invalid")
def test_a_time_to_wait_is_a_number_of_milliseconds(device: Device) -> None:
    with device.create() as tap:
        for value in ("-1", "long", "1.5"):
            line = params(session=tap.session, message="m", sequence="s", msg_prog=1, max_wait=value)
            assert device.fail("send_message", line).startswith(f"LS_max_wait={value}: expected")


@pytest.mark.conformance("text6.message.unbound")
def test_outcomes_are_kept_while_nobody_is_bound(device: Device) -> None:
    with device.create(polling=True) as tap:
        for number in (1, 2):
            assert device.message(tap.session, message="m", sequence="s", msg_prog=number) == OK
        with device.bind(tap.session) as again:
            assert again.read(2) == ["MSG,s,1,DONE", "MSG,s,2,DONE"]


@pytest.mark.conformance("text6.message.closed")
def test_a_session_that_closes_while_a_message_is_under_way_is_a_sync_error(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = server.server.kernel.sessions

    async def fatal(*_: object) -> None:
        """An adapter that ends the session of whoever sends it a message."""
        for session in list(sessions.values()):
            session.close(32, "closed by the message")

    monkeypatch.setattr(server.metadata, "message", fatal)
    with device.create() as tap:
        assert device.message(tap.session, message="m") == SYNC_ERROR
        assert tap.read_rest() == "END 32\r\n"
