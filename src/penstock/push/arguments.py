"""Arguments of notification formats and triggers: `${name}` and `$[index]`, and the conversion of the one to the other.

A name is what the metadata adapter is asked for; who asks is the service. What the converted text means is said by
`format` and `trigger`. Specification: General Concepts, 5.4.1, "preliminary conversion".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from penstock.push.refusals import PushReason, PushRefusal

# Characters of a name or index that an error quotes.
_QUOTED = 40
# Digits of an index: more than any schema has fields, and few enough to be read at once.
_MAX_DIGITS = 6

# A dollar sign that is followed by neither bracket is text.
_ARGUMENT = re.compile(r"\$(?:\{([^}]*)(\}?)|\[([^\]]*)(\]?))")


def names(text: str) -> tuple[str, ...]:
    """The names of named arguments, each once, in the order of the text; PushRefusal for an argument without end."""
    found: dict[str, None] = {}
    for match in _ARGUMENT.finditer(text):
        if match[1] is not None:
            found[_name(match)] = None
        else:
            _index(match)
    return tuple(found)


def convert(text: str, positions: Mapping[str, int], field_count: int) -> str:
    """The text with indexed arguments only; `positions` says for each name which field it is, from 1."""

    def indexed(match: re.Match[str]) -> str:
        if match[1] is None:
            return f"$[{_in_range(_index(match), field_count, match.start())}]"
        name = _name(match)
        if name not in positions:
            raise _wrong(match.start(), f"the name {_short(name)} is not a field of the subscription")
        return f"$[{_in_range(positions[name], field_count, match.start())}]"

    return _ARGUMENT.sub(indexed, text)


def split(text: str, field_count: int) -> tuple[list[str], list[int]]:
    """The pieces of a converted text around its arguments, and which fields these are, from 0: one fewer."""
    pieces: list[str] = []
    fields: list[int] = []
    end = 0
    for match in _ARGUMENT.finditer(text):
        if match[1] is not None:
            raise _wrong(match.start(), f"the name {_short(_name(match))} is not a field of the subscription")
        fields.append(_in_range(_index(match), field_count, match.start()) - 1)
        pieces.append(text[end : match.start()])
        end = match.end()
    pieces.append(text[end:])
    return pieces, fields


def located(where: str, read: Callable[[], str]) -> str:
    """What `read` returns; its refusal says `where` first."""
    try:
        return read()
    except PushRefusal as refusal:
        raise PushRefusal(refusal.reason, f"{where}, {refusal.text}") from None


def _name(match: re.Match[str]) -> str:
    if not match[2]:
        raise _wrong(match.start(), "a named argument begins with ${ and has no closing }")
    if not match[1]:
        raise _wrong(match.start(), "a named argument has no name; write ${field}")
    return match[1]


def _index(match: re.Match[str]) -> int:
    if not match[4]:
        raise _wrong(match.start(), "an indexed argument begins with $[ and has no closing ]")
    digits = match[3]
    if not (digits.isascii() and digits.isdigit()):
        raise _wrong(match.start(), f"the index {_short(digits)} is not a whole number; write $[1] for the first field")
    if len(digits) > _MAX_DIGITS:
        raise _wrong(match.start(), f"the index has {len(digits)} digits; {_MAX_DIGITS} are allowed")
    return int(digits)


def _in_range(index: int, field_count: int, place: int) -> int:
    if not 1 <= index <= field_count:
        raise _wrong(place, f"the index {index} is out of range; the subscription's fields are 1 to {field_count}")
    return index


def _wrong(place: int, text: str) -> PushRefusal:
    return PushRefusal(PushReason.ARGUMENT, f"character {place + 1}: {text}")


def _short(text: str) -> str:
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}…"
