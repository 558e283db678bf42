"""A follower of an item: it is told what happens to the item as its views are, but through no protocol.

Who follows: `custom`, an item that is changed for one subscription; `watch`, which needs no session at all; and the
taps of `penstock.cluster.owner`, which hand on all that happens to other processes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mypy_extensions import mypyc_attr

from penstock.kernel.ports import Event


@mypyc_attr(allow_interpreted_subclasses=True)
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

    def repaired(self, event: Event, snapshot: bool) -> None:
        """One that takes events as they come: this one brings those in the item's mode up to date, and no others."""

    def declare_differences(self, orders: Mapping[str, str]) -> None:
        """Difference formats to try for fields; for followers that encode."""
