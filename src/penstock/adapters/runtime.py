"""Between kernel and adapters: calls go through here, so that an adapter's mistake is logged with its name and hurts
nobody else.

Implements the kernel's ports for data sources, authorities and message handlers.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache

from penstock.adapters.api import AdapterSet, DataAdapter, MetadataAdapter
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.messages import Message
from penstock.kernel.ports import Admission, ClientFacts, Event, Grant, ItemGrant, Selector
from penstock.kernel.session import Session
from penstock.log import get

log = get(__name__)

# Outcome of a message whose handling raised something unforeseen, and of one the adapter refused without a code.
MESSAGE_ERROR = 35
MESSAGE_REFUSED = 34


# Names of items and fields kept for sharing; those used least go first.
MAX_SHARED_NAMES = 10_000


@lru_cache(MAX_SHARED_NAMES)
def shared_name(name: str) -> str:
    """The same text, but one object for all: client after client subscribes to the same items and fields.

    Not `sys.intern`: clients choose these names, and some versions of Python keep interned strings for ever.
    """
    return name


class GuardedSelector:
    """A metadata adapter's choice of events; one that it fails on is not chosen, and the others still get it."""

    def __init__(self, adapter_set: str, name: str, selector: Selector) -> None:
        self._adapter_set = adapter_set
        self._name = name
        self._selector = selector

    def __call__(self, event: Event) -> bool:
        try:
            return bool(self._selector(event))
        except Exception:
            log.exception("selector failed", adapter_set=self._adapter_set, selector=self._name)
            return False


def guarded(adapter_set: str, name: str, selector: Selector) -> Selector:
    """One guard for all who have the same selector: they share what is encoded for them."""
    try:
        return _shared_guard(adapter_set, name, selector)
    except TypeError:
        # A selector without a hash is nobody else's.
        return GuardedSelector(adapter_set, name, selector)


@lru_cache(MAX_SHARED_NAMES)
def _shared_guard(adapter_set: str, name: str, selector: Selector) -> Selector:
    return GuardedSelector(adapter_set, name, selector)


class GuardedSource:
    """A data adapter as the kernel's data source."""

    def __init__(self, adapter_set: str, name: str, adapter: DataAdapter) -> None:
        self._adapter_set = adapter_set
        self._name = name
        self._adapter = adapter

    def subscribe(self, item: str, serial: int) -> None:
        try:
            self._adapter.subscribe(item)
        except Exception:
            self._failed("subscribe", item)

    def unsubscribe(self, item: str) -> None:
        try:
            self._adapter.unsubscribe(item)
        except Exception:
            self._failed("unsubscribe", item)

    def has_snapshot(self, item: str) -> bool:
        try:
            return self._adapter.has_snapshot(item)
        except Exception:
            self._failed("has_snapshot", item)
            return False

    def complain(self, item: str, complaint: str) -> None:
        log.warning("event dropped", adapter_set=self._adapter_set, adapter=self._name, item=item, reason=complaint)

    def _failed(self, call: str, item: str) -> None:
        log.exception("data adapter failed", adapter_set=self._adapter_set, adapter=self._name, call=call, item=item)


class SetAuthority:
    """A metadata adapter as authority and message handler."""

    def __init__(self, adapter_set: AdapterSet) -> None:
        self._name = adapter_set.name
        self._metadata: MetadataAdapter = adapter_set.metadata
        self._tasks: set[asyncio.Task[None]] = set()

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        await self._metadata.authenticate(user, password, client)
        return Admission(self._metadata.max_bandwidth(user), self._metadata.manages_bandwidth(user))

    async def resolve(
        self, user: str | None, data_adapter: str, group: str, schema: str, mode: Mode, selector: str | None
    ) -> Grant:
        items = self._metadata.items(user, data_adapter, group)
        if not items:
            raise Refusal(Reason.GROUP, "The group has no items")
        fields = self._metadata.fields(user, data_adapter, group, schema)
        if not fields:
            raise Refusal(Reason.SCHEMA, "The schema has no fields")
        for item in items:
            if not self._metadata.allows_mode(user, data_adapter, item, mode):
                raise Refusal(Reason.MODE, f"Mode {mode.value} is not supported for item {item[:60]}")
        granted = tuple(self._grant(user, data_adapter, item) for item in items)
        chosen: Selector | None = None
        if selector is not None:
            chosen = guarded(self._name, selector, self._metadata.selector(user, data_adapter, selector))
        return Grant(granted, tuple([shared_name(str(field)) for field in fields]), chosen)

    def _grant(self, user: str | None, data_adapter: str, item: str) -> ItemGrant:
        metadata = self._metadata
        return ItemGrant(
            shared_name(str(item)),
            max_frequency=metadata.max_frequency(user, data_adapter, item),
            max_buffer_size=metadata.max_buffer_size(user, data_adapter, item),
            snapshot_length=metadata.snapshot_length(data_adapter, item),
            prefilter_frequency=metadata.prefilter_frequency(data_adapter, item),
        )

    def deliver(self, session: Session, message: Message) -> None:
        task = asyncio.get_running_loop().create_task(self._process(session, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _process(self, session: Session, message: Message) -> None:
        try:
            response = await self._metadata.message(session, message.text)
        except Refusal as refusal:
            code = MESSAGE_REFUSED if refusal.code is None else refusal.code
            session.messages.failed(message, code, refusal.message)
        except Exception:
            log.exception("metadata adapter failed", adapter_set=self._name, call="message")
            session.messages.failed(message, MESSAGE_ERROR, "The metadata adapter failed on this message")
        else:
            session.messages.done(message, response or "")
