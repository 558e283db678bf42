"""The pipe-separated value list of an update: encoding against the previous list, and decoding.

Two phases: `$`, `#` and empty values first, then escapes, after which only printable ASCII is left.
Specification: 4.5.1, "Value Encoding".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.wire.text6.errors import BadPush

# Everything except printable ASCII; and of that the delimiters of both modes of the protocol, the double quote (as in
# the example of 4.5.1) and the backslash.
_SPECIAL = re.compile(r"[^ !#-&(-\[\]-{}~]+")

# Free text has no delimiters.
_UNPRINTABLE = re.compile(r"[^ -\[\]-~]+")

_ESCAPES = re.compile(r"(?:\\u[0-9A-Fa-f]{4})+")
_BARE_BACKSLASH = re.compile(r"\\(?!u[0-9A-Fa-f]{4})")


def _escaped(match: re.Match[str]) -> str:
    """UTF-16 code units; also a lone half of a surrogate pair, as the specification allows."""
    digits = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join([f"\\u{digits[start : start + 4]}" for start in range(0, len(digits), 4)])


def _unescaped(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\u", "")).decode("utf-16-be", "surrogatepass")


def escape(text: str) -> str:
    """A value as ASCII in which nothing ends a value or a line."""
    return text if _SPECIAL.search(text) is None else _SPECIAL.sub(_escaped, text)


def escape_message(text: str) -> str:
    """The text of an error, or of a header, as one line of ASCII; quotes and pipes stay as they are."""
    return text if _UNPRINTABLE.search(text) is None else _UNPRINTABLE.sub(_escaped, text)


def unescape(text: str) -> str:
    """The inverse of both; two adjacent halves of a surrogate pair become one character."""
    if "\\" not in text:
        return text
    bare = _BARE_BACKSLASH.search(text)
    if bare is not None:
        raise BadPush(f"A backslash without four hexadecimal digits at character {bare.start() + 1}: {text[:60]!r}")
    return _ESCAPES.sub(_unescaped, text)


def encode_value(value: str | None) -> str:
    """One changed field value as it is written between two pipes."""
    if value is None:
        return "#"
    if not value:
        return "$"
    if value[0] in "$#":
        return value[0] + escape(value)
    return escape(value)


def encode_values(values: Sequence[str | None], previous: Sequence[str | None] | None) -> str:
    """The value list that turns `previous` into `values`; with no previous list every field is written out."""
    if previous is None:
        return "|".join([encode_value(value) for value in values])
    return "|".join(
        ["" if value == before else encode_value(value) for value, before in zip(values, previous, strict=True)]
    )


def decode_values(text: str, previous: Sequence[str | None] | None, count: int) -> tuple[str | None, ...]:
    """What a client does with the value list of an update: rebuild all `count` values.

    Raises BadPush when the list does not describe exactly `count` fields.
    """
    tokens = text.split("|")
    if len(tokens) != count:
        raise BadPush(f"Expected {count} values, found {len(tokens)}")
    if previous is None:
        if "" in tokens:
            raise BadPush(f"Unchanged field at value {tokens.index('') + 1} of a first update")
        return tuple([_decode_value(token) for token in tokens])
    return tuple([_decode_value(token) if token else before for token, before in zip(tokens, previous, strict=True)])


def _decode_value(token: str) -> str | None:
    if token == "$":
        return ""
    if token == "#":
        return None
    return unescape(token[1:] if token[0] in "$#" else token)
