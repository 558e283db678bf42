"""Clients that do not keep to the rules: raw bytes out, whatever comes back in."""

from __future__ import annotations

import socket
from types import TracebackType

from tests.support.background import BackgroundServer
from tests.support.raw import CID, PROTOCOL, TIMEOUT
from tests.wire.frames import ServerFrame, server_frames

SUBPROTOCOL = f"{PROTOCOL}.lightstreamer.com"
UPGRADE = (
    "GET /lightstreamer HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
).encode()
CREATE = f"LS_adapter_set=TEST&LS_cid={CID}&LS_send_sync=false"
SESSION = "LS_session=Snone"
ADD = f"{SESSION}&LS_reqId=1&LS_op=add&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=MERGE"

# A session whose connection is gone is closed at once, so that what is left can be counted.
FORGETFUL = {
    "session.session_recovery_millis": 0,
    "session.session_timeout_millis": 50,
    "session.min_keepalive_millis": 50,
    "session.default_keepalive_millis": 50,
    "session.max_idle_millis": 50,
}


def post(name: str, body: bytes | str, *headers: str, query: str = f"LS_protocol={PROTOCOL}") -> bytes:
    """A well-formed request with any body."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"POST /lightstreamer/{name}.txt?{query} HTTP/1.1", "Host: h", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


class Hostile:
    """One connection."""

    def __init__(self, server: BackgroundServer, port: int | None = None) -> None:
        self.socket = socket.create_connection((server.host, server.port if port is None else port), TIMEOUT)
        # Every write is a packet of its own, and goes out at once.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Hostile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """As much as the server takes: it may have closed already."""
        try:
            self.socket.sendall(data)
        except ConnectionError:
            return

    def finish_sending(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def reset(self) -> None:
        """Close without goodbye: the server gets a reset instead of an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def read_all(self) -> bytes:
        """What the server sends until it closes."""
        found = b""
        while True:
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                return found
            if not data:
                return found
            found += data

    def read_until(self, end: bytes) -> bytes:
        found = b""
        while end not in found:
            data = self.socket.recv(65_536)
            assert data, f"the server has closed after {found!r}"
            found += data
        return found

    def open_websocket(self) -> None:
        self.send(UPGRADE)
        assert self.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")

    def read_frames(self) -> list[ServerFrame]:
        """All frames until the server closes."""
        return list(server_frames(self.read_all()))


def answer(server: BackgroundServer, data: bytes, port: int | None = None) -> bytes:
    """Send the bytes and the end of the stream; everything the server answers until it closes."""
    with Hostile(server, port) as client:
        client.send(data)
        client.finish_sending()
        return client.read_all()


def statuses(answered: bytes) -> list[int]:
    """The status codes of responses one after the other, each of a known length."""
    found = []
    while answered:
        head, _, rest = answered.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        found.append(int(first.split(" ")[1]))
        answered = rest[int(headers.get("content-length", "0")) :]
    return found
