"""The smallest possible clients: raw HTTP over a socket, lines as they come, and a WebSocket for TLCP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from urllib.parse import quote

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

CID = "mgQkwtwdysogQz2BJ4Ji%20kOj2Bg"
PROTOCOL = "TLCP-2.4.0"
TIMEOUT = 30.0


def params(**parameters: object) -> str:
    """A parameter line: `op="add"` becomes `LS_op=add`, percent-encoded."""
    return "&".join(f"LS_{name}={quote(_text(value))}" for name, value in parameters.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Http:
    """One HTTP connection: send requests, read heads, bodies, or the lines of a stream."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
        source: str = "",
    ) -> None:
        """`source` is the address to come from, one of this machine's."""
        plain = socket.socket()
        if source:
            plain.bind((source, 0))
        if receive_buffer is not None:
            # Before the connection is made: the system announces it to the peer then.
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(TIMEOUT)
        plain.connect((host, port))
        self.socket = tls.wrap_socket(plain, server_hostname="localhost") if tls else plain
        # As other clients name it: with the port, by which the demo knows who comes through a proxy.
        self._authority = f"localhost:{port}"
        self._buffer = b""
        self._chunked = False
        self._body = b""
        self._ended = False
        self._remaining: int | None = None
        self.status = 0
        self.headers: dict[str, str] = {}

    def __enter__(self) -> Http:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def post(
        self,
        name: str,
        body: str | bytes = "",
        query: str | None = None,
        version: str = "1.1",
        headers: Mapping[str, str] | None = None,
        prefix: str = "",
    ) -> None:
        """Send a TLCP request; the query defaults to LS_protocol."""
        data = body.encode() if isinstance(body, str) else body
        query = f"LS_protocol={PROTOCOL}" if query is None else query
        lines = [f"POST {prefix}/lightstreamer/{name}.txt?{query} HTTP/{version}", f"Host: {self._authority}"]
        lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
        if not headers or "Content-Length" not in headers:
            lines.append(f"Content-Length: {len(data)}")
        self.send("\r\n".join([*lines, "", ""]).encode() + data)

    def get(
        self, target: str, version: str = "1.1", headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> None:
        lines = [f"{method} {target} HTTP/{version}", f"Host: {self._authority}"]
        lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
        self.send("\r\n".join([*lines, "", ""]).encode())

    def read_head(self) -> int:
        """Read status line and headers; returns the status."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {}
        for name, _, value in (line.partition(":") for line in rest):
            key = name.lower()
            # As browsers read them: those of one name become one.
            self.headers[key] = f"{self.headers[key]}, {value.strip()}" if key in self.headers else value.strip()
        self._chunked = self.headers.get("transfer-encoding") == "chunked"
        length = self.headers.get("content-length")
        self._remaining = None if length is None else int(length)
        self._body = b""
        self._ended = self._remaining == 0 or self.status in (204, 304)
        return self.status

    def read_bytes(self, count: int) -> bytes:
        """So many bytes that are not HTTP."""
        while len(self._buffer) < count:
            self._receive()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _receive(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the server has closed the connection")
        self._buffer += data

    def _more_body(self) -> None:
        """Move at least one more byte into the body, or find its end."""
        if self._ended:
            raise EOFError("the response has ended")
        if self._chunked:
            while b"\r\n" not in self._buffer:
                self._receive()
            size_text, _, rest = self._buffer.partition(b"\r\n")
            size = int(size_text, 16)
            while len(rest) < size + 2:
                self._receive()
                rest = self._buffer.partition(b"\r\n")[2]
            self._body += rest[:size]
            assert rest[size : size + 2] == b"\r\n"
            self._buffer = rest[size + 2 :]
            self._ended = size == 0
            return
        if not self._buffer:
            try:
                self._receive()
            except EOFError:
                self._ended = True
                if self._remaining is not None:
                    raise
                return
        if self._remaining is None:
            self._body += self._buffer
            self._buffer = b""
        else:
            taken = self._buffer[: self._remaining]
            self._buffer = self._buffer[len(taken) :]
            self._body += taken
            self._remaining -= len(taken)
            self._ended = self._remaining == 0

    def read_body(self) -> bytes:
        """The rest of the body, to its end."""
        while not self._ended:
            self._more_body()
        body, self._body = self._body, b""
        return body

    def read_some(self) -> bytes:
        """The next bytes of the body, as they come."""
        if not self._body:
            self._more_body()
        body, self._body = self._body, b""
        return body

    def read_line(self) -> str:
        """The next line of the body, without its end. Raises EOFError after the last."""
        while b"\r\n" not in self._body:
            self._more_body()
        line, _, self._body = self._body.partition(b"\r\n")
        return line.decode()

    def read_until(self, *tags: str) -> list[str]:
        """Lines up to and with the first whose tag is one of those; NOOP lines are left out."""
        found = []
        while True:
            line = self.read_line()
            if not line.startswith("NOOP"):
                found.append(line)
            if line.split(",")[0] in tags:
                return found

    def is_closed(self) -> bool:
        """Wait until the server closes the connection; anything it sends before is read over."""
        while True:
            try:
                if not self.socket.recv(65536):
                    return True
            except ConnectionError:
                return True


class Exchange:
    """Where a server listens, with one-call requests and streams."""

    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, receive_buffer: int | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._tls = tls
        self._receive_buffer = receive_buffer

    def http(self) -> Http:
        return Http(self.host, self.port, self._tls, self._receive_buffer)

    def request(self, name: str, body: str = "", query: str | None = None) -> list[str]:
        """One request on a connection of its own; the lines of the complete answer."""
        with self.http() as http:
            http.post(name, body, query)
            http.read_head()
            return http.read_body().decode().split("\r\n")[:-1]

    def control(self, session: str, **parameters: object) -> list[str]:
        return self.request("control", params(session=session, **parameters))

    def stream(self, adapter_set: str = "TEST", version: str = "1.1", extra: str = "", **parameters: object) -> Stream:
        """Create a session over HTTP and read up to CONS; `extra` follows the parameter line as it is."""
        http = self.http()
        body = f"{params(adapter_set=adapter_set, **parameters)}&LS_cid={CID}{extra}"
        http.post("create_session", body, version=version)
        http.read_head()
        return Stream(http, http.read_until("CONS", "CONERR"))

    def socket(self, subprotocol: str = f"{PROTOCOL}.lightstreamer.com", path: str = "/lightstreamer") -> Socket:
        return Socket(f"ws://{self.host}:{self.port}{path}", subprotocol)


class Stream:
    """An HTTP stream connection with a session."""

    def __init__(self, http: Http, head: list[str]) -> None:
        self.http = http
        self.head = head
        self.session = head[0].split(",")[1]

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def read_line(self) -> str:
        return self.http.read_line()

    def read_until(self, *tags: str) -> list[str]:
        return self.http.read_until(*tags)


class Socket:
    """A WebSocket that speaks TLCP: requests out, lines in."""

    def __init__(
        self, url: str, subprotocol: str, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._stack = ExitStack()
        self.connection: ClientConnection = self._stack.enter_context(
            connect(
                url,
                subprotocols=[Subprotocol(subprotocol)],
                additional_headers=headers,
                open_timeout=TIMEOUT,
                compression=None,
                proxy=None,
                ssl=tls,
            )
        )
        self._lines: list[str] = []
        self.session = ""

    def __enter__(self) -> Socket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def send(self, name: str, *lines: str) -> None:
        self.connection.send("\r\n".join([name, *lines]))

    def read_line(self, timeout: float = TIMEOUT) -> str:
        while not self._lines:
            message = self.connection.recv(timeout)
            assert isinstance(message, str)
            assert message.endswith("\r\n"), "a message must end at the end of a line"
            self._lines = message.split("\r\n")[:-1]
        return self._lines.pop(0)

    def read_until(self, *tags: str) -> list[str]:
        found = []
        while True:
            found.append(self.read_line())
            if found[-1].split(",")[0] in tags:
                return found

    def create(self, adapter_set: str = "TEST", **parameters: object) -> list[str]:
        """Create a session; the lines up to CONS."""
        self.send("create_session", f"{params(adapter_set=adapter_set, **parameters)}&LS_cid={CID}")
        head = self.read_until("CONS", "CONERR")
        self.session = head[0].split(",")[1]
        return head


def tags(lines: Iterable[str]) -> list[str]:
    return [line.split(",")[0] for line in lines]
