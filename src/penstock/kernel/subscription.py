"""A subscription: the items of a group, the fields of a schema, one mode. It owns one lane per item.

What may be subscribed is decided before, by the metadata adapter; what is sent, in `lane` and `view`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Item, Mode
from penstock.kernel.lane import Lane, QueueLane

if TYPE_CHECKING:
    from penstock.kernel.feed import Feed
    from penstock.kernel.session import Session


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """Everything a subscription is made of, as granted."""

    number: int
    feed: Feed
    items: tuple[str, ...]
    fields: tuple[str, ...]
    mode: Mode
    snapshot: bool = False
    snapshot_length: int | None = None
    max_frequency: float | None = None
    unfiltered: bool = False


class Subscription:
    """A live subscription of one session."""

    def __init__(self, session: Session, request: SubscriptionRequest) -> None:
        self.session = session
        self.request = request
        self.max_frequency = None if request.mode is Mode.RAW else request.max_frequency
        self.lanes: list[tuple[Item, Lane]] = []

    def start(self) -> None:
        """Announce the subscription, then join every item; refused as a whole if one item conflicts."""
        request = self.request
        if request.mode is Mode.COMMAND:
            raise Refusal(Reason.MODE, "Mode COMMAND is not supported by this server version")
        items = [request.feed.item(name) for name in request.items]
        for item in items:
            item.check_mode(request.mode)
        codec = self.session.codec
        self.session.notify(codec.subscribed(request.number, len(items), len(request.fields)))
        self.confirm()
        for position, name in enumerate(request.items, start=1):
            # Asked for again: the same name may stand twice in a group.
            self._join(request.feed.item(name), position)

    def _join(self, item: Item, position: int) -> None:
        request = self.request
        view = item.view(request.mode, request.fields, self.session.codec)
        if request.mode is Mode.MERGE and not request.unfiltered:
            lane = Lane(self.session, view, request.number, position, request.snapshot)
        else:
            tells_losses = request.unfiltered or request.mode is Mode.RAW
            lane = QueueLane(self.session, view, request.number, position, request.snapshot, tells_losses)
        lane.interval = self._interval()
        self.lanes.append((item, lane))
        item.attach(lane, request.mode, request.snapshot_length)
        request.feed.acquire(item)

    def _interval(self) -> float:
        return 0.0 if self.max_frequency is None else 1.0 / self.max_frequency

    def confirm(self) -> None:
        """Tell the client the frequency limit that holds."""
        filtered = not self.request.unfiltered
        self.session.notify(self.session.codec.configured(self.request.number, self.max_frequency, filtered))

    def reconfigure(self, max_frequency: float | None) -> None:
        """A new frequency limit; None lifts it. The mode RAW knows no limit: there it is told only what holds."""
        if self.request.mode is Mode.RAW:
            self.confirm()
            return
        if self.request.unfiltered:
            raise Refusal(
                Reason.UNFILTERED,
                f"Subscription {self.request.number} has unfiltered dispatching; its frequency cannot be limited",
            )
        self.max_frequency = max_frequency
        for _, lane in self.lanes:
            lane.set_interval(self._interval())
        self.confirm()

    def stop(self) -> None:
        """Leave all items; nothing held is sent any more."""
        for item, lane in self.lanes:
            lane.discard()
            item.detach(lane)
            self.request.feed.release(item)
        self.lanes.clear()
