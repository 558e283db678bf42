"""One function per codec that takes any bytes; what it raises is a finding.

Documented errors (RequestError, HttpError, PushRefusal) are caught here. Read next: `penstock.wire`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from ipaddress import ip_address

from penstock.push import arguments
from penstock.push import format as formats
from penstock.push.format import Format
from penstock.push.refusals import PushRefusal
from penstock.push.thresholds import Thresholds
from penstock.push.trigger.trigger import Trigger
from penstock.transport.body import BadBody, body_text
from penstock.wire.form import FormError, parse_line, split_lines
from penstock.wire.forwarded import FORWARDED, ForwardedError, node, nodes
from penstock.wire.http1 import HttpError, HttpRequest, RequestParser
from penstock.wire.http2 import Http2Client, Http2Event
from penstock.wire.proxy_protocol import ProxyError, ProxyHeaderReader
from penstock.wire.tlcp.control import Request
from penstock.wire.tlcp.errors import RequestError
from penstock.wire.tlcp.requests import parse_requests
from penstock.wire.tlcp.values import decode_values, encode_values
from penstock.wire.tlcp.version import parse_version, subprotocol_version
from penstock.wire.websocket import FrameReader, accept, subprotocols, text_messages

NAMES = ("create_session", "bind_session", "control", "msg", "heartbeat", "wsok", "unknown")
SUBPROTOCOL = "TLCP-2.4.0.lightstreamer.com"

# A handshake that agrees on compression.
COMPRESSING = HttpRequest(
    "GET",
    "/ws/2",
    "1.1",
    {
        "host": "h",
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
        "sec-websocket-extensions": "permessage-deflate; client_max_window_bits",
    },
    keep_alive=True,
    upgrade=True,
)

# Longer than any input, so that whole and cut streams must be read alike; the limits themselves are tried apart.
ROOMY = 1_000_000
TIGHT = 200


def fuzz_requests(data: bytes) -> None:
    """Parameter lines and versions, as over WebSocket: first a byte that picks the request, then its text."""
    if not data:
        return
    text = data[1:].decode("utf-8", "replace")
    with contextlib.suppress(RequestError):
        parse_version(text)
    subprotocol_version(text)
    defaults: dict[str, str] = {}
    with contextlib.suppress(FormError):
        defaults = parse_line(text.partition("\r\n")[0])
    for query in ({}, defaults):
        with contextlib.suppress(RequestError):
            lines = split_lines(text)
            found = parse_requests(NAMES[data[0] % len(NAMES)], lines, query)
            assert all(isinstance(entry, Request | RequestError) for entry in found)
            assert len(found) in (1, len(lines))


def fuzz_values(data: bytes) -> None:
    """Value lists, decoded as a client does; what can be decoded survives a round trip."""
    if len(data) < 2:
        return
    count = data[0] % 24
    text = data[2:].decode("utf-8", "replace")
    previous = None if data[1] % 2 else tuple(None if index % 5 == 0 else f"v{index}" for index in range(count))
    try:
        values = decode_values(text, previous, count)
    except RequestError:
        return
    assert len(values) == count
    if count:
        for before in (None, previous, values):
            assert decode_values(encode_values(values, before), before, count) == values


def _cut(data: bytes) -> tuple[list[bytes], bytes]:
    """The stream behind the first four bytes, in pieces whose sizes they say, and whole."""
    sizes, stream = data[:4], data[4:]
    pieces: list[bytes] = []
    start = 0
    while start < len(stream):
        size = sizes[len(pieces) % 4] + 1
        pieces.append(stream[start : start + size])
        start += size
    return pieces, stream


def _read_http(pieces: list[bytes], limit: int) -> tuple[list[HttpRequest], bool, bytes | None]:
    parser = RequestParser(limit, limit)
    found: list[HttpRequest] = []
    for piece in pieces:
        found += parser.feed(piece)
    if parser.error is not None:
        assert parser.error.status in (400, 413, 431, 501)
    return found, parser.error is None, parser.leftover


def fuzz_http1(data: bytes) -> None:
    """HTTP requests, whole and in pieces, and everything that is read from a request before it is answered."""
    if len(data) < 4:
        return
    pieces, stream = _cut(data)
    whole = _read_http([stream], ROOMY)
    assert _read_http(pieces, ROOMY) == whole
    for request in _read_http(pieces, TIGHT)[0]:
        assert len(request.body) <= TIGHT
    for request in whole[0]:
        assert isinstance(request.path + request.query, str)
        subprotocols(request)
        with contextlib.suppress(HttpError):
            accept(request, SUBPROTOCOL)
        with contextlib.suppress(HttpError):
            accept(request, may_compress=True)
        with contextlib.suppress(BadBody):
            body_text(request, TIGHT)


def _read_frames(pieces: list[bytes], limit: int, compressed: bool = False) -> tuple[list[str], bool]:
    """The messages, and whether the socket is still open.

    Not the answers: when there are two reasons to close, the cut decides which one is named.
    """
    deflate = accept(COMPRESSING, may_compress=True).deflate if compressed else None
    reader = FrameReader(limit, deflate, skips_binary=compressed)
    messages: list[str] = []
    for piece in pieces:
        if not reader.is_open:
            break
        messages += reader.feed(piece)
        reader.to_send()
    is_open = reader.is_open
    reader.eof()
    reader.to_send()
    assert not reader.is_open
    return messages, is_open


def fuzz_websocket(data: bytes) -> None:
    """WebSocket frames from a client, whole and in pieces, and lines to it in frames of any size."""
    if len(data) < 4:
        return
    pieces, stream = _cut(data)
    whole = _read_frames([stream], ROOMY)
    assert _read_frames(pieces, ROOMY) == whole
    assert all(len(message.encode()) <= TIGHT for message in _read_frames(pieces, TIGHT)[0])
    assert _read_frames(pieces, ROOMY, compressed=True) == _read_frames([stream], ROOMY, compressed=True)
    assert all(len(message.encode()) <= TIGHT for message in _read_frames(pieces, TIGHT, compressed=True)[0])
    lines = [line + b"\r\n" for line in stream.split(b"\n")]
    assert sum(map(len, text_messages(lines, data[0] + 1))) > sum(map(len, lines))


def read_answers(pieces: list[bytes]) -> tuple[list[str], bytes, str]:
    """Events of a server's bytes after two requests, what is said to it, and the error at the end."""
    client = Http2Client()
    client.receive(b"\0\0\0\4\0\0\0\0\0")
    for body in (b"body", b""):
        client.begin(b"", body)
    events = [_described(event) for piece in pieces for event in client.receive(piece)]
    return events, client.take(), "" if client.error is None else client.error.text


def _described(event: Http2Event) -> str:
    names = ("stream", "block", "data", "is_last", "code", "last")
    return f"{type(event).__name__} {[getattr(event, name, None) for name in names]}"


def fuzz_http2(data: bytes) -> None:
    """What a server says over HTTP/2, whole and in pieces."""
    if len(data) < 4:
        return
    pieces, stream = _cut(data)
    assert read_answers(pieces) == read_answers([stream])


def _read_proxy(pieces: list[bytes]) -> tuple[str | None, int, int] | None:
    """Client, port and bytes of the header; None if it is not complete."""
    reader = ProxyHeaderReader()
    taken = 0
    for piece in pieces:
        if not reader.is_complete:
            taken += reader.feed(piece)
    return (reader.address, reader.port, taken) if reader.is_complete else None


def fuzz_proxy(data: bytes) -> None:
    """Headers of the PROXY protocol, whole and in pieces."""
    if len(data) < 4:
        return
    pieces, stream = _cut(data)
    try:
        whole = _read_proxy([stream])
    except ProxyError:
        is_refused = False
        try:
            _read_proxy(pieces)
        except ProxyError:
            is_refused = True
        assert is_refused
        return
    assert _read_proxy(pieces) == whole
    if whole is not None and whole[0] is not None:
        ip_address(whole[0])


def fuzz_forwarded(data: bytes) -> None:
    """Headers in which proxies name clients, as they come out of a request's head."""
    value = data.decode("latin-1")
    for name in (FORWARDED, "x-forwarded-for"):
        with contextlib.suppress(ForwardedError):
            for text in nodes(name, value):
                found = node(text)
                assert 0 <= found.port <= 65_535
                if found.address is not None:
                    ip_address(found.address)


def fuzz_trigger(data: bytes) -> None:
    """A trigger and, behind the first line end, values: what is taken has a result, and an index says the same."""
    text, *lines = data.decode("utf-8", "replace").split("\n")
    values = tuple(None if line == "null" else line for line in [*lines, "17", "null"][:2])
    try:
        converted = arguments.convert(text, dict.fromkeys(arguments.names(text), 1), 2)
        trigger = Trigger.compile(converted, 2, None)
    except PushRefusal:
        return
    result = trigger.matches(values)
    assert result in (True, False)
    if trigger.threshold is not None:
        index = Thresholds()
        index.add("a", trigger.threshold)
        assert index.fired(values) == (["a"] if result else [])


def fuzz_format(data: bytes) -> None:
    """A notification format: what is taken reads as the same once more, and its payloads are JSON."""
    text = data.decode("utf-8", "replace")
    try:
        positions = dict.fromkeys(formats.names(text), 2)
        made = Format.parse(text, 2, positions=positions)
    except PushRefusal:
        return
    again = Format.parse(made.text, 2)
    assert again.text == made.text
    for values in (("a", None), ('"$[2]\\', "\ud800\n")):
        payload = made.fill(values, 3)
        assert payload == again.fill(values, 3)
        payload.encode()
        assert json.loads(payload).keys() == json.loads(made.text).keys()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "requests": fuzz_requests,
    "values": fuzz_values,
    "http1": fuzz_http1,
    "websocket": fuzz_websocket,
    "http2": fuzz_http2,
    "proxy": fuzz_proxy,
    "forwarded": fuzz_forwarded,
    "trigger": fuzz_trigger,
    "format": fuzz_format,
}
