from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.testing.text6_push import (
    End,
    EndOfSnapshot,
    Loop,
    MessageDone,
    MessageFailed,
    Overflow,
    Probe,
    Push,
    Update,
    parse_push,
)
from penstock.testing.text6_reader import Accepted, OutOfSync, PushReader, RefusedRequest, Text6Answer
from penstock.wire.text6 import answers
from penstock.wire.text6.codec import Text6Codec
from penstock.wire.text6.errors import BadPush
from tests.wire.reading import one_by_one, pieces

CODEC = Text6Codec()
HEADER = answers.header("S1", 5_000, None, True, server_name="a:b \u00e9", preamble=100)
OPENED = Accepted(
    (("SessionId", "S1"), ("KeepaliveMillis", "5000"), ("MaxBandwidth", "0"), ("ServerName", "a:b \u00e9"))
)

# -- lines -------------------------------------------------------------------------------------------------------------

LINES: list[tuple[str, Push]] = [
    ("1,1|10.5|+12.5%|12:55:56", Update(1, 1, "10.5|+12.5%|12:55:56")),
    ("1,1||ZIDANE ELECTED \\u0022MVP\\u0022|", Update(1, 1, "|ZIDANE ELECTED \\u0022MVP\\u0022|")),
    ("12,34|", Update(12, 34, "")),
    ("1,1|a,EOS", Update(1, 1, "a,EOS")),
    ("3,1,EOS", EndOfSnapshot(3, 1)),
    ("3,1,OV5", Overflow(3, 1, 5)),
    ("MSG,Orders_Sequence,3,DONE", MessageDone("Orders_Sequence", 3)),
    ("MSG,s,4,ERR,38,skipped, by \\u00E9", MessageFailed("s", 4, 38, "skipped, by é")),
    ("MSG,UNORDERED_MESSAGES,4,ERR,-1,", MessageFailed("UNORDERED_MESSAGES", 4, -1, "")),
    ("PROBE", Probe()),
    ("LOOP", Loop(0)),
    ("LOOP 5000", Loop(5_000)),
    ("END", End(None)),
    ("END 31", End(31)),
    ("END -2", End(-2)),
]


@pytest.mark.parametrize(("line", "push"), LINES)
def test_every_push_message_is_read_as_what_it_is(line: str, push: Push) -> None:
    assert parse_push(line) == push


@pytest.mark.parametrize("tail", [" ", "\r", "\n", "\0"])
@pytest.mark.parametrize(("line", "push"), LINES)
def test_a_line_with_something_behind_it_is_not_the_same_message(line: str, push: Push, tail: str) -> None:
    if isinstance(push, Update | MessageFailed) and tail != "\n":
        # These end in text: it has become longer.
        assert parse_push(line + tail) != push
    else:
        with pytest.raises(BadPush, match="Not a push message"):
            parse_push(line + tail)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "probe",
        "1",
        "1,1",
        "1|a",
        "a,1|x",
        "1,-1|x",
        "1,1,OV",
        "1,1,eos",
        "\u0661,1|x",
        "LOOP -1",
        "LOOP5",
        "END x",
        "MSG,s,1",
        "MSG,s,1,ERR",
        "MSG,s,1,ERR,5",
        "MSG,,1,DONE",
        "MSG,a b,1,DONE",
        "U,1,1,x",
        "SYNC,5",
        "9" * 5_000 + ",1|x",
    ],
)
def test_what_is_no_push_message_is_a_bad_line(line: str) -> None:
    with pytest.raises(BadPush, match="Not a push message") as caught:
        parse_push(line)
    assert len(str(caught.value)) < 200


# -- connections, whole, byte by byte, in any pieces, and with bytes behind them ---------------------------------------

Events = list[Text6Answer | Push]

PUSHES = b"".join([CODEC.probe(), b"1,1|a|$\r\n", CODEC.end_of_snapshot(1, 1), CODEC.message_done("s", 1, "")])
PUSHED: Events = [Probe(), Update(1, 1, "a|$"), EndOfSnapshot(1, 1), MessageDone("s", 1)]

# Bytes, whether a stream connection, what is read, whether nothing can come after it.
CONNECTIONS: list[tuple[bytes, bool, Events, bool]] = [
    (HEADER, True, [OPENED], False),
    (HEADER + PUSHES, True, [OPENED, *PUSHED], False),
    (HEADER + PUSHES + CODEC.loop(0), True, [OPENED, *PUSHED, Loop(0)], True),
    (HEADER + CODEC.loop(500), True, [OPENED, Loop(500)], True),
    (HEADER + CODEC.end(31, ""), True, [OPENED, End(31)], True),
    (answers.error(2, "no such set"), True, [RefusedRequest(2, "no such set")], True),
    (answers.SYNC_ERROR, True, [OutOfSync()], True),
    (answers.ended(48), True, [End(48)], True),
    (answers.OK, False, [Accepted()], False),
    (answers.error(-7, "no\r\nno"), False, [RefusedRequest(-7, "no\r\nno")], False),
    (
        answers.OK + answers.error(19, "OK") + answers.SYNC_ERROR + answers.OK,
        False,
        [Accepted(), RefusedRequest(19, "OK"), OutOfSync(), Accepted()],
        False,
    ),
]


def read(data: bytes, stream: bool, sizes: Iterable[int]) -> tuple[Events, PushReader]:
    reader = PushReader(stream)
    found: Events = []
    for piece in pieces(data, sizes):
        found += reader.feed(piece)
    return found, reader


@pytest.mark.parametrize(("data", "stream", "events", "finished"), CONNECTIONS)
def test_a_connection_reads_the_same_whole_and_byte_by_byte(
    data: bytes, stream: bool, events: Events, finished: bool
) -> None:
    for sizes in ([], one_by_one(data)):
        found, reader = read(data, stream, sizes)
        assert found == events
        assert reader.finished is finished
        assert reader.close() == []


@pytest.mark.parametrize("tail", [b"x", b"\r\n", b"PROBE\r\n", b"\xff\r\n", b"OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
@pytest.mark.parametrize(("data", "stream", "events", "finished"), [row for row in CONNECTIONS if row[3]])
def test_bytes_behind_the_last_line_are_ignored(
    data: bytes, stream: bool, events: Events, finished: bool, tail: bytes
) -> None:
    for sizes in ([], one_by_one(data + tail)):
        found, reader = read(data + tail, stream, sizes)
        assert found == events
        assert reader.finished
        assert reader.close() == []


@pytest.mark.parametrize(("data", "stream", "events", "finished"), CONNECTIONS)
def test_a_connection_that_is_cut_off_gives_what_was_complete_and_says_so(
    data: bytes, stream: bool, events: Events, finished: bool
) -> None:
    growing = PushReader(stream)
    complete: Events = []
    for length in range(1, len(data)):
        ended = growing.feed(data[length - 1 : length])
        complete += ended
        found, reader = read(data[:length], stream, [])
        assert found == complete == events[: len(found)]
        if data[:length] == b"END\r\n":
            assert reader.close() == [End(None)]
        elif ended:
            assert reader.close() == []
        else:
            with pytest.raises(BadPush, match="Cut off"):
                reader.close()


@given(st.sampled_from(CONNECTIONS), st.lists(st.integers(1, 40), max_size=60))
def test_a_connection_reads_the_same_in_pieces_of_any_size(
    row: tuple[bytes, bool, Events, bool], sizes: list[int]
) -> None:
    data, stream, events, finished = row
    found, reader = read(data, stream, sizes)
    assert (found, reader.finished) == (events, finished)


def test_an_end_without_a_cause_is_known_when_the_connection_closes() -> None:
    found, reader = read(answers.ended(None), True, [])
    assert found == []
    assert reader.close() == [End(None)]
    assert reader.close() == []


def test_lines_of_a_header_are_found_by_name() -> None:
    assert OPENED["SessionId"] == "S1"
    with pytest.raises(KeyError):
        OPENED["RequestLimit"]


@pytest.mark.parametrize(
    ("data", "stream"),
    [
        (b"<html>\r\n", True),
        (b"CONOK,S1\r\n", True),
        (b"END\r\n31\r\n", False),
        (b"PROBE\r\n", False),
        (b"\r\n", True),
        (b"ERROR\r\nx\r\ny\r\n", False),
        (b"END\r\nPROBE\r\n", True),
        (b"OK\r\nSessionId\r\n\r\n", True),
        (b"\xff\r\n", True),
        (HEADER + b"hello\r\n", True),
        (HEADER + b"1,1|\xc3\xa9\r\n", True),
    ],
)
def test_what_is_not_of_this_protocol_is_a_bad_line(data: bytes, stream: bool) -> None:
    for sizes in ([], one_by_one(data)):
        with pytest.raises(BadPush):
            read(data, stream, sizes)
