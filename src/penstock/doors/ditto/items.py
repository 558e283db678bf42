"""Items of data adapters as things: which identifiers are items, who may read them, and what they are now.

The shape of such a thing is in `twins.items`, its name in `wire.ditto.items`. Nobody may write one. Read next:
docs/ditto.md, "Items are things".
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import chain

from penstock.doors.ditto.answers import error_of
from penstock.doors.ditto.identity import DittoIdentity, Judge, Login
from penstock.doors.ditto.past import HistoryReader, PastEvents, PastRow
from penstock.journal.entity import entity_of
from penstock.journal.errors import JournalError
from penstock.journal.gatherer import Gatherer
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import PlainWish, SessionFacts
from penstock.twins.access import Access, Rights
from penstock.twins.enforcement import not_found
from penstock.twins.history import PastMoment
from penstock.twins.items import base_of, changes_of_item, fields_in, fields_told
from penstock.twins.record import records_of
from penstock.twins.twin import Twin
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.items import ItemName, item_of_thing
from penstock.wire.ditto.topic import Topic

# The fields of this many events must be granted before a history begins; those of later ones are checked as they come.
RECENT = 256

# Items whose state is kept, so that only what came since is read.
MAX_STATES = 1024

# Modes in which an item may be granted: one of them is enough.
_MODES = (Mode.MERGE, Mode.DISTINCT, Mode.COMMAND, Mode.RAW)

_READER = "reader"
# The rights of those who may read an item: read all of it, and write nothing.
READ_ALL: Rights = Access(
    {"entries": {_READER: {"subjects": {_READER: {}}, "resources": {"thing:/": {"grant": ["READ"], "revoke": []}}}}}
).rights(frozenset((_READER,)))


@dataclass(frozen=True, slots=True)
class Sets:
    """The adapter sets that are being served. `own` is that of the things themselves, whose items do not count here."""

    judge_of: Callable[[str], Judge | None]
    has_adapter: Callable[[str, str], bool]
    own: str

    def item(self, thing: EntityId) -> ItemName | None:
        """The item that a thing is, if there is such a data adapter."""
        name = item_of_thing(thing)
        if name is None or name.adapter_set == self.own or not self.has_adapter(name.adapter_set, name.data_adapter):
            return None
        return name

    def is_reserved(self, namespace: str) -> bool:
        """Whether a namespace belongs to a data adapter: nobody can create things there."""
        name = item_of_thing(EntityId(namespace, "x"))
        return name is not None and (
            name.adapter_set == self.own or self.has_adapter(name.adapter_set, name.data_adapter)
        )


@dataclass(slots=True)
class Items:
    """What this door knows of items. Belongs to the event loop."""

    sets: Sets
    identity: DittoIdentity
    gatherer: Gatherer
    reader: HistoryReader
    executor: Executor
    _states: OrderedDict[str, Twin] = field(default_factory=OrderedDict)

    def entity(self, item: ItemName) -> str:
        return entity_of(item.adapter_set, item.data_adapter, item.item)

    def latest(self, item: ItemName) -> int:
        """Its last revision; 0 if it has none."""
        return self.gatherer.journal.revision(self.entity(item))

    async def settle(self) -> None:
        """Wait until all that was recorded so far can be read."""
        self.gatherer.flush()
        try:
            await asyncio.wrap_future(self.gatherer.journal.flush())
        except JournalError:
            # The latest cannot be read then; what came before can.
            return

    async def may_read(self, item: ItemName, login: Login, fields: Iterable[str]) -> bool:
        """Whether the set's metadata adapter would grant a live subscription to the item with all of these fields.

        It gets the same credentials that a client of that set would present.
        """
        judge = self.sets.judge_of(item.adapter_set)
        if judge is None or not item.item:
            return False
        try:
            admission = await self.identity.admit(item.adapter_set, login.credentials)
        except Refusal:
            return False
        user = admission.user if admission.user is not None else login.credentials.user
        client = login.credentials.client
        session = SessionFacts(f"ditto-{secrets.token_hex(8)}", user, item.adapter_set, client, admission.roles)
        schema = list(fields)
        for mode in _MODES:
            wish = PlainWish(item.data_adapter, item.item, " ".join(schema) or "key", mode.value)
            try:
                grant = await judge.judge(session, wish)
            except Refusal as refusal:
                if refusal.reason is Reason.MODE:
                    continue
                return False
            if any(granted.customizer is not None for granted in grant.items):
                # The journal has the events as they were published, which are not for this user.
                return False
            names = [granted.name for granted in grant.items]
            return names == [item.item] and set(schema) <= set(grant.fields)
        return False

    async def open_fields(self, item: ItemName, login: Login, also: Collection[str] = ()) -> frozenset[str] | None:
        """The fields that an item has had recently, and those given, if there is such an item and all may be read."""
        latest = self.latest(item)
        if not latest:
            return None
        await self.settle()
        entity = self.entity(item)

        def fields() -> list[str] | None:
            names: dict[str, None] = dict.fromkeys(also)
            found = False
            for record in records_of(self.reader.read(entity, first=latest - RECENT + 1, last=latest)):
                found = True
                names |= dict.fromkeys(fields_in(record))
            return list(names) if found else None

        recent = await asyncio.get_running_loop().run_in_executor(self.executor, fields)
        return frozenset(recent) if recent is not None and await self.may_read(item, login, recent) else None

    async def now(self, item: ItemName, thing_id: str) -> Twin | None:
        """The thing as all of the item's events have made it; None if there are none."""
        await self.settle()
        entity = self.entity(item)
        known = self._states.get(entity)
        latest = self.latest(item)
        if latest == 0:
            return None
        if known is not None and known.revision >= latest:
            return known
        found = await self._fold(entity, thing_id, PastMoment(revision=latest), known)
        if found is not None and (known is None or found.revision > known.revision):
            self._states[entity] = found
            self._states.move_to_end(entity)
            if len(self._states) > MAX_STATES:
                self._states.popitem(last=False)
        return found or known

    async def at(self, item: ItemName, thing_id: str, moment: PastMoment) -> Twin | None:
        """The thing at a moment of its past."""
        await self.settle()
        return await self._fold(self.entity(item), thing_id, moment, None)

    async def _fold(self, entity: str, thing_id: str, moment: PastMoment, base: Twin | None) -> Twin | None:
        def fold() -> Twin | None:
            first = 1 if base is None else base.revision + 1
            records = records_of(self.reader.read(entity, first=first, last=moment.revision))
            if base is not None:
                return moment.fold(changes_of_item(thing_id, records), base)
            head = next(records, None)
            if head is None:
                return None
            changes = changes_of_item(thing_id, chain((head,), records))
            return moment.fold(changes, base_of(thing_id, head.timestamp))

        return await asyncio.get_running_loop().run_in_executor(self.executor, fold)


class ItemPast:
    """The history of an item, for a client that may read these fields. Others are checked when they come."""

    def __init__(
        self, past: PastEvents, fields: frozenset[str], may_read: Callable[[Iterable[str]], Awaitable[bool]]
    ) -> None:
        self._past = past
        self._fields = fields
        self._may_read = may_read

    @property
    def topic(self) -> Topic:
        return self._past.topic

    async def next(self) -> list[PastRow] | None:
        """As `PastEvents.next`; raises 404 if the history contains what its reader may not see."""
        rows = await self._past.next()
        if rows is None:
            return None
        fields = self._fields.union(*[fields_told(row.path, row.value) for row in rows])
        if len(fields) > len(self._fields):
            if not await self._may_read(fields):
                raise error_of(not_found(self.topic.group, self.topic.entity))
            self._fields = fields
        return rows

    def close(self) -> None:
        self._past.close()


def fields_of(twin: Twin) -> list[str]:
    """The fields that an item is known to have: what must be granted to those who read it."""
    names: dict[str, None] = dict.fromkeys(twin.document.get("attributes", {}))
    features = twin.document.get("features", {})
    if features:
        names |= dict.fromkeys(("key", "command"))
    for feature in features.values():
        names |= dict.fromkeys(feature.get("properties", {}))
    return list(names)
