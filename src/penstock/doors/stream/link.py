"""What the doors of the text protocols need from the connection of a request: a WebSocket, or one HTTP response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.kernel.recovery import Batch
from penstock.kernel.session import Session
from penstock.transport.entrance import Entrance


class StreamLink(Protocol):
    """A kernel channel that also answers requests."""

    @property
    def overhead(self) -> int: ...
    @property
    def websocket(self) -> bool: ...
    @property
    def address(self) -> str: ...
    @property
    def entrance(self) -> Entrance: ...
    @property
    def client_port(self) -> int: ...
    @property
    def principal(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def congested(self) -> bool: ...
    @property
    def listening(self) -> bool: ...
    @property
    def broken(self) -> bool: ...
    @property
    def lost(self) -> bool: ...
    @property
    def query(self) -> str:
        """The query string of its requests; on a WebSocket what it would be."""

    # The session bound to it now, and the last one that was.
    session: Session | None
    last_session: str | None

    def leave_for(self, worker: str, binds: bool) -> bool:
        """Whether the connection goes to that neighbour with the request that is being begun; else it must be relayed.

        A request that `binds` cannot be. If the neighbour does not take the connection after all, that is told.
        """

    def limit(self, content_length: int) -> None: ...
    def write(self, lines: Sequence[bytes]) -> int: ...
    def send(self, batch: Batch) -> None: ...
    def room(self) -> int | None: ...
    def finish(self, close_socket: bool) -> None: ...
    def abort(self) -> None: ...
