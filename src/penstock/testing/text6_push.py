"""Push contents as a client reads them: one line in, one typed record out. For tests and tools.

The values of an update are decoded by `values`, which needs those before. Specification: 4.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.wire.text6.errors import BadPush
from penstock.wire.text6.values import unescape

_ITEM = re.compile(r"([0-9]{1,15}),([0-9]{1,15})(?:\|(.*)|,EOS|,OV([0-9]{1,15}))", re.ASCII)
_MESSAGE = re.compile(r"MSG,([A-Za-z0-9_]+),([0-9]{1,15}),(?:DONE|ERR,(-?[0-9]{1,15}),(.*))", re.ASCII)
_LOOP = re.compile(r"LOOP(?: ([0-9]{1,15}))?", re.ASCII)
_END = re.compile(r"END(?: (-?[0-9]{1,15}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Update:
    table: int
    item: int
    values: str


@dataclass(frozen=True, slots=True)
class EndOfSnapshot:
    table: int
    item: int


@dataclass(frozen=True, slots=True)
class Overflow:
    table: int
    item: int
    lost: int


@dataclass(frozen=True, slots=True)
class MessageDone:
    sequence: str
    progressive: int


@dataclass(frozen=True, slots=True)
class MessageFailed:
    sequence: str
    progressive: int
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Probe:
    pass


@dataclass(frozen=True, slots=True)
class Loop:
    holding_millis: int


@dataclass(frozen=True, slots=True)
class End:
    code: int | None


Push = Update | EndOfSnapshot | Overflow | MessageDone | MessageFailed | Probe | Loop | End


def parse_push(line: str) -> Push:
    """Read one line, without its end; raises BadPush for one that is not of this protocol."""
    if line == "PROBE":
        return Probe()
    found = _ITEM.fullmatch(line)
    if found is not None:
        return _about_item(found)
    found = _MESSAGE.fullmatch(line)
    if found is not None:
        sequence, progressive = found[1], int(found[2])
        if found[3] is None:
            return MessageDone(sequence, progressive)
        return MessageFailed(sequence, progressive, int(found[3]), unescape(found[4]))
    found = _LOOP.fullmatch(line)
    if found is not None:
        return Loop(int(found[1] or 0))
    found = _END.fullmatch(line)
    if found is not None:
        return End(None if found[1] is None else int(found[1]))
    raise BadPush(f"Not a push message: {line[:60]!r}")


def _about_item(found: re.Match[str]) -> Update | EndOfSnapshot | Overflow:
    table, item = int(found[1]), int(found[2])
    if found[3] is not None:
        return Update(table, item, found[3])
    if found[4] is not None:
        return Overflow(table, item, int(found[4]))
    return EndOfSnapshot(table, item)
