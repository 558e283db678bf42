"""Texts with placeholders: `{{ header:reply-to }}`, `{{ thing:id | fn:substring-after(':') }}`.

A text is checked when it is made. What the names stand for is given as a function from prefix and name to a text.
"""

from __future__ import annotations

import re

from penstock.connections.errors import PLACEHOLDER_UNRESOLVED, invalid
from penstock.connections.functions import Argument, PlaceholderFunction, Resolve
from penstock.wire.ditto.errors import DittoError

# Names that each prefix has; `header` and `entity` below are open or shared.
NAMES: dict[str, tuple[str, ...]] = {
    "thing": ("id", "namespace", "name"),
    "policy": ("id", "namespace", "name"),
    "entity": ("id", "namespace", "name"),
    "feature": ("id",),
    "topic": (
        "full",
        "namespace",
        "entityName",
        "group",
        "channel",
        "criterion",
        "action",
        "subject",
        "action-subject",
    ),
    "resource": ("path", "type"),
    "source": ("address",),
    "connection": ("id",),
    "time": ("now", "now_epoch_millis"),
}

_PIECE = re.compile(r"\{\{\s*(?P<expression>[^{}]*?)\s*\}\}")
_FUNCTION = re.compile(r"fn:(?P<name>[a-z0-9-]+)\((?P<arguments>[^()]*)\)")
_ARGUMENT = re.compile(r"\s*(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<name>[a-z]+:[A-Za-z0-9_.-]+))\s*(?:,|$)")


class _Placeholder:
    def __init__(self, text: str, allowed: frozenset[str]) -> None:
        self.text = text
        first, *steps = [part.strip() for part in _split(text)]
        self.prefix, colon, self.name = first.partition(":")
        if not colon or self.prefix not in allowed:
            raise invalid(
                f"'{{{{ {text} }}}}' is not a placeholder that is known here; expected one of"
                f" {', '.join(f'{prefix}:…' for prefix in sorted(allowed))}"
            )
        names = NAMES.get(self.prefix)
        if (names is not None and self.name not in names) or not self.name:
            raise invalid(f"'{{{{ {text} }}}}': expected {self.prefix}: with {', '.join(names or ('a name',))}")
        self._steps = [self._step(step) for step in steps]

    def _step(self, text: str) -> PlaceholderFunction:
        found = _FUNCTION.fullmatch(text)
        if found is None:
            raise invalid(f"'{{{{ {self.text} }}}}': expected a function after '|', such as fn:default('x')")
        arguments: list[Argument] = []
        at, given = 0, found["arguments"]
        while at < len(given):
            argument = _ARGUMENT.match(given, at)
            if argument is None:
                raise invalid(f"'{{{{ {self.text} }}}}': expected texts in quotes between the parentheses")
            name = argument["name"]
            arguments.append((True, name) if name else (False, argument["single"] or argument["double"] or ""))
            at = argument.end()
        return PlaceholderFunction(found["name"], arguments, self.text)

    @property
    def may_leave_out(self) -> bool:
        """Whether it is meant to stand for nothing, at times."""
        return any(step.name in ("filter", "delete") for step in self._steps)

    def of(self, resolve: Resolve) -> str | None:
        value = resolve(self.prefix, self.name)
        for step in self._steps:
            value = step(value, resolve)
        return value


def _split(text: str) -> list[str]:
    """At each `|` that is not within quotes."""
    parts, quoted, begin = [], "", 0
    for at, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter == "|":
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


class PlaceholderText:
    """A text, and what in it stands for something else."""

    def __init__(self, text: str, allowed: frozenset[str]) -> None:
        self.text = text
        self._parts: list[str | _Placeholder] = []
        at = 0
        for piece in _PIECE.finditer(text):
            if piece.start() > at:
                self._parts.append(text[at : piece.start()])
            self._parts.append(_Placeholder(piece["expression"], allowed))
            at = piece.end()
        if at < len(text):
            self._parts.append(text[at:])
        if "{{" in "".join(part for part in self._parts if isinstance(part, str)):
            raise invalid(f"'{text}': a placeholder is not closed; expected }}}}")

    @property
    def may_leave_out(self) -> bool:
        """Whether one of its placeholders is meant to stand for nothing, at times."""
        return any(part.may_leave_out for part in self._parts if isinstance(part, _Placeholder))

    def of(self, resolve: Resolve) -> str:
        """Raises `placeholder:unresolved`."""
        texts = []
        for part in self._parts:
            text = part if isinstance(part, str) else part.of(resolve)
            if text is None:
                assert isinstance(part, _Placeholder)
                raise PLACEHOLDER_UNRESOLVED.of("{{ " + part.text + " }}")
            texts.append(text)
        return "".join(texts)

    def maybe(self, resolve: Resolve) -> str | None:
        """None if one of its placeholders has nothing to stand for."""
        texts = [part if isinstance(part, str) else part.of(resolve) for part in self._parts]
        known = [text for text in texts if text is not None]
        return "".join(known) if len(known) == len(texts) else None


def checked_text(text: str, allowed: frozenset[str], where: str) -> PlaceholderText:
    """The text of a member of a document; the error names the member."""
    try:
        return PlaceholderText(text, allowed)
    except DittoError as error:
        raise invalid(f"{where}: {error.message}") from None
