"""What a client reads, from bytes that come in any pieces: answers to requests, and stream connections. For tests and
tools.

HTTP is not read here. Specification: the "Response" parts of 4.1 to 4.4, and 4.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.testing.text6_push import End, Loop, Push, parse_push
from penstock.wire.text6.errors import BadPush
from penstock.wire.text6.values import unescape

_CODE = re.compile(r"-?[0-9]{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Accepted:
    """OK; on a stream connection with the lines of its header, in order and without the filling."""

    header: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, name: str) -> str:
        return dict(self.header)[name]


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """The server does not know the session."""


Text6Answer = Accepted | RefusedRequest | OutOfSync | End


class PushReader:
    """Feed it bytes, take what they complete; `close` when there are no more.

    On a stream connection, the answer to a create or bind request, an OK opens a header, and push contents follow. Else
    it is one answer after the other, as many as there were requests.
    """

    def __init__(self, stream: bool) -> None:
        # What comes after LOOP or END is to be ignored.
        self.finished = False
        self._stream = stream
        self._rest = b""
        # The lines of an answer that is not complete, and whether push contents have begun.
        self._block: list[str] = []
        self._pushing = False

    def feed(self, data: bytes) -> list[Text6Answer | Push]:
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        found: list[Text6Answer | Push] = []
        for line in lines:
            if self.finished:
                break
            try:
                event = self._read(line.decode("ascii"))
            except UnicodeDecodeError:
                raise BadPush(f"Not ASCII: {line[:60]!r}") from None
            if event is not None:
                self.finished = self._stream and isinstance(event, Loop | End | RefusedRequest | OutOfSync)
                found.append(event)
        return found

    def close(self) -> list[Text6Answer | Push]:
        """The connection has ended: what can be complete only now. Raises BadPush when something has been cut off."""
        if self.finished:
            return []
        if self._block == ["END"] and not self._rest:
            self.finished = True
            return [End(None)]
        if self._block or self._rest:
            raise BadPush(f"Cut off after {[*self._block, self._rest.decode('ascii', 'replace')]}"[:120])
        return []

    def _read(self, line: str) -> Text6Answer | Push | None:
        if self._pushing:
            return parse_push(line)
        block = self._block
        block.append(line)
        answer = self._answer(block)
        if answer is not None:
            self._block = []
        return answer

    def _answer(self, block: list[str]) -> Text6Answer | None:
        """The answer that these lines are, None if more must come."""
        first, last = block[0], block[-1]
        if first == "OK":
            if not self._stream:
                return Accepted()
            if last:
                return None
            self._pushing = True
            return Accepted(tuple([_header_line(line) for line in block[1:-1] if not line.startswith("Preamble:")]))
        if first == "SYNC ERROR":
            return OutOfSync()
        if first == "ERROR":
            return RefusedRequest(_code(block[1]), unescape(last)) if len(block) == 3 else None
        if first == "END" and self._stream:
            return End(_code(last)) if len(block) == 2 else None
        raise BadPush(f"Not an answer: {first[:60]!r}")


def _header_line(line: str) -> tuple[str, str]:
    name, separator, value = line.partition(":")
    if not separator:
        raise BadPush(f"Not a line of a header: {line[:60]!r}")
    return name, unescape(value)


def _code(line: str) -> int:
    if _CODE.fullmatch(line) is None:
        raise BadPush(f"Not a code: {line[:60]!r}")
    return int(line)
