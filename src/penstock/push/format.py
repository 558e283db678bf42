"""Notification formats: JSON with arguments in its strings, read once, then filled in for each notification.

What a platform knows of a structure is checked by its provider. Read next: `arguments`. Specification: General
Concepts, 5.4.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.push import arguments
from penstock.push.refusals import PushReason, PushRefusal

# Characters of a format. The largest payload of any platform is 4,096 bytes; what has four times as much is a mistake.
MAX_LENGTH = 16_384
# Objects and arrays inside one another.
MAX_DEPTH = 32
# The badge that counts by itself: the value of `badge` in an object `aps`.
AUTO = "AUTO"

Structure = dict[str, Any]
Check = Callable[[Structure], Structure]


def names(text: str) -> tuple[str, ...]:
    """The names that the strings of a format use; ask for these, then `Format.parse` with the positions."""
    found: dict[str, None] = {}

    def collect(string: str) -> str:
        found.update(dict.fromkeys(arguments.names(string)))
        return string

    _converted(_read(text), collect)
    return tuple(found)


class Format:
    """A format whose arguments are indexed. Equal texts make equal formats."""

    __slots__ = ("_fields", "_pieces", "text", "uses_badge")

    def __init__(self, structure: Structure, field_count: int) -> None:
        # As it is stored and shown: JSON without spaces.
        self.text = json.dumps(structure, ensure_ascii=False, separators=(",", ":"))
        # JSON around the arguments, and what is put between: a field's position from 0, or -1: the badge.
        self._pieces: list[str] = [""]
        self._fields: list[int] = []
        for piece, field in _parts(structure, field_count):
            self._pieces[-1] += piece
            if field is not None:
                self._fields.append(field)
                self._pieces.append("")
        # Whether the device's count has to go up with each notification.
        self.uses_badge = _BADGE in self._fields

    @classmethod
    def parse(
        cls, text: str, field_count: int, check: Check | None = None, positions: Mapping[str, int] | None = None
    ) -> Format:
        """Raise PushRefusal for what is not a format. `check` is the provider's; one from the store has passed it.

        `positions` are those of the named arguments, from 1.
        """
        known = positions or {}
        structure = _converted(_read(text), lambda string: arguments.convert(string, known, field_count))
        if check is not None:
            structure = check(structure)
        if not structure:
            raise PushRefusal(PushReason.FORMAT_EMPTY, "the notification format has no member that the platform knows")
        return cls(structure, field_count)

    def fill(self, values: Sequence[str | None], badge: int) -> str:
        """The payload. A value that is null is an empty text; one that looks like an argument is text as any other."""
        filled = [self._pieces[0]]
        for field, piece in zip(self._fields, self._pieces[1:], strict=True):
            if field == _BADGE:
                filled.append(str(badge))
            else:
                filled.append(_escaped(values[field] or ""))
            filled.append(piece)
        return "".join(filled)


# In the place of a field.
_BADGE = -1


def _escaped(value: str) -> str:
    """As it stands between the quotes of JSON; half a character, which UTF-8 cannot have, becomes a question mark."""
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode()
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _parts(node: Any, field_count: int, name: str = "") -> Iterator[tuple[str, int | None]]:
    """The JSON of a node in pieces, each with what comes behind it; `name` is the node's in the object around it."""
    if isinstance(node, dict):
        yield "{", None
        for number, (key, value) in enumerate(node.items()):
            yield f"{',' if number else ''}{json.dumps(key, ensure_ascii=False)}:", None
            if name == "aps" and key == "badge" and value == AUTO:
                yield "", _BADGE
            else:
                yield from _parts(value, field_count, key)
        yield "}", None
    elif isinstance(node, list):
        yield "[", None
        for number, value in enumerate(node):
            if number:
                yield ",", None
            yield from _parts(value, field_count)
        yield "]", None
    elif isinstance(node, str):
        pieces, fields = arguments.split(node, field_count)
        yield '"', None
        for piece, field in zip(pieces, fields, strict=False):
            yield _escaped(piece), field
        yield _escaped(pieces[-1]) + '"', None
    else:
        yield json.dumps(node), None


def _converted(structure: Structure, convert: Callable[[str], str]) -> Structure:
    """The same with every string that is a value converted; names of members have no arguments."""
    converted = _walk(structure, "", convert, 0)
    assert isinstance(converted, dict)
    return converted


def _walk(node: Any, where: str, convert: Callable[[str], str], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise _not_json(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(node, dict):
        for key in node:
            if "${" in key or "$[" in key:
                # A name made of an update's values could be one that the provider's check would have refused.
                raise PushRefusal(
                    PushReason.ARGUMENT,
                    f"notification format, {where or '/'}: the member {key[:40]!r} has an argument in its name;"
                    " arguments are allowed in values only",
                )
        return {key: _walk(value, f"{where}/{key}", convert, depth + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [_walk(value, f"{where}/{number}", convert, depth + 1) for number, value in enumerate(node)]
    if isinstance(node, str):
        return arguments.located(f"notification format, {where}", lambda: convert(node))
    return node


def _read(text: str) -> Structure:
    if not text.strip():
        raise PushRefusal(PushReason.FORMAT_EMPTY, "the notification format is empty; it must be a JSON object")
    if len(text) > MAX_LENGTH:
        raise PushRefusal(
            PushReason.TOO_LONG, f"the notification format has {len(text)} characters; {MAX_LENGTH} are allowed"
        )
    try:
        structure = json.loads(
            text, object_pairs_hook=_members, parse_constant=_no_constant, parse_float=_number, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise _not_json(f"it is nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(structure, dict):
        raise _not_json("it must be an object, such as {…}")
    if not structure:
        raise PushRefusal(PushReason.FORMAT_EMPTY, "the notification format is an empty object")
    try:
        json.dumps(structure, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _not_json("a string has an unpaired surrogate, which UTF-8 cannot encode") from None
    return structure


def _members(pairs: list[tuple[str, Any]]) -> Structure:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _not_json(f"the member {twice[:40]!r} is there twice")
    return members


def _no_constant(name: str) -> Any:
    raise _not_json(f"{name} is not a number in JSON")


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _not_json(f"the number {text[:40]} is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > 40:
        raise _not_json(f"the number {text[:40]}… has {len(text)} digits; 40 are allowed")
    return int(text)


def _not_json(text: str) -> PushRefusal:
    return PushRefusal(PushReason.FORMAT_NOT_JSON, f"the notification format is not valid: {text}")
