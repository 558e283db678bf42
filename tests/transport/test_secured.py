"""Connections with TLS on both kinds of event loop: handshakes, both directions, pressure, and every way to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator
from typing import cast

import pytest

from penstock.certificates import CertificateFiles
from penstock.transport import closing
from penstock.transport.listener import Listener
from penstock.transport.pressure import socket_of
from penstock.transport.secured import SecuredTransport, below, seal_of
from penstock.transport.tls import server_context
from tests.support.tls import CERTIFICATES, trusting_context
from tests.transport.loops import Run

FILES = CertificateFiles(str(CERTIFICATES / "certificate.pem"), str(CERTIFICATES / "private_key.pem"))
PATIENCE = 20.0
MUCH = bytes(range(256)) * 12_000


class Server(asyncio.Protocol):
    """Keeps what it gets, and tells what happens to it."""

    def __init__(self) -> None:
        self.transport = cast(SecuredTransport, None)
        self.data = b""
        self.begun = asyncio.Event()
        self.arrived = asyncio.Event()
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self.choked = asyncio.Event()
        self.relieved = asyncio.Event()
        self.error: Exception | None = None
        self.stays_open = False
        self.pauses = False
        self.echoes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SecuredTransport)
        self.transport = transport
        if self.pauses:
            transport.pause_reading()
        self.begun.set()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.arrived.set()
        if self.echoes:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.ended.set()
        return self.stays_open

    def pause_writing(self) -> None:
        self.relieved.clear()
        self.choked.set()

    def resume_writing(self) -> None:
        self.choked.clear()
        self.relieved.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.lost.set()

    async def has(self, data: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.data != data:
                self.arrived.clear()
                await self.arrived.wait()


async def happened(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), PATIENCE)


@contextlib.asynccontextmanager
async def listening(server: Server, seconds: float = PATIENCE, room: int | None = None) -> AsyncIterator[int]:
    listener = await Listener.listen(
        lambda: server, "127.0.0.1", 0, tls=server_context(FILES), handshake_seconds=seconds, room=room
    )
    try:
        yield listener.port
    finally:
        listener.close()


def plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def secure(port: int, context: ssl.SSLContext | None = None, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
    context = context or trusting_context()
    # What ends without its alert is an error, as it should be.
    return context.wrap_socket(plain(port), server_hostname="localhost", suppress_ragged_eofs=False, session=session)


def read_all(client: socket.socket) -> bytes:
    found = b""
    while data := client.recv(65_536):
        found += data
    return found


def of_version(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = trusting_context()
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_much_arrives_whole_in_both_directions(run: Run, version: ssl.TLSVersion) -> None:
    def talk(port: int) -> bytes:
        with secure(port, of_version(version)) as client:
            found = b""
            for start in range(0, len(MUCH), 100_000):
                piece = MUCH[start : start + 100_000]
                client.sendall(piece)
                wanted = len(found) + len(piece)
                while len(found) < wanted:
                    found += client.recv(65_536)
            return found

    async def scenario() -> None:
        server = Server()
        server.echoes = True
        async with listening(server) as port:
            assert await asyncio.to_thread(talk, port) == MUCH
            assert server.data == MUCH
            await happened(server.lost)

    run(scenario())


def early(port: int, data: bytes) -> socket.socket:
    """A client whose first bytes come in one piece with the end of its handshake."""
    client = plain(port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            client.sendall(outgoing.read())
            incoming.write(client.recv(65_536))
    tls.write(data)
    client.sendall(outgoing.read())
    return client


@pytest.mark.parametrize("pauses", [False, True])
def test_what_comes_with_the_end_of_the_handshake_is_read(run: Run, pauses: bool) -> None:
    async def scenario() -> None:
        server = Server()
        server.pauses = pauses
        async with listening(server) as port:
            with await asyncio.to_thread(early, port, b"at once"):
                await happened(server.begun)
                if pauses:
                    assert server.data == b""
                    server.transport.resume_reading()
                await server.has(b"at once")
            await happened(server.lost)

    run(scenario())


def test_what_is_sent_to_one_who_does_not_read_comes_when_it_reads_and_so_does_the_end(run: Run) -> None:
    def send(port: int) -> None:
        with secure(port) as client:
            client.sendall(b"before the end")
            client.unwrap().close()

    async def scenario() -> None:
        server = Server()
        server.pauses = True
        async with listening(server) as port:
            sending = asyncio.create_task(asyncio.to_thread(send, port))
            await happened(server.begun)
            assert not server.transport.is_reading()
            assert (server.data, server.ended.is_set()) == (b"", False)
            server.transport.resume_reading()
            assert server.transport.is_reading()
            await happened(server.lost)
            assert server.data == b"before the end"
            assert server.ended.is_set()
            await sending

    run(scenario())


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", os.urandom(3_000), b"\x16\x03\x01\xff\xff" + b"\0" * 70_000]
)
def test_what_is_no_handshake_is_answered_by_an_alert_or_nothing_and_closed(run: Run, garbage: bytes) -> None:
    def send(port: int) -> bytes:
        with plain(port) as client:
            try:
                client.sendall(garbage)
                return read_all(client)
            except ConnectionError:
                return b""

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            answer = await asyncio.to_thread(send, port)
            # An alert, and a fatal one.
            assert answer[:1] + answer[5:6] in (b"", b"\x15\x02")
            assert not server.begun.is_set()

    run(scenario())


def test_a_client_that_leaves_during_the_handshake_is_forgotten(run: Run) -> None:
    async def scenario() -> None:
        server = Server()
        async with listening(server, room=1) as port:
            for _ in range(3):
                client = await asyncio.to_thread(plain, port)
                client.sendall(b"\x16\x03\x01")
                client.close()
            with await asyncio.to_thread(secure, port) as client:
                client.sendall(b"hello")
                await server.has(b"hello")
            await happened(server.lost)

    run(scenario())


def test_a_handshake_that_takes_too_long_is_cut(run: Run) -> None:
    def wait(port: int) -> bytes:
        with plain(port) as client:
            client.sendall(b"\x16\x03\x01")
            with contextlib.suppress(ConnectionError):
                return client.recv(1)
            return b""

    async def scenario() -> None:
        server = Server()
        async with listening(server, seconds=0.05) as port:
            assert await asyncio.to_thread(wait, port) == b""
            assert not server.begun.is_set()

    run(scenario())


def test_the_oldest_handshake_makes_room_for_another_client(run: Run) -> None:
    def wait(client: socket.socket) -> bytes:
        with contextlib.suppress(ConnectionError):
            return client.recv(1)
        return b""

    async def scenario() -> None:
        server = Server()
        async with listening(server, room=1) as port:
            with await asyncio.to_thread(plain, port) as oldest, await asyncio.to_thread(secure, port) as client:
                assert await asyncio.to_thread(wait, oldest) == b""
                client.sendall(b"hello")
                await server.has(b"hello")
            await happened(server.lost)

    run(scenario())


def test_bytes_that_the_client_did_not_seal_end_the_connection_with_an_error(run: Run) -> None:
    def send(port: int) -> bytes:
        client = secure(port)
        raw = socket.socket(fileno=client.detach())
        with raw:
            raw.settimeout(PATIENCE)
            # A record of application data that nobody has sealed.
            raw.sendall(b"\x17\x03\x03\x00\x20" + b"\0" * 32)
            with contextlib.suppress(ConnectionError):
                return read_all(raw)
            return b""

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            await asyncio.to_thread(send, port)
            await happened(server.lost)
            assert isinstance(server.error, ssl.SSLError)
            assert server.data == b""
            assert server.transport.is_closing()
            assert server.transport.seal(b"too late") == b""

    run(scenario())


def test_a_client_that_has_said_that_it_sends_no_more_gets_its_answer(run: Run) -> None:
    def half_close(port: int) -> bytes:
        client = plain(port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        found = b""
        with client:
            for step in (tls.do_handshake, lambda: tls.write(b"question"), tls.unwrap):
                while True:
                    try:
                        step()
                        break
                    except ssl.SSLWantReadError:
                        client.sendall(outgoing.read())
                        if step == tls.unwrap:
                            client.shutdown(socket.SHUT_WR)
                            return read_all(client)
                        incoming.write(client.recv(65_536))
        return found

    async def scenario() -> None:
        server = Server()
        server.stays_open = True
        async with listening(server) as port:
            answering = asyncio.create_task(asyncio.to_thread(half_close, port))
            await happened(server.ended)
            assert server.data == b"question"
            assert not server.transport.is_closing()
            server.transport.write(b"a long answer" * 100)
            server.transport.close()
            # Sealed: what matters is that it still comes, before the end.
            assert len(await answering) > 1_300
            await happened(server.lost)
            assert server.error is None

    run(scenario())


def test_a_client_that_breaks_off_is_reported(run: Run) -> None:
    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            client = await asyncio.to_thread(secure, port)
            await happened(server.begun)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            await happened(server.lost)
            assert isinstance(server.error, ConnectionError)

    run(scenario())


@pytest.mark.parametrize("talks", [False, True])
def test_the_last_bytes_arrive_and_the_closing_alert_after_them(run: Run, talks: bool) -> None:
    """Also at a client that goes on sending."""

    def read(client: ssl.SSLSocket) -> bytes:
        if talks:
            client.sendall(b"x" * 100_000)
        # An end without the alert would be an error.
        return read_all(client)

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            with await asyncio.to_thread(secure, port) as client:
                await happened(server.begun)
                server.transport.write(MUCH)
                server.transport.close()
                server.transport.write(b"after the end")
                assert await asyncio.to_thread(read, client) == MUCH
            await happened(server.lost)
            assert server.data == b""

    run(scenario())


def test_a_client_that_does_not_close_its_side_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "LINGER", 0.05)

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            with await asyncio.to_thread(secure, port):
                await happened(server.begun)
                server.transport.close()
                server.transport.close()
                await happened(server.lost)

    run(scenario())


def test_an_aborted_connection_has_no_closing_alert(run: Run) -> None:
    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            with await asyncio.to_thread(secure, port) as client:
                await happened(server.begun)
                server.transport.abort()
                with pytest.raises((ssl.SSLEOFError, ConnectionError)):
                    await asyncio.to_thread(read_all, client)
            await happened(server.lost)

    run(scenario())


def test_the_first_byte_that_waits_is_told_and_what_is_written_past_it_stays_in_order(run: Run) -> None:
    """As WebSockets do it: sealed and written to the socket, and the rest left to the socket's transport."""

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            with await asyncio.to_thread(secure, port) as client:
                await happened(server.begun)
                transport = server.transport
                seal = seal_of(transport)
                assert seal is not None
                sent = b""
                while not server.choked.is_set():
                    assert transport.get_write_buffer_size() == 0
                    piece = b"%d " % len(sent) * 5_000
                    sealed = seal(piece)
                    taken = 0
                    with contextlib.suppress(BlockingIOError):
                        taken = os.write(socket_of(transport), sealed)
                    if taken < len(sealed):
                        below(transport).write(sealed[taken:])
                    sent += piece
                assert transport.get_write_buffer_size() > 0
                transport.write(b"the last")
                transport.close()
                assert await asyncio.to_thread(read_all, client) == sent + b"the last"
                await happened(server.relieved)
            await happened(server.lost)

    run(scenario())


def test_a_client_comes_back_with_its_ticket(run: Run) -> None:
    def come(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession, bool]:
        with secure(port, context, session) as client:
            client.sendall(b"hello")
            assert client.recv(5) == b"hello"
            assert client.session is not None
            return client.session, bool(client.session_reused)

    async def scenario() -> None:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = of_version(version)
            server = Server()
            server.echoes = True
            async with listening(server) as port:
                session, is_again = await asyncio.to_thread(come, port, context, None)
                assert not is_again
                _, is_again = await asyncio.to_thread(come, port, context, session)
                assert is_again

    run(scenario())


@contextlib.asynccontextmanager
async def openssl(port: int, version: str) -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader]]:
    """Its client, after the handshake: what it is told to do, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *("openssl", "s_client", "-connect", f"127.0.0.1:{port}", version),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            await process.stdout.readuntil(b"Verify return code")
            yield process.stdin, process.stdout
            process.stdin.close()
            await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


def test_new_keys_are_used_when_the_client_asks_for_them(run: Run) -> None:
    async def scenario() -> None:
        server = Server()
        async with listening(server) as port, openssl(port, "-tls1_3") as (orders, said):
            # The client changes its keys, and asks the server for new ones.
            orders.write(b"K\n")
            await said.readuntil(b"KEYUPDATE")
            orders.write(b"with new keys\n")
            await server.has(b"with new keys\n")
            server.transport.write(b"and so is this.")
            await said.readuntil(b"and so is this.")
            server.transport.close()
            await happened(server.lost)
            assert server.error is None

    run(scenario())


def test_renegotiation_is_refused(run: Run) -> None:
    async def scenario() -> None:
        server = Server()
        async with listening(server) as port, openssl(port, "-tls1_2") as (orders, said):
            orders.write(b"R\n")
            await said.readuntil(b"RENEGOTIATING")
            await said.readuntil(b"no renegotiation")
            await happened(server.lost)

    run(scenario())
