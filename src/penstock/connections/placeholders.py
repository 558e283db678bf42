"""Texts with placeholders: `{{ header:reply-to }}`, `{{ thing:id | fn:substring-after(':') }}`.

A text is checked when it is made. What the names stand for is given as a function from prefix and name to a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote

from penstock.connections.errors import PLACEHOLDER_UNRESOLVED, invalid
from penstock.wire.ditto.errors import DittoError

# Of a prefix and a name; None if the message has no such thing.
Resolve = Callable[[str, str], str | None]

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
_FUNCTION = re.compile(r"fn:(?P<name>[a-z-]+)\((?P<arguments>[^()]*)\)")
_ARGUMENT = re.compile(r"\s*(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<name>[a-z]+:[A-Za-z0-9_.-]+))\s*(?:,|$)")

Argument = tuple[bool, str]


class _Function:
    """One step of a pipeline. An argument is a text, or the name of another placeholder."""

    def __init__(self, name: str, arguments: list[Argument], whole: str) -> None:
        counts = {
            **dict.fromkeys(("lower", "upper", "trim", "delete", "url-encode", "url-decode"), 0),
            **dict.fromkeys(("default", "substring-before", "substring-after"), 1),
            "replace": 2,
        }
        if name not in counts:
            raise invalid(f"'{whole}': there is no function 'fn:{name}'; expected {', '.join(sorted(counts))}")
        if len(arguments) != counts[name]:
            raise invalid(f"'{whole}': fn:{name} takes {counts[name]} arguments, {len(arguments)} are given")
        self.name = name
        self._arguments = arguments

    def __call__(self, value: str | None, resolve: Resolve) -> str | None:
        given = [resolve(*text.split(":", 1)) if named else text for named, text in self._arguments]
        if self.name == "default":
            return given[0] if value is None else value
        if value is None or self.name == "delete":
            return None
        if self.name == "lower":
            return value.lower()
        if self.name == "upper":
            return value.upper()
        if self.name == "trim":
            return value.strip()
        if self.name == "url-encode":
            return quote(value, safe="")
        if self.name == "url-decode":
            return unquote(value)
        first = given[0] or ""
        if self.name == "replace":
            return value.replace(first, given[1] or "") if first else value
        before, found, after = value.partition(first) if first else (value, "", "")
        if not found:
            return None
        return before if self.name == "substring-before" else after


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

    def _step(self, text: str) -> _Function:
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
        return _Function(found["name"], arguments, self.text)

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
