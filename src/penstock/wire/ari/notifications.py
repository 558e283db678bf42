"""What a data adapter sends unasked: updates, end and clearing of snapshots, difference formats, failure.

Updates are the hot path of the whole protocol: one of plain values costs one split and no loop in Python, one with
escapes a second split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.values import TokenReader, unescape_line

# The types of an update with up to this many fields; one with more is read the slow way.
MAX_FAST_FIELDS = 128
_TYPES = [["S", "S", "B"] + ["S", "S"] * fields for fields in range(MAX_FAST_FIELDS + 1)]

# Milliseconds since 1970 have 13 digits until the year 2286.
MAX_STAMP_DIGITS = 18


class AriUpdate(NamedTuple):
    """An event of an item. A tuple, because there are many thousands of them a second.

    `subscription` is the identifier of the SUB request this belongs to; if it is not the item's present one, the event
    is late and must be dropped. The same is true of the other notifications of items.
    """

    timestamp: int
    item: str
    subscription: str
    snapshot: bool
    fields: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class AriEndOfSnapshot:
    timestamp: int
    item: str
    subscription: str


@dataclass(frozen=True, slots=True)
class ClearSnapshot:
    timestamp: int
    item: str
    subscription: str


@dataclass(frozen=True, slots=True)
class DeclareDifferences:
    """Formats for fields, by letters of `values`; None leaves a field to the server, "" means none."""

    timestamp: int
    item: str
    subscription: str
    orders: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class AdapterFailure:
    """The adapter cannot go on."""

    message: str


AriNotification = AriUpdate | AriEndOfSnapshot | ClearSnapshot | DeclareDifferences | AdapterFailure


def parse_update(line: str, parts: list[str]) -> AriUpdate:
    """A UD3, from the line and the tokens it splits into."""
    count = len(parts)
    if (
        count & 3
        or not 8 <= count <= 8 + 4 * MAX_FAST_FIELDS
        or parts[2::2] != _TYPES[(count - 8) >> 2]
        or "||" in line
        or line[-1] == "|"
    ):
        return parse_unusual_update(parts)
    stamp, snapshot = parts[0], parts[7]
    if not (stamp.isdecimal() and stamp.isascii() and len(stamp) <= MAX_STAMP_DIGITS and snapshot in ("0", "1")):
        return parse_unusual_update(parts)
    texts = parts
    if "%" in line or "+" in line:
        unescaped = unescape_line(line)
        if unescaped is None:
            return parse_unusual_update(parts)
        texts = unescaped.split("|")
    names: list[str] = texts[9::4]
    values: list[str | None] = texts[11::4]  # type: ignore[assignment]  # A list of text only, and nobody else's
    if "#" in line or "$" in line:
        # Names come first, because none of them may be null or empty.
        if not {"#", "$"}.isdisjoint([texts[3], texts[5], *names]):
            return parse_unusual_update(parts)
        values = [None if value == "#" else "" if value == "$" else value for value in values]
    # Both have the same length, which was checked above.
    fields = dict(zip(names, values))  # noqa: B905
    if len(fields) << 2 != count - 8:
        return parse_unusual_update(parts)
    return AriUpdate(int(stamp), texts[3], texts[5], snapshot == "1", fields)


def parse_unusual_update(parts: list[str]) -> AriUpdate:
    """An update with bytes, with escaped pipes, with an index before each name (one kind of event of the Java SDK),
    or an invalid one, whose error names the place.
    """
    timestamp = parse_timestamp(parts, "UD3")
    tokens = TokenReader(parts, "UD3")
    item, subscription, snapshot = tokens.name(), tokens.name(), tokens.boolean()
    tokens.skip_empty_list()
    fields: dict[str, str | None] = {}
    while tokens.more:
        if tokens.type == "I":
            tokens.integer()
        name = tokens.name()
        if name in fields:
            raise tokens.bad("a field that was there before", 1)
        fields[name] = tokens.field_value()
    return AriUpdate(timestamp, item, subscription, snapshot, fields)


def parse_timestamp(parts: list[str], method: str) -> int:
    stamp = parts[0]
    if not (stamp.isdecimal() and stamp.isascii() and len(stamp) <= MAX_STAMP_DIGITS):
        raise BadPacket("expected a time in milliseconds", method, 1)
    return int(stamp)


def _end_of_snapshot(parts: list[str]) -> AriEndOfSnapshot:
    return AriEndOfSnapshot(*_about_item(parts, "EOS"))


def _clear_snapshot(parts: list[str]) -> ClearSnapshot:
    return ClearSnapshot(*_about_item(parts, "CLS"))


def _about_item(parts: list[str], method: str) -> tuple[int, str, str]:
    timestamp = parse_timestamp(parts, method)
    tokens = TokenReader(parts, method)
    item, subscription = tokens.name(), tokens.name()
    tokens.end()
    return timestamp, item, subscription


def _declare_differences(parts: list[str]) -> DeclareDifferences:
    timestamp = parse_timestamp(parts, "DFD")
    tokens = TokenReader(parts, "DFD")
    item, subscription = tokens.name(), tokens.name()
    tokens.skip_empty_list()
    orders: dict[str, str | None] = {}
    while tokens.more:
        name = tokens.name()
        if name in orders:
            raise tokens.bad("a field that was there before", 1)
        orders[name] = tokens.differences()
    return DeclareDifferences(timestamp, item, subscription, orders)


def parse_failure(parts: list[str]) -> AdapterFailure:
    parse_timestamp(parts, "FAL")
    tokens = TokenReader(parts, "FAL")
    if tokens.type != "E":
        raise tokens.bad("expected type E")
    tokens.raw()
    message = tokens.bare_text()
    tokens.end()
    return AdapterFailure(message or "")


# All but UD3, which `packets` looks for first.
NOTIFICATION_PARSERS: dict[str, Callable[[list[str]], AriNotification]] = {
    "EOS": _end_of_snapshot,
    "CLS": _clear_snapshot,
    "DFD": _declare_differences,
    "FAL": parse_failure,
}
