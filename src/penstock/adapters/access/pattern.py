"""Patterns of item names: `*` stands for any characters or none, `{user}` for the user's own name, letter by letter.

Names of items have no structure that the server knows of, so `*` stops at nothing. Not here: who a pattern is for
(rules).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

ANY = "*"
USER = "{user}"

_PLACEHOLDER = re.compile(r"\{\w*\}")


class Pattern:
    """Matching takes linear time, whatever item names a client sends."""

    __slots__ = ("_of_anybody", "_parts", "_personal", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError for an unknown placeholder."""
        for found in _PLACEHOLDER.findall(text):
            if found != USER:
                raise ValueError(f"{found} is not a placeholder")
        self.text = text
        self._personal = USER in text
        # Split before a name is inserted: a star in a name is just a character.
        self._parts = tuple(text.split(ANY))
        self._of_anybody = tuple(text.replace(USER, ANY).split(ANY))

    @property
    def is_personal(self) -> bool:
        return self._personal

    def matches(self, item: str, user: str | None) -> bool:
        """Whether the item matches for this user; `{user}` matches nothing for anonymous users."""
        if not self._personal:
            return _fits(item, self._parts)
        return bool(user) and _fits(item, [part.replace(USER, user or "") for part in self._parts])

    def matches_of_anybody(self, item: str) -> bool:
        """Whether the item matches for any user."""
        return _fits(item, self._of_anybody)


def _fits(item: str, parts: Sequence[str]) -> bool:
    """Whether the item consists of the parts in order, with anything between them."""
    if len(parts) == 1:
        return item == parts[0]
    first, last = parts[0], parts[-1]
    at, end = len(first), len(item) - len(last)
    if at > end or not item.startswith(first) or not item.endswith(last):
        return False
    for part in parts[1:-1]:
        # The first place is as good as any later one: it leaves most room for the rest.
        found = item.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
