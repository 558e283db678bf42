"""What the hub needs of the world around it, and what it tells: Protocols.

They are implemented by `wire.tlex` (forms), `doors.tlex` (channels, messages, chance, journaling) and `adapters.tlex`
(the display); the door brings them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.exchange.farewells import Farewell
    from penstock.exchange.registry import Registry
    from penstock.exchange.session import HubSession


class PeerChannel(Protocol):
    """The way to a peer. Neither call may raise, whatever has become of the peer."""

    def write(self, data: bytes) -> None:
        """All of a turn. When the peer takes no more, tell the conversation: `set_writable(False)`."""

    def close(self) -> None:
        """Nothing more is written; what was is still sent, if the peer takes it in a reasonable time."""


class Layout(Protocol):
    """Where things are in the payloads that sessions of one protocol send; a payload is opaque otherwise."""

    @property
    def identifier(self) -> slice: ...
    @property
    def type_at(self) -> int: ...
    @property
    def head(self) -> int:
        """Bytes before the payload itself, which do not count."""


class Forms(Protocol):
    """Payloads, many at a time, in the form that a receiver gets. None: it cannot have this one."""

    @property
    def singleplex(self) -> Layout: ...
    @property
    def multiplex(self) -> Layout: ...
    @property
    def first_reserved(self) -> int:
        """Payload types from here on are the protocol's own: no client may send them."""

    @property
    def largest(self) -> int:
        """Bytes of the largest payload with all that belongs to it."""

    def identified(self, frames: list[bytes], identifier: bytes) -> list[bytes | None]:
        """From singleplex to multiplex sessions."""

    def plain(self, frames: list[bytes]) -> list[bytes | None]:
        """From multiplex to singleplex sessions."""

    def monitored(
        self, frames: list[bytes], identifier: bytes, token: bytes, published: int, sent: int
    ) -> list[bytes | None]:
        """From any session to monitors, who are told whose it is."""

    def restamped(self, frames: Iterable[bytes], sent: int) -> list[bytes]:
        """What monitors get, sent at another time."""


class HubMessages(Protocol):
    """What the hub itself says to a peer."""

    @property
    def keep_alive(self) -> bytes: ...
    @property
    def reconnect(self) -> bytes: ...
    def bye(self, farewell: Farewell, details: str) -> bytes: ...
    def ask(self, sent: int) -> bytes:
        """For timestamps; this one was taken now."""

    def answer(self, asked: int, came: int, sent: int) -> bytes:
        """Timestamps: the peer's own, when it came, and now."""


class Chance(Protocol):
    """What nobody must be able to guess."""

    def token(self) -> str:
        """43 ASCII characters of 256 bits."""

    def uuid(self) -> str: ...


class PayloadBatch(NamedTuple):
    """Payloads of one publisher in the order they came: frames as received, in scope and of no reserved type."""

    publisher: HubSession
    # Whose payloads these are, or who they are for.
    identifier: str
    frames: list[bytes]
    # Milliseconds since 1970.
    received: int
    # Of the controller; it may have been unregistered since.
    uuid: str


class PayloadRecorder(Protocol):
    """Takes all payloads that are accepted, whether anybody receives them or not."""

    def record(self, batches: list[PayloadBatch]) -> None:
        """Once in a turn, with all of it, before it is sent. Must not raise: others wait."""


class Watcher(Protocol):
    """Is told what becomes of sessions. Must not raise, and must not call the hub from within."""

    def opened(self, session: HubSession) -> None: ...
    def connected(self, session: HubSession) -> None: ...
    def changed(self, session: HubSession) -> None:
        """Its identifiers are others."""

    def ended(self, session: HubSession) -> None: ...


class Display(Watcher, PayloadRecorder, Protocol):
    """Shows the hub live to people."""

    def refresh(self, registry: Registry) -> None:
        """About once a second: figures may have changed. Must not raise."""
