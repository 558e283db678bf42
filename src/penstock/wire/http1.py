"""HTTP/1.0 and 1.1, server side, without I/O: bytes to requests (by httptools, strict), and response heads to bytes.

Limits on head and body are enforced while bytes arrive. What a path means is decided in `penstock.doors`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

import httptools

REASONS = {
    100: "Continue",
    101: "Switching Protocols",
    200: "OK",
    204: "No Content",
    304: "Not Modified",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class HttpError(Exception):
    """The peer's bytes are not a request this server takes; the connection cannot go on after the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class HttpRequest:
    """A complete request. Header names are in lower case; repeated headers are joined by commas."""

    method: str
    target: str
    version: str
    headers: dict[str, str]
    keep_alive: bool
    upgrade: bool
    body: bytes = b""

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0], errors="replace")

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


class RequestParser:
    """Feed it bytes, take complete requests. After an upgrade request `leftover` holds the bytes that follow it."""

    def __init__(self, header_limit: int, body_limit: int) -> None:
        self.leftover: bytes | None = None
        # True from the first byte of a request to its last.
        self.in_request = False
        # Set when the peer waits for a go-ahead before it sends the body.
        self.expects_continue = False
        self._header_limit = header_limit
        self._body_limit = body_limit
        self._parser = httptools.HttpRequestParser(self)
        self._in_head = True
        self._head_size = 0
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0
        self._current: HttpRequest | None = None
        self._complete: list[HttpRequest] = []
        self._error: HttpError | None = None

    def feed(self, data: bytes) -> list[HttpRequest]:
        """Take bytes in; return the requests they complete. Raises HttpError once the stream makes no sense."""
        self.in_request = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.leftover = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            raise self._error or HttpError(400, f"Malformed HTTP request: {error}") from None
        if self._in_head and self.leftover is None and self.in_request:
            # Counted per feed, not per header: cheap, and bounds what a peer can make us keep.
            self._head_size += len(data)
            if self._head_size > self._header_limit:
                raise HttpError(431, f"Request head longer than {self._header_limit} bytes")
        complete = self._complete
        self._complete = []
        return complete

    # -- httptools callbacks ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.in_request = True
        self._in_head = True
        self._head_size = 0
        self._target = b""
        self._headers = {}
        self._body = []
        self._body_size = 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        before = self._headers.get(key)
        if before is None:
            self._headers[key] = text
        elif key == "host":
            self._fail(400, "More than one Host header")
        else:
            self._headers[key] = f"{before}, {text}"

    def on_headers_complete(self) -> None:
        self._in_head = False
        size = len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._headers.items())
        if size > self._header_limit:
            self._fail(431, f"Request head longer than {self._header_limit} bytes")
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._fail(400, f"HTTP version {version} is not supported; 1.0 and 1.1 are")
        if version == "1.1" and "host" not in self._headers:
            self._fail(400, "HTTP/1.1 request without Host header")
        length = self._headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._body_limit:
            self._fail(413, f"Request longer than {self._body_limit} bytes")
        self.expects_continue = self._headers.get("expect", "").lower() == "100-continue" and version == "1.1"
        self._current = HttpRequest(
            method=parser.get_method().decode("latin-1"),
            target=self._target.decode("latin-1"),
            version=version,
            headers=self._headers,
            keep_alive=parser.should_keep_alive(),
            upgrade=parser.should_upgrade(),
        )

    def on_body(self, data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > self._body_limit:
            self._fail(413, f"Request longer than {self._body_limit} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        request = self._current
        assert request is not None
        request.body = b"".join(self._body)
        self._body = []
        self._current = None
        self._in_head = True
        self._head_size = 0
        self.in_request = False
        self.expects_continue = False
        self._complete.append(request)

    def _fail(self, status: int, message: str) -> None:
        self._error = HttpError(status, message)
        raise self._error


def response_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Status line and headers, up to and with the empty line.

    Line breaks in values are dropped: they could split the head.
    """
    lines = [f"HTTP/1.1 {status} {REASONS[status]}"]
    lines.extend(f"{name}: {value}".replace("\r", "").replace("\n", "") for name, value in headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)
