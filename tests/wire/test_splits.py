from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.wire import frames
from tests.wire.reading import BODY_LIMIT, HEADER_LIMIT, HttpReading, one_by_one, read_frames, read_http

SIZES = st.lists(st.integers(1, 60), max_size=60)

# -- HTTP requests ----------------------------------------------------------------------------------------------------

TOKEN = st.text("abcXYZ019-_!", min_size=1, max_size=8)
FIELD_VALUE = st.text('abc XYZ,;="\t\xe9\xff019', max_size=20)
OTHER_HEADERS = st.lists(st.tuples(TOKEN.map("X-{}".format), FIELD_VALUE), max_size=5)
TARGET = st.text("abc/%20?&=._", max_size=30).map("/{}".format)
METHOD = st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE"])
BODY = st.binary(max_size=200)
EXTENSION = st.sampled_from(["", "", "", ";a", ";a=b", ';a="b"'])


@st.composite
def chunks(draw: st.DrawFn, body: bytes) -> bytes:
    """The body in chunks of any sizes, with extensions and trailers."""
    found = b""
    while body:
        size = draw(st.integers(1, len(body)))
        found += f"{size:x}{draw(EXTENSION)}\r\n".encode() + body[:size] + b"\r\n"
        body = body[size:]
    trailers = draw(st.sampled_from([b"", b"", b"X: y\r\n", b"X: y\r\nZ:\r\n"]))
    return found + f"0{draw(EXTENSION)}\r\n".encode() + trailers + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request of any shape that keeps the connection open."""
    headers = [("Host", "h"), *draw(OTHER_HEADERS)]
    body = draw(BODY)
    framing = draw(st.sampled_from(["none", "length", "chunked"]))
    if draw(st.booleans()):
        headers += [("Connection", "upgrade"), ("Upgrade", "h2c")]
    if framing == "none":
        body = b""
    elif framing == "length":
        headers.append(("Content-Length", str(len(body))))
    else:
        headers.append(("Transfer-Encoding", "chunked"))
        body = draw(chunks(body))
    headers = draw(st.permutations(headers))
    lines = [f"{draw(METHOD)} {draw(TARGET)} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return draw(st.sampled_from([b"", b"", b"\r\n"])) + "\r\n".join(lines).encode("latin-1") + body


ENDINGS = st.sampled_from(
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x84abcdefgh",
        b"nonsense",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (BODY_LIMIT + 1),
        b"GET /" + b"a" * HEADER_LIMIT + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    ]
)


def seen(reading: HttpReading) -> object:
    return reading.requests, reading.status, reading.leftover


@given(st.lists(requests(), max_size=4), ENDINGS, SIZES)
def test_requests_are_the_same_however_their_bytes_arrive(found: list[bytes], ending: bytes, sizes: list[int]) -> None:
    data = b"".join(found) + ending
    whole = read_http(data)
    assert len(whole.requests) >= len(found)
    assert seen(read_http(data, one_by_one(data))) == seen(whole)
    assert seen(read_http(data, sizes)) == seen(whole)


@given(st.binary(max_size=300) | st.text("GET /HTP1.\r\n: abc0", max_size=300).map(str.encode), SIZES)
def test_any_bytes_are_refused_alike_however_they_arrive(data: bytes, sizes: list[int]) -> None:
    whole = read_http(data)
    for reading in (read_http(data, one_by_one(data)), read_http(data, sizes)):
        assert seen(reading) == seen(whole)


# -- WebSocket messages -----------------------------------------------------------------------------------------------

KEY = st.binary(min_size=4, max_size=4)
CONTROL = st.tuples(st.sampled_from([frames.PING, frames.PONG]), st.binary(max_size=125))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A text message in any number of fragments, with control frames between them."""
    payload = draw(st.text(max_size=100)).encode("utf-8", "replace")
    parts = []
    while draw(st.booleans()) and payload:
        size = draw(st.integers(0, len(payload)))
        parts.append(payload[:size])
        payload = payload[size:]
    parts.append(payload)
    data = b""
    for index, part in enumerate(parts):
        for opcode, content in draw(st.lists(CONTROL, max_size=1)):
            data += frames.frame(opcode, content, key=draw(KEY))
        opcode = frames.CONTINUATION if index else frames.TEXT
        data += frames.frame(opcode, part, final=index == len(parts) - 1, key=draw(KEY))
    return data


LAST_FRAMES = st.sampled_from(
    [
        b"",
        b"\x81",
        frames.text("half")[:-1],
        frames.close(1000),
        frames.frame(frames.BINARY, b"x") + frames.text("not read"),
        frames.frame(frames.TEXT, b"\xff") + frames.text("not read"),
        frames.frame(frames.TEXT, b"x", key=None) + frames.text("not read"),
        frames.frame(frames.TEXT, b"x" * (BODY_LIMIT + 1)),
        frames.frame(5, b"x"),
    ]
)


@given(st.lists(messages(), max_size=5), LAST_FRAMES, SIZES)
def test_messages_are_the_same_however_their_bytes_arrive(found: list[bytes], ending: bytes, sizes: list[int]) -> None:
    data = b"".join(found) + ending
    whole = read_frames(data)
    assert len(whole.messages) == len(found)
    assert read_frames(data, one_by_one(data)) == whole
    assert read_frames(data, sizes) == whole


@given(st.binary(max_size=300), SIZES)
def test_any_bytes_are_answered_alike_however_they_arrive(data: bytes, sizes: list[int]) -> None:
    whole = read_frames(data)
    assert read_frames(data, one_by_one(data)) == whole
    assert read_frames(data, sizes) == whole
