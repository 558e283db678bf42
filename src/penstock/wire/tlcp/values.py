"""The pipe-separated value list of a real-time update: encoding against the previous list, and decoding.

Escaping, `#`, `$` and `^N` runs live here, and the same in C in `build/native.c`; when a value is sent as a difference
is decided in `differences`.
Specification: chapter 3, "Real-Time Update".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from penstock.wire.tlcp.errors import malformed
from penstock.wire.tlcp.jsondiff import decode_patch
from penstock.wire.tlcp.textdiff import decode_difference

# A run of n unchanged fields is n empty values (n - 1 pipes between them) or "^n": the latter is shorter from 4 on.
SHORTEST_RUN = 4

_RUN = re.compile(r"\^[1-9][0-9]{0,8}", re.ASCII)
_LEADING = {"#": "%23", "$": "%24", "^": "%5E"}


def encode_value(value: str | None) -> str:
    """One field value as it is written between two pipes."""
    if value is None:
        return "#"
    if not value:
        return "$"
    leading = _LEADING.get(value[0])
    if leading is not None:
        return leading + escape(value[1:])
    return escape(value)


def escape(text: str) -> str:
    """Percent-encode what would end a value or a line.

    Searching for one character after the other is much faster than a regular expression that searches for all.
    """
    if "%" in text:
        text = text.replace("%", "%25")
    if "|" in text:
        text = text.replace("|", "%7C")
    if "\r" in text:
        text = text.replace("\r", "%0D")
    if "\n" in text:
        text = text.replace("\n", "%0A")
    return text


def encode_values(values: tuple[str | None, ...], previous: tuple[str | None, ...] | None) -> str:
    """The value list that turns `previous` into `values`; with no previous list every field is written out."""
    if previous is None:
        return "|".join([encode_value(value) for value in values])
    if len(values) != len(previous):
        raise ValueError(f"{len(values)} values after {len(previous)}")
    # By position, not by `zip`, because that is faster when compiled.
    tokens: list[str | None] = []
    for position in range(len(values)):
        value = values[position]
        tokens.append(None if value == previous[position] else encode_value(value))
    return join_tokens(tokens)


def value_list(values: tuple[str | None, ...], previous: tuple[str | None, ...] | None) -> bytes:
    """The same as a line, without its prefix."""
    return (encode_values(values, previous) + "\r\n").encode("utf-8", "replace")


def join_tokens(tokens: list[str | None]) -> str:
    """A value list from encoded values, in which None stands for an unchanged field."""
    parts: list[str] = []
    unchanged = 0
    for token in tokens:
        if token is None:
            unchanged += 1
            continue
        if unchanged:
            _append_run(parts, unchanged)
            unchanged = 0
        parts.append(token)
    if unchanged:
        _append_run(parts, unchanged)
    return "|".join(parts)


def _append_run(parts: list[str], length: int) -> None:
    if length >= SHORTEST_RUN:
        parts.append(f"^{length}")
    else:
        for _ in range(length):
            parts.append("")


def decode_values(text: str, previous: Sequence[str | None] | None, count: int) -> tuple[str | None, ...]:
    """What a client does with the third argument of a `U`: rebuild all `count` values from the list and the previous
    values.

    Raises the malformed-request error when the list does not describe exactly `count` fields.
    """
    values: list[str | None] = []
    for token in text.split("|"):
        if token == "" or _RUN.fullmatch(token):
            length = 1 if token == "" else int(token[1:])
            if previous is None or len(values) + length > count:
                raise malformed(f"Unexpected unchanged fields at value {len(values) + 1}")
            values.extend(previous[len(values) : len(values) + length])
        elif token == "#":
            values.append(None)
        elif token == "$":
            values.append("")
        elif token[0] == "^":
            before = previous[len(values)] if previous is not None and len(values) < len(previous) else None
            values.append(_decode_difference(token, before, len(values) + 1))
        else:
            values.append(_decode_value(token, len(values) + 1))
    if len(values) != count:
        raise malformed(f"Expected {count} values, found {len(values)}")
    return tuple(values)


def _decode_difference(token: str, before: str | None, number: int) -> str:
    if before is None or token[1:2] not in ("P", "T"):
        raise malformed(f"Neither a run nor a difference that applies at value {number}: {token[:20]!r}")
    difference = _decode_value(token[2:], number)
    return decode_patch(before, difference) if token[1] == "P" else decode_difference(before, difference)


def _decode_value(token: str, number: int) -> str:
    try:
        return unquote(token, errors="strict")
    except UnicodeDecodeError:
        raise malformed(f"The percent-encoded value {number} is not UTF-8") from None
