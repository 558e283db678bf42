from __future__ import annotations

import time
import zlib
from base64 import b64encode
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.deflate import COMPRESSED_BYTES, Deflate
from penstock.wire.http1 import HttpError, HttpRequest
from penstock.wire.websocket import FrameReader, accept, frame_header, message_frame, subprotocols, text_messages
from tests.wire.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    ServerFrame,
    close,
    frame,
    messages_of,
    server_frames,
    text,
)
from tests.wire.reading import BODY_LIMIT, FrameReading, one_by_one, pieces, read_frames

# -- the handshake: RFC 6455, section 4.2 -----------------------------------------------------------------------------

SUBPROTOCOL = "TLCP-2.4.0.lightstreamer.com"
HANDSHAKE = {
    "host": "h",
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
    "sec-websocket-protocol": SUBPROTOCOL,
}


def handshake(changes: Mapping[str, str | None], method: str = "GET") -> HttpRequest:
    headers = {name: value for name, value in {**HANDSHAKE, **changes}.items() if value is not None}
    return HttpRequest(method, "/lightstreamer", "1.1", headers, keep_alive=True, upgrade=True)


def test_the_answer_proves_the_key_and_echoes_the_subprotocol() -> None:
    head, _, rest = accept(handshake({}), SUBPROTOCOL).answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert first == "HTTP/1.1 101 Switching Protocols"
    assert rest == b""
    # The key and its proof are those of RFC 6455, section 1.3.
    assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert headers["upgrade"] == "websocket"
    assert headers["connection"] == "Upgrade"
    assert headers["sec-websocket-protocol"] == SUBPROTOCOL
    assert "sec-websocket-extensions" not in headers


@pytest.mark.parametrize(
    "changes",
    [
        {"upgrade": "WebSocket"},
        {"connection": "keep-alive, Upgrade"},
        {"sec-websocket-extensions": "permessage-deflate; client_max_window_bits"},
        {"sec-websocket-protocol": f"js.lightstreamer.com, {SUBPROTOCOL}"},
        {"origin": "https://example.com", "cookie": "a=\xe9"},
    ],
)
def test_what_browsers_send_besides_is_accepted_and_no_extension_is_taken(changes: dict[str, str]) -> None:
    answer = accept(handshake(changes), SUBPROTOCOL).answer.lower()
    assert answer.startswith(b"http/1.1 101 ")
    assert b"sec-websocket-extensions" not in answer


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"connection": "close"}, 426),
        ({"connection": None}, 426),
        ({"upgrade": "h2c"}, 426),
        ({"upgrade": "websocket, h2c"}, 426),
        ({"upgrade": "\xe9"}, 400),
        ({"sec-websocket-key": None}, 400),
        ({"sec-websocket-key": ""}, 400),
        ({"sec-websocket-key": "short"}, 400),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ=="}, 400),
        ({"sec-websocket-key": "\xe9" * 24}, 400),
        ({"sec-websocket-key": "not*base64*not*base64*=="}, 400),
        ({"sec-websocket-version": None}, 400),
        ({"sec-websocket-version": "8"}, 400),
        ({"sec-websocket-version": "13, 13"}, 400),
        ({"sec-websocket-protocol": None}, 400),
        ({"sec-websocket-protocol": "another"}, 400),
    ],
)
def test_a_bad_handshake_is_refused_with_a_reason(changes: dict[str, str | None], status: int) -> None:
    with pytest.raises(HttpError) as caught:
        accept(handshake(changes), SUBPROTOCOL)
    assert caught.value.status == status
    assert caught.value.message


WORDS = st.sampled_from(
    ["Upgrade", "upgrade", "UPGRADE", "keep-alive", "close", "x", "", " ", ", ", ",", '"', "\xe9", "\t", "upgrade2"]
)
KEYS = st.one_of(
    st.binary(min_size=15, max_size=17).map(lambda key: b64encode(key).decode()),
    st.text("AQgw+/=-_ \xe9", min_size=22, max_size=25),
)


@given(
    changes=st.fixed_dictionaries(
        {},
        optional={
            "connection": st.lists(WORDS, max_size=5).map("".join),
            "upgrade": st.sampled_from(["websocket", "WebSocket", "websocket ", "websocket,", "h2c", "websocke\xb5"]),
            "sec-websocket-key": KEYS,
            "sec-websocket-version": st.sampled_from(["13", " 13", "13.", "8", "1\xb3"]),
            "sec-websocket-protocol": st.sampled_from([SUBPROTOCOL, f"a, {SUBPROTOCOL}", SUBPROTOCOL.lower(), "", "a"]),
        },
    ),
    chosen=st.sampled_from([None, SUBPROTOCOL]),
)
def test_an_ordinary_handshake_is_one_that_the_library_accepts_with_the_same_answer(
    changes: dict[str, str], chosen: str | None
) -> None:
    def outcome(request: HttpRequest, may_compress: bool) -> set[bytes] | int:
        try:
            lines = accept(request, chosen, may_compress).answer.split(b"\r\n")
        except HttpError as error:
            return error.status
        return {line for line in lines if not line.startswith(b"Date: ")}

    # With an extension that it does not know the library judges, and takes none.
    unusual = handshake({**changes, "sec-websocket-extensions": "x-unknown"})
    assert outcome(handshake(changes), False) == outcome(unusual, True)


def test_a_handshake_with_very_many_options_is_judged_in_no_time() -> None:
    begun = time.process_time()
    assert accept(handshake({"connection": "upgrade, " * 8_000 + "x"}), SUBPROTOCOL).answer.startswith(b"HTTP/1.1 101 ")
    with pytest.raises(HttpError):
        accept(handshake({"connection": "upgrade, " * 8_000 + "!("}), SUBPROTOCOL)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "PUT"])
def test_only_get_opens_a_websocket(method: str) -> None:
    with pytest.raises(HttpError) as caught:
        accept(handshake({}, method), SUBPROTOCOL)
    assert caught.value.status == 405


@pytest.mark.parametrize(
    ("header", "offered"),
    [(None, []), ("", []), (",, ,", []), ("a", ["a"]), (" a ,b,, c", ["a", "b", "c"]), ("a,a", ["a", "a"])],
)
def test_the_subprotocols_offered_keep_their_order(header: str | None, offered: list[str]) -> None:
    assert subprotocols(handshake({"sec-websocket-protocol": header})) == offered


# -- frames that go out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "header"),
    [
        (0, b"\x81\x00"),
        (1, b"\x81\x01"),
        (125, b"\x81\x7d"),
        (126, b"\x81\x7e\x00\x7e"),
        (127, b"\x81\x7e\x00\x7f"),
        (65_535, b"\x81\x7e\xff\xff"),
        (65_536, b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
        (2**32, b"\x81\x7f\x00\x00\x00\x01\x00\x00\x00\x00"),
    ],
)
def test_a_frame_header_has_the_shortest_form_of_its_size(size: int, header: bytes) -> None:
    assert frame_header(size, True, True) == header


@pytest.mark.parametrize(
    ("first", "final", "byte"), [(True, True, 0x81), (True, False, 0x01), (False, False, 0x00), (False, True, 0x80)]
)
def test_the_first_byte_says_where_in_a_message_a_frame_stands(first: bool, final: bool, byte: int) -> None:
    assert frame_header(5, first, final)[0] == byte


@pytest.mark.parametrize("size", [1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_a_line_of_any_size_is_one_frame_where_frames_may_be_that_long(size: int) -> None:
    line = b"x" * (size - 2) + b"\r\n" if size > 1 else b"x"
    frames = list(server_frames(b"".join(text_messages([line], 100_000))))
    assert frames == [ServerFrame(True, TEXT, line)]


LINES = st.lists(st.binary(min_size=0, max_size=40).map(lambda data: data.replace(b"\n", b"") + b"\r\n"), min_size=1)


@given(LINES, st.integers(1, 100))
def test_messages_carry_all_lines_in_order_and_never_part_of_one(lines: list[bytes], max_frame: int) -> None:
    frames = list(server_frames(b"".join(text_messages(lines, max_frame))))
    assert all(len(entry.payload) <= max_frame for entry in frames)
    messages = messages_of(frames)
    assert b"".join(messages) == b"".join(lines)
    # Taking whole lines off the front of each message leaves nothing.
    remaining = list(lines)
    for message in messages:
        while message:
            assert message.startswith(remaining[0])
            message = message[len(remaining.pop(0)) :]
    assert remaining == []


@given(LINES, st.integers(1, 100))
def test_no_more_messages_are_used_than_needed(lines: list[bytes], max_frame: int) -> None:
    messages = messages_of(list(server_frames(b"".join(text_messages(lines, max_frame)))))
    for one, following in pairwise(messages):
        next_line = following[: following.index(b"\r\n") + 2]
        assert len(one) + len(next_line) > max_frame


@pytest.mark.parametrize("size", [126, 127, 250, 251, 1000])
def test_a_line_longer_than_a_frame_is_put_together_from_its_fragments(size: int) -> None:
    long_line = b"y" * (size - 2) + b"\r\n"
    lines = [b"before\r\n", long_line, b"after\r\n"]
    frames = list(server_frames(b"".join(text_messages(lines, 125))))
    assert messages_of(frames) == lines
    assert [entry.opcode for entry in frames[1:-1]] == [TEXT] + [CONTINUATION] * (len(frames) - 3)


# -- frames that come in ----------------------------------------------------------------------------------------------

EURO = "€".encode()
LONGEST = "x" * BODY_LIMIT

CASES: list[tuple[str, bytes, list[str]]] = [
    ("an empty message", text(""), [""]),
    ("a message", text("wsok"), ["wsok"]),
    ("several messages", text("a") + text("b") + text("c"), ["a", "b", "c"]),
    ("125 bytes", text("x" * 125), ["x" * 125]),
    ("126 bytes", text("x" * 126), ["x" * 126]),
    ("the longest message", text(LONGEST), [LONGEST]),
    ("a mask of zeros", frame(TEXT, b"abc", key=bytes(4)), ["abc"]),
    ("beyond ASCII", text("é€𝄞\0"), ["é€𝄞\0"]),
    ("two fragments", frame(TEXT, b"ab", final=False) + frame(CONTINUATION, b"cd"), ["abcd"]),
    (
        "many fragments",
        frame(TEXT, b"", final=False) + frame(CONTINUATION, b"a", final=False) * 5 + frame(CONTINUATION),
        ["aaaaa"],
    ),
    ("a character in two fragments", frame(TEXT, EURO[:1], final=False) + frame(CONTINUATION, EURO[1:]), ["€"]),
    (
        "control frames between fragments",
        frame(TEXT, b"a", final=False) + frame(PING, b"x") + frame(PONG) + frame(CONTINUATION, b"b"),
        ["ab"],
    ),
    ("an unasked pong", frame(PONG, b"hello") + text("a"), ["a"]),
    (
        "the longest message in fragments",
        frame(TEXT, b"x" * 400, final=False)
        + frame(CONTINUATION, b"x" * 400, final=False)
        + frame(CONTINUATION, b"x" * 200),
        [LONGEST],
    ),
]


@pytest.mark.parametrize(("data", "messages"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_messages_are_read_whole_byte_by_byte_and_with_others_behind_them(data: bytes, messages: list[str]) -> None:
    for sizes in ([], one_by_one(data)):
        assert read_frames(data, sizes).messages == messages
        assert read_frames(data, sizes).is_open
    followed = data + text("next") + b"\x81"
    for sizes in ([], one_by_one(followed), [len(data) - 1], [len(data) + 1]):
        assert read_frames(followed, sizes).messages == [*messages, "next"]


def answer(reading: FrameReading) -> list[ServerFrame]:
    return list(server_frames(reading.answers))


@pytest.mark.parametrize("payload", [b"", b"a", b"\xff" * 125])
def test_a_ping_is_answered_with_its_own_payload(payload: bytes) -> None:
    assert answer(read_frames(frame(PING, payload))) == [ServerFrame(True, PONG, payload)]


@pytest.mark.parametrize(
    ("data", "echo"),
    [
        (close(1000), b"\x03\xe8"),
        (close(1001, "gone"), b"\x03\xe9gone"),
        (close(3000, "é"), b"\x0b\xb8\xc3\xa9"),
        (close(4999), b"\x13\x87"),
        (frame(CLOSE), b""),
        # What has come of a message is dropped: a control frame may come between its parts.
        (frame(TEXT, b"a", final=False) + close(1000), b"\x03\xe8"),
    ],
)
def test_a_close_is_echoed_and_nothing_is_read_after_it(data: bytes, echo: bytes) -> None:
    for sizes in ([], one_by_one(data)):
        reading = read_frames(text("before") + data + text("after") + frame(PING), sizes)
        assert reading.messages == ["before"]
        assert answer(reading) == [ServerFrame(True, CLOSE, echo)]
        assert not reading.is_open


BAD: list[tuple[str, bytes, int]] = [
    ("an unmasked frame", frame(TEXT, b"a", key=None), 1002),
    ("the first reserved bit", frame(TEXT, b"a", reserved=4), 1002),
    ("the second reserved bit", frame(TEXT, b"a", reserved=2), 1002),
    ("the third reserved bit", frame(TEXT, b"a", reserved=1), 1002),
    *((f"opcode {opcode}", frame(opcode, b"a"), 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)),
    ("a ping in fragments", frame(PING, b"a", final=False), 1002),
    ("a close in fragments", frame(CLOSE, b"", final=False), 1002),
    ("a ping that is too long", frame(PING, b"a" * 126), 1002),
    ("a continuation of nothing", frame(CONTINUATION, b"a"), 1002),
    ("a message inside a message", frame(TEXT, b"a", final=False) + text("b"), 1002),
    ("a close code of one byte", frame(CLOSE, b"\x03"), 1002),
    *((f"close code {code}", close(code), 1002) for code in (0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 65_535)),
    ("a close reason that is not UTF-8", frame(CLOSE, b"\x03\xe8\xff"), 1007),
    ("a message that is not UTF-8", frame(TEXT, b"a\xffb"), 1007),
    ("a message that ends inside a character", frame(TEXT, EURO[:2]), 1007),
    ("half of a surrogate pair", frame(TEXT, b"\xed\xa0\x80"), 1007),
    ("a character in too many bytes", frame(TEXT, b"\xc0\xaf"), 1007),
    (
        "fragments that are not UTF-8 together",
        frame(TEXT, EURO[:1], final=False) + frame(CONTINUATION, b"a"),
        1007,
    ),
    ("a binary message", frame(BINARY, b"abc"), 1003),
    ("a binary message in fragments", frame(BINARY, b"ab", final=False) + frame(CONTINUATION, b"cd"), 1003),
    ("one byte too long", text(LONGEST + "x"), 1009),
    ("fragments that are too long", frame(TEXT, b"x" * 600, final=False) + frame(CONTINUATION, b"x" * 600), 1009),
    ("a size that no message has", b"\x81\xff" + b"\xff" * 8 + b"\0\0\0\0", 1009),
    ("nonsense", b"GET / HTTP/1.1\r\n\r\n", 1002),
]


@pytest.mark.parametrize(("data", "code"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_is_against_the_rules_is_closed_with_its_code_and_nothing_is_read_after_it(data: bytes, code: int) -> None:
    stream = text("before") + data + text("after")
    for sizes in ([], one_by_one(stream)):
        reading = read_frames(stream, sizes)
        assert reading.messages == ["before"]
        (last,) = answer(reading)
        assert (last.opcode, int.from_bytes(last.payload[:2], "big")) == (CLOSE, code)
        last.payload[2:].decode()
        assert not reading.is_open


def test_messages_sent_together_with_a_close_are_all_read() -> None:
    """Clients say goodbye and close in one write."""
    assert read_frames(text("a") + text("destroy") + close(1000)).messages == ["a", "destroy"]


def test_empty_fragments_without_end_take_no_memory() -> None:
    reader = FrameReader(BODY_LIMIT)
    reader.feed(frame(TEXT, b"a", final=False))
    for _ in range(100):
        assert reader.feed(frame(CONTINUATION, b"", final=False) * 1000) == []
    assert reader._fragments == [b"a"]
    assert reader.feed(frame(CONTINUATION, b"b")) == ["ab"]


def test_a_close_of_ours_is_sent_once_and_ends_reading() -> None:
    reader = FrameReader(BODY_LIMIT)
    reader.close(1001, "going away")
    reader.close(1000, "again")
    assert list(server_frames(reader.to_send())) == [ServerFrame(True, CLOSE, b"\x03\xe9going away")]
    assert reader.feed(text("too late")) == []
    assert not reader.is_open


def test_the_end_of_the_stream_closes_without_a_word() -> None:
    for before in (b"", text("a"), b"\x81", frame(TEXT, b"a", final=False)):
        reader = FrameReader(BODY_LIMIT)
        reader.feed(before)
        reader.eof()
        reader.eof()
        assert reader.to_send() == b""
        assert not reader.is_open


def test_a_reason_that_is_too_long_is_cut_at_the_end_of_a_character() -> None:
    reader = FrameReader(BODY_LIMIT)
    reader.close(1008, "é" * 100)
    (last,) = server_frames(reader.to_send())
    assert last.payload == b"\x03\xf0" + "é".encode() * 61


def test_a_ping_of_ours_is_empty_and_none_follows_a_close() -> None:
    reader = FrameReader(BODY_LIMIT)
    reader.ping()
    assert list(server_frames(reader.to_send())) == [ServerFrame(True, PING, b"")]
    reader.close(1000, "")
    reader.ping()
    assert [entry.opcode for entry in server_frames(reader.to_send())] == [CLOSE]


BINARY_MESSAGES = [
    frame(BINARY, b"\xff"),
    frame(BINARY, b"\xff", final=False) + frame(PING) + frame(CONTINUATION, b"\xff"),
    frame(BINARY, b"", final=False) + frame(CONTINUATION, b"", final=False) * 3 + frame(CONTINUATION),
]


@pytest.mark.parametrize("data", BINARY_MESSAGES)
def test_binary_messages_are_passed_over_where_that_is_wanted(data: bytes) -> None:
    for sizes in ([], one_by_one(data + text("after"))):
        reader = FrameReader(BODY_LIMIT, skips_binary=True)
        messages = [message for piece in pieces(data + text("after"), sizes) for message in reader.feed(piece)]
        assert messages == ["after"]
        assert reader.is_open


def test_binary_messages_that_are_passed_over_have_the_same_limit() -> None:
    for data in (
        frame(BINARY, b"x" * (BODY_LIMIT + 1)),
        frame(BINARY, b"x" * BODY_LIMIT, final=False) + frame(CONTINUATION, b"x"),
    ):
        reader = FrameReader(BODY_LIMIT, skips_binary=True)
        assert reader.feed(data) == []
        (last,) = server_frames(reader.to_send())
        assert last.payload[:2] == (1009).to_bytes(2, "big")


# -- compression: RFC 7692 --------------------------------------------------------------------------------------------

COMPRESSED = 4  # The first of the reserved bits.
OFFER = "permessage-deflate; client_max_window_bits"


def agreed(offer: str = OFFER) -> Deflate:
    deflate = accept(handshake({"sec-websocket-extensions": offer}), None, may_compress=True).deflate
    assert deflate is not None
    return deflate


class Compressor:
    """The client's side: messages build on one another."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(wbits=-12)

    def payload(self, message: bytes) -> bytes:
        return (self._zlib.compress(message) + self._zlib.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\0\0\xff\xff")

    def frame(self, message: bytes, opcode: int = TEXT) -> bytes:
        return frame(opcode, self.payload(message), reserved=COMPRESSED)

    def fragments(self, message: bytes, opcode: int = TEXT) -> bytes:
        payload = self.payload(message)
        return (
            frame(opcode, payload[:3], reserved=COMPRESSED, final=False)
            + frame(PING)
            + frame(CONTINUATION, payload[3:5], final=False)
            + frame(CONTINUATION, payload[5:])
        )


@pytest.mark.parametrize(
    "offer", [OFFER, "permessage-deflate", f"{OFFER}; server_no_context_takeover; client_no_context_takeover"]
)
def test_compression_is_agreed_on_with_a_small_window(offer: str) -> None:
    accepted = accept(handshake({"sec-websocket-extensions": offer}), None, may_compress=True)
    assert b"permessage-deflate" in accepted.answer
    assert b"server_max_window_bits=12" in accepted.answer
    assert accepted.deflate is not None


@pytest.mark.parametrize("offer", [None, "permessage-bzip2", "permessage-deflate; unknown"])
def test_what_is_not_offered_or_not_known_is_not_agreed_on(offer: str | None) -> None:
    accepted = accept(handshake({"sec-websocket-extensions": offer}), None, may_compress=True)
    assert b"permessage-deflate" not in accepted.answer
    assert accepted.deflate is None


def read_compressed(data: bytes, sizes: list[int]) -> FrameReading:
    reader = FrameReader(BODY_LIMIT, agreed(), skips_binary=True)
    reading = FrameReading()
    for piece in pieces(data, sizes):
        reading.messages += reader.feed(piece)
        reading.answers += reader.to_send()
    reading.is_open = reader.is_open
    return reading


def test_compressed_messages_are_read_whole_byte_by_byte_and_among_others() -> None:
    client = Compressor()
    data = b"".join(
        (
            client.frame(b"hello hello hello"),
            text("plain"),
            client.fragments(b"hello hello hello"),
            # What is passed over is part of what later messages build on.
            client.frame(b"passed over, passed over", BINARY),
            client.fragments(b"passed over, and again", BINARY),
            client.frame(b"passed over, and again"),
            client.frame(LONGEST.encode()),
            client.frame(b""),
        )
    )
    expected = ["hello hello hello", "plain", "hello hello hello", "passed over, and again", LONGEST, ""]
    for sizes in ([], one_by_one(data)):
        reading = read_compressed(data, sizes)
        assert reading.messages == expected
        assert reading.is_open
        assert [entry.opcode for entry in answer(reading)] == [PONG, PONG]


def _bomb() -> bytes:
    return zlib.compress(bytes(2_000_000), wbits=-12)[:BODY_LIMIT]


BAD_COMPRESSED: list[tuple[str, bytes, int]] = [
    ("what is no compressed message", frame(TEXT, b"\xff" * 20, reserved=COMPRESSED), 1002),
    ("the bit on a ping", frame(PING, b"a", reserved=COMPRESSED), 1002),
    (
        "the bit on a continuation",
        frame(TEXT, b"a", final=False) + frame(CONTINUATION, b"b", reserved=COMPRESSED),
        1002,
    ),
    ("another bit with it", frame(TEXT, b"a", reserved=COMPRESSED | 2), 1002),
    ("what is not UTF-8", Compressor().frame(b"\xff"), 1007),
    ("one byte too long", Compressor().frame(b"x" * (BODY_LIMIT + 1)), 1009),
    ("fragments that are too long", Compressor().fragments(b"x" * (BODY_LIMIT + 1)), 1009),
    ("a bomb", frame(TEXT, _bomb(), reserved=COMPRESSED), 1009),
    ("a bomb in binary", frame(BINARY, _bomb(), reserved=COMPRESSED), 1009),
    (
        "a byte behind a message that fills the room",
        frame(TEXT, Compressor().payload(LONGEST.encode()), reserved=COMPRESSED, final=False)
        + frame(CONTINUATION, b"\0"),
        1009,
    ),
]


@pytest.mark.parametrize(
    ("data", "code"), [case[1:] for case in BAD_COMPRESSED], ids=[case[0] for case in BAD_COMPRESSED]
)
def test_compressed_messages_against_the_rules_are_closed_with_their_code(data: bytes, code: int) -> None:
    stream = text("before") + data + text("after")
    for sizes in ([], one_by_one(stream)):
        reading = read_compressed(stream, sizes)
        assert reading.messages == ["before"]
        *_, last = answer(reading)
        assert (last.opcode, int.from_bytes(last.payload[:2], "big")) == (CLOSE, code)
        assert not reading.is_open


def test_long_messages_are_compressed_and_short_ones_are_not() -> None:
    deflate = agreed()
    short, long = b"x" * (COMPRESSED_BYTES - 1), b"x" * COMPRESSED_BYTES
    assert message_frame(short, deflate) == frame_header(len(short), True, True) + short
    assert message_frame(long, None) == frame_header(len(long), True, True) + long
    client = zlib.decompressobj(wbits=-12)
    for _ in range(3):
        # Each builds on those before it.
        sent = message_frame(long, deflate)
        assert (sent[0], sent[1]) == (0x81 | 0x40, len(sent) - 2)
        assert client.decompress(sent[2:] + b"\0\0\xff\xff") == long
