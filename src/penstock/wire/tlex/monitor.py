"""What monitors receive: the payload of another session, after a header that says who published it, and when.

The session that published a payload is named by its token. How a frame gets this header is in `forms`.
Specification: 6.3.4.5.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct

from penstock.wire.tlex.datagrams import MAX_TIMESTAMP, MONITOR_TYPE
from penstock.wire.tlex.errors import BadDatagram

_LABEL = f"Monitor payload (0x{MONITOR_TYPE:02x})"

# The length of the token; then the token; then when it was published and sent, and the type of the payload.
LENGTH = Struct(">I")
TAIL = Struct(">QQB")
STAMP = Struct(">Q")


@dataclass(frozen=True, slots=True)
class MonitorPayload:
    """The payload of a datagram with payload type 0xF0. An empty token: it was resent, not published by a session."""

    token: str = field(repr=False)
    # When the server received the payload, and when it passed it on.
    published: int
    sent: int
    type: int
    data: bytes

    def encode(self) -> bytes:
        """Only the payload; for the datagram around it see `forms.for_monitor`."""
        if not self.token.isascii():
            raise ValueError(f"{_LABEL}: the token is not ASCII")
        for name, value, largest in (
            ("published", self.published, MAX_TIMESTAMP),
            ("sent", self.sent, MAX_TIMESTAMP),
            ("type", self.type, 0xFF),
        ):
            if not 0 <= value <= largest:
                raise ValueError(f"{_LABEL}: {name} is {value}; allowed: 0 to {largest}")
        token = self.token.encode()
        return b"".join(
            (LENGTH.pack(len(token)), token, TAIL.pack(self.published, self.sent, self.type), self.data),
        )


def decode_monitor_payload(payload: bytes) -> MonitorPayload:
    """Raises BadDatagram for what cannot be parsed."""
    size = len(payload)
    least = LENGTH.size + TAIL.size
    if size < least:
        raise BadDatagram(_LABEL, f"{size} bytes, expected at least {least}")
    (length,) = LENGTH.unpack_from(payload)
    if length > size - least:
        raise BadDatagram(_LABEL, f"a token of {length} bytes, there is room for {size - least}")
    tail = LENGTH.size + length
    token = payload[LENGTH.size : tail]
    if not token.isascii():
        raise BadDatagram(_LABEL, "the token is not ASCII")
    published, sent, type_ = TAIL.unpack_from(payload, tail)
    return MonitorPayload(token.decode(), published, sent, type_, payload[tail + TAIL.size :])
