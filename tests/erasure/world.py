"""A data directory with everything in it that a server and a pipeline leave of a person, and a look at what is left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.adapters.ingest import memory, stages
from penstock.adapters.ingest.states import MergeState
from penstock.config import Config, load
from penstock.doors.ditto.saved_state import load_state, save_state
from penstock.history.reader import JournaledEvent
from penstock.journal.disk import DirectoryDisk
from penstock.journal.segment import TEMPORARY_SUFFIX
from penstock.journal.sidecar import read_sidecar
from penstock.kernel.ports import CheckedEvent
from penstock.pipeline import maintenance
from penstock.push.records import Flow, SaveDevice, SaveNotification, SaveSubscription
from penstock.store.opening import open_store
from penstock.store.push import PushStore
from penstock.twins.state import TwinsState
from penstock.twins.twin import Twin
from tests.history.world import NOON, SECOND, World
from tests.store.devices import device, notification, subscription

# A person is a twin and an item; others are of both kinds, too.
PERSON = ("DITTO/THINGS/org.example:anna-of-the-hill", "SHOP/CLIENTS/anna-of-the-hill")
OTHERS = ("DITTO/THINGS/org.example:carl", "SHOP/CLIENTS/carl", "SHOP/OTHER/anna")
# What is to be found nowhere afterwards.
WORDS = ("anna-of-the-hill", "lives-in-oak-street")
# Each is a batch of the lake, but the last one, which the journal alone has.
ROUNDS = 6


class Data:
    """Closed when it has been made: nobody uses the directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        world = World(root, segment_bytes=4_000)
        for number in range(ROUNDS):
            for name in (*PERSON, *OTHERS):
                word = WORDS[1] if name in PERSON else "elsewhere"
                at = NOON + number * SECOND
                world.append([(name, at, json.dumps({"address": word, "n": number, "k": k})) for k in range(5)])
            if number < ROUNDS - 1:
                world.move()
                maintenance.maintain(world.lake, 2, 0)
        self.events = world.events
        world.close()
        self._save_twins()
        self._save_items()
        self._save_rows()

    @property
    def others(self) -> list[JournaledEvent]:
        return [event for event in self.events if event.entity not in PERSON]

    def _save_twins(self) -> None:
        disk = DirectoryDisk(self.root / "journal")
        names = [name for name in (*PERSON, *OTHERS) if name.startswith("DITTO/")]
        for _ in range(2):
            twins = {name: Twin({"attributes": {"of": name}}, 30, NOON, NOON) for name in names}
            save_state(disk, TwinsState(len(self.events), twins))
        assert set(load_state(disk).twins) == set(names)

    def _save_items(self) -> None:
        known = memory.Memory(len(self.events), {}, {"query": 7})
        for name in ("anna-of-the-hill", "carl"):
            state = known.states[name] = MergeState(10, 10)
            state.apply(CheckedEvent({"address": WORDS[1] if name != "carl" else "elsewhere"}))
        path = memory.file_of(self.root / "items", "SHOP", "CLIENTS")
        memory.save(path, "SHOP", "CLIENTS", known)
        path.with_name(f"{path.name}.damaged").write_text(WORDS[1])
        rows = [pa.RecordBatch.from_pydict({"item": ["anna-of-the-hill"], "address": [WORDS[1]]})]
        body, digest = stages._encoded(rows)
        head = stages.StageHead("query", 8, "0", 1, len(body), digest)
        folder = memory.stages_of(self.root / "items", "SHOP", "CLIENTS")
        stages._write(folder / stages._name("query", 8, "0"), head, body)

    def _save_rows(self) -> None:
        store = open_store("", self.root)
        try:
            push = PushStore.join(store, "node")
            phone = device("phone")
            changes: list[Any] = [SaveDevice(phone)]
            for name in ("anna-of-the-hill", "carl"):
                flow = Flow("SHOP", "CLIENTS", name, "address", "MERGE", (name, "all"), ("address",))
                id, word = f"of-{name[:4]}", WORDS[1] if name != "carl" else "elsewhere"
                changes.append(SaveSubscription(replace(subscription(id, phone.id), flow=flow)))
                changes.append(SaveNotification(replace(notification(f"n-{id}", phone.id, id), payload=word)))
            push.write(changes)
            push.leave()
        finally:
            store.close()


def config_of(root: Path, more: Mapping[str, object] = MappingProxyType({})) -> Config:
    return load(None, {"server.data_dir": str(root), **more}).config


def leftovers(root: Path) -> list[str]:
    """Files in which one of the words is found: in their bytes, and in what is compressed in them."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and any(word.encode() in content for word in WORDS for content in _contents(path)):
            found.append(str(path.relative_to(root)))
    return found


def _contents(path: Path) -> list[bytes]:
    contents = [path.read_bytes(), str(path).encode()]
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        contents += [repr(file.metadata.to_dict()).encode(), repr(file.read().to_pylist()).encode()]
    elif path.name.endswith(TEMPORARY_SUFFIX) or path.suffix in (".index", ".revisions", ".state", ".previous"):
        tables = read_sidecar(DirectoryDisk(path.parent), path.name) or []
        contents.append(repr([table.to_pylist() for table in tables]).encode())
    return contents
