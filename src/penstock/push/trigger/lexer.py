"""A trigger's text as tokens of Java, each with its place. What they mean together is said by `parser`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum

from penstock.push.trigger.failure import NoResult, Wrong
from penstock.push.trigger.numbers import INT_MAX, LONG_MAX, parse_double, parse_float, to_int, to_long
from penstock.push.trigger.strings import in_units


class LexemeKind(Enum):
    """The values are for people."""

    NAME = "a name"
    INT = "an int"
    LONG = "a long"
    FLOAT = "a float"
    DOUBLE = "a double"
    CHAR = "a char"
    STRING = "a String"
    FIELD = "an argument"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Lexeme:
    kind: LexemeKind
    # As it is written.
    text: str
    place: int
    # Of literals; of a field its position, from 1.
    value: str | int | float | None = None
    # The whole number just beyond the largest, which is allowed behind a minus only.
    is_beyond: bool = False


_SIGNS = frozenset(["&&", "||", "==", "!=", "<=", ">=", *"<>!+-*/%?:().,"])

# The longest sign first, as Java reads: `5--5` is no difference.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\f\r\n]+)
  | (?P<field>\$\[[0-9]+\])
  | (?P<number>
        0[xX][0-9a-fA-F_]+[lL]? | 0[bB][0-9_]+[lL]?
      | (?:[0-9][0-9_]*\.(?:[0-9][0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?[fFdD]?
      | [0-9][0-9_]*(?:[eE][+-]?[0-9][0-9_]*[fFdD]?|[fFdDlL])?
    )
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<string>"(?:[^"\\\r\n]|\\[^\r\n])*")
  | (?P<char>'(?:[^'\\\r\n]|\\[^\r\n][0-9a-fA-F]*)')
  | (?P<sign>>>>=|<<=|>>=|>>>|\+\+|--|&&|\|\||==|!=|<=|>=|->|::|<<|>>|[-+*/%&|^]=|[-<>!+*/%?:().,=&|^~\[\]{};@])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "s": " ", '"': '"', "'": "'", "\\": "\\"}

_INSTEAD = {
    "=": "an assignment is not allowed; == compares",
    "&": "write && for both",
    "|": "write || for either",
    "^": "write != for either of two booleans",
    "[": "an argument is written $[1]",
    ";": "a trigger is one expression and has no ;",
}


def tokens(text: str) -> list[Lexeme]:
    """The tokens with `END` as the last; raise Wrong at what is none."""
    found: list[Lexeme] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _unreadable(text, place)
        if match.lastgroup != "space":
            found.append(_token(match, text))
        place = match.end()
    found.append(Lexeme(LexemeKind.END, "", len(text)))
    return found


def _unreadable(text: str, place: int) -> Wrong:
    character = text[place]
    if character == '"':
        return Wrong(place, "a String has no closing quote on its line")
    if character == "'":
        return Wrong(place, "a char must be one character between single quotes; write double quotes for a String")
    if character == "$":
        return Wrong(place, "a $ must begin an argument such as $[1]")
    return Wrong(place, f"the character {character!r} has no meaning here")


def _token(match: re.Match[str], whole: str) -> Lexeme:
    text, place = match[0], match.start()
    match match.lastgroup:
        case "field":
            return Lexeme(LexemeKind.FIELD, text, place, int(text[2:-1]))
        case "number":
            if whole[match.end() : match.end() + 1].isalnum() or text.rstrip("lLfFdD").endswith("_"):
                raise Wrong(place, f"{_short(text)} is not a number")
            return _number(text, place)
        case "name":
            return Lexeme(LexemeKind.NAME, text, place)
        case "string":
            return Lexeme(LexemeKind.STRING, text, place, _string(text[1:-1], place))
        case "char":
            value = _unescaped(text[1:-1], place)
            if len(value) != 1:
                raise Wrong(place, f"{_short(text)} is not a char, which has 16 bits; use double quotes for a String")
            return Lexeme(LexemeKind.CHAR, text, place, ord(value))
    if text not in _SIGNS:
        advice = _INSTEAD.get(text)
        raise Wrong(place, f"the sign {text} is not supported" + (f": {advice}" if advice else ""))
    if text == "/" and whole[match.end() : match.end() + 1] in ("/", "*"):
        raise Wrong(place, "comments are not supported")
    return Lexeme(LexemeKind.SIGN, text, place)


def _string(inner: str, place: int) -> str:
    if "$[" in inner or "${" in inner:
        raise Wrong(place, 'an argument inside quotes is not replaced; write "…" + $[1]')
    return _unescaped(inner, place)


def _unescaped(inner: str, place: int) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] is not None:
            return chr(int(match[2], 8))
        if match[3] not in _ESCAPED:
            text = f"\\{match[3]} is not an escape sequence of Java; write \\\\ for a backslash"
            raise Wrong(place + 1 + match.start(), text)
        return _ESCAPED[match[3]]

    return in_units(_ESCAPE.sub(character, inner))


def _number(text: str, place: int) -> Lexeme:
    plain = text.replace("_", "")
    is_hexadecimal = plain[:2] in ("0x", "0X")
    if not is_hexadecimal and plain[:2] not in ("0b", "0B"):
        if plain[-1] in "fF":
            return _real(LexemeKind.FLOAT, text, place, plain)
        if plain[-1] in "dD" or "." in plain or "e" in plain or "E" in plain:
            return _real(LexemeKind.DOUBLE, text, place, plain)
    is_long = plain[-1] in "lL"
    digits = plain[:-1] if is_long else plain
    base = 16 if is_hexadecimal else 2 if plain[:2] in ("0b", "0B") else 8 if digits[0] == "0" and digits != "0" else 10
    try:
        if len(digits) > 70:
            raise ValueError
        value = int(digits, 8) if base == 8 else int(digits, 0)
    except ValueError:
        raise Wrong(place, f"{_short(text)} is not a number") from None
    most = LONG_MAX if is_long else INT_MAX
    kind = LexemeKind.LONG if is_long else LexemeKind.INT
    if base == 10:
        if value > most + 1:
            advice = "" if is_long else "; write an L behind it for a long"
            raise Wrong(place, f"{_short(text)} is larger than {most}{advice}")
        return Lexeme(kind, text, place, value, value > most)
    # Other bases say the bits.
    if value > 2 * most + 1:
        raise Wrong(place, f"{_short(text)} has more than {64 if is_long else 32} bits")
    return Lexeme(kind, text, place, to_long(value) if is_long else to_int(value))


def _real(kind: LexemeKind, text: str, place: int, plain: str) -> Lexeme:
    try:
        value = (parse_float if kind is LexemeKind.FLOAT else parse_double)(plain)
    except NoResult:
        raise Wrong(place, f"{_short(text)} is not a number") from None
    if math.isinf(value):
        raise Wrong(place, f"{_short(text)} is too large for {kind.value}")
    if value == 0 and any(digit in "123456789" for digit in re.split("[eE]", plain)[0]):
        raise Wrong(place, f"{_short(text)} is too small for {kind.value}")
    return Lexeme(kind, text, place, value)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
