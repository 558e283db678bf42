"""The functions that change what a placeholder stands for: `fn:lower()`, `fn:default('x')`, `fn:filter('like','a*')`.

One is checked when it is made. Upstream documentation: "Placeholders", function library.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

from penstock.connections.errors import invalid
from penstock.wire.ditto.predicate import is_like

# Of a prefix and a name; None if the message has no such thing.
Resolve = Callable[[str, str], str | None]

# Whether it is the name of another placeholder, and the text or the name.
Argument = tuple[bool, str]

# How many arguments each takes.
_COUNTS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        ("lower", "upper", "trim", "delete", "url-encode", "url-decode", "base64-encode", "base64-decode"), (0,)
    ),
    **dict.fromkeys(("default", "substring-before", "substring-after"), (1,)),
    "replace": (2,),
    "filter": (1, 2, 3),
}
_CONDITIONS: Final = ("eq", "ne", "exists", "like")


class PlaceholderFunction:
    """One step of a pipeline."""

    def __init__(self, name: str, arguments: list[Argument], whole: str) -> None:
        if name not in _COUNTS:
            raise invalid(f"'{whole}': there is no function 'fn:{name}'; expected {', '.join(sorted(_COUNTS))}")
        if len(arguments) not in _COUNTS[name]:
            allowed = " or ".join(map(str, _COUNTS[name]))
            raise invalid(f"'{whole}': fn:{name} takes {allowed} arguments, {len(arguments)} are given")
        self.name = name
        self._arguments = arguments
        # What a filter compares, if that is not what it is given.
        self._compared: list[Argument] = []
        if name == "filter":
            self._split(whole)

    def _split(self, whole: str) -> None:
        """The arguments of a filter: what is compared, perhaps; the condition; what it is compared with, perhaps."""
        arguments = self._arguments
        if len(arguments) == 3 or arguments[0][0] or arguments[0][1] not in _CONDITIONS:
            self._compared, arguments = arguments[:1], arguments[1:]
        named, condition = arguments[0] if arguments else (True, "")
        if named or condition not in _CONDITIONS or (len(arguments) == 1 and condition != "exists"):
            raise invalid(
                f"'{whole}': fn:filter takes a value, if it is not the one before it, then one of"
                f" {', '.join(_CONDITIONS)}, then what to compare with"
            )
        self._arguments = arguments

    def __call__(self, value: str | None, resolve: Resolve) -> str | None:
        given = [_value(each, resolve) for each in self._arguments]
        if self.name == "default":
            return given[0] if value is None else value
        if value is None or self.name == "delete":
            return None
        if self.name == "filter":
            compared = _value(self._compared[0], resolve) if self._compared else value
            return value if _is_met(compared, given[0] or "", given[1] if len(given) > 1 else None) else None
        return _changed(self.name, value, [each or "" for each in given])


def _value(argument: Argument, resolve: Resolve) -> str | None:
    named, text = argument
    return resolve(*text.split(":", 1)) if named else text


def _is_met(value: str | None, condition: str, expected: str | None) -> bool:
    if condition == "exists":
        return (value is not None) is (expected != "false")
    if condition == "ne":
        return value != expected
    if value is None or expected is None:
        return False
    if condition == "eq":
        return value == expected
    return any(is_like(value, pattern) for pattern in expected.split("|"))


def _changed(name: str, value: str, given: list[str]) -> str | None:
    match name:
        case "lower":
            return value.lower()
        case "upper":
            return value.upper()
        case "trim":
            return value.strip()
        case "url-encode":
            return quote(value, safe="")
        case "url-decode":
            return unquote(value)
        case "base64-encode":
            return b64encode(value.encode()).decode()
        case "base64-decode":
            try:
                return b64decode(value, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return None
        case "replace":
            return value.replace(given[0], given[1]) if given[0] else value
    before, found, after = value.partition(given[0]) if given[0] else (value, "", "")
    if not found:
        return None
    return before if name == "substring-before" else after
