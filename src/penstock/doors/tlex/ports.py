"""What the hub needs of the world around it, and what it tells: Protocols.

They are implemented by the sockets, the journal and the items; `penstock.server` brings them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.doors.tlex.registry import Registry
    from penstock.doors.tlex.session import Session


class Channel(Protocol):
    """The way to a peer. Neither call may raise, whatever has become of the peer."""

    def write(self, data: bytes) -> None:
        """Whole frames, all of a turn. When the peer takes no more, tell the connection: `set_writable(False)`."""

    def close(self) -> None:
        """Nothing more is written; what was is still sent, if the peer takes it in a reasonable time."""


class Chance(Protocol):
    """What nobody must be able to guess."""

    def token(self) -> str:
        """43 ASCII characters of 256 bits."""

    def uuid(self) -> str: ...


class Batch(NamedTuple):
    """Payloads of one publisher in the order they came: frames as received, in scope and of no reserved type."""

    publisher: Session
    # Whose payloads these are, or who they are for.
    identifier: str
    frames: list[bytes]
    # Milliseconds since 1970.
    received: int
    # Of the controller; it may have been unregistered since.
    uuid: str


class Recorder(Protocol):
    """Takes all payloads that are accepted, whether anybody receives them or not."""

    def record(self, batches: list[Batch]) -> None:
        """Once in a turn, with all of it, before it is sent. Must not raise: others wait."""


class Watcher(Protocol):
    """Is told what becomes of sessions. Must not raise, and must not call the hub from within."""

    def opened(self, session: Session) -> None: ...
    def connected(self, session: Session) -> None: ...
    def changed(self, session: Session) -> None:
        """Its identifiers are others."""

    def ended(self, session: Session) -> None: ...


class Display(Watcher, Recorder, Protocol):
    """Shows the hub live to people."""

    def refresh(self, registry: Registry) -> None:
        """About once a second: figures may have changed. Must not raise."""
