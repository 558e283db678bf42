"""One HTTP connection of the streaming port: where each request goes, and the upgrade to WebSocket.

The connection itself is in `transport.http`, answers are in `response`; requests of the text protocols are handed to
their doors.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.doors.gate import DRAINING
from penstock.doors.stream.pages import DEMO_FACTS, DOCS_NOT_BUILT, NOT_BUILT, ApiPlace
from penstock.doors.stream.response import HttpResponse
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.kernel.headers import KeptHeaders
from penstock.transport.answers import TEXT, accepts_gzip
from penstock.transport.http import HttpConnection
from penstock.transport.websocket import handshake
from penstock.wire.http1 import HttpError, HttpRequest
from penstock.wire.text6.requests import REQUESTS
from penstock.wire.websocket import Acceptance, subprotocols

if TYPE_CHECKING:
    from penstock.doors.stream.door import StreamDoor
    from penstock.transport.entrance import Entrance
    from penstock.transport.parcel import SocketFacts
    from penstock.transport.proxies import NamedClient

_SOCKET_PATH = re.compile(r"(/.*)?/lightstreamer/?")
# The dashboard, and what its page asks for.
_DASHBOARD_PATH = re.compile(r"/(?:dashboard|api/admin)(?:/.*)?", re.DOTALL)
_REQUEST_PATH = re.compile(r"(?:/.*)?/lightstreamer/([A-Za-z_]+)\.txt")

# Requests whose answers are streams of notifications, or polls; the names are the same in all protocols.
NEW_SESSION = "create_session"
SESSION_REQUESTS = frozenset({NEW_SESSION, "bind_session"})
# The name of the older protocol among the doors of a listener, and what its clients get where it is not served: by its
# specification that is a page.
TEXT6 = "text6"
HTML = (("Content-Type", "text/html; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
JSON = (("Content-Type", "application/json"),)
NO_TEXT_MODE = (
    b"<!DOCTYPE html><html lang=en><title>Not served</title><p>The text protocol is not served at this port.</html>\n"
)


class StreamConnection(HttpConnection):
    """Text requests, WebSockets, pages and probes."""

    def __init__(self, door: StreamDoor, entrance: Entrance, client: NamedClient | HttpError | None) -> None:
        super().__init__(door, entrance, client)
        self.door = door

    def route(self, request: HttpRequest) -> None:
        origin = request.headers.get("origin")
        path = request.path
        if request.method == "OPTIONS":
            host = request.headers.get("host")
            headers = self.door.origins.preflight(origin, host) if origin else [("Allow", "GET, HEAD, POST, OPTIONS")]
            self.send_complete(request, 204, headers, b"")
            return
        dashboard = self.door.dashboard
        match = _REQUEST_PATH.fullmatch(path)
        if dashboard is not None and _DASHBOARD_PATH.fullmatch(path):
            self.door.requests["page"] += 1
            self._check_own_page(origin, request.headers.get("host", ""))
            self.door.answer_dashboard(self, request, dashboard)
        elif match is not None:
            self.door.requests["session" if match[1] in SESSION_REQUESTS else "control"] += 1
            self._text_request(request, match[1], origin)
        elif request.method not in ("GET", "HEAD"):
            raise HttpError(405, f"{request.method} is not allowed for {path}; GET and HEAD are", "GET, HEAD, OPTIONS")
        elif (probe := self.door.probe(path)) is not None:
            self.door.requests["probe"] += 1
            status, body = probe
            self.send_complete(request, status, (("Content-Type", "application/json"),), body)
        else:
            self.door.requests["page"] += 1
            self._page(request, path)

    def hear(self, request: HttpRequest) -> None:
        if _REQUEST_PATH.fullmatch(request.path) is not None:
            self.door.tlcp.hear_http(request)

    def _check_own_page(self, origin: str | None, host: str) -> None:
        """Other pages may have streams of this port; what administrators see and do is for the dashboard's alone."""
        if origin is not None and origin.lower().partition("://")[2] != host.lower():
            raise HttpError(403, "Only the dashboard's own page may ask for this here")

    def _text_request(self, request: HttpRequest, name: str, origin: str | None) -> None:
        if request.method not in ("GET", "POST"):
            raise HttpError(
                405, f"{request.method} is not allowed for requests; GET and POST are", "GET, POST, OPTIONS"
            )
        if origin is not None and not self.door.origins.allows(origin, request.headers.get("host")):
            raise HttpError(403, f"Origin {origin} is not allowed")
        if "content-range" in request.headers:
            raise HttpError(400, "Content-Range is not accepted")
        if TEXT6 not in self.entrance.doors and is_text6(name, request):
            self.send_complete(request, 404, HTML, NO_TEXT_MODE)
            return
        if name == NEW_SESSION and self.entrance.new_sessions and self.door.gate.turns_away():
            raise HttpError(503, DRAINING)
        response = HttpResponse(self, request)
        self.answer_by(response)
        response.task = asyncio.get_running_loop().create_task(self.door.answer(name, response))

    def go_on(self, facts: SocketFacts | None, unanswered: bytes) -> None:
        """A neighbour has handed the connection over: begin with what that has read."""
        if facts is None:
            self.data_received(unanswered)
        elif self.takes_client():
            # What the handshake has been answered with is long sent.
            acceptance = Acceptance(b"", None)
            socket = WebSocketConnection(self, acceptance, KeptHeaders.of(facts.headers), facts.subprotocol)
            socket.last_session = facts.last_session
            socket.start(self, acceptance)
            socket.data_received(unanswered)

    def upgrade(self, request: HttpRequest) -> None:
        if _SOCKET_PATH.fullmatch(request.path) is None:
            raise HttpError(404, f"No WebSocket at {request.path}; it is at /lightstreamer")
        if self.entrance.new_sessions and self.door.gate.draining:
            # A balancer tries another server then; once the handshake is done, none can help.
            raise HttpError(503, DRAINING)
        # One text for all sockets.
        subprotocol = sys.intern(self.door.tlcp.choose_subprotocol(subprotocols(request)))
        acceptance = handshake(self.door, request, subprotocol)
        WebSocketConnection(self, acceptance, KeptHeaders.of(request.headers), subprotocol).start(self, acceptance)

    def _page(self, request: HttpRequest, path: str) -> None:
        folder = self.door.folder
        if folder is not None and folder.covers(path):
            self.door.answer_file(self, request, folder)
            return
        api = self.door.demo_api
        if path == DEMO_FACTS:
            # Also without the demo, because the page asks before it knows; then nothing is told.
            self.send_complete(request, 200, JSON, (api or ApiPlace(None)).facts(self.door.docs is not None))
            return
        if self.door.docs is not None and self.door.docs.covers(path):
            if self.door.has_docs:
                self.door.answer_file(self, request, self.door.docs)
            else:
                self.send_complete(request, 404, TEXT, DOCS_NOT_BUILT)
            return
        page = self.door.pages.find(path)
        if page is None:
            if path == "/" and not self.door.pages.are_built:
                self.send_complete(request, 404, TEXT, NOT_BUILT)
                return
            if self.door.pages.find(f"{path}/") is not None:
                # Relative, because a proxy may have a prefix that is not known here.
                place = f"{path.rpartition('/')[2]}/" + (f"?{request.query}" if request.query else "")
                self.send_complete(request, 301, (("Location", place),), b"")
                return
            raise HttpError(404, f"Not found: {path}")
        headers = page.headers if api is None else api.headers(page, request.headers.get("host", ""))
        if request.headers.get("if-none-match") == page.etag:
            self.send_complete(request, 304, headers, b"", cached=True)
            return
        if page.compressed is not None and accepts_gzip(request):
            headers = (*headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
            self.send_complete(request, 200, headers, page.compressed, cached=True)
        else:
            self.send_complete(request, 200, headers, page.content, cached=True)


def is_text6(name: str, request: HttpRequest) -> bool:
    """Whether a request is one of the text protocol: all of TLCP has LS_protocol in the query string."""
    names = [unquote(pair.partition("=")[0]) for pair in request.query.split("&")]
    return name in REQUESTS and "LS_protocol" not in names
