"""A server whose adapters are remote, a remote adapter that misbehaves as the test says, and a client."""

from __future__ import annotations

import asyncio
import socket
import ssl
from types import TracebackType
from typing import TypeVar

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.server import Server
from penstock.testing import ari_peer
from penstock.wire.ari.packets import Credentials
from penstock.wire.ari.replies import Done, Initialised, Reply
from penstock.wire.ari.requests import InitData, InitMetadata, Request, SubscribeItem, UnsubscribeItem
from penstock.wire.ari.version import NEWEST, Version
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Socket, params

PATIENCE = 15.0

R = TypeVar("R", bound=Request)


class RemoteServer(BackgroundServer):
    """Adapter set REMOTE has data adapter FEED; either adapter, or both, may be remote."""

    def __init__(self, data: DataAdapter, metadata: MetadataAdapter | None = None, timeout_millis: int = 5_000) -> None:
        super().__init__({})
        self.data = data
        self.decider = metadata or MetadataAdapter()
        self._timeout_millis = timeout_millis

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        remote = AdapterSet("REMOTE", self.decider, {"FEED": self.data}, self._timeout_millis)
        self.server = Server(self.config, [remote])
        await self.server.start()
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    def __enter__(self) -> RemoteServer:
        super().__enter__()
        return self

    def client(self, **parameters: object) -> Client:
        return Client(self, **parameters)


class Client:
    """A TLCP client on a WebSocket, with a session; what it reads is lines."""

    def __init__(self, server: BackgroundServer, **parameters: object) -> None:
        self.socket: Socket = Exchange(server.host, server.port).socket()
        self.head = self.socket.create("REMOTE", **parameters)
        self._requests = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.__exit__(kind, error, trace)

    def control(self, **parameters: object) -> None:
        self._requests += 1
        self.socket.send("control", params(reqId=self._requests, **parameters))

    def subscribe(self, number: int, group: str, schema: str, mode: str = "MERGE", **parameters: object) -> None:
        self.control(
            op="add",
            subId=number,
            mode=mode,
            group=group,
            schema=schema,
            data_adapter="FEED",
            **{"snapshot": mode != "RAW", **parameters},
        )

    def unsubscribe(self, number: int) -> None:
        self.control(op="delete", subId=number)

    def say(self, text: str, number: int = 1) -> None:
        self._requests += 1
        self.socket.send("msg", params(reqId=self._requests, sequence="talk", msg_prog=number, message=text))

    def read(self, *tags: str) -> str:
        """The next line with one of these tags; others before it are passed over."""
        return self.socket.read_until(*tags)[-1]

    def values(self) -> list[str]:
        """The values of the next update, as on the wire."""
        return self.read("U").split(",", 3)[3].split("|")


class RemotePeer:
    """A remote adapter on real sockets that does nothing by itself."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, version: Version = NEWEST) -> None:
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.version = version
        self._buffer = b""

    def __enter__(self) -> RemotePeer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # -- out ------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def introduce(self, user: str | None = None, password: str | None = None, closes: bool = True) -> None:
        self.send(ari_peer.credentials(Credentials(user, password, closes, "by hand")))

    def reply(self, reply: Reply) -> None:
        self.send(ari_peer.encode_reply(reply, self.version))

    def initialise(self, kind: type[InitData] | type[InitMetadata] = InitData) -> dict[str, str | None]:
        """Answer the first request; its parameters."""
        identifier, request = self.expect(kind)
        self.reply(Initialised(identifier, request.method, self.version, {}))
        return dict(request.parameters)

    def update(self, item: str, subscription: str, snapshot: bool = False, **fields: str | None) -> None:
        self.send(ari_peer.update(1, item, subscription, snapshot, fields, self.version))

    def end_of_snapshot(self, item: str, subscription: str) -> None:
        self.send(ari_peer.end_of_snapshot(1, item, subscription, self.version))

    # -- in -------------------------------------------------------------------------------------------------------

    def read_line(self) -> str:
        while b"\n" not in self._buffer:
            data = self.socket.recv(65_536)
            if not data:
                raise EOFError("the server has closed the connection")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode().removesuffix("\r")

    def read(self) -> tuple[str, Request] | ari_peer.Close | ari_peer.ForcedReply:
        return ari_peer.parse_request(self.read_line(), self.version)

    def expect(self, kind: type[R]) -> tuple[str, R]:
        """The next line, which must be such a request."""
        read = self.read()
        assert isinstance(read, tuple), read
        assert isinstance(read[1], kind), read
        return read[0], read[1]

    def subscribe(self, item: str) -> str:
        """Answer the subscription of an item, which must come next; its identifier."""
        identifier, request = self.expect(SubscribeItem)
        assert request.item == item
        self.reply(Done(identifier, "SUB"))
        return identifier

    def unsubscribe(self, item: str) -> None:
        identifier, request = self.expect(UnsubscribeItem)
        assert request.item == item
        self.reply(Done(identifier, "USB"))

    def expect_close(self) -> str | None:
        """The reason that the server gives, after which it closes."""
        while not isinstance(read := self.read(), ari_peer.Close):
            pass
        self.expect_end()
        return read.reason

    def expect_end(self) -> None:
        """The server closes without a word."""
        try:
            line = self.read_line()
        except (EOFError, ConnectionError):
            return
        raise AssertionError(f"the server has sent {line!r}")


def ready(port: int, version: Version = NEWEST, tls: ssl.SSLContext | None = None) -> RemotePeer:
    """A data adapter that is initialised."""
    made = RemotePeer(port, tls, version)
    try:
        made.introduce()
        made.initialise()
    except BaseException:
        made.close()
        raise
    return made
