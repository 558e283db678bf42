"""A request as it came in: under which name, in which version of the protocol, and what it says or what is wrong."""

from __future__ import annotations

from penstock.wire.tlcp.errors import RequestError
from penstock.wire.tlcp.requests import BindSession, Control, CreateSession, Heartbeat, Request
from penstock.wire.tlcp.version import Version

# Requests of a connection that are taken up before everybody else has a turn.
REQUESTS_PER_TURN = 200


class Asked:
    """One request of a connection. There is no version where the request is answered whatever the version is."""

    __slots__ = ("name", "request", "version")

    def __init__(self, name: str, request: Request | RequestError, version: Version | None) -> None:
        self.name = name
        self.request = request
        self.version = version

    @property
    def request_id(self) -> str | None:
        """What its answer refers to, if it has an identifier."""
        return (self.request.request_id or None) if isinstance(self.request, Control) else None

    @property
    def opens_session(self) -> bool:
        return isinstance(self.request, CreateSession)

    @property
    def needs_session(self) -> bool:
        """Whether its meaning depends on the session that was last opened or bound on the same WebSocket."""
        request = self.request
        if isinstance(request, CreateSession | BindSession):
            return True
        return isinstance(request, Control | Heartbeat) and not request.session
