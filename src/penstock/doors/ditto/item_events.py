"""Live events of items, for those who ask for their namespaces: what goes into the journal, as events of things.

Whether a listener may read an item is asked once, when its first event comes, as a subscription would be granted once.
Their history is in `past`. Read next: docs/ditto.md, "Items are things".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial

from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.items import Items
from penstock.journal.entity import entity_of, parts_of
from penstock.journal.journal import Receipt
from penstock.journal.record import Columns
from penstock.log import get
from penstock.twins.items import event_of_item
from penstock.twins.record import Record
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.items import ItemName, item_of_thing, thing_of_item
from penstock.wire.ditto.topic import Criterion, Topic, thing_topic
from penstock.wire.ditto.twin import Event

log = get(__name__)

# Items that a listener is known to be allowed to read, or not; with more, all are asked about anew.
MAX_KNOWN = 10_000

# Events of an item that wait for the answer. More of them are left out.
MAX_UNDECIDED = 1_000


class ItemEvents:
    """For the event loop. Costs nothing as long as nobody listens."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._followers: list[_Follower] = []

    def listen(self, login: Login, namespaces: Collection[str], take: Callable[[Event], None]) -> Callable[[], None]:
        """Be told of the events of items in these namespaces. Returns what ends it."""
        prefixes = tuple([prefix for each in namespaces if (prefix := self._prefix(each)) is not None])
        if not prefixes:
            return lambda: None
        follower = _Follower(self._items, login, prefixes, take)
        if not self._followers:
            self._items.recording.listeners.append(self._hear)
        self._followers.append(follower)
        return partial(self._stop, follower)

    def _stop(self, follower: _Follower) -> None:
        if follower in self._followers:
            self._followers.remove(follower)
            follower.close()
            if not self._followers:
                self._items.recording.listeners.remove(self._hear)

    def _prefix(self, namespace: str) -> str | None:
        """What the names of all entities begin with that are the items of a namespace; None if it has no items."""
        name = item_of_thing(EntityId(namespace, "x"))
        if name is None or name.adapter_set == self._items.sets.own:
            return None
        return entity_of(name.adapter_set, name.data_adapter, "")

    def _hear(self, columns: Columns, receipt: Receipt) -> None:
        if receipt.done is None:
            self._tell(columns, receipt)
            return
        loop = asyncio.get_running_loop()

        def tell(done: Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                loop.call_soon_threadsafe(self._tell, columns, receipt)

        receipt.done.add_done_callback(tell)

    def _tell(self, columns: Columns, receipt: Receipt) -> None:
        for follower in tuple(self._followers):
            for at, entity in enumerate(columns.entities):
                if entity.startswith(follower.prefixes):
                    follower.hear(
                        Record(
                            receipt.first + at,
                            entity,
                            receipt.revisions[at],
                            columns.timestamps[at],
                            columns.kinds[at],
                            columns.paths[at],
                            columns.values[at],
                        )
                    )


class _Follower:
    """One listener."""

    def __init__(self, items: Items, login: Login, prefixes: tuple[str, ...], take: Callable[[Event], None]) -> None:
        self.prefixes = prefixes
        self._items = items
        self._login = login
        self._take = take
        # By entity: the topic of its events, None if they are not for this listener, or what waits to be decided.
        self._known: dict[str, Topic | list[Record] | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def hear(self, record: Record) -> None:
        known = self._known.get(record.entity)
        if isinstance(known, Topic):
            self._give(known, record)
        elif isinstance(known, list):
            if len(known) < MAX_UNDECIDED:
                known.append(record)
        elif record.entity not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known = {entity: each for entity, each in self._known.items() if isinstance(each, list)}
            self._known[record.entity] = [record]
            task = asyncio.get_running_loop().create_task(self._decide(record.entity))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _decide(self, entity: str) -> None:
        topic = None
        try:
            topic = await self._topic(entity)
        except Exception:
            log.exception("whether an item may be read was not found out", entity=entity)
        waiting = self._known.get(entity)
        self._known[entity] = topic
        if topic is not None and isinstance(waiting, list):
            for record in waiting:
                self._give(topic, record)

    async def _topic(self, entity: str) -> Topic | None:
        parts = parts_of(entity)
        item = None if parts is None else ItemName(*parts)
        thing = None if item is None else thing_of_item(item)
        if item is None or thing is None:
            return None
        if not await self._items.is_open_to(item, self._login):
            return None
        return thing_topic(thing.namespace, thing.name, Criterion.EVENTS)

    def _give(self, topic: Topic, record: Record) -> None:
        event = event_of_item(topic, record, {})
        if event is None:
            return
        try:
            self._take(event)
        except Exception:
            # Whoever fails to take what is theirs keeps nobody else from recording.
            log.exception("an event of an item was not taken", entity=record.entity)
