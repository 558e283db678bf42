"""What can be wrong with the bytes or the JSON of a peer. All three are the peer's fault; their texts name the place.

How a connection or a request is then answered is decided by the door. Specification: 6.2, 6.3.2, 6.3.4.
"""

from __future__ import annotations


class BadTlexStream(Exception):
    """The bytes are not frames of this protocol, and nothing after them can be read: the connection must be closed.

    `frame` counts from 1; it is 0 for the version byte before them.
    """

    def __init__(self, frame: int, message: str) -> None:
        super().__init__(f"Frame {frame}: {message}" if frame else message)
        self.frame = frame


class BadDatagram(Exception):
    """A frame that cannot be parsed, a violation of the protocol. What follows it could be read."""

    def __init__(self, datagram: str, message: str) -> None:
        super().__init__(f"{datagram}: {message}")
        self.datagram = datagram


class BadRequest(Exception):
    """The body of a request is invalid; the text names the field."""
