"""The client's side of HTTP/2: against h2 as its server, frame by frame, and against what no server may send."""

from __future__ import annotations

from collections.abc import Iterable

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire import http2
from penstock.wire.http2 import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    MAX_ANSWERS,
    MAX_BLOCK,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    SHORTEST_MAX_FRAME,
    WINDOW_UPDATE,
    AnswerBody,
    AnswerHead,
    GoAway,
    Http2Client,
    Http2Event,
    Ready,
    Reset,
)
from penstock.wire.http2_headers import NO_TABLE, packed

REQUEST = packed([(":method", "POST"), (":scheme", "https"), (":authority", "h"), (":path", "/")])
OK = b"\x88"


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def setting(name: int, value: int) -> bytes:
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


GREETING = frame(SETTINGS)


def ready(*settings: bytes, requests: int = 0, body: bytes = b"") -> Http2Client:
    """A client that has been greeted, and has begun requests; nothing of that is left to be sent."""
    client = Http2Client()
    (event,) = client.receive(frame(SETTINGS, payload=b"".join(settings)))
    assert isinstance(event, Ready)
    for number in range(requests):
        assert client.begin(REQUEST, body) == 2 * number + 1
    client.take()
    return client


def has_room(client: Http2Client) -> bool:
    return client.has_room


def described(events: Iterable[Http2Event]) -> list[tuple[object, ...]]:
    return [(type(event).__name__, *(getattr(event, name) for name in _names(event))) for event in events]


def _names(event: Http2Event) -> tuple[str, ...]:
    for kind, names in (
        (AnswerHead, ("stream", "block", "is_last")),
        (AnswerBody, ("stream", "data", "is_last")),
        (Reset, ("stream", "code")),
        (GoAway, ("last", "code")),
    ):
        if isinstance(event, kind):
            return names
    return ("stream",)


# -- against h2 --------------------------------------------------------------------------------------------------------

REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 3).map(lambda parts: b"x" * (parts * 9_000 + parts)),
        st.integers(0, 40_000),
        st.sampled_from([200, 204, 410, 503]),
        st.binary(max_size=300),
    ),
    max_size=12,
)


@given(
    requests=REQUESTS,
    streams=st.integers(1, 5),
    window=st.sampled_from([1_000, FIRST_WINDOW, 1 << 20]),
    size=st.integers(1, 70_000),
    is_dripping=st.booleans(),
)
def test_h2_gets_every_request_and_every_answer_comes_back(
    requests: list[tuple[bytes, int, int, bytes]], streams: int, window: int, size: int, is_dripping: bool
) -> None:
    """Headers of any length, bodies beyond the windows, bytes that arrive in any pieces."""
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    initial = {
        h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: streams,
        h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
        h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 1 << 20,
    }
    server.local_settings = h2.settings.Settings(client=False, initial_values=initial)
    server.initiate_connection()
    client = Http2Client()
    waiting = list(enumerate(requests))
    wanted: dict[int, int] = {}
    answers: dict[int, tuple[int, bytes]] = {}
    heads: dict[int, dict[str, str]] = {}
    bodies: dict[int, bytes] = {}
    replies: dict[int, list[bytes]] = {}
    is_new = True
    while True:
        while waiting and has_room(client):
            place, (long, length, *_) = waiting.pop(0)
            block = (
                (NO_TABLE if is_new else b"") + REQUEST + packed([("x-number", str(place)), ("x-long", long.decode())])
            )
            is_new = False
            wanted[client.begin(block, b"b" * length)] = place
        to_server, to_client = client.take(), server.data_to_send()
        if not to_server and not to_client:
            break
        for piece in pieces(to_server, size):
            for event in server.receive_data(piece):
                if isinstance(event, h2.events.RequestReceived):
                    heads[event.stream_id] = {str(name): str(value) for name, value in event.headers}
                    bodies[event.stream_id] = b""
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                    server.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    _, _, status, content = requests[int(heads[event.stream_id]["x-number"])]
                    server.send_headers(event.stream_id, [(":status", str(status)), ("x", "y")], end_stream=not content)
                    if content:
                        server.send_data(event.stream_id, content, end_stream=True, pad_length=5)
        for piece in pieces(to_client, 1 if is_dripping else size):
            for told in client.receive(piece):
                if isinstance(told, AnswerHead):
                    replies[told.stream] = [told.block]
                elif isinstance(told, AnswerBody):
                    replies[told.stream].append(told.data)
                if isinstance(told, AnswerHead | AnswerBody) and told.is_last:
                    block, *parts = replies[told.stream]
                    head = {str(name): str(value) for name, value in hpack.Decoder().decode(block)}
                    answers[wanted[told.stream]] = int(head[":status"]), b"".join(parts)
    for stream, place in wanted.items():
        long, length, *_ = requests[place]
        assert heads[stream]["x-long"] == long.decode()
        assert bodies[stream] == b"b" * length
    assert answers == {place: (status, content) for place, (_, _, status, content) in enumerate(requests)}


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


# -- what goes out -----------------------------------------------------------------------------------------------------


def test_it_begins_with_the_preface_and_its_settings_and_acknowledges_those_of_the_peer() -> None:
    client = Http2Client()
    settings = setting(http2.HEADER_TABLE_SIZE, 0) + setting(http2.ENABLE_PUSH, 0)
    more = (http2.RECEIVE_WINDOW - FIRST_WINDOW).to_bytes(4, "big")
    assert client.take() == PREFACE + frame(SETTINGS, payload=settings) + frame(WINDOW_UPDATE, payload=more)
    assert not has_room(client)
    client.receive(GREETING)
    assert client.take() == frame(SETTINGS, ACK)
    assert has_room(client)


def test_a_request_is_headers_and_data() -> None:
    client = ready()
    assert client.begin(REQUEST, b"body") == 1
    assert client.begin(REQUEST, b"") == 3
    assert client.take() == (
        frame(HEADERS, END_HEADERS, 1, REQUEST)
        + frame(DATA, END_STREAM, 1, b"body")
        + frame(HEADERS, END_HEADERS | END_STREAM, 3, REQUEST)
    )
    assert client.take() == b""


def test_headers_that_are_longer_than_a_frame_go_on_in_others() -> None:
    client = ready()
    block = bytes(SHORTEST_MAX_FRAME * 2 + 1)
    client.begin(block, b"")
    assert client.take() == (
        frame(HEADERS, END_STREAM, 1, bytes(SHORTEST_MAX_FRAME))
        + frame(CONTINUATION, 0, 1, bytes(SHORTEST_MAX_FRAME))
        + frame(CONTINUATION, END_HEADERS, 1, bytes(1))
    )


def test_a_body_waits_for_the_window_of_its_stream_and_for_that_of_all() -> None:
    client = ready(setting(INITIAL_WINDOW_SIZE, 3))
    client.begin(REQUEST, b"12345678")
    assert client.take().endswith(frame(DATA, 0, 1, b"123"))
    client.receive(frame(WINDOW_UPDATE, 0, 1, (2).to_bytes(4, "big")))
    assert client.take() == frame(DATA, 0, 1, b"45")
    # A smaller first window also takes from those that are open, here below nothing.
    client.receive(frame(SETTINGS, payload=setting(INITIAL_WINDOW_SIZE, 1)))
    client.receive(frame(WINDOW_UPDATE, 0, 1, (2).to_bytes(4, "big")))
    assert client.take() == frame(SETTINGS, ACK)
    client.receive(frame(SETTINGS, payload=setting(INITIAL_WINDOW_SIZE, 100)))
    assert client.take() == frame(SETTINGS, ACK) + frame(DATA, END_STREAM, 1, b"678")

    client = ready(setting(INITIAL_WINDOW_SIZE, LARGEST_WINDOW))
    client.begin(REQUEST, bytes(FIRST_WINDOW))
    client.begin(REQUEST, b"wait")
    client.take()
    client.receive(frame(WINDOW_UPDATE, 0, 0, (2).to_bytes(4, "big")))
    client.receive(frame(WINDOW_UPDATE, 0, 0, (9).to_bytes(4, "big")))
    assert client.take() == frame(DATA, 0, 3, b"wa") + frame(DATA, END_STREAM, 3, b"it")


def test_as_many_requests_are_open_as_the_peer_takes() -> None:
    client = ready(setting(MAX_CONCURRENT_STREAMS, 2), requests=2)
    assert not has_room(client)
    client.receive(frame(HEADERS, END_HEADERS | END_STREAM, 3, OK))
    assert has_room(client)
    client.receive(frame(SETTINGS, payload=setting(MAX_CONCURRENT_STREAMS, 1)))
    assert not has_room(client)


def test_a_longer_frame_is_sent_only_to_a_peer_that_takes_it() -> None:
    client = ready(setting(MAX_FRAME_SIZE, SHORTEST_MAX_FRAME + 1))
    client.begin(REQUEST, bytes(SHORTEST_MAX_FRAME + 1))
    assert client.take().endswith(frame(DATA, END_STREAM, 1, bytes(SHORTEST_MAX_FRAME + 1)))


def test_what_is_cancelled_is_reset_and_what_still_comes_is_not_told() -> None:
    client = ready(requests=1)
    client.cancel(1)
    client.cancel(1)
    assert client.take() == frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big"))
    late = frame(HEADERS, END_HEADERS, 1, OK) + frame(DATA, END_STREAM, 1, b"late") + frame(RST_STREAM, 0, 1, bytes(4))
    assert client.receive(late + frame(WINDOW_UPDATE, 0, 1, bytes(3) + b"\1")) == []


def test_an_answer_before_the_end_of_its_request_ends_the_request() -> None:
    client = ready(setting(INITIAL_WINDOW_SIZE, 1), requests=1, body=b"long")
    events = client.receive(frame(HEADERS, END_HEADERS | END_STREAM, 1, OK))
    assert described(events) == [("AnswerHead", 1, OK, True)]
    assert client.take() == frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big"))


def test_numbers_of_streams_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ready()
    client._next = http2.LAST_STREAM - 1
    assert not client.is_used_up
    client.begin(REQUEST, b"")
    assert client.is_used_up


# -- what comes in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_what_comes_is_told_in_order_however_it_is_cut(size: int) -> None:
    client = ready(requests=5)
    data = (
        frame(HEADERS, END_HEADERS, 1, OK)
        + frame(DATA, 0, 1, b"one")
        + frame(HEADERS, PADDED | HAS_PRIORITY, 3, b"\2" + bytes(5) + b"he" + b"pp")
        + frame(CONTINUATION, 0, 3, b"a")
        + frame(CONTINUATION, END_HEADERS, 3, b"d")
        + frame(DATA, PADDED | END_STREAM, 3, b"\3body" + b"pad")
        + frame(DATA, END_STREAM, 1, b"")
        + frame(HEADERS, END_HEADERS | END_STREAM, 5, OK)
        + frame(PRIORITY, 0, 5, bytes(5))
        + frame(99, 0xFF, 12, b"unknown")
        + frame(RST_STREAM, 0, 7, (7).to_bytes(4, "big"))
        + frame(PING, ACK, 0, bytes(8))
        + frame(SETTINGS, ACK)
        + frame(GOAWAY, 0, 0, (5).to_bytes(4, "big") + (0).to_bytes(4, "big") + b"bye")
    )
    events = [event for piece in pieces(data, size) for event in client.receive(piece)]
    assert described(events) == [
        ("AnswerHead", 1, OK, False),
        ("AnswerBody", 1, b"one", False),
        ("AnswerHead", 3, b"head", False),
        ("AnswerBody", 3, b"body", True),
        ("AnswerBody", 1, b"", True),
        ("AnswerHead", 5, OK, True),
        ("Reset", 7, 7),
        ("GoAway", 5, 0),
    ]
    assert client.take() == b""


def test_a_ping_is_answered() -> None:
    client = ready()
    client.receive(frame(PING, 0, 0, b"12345678"))
    assert client.take() == frame(PING, ACK, 0, b"12345678")


def test_as_many_pings_and_settings_are_answered_as_may_wait_each_time_that_the_answers_are_taken() -> None:
    client = Http2Client()
    client.receive(GREETING + frame(PING, 0, 0, bytes(8)) * (MAX_ANSWERS - 1))
    assert client.take().endswith(frame(SETTINGS, ACK) + frame(PING, ACK, 0, bytes(8)) * (MAX_ANSWERS - 1))
    client.receive(frame(PING, 0, 0, bytes(8)) * MAX_ANSWERS)
    assert client.take() == frame(PING, ACK, 0, bytes(8)) * MAX_ANSWERS
    assert client.error is None


def test_the_peer_may_go_on_when_it_has_sent_much() -> None:
    client = ready(requests=1)
    half = http2.RECEIVE_WINDOW // 2
    sent = 0
    while not (update := client.take()):
        client.receive(frame(DATA, 0, 1, bytes(SHORTEST_MAX_FRAME)))
        sent += SHORTEST_MAX_FRAME
    assert half < sent <= half + SHORTEST_MAX_FRAME
    assert update == frame(WINDOW_UPDATE, 0, 0, sent.to_bytes(4, "big"))


def test_a_peer_that_sends_more_than_it_may_is_not_heard() -> None:
    client = ready(requests=1)
    most = http2.RECEIVE_WINDOW // SHORTEST_MAX_FRAME
    events = client.receive(frame(DATA, 0, 1, bytes(SHORTEST_MAX_FRAME)) * (most + 1))
    assert client.error is not None
    assert (client.error.code, len(events)) == (http2.FLOW_CONTROL_ERROR, most)


def test_a_window_of_a_stream_that_is_wrong_ends_the_stream_alone() -> None:
    client = ready(requests=2)
    events = client.receive(frame(WINDOW_UPDATE, 0, 1, bytes(4)) + frame(WINDOW_UPDATE, 0, 3, b"\x7f\xff\xff\xff"))
    assert described(events) == [("Reset", 1, http2.PROTOCOL_ERROR), ("Reset", 3, http2.FLOW_CONTROL_ERROR)]


WRONG = {
    "no settings first": frame(PING, 0, 0, bytes(8)),
    "an acknowledgement first": frame(SETTINGS, ACK),
    "another protocol": b"HTTP/1.1 200 OK\r\n\r\n",
    "settings of a stream": GREETING + frame(SETTINGS, 0, 1),
    "settings that are cut off": frame(SETTINGS, payload=bytes(5)),
    "an acknowledgement with something in it": GREETING + frame(SETTINGS, ACK, 0, setting(9, 9)),
    "a window that is too large": frame(SETTINGS, payload=setting(INITIAL_WINDOW_SIZE, LARGEST_WINDOW + 1)),
    "frames that are too short": frame(SETTINGS, payload=setting(MAX_FRAME_SIZE, SHORTEST_MAX_FRAME - 1)),
    "frames that are too long": frame(SETTINGS, payload=setting(MAX_FRAME_SIZE, 1 << 24)),
    "a server that is pushed to": frame(SETTINGS, payload=setting(http2.ENABLE_PUSH, 1)),
    "a frame that is too long": GREETING + frame(DATA, 0, 1, bytes(SHORTEST_MAX_FRAME + 1)),
    "data of no stream": GREETING + frame(DATA, 0, 0, b"x"),
    "data of a stream of the server": GREETING + frame(DATA, 0, 2, b"x"),
    "data of a stream that has not begun": GREETING + frame(DATA, 0, 5, b"x"),
    "headers of a stream that has not begun": GREETING + frame(HEADERS, END_HEADERS, 5, OK),
    "a reset of a stream that has not begun": GREETING + frame(RST_STREAM, 0, 5, bytes(4)),
    "a window of a stream that has not begun": GREETING + frame(WINDOW_UPDATE, 0, 5, bytes(4)),
    "a reset that is cut off": GREETING + frame(RST_STREAM, 0, 1, bytes(3)),
    "a window that is cut off": GREETING + frame(WINDOW_UPDATE, 0, 1, bytes(3)),
    "a window of all that is cut off": GREETING + frame(WINDOW_UPDATE, 0, 0, bytes(3)),
    "a window of all that grows by nothing": GREETING + frame(WINDOW_UPDATE, 0, 0, bytes(4)),
    "a window of all that is too large": GREETING + frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
    "a ping of a stream": GREETING + frame(PING, 0, 1, bytes(8)),
    "a ping that is cut off": GREETING + frame(PING, 0, 0, bytes(7)),
    "a goodbye of a stream": GREETING + frame(GOAWAY, 0, 1, bytes(8)),
    "a goodbye that is cut off": GREETING + frame(GOAWAY, 0, 0, bytes(7)),
    "a promise": GREETING + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4) + OK),
    "a priority of no stream": GREETING + frame(PRIORITY, 0, 0, bytes(5)),
    "a priority that is cut off": GREETING + frame(PRIORITY, 0, 1, bytes(4)),
    "padding beyond the data": GREETING + frame(DATA, PADDED, 1, b"\4pad"),
    "padding of nothing": GREETING + frame(DATA, PADDED, 1),
    "padding beyond the headers": GREETING + frame(HEADERS, PADDED | END_HEADERS, 1, b"\4pad"),
    "a priority in headers that is cut off": GREETING + frame(HEADERS, HAS_PRIORITY | END_HEADERS, 1, bytes(4)),
    "headers that go on without a beginning": GREETING + frame(CONTINUATION, END_HEADERS, 1, OK),
    "headers that go on in another stream": GREETING + frame(HEADERS, 0, 1, OK) + frame(CONTINUATION, 0, 3, OK),
    "something else between headers": GREETING + frame(HEADERS, 0, 1, b"") + frame(PING, 0, 0, bytes(8)),
    "headers without end": GREETING + frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * (MAX_BLOCK + 1),
    "very long headers": GREETING + frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1, bytes(SHORTEST_MAX_FRAME)) * 4,
    "pings that nobody could answer": GREETING + frame(PING, 0, 0, bytes(8)) * (MAX_ANSWERS + 1),
    "windows of streams that grow by settings beyond what is possible": GREETING
    + frame(WINDOW_UPDATE, 0, 1, (LARGEST_WINDOW - FIRST_WINDOW).to_bytes(4, "big"))
    + frame(SETTINGS, payload=setting(INITIAL_WINDOW_SIZE, FIRST_WINDOW + 1)),
}

# Which errors the peer is told; of the protocol unless it is here.
CODES = {
    http2.FRAME_SIZE_ERROR: {
        "another protocol",
        "settings that are cut off",
        "an acknowledgement with something in it",
        "a frame that is too long",
        "a reset that is cut off",
        "a window that is cut off",
        "a window of all that is cut off",
        "a ping that is cut off",
        "a goodbye that is cut off",
        "a priority that is cut off",
        "a priority in headers that is cut off",
    },
    http2.FLOW_CONTROL_ERROR: {
        "a window that is too large",
        "a window of all that is too large",
        "windows of streams that grow by settings beyond what is possible",
    },
    http2.ENHANCE_YOUR_CALM: {
        "headers without end",
        "very long headers",
        "pings that nobody could answer",
    },
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("is_whole", [True, False])
def test_what_no_server_may_send_is_an_error(name: str, is_whole: bool) -> None:
    client = Http2Client()
    data = WRONG[name]
    head = 0
    if data.startswith(GREETING):
        client.receive(GREETING)
        head = len(GREETING)
        for _ in range(2):
            client.begin(REQUEST, b"")
    for piece in pieces(data[head:], 1_000_000_000 if is_whole else 16_384):
        client.receive(piece)
    assert client.error is not None
    assert str(client.error) == client.error.text != ""
    expected = [code for code, names in CODES.items() if name in names]
    assert client.error.code == (expected or [http2.PROTOCOL_ERROR])[0]
    assert client.receive(GREETING) == []


ALLOWED = {
    "an acknowledgement": GREETING + frame(SETTINGS, ACK),
    "the largest window": frame(SETTINGS, payload=setting(INITIAL_WINDOW_SIZE, LARGEST_WINDOW)),
    "the shortest frames": frame(SETTINGS, payload=setting(MAX_FRAME_SIZE, SHORTEST_MAX_FRAME)),
    "the longest frames": frame(SETTINGS, payload=setting(MAX_FRAME_SIZE, (1 << 24) - 1)),
    "a server that is not pushed to": frame(SETTINGS, payload=setting(http2.ENABLE_PUSH, 0)),
    "the largest window of a stream": GREETING
    + frame(WINDOW_UPDATE, 0, 1, (LARGEST_WINDOW - FIRST_WINDOW).to_bytes(4, "big")),
    "the largest window of all": GREETING
    + frame(WINDOW_UPDATE, 0, 0, (LARGEST_WINDOW - FIRST_WINDOW).to_bytes(4, "big")),
    "windows of streams that grow by settings to what is possible": GREETING
    + frame(WINDOW_UPDATE, 0, 1, (LARGEST_WINDOW - FIRST_WINDOW - 1).to_bytes(4, "big"))
    + frame(SETTINGS, payload=setting(INITIAL_WINDOW_SIZE, FIRST_WINDOW + 1)),
    "a window that grows by one": GREETING + frame(WINDOW_UPDATE, 0, 1, (1).to_bytes(4, "big")),
    "a priority of a stream that has not begun": GREETING + frame(PRIORITY, 0, 9, bytes(5)),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_a_server_may_just_send_is_no_error_and_nothing_to_tell(name: str) -> None:
    client = Http2Client()
    (event,) = client.receive(GREETING)
    assert isinstance(event, Ready)
    client.begin(REQUEST, b"")
    assert client.receive(ALLOWED[name]) == []
    assert client.error is None


def test_an_answer_may_be_padding_and_priority_only() -> None:
    client = ready(requests=1)
    events = client.receive(
        frame(HEADERS, HAS_PRIORITY | END_HEADERS, 1, bytes(5)) + frame(DATA, PADDED | END_STREAM, 1, b"\3pad")
    )
    assert described(events) == [("AnswerHead", 1, b"", False), ("AnswerBody", 1, b"", True)]


def test_headers_may_be_so_long_and_each_frame_but_the_first_counts_as_a_byte() -> None:
    client = ready(requests=1)
    first, last = frame(HEADERS, 0, 1, b"a"), frame(CONTINUATION, END_HEADERS, 1)
    events = client.receive(first + frame(CONTINUATION, 0, 1) * (MAX_BLOCK - 2) + last)
    assert described(events) == [("AnswerHead", 1, b"a", False)]
    assert client.error is None
    client.receive(first + frame(CONTINUATION, 0, 1) * (MAX_BLOCK - 1) + last)
    assert client.error is not None


def test_what_came_before_an_error_is_told() -> None:
    client = ready(requests=1)
    events = client.receive(frame(HEADERS, END_HEADERS | END_STREAM, 1, OK) + frame(DATA, 0, 0, b"x"))
    assert described(events) == [("AnswerHead", 1, OK, True)]
    assert client.error is not None


@given(
    st.lists(
        st.binary(max_size=60)
        | st.builds(frame, st.integers(0, 10), st.integers(0, 255), st.integers(0, 6), st.binary(max_size=20))
    )
)
def test_any_bytes_are_events_or_an_error_however_they_are_cut(data: list[bytes]) -> None:
    stream = b"".join(data)
    found = []
    for size in (1, 1_000):
        client = ready(requests=2)
        events = [event for piece in pieces(stream, size) for event in client.receive(piece)]
        found.append((described(events), client.take(), client.error and client.error.text))
    assert found[0] == found[1]
