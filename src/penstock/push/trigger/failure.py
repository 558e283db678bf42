"""What goes wrong with a trigger: a text that is refused, and an evaluation that fails as it would throw in Java."""

from __future__ import annotations


class Wrong(Exception):
    """The text is not a trigger; `place` is the character, from 0."""

    def __init__(self, place: int, text: str) -> None:
        super().__init__(text)
        self.place = place
        self.text = text


class NoResult(Exception):
    """An update on which a trigger has no result; the text begins with the name of Java's exception, if it has one."""
