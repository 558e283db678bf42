"""A customized item: what one subscription sees of an item when its metadata adapter changes or drops events for it.

It is an item of its own that follows the real one, so that modes, snapshots, limits and differences work as always.
That is also its cost: a book, a view and a lane for one client alone, and nothing that is encoded is shared.
Specification: General Concepts 1.1.1, "Event Customization". Read next: `Item.customize`, docs/adapters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.kernel.books import BadEvent
from penstock.kernel.follower import Follower
from penstock.kernel.ports import Customizer, Event, Selector

if TYPE_CHECKING:
    from penstock.kernel.item import Item


class CustomizedItem(Follower):
    """Stands between the real item, `origin`, and the one that the subscription is attached to, `item`."""

    __slots__ = ("_customizer", "_origin", "_selector", "item")

    def __init__(self, origin: Item, item: Item, customizer: Customizer, selector: Selector | None) -> None:
        self._origin = origin
        self.item = item
        self._customizer = customizer
        self._selector = selector

    def follow(self, event: Event, whole: Event, snapshot: bool) -> None:
        """Something has happened to the real item: what happens to this one. The selector chooses before anything is
        changed, by the event; what is changed is `whole`, see `MetadataAdapter.customizer`.
        """
        if self._selector is None or self._selector(event):
            changed = self._customizer(whole)
            if changed is not None:
                # What is still bad is the DELETE of a row whose events were dropped.
                with suppress(BadEvent):
                    self.item.show(changed, snapshot)

    def clear(self) -> None:
        self.item.clear()

    def end_of_snapshot(self) -> None:
        self.item.end_of_snapshot()

    def declare_differences(self, orders: Mapping[str, str]) -> None:
        self.item.declare_differences(orders)

    def learn(self, event: Event, is_chosen: bool) -> None:
        """Something that had happened before the subscription. `is_chosen`: whatever the selector says."""
        if is_chosen or self._selector is None or self._selector(event):
            changed = self._customizer(event)
            if changed is not None:
                with suppress(BadEvent):
                    self.item.remember_only(changed)

    def leave(self) -> None:
        """The subscription has ended."""
        self._origin.leave(self)
