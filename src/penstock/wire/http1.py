"""HTTP/1.0 and 1.1, server side, without I/O: bytes to requests (by httptools, strict), and response heads to bytes.

Limits on head and body are enforced while bytes arrive, and framing that two readers could understand differently is
refused: RFC 9112, sections 6 and 11. What a path means is decided in `penstock.doors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

import httptools

REASONS = {
    100: "Continue",
    101: "Switching Protocols",
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    206: "Partial Content",
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    304: "Not Modified",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
    424: "Failed Dependency",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

# A body in chunks of one byte needs five more for each; extensions and trailers may take a header limit on top.
CHUNK_OVERHEAD = 8

# A WebSocket keeps its headers as long as it is open, so they share the names that all clients send. Not every name is
# interned, because in some versions of Python interned strings live for ever, and clients choose these.
_COMMON_NAMES = {
    name: name
    for name in (
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "origin",
        "pragma",
        "sec-websocket-extensions",
        "sec-websocket-key",
        "sec-websocket-protocol",
        "sec-websocket-version",
        "upgrade",
        "user-agent",
        "x-forwarded-for",
        "x-forwarded-proto",
    )
}

# What RFC 3986 allows in a host and port, without the comma, because repeated headers are joined by one.
_HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+;=:%\[\]-]*", re.ASCII)
# What a header's value must not contain: RFC 9110, section 5.5. A line break would end the header, or the head.
_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_ABSOLUTE_FORM = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*", re.ASCII)


class HttpError(Exception):
    """The peer's bytes are not a request that this server accepts; the connection is closed after the answer."""

    def __init__(self, status: int, message: str, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        # The methods that are allowed, where the one used is not (405).
        self.allow = allow


@dataclass(slots=True)
class HttpRequest:
    """A request. Header names are in lower case; repeated headers are joined by commas.

    It is complete, unless its parser hands requests out before their bodies: then `body` is what has arrived and has
    not been taken, and `is_complete` says whether it ends there.
    """

    method: str
    target: str
    version: str
    headers: dict[str, str]
    keep_alive: bool
    upgrade: bool
    body: bytes = b""
    is_complete: bool = True
    # The peer waits for 100 Continue before it sends the body.
    expects_continue: bool = False

    @property
    def path(self) -> str:
        """Percent-decoded, without the scheme and host that a request through a proxy may have."""
        return unquote(self.raw_path, errors="replace")

    @property
    def raw_path(self) -> str:
        """The path as it was sent."""
        path = self.target.partition("?")[0]
        absolute = _ABSOLUTE_FORM.match(path)
        if absolute is not None:
            path = path[absolute.end() :] or "/"
        return path

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


class RequestParser:
    """Feed it bytes, take complete requests; those with `hands_out_early` come as soon as their heads are complete.

    After an upgrade request `leftover` holds the bytes that follow it. Once the stream is invalid `error` says why:
    answer the requests that were complete before, then the error, and close.
    """

    def __init__(self, header_limit: int, body_limit: int, hands_out_early: bool = False) -> None:
        self.leftover: bytes | None = None
        self.error: HttpError | None = None
        # True from the first byte of a request to its last.
        self.in_request = False
        # Set when the peer waits for 100 Continue before it sends the body.
        self.expects_continue = False
        # Bytes of bodies of requests that were handed out early, and that have not been taken yet.
        self.untaken = 0
        self._header_limit = header_limit
        self._body_limit = body_limit
        self._hands_out_early = hands_out_early
        self._parser = httptools.HttpRequestParser(self)
        self._in_head = True
        self._head_size = 0
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0
        # Bytes of one head, or of the framing of one body, from feeds that contained nothing else.
        self._overhead = 0
        self._fed = 0
        self._fed_one_part = True
        self._current: HttpRequest | None = None
        self._complete: list[HttpRequest] = []

    def feed(self, data: bytes) -> list[HttpRequest]:
        """Parse bytes; return the requests they complete. Check `error` and `leftover` afterwards."""
        if self.leftover is not None:
            self.leftover += data
            return []
        if self.error is None:
            self._parse(data)
            if self._hands_out_early and self._current is not None:
                self._pass_on(self._current)
        complete = self._complete
        self._complete = []
        return complete

    def take_body(self, request: HttpRequest) -> bytes:
        """What has arrived of the body of a request that was handed out early."""
        body = request.body
        request.body = b""
        self.untaken -= len(body)
        return body

    def _pass_on(self, request: HttpRequest) -> None:
        # Once for all chunks that came together: appending them one by one would copy the rest for each of them.
        if self._body:
            body = b"".join(self._body)
            self._body = []
            self.untaken += len(body)
            request.body += body

    def _parse(self, data: bytes) -> None:
        self.in_request = True
        self._fed = len(data)
        self._fed_one_part = True
        try:
            while data:
                try:
                    self._parser.feed_data(data)
                    break
                except httptools.HttpParserUpgrade as upgrade:
                    data = self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self.error is None:
                self.error = HttpError(400, f"Malformed HTTP request: {error}")
            return
        if self._fed_one_part:
            # The parser keeps what it has not parsed yet; this bounds what a peer can make it keep.
            self._overhead += self._fed
            if self._overhead > self._header_limit + CHUNK_OVERHEAD * self._body_size:
                self.error = self._too_long()

    def _upgraded(self, rest: bytes) -> bytes:
        """Keep the bytes after a request for a WebSocket; any other upgrade is ignored: RFC 9110, section 7.8.

        The parser has skipped the body of such a request, so it has to read it again, without the upgrade.
        """
        request = self._complete[-1]
        if request.method == "CONNECT" or _wants_websocket(request):
            self.leftover = rest
            return b""
        self._complete.pop()
        self._parser = httptools.HttpRequestParser(self)
        lines = [f"{request.method} {request.target} HTTP/{request.version}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items() if name != "upgrade"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + rest

    def _too_long(self) -> HttpError:
        if self._in_head:
            return HttpError(431, f"Request head longer than {self._header_limit} bytes")
        return HttpError(413, "The chunked framing of the request has too many bytes besides the body")

    # -- httptools callbacks ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.in_request = True
        self._begin_part(in_head=True)
        self._head_size = 0
        self._target = b""
        self._headers = {}
        self._body = []
        self._body_size = 0

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # A trailer: it comes too late to have an effect.
        self._count_head(len(name) + len(value) + len(":\r\n"))
        key = name.decode("latin-1").lower()
        key = _COMMON_NAMES.get(key, key)
        text = value.decode("latin-1").strip(" \t")
        before = self._headers.get(key)
        if before is None:
            self._headers[key] = text
        elif key == "host":
            self._fail(400, "More than one Host header")
        else:
            self._headers[key] = f"{before}, {text}"

    def on_headers_complete(self) -> None:
        self._begin_part(in_head=False)
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._fail(400, f"HTTP version {version} is not supported; 1.0 and 1.1 are")
        self._check_host(version)
        self._check_framing(version)
        self.expects_continue = self._headers.get("expect", "").lower() == "100-continue" and version == "1.1"
        self._current = HttpRequest(
            method=parser.get_method().decode("latin-1"),
            target=self._target.decode("latin-1"),
            version=version,
            headers=self._headers,
            keep_alive=parser.should_keep_alive(),
            upgrade=parser.should_upgrade(),
            expects_continue=self.expects_continue,
        )
        if _wants_websocket(self._current) and self._announces_body():
            self._fail(400, "A request for a WebSocket has no body")
        if self._hands_out_early:
            self._current.is_complete = False
            self._complete.append(self._current)

    def on_body(self, data: bytes) -> None:
        self._fed -= len(data)
        self._body_size += len(data)
        if self._body_size > self._body_limit:
            self._fail(413, f"Request longer than {self._body_limit} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        request = self._current
        assert request is not None
        if self._hands_out_early:
            self._pass_on(request)
            request.is_complete = True
        else:
            request.body = b"".join(self._body)
            self._complete.append(request)
        self._body = []
        self._body_size = 0
        self._current = None
        self._begin_part(in_head=True)
        self.in_request = False
        self.expects_continue = False

    def _begin_part(self, in_head: bool) -> None:
        self._in_head = in_head
        self._overhead = 0
        self._fed_one_part = False

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._header_limit:
            self._fail(431, f"Request head longer than {self._header_limit} bytes")

    def _check_host(self, version: str) -> None:
        host = self._headers.get("host")
        if host is None:
            if version == "1.1":
                self._fail(400, "HTTP/1.1 request without Host header")
        elif _HOST.fullmatch(host) is None:
            self._fail(400, "The Host header is not a host name or address")

    def _check_framing(self, version: str) -> None:
        """The length of the body must be given once, in a way that every reader understands."""
        length = self._headers.get("content-length")
        coding = self._headers.get("transfer-encoding")
        if coding is not None:
            if length is not None:
                self._fail(400, "Both Content-Length and Transfer-Encoding are given")
            if version == "1.0":
                self._fail(400, "Transfer-Encoding is not part of HTTP/1.0")
            if coding.lower() != "chunked":
                self._fail(501, "The only Transfer-Encoding supported is chunked")
        elif length is not None and int(length) > self._body_limit:
            self._fail(413, f"Request longer than {self._body_limit} bytes")

    def _announces_body(self) -> bool:
        return "transfer-encoding" in self._headers or int(self._headers.get("content-length", "0")) > 0

    def _fail(self, status: int, message: str) -> NoReturn:
        self.error = HttpError(status, message)
        raise self.error


def _wants_websocket(request: HttpRequest) -> bool:
    """An upgrade in HTTP/1.0 is ignored."""
    return request.upgrade and request.version == "1.1" and request.headers.get("upgrade", "").lower() == "websocket"


def response_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Status line and headers, up to and including the empty line.

    Values may come from peers: characters that are not allowed, above all line breaks, are dropped, and those beyond
    Latin-1 become question marks. Names may not; an invalid one raises ValueError.
    """
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, '')}"]
    for name, value in headers:
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name[:40]!r} is not a header name")
        lines.append(f"{name}: {_UNFIT.sub('', value)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)
