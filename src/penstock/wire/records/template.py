"""Texts with parts of a record in braces: `quote.{key}`, `{value.legs[0].price}`, `{headers['trace-id']}`.

A template is checked when it is made. Not here: how bytes are decoded (formats.py), what is mapped (mapping.py).
"""

from __future__ import annotations

import base64
import datetime
import decimal
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from penstock.wire.records.record import PoisonRecord

if TYPE_CHECKING:
    from penstock.wire.records.mapping import RecordView

# What a template can name, and those that have members.
ROOTS = ("topic", "key", "value", "headers", "partition", "offset", "timestamp")
_WITH_MEMBERS = ("key", "value", "headers", "topic")

_STEP = re.compile(r"\.(?P<name>[^.\[\]{}']+)|\[(?P<index>\d{1,6})\]|\['(?P<quoted>[^'{}]+)'\]")
_PIECE = re.compile(r"\{\{|\}\}|\{(?P<expression>[^{}]*)\}|[{}]|[^{}]+")


class TemplateError(ValueError):
    """A template that cannot be understood; the text says what is allowed."""


class Expression:
    """What stands in braces: a part of the record, and the way to a member of it."""

    __slots__ = ("path", "root", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        root = re.match(r"[a-z]*", text)
        self.root = root[0] if root else ""
        if self.root not in ROOTS:
            raise TemplateError(
                f"{{{text}}}: expected one of {', '.join(ROOTS)} in braces, with members as in value.price"
            )
        rest = text[len(self.root) :]
        self.path: tuple[str | int, ...] = tuple(self._steps(rest))
        if self.path and self.root not in _WITH_MEMBERS:
            raise TemplateError(f"{{{text}}}: {self.root} has no members; {', '.join(_WITH_MEMBERS)} have")
        if self.root == "topic" and self.path and (len(self.path) != 1 or not isinstance(self.path[0], int)):
            raise TemplateError(f"{{{text}}}: expected the number of a level, as in topic[0]")
        if self.root == "headers" and (len(self.path) != 1 or not isinstance(self.path[0], str)):
            raise TemplateError(
                f"{{{text}}}: expected the name of one header, as in headers.trace or headers['trace-id']"
            )

    def _steps(self, rest: str) -> list[str | int]:
        steps: list[str | int] = []
        at = 0
        while at < len(rest):
            step = _STEP.match(rest, at)
            if step is None:
                raise TemplateError(
                    f"{{{self.text}}}: expected members as in value.price, value.legs[0] or value['my.name']"
                )
            index = step["index"]
            steps.append(int(index) if index is not None else step["name"] or step["quoted"])
            at = step.end()
        return steps

    def of(self, view: RecordView) -> object:
        """The part of the record; None if it is not there."""
        if self.root == "headers":
            return view.header(str(self.path[0]))
        if self.root == "topic" and self.path:
            return view.level(int(self.path[0]))
        found = view.part(self.root)
        for step in self.path:
            if isinstance(step, int):
                found = found[step] if isinstance(found, list) and step < len(found) else None
            else:
                found = found.get(step) if isinstance(found, Mapping) else None
            if found is None:
                return None
        return found


class Template:
    """A text and its expressions."""

    __slots__ = ("only", "parts", "roots", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[str | Expression] = []
        for piece in _PIECE.finditer(text):
            if piece["expression"] is not None:
                self.parts.append(Expression(piece["expression"].strip()))
            elif piece[0] in ("{{", "}}"):
                self.parts.append(piece[0][0])
            elif piece[0] in ("{", "}"):
                raise TemplateError(f"{text!r}: a single {piece[0]}; expected it doubled, or an expression in braces")
            else:
                self.parts.append(piece[0])
        # Whether it is nothing but one expression, so that it can be null.
        self.only = self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], Expression) else None
        self.roots = frozenset(part.root for part in self.parts if isinstance(part, Expression))

    def name(self, view: RecordView) -> str:
        """As the name of something: every part must be there."""
        texts = []
        for part in self.parts:
            text = part if isinstance(part, str) else text_of(part.of(view))
            if not text:
                assert isinstance(part, Expression)
                raise PoisonRecord(f"it has no {part.text}, which is part of {self.text!r}")
            texts.append(text)
        return "".join(texts)

    def value(self, view: RecordView) -> str | None:
        """As the value of a field: null if it is one expression that is not there."""
        if self.only is not None:
            return text_of(self.only.of(view))
        return "".join(part if isinstance(part, str) else text_of(part.of(view)) or "" for part in self.parts)


def text_of(value: object) -> str | None:
    """How clients see a decoded value: text as it is, numbers as JSON has them, what has members as JSON."""
    if value is None or type(value) is str:
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int | float | decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return str(value.total_seconds())
    return msgspec.json.encode(value, enc_hook=text_of).decode()
