"""Live events of items, for clients that ask for their namespaces: what goes into the journal, as events of things.

Whether a listener may read an item is checked when its first event comes, as for a subscription, and again when one has
a new field. Their history is in `past`. Read next: docs/ditto.md, "Items are things".
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
from penstock.twins.items import change_of_item, fields_in
from penstock.twins.record import Record
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.items import ItemName, item_of_thing, thing_of_item
from penstock.wire.ditto.topic import Criterion, Topic, thing_topic
from penstock.wire.ditto.twin import TwinEvent

log = get(__name__)

# Items for which it is known whether a listener may read them; with more, all are checked again.
MAX_KNOWN = 10_000

# Events of an item that wait for that check. More of them are lost, and the listener is told how many.
MAX_UNDECIDED = 1_000


class ItemEvents:
    """For the event loop. Costs nothing as long as nobody listens."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._followers: list[_Follower] = []

    def listen(
        self,
        login: Login,
        namespaces: Collection[str],
        take: Callable[[TwinEvent], None],
        miss: Callable[[int], None],
    ) -> Callable[[], None]:
        """Call back with events of items in these namespaces, and how many were lost. Returns what ends it."""
        prefixes = tuple([prefix for each in namespaces if (prefix := self._prefix(each)) is not None])
        if not prefixes:
            return lambda: None
        follower = _Follower(self._items, login, prefixes, take, miss)
        if not self._followers:
            self._items.gatherer.listeners.append(self._hear)
        self._followers.append(follower)
        return partial(self._stop, follower)

    def _stop(self, follower: _Follower) -> None:
        if follower in self._followers:
            self._followers.remove(follower)
            follower.close()
            if not self._followers:
                self._items.gatherer.listeners.remove(self._hear)

    def _prefix(self, namespace: str) -> str | None:
        """The common prefix of the entity names of a namespace's items; None if it has no items."""
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


class _Known:
    """What is known about one item for one listener."""

    __slots__ = ("fields", "lost", "topic", "waiting")

    def __init__(self) -> None:
        # The topic of its events; None if this listener may not read them.
        self.topic: Topic | None = None
        # The fields for which this was checked.
        self.fields: frozenset[str] = frozenset()
        # Events that wait for the check; None after it. And how many there was no room for.
        self.waiting: list[Record] | None = None
        self.lost = 0


class _Follower:
    """One listener."""

    def __init__(
        self,
        items: Items,
        login: Login,
        prefixes: tuple[str, ...],
        take: Callable[[TwinEvent], None],
        miss: Callable[[int], None],
    ) -> None:
        self.prefixes = prefixes
        self._items = items
        self._login = login
        self._take = take
        self._miss = miss
        self._known: dict[str, _Known] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def hear(self, record: Record) -> None:
        known = self._known.get(record.entity)
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known = {entity: each for entity, each in self._known.items() if each.waiting is not None}
            known = self._known[record.entity] = _Known()
            self._ask(known, record)
        elif known.waiting is not None:
            if len(known.waiting) < MAX_UNDECIDED:
                known.waiting.append(record)
            else:
                known.lost += 1
        elif known.topic is not None:
            if known.fields.issuperset(fields_in(record)):
                self._give(known.topic, record)
            else:
                self._ask(known, record)

    def _ask(self, known: _Known, record: Record) -> None:
        known.waiting = [record]
        task = asyncio.get_running_loop().create_task(self._decide(known, record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, known: _Known, record: Record) -> None:
        try:
            known.topic, known.fields = await self._look(record.entity, known.fields.union(fields_in(record)))
        except Exception:
            known.topic = None
            log.exception("could not check whether an item may be read", entity=record.entity)
        waiting, known.waiting = known.waiting or [], None
        for each in waiting:
            # One of them may have another new field.
            self.hear(each)
        if known.lost and known.waiting is None:
            lost, known.lost = known.lost, 0
            if known.topic is not None:
                self._miss(lost)

    async def _look(self, entity: str, fields: frozenset[str]) -> tuple[Topic | None, frozenset[str]]:
        """The topic of an item's events, if its listener may read them, and the fields for which that is known."""
        parts = parts_of(entity)
        item = None if parts is None else ItemName(*parts)
        thing = None if item is None else thing_of_item(item)
        if item is None or thing is None:
            return None, fields
        found = await self._items.open_fields(item, self._login, fields)
        if found is None:
            return None, fields
        return thing_topic(thing.namespace, thing.name, Criterion.EVENTS), found

    def _give(self, topic: Topic, record: Record) -> None:
        event = event_of_item(topic, record)
        if event is None:
            return
        try:
            self._take(event)
        except Exception:
            # A listener that raises must not prevent the recording.
            log.exception("an event of an item could not be delivered", entity=record.entity)


def event_of_item(topic: Topic, record: Record) -> TwinEvent | None:
    """The event for a record of an item; `topic` is any of the thing's. None if there is none."""
    change = change_of_item(topic.entity, record)
    if change is None:
        return None
    return TwinEvent(topic.event(change.kind), change.path, change.value, record.revision, record.timestamp, {})
