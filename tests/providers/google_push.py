"""Google's side of Chromium's push service: check-in, registration, and the connection that messages come by.

Chromium is told by switches to ask this one. It is written from what Chromium sends and from its published message
definitions (google_apis/gcm/protocol); those parts of the messages that it does not need are left out.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import BinaryIO
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate

from tests.providers.push_service import PATIENCE
from tests.support.tls import CERTIFICATES

# Of the protocol of the connection: its version, and the kinds of its messages.
VERSION = 41
PING, PING_ANSWER, LOGIN, LOGIN_ANSWER, DATA = 0, 1, 2, 3, 8

# Any will do: who the browser is.
ANDROID_ID, SECURITY_TOKEN = 4_711, 815

TOKEN = "token-of-this-browser"


def number(value: int) -> bytes:
    """A varint of protocol buffers."""
    low, rest = value & 127, value >> 7
    return bytes([low]) if rest == 0 else bytes([low | 128]) + number(rest)


def text(field: int, value: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(value)) + value


def fixed(field: int, value: int) -> bytes:
    return number(field << 3 | 1) + value.to_bytes(8, "little")


def message(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + number(len(content)) + content


CHECKED_IN = number(1 << 3) + number(1) + fixed(7, ANDROID_ID) + fixed(8, SECURITY_TOKEN)


class GooglePush:
    """Used as a context manager, for one browser with one subscription."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._registration: dict[str, str] = {}
        self._links: list[ssl.SSLSocket] = []
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(CERTIFICATES / "certificate.pem", CERTIFICATES / "private_key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        # Everything that was sent.
        self._messages: list[bytes] = []

    @property
    def switches(self) -> list[str]:
        """For Chromium, which has to have a profile: without one it does not take the last."""
        web = f"http://127.0.0.1:{self._http.server_port}"
        return [
            f"--gcm-checkin-url={web}/checkin",
            f"--gcm-registration-url={web}/register",
            f"--gcm-mcs-endpoint=https://localhost:{self._listener.getsockname()[1]}",
            f"--ignore-certificate-errors-spki-list={_fingerprint()}",
        ]

    def deliver(self, body: bytes) -> None:
        """Pass on what was sent to the push service, encrypted as it is. It may arrive more than once."""
        with self._news:
            assert self._news.wait_for(lambda: self._registration and self._links, PATIENCE), "no browser"
            registration = self._registration
        content = text(3, registration["sender"].encode()) + text(5, registration["app"].encode())
        for key, value in (("subtype", registration["X-subtype"]), ("content-encoding", "aes128gcm")):
            content += text(7, text(1, key.encode()) + text(2, value.encode()))
        with self._news:
            content += text(9, b"message %d" % len(self._messages)) + text(21, body)
            self._messages.append(message(DATA, content))
            for link in self._links:
                self._write(link, self._messages[-1])

    def _write(self, link: ssl.SSLSocket, data: bytes) -> None:
        """The browser may have closed it: then it opens another one, and gets all messages there."""
        with contextlib.suppress(OSError):
            link.sendall(data)

    # -- check-in and registration --------------------------------------------------------------------------------

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        google = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = CHECKED_IN if self.path == "/checkin" else google._registered(body.decode())
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler

    def _registered(self, form: str) -> bytes:
        asked = {name: values[0] for name, values in parse_qs(form).items()}
        # The browser registers services of its own as well.
        if asked.get("X-subtype", "").startswith("wp:"):
            with self._news:
                self._registration = asked
                self._news.notify_all()
        return f"token={TOKEN}".encode()

    # -- the connection -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(plain,), daemon=True).start()

    def _converse(self, plain: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(plain, server_side=True) as link:
                self._read(link)
        except (OSError, EOFError):
            # The browser opens more than it keeps.
            return

    def _read(self, link: ssl.SSLSocket) -> None:
        with link.makefile("rb") as stream:
            version = stream.read(1)
            if not version:
                # Opened, and given up before anything was said.
                return
            assert version == bytes([VERSION])
            try:
                while kind := stream.read(1):
                    length = shift = 0
                    while (byte := _byte(stream)) > 127:
                        length, shift = length | (byte & 127) << shift, shift + 7
                    stream.read(length | byte << shift)
                    if kind[0] == LOGIN:
                        link.sendall(bytes([VERSION]) + message(LOGIN_ANSWER, text(1, b"login")))
                        with self._news:
                            self._links.append(link)
                            self._write(link, b"".join(self._messages))
                            self._news.notify_all()
                    elif kind[0] == PING:
                        link.sendall(message(PING_ANSWER, b""))
            finally:
                with self._news:
                    self._links = [each for each in self._links if each is not link]

    # -- its life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> GooglePush:
        for work in (self._http.serve_forever, self._accept):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        # Wakes the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _byte(stream: BinaryIO) -> int:
    """Raises EOFError."""
    found = stream.read(1)
    if not found:
        raise EOFError
    return found[0]


def _fingerprint() -> str:
    """Of the key of the tests' certificate, which Chromium is to accept."""
    certificate = load_pem_x509_certificate((CERTIFICATES / "certificate.pem").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(key).digest()).decode()
