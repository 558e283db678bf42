"""What is followed for push subscriptions: a watch of the kernel for each flow, as long as its data adapter is there.

What an update fires is decided in `penstock.push.flows`; a watch itself is in `penstock.kernel.watch`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.kernel.errors import Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import State
from penstock.kernel.watch import ItemWatch
from penstock.log import get
from penstock.push.records import Flow

log = get(__name__)


class Watches:
    """Told by the kernel which data adapters come and go."""

    def __init__(self, kernel: Kernel, updated: Callable[[Flow, State], None]) -> None:
        """`updated` is called within the event, and must not wait."""
        self._kernel = kernel
        self._updated = updated
        # By data adapter; None: it is to be watched, and cannot be now.
        self._watches: dict[tuple[str, str], dict[Flow, ItemWatch | None]] = {}
        kernel.feed_observers.append(self)

    def begin(self, flow: Flow) -> None:
        key = (flow.adapter_set, flow.data_adapter)
        flows = self._watches.setdefault(key, {})
        flows[flow] = self._started(flow, self._kernel.feeds.get(key))

    def end(self, flow: Flow) -> None:
        key = (flow.adapter_set, flow.data_adapter)
        flows = self._watches.get(key, {})
        watch = flows.pop(flow, None)
        if watch is not None:
            watch.stop()
        if not flows:
            self._watches.pop(key, None)

    def end_all(self) -> None:
        for flow in [flow for flows in self._watches.values() for flow in flows]:
            self.end(flow)

    def close(self) -> None:
        self.end_all()
        self._kernel.feed_observers.remove(self)

    def retry(self) -> None:
        """Items that were in use in another mode may be free by now."""
        for key, flows in self._watches.items():
            feed = self._kernel.feeds.get(key)
            if feed is not None:
                for flow in [flow for flow, watch in flows.items() if watch is None]:
                    flows[flow] = self._started(flow, feed)

    @property
    def count(self) -> int:
        return sum(len(flows) for flows in self._watches.values())

    @property
    def waiting(self) -> int:
        """Flows that cannot be watched now."""
        return sum(watch is None for flows in self._watches.values() for watch in flows.values())

    def _started(self, flow: Flow, feed: Feed | None) -> ItemWatch | None:
        if feed is None:
            return None
        watch = ItemWatch(feed, Mode(flow.mode), flow.items, flow.fields, partial(self._tell, flow))
        try:
            watch.start()
        except Refusal as refusal:
            log.warning(
                "items of push subscriptions cannot be followed now",
                adapter_set=flow.adapter_set,
                adapter=flow.data_adapter,
                reason=refusal.message,
            )
            return None
        return watch

    def _tell(self, flow: Flow, state: State) -> None:
        try:
            self._updated(flow, state)
        except Exception:
            # Within the event of a data adapter, whose clients must get it all the same.
            log.exception("push subscriptions have failed on an update", adapter=flow.data_adapter)

    # -- data adapters that come and go ---------------------------------------------------------------------------

    def feed_served(self, feed: Feed) -> None:
        flows = self._watches.get((feed.adapter_set, feed.name), {})
        for flow in flows:
            flows[flow] = self._started(flow, feed)

    def feed_withdrawn(self, feed: Feed) -> None:
        flows = self._watches.get((feed.adapter_set, feed.name), {})
        for flow, watch in flows.items():
            if watch is not None:
                watch.stop()
            flows[flow] = None
