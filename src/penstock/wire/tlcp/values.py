"""The pipe-separated value list of a real-time update: encoding against the previous list, and decoding.

Escaping, `#`, `$` and `^N` runs live here; `^P` and `^T` differences do not yet. Specification: chapter 3, "Real-Time
Update".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from penstock.wire.tlcp.errors import malformed

# A run of n unchanged fields is n empty values (n - 1 pipes between them) or "^n": the latter is shorter from 4 on.
SHORTEST_RUN = 4

_SPECIAL = re.compile(r"[%|\r\n]|\A[#$^]")
_ESCAPES = str.maketrans({"%": "%25", "|": "%7C", "\r": "%0D", "\n": "%0A"})
_LEADING = {"#": "%23", "$": "%24", "^": "%5E"}


def encode_value(value: str | None) -> str:
    """One field value as it stands between two pipes."""
    if value is None:
        return "#"
    if not value:
        return "$"
    if _SPECIAL.search(value) is None:
        return value
    leading = _LEADING.get(value[0])
    if leading is None:
        return value.translate(_ESCAPES)
    return leading + value[1:].translate(_ESCAPES)


def encode_values(values: Sequence[str | None], previous: Sequence[str | None] | None) -> str:
    """The value list that turns `previous` into `values`; with no previous list every field is written out."""
    if previous is None:
        return "|".join([encode_value(value) for value in values])
    parts: list[str] = []
    unchanged = 0
    for value, before in zip(values, previous, strict=True):
        if value == before:
            unchanged += 1
            continue
        if unchanged:
            _append_run(parts, unchanged)
            unchanged = 0
        parts.append(encode_value(value))
    if unchanged:
        _append_run(parts, unchanged)
    return "|".join(parts)


def _append_run(parts: list[str], length: int) -> None:
    if length >= SHORTEST_RUN:
        parts.append(f"^{length}")
    else:
        parts.extend([""] * length)


def decode_values(text: str, previous: Sequence[str | None] | None, count: int) -> tuple[str | None, ...]:
    """What a client does with the third argument of a `U`: rebuild all `count` values from the list and the previous
    values.

    Raises the malformed-request error when the list does not describe exactly `count` fields.
    """
    values: list[str | None] = []
    for token in text.split("|"):
        if token == "" or (token[0] == "^" and token[1:2].isdigit()):
            length = 1 if token == "" else _run_length(token)
            if previous is None or len(values) + length > count:
                raise malformed(f"Unexpected unchanged fields at value {len(values) + 1} of {text!r}")
            values.extend(previous[len(values) : len(values) + length])
        elif token == "#":
            values.append(None)
        elif token == "$":
            values.append("")
        elif token[0] == "^":
            raise malformed(f"Unknown difference format {token[:2]} at value {len(values) + 1}")
        else:
            values.append(unquote(token, errors="strict"))
    if len(values) != count:
        raise malformed(f"Expected {count} values, found {len(values)} in {text!r}")
    return tuple(values)


def _run_length(token: str) -> int:
    if not token[1:].isascii() or not token[1:].isdecimal():
        raise malformed(f"Malformed run {token!r}")
    return int(token[1:])
