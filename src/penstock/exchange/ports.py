"""What the hub needs from the outside, and what it reports, as protocols.

They are implemented by `wire.tlex` (forms), `doors.tlex` (channels, messages, random numbers, journaling) and
`adapters.tlex` (the display); the door brings them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.exchange.farewells import Farewell
    from penstock.exchange.instant import Instant
    from penstock.exchange.registry import ControllerRegistry
    from penstock.exchange.session import HubSession
    from penstock.wire.tlex.vocabulary import Protocol as SessionProtocol


class PeerChannel(Protocol):
    """The way to a peer. Neither call may raise, even if the peer is gone."""

    def write(self, data: bytes) -> None:
        """Write all of a turn. When the peer takes no more, call `set_writable(False)` of the conversation."""

    def close(self) -> None:
        """Nothing more is written; what was written is still sent, if the peer reads it in a reasonable time."""


class PayloadReceiver(Protocol):
    """Who gets payloads: the queue of a connection here, or the way to the node where it is."""

    @property
    def is_singleplex(self) -> bool:
        """The form in which it gets payloads."""

    def put(self, frames: list[bytes], size: int, now: Instant) -> None:
        """Payloads in this receiver's form, `size` bytes in all. The list is not changed by anybody after that."""

    def refuse(self, count: int) -> None:
        """Payloads for it that are too long in its form."""


class Layout(Protocol):
    """Positions in the payloads that sessions of one protocol send; a payload is opaque otherwise."""

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
        """Payload types from here on are reserved for the protocol: no client may send them."""

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

    def original_type(self, frame: bytes) -> int:
        """The payload type of a frame in any of these forms; of what monitors get, that of the publisher."""

    def restamped(self, frames: Iterable[bytes], sent: int) -> list[bytes]:
        """What monitors get, with another time of sending."""


class HubMessages(Protocol):
    """What the hub itself sends to a peer. Nothing, where a protocol has no such message."""

    def of(self, protocol: SessionProtocol) -> HubMessages:
        """What the peer of a session with this protocol understands."""

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
    """Random values that nobody can guess."""

    def token(self) -> str:
        """43 ASCII characters of 256 bits."""

    def uuid(self) -> str: ...


class PayloadBatch(NamedTuple):
    """Payloads of one publisher in the order they came: frames as received, in scope and of no reserved type."""

    publisher: HubSession
    # The controller that these payloads come from, or are for.
    identifier: str
    frames: list[bytes]
    # Milliseconds since 1970.
    received: int
    # Of the controller; it may have been unregistered since.
    uuid: str


class PayloadRecorder(Protocol):
    """Gets all accepted payloads, whether anybody receives them or not."""

    def record(self, batches: list[PayloadBatch]) -> None:
        """Called once in a turn with all payloads, before they are sent. Must not raise, because others wait."""


class Watcher(Protocol):
    """Is told what becomes of sessions. Must not raise, and must not call the hub."""

    def opened(self, session: HubSession) -> None: ...
    def connected(self, session: HubSession) -> None: ...
    def changed(self, session: HubSession) -> None:
        """Its identifiers have changed."""

    def ended(self, session: HubSession) -> None: ...


class Display(Watcher, PayloadRecorder, Protocol):
    """Shows the hub live to people."""

    def refresh(self, registry: ControllerRegistry) -> None:
        """About once a second: figures may have changed. Must not raise."""
