"""Equal values that many records have, such as formats and flows, kept once.

The number of its users is counted, because what nobody has any more must not stay. Who uses it is `registry`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Shared(Generic[T]):
    """One copy of each value, as long as somebody has it."""

    __slots__ = ("_copies", "_users")

    def __init__(self) -> None:
        self._copies: dict[T, T] = {}
        # Only of values that more than one has, because most others are unique.
        self._users: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def take(self, value: T) -> T:
        """The common copy of this value, which has one more user until `release`."""
        copy = self._copies.get(value)
        if copy is None:
            self._copies[value] = value
            return value
        self._users[copy] = self._users.get(copy, 1) + 1
        return copy

    def release(self, value: T) -> None:
        users = self._users.get(value, 1)
        if users == 1:
            del self._copies[value]
        elif users == 2:
            del self._users[value]
        else:
            self._users[value] = users - 1
