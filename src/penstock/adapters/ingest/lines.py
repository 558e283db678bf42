"""JSON lines out of the chunks of a request's body, and what a line may say. No I/O."""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from penstock.kernel.ports import CheckedEvent


class IngestLine(msgspec.Struct, forbid_unknown_fields=True):
    """One line of a request."""

    item: str
    fields: dict[str, str | int | float | bool | None] = {}
    snapshot: bool = False
    op: Literal["update", "clear", "end_of_snapshot"] = "update"

    def event(self) -> CheckedEvent:
        """The fields as text, which JSON in UTF-8 is: numbers as Python writes them, true and false as JSON does."""
        fields = self.fields
        for name, value in fields.items():
            if type(value) is not str and value is not None:
                fields[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return cast(CheckedEvent, fields)


class BadLine(Exception):
    """A line that cannot be read; the text says why."""


_decoder = msgspec.json.Decoder(IngestLine)


def read(line: bytes) -> IngestLine:
    """Raises BadLine."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from None


class Splitter:
    """Cuts chunks into lines. A line that is too long comes out as None, and is not kept meanwhile."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that have come to their end, without it."""
        pieces = (self._rest + chunk).split(b"\n")
        self._rest = pieces.pop()
        lines: list[bytes | None] = [piece if len(piece) <= self._limit else None for piece in pieces]
        if self._skipping and lines:
            self._skipping = False
            lines[0] = None
        if len(self._rest) > self._limit:
            self._skipping = True
        if self._skipping:
            self._rest = b""
        return lines

    def end(self) -> list[bytes | None]:
        """What follows the last end of a line."""
        rest, self._rest = self._rest, b""
        if self._skipping:
            return [None]
        return [rest] if rest else []
