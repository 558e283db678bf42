"""RQL, the language of filters: text to tree and back. Whether a document matches a tree is in `predicate`.

    query = and(query, ...) | or(query, ...) | not(query) | exists(property) | empty(property)
          | eq|ne|gt|ge|lt|le|like|ilike(property,value) | in(property,value,...)

A property is a JSON pointer without quotes, a value is a number, a quoted text, true, false, null or `time:...`.
Upstream documentation: "RQL expressions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from penstock.wire.ditto.document import MAX_LONG, MIN_LONG
from penstock.wire.ditto.errors import RQL_INVALID, DittoError
from penstock.wire.ditto.placeholder import GRAMMAR, is_placeholder
from penstock.wire.ditto.pointer import parse_pointer

# Characters of an expression. It is parsed once and then evaluated on every event.
MAX_LENGTH = 8192

# Levels of and, or and not.
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A value that is known only when the expression is evaluated, such as `time:now-1h`: see `placeholder`."""

    name: str


Literal = str | int | float | bool | Placeholder | None

COMPARISONS: Final = ("eq", "ne", "gt", "ge", "lt", "le", "like", "ilike")


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    property: str
    value: Literal


@dataclass(frozen=True, slots=True)
class In:
    property: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class FieldExists:
    property: str


@dataclass(frozen=True, slots=True)
class Empty:
    property: str


@dataclass(frozen=True, slots=True)
class And:
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Or:
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Not:
    query: Query


Query = Comparison | In | FieldExists | Empty | And | Or | Not

_SPACE = re.compile(r"[ \n\r\t\f]*")
_NAME = re.compile(r"[a-z]+")
_NUMBER = re.compile(r"([+-]?(?:[1-9][0-9]*|0))(\.[0-9]+)?", re.ASCII)
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"true|false|null")
_PLACEHOLDER = re.compile(r"time:[^,)\"\\ \n\r\t\f]+")
_PROPERTY = re.compile(r"(?:[^,)\"\\]|\\.)*", re.DOTALL)
_QUOTED = {'"': re.compile(r"(?:[^\"\\]|\\.)*", re.DOTALL), "'": re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL)}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\", "/": "/"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")

# Characters that must be escaped in a property or a text, and how.
_NOT_IN_PROPERTY = re.compile(r"[,)\"\\\n\r\t\f]|\A +| +\Z")
_NOT_IN_TEXT = re.compile(r"[\"\\]")


def parse_rql(text: str) -> Query:
    """The tree of an expression; raises `rql.expression.invalid`, which names the position, counted from 1."""
    if len(text) > MAX_LENGTH:
        raise RQL_INVALID.of(f"it has {len(text)} characters, allowed: {MAX_LENGTH}")
    parser = _Parser(text)
    query = parser.query(1)
    parser.end()
    return query


class _Parser:
    """A position in the text, and what is expected there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def query(self, depth: int) -> Query:
        self._match(_SPACE)
        start = self._at
        name = self._match(_NAME)
        if name not in _OPERATORS:
            self._at = start
            raise self._error(f"expected one of {', '.join(_OPERATORS)}")
        self._take("(")
        if name in ("and", "or", "not"):
            if depth > MAX_DEPTH:
                self._at = start
                raise self._error(f"more than {MAX_DEPTH} levels of and, or and not")
            return self._logical(name, depth)
        path = self._property()
        if name in ("exists", "empty"):
            self._take(")")
            return FieldExists(path) if name == "exists" else Empty(path)
        values = [self._value()]
        while name == "in" and self._peek() == ",":
            values.append(self._value())
        self._take(")")
        return In(path, tuple(values)) if name == "in" else self._comparison(name, path, values[0], start)

    def end(self) -> None:
        self._match(_SPACE)
        if self._at < len(self._text):
            raise self._error("expected the end")

    def _logical(self, name: str, depth: int) -> Query:
        queries = [self.query(depth + 1)]
        while name != "not" and self._peek() == ",":
            self._at += 1
            queries.append(self.query(depth + 1))
        self._take(")")
        if name == "not":
            return Not(queries[0])
        return And(tuple(queries)) if name == "and" else Or(tuple(queries))

    def _comparison(self, name: str, path: str, value: Literal, start: int) -> Comparison:
        if name in ("like", "ilike") and not isinstance(value, str):
            self._at = start
            raise self._error(f"{name} needs a text to compare with")
        return Comparison(name, path, value)

    def _property(self) -> str:
        start = self._at
        self._match(_SPACE)
        inside = self._at
        path = self._unescape(self._match(_PROPERTY).rstrip(" \n\r\t\f"), inside, '"')
        try:
            named = parse_pointer(path)
        except DittoError as error:
            self._at = inside
            raise self._error(error.message) from None
        if not named:
            self._at = start
            raise self._error("expected a property")
        if self._text[self._at : self._at + 1] in ('"', "\\"):
            raise self._error("expected ',' or ')' after the property")
        return path

    def _value(self) -> Literal:
        self._take(",")
        self._match(_SPACE)
        start = self._at
        value = self._literal()
        self._match(_SPACE)
        if self._at < len(self._text) and self._text[self._at] not in ",)":
            self._at = start
            raise self._error("expected a number, a text in quotes, true, false, null or time:now")
        return value

    def _literal(self) -> Literal:
        quote = self._text[self._at : self._at + 1]
        if quote in _QUOTED:
            self._at += 1
            start = self._at
            value = self._unescape(self._match(_QUOTED[quote]), start, quote)
            self._take(quote)
            return value
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            return self._number(number)
        word = self._match(_WORD)
        if word:
            return _WORDS[word]
        start = self._at
        name = self._match(_PLACEHOLDER)
        if name:
            if not is_placeholder(name):
                self._at = start
                raise self._error(f"expected {GRAMMAR}")
            return Placeholder(name)
        raise self._error("expected a number, a text in quotes, true, false, null or time:now")

    def _number(self, found: re.Match[str]) -> int | float:
        if found[2] is not None:
            value = float(found[0])
            if value in (float("inf"), float("-inf")):
                raise self._error("the number is too large")
            self._at = found.end()
            return value
        # Before `int`, which has a limit of its own.
        whole = int(found[1]) if len(found[1]) <= 20 else MAX_LONG + 1
        if not MIN_LONG <= whole <= MAX_LONG:
            raise self._error("the number does not fit into 64 bits")
        self._at = found.end()
        return whole

    def _unescape(self, text: str, start: int, quote: str) -> str:
        if "\\" not in text:
            return self._without_surrogates(text, start)
        parts: list[str] = []
        last = 0
        for found in _ESCAPE.finditer(text):
            parts.append(text[last : found.start()])
            last = found.end()
            if found[1] is not None:
                parts.append(chr(int(found[1], 16)))
            elif found[2] == quote:
                parts.append(quote)
            elif found[2] in _ESCAPES:
                parts.append(_ESCAPES[found[2]])
            else:
                self._at = start + found.start()
                raise self._error("unknown escape sequence")
        parts.append(text[last:])
        joined = "".join(parts)
        if _SURROGATE.search(joined):
            # Two of them make one character, as in JSON.
            joined = joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return self._without_surrogates(joined, start)

    def _without_surrogates(self, text: str, start: int) -> str:
        if _SURROGATE.search(text):
            self._at = start
            raise self._error("an unpaired surrogate is not a character")
        return text

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _peek(self) -> str:
        self._match(_SPACE)
        return self._text[self._at : self._at + 1]

    def _take(self, wanted: str) -> None:
        if wanted != "(":
            # Nothing may stand between the name of an operator and its parenthesis.
            self._match(_SPACE)
        if not self._text.startswith(wanted, self._at):
            raise self._error(f"expected '{wanted}'")
        self._at += 1

    def _error(self, message: str) -> DittoError:
        found = self._text[self._at : self._at + 20]
        return RQL_INVALID.of(f"{message} at position {self._at + 1}, found {repr(found) if found else 'the end'}")


_OPERATORS: Final = (*COMPARISONS, "in", "and", "or", "not", "exists", "empty")


def print_rql(query: Query) -> str:
    """The text of a tree, from which the same tree is parsed."""
    if isinstance(query, Comparison):
        return f"{query.operator}({_print_property(query.property)},{_print_value(query.value)})"
    if isinstance(query, In):
        return f"in({_print_property(query.property)},{','.join(map(_print_value, query.values))})"
    if isinstance(query, FieldExists):
        return f"exists({_print_property(query.property)})"
    if isinstance(query, Empty):
        return f"empty({_print_property(query.property)})"
    if isinstance(query, Not):
        return f"not({print_rql(query.query)})"
    name = "and" if isinstance(query, And) else "or"
    return f"{name}({','.join(map(print_rql, query.queries))})"


def _print_property(path: str) -> str:
    return _NOT_IN_PROPERTY.sub(_print_escape, path)


def _print_escape(found: re.Match[str]) -> str:
    if found[0] in ('"', "\\"):
        return "\\" + found[0]
    return "".join([f"\\u{ord(character):04x}" for character in found[0]])


def _print_value(value: Literal) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Placeholder):
        return value.name
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # The language has no exponents.
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"
    return f'"{_NOT_IN_TEXT.sub(_print_escape, value)}"'
