"""The one WebSocket server, at both doors that use it: what it does with slow, hostile and vanishing clients.

What the doors say on it is in tests/doors; frames without a socket are in tests/wire/test_websocket.py.
"""

from __future__ import annotations

import ctypes
import logging
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest

from penstock.transport.port import HttpPort
from penstock.transport.websocket import MAX_UNREAD, WebSocket
from tests.adapters.access.world import AUDIENCE
from tests.doors.ditto.site import SECRET, Site
from tests.support.hostile import SUBPROTOCOL, statuses
from tests.support.witness import ErrorLog
from tests.wire import frames
from tests.wire.test_websocket import BAD as BAD_FRAMES

PATIENCE = 30.0

# More than any limit here allows, so that it shows if one does not hold.
FLOOD = 16_000_000
# Seconds after which a server that has not read has stopped reading.
STUCK = 0.5

WRITE_MILLIS = 3_000
PING = frames.frame(frames.PING, b"x" * 125)


class Door:
    """One that has WebSockets: how to open one, and a message with its answer."""

    def __init__(self, site: Site, name: str) -> None:
        self.site = site
        self.name = name
        stream = name == "stream"
        api = site.server.api
        assert api is not None
        self._http_port: HttpPort = site.server.stream if stream else api
        self.port = site.server.stream.ports[0] if stream else site.server.api_port
        self.path = "/lightstreamer" if stream else "/ws/2"
        self.question = "wsok" if stream else "STOP-SEND-EVENTS"
        self.answer = frames.ServerFrame(True, frames.TEXT, b"WSOK\r\n" if stream else b"STOP-SEND-EVENTS:ACK")
        self.farewell = 1001 if stream else 1012

    def upgrade(self, *headers: str) -> bytes:
        token = jwt.encode({"aud": AUDIENCE, "sub": "alice", "exp": time.time() + 600}, SECRET, "HS256")
        own = f"Sec-WebSocket-Protocol: {SUBPROTOCOL}" if self.name == "stream" else f"Authorization: Bearer {token}"
        lines = [
            f"GET {self.path} HTTP/1.1",
            "Host: h",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            own,
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        link = socket.socket()
        if receive_buffer is not None:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        link.settimeout(PATIENCE)
        link.connect(("127.0.0.1", self.port))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def open(self, behind: bytes = b"", *headers: str, receive_buffer: int | None = None) -> socket.socket:
        """A connection that has become a WebSocket; `behind` comes with the request."""
        link = self.connect(receive_buffer)
        link.sendall(self.upgrade(*headers) + behind)
        head = read_head(link)
        assert head.startswith(b"HTTP/1.1 101 "), head
        return link

    def sockets(self) -> list[WebSocket]:
        assert self._http_port is not None
        connections = self._http_port.connections
        return self.site.call(lambda: [each for each in connections if isinstance(each, WebSocket)])

    def of(self, link: socket.socket) -> WebSocket:
        """The server's side."""
        port = link.getsockname()[1]
        (found,) = [each for each in self.sockets() if each.transport.get_extra_info("peername")[1] == port]
        return found

    def has_none_left(self) -> None:
        assert self._http_port is not None
        census = self._http_port.connection_census
        eventually(lambda: not self.sockets())
        eventually(lambda: self.site.call(len, census) == 0)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_head(link: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = link.recv(1)
        assert data, head
        head += data
    return head


def read_frame(link: socket.socket) -> bytes:
    """One short frame."""
    head = link.recv(2, socket.MSG_WAITALL)
    assert head[1] < 126
    return head + link.recv(head[1], socket.MSG_WAITALL)


def read_all(link: socket.socket) -> list[frames.ServerFrame]:
    """All frames until the server closes."""
    received = b""
    try:
        while data := link.recv(65_536):
            received += data
    except ConnectionError:
        pass
    return list(frames.server_frames(received))


def send_until_stuck(link: socket.socket, data: bytes) -> int:
    """Send the data again and again until the server stops reading; how many bytes it took."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    link.setblocking(False)
    sent = 0
    while sent < FLOOD and select.select([], [link], [], STUCK)[1]:
        sent += link.send(data[sent % len(data) :])
    link.settimeout(PATIENCE)
    return sent


def closed_with(frame: frames.ServerFrame) -> int:
    assert frame.opcode == frames.CLOSE
    return int.from_bytes(frame.payload[:2], "big")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), {"limits.write_timeout_millis": WRITE_MILLIS}) as running:
        yield running


@pytest.fixture(autouse=True)
def errors() -> Iterator[None]:
    """Fails the test for anything logged as an error: nothing that a client does may cause one."""
    handler = ErrorLog()
    loggers = [logging.getLogger(name) for name in ("penstock", "asyncio", "websockets")]
    for logger in loggers:
        logger.addHandler(handler)
    yield
    for logger in loggers:
        logger.removeHandler(handler)
    assert handler.records == []


@pytest.fixture(params=["stream", "ditto"])
def door(site: Site, request: pytest.FixtureRequest) -> Iterator[Door]:
    """After each test none of its sockets may be left."""
    found = Door(site, request.param)
    yield found
    found.has_none_left()


# -- the handshake -----------------------------------------------------------------------------------------------------


def test_a_handshake_that_is_wrong_is_answered_with_its_status(door: Door) -> None:
    upgrade = door.upgrade()
    changes = [
        (b"GET ", b"POST ", 405),
        (door.path.encode() + b" ", b"/elsewhere ", 404),
        (b"Version: 13", b"Version: 12", 400),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"short", 400),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"\xff" * 24, 400),
        (b"Upgrade: websocket", b"Upgrade: websocket\r\nContent-Length: 5", 400),
    ]
    for old, new, status in changes:
        assert old in upgrade
        with door.connect() as link:
            link.sendall(upgrade.replace(old, new))
            link.shutdown(socket.SHUT_WR)
            answered = b""
            while data := link.recv(65_536):
                answered += data
            assert statuses(answered) == [status], new


def test_frames_may_come_with_the_handshake(door: Door) -> None:
    with door.open(frames.text(door.question) + frames.close(1000)) as link:
        *answers, last = read_all(link)
        assert answers in ([], [door.answer])
        assert last == frames.ServerFrame(True, frames.CLOSE, b"\x03\xe8")


@pytest.mark.parametrize("ending", ["close", "reset", "half close"])
def test_a_client_may_leave_at_any_byte_of_its_handshake_and_first_message(door: Door, ending: str) -> None:
    data = door.upgrade() + frames.text(door.question)
    chance = random.Random(5)
    for length in [*sorted(chance.sample(range(len(data)), 30)), len(data)]:
        with door.connect() as link:
            link.sendall(data[:length])
            if ending == "reset":
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif ending == "half close":
                link.shutdown(socket.SHUT_WR)
                while link.recv(65_536):
                    pass


# -- what a client says ------------------------------------------------------------------------------------------------


def test_a_message_may_come_byte_by_byte_and_in_fragments_with_pings_between_them(door: Door) -> None:
    first, rest = door.question[:2].encode(), door.question[2:].encode()
    with door.open() as link:
        data = (
            frames.frame(frames.TEXT, first, final=False)
            + frames.frame(frames.PING, b"p")
            + frames.frame(frames.CONTINUATION, b"", final=False)
            + frames.frame(frames.CONTINUATION, rest)
        )
        for place in range(len(data)):
            link.sendall(data[place : place + 1])
        received = read_frame(link) + read_frame(link)
        # In which order is up to the door.
        assert set(frames.server_frames(received)) == {frames.ServerFrame(True, frames.PONG, b"p"), door.answer}


def test_frames_against_the_rules_close_the_socket_with_their_code(door: Door) -> None:
    for name, data, code in BAD_FRAMES:
        if (code == 1009 and len(data) > 100) or (code == 1003 and door.name == "ditto"):
            # The limits here are larger; and Ditto's clients may say what they like in bytes.
            continue
        with door.open() as link:
            link.sendall(frames.text(door.question) + data)
            *answers, last = read_all(link)
            assert closed_with(last) == code, name
            assert answers in ([], [door.answer]), name


def test_a_message_that_is_too_long_is_told_so_even_if_all_of_it_is_sent_first(door: Door) -> None:
    with door.open() as link:
        link.sendall(frames.frame(frames.TEXT, b"x" * 3_000_000))
        (last,) = read_all(link)
        assert closed_with(last) == 1009


def test_nonsense_is_closed_and_forgotten(door: Door) -> None:
    chance = random.Random(7)
    for _ in range(60):
        with door.open() as link:
            link.sendall(chance.randbytes(chance.randrange(20, 2_000)))
            link.shutdown(socket.SHUT_WR)
            read_all(link)


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [b"", frames.frame(frames.CONTINUATION, b"end"), frames.text("after")])
def test_a_close_inside_a_message_is_answered_as_any_other(door: Door, behind: bytes) -> None:
    with door.open() as link:
        link.sendall(frames.frame(frames.TEXT, b"unfinished", final=False) + frames.close(1000) + behind)
        assert read_all(link) == [frames.ServerFrame(True, frames.CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(frames.close(1000), id="a close"),
        pytest.param(frames.close(1000) + frames.frame(frames.PING, b"x"), id="a ping behind a close"),
        pytest.param(frames.text("wsok") * 50, id="messages"),
        pytest.param(b"\xff" * 20, id="nonsense"),
        pytest.param(b"\x81", id="half a frame"),
    ],
)
def test_a_client_that_closes_its_side_is_closed_without_a_word_in_the_log(door: Door, last: bytes) -> None:
    with door.open() as link, door.open(last) as other:
        link.sendall(last)
        for each in (link, other):
            each.shutdown(socket.SHUT_WR)
            read_all(each)
        # Not because the clients close: they have not yet.
        door.has_none_left()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(frames.close(1000), id="a close"),
        pytest.param(frames.frame(frames.TEXT, b"\xff"), id="text that is none"),
        pytest.param(b"\xff" * 20, id="nonsense"),
    ],
)
def test_what_a_client_says_after_the_close_is_not_answered_or_logged(door: Door, end: bytes) -> None:
    for word in (frames.close(1000), frames.frame(frames.PING, b"x"), frames.text(door.question), None):
        with door.open() as link:
            link.sendall(end)
            (goodbye,) = frames.server_frames(read_frame(link))
            assert goodbye.opcode == frames.CLOSE
            if word is None:
                link.shutdown(socket.SHUT_WR)
            else:
                link.sendall(word + word)
            assert read_all(link) == []


def test_a_client_that_does_not_close_after_the_close_is_closed(door: Door) -> None:
    with door.open() as link:
        link.sendall(frames.close(1000))
        assert [closed_with(frame) for frame in read_all(link)] == [1000]
        door.has_none_left()


def test_clients_are_told_when_the_server_stops(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        doors = [Door(site, name) for name in ("stream", "ditto")]
        links = [door.open() for door in doors]
    for door, link in zip(doors, links, strict=True):
        with link:
            (last,) = read_all(link)
            assert closed_with(last) == door.farewell


# -- clients that do not read ------------------------------------------------------------------------------------------


def test_pongs_that_nobody_reads_stop_the_pings_and_the_client_is_cut(door: Door) -> None:
    with door.open(receive_buffer=65_536) as link:
        sent = send_until_stuck(link, PING * 400)
        assert sent < FLOOD
        for each in door.sockets():
            assert door.site.call(each.transport.get_write_buffer_size) < 2 * MAX_UNREAD
        # It has taken nothing for as long as it may.
        door.has_none_left()


def test_a_client_that_reads_its_answers_after_all_gets_every_one(tmp_path: Path) -> None:
    with Site(tmp_path) as patient:
        for name in ("stream", "ditto"):
            with Door(patient, name).open(receive_buffer=65_536) as link:
                sent = send_until_stuck(link, PING * 400)
                assert sent < FLOOD
                rest = -sent % len(PING)
                found = b""
                while len(found) < sent // len(PING) * 127:
                    found += link.recv(65_536)
                link.sendall(PING[len(PING) - rest :] + frames.close(1000))
                while data := link.recv(65_536):
                    found += data
                *pongs, last = frames.server_frames(found)
                assert len(pongs) == -(-sent // len(PING))
                assert {entry.opcode for entry in pongs} == {frames.PONG}
                assert closed_with(last) == 1000


# -- clients that vanish -----------------------------------------------------------------------------------------------


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


SO_ATTACH_FILTER = 26


def deafen(link: socket.socket) -> None:
    """Have the system drop all that comes for this socket, acknowledgements too: as if the machine had gone."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = _Filter(1, ctypes.addressof(drop_all))
    link.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))


def test_a_client_that_has_vanished_is_cut_when_it_acknowledges_nothing_for_the_write_timeout(door: Door) -> None:
    with door.open() as link:
        link.sendall(frames.text(door.question))
        deafen(link)
        link.sendall(PING)
        door.has_none_left()


def test_the_system_is_told_how_long_to_wait_for_those_who_have_vanished(door: Door) -> None:
    with door.open() as link:
        found = door.of(link).transport.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == WRITE_MILLIS


# -- compression -------------------------------------------------------------------------------------------------------

OFFER = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"


def test_compression_is_agreed_on_where_it_costs_nobody_else(door: Door) -> None:
    with door.connect() as link:
        link.sendall(door.upgrade(OFFER) + frames.close(1000))
        head = read_head(link).lower()
        assert head.startswith(b"http/1.1 101 ")
        assert (b"permessage-deflate" in head) == (door.name == "ditto")
        read_all(link)
