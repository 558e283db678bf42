"""Rows: events of adapters that name their fields once, not in every event. In MERGE mode they are never dictionaries.

The functions have native versions (`build/native.c`) that do the same faster; `quick` chooses. What is wrong with a row
that is not plain is found out in `feed`.
"""

from __future__ import annotations

from penstock.kernel.ports import CheckedEvent, State, Value


class RowLayout:
    """The fields of rows: texts that UTF-8 can carry, none of them twice. Items know layouts by identity."""

    __slots__ = ("fields", "width")

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields
        self.width = len(fields)

    def event(self, row: State) -> CheckedEvent:
        """A row with the names of its fields."""
        return CheckedEvent(dict(zip(self.fields, row[1:], strict=True)))


def checked_row(row: object, width: int) -> State | None:
    """The row as a tuple, if it is an item and as many values, all of them null or text that UTF-8 can carry."""
    if type(row) is not list and type(row) is not tuple:
        return None
    checked = tuple(row)
    if len(checked) != width + 1 or type(checked[0]) is not str:
        return None
    for value in checked[1:]:
        if value is not None and (type(value) is not str or not is_unicode(value)):
            return None
    return checked


def clean_event(event: object) -> CheckedEvent | None:
    """A copy, if it is a dictionary of texts, and all values are null or text that UTF-8 can carry."""
    if type(event) is not dict:
        return None
    for name, value in event.items():
        if type(name) is not str or not is_unicode(name):
            return None
        if value is not None and (type(value) is not str or not is_unicode(value)):
            return None
    return CheckedEvent(event.copy())


def merge_row(values: list[Value], places: list[int], row: State) -> None:
    """Put the values of a checked row into their places."""
    if len(row) != len(places) + 1:
        raise ValueError(f"a row of {len(row) - 1} values for {len(places)} places")
    for number in range(len(places)):
        values[places[number]] = row[number + 1]


def pick(values: list[Value], positions: list[int], before: State | None) -> State:
    """The values at the positions; the same tuple as before if they are equal."""
    picked = tuple([values[position] for position in positions])
    return picked if before is None or picked != before else before


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can carry it. Most text is ASCII, which is quick to see."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
