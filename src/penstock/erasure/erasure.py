"""The steps of an erasure, in a data directory that no server and no pipeline uses meanwhile.

A note on the disk comes first and goes last. In between every step may be killed, and is done again by whoever
finishes: each replaces files whole, and finds nothing to do where it was done. Not here: what a step does in its files.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock import __version__
from penstock.adapters.ingest.forgetting import forget_items
from penstock.config import Config
from penstock.doors.ditto.saved_state import forget_twins
from penstock.erasure.record import ENTITY, KIND, erasures, records
from penstock.history.lake_root import open_table
from penstock.history.lake_url import LakeUnavailable
from penstock.history.reader import History
from penstock.journal.disk import DirectoryDisk
from penstock.journal.entity import parts_of
from penstock.journal.erasing import Crash
from penstock.journal.erasing import erase as erase_in_journal
from penstock.journal.erasure_note import ErasureNote, read_note, remove_note, write_note
from penstock.journal.journal import Journal, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EventSelection
from penstock.pipeline.errors import LakeFailed
from penstock.pipeline.forgetting import erase as erase_in_lake
from penstock.pipeline.forgetting import sequences_of
from penstock.pipeline.lake import Lake
from penstock.pipeline.place import Place
from penstock.pipeline.status import held
from penstock.services.data_directory import data_directory
from penstock.services.errors import StartError
from penstock.store.address import FILE, named_stores
from penstock.store.forgetting import forget
from penstock.store.hub_lease import HubLease
from penstock.store.opening import open_store
from penstock.store.search_index import SearchIndex, ThingUpdate, delete_index
from penstock.twins.names import TwinNames

# The job that keeps no state in its checkpoint, only where it stands.
_HISTORY = "history"

# The adapter set and the adapter of TLEX payloads, whose items are controllers.
_TLEX = ("TLEX", "TLEX")


def nowhere(where: str) -> None:
    """No crash."""


class Erasure:
    """Of one data directory; made by `erasure_in`."""

    def __init__(self, config: Config, place: Place, lake: Lake | None, lease: HubLease | None, crash: Crash) -> None:
        self._config = config
        self._place = place
        self._lake = lake
        self._lease = lease
        self._crash = crash
        self._disk = DirectoryDisk(place.journal)

    def unfinished(self) -> ErasureNote | None:
        """One that was killed. Raises BadNote."""
        return read_note(self._disk)

    def count(self, entities: Collection[str]) -> dict[str, int]:
        """How many events each entity has, in lake and journal together."""
        # A crash may have left something behind the last commit.
        Journal(self._place.journal).close()
        return {entity: self._count(entity) for entity in entities}

    def begin(self, events: dict[str, int], by: str, reference: str) -> ErasureNote:
        """From here on it has to be finished, and no server starts before. Raises StartError."""
        if self._lease is not None and self._lease.left() <= 0:
            raise StartError("another hub may have become active in the meantime; try again, with --yes")
        note = ErasureNote(uuid.uuid4().hex, events, by, reference, time.time_ns() // 1000)
        write_note(self._disk, note)
        self._crash("begun")
        return note

    def finish(self, note: ErasureNote) -> None:
        """Raises JournalError, LakeFailed, StoreError, OSError: then it is to be finished later."""
        entities = frozenset(note.events)
        Journal(self._place.journal).close()
        lock = self._disk.lock()
        try:
            erase_in_journal(self._disk, entities, self._crash)
            forget_twins(self._disk, entities)
            self._crash("twins")
        finally:
            lock.release()
        if self._lake is not None:
            erase_in_lake(self._lake, entities, self._crash)
        # Rows on their way between Spark's tasks, which a process that was killed has left.
        shutil.rmtree(self._place.cache / "spark", ignore_errors=True)
        self._forget_items(entities)
        self._crash("items")
        self._forget_rows(entities)
        self._crash("store")
        self._record(note)
        self._crash("recorded")
        remove_note(self._disk)

    def checkpoints(self) -> list[Path]:
        """Of jobs that keep a state, in which there may be something of any entity that they read."""
        roots = {self._place.checkpoints(_HISTORY).parent}
        if not self.remote_checkpoints:
            roots.add(Path(self._place.checkpoint(_HISTORY)).parent)
        return sorted(path for root in roots for path in root.glob("*") if path.is_dir() and path.name != _HISTORY)

    @property
    def remote_checkpoints(self) -> str:
        """The address of others that are not in a directory; empty if there are none."""
        root = self._place.checkpoint_root
        return root if "://" in root else ""

    def delete_checkpoints(self) -> None:
        for path in self.checkpoints():
            shutil.rmtree(path, ignore_errors=True)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _count(self, entity: str) -> int:
        found: list[Any] = [] if self._lake is None else list(sequences_of(self._lake, [entity]))
        for batch in JournalReader(self._disk).read(selection=EventSelection((entity,))):
            # The selection takes a name with an asterisk for a pattern.
            found.append(batch.filter(pc.equal(batch.column("entity"), entity)).column("sequence"))
        return len(pc.unique(pa.chunked_array(found, pa.int64())))

    def _forget_items(self, entities: Collection[str]) -> None:
        items: dict[tuple[str, str], set[str]] = {}
        for adapter_set, adapter, item in filter(None, map(parts_of, entities)):
            items.setdefault((adapter_set, adapter), set()).add(item)
        for (adapter_set, adapter), names in items.items():
            forget_items(self._place.data_dir / "items", adapter_set, adapter, names)

    def _forget_rows(self, entities: Collection[str]) -> None:
        items = {parts for parts in map(parts_of, entities) if parts is not None}
        controllers = {item for adapter_set, adapter, item in items if (adapter_set, adapter) == _TLEX}
        named = set(named_stores(self._config).values()) - {""}
        if (self._place.data_dir / FILE).exists():
            named.add("")
        delete_index(self._place.data_dir)
        things = [key.id for key in map(TwinNames().key, entities) if key is not None and not key.is_policy]
        if self._config.ditto.search_store and things:
            index = SearchIndex.open(self._config.ditto.search_store, self._place.data_dir)
            try:
                index.apply([ThingUpdate(id, None, None, ()) for id in things])
            finally:
                index.close()
        for each in sorted(named):
            store = open_store(each, self._place.data_dir)
            try:
                forget(store, items, controllers)
            finally:
                store.close()

    def _record(self, note: ErasureNote) -> None:
        selection = EventSelection((ENTITY,), (KIND,), since=note.begun)
        for batch in JournalReader(self._disk).read(selection=selection):
            if any(each is not None and each.id == note.id for each in erasures(batch.column("value").to_pylist())):
                return
        journal = Journal(self._place.journal)
        try:
            receipt = journal.append(records(note, time.time_ns() // 1000), Policy.ACK)
            assert receipt.done is not None
            receipt.done.result()
        finally:
            journal.close()


@contextmanager
def erasure_in(config: Config, crash: Crash = nowhere) -> Iterator[Erasure]:
    """Hold the data directory and all jobs of the pipeline. Raises StartError, PipelineError, StoreError."""
    place = Place.of(config)
    place.check_data()
    with ExitStack() as stack:
        stack.enter_context(data_directory(place.data_dir))
        jobs = sorted(path.stem for path in place.status_dir.glob("*.lock"))
        stack.enter_context(held(place.status_dir, jobs))
        lake = _lake(place)
        if lake is not None:
            lake.lock()
            stack.callback(lake.unlock)
        lease = stack.enter_context(_hub_lease(config)) if config.cluster.store else None
        yield Erasure(config, place, lake, lease, crash)


def _lake(place: Place) -> Lake | None:
    """None if there is none. Raises LakeFailed."""
    try:
        return None if open_table(place.lake) is None else Lake(place.lake)
    except LakeUnavailable as error:
        raise LakeFailed(str(error)) from None


@contextmanager
def _hub_lease(config: Config) -> Iterator[HubLease]:
    """Of a cluster whose hubs share the data directory: none of them may be active. Raises StartError, CannotOpen.

    It need not be renewed, because none starts as long as the note is there.
    """
    cluster = config.cluster
    store = open_store(cluster.store, None)
    try:
        lease = HubLease(cluster.name, config.server.node, uuid.uuid4().hex, __version__, cluster.lease_millis)
        holder = lease.take(store.engine)
        if holder is not None:
            raise StartError(f"the hub {holder.node or 'of the cluster'} is active; stop all hubs first")
        try:
            yield lease
        finally:
            lease.give_up(store.engine)
    finally:
        store.close()


def past_erasures(config: Config) -> Iterator[tuple[int, Any]]:
    """The time, in microseconds since 1970, and the record of each, from journal and lake; a server may be running."""
    place = Place.of(config)
    place.check_data(lake=True)
    for event in History(place.journal, place.lake).events(ENTITY):
        (record,) = erasures([event.value])
        if record is not None:
            yield event.timestamp, record
