"""What goes along with a connection that is handed over to a neighbour: who its client is, and what it has sent.

How it gets there is in `neighbours`. The descriptor itself is the system's business.
"""

from __future__ import annotations

import struct

import msgspec

# Lengths of the facts and of the bytes that follow them.
HEADER = struct.Struct("!II")


class BadParcel(Exception):
    """What a neighbour has sent is not a parcel; the text says why."""


class SocketFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a WebSocket whose handshake is done: what the handshake said, and to which session requests refer."""

    subprotocol: str
    headers: dict[str, str]
    last_session: str | None


class Parcel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`address` and `port` are the client's, `principal` is the name in its certificate.

    `websocket` is None for a connection that speaks HTTP.
    """

    listener: str
    address: str
    port: int
    principal: str | None
    websocket: SocketFacts | None = None


_decoder = msgspec.json.Decoder(Parcel)


def packed(parcel: Parcel, unanswered: bytes) -> bytes:
    """The facts, then the bytes of the client that nobody has answered yet."""
    facts = msgspec.json.encode(parcel)
    return HEADER.pack(len(facts), len(unanswered)) + facts + unanswered


def size_of(beginning: bytes | bytearray) -> int | None:
    """The size of a parcel that begins with these bytes, None if they are too few to tell."""
    if len(beginning) < HEADER.size:
        return None
    facts, unanswered = HEADER.unpack_from(beginning)
    return HEADER.size + int(facts) + int(unanswered)


def unpacked(data: bytes | bytearray) -> tuple[Parcel, bytes]:
    """The reverse of `packed`; raises BadParcel."""
    if size_of(data) != len(data):
        raise BadParcel(f"{len(data)} bytes, where {size_of(data)} are announced")
    end = HEADER.size + int(HEADER.unpack_from(data)[0])
    try:
        return _decoder.decode(data[HEADER.size : end]), bytes(data[end:])
    except msgspec.MsgspecError as error:
        raise BadParcel(str(error)) from None
