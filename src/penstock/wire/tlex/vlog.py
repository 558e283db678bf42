"""V-Log as controllers send it: messages in hexadecimal, a line for each; and as the payload that others receive.

V-Log is the log format of Dutch traffic lights; what its messages say is not known here. An empty line is a keep-alive.
The specification has the type VLOG and no protocol for it: docs/tlex.md says what this is.
"""

from __future__ import annotations

import re

from mypy_extensions import mypyc_attr

from penstock.wire.tlex.datagrams import Payload

# The most characters of a line.
MAX_LINE = 8_192

LINE_END = b"\r\n"

# What the token begins with, and with it such a connection. The byte of the other protocol's version is not among them.
STARTS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

_MESSAGE = re.compile(rb"(?:[0-9A-Fa-f]{2})[0-9A-Fa-f]*")


def is_message(line: bytes) -> bool:
    """At least its type, which has two digits."""
    return _MESSAGE.fullmatch(line) is not None


def payload_frame(line: bytes, type: int, origin: int) -> bytes:
    """The frame of a message, as singleplex sessions send payloads."""
    return Payload(type, origin, line).encode()


@mypyc_attr(allow_interpreted_subclasses=True)
class VlogReader:
    """Feed it bytes, take the lines they complete, then check `is_too_long`: once it is set, nothing more is read.

    Lines end with a carriage return, a line feed, or both: then an empty one follows.
    """

    def __init__(self) -> None:
        self.is_too_long = False
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        if self.is_too_long:
            return []
        lines = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        for position, line in enumerate(lines):
            if len(line) > MAX_LINE:
                lines = lines[:position]
                self.is_too_long = True
                break
        if len(self._rest) > MAX_LINE:
            self.is_too_long = True
        if self.is_too_long:
            self._rest = b""
        return lines
