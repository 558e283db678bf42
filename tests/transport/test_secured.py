"""Connections with TLS on both kinds of event loop: handshakes, both directions, pressure, and every way to end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

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


def early(port: int, data: bytes, ends: bool = False) -> socket.socket:
    """A client whose first bytes come in one piece with the end of its handshake.

    If it ends, its closing alert is in that piece, too; the socket stays open.
    """
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
    if ends:
        # The server's own alert has not come.
        with contextlib.suppress(ssl.SSLError):
            tls.unwrap()
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


class Changing:
    """A client that seals by itself, and may change its keys: RFC 8446, 5.2, 7.2 and 7.3."""

    def __init__(self, port: int, keys: Path) -> None:
        context = of_version(ssl.TLSVersion.TLSv1_3)
        context.keylog_filename = str(keys)
        client = secure(port, context)
        assert client.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
        (line,) = [line for line in keys.read_text().splitlines() if line.startswith("CLIENT_TRAFFIC_SECRET_0 ")]
        self._secret = bytes.fromhex(line.split()[2])
        self._number = 0
        self.socket = socket.socket(fileno=client.detach())
        self.socket.settimeout(PATIENCE)

    def _derive(self, name: bytes, length: int) -> bytes:
        label = b"tls13 " + name
        info = length.to_bytes(2) + bytes([len(label)]) + label + b"\0"
        return HKDFExpand(SHA384(), length, info).derive(self._secret)

    def _seal(self, content: bytes, kind: bytes) -> bytes:
        head = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2)
        nonce = (int.from_bytes(self._derive(b"iv", 12)) ^ self._number).to_bytes(12)
        self._number += 1
        return head + AESGCM(self._derive(b"key", 32)).encrypt(nonce, content + kind, head)

    def data(self, content: bytes) -> bytes:
        return self._seal(content, b"\x17")

    def change(self, wants_answer: bool) -> bytes:
        changed = self._seal(b"\x18\0\0\x01" + bytes([wants_answer]), b"\x16")
        self._secret, self._number = self._derive(b"traffic upd", 48), 0
        return changed


@pytest.mark.parametrize("wants_answer", [True, False])
@pytest.mark.parametrize("data", [b"", b"x"])
def test_a_client_that_changes_its_keys_again_and_again_is_disconnected(
    run: Run, tmp_path: Path, data: bytes, wants_answer: bool
) -> None:
    """Each change takes the server far longer than the client, and while it lasts nobody else is served."""

    def send(port: int) -> None:
        client = Changing(port, tmp_path / "keys")
        with client.socket, contextlib.suppress(ConnectionError):
            # As much as an answer is asked for: it reads none.
            for _ in range(100):
                pieces = [client.data(data)] if data else []
                client.socket.sendall(b"".join(pieces + [client.change(wants_answer) for _ in range(100)]))
            # It does not close: the server does.
            read_all(client.socket)

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            await asyncio.to_thread(send, port)
            await happened(server.lost)
            assert set(server.data) <= set(data)

    run(scenario())


def test_a_client_may_change_its_keys_now_and_then_for_ever(run: Run, tmp_path: Path) -> None:
    def send(port: int) -> None:
        client = Changing(port, tmp_path / "keys")
        with client.socket:
            for _ in range(2_000):
                client.socket.sendall(client.change(False) + client.data(b"12345678"))
            client.socket.shutdown(socket.SHUT_WR)
            read_all(client.socket)

    async def scenario() -> None:
        server = Server()
        async with listening(server) as port:
            await asyncio.to_thread(send, port)
            await server.has(b"12345678" * 2_000)

    run(scenario())


class Asking(Server):
    """Asks for the client's certificate whenever something comes."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data + repr(self.transport.get_extra_info("peercert")).encode())


def test_who_the_client_is_can_be_asked_when_what_follows_is_no_record_of_its(run: Run) -> None:
    def send(port: int) -> None:
        with early(port, b"question") as client, contextlib.suppress(ConnectionError):
            read_all(client)

    async def scenario() -> None:
        server = Asking()
        server.pauses = True
        async with listening(server) as port:
            task = asyncio.create_task(asyncio.to_thread(send, port))
            await happened(server.begun)
            server.transport.data_received(b"\x17\x03\x03\x00\x20" + b"\0" * 32)
            server.transport.resume_reading()
            await happened(server.lost)
            await task
            assert server.data == b"questionNone"

    run(scenario())


def garbage(port: int) -> None:
    with plain(port) as client, contextlib.suppress(ConnectionError):
        client.sendall(b"\x16\x03\x01\x00\x05garba" + bytes(60_000))
        client.shutdown(socket.SHUT_WR)
        read_all(client)


def bad_record(port: int) -> None:
    raw = socket.socket(fileno=secure(port).detach())
    raw.settimeout(PATIENCE)
    with raw, contextlib.suppress(ConnectionError):
        raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        read_all(raw)


@pytest.mark.parametrize("fail", [garbage, bad_record])
def test_nothing_is_left_of_a_connection_that_has_failed(run: Run, fail: Callable[[int], None]) -> None:
    """Freed at once: the garbage collector of a server looks seldom, and does not see how much OpenSSL holds."""

    def alive() -> int:
        return sum(type(each) is SecuredTransport for each in gc.get_objects())

    async def scenario() -> None:
        listener = await Listener.listen(Server, "127.0.0.1", 0, tls=server_context(FILES), handshake_seconds=PATIENCE)
        gc.collect()
        gc.disable()
        try:
            before = alive()
            for _ in range(5):
                await asyncio.to_thread(fail, listener.port)
            async with asyncio.timeout(PATIENCE):
                while alive() > before:  # noqa: ASYNC110 - nothing tells that an object is gone
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()
            listener.close()

    run(scenario())


class Pausing(Server):
    """Wants nothing more after the first bytes."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.pause_reading()


def test_that_the_client_sends_no_more_is_told_also_if_it_was_read_while_it_was_not_wanted(run: Run) -> None:
    async def scenario() -> None:
        server = Pausing()
        server.stays_open = True
        async with listening(server) as port:
            with await asyncio.to_thread(early, port, b"question", True):
                await server.has(b"question")
                assert not server.ended.is_set()
                server.transport.resume_reading()
                await happened(server.ended)
                server.transport.close()

    run(scenario())


def test_the_last_bytes_arrive_also_if_what_the_client_sends_was_not_wanted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "LINGER", 0.01)

    def connect(port: int) -> ssl.SSLSocket:
        raw = socket.socket()
        raw.settimeout(PATIENCE)
        # Most of what it is sent waits at the server.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", port))
        client = trusting_context().wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False)
        client.sendall(b"x" * 10_000)
        return client

    async def scenario() -> None:
        server = Server()
        server.pauses = True
        async with listening(server) as port:
            with await asyncio.to_thread(connect, port) as client:
                await happened(server.begun)
                server.transport.write(MUCH[:60_000])
                server.transport.close()
                await happened(server.lost)
                assert await asyncio.to_thread(read_all, client) == MUCH[:60_000]

    run(scenario())
