"""What can be wrong with the bytes of a remote adapter. Both exceptions are the peer's fault; their texts name places.

They never repeat a value: it could be a password, and it could be long.
"""

from __future__ import annotations


class BadAriStream(Exception):
    """The bytes are not lines of this protocol, and nothing after them can be read: the connection is useless."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"Line {line}: {message}")
        self.line = line


class BadPacket(Exception):
    """A line that cannot be parsed. What follows it can be.

    `position` counts the tokens of the line from 1. `request` is the request that the line was to answer, if known;
    that request has failed.
    """

    def __init__(
        self, message: str, method: str | None = None, position: int | None = None, request: str | None = None
    ) -> None:
        place = "A packet" if method is None else method
        super().__init__(f"{place}: {message}" if position is None else f"{place}, token {position}: {message}")
        self.method = method
        self.position = position
        self.request = request
