"""A follower of an item: it is told what happens to the item as its views are, but through no protocol.

Who follows: `custom`, an item that is changed for one subscription, and `watch`, which needs no session at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernel.ports import Event


class Follower:
    """The base; it is in the book of a mode, or among those that take events as they come. Must not raise."""

    __slots__ = ()

    def follow(self, event: Event, whole: Event, snapshot: bool) -> None:
        """Something has happened: the event, and all that the item is now, which for most modes is the same."""
        raise NotImplementedError

    def clear(self) -> None:
        """The item is empty from now on."""
        raise NotImplementedError

    def end_of_snapshot(self) -> None:
        """All that follows is new."""

    def declare_differences(self, orders: Mapping[str, str]) -> None:
        """Difference formats to try for fields; for followers that encode."""
