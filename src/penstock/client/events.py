"""Everything a TLCP server can tell a client, as typed events. Specification: chapters 2 (responses) and 3.

Field values come whole: differences are resolved in `tlcp`. Items and fields are counted from 1 as on the wire, but
`Update.changed` holds positions in `values`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """The root of all events."""


@dataclass(frozen=True, slots=True)
class SessionOpened(ClientEvent):
    """CONOK for a new session."""

    session_id: str
    request_limit: int
    keepalive_millis: int
    control_link: str | None


@dataclass(frozen=True, slots=True)
class SessionBound(SessionOpened):
    """CONOK for a session that has existed before."""


@dataclass(frozen=True, slots=True)
class SessionRefused(ClientEvent):
    """CONERR: no session, or not this one."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Recovering(ClientEvent):
    """PROG: the stream goes on after this many data notifications; `repeated` of them are known and left out."""

    progressive: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Subscribed(ClientEvent):
    """SUBOK, or SUBCMD when key and command field are there."""

    subscription: int
    items: int
    fields: int
    key_field: int | None = None
    command_field: int | None = None


@dataclass(frozen=True, slots=True)
class Update(ClientEvent):
    """U: all values of an item as they are now, and the positions of those that differ from before."""

    subscription: int
    item: int
    values: tuple[str | None, ...]
    changed: tuple[int, ...]
    is_snapshot: bool


@dataclass(frozen=True, slots=True)
class EndOfSnapshot(ClientEvent):
    """EOS."""

    subscription: int
    item: int


@dataclass(frozen=True, slots=True)
class SnapshotCleared(ClientEvent):
    """CS."""

    subscription: int
    item: int


@dataclass(frozen=True, slots=True)
class Overflow(ClientEvent):
    """OV: the server had to drop this many events of the item."""

    subscription: int
    item: int
    lost: int


@dataclass(frozen=True, slots=True)
class Unsubscribed(ClientEvent):
    """UNSUB."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Configured(ClientEvent):
    """CONF: the frequency limit in force, in updates a second; None means no limit."""

    subscription: int
    max_frequency: float | None
    filtered: bool


@dataclass(frozen=True, slots=True)
class MessageDone(ClientEvent):
    """MSGDONE; `response` is empty before version 2.5."""

    sequence: str | None
    progressive: int
    response: str


@dataclass(frozen=True, slots=True)
class MessageFailed(ClientEvent):
    """MSGFAIL; with code 39 the message is how many numbers, up to this one, were skipped."""

    sequence: str | None
    progressive: int
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class PushNotice(ClientEvent):
    """One of the five notifications about mobile push, as it came."""

    tag: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constrained(ClientEvent):
    """CONS: the bandwidth limit in force, in kbit/s; None means no limit. Not `managed`: it cannot be limited."""

    max_bandwidth: float | None
    managed: bool


@dataclass(frozen=True, slots=True)
class Looped(ClientEvent):
    """LOOP: bind the session again after `delay_millis`."""

    delay_millis: int


@dataclass(frozen=True, slots=True)
class Ended(ClientEvent):
    """END: the session is gone."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class RequestDone(ClientEvent):
    """REQOK; without an identifier it answers a heartbeat."""

    request_id: str | None


@dataclass(frozen=True, slots=True)
class RequestFailed(ClientEvent):
    """REQERR, or ERROR when the server could not tell which request it is about."""

    request_id: str | None
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Probe(ClientEvent):
    """PROBE: nothing to say, but alive."""


@dataclass(frozen=True, slots=True)
class Synchronized(ClientEvent):
    """SYNC: the seconds since the session was bound, by the server's clock."""

    seconds: int


@dataclass(frozen=True, slots=True)
class ServerNamed(ClientEvent):
    """SERVNAME."""

    name: str


@dataclass(frozen=True, slots=True)
class ClientAddress(ClientEvent):
    """CLIENTIP: where the server sees this client."""

    address: str


@dataclass(frozen=True, slots=True)
class SocketReady(ClientEvent):
    """WSOK: the WebSocket carries TLCP."""
