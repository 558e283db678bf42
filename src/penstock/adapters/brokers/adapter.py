"""The part of every broker's adapter that turns records into events, for items that somebody wants.

Records may come on a thread that reads them, and subscriptions on others. One lock keeps both in order, and all is
published under it, so that a snapshot is never behind an update that it contains. An adapter that reads on the event
loop is `quick`: then subscriptions come there too, and nobody ever waits for the lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Literal, TypedDict

from penstock.adapters.api import DataAdapter
from penstock.adapters.brokers.memory import RecordMemory, memory_for
from penstock.kernel.ports import Value
from penstock.log import get
from penstock.wire.records.formats import Schemas, decoder
from penstock.wire.records.mapping import ALL_MEMBERS, RecordMapping
from penstock.wire.records.record import BrokerRecord, PoisonRecord
from penstock.wire.records.template import TemplateError

log = get(__name__)

# Poison records are counted, and written to the log at most this often, in seconds.
COMPLAINT_INTERVAL = 5.0

# Records handled before a thread that waits for the lock can have it.
RECORDS_AT_A_TIME = 500

MODES = ("MERGE", "DISTINCT", "COMMAND")

MAX_HISTORY = 1_000


class RecordParameters(TypedDict, total=False):
    """How records become events, the same for every broker."""

    # Templates: which item a record is of, its fields by name (`*` is all members of an object), and its row.
    item: str
    fields: Mapping[str, str]
    row: str
    mode: Literal["MERGE", "DISTINCT", "COMMAND"]
    value_format: str
    key_format: str
    # Whether later subscribers get what came before, from how many records in DISTINCT mode, and of how many items.
    snapshot: bool
    history: int
    max_items: int
    # Whether records hold only the fields that have changed.
    partial: bool


class BrokerAdapter(DataAdapter):
    """Extended by an adapter for each broker, which calls `take`."""

    # What an item is called where nothing says so, and what divides the names of topics.
    default_item = "{key}"
    separator = "."

    def __init__(self, parameters: RecordParameters, schemas: Schemas | None = None) -> None:
        self._mapping = _mapping(parameters, self.default_item, self.separator, schemas)
        history, max_items = parameters.get("history", 10), parameters.get("max_items", 100_000)
        if not 1 <= history <= MAX_HISTORY:
            raise ValueError(f"history = {history!r}: expected 1 to {MAX_HISTORY}")
        if max_items < 1:
            raise ValueError(f"max_items = {max_items!r}: expected 1 or more")
        partial = parameters.get("partial", False)
        if partial and self._mapping.mode == "DISTINCT":
            raise ValueError(
                "partial = true: expected mode MERGE or COMMAND, because a DISTINCT event stands for itself"
            )
        self._memory: RecordMemory | None = None
        if parameters.get("snapshot", True):
            self._memory = memory_for(self._mapping, history=history, max_items=max_items, partial=partial)
        self._wanted: set[str] = set()
        self._lock = Lock()
        self._complained = -COMPLAINT_INTERVAL
        # Records that came, and those of them that could not be made events.
        self.records = 0
        self.poison_records = 0

    # -- from the server ------------------------------------------------------------------------------------------

    def has_snapshot(self, item: str) -> bool:
        return self._memory is not None

    def subscribe(self, item: str) -> None:
        with self._lock:
            self._wanted.add(item)
            if self._memory is None:
                return
            events, bad = self._memory.snapshot(item)
            for event in events:
                self.update(item, event, snapshot=True)
            self.end_of_snapshot(item)
            for poison in bad:
                self._complain(None, poison)

    def unsubscribe(self, item: str) -> None:
        with self._lock:
            self._wanted.discard(item)

    # -- from the broker ------------------------------------------------------------------------------------------

    def take(self, records: Sequence[BrokerRecord]) -> None:
        """Records in their order. Any thread but the event loop's waits while the server has too many events."""
        for at in range(0, len(records), RECORDS_AT_A_TIME):
            with self._lock:
                self._publish(records[at : at + RECORDS_AT_A_TIME])

    def _publish(self, records: Iterable[BrokerRecord]) -> None:
        mapping, memory, wanted = self._mapping, self._memory, self._wanted
        events: list[tuple[str, Mapping[str, Value]]] = []
        for record in records:
            self.records += 1
            try:
                item = mapping.item(record)
                if memory is not None and not memory.keep(item, record):
                    continue
                if item not in wanted:
                    continue
                if record.value() is None and mapping.mode == "MERGE":
                    self.updates(events)
                    events = []
                    self.clear_snapshot(item)
                else:
                    events.append((item, mapping.event(record)))
            except PoisonRecord as poison:
                self._complain(record, poison)
        if events:
            self.updates(events)

    def _complain(self, record: BrokerRecord | None, poison: PoisonRecord) -> None:
        self.poison_records += 1
        now = time.monotonic()
        if now - self._complained < COMPLAINT_INTERVAL:
            return
        self._complained = now
        place: dict[str, object] = {}
        if record is not None:
            place = {"topic": record.topic(), "partition": record.partition(), "offset": record.offset()}
        log.warning("record skipped", reason=str(poison), skipped=self.poison_records, **place)


def _mapping(parameters: RecordParameters, default_item: str, separator: str, schemas: Schemas | None) -> RecordMapping:
    mode = parameters.get("mode", "MERGE")
    if mode not in MODES:
        raise ValueError(f"mode = {mode!r}: expected {', '.join(MODES)}")
    formats = {name: parameters.get(name, usual) for name, usual in (("key_format", "text"), ("value_format", "json"))}
    decoders = {}
    for name, given in formats.items():
        try:
            decoders[name] = decoder(str(given), schemas)
        except ValueError as error:
            raise ValueError(f"{name} = {given!r}: {error}") from None
    usual_fields = {"value": "{value}"} if formats["value_format"] == "text" else {ALL_MEMBERS: "{value}"}
    fields = parameters.get("fields") or usual_fields
    try:
        return RecordMapping(
            parameters.get("item", default_item),
            fields,
            mode,
            parameters.get("row", default_item),
            decoders["key_format"],
            decoders["value_format"],
            separator,
        )
    except TemplateError as error:
        raise ValueError(str(error)) from None
