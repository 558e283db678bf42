"""The form of requests in both text protocols: lines of `name=value` pairs, percent-decoded, read with typed accessors.

Errors name the parameter, its value and what is allowed; each protocol has its own codes for them.
Specification: TLCP chapter 1, "Request Syntax"; text protocol 6.0.2 chapter 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote_plus

# No count, size or time that a client may send needs more digits; longer ones are typing errors or attacks.
MAX_DIGITS = 15

# How many characters of an offending value an error message quotes.
MAX_ECHO = 60

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", re.ASCII)


_NAME = re.compile(r"[A-Za-z_]{1,60}", re.ASCII)


class FormError(Exception):
    """A line that is not a form (malformed), or a parameter that is missing or has a value that is not allowed."""

    def __init__(self, message: str, is_malformed: bool) -> None:
        super().__init__(message)
        self.message = message
        self.is_malformed = is_malformed


def malformed(message: str) -> FormError:
    return FormError(message, True)


def syntax(message: str) -> FormError:
    return FormError(message, False)


def shown_name(name: str) -> str:
    """A request name for messages and logs; other text in its place may contain a password and is not quoted."""
    return name if _NAME.fullmatch(name) else "(not a name)"


def split_lines(text: str) -> list[str]:
    """The CR-LF separated lines of a body or message; the separator after the last line is optional."""
    lines = text.split("\r\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def shown(name: str, value: str) -> str:
    """`name=value` for an error message, cut short, with a password never shown."""
    if "password" in name.lower():
        return f"{name}=***"
    return f"{name}={value if len(value) <= MAX_ECHO else value[:MAX_ECHO] + '…'}"


def parse_line(text: str) -> dict[str, str]:
    """Split a parameter line into a dictionary; raise a FormError where it is not one.

    An empty pair is ignored: clients that speak TLCP 2.1 end every line with "&".
    """
    parameters: dict[str, str] = {}
    if not text:
        return parameters
    if "\r" in text or "\n" in text:
        raise malformed("A line break that is not CR-LF; inside values it must be percent-encoded")
    for number, pair in enumerate(text.split("&"), start=1):
        if not pair:
            continue
        name, separator, value = pair.partition("=")
        if not separator or not name:
            # Not quoted: it may be the rest of a password with "&" in it, or a session identifier.
            raise malformed(f"Expected name=value as part {number} of the line")
        decoded = _decode(name, name)
        if decoded in parameters:
            raise malformed(f"Parameter {decoded[:MAX_ECHO]} is given twice")
        parameters[decoded] = _decode(decoded, value)
    return parameters


def readable(text: str, name: str) -> str | None:
    """The value of one parameter in a line that need not be a valid form; None if there is none, or several."""
    found: str | None = None
    for pair in text.split("&"):
        given, separator, value = pair.partition("=")
        if not separator:
            continue
        try:
            if _decode(given, given) != name:
                continue
            decoded = _decode(name, value)
        except FormError:
            continue
        if found is not None:
            return None
        found = decoded
    return found


def _decode(name: str, text: str) -> str:
    if "%" not in text:
        return text.replace("+", " ")
    if _BAD_ESCAPE.search(text):
        raise malformed(f"Bad percent-encoding in the value of {name[:MAX_ECHO]}")
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise malformed(f"The percent-encoded value of {name[:MAX_ECHO]} is not UTF-8") from None


class Parameters:
    """The parameters of one request. Every accessor marks its name as known, so that the rest can be reported."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._known: set[str] = set()

    def text(self, name: str) -> str | None:
        """The value as it is, None if absent."""
        self._known.add(name)
        return self._given.get(name)

    def required(self, name: str) -> str:
        """The value, which is required and must not be empty."""
        value = self.text(name)
        if not value:
            raise syntax(f"{name} is missing" if value is None else f"{name} is empty")
        return value

    def integer(self, name: str, minimum: int) -> int | None:
        """A whole number not below `minimum`, None if absent."""
        value = self.text(name)
        if value is None:
            return None
        if _INTEGER.fullmatch(value) is None or len(value) > MAX_DIGITS or int(value) < minimum:
            raise syntax(f"{shown(name, value)}: expected a whole number from {minimum}")
        return int(value)

    def required_integer(self, name: str, minimum: int) -> int:
        """A required whole number."""
        number = self.integer(name, minimum)
        if number is None:
            raise syntax(f"{name} is missing")
        return number

    def any_integer(self, name: str) -> int | None:
        """A whole number of either sign, None if absent."""
        value = self.text(name)
        if value is None:
            return None
        if _INTEGER.fullmatch(value) is None or len(value) > MAX_DIGITS:
            raise syntax(f"{shown(name, value)}: expected a whole number")
        return int(value)

    def boolean(self, name: str, default: bool) -> bool:
        """`true` or `false`, `default` if absent."""
        value = self.text(name)
        if value is None:
            return default
        if value not in ("true", "false"):
            raise syntax(f"{shown(name, value)}: expected true or false")
        return value == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; it is required."""
        value = self.required(name)
        if value not in choices:
            raise syntax(f"{shown(name, value)}: expected one of {' '.join(choices)}")
        return value

    def rate(self, name: str, words: tuple[str, ...]) -> float | str | None:
        """A decimal number above zero, or one of some words; None if absent."""
        value = self.text(name)
        if value is None or value in words:
            return value
        number = float(value) if _DECIMAL.fullmatch(value) and len(value) <= MAX_DIGITS else 0.0
        if number <= 0:
            allowed = " or ".join(("a decimal number above 0", *words))
            raise syntax(f"{shown(name, value)}: expected {allowed}")
        return number

    def unknown(self) -> Iterator[str]:
        """The names that no accessor has asked for."""
        return (name for name in self._given if name not in self._known)
