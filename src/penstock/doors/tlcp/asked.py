"""A request as it came in: its name, its protocol version, and its content or what is wrong with it."""

from __future__ import annotations

from penstock.wire.tlcp.control import Control, Request
from penstock.wire.tlcp.errors import RequestError
from penstock.wire.tlcp.requests import BindSession, CreateSession, Heartbeat
from penstock.wire.tlcp.version import Version

# Requests of a connection that are started before others get a turn.
REQUESTS_PER_TURN = 200


class Asked:
    """One request of a connection. The version is None if the answer does not depend on it.

    `line` is what it was read from.
    """

    __slots__ = ("line", "name", "request", "version")

    def __init__(self, name: str, request: Request | RequestError, version: Version | None, line: str) -> None:
        self.name = name
        self.request = request
        self.version = version
        self.line = line

    @property
    def message(self) -> str:
        """The WebSocket message that has this request and no other."""
        return f"{self.name}\r\n{self.line}"

    @property
    def request_id(self) -> str | None:
        """The identifier that its answer repeats, if it has one."""
        return (self.request.request_id or None) if isinstance(self.request, Control) else None

    @property
    def opens_session(self) -> bool:
        return isinstance(self.request, CreateSession)

    @property
    def session(self) -> str | None:
        """The session that it names, if it does."""
        request = self.request
        return request.session or None if isinstance(request, Control | BindSession | Heartbeat) else None

    @property
    def needs_session(self) -> bool:
        """Whether it refers to the session that was last opened or bound on the same WebSocket."""
        request = self.request
        if isinstance(request, CreateSession | BindSession):
            return True
        return isinstance(request, Control | Heartbeat) and not request.session
