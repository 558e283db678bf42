"""A proxy in front of a server that ends TLS and serves it below a path, as sites with one address for all do."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from types import TracebackType

from tests.support.tls import CERTIFICATES

# Bytes that are passed on at a time.
PIECE = 65_536

_UPGRADE = re.compile(rb"^upgrade:", re.IGNORECASE | re.MULTILINE)
_CONNECTION = re.compile(rb"^connection:[^\r]*\r\n", re.IGNORECASE | re.MULTILINE)


class TlsFront:
    """`https://localhost:port/prefix/…` is `http://127.0.0.1:behind/…`; what is not below the prefix gets no answer."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        # The port of the server, once there is one.
        self.behind = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(CERTIFICATES / "certificate.pem", CERTIFICATES / "private_key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}{self.prefix}"

    def __enter__(self) -> TlsFront:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._open):
            _shut(each)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as client:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = client.recv(PIECE)
                    if not piece:
                        return
                    head += piece
                changed = self._changed(head)
                if changed is None:
                    return
                with socket.create_connection(("127.0.0.1", self.behind)) as server:
                    self._open |= {client, server}
                    server.sendall(changed)
                    back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
                    back.start()
                    _pass_on(client, server)
                    back.join()
                    self._open -= {client, server}
        except OSError:
            # The browser has left, or does not like the certificate.
            return

    def _changed(self, head: bytes) -> bytes | None:
        """The request without the prefix; each connection is for one, because the next would have it again."""
        method, target, rest = head.split(b" ", 2)
        prefix = self.prefix.encode()
        if not target.startswith(prefix + b"/"):
            return None
        if _UPGRADE.search(rest) is None:
            rest = _CONNECTION.sub(b"", rest).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        return b" ".join([method, target.removeprefix(prefix), rest])


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(PIECE):
            sink.sendall(piece)
    except OSError:
        pass
    _shut(source)
    _shut(sink)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It is gone already.
        return
