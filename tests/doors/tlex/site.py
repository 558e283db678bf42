"""A whole server with the TLEX door open, accounts of every role, an HTTP client and peers on real sockets."""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from penstock.doors.tlex.door import TlexDoor
from penstock.exchange.authorization import Role
from penstock.store.store import Store
from penstock.wire.tlex.datagrams import (
    Bye,
    Datagram,
    IdentifiedPayload,
    KeepAlive,
    Payload,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    decode,
)
from penstock.wire.tlex.frames import PREAMBLE, TlexFrameReader
from tests.support.background import BackgroundServer

# Nothing here takes longer, unless it is broken.
PATIENCE = 10.0

NOON = 1_700_000_000_000


class Site:
    """A context manager. Tokens of accounts are made when they are first needed."""

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, object] | None = None,
        url: str | None = None,
        background: BackgroundServer | None = None,
    ) -> None:
        """The database is a file in `directory`, or that of `url`. `background` is a server that has this database and
        an open TLEX door already, in place of one with the settings `overrides`.
        """
        url = url or f"sqlite:///{directory / 'store.db'}"
        self.store = Store.open(url)
        self.accounts: dict[str, str] = {}
        self._secrets: dict[tuple[str, Role, str, tuple[str, ...]], str] = {}
        self._numbers = itertools.count(1)
        self._peers: list[Peer] = []
        settings = {"tlex.enabled": True, "tlex.port": 0, "tlex.tls_port": 0, "tlex.store": url}
        self.background = background or BackgroundServer({**settings, **(overrides or {})})

    def __enter__(self) -> Site:
        self.background.__enter__()
        self.http = httpx.Client(base_url=f"{self.api}/api/v1", timeout=PATIENCE, trust_env=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()
        self.http.close()
        self.background.__exit__(kind, error, trace)
        self.store.close()

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.background.api_port}"

    @property
    def door(self) -> TlexDoor:
        door = self.background.server.tlex
        assert door is not None
        return door

    # -- accounts and controllers ---------------------------------------------------------------------------------

    def account(self, name: str) -> str:
        if name not in self.accounts:
            self.accounts[name] = self.store.add_account(name).uuid
        return self.accounts[name]

    def token(self, role: Role, account: str = "ours", domain: str = "test", identifiers: tuple[str, ...] = ()) -> str:
        place = account, role, domain, identifiers
        if place not in self._secrets:
            authorization = self.store.authorize(self.account(account), domain, role, identifiers)
            self._secrets[place] = self.store.add_token(authorization.uuid, NOON).secret
        return self._secrets[place]

    def tlcs(self, count: int, domain: str = "test") -> list[str]:
        """New controllers of account `ours`."""
        found = [f"TLC{next(self._numbers):05}" for _ in range(count)]
        for identifier in found:
            self.register(identifier, domain)
        return found

    def register(self, identifier: str, domain: str = "test", type: str = "TCPStreaming") -> dict[str, Any]:
        answer = self.ask("POST", "/tlcs", Role.TLC_ADMIN, {"identifier": identifier, "type": type}, domain=domain)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    # -- REST -----------------------------------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        role: Role,
        body: object = None,
        account: str = "ours",
        domain: str = "test",
    ) -> httpx.Response:
        headers = {"X-Authorization": self.token(role, account, domain)}
        return self.http.request(method, path, json=body, headers=headers)

    def post(
        self,
        type: str,
        *identifiers: str,
        protocol: str = "TCPStreaming_Multiplex",
        security: str = "NONE",
        account: str = "ours",
        domain: str = "test",
    ) -> httpx.Response:
        body = request(type, *identifiers, protocol=protocol, security=security, domain=domain)
        return self.ask("POST", "/sessions", ROLES[type], body, account, domain)

    def session(self, type: str, *identifiers: str, **more: str) -> dict[str, Any]:
        answer = self.post(type, *identifiers, **more)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    # -- connections ----------------------------------------------------------------------------------------------

    def dial(self, port: int | None = None, context: ssl.SSLContext | None = None) -> Peer:
        """A connection on which nothing has been said."""
        plain = socket.create_connection(("127.0.0.1", port or self.door.ports.port), PATIENCE)
        peer = Peer(plain if context is None else context.wrap_socket(plain, server_hostname="localhost"))
        self._peers.append(peer)
        return peer

    def hang_up(self) -> None:
        """Close all connections."""
        for peer in self._peers:
            peer.close()
        self._peers.clear()

    def connect(self, session: dict[str, Any], context: ssl.SSLContext | None = None) -> Peer:
        """The connection of a session, when the hub has admitted it."""
        peer = self.dial(session["details"]["listener"]["port"], context)
        peer.send_bytes(PREAMBLE + Token(session["token"]).encode())
        peer.token = session["token"]
        peer.synchronize()
        return peer

    def join(self, type: str, *identifiers: str, **more: str) -> Peer:
        return self.connect(self.session(type, *identifiers, **more))

    def controller(self, identifier: str, **more: str) -> Peer:
        """A controller's own session."""
        return self.join("TLC", identifier, protocol="TCPStreaming_Singleplex", **more)


ROLES = {"TLC": Role.TLC_ADMIN, "Broker": Role.BROKER_ADMIN, "Monitor": Role.MONITOR_ADMIN}


def request(
    type: str,
    *identifiers: str,
    protocol: str = "TCPStreaming_Multiplex",
    security: str = "NONE",
    domain: str = "test",
) -> dict[str, Any]:
    """The body of POST /sessions."""
    details: dict[str, Any] = {"securityMode": security}
    if protocol != "TCPStreaming_Multiplex":
        details["tlcIdentifier"] = identifiers[0]
    else:
        details["tlcIdentifiers"] = list(identifiers)
    return {"domain": domain, "type": type, "protocol": protocol, "details": details}


class Peer:
    """A client on a socket. It does nothing by itself: no keep-alive, no answer to requests for timestamps."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self.socket = connection
        self.token = ""
        # The hub's version byte is the first thing it says.
        self._reader = TlexFrameReader()
        self._datagrams: list[Datagram] = []
        self._asked = itertools.count(1)

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, *datagrams: Datagram) -> None:
        self.send_bytes(b"".join([each.encode() for each in datagrams]))

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()

    def break_off(self) -> None:
        """Without a word: with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.socket.close()

    def synchronize(self) -> None:
        """Until the hub has read all that was sent before; what comes meanwhile is kept."""
        number = next(self._asked)
        self.send(TimestampsRequest(number))
        kept = []
        while True:
            found = self.next()
            assert found is not None, "closed"
            if isinstance(found, TimestampsResponse) and found.request_sent == number:
                break
            kept.append(found)
        self._datagrams = kept + self._datagrams

    # -- receiving ------------------------------------------------------------------------------------------------

    def next(self) -> Datagram | None:
        """The next datagram; None at the end of the connection."""
        while not self._datagrams:
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._datagrams += [decode(each) for each in self._reader.feed(data)]
            assert self._reader.error is None
        return self._datagrams.pop(0)

    def expect(self, kind: type[Any]) -> Any:
        """The next datagram of a kind; others before it are dropped."""
        while (found := self.next()) is not None:
            if isinstance(found, kind):
                return found
        raise AssertionError(f"closed without {kind.__name__}")

    def payload(self) -> Payload | IdentifiedPayload:
        found: Payload | IdentifiedPayload = self.expect((Payload, IdentifiedPayload))  # type: ignore[arg-type]
        return found

    def rest(self) -> list[Datagram]:
        """All until the end of the connection."""
        found = []
        while (each := self.next()) is not None:
            found.append(each)
        return found

    def bye(self) -> str | None:
        """The reason of Bye, which must be the last datagram before the end; None without one."""
        found = self.rest()
        assert not any(isinstance(each, Bye) for each in found[:-1])
        return found[-1].reason if found and isinstance(found[-1], Bye) else None

    def version(self) -> bytes:
        """The first byte of the hub, as it came."""
        data = self.socket.recv(1)
        self._reader.feed(data)
        return data

    def keep_alive(self) -> None:
        self.send(KeepAlive())


def plain(text: str, type: int = 2, origin: int = NOON) -> Payload:
    return Payload(type, origin, text.encode())


def named(identifier: str, text: str, type: int = 2, origin: int = NOON) -> IdentifiedPayload:
    return IdentifiedPayload(identifier, type, origin, text.encode())
