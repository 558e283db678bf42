"""`penstock history erase`: nothing of the person is left anywhere, others keep everything, kills do no harm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from penstock.adapters.ingest import memory
from penstock.adapters.ingest.states import MergeState
from penstock.doors.ditto.saved_state import NAME, PREVIOUS, load_state
from penstock.erasure.erasure import Erasure, erasure_in, past_erasures
from penstock.erasure.record import hashed, is_of
from penstock.history.reader import History, JournaledEvent
from penstock.journal.disk import DirectoryDisk
from penstock.journal.erasure_note import ErasureNote
from penstock.journal.reader import JournalReader
from penstock.journal.verification import verify
from penstock.pipeline import maintenance
from penstock.pipeline.errors import LakeInUse
from penstock.pipeline.lake import Lake
from penstock.services.errors import StartError
from penstock.services.journal import open_journal
from penstock.store.opening import open_store
from penstock.store.push import PushStore
from penstock.store.search_index import IndexMark, SearchIndex, ThingUpdate
from tests.erasure.world import OTHERS, PERSON, WORDS, Data, config_of, leftovers
from tests.history.world import World, events_of, whole_lake

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
ROUNDS = 5 if LONG else 1

# Where it may be killed, in order; some places come many times.
PLACES = (
    "begun", "segment", "index", "revisions", "twins", "rewritten", "replaced", "summarized", "checkpointed", "log",
    "file", "items", "store", "recorded",
)  # fmt: skip
KILLED = PLACES if LONG else ("segment", "log", "store")


class Died(BaseException):
    """Nothing may catch it."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(tmp_path_factory.mktemp("made") / "data")


@pytest.fixture
def data(made: Data, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made.root, tmp_path / "data")
    return tmp_path / "data"


def run(root: Path, crash: Callable[[str], None] = lambda where: None) -> ErasureNote:
    with erasure_in(config_of(root), crash) as erasure:
        note = erasure.unfinished() or erasure.begin(erasure.count(PERSON), "ann", "request 1")
        erasure.finish(note)
    return note


def check_erased(made: Data, root: Path) -> None:
    assert leftovers(root) == []
    found = verify(DirectoryDisk(root / "journal"))
    assert found.damages == []
    reader = JournalReader(root / "journal")
    history = History(root / "journal", root / "lake")
    assert events_in(reader) == made.others
    assert reader.damages == []
    for name in (*PERSON, *OTHERS):
        assert list(history.events(name)) == [event for event in made.others if event.entity == name]
    assert {row["entity"] for row in history.summary().to_pylist()} == {*OTHERS, "admin"}
    lake = Lake(root / "lake")
    assert whole_lake(lake) == [event for event in made.others if event.sequence <= lake.sequence()]
    assert not (root / "journal" / "erasing").exists()
    (first, second) = [record for _, record in past_erasures(config_of(root))]
    assert {(record.by, record.reference, record.events) for record in (first, second)} == {("ann", "request 1", 30)}
    assert sorted(name for name in PERSON for record in (first, second) if is_of(name, record.entity)) == sorted(PERSON)


def events_in(reader: JournalReader) -> list[JournaledEvent]:
    """All but the records of erasures."""
    tables = (pa.Table.from_batches([batch]) for batch in reader.read())
    return [event for event in events_of(tables) if event.entity != "admin"]


def test_nothing_of_the_person_is_left_and_nothing_of_others_is_gone(
    made: Data, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How old what is known of the lake may be. The erasure may take less.
    monkeypatch.setattr("penstock.history.snapshot.FRESH_SECONDS", 0.0)
    before = leftovers(data)
    # The test of the test: it looks where things are.
    for part in (
        "journal/0",
        "journal/twins.state",
        "lake/bucket=",
        "lake/_delta_log",
        "lake/_summary",
        "items/",
        "store",
    ):
        assert any(name.startswith(part) for name in before), part
    old = History(data / "journal", data / "lake")
    assert len(list(old.events(PERSON[0]))) == 30
    note = run(data)
    assert note.events == dict.fromkeys(PERSON, 30)
    check_erased(made, data)
    # Whoever had it open before sees the same.
    assert list(old.events(PERSON[0])) == []
    assert list(old.events(OTHERS[0])) == [event for event in made.others if event.entity == OTHERS[0]]


def test_the_search_index_is_deleted_and_filled_again_at_the_next_start(made: Data, data: Path) -> None:
    index = SearchIndex.open("", data)
    index.apply([ThingUpdate("ns:anybody", IndexMark("ns:p", 1, 1), None, (("/attributes/x", b"1"),))])
    index.close()
    run(data)
    assert not list(data.glob("search.db*"))


def test_twins_items_and_rows_of_others_stay(made: Data, data: Path) -> None:
    run(data)
    disk = DirectoryDisk(data / "journal")
    assert set(load_state(disk).twins) == {OTHERS[0]}
    disk.rename(PREVIOUS, NAME)
    assert set(load_state(disk).twins) == {OTHERS[0]}
    path = memory.file_of(data / "items", "SHOP", "CLIENTS")
    known = memory.load(path, lambda item, count: MergeState(10, 10))
    assert known is not None
    assert (set(known.states), known.queries, known.sequence) == ({"carl"}, {"query": 7}, len(made.events))
    assert list(memory.stages_of(data / "items", "SHOP", "CLIENTS").iterdir()) == []
    store = open_store("", data)
    loaded = PushStore.join(store, "node").load()
    store.close()
    assert [each.id for each in loaded.devices] == ["phone"]
    assert [each.id for each in loaded.subscriptions] == ["of-carl"]
    assert [each.subscription for each in loaded.notifications] == ["of-carl"]


def test_the_lake_goes_on_afterwards_and_older_versions_are_gone(made: Data, data: Path) -> None:
    lake = Lake(data / "lake")
    before, version = lake.sequence(), DeltaTable(str(data / "lake")).version()
    run(data)
    lake = Lake(data / "lake")
    assert lake.sequence() == before
    with pytest.raises(DeltaError):
        DeltaTable(str(data / "lake"), version=version)
    world = World(data)
    lake.check_journal(world.path)
    assert lake.check_gap(world.path) is None
    world.append([(OTHERS[1], 1, "again"), (PERSON[1], 2, "anew")])
    world.move()
    maintenance.maintain(world.lake, 1, 0)
    assert world.history.last_revision(OTHERS[1]) == 31
    assert world.history.last_revision(PERSON[1]) == 1
    world.close()


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("place", PLACES)
def test_whatever_step_it_dies_at_it_is_finished_by_the_next(place: str, number: int, made: Data, data: Path) -> None:
    random = Random(f"{place} {number}")
    died: list[str] = []
    deadly, left = place, random.randint(1, 2) if place in ("segment", "index", "log", "file") else 1

    def crash(where: str) -> None:
        nonlocal left
        left -= where == deadly
        if where == deadly and left == 0:
            died.append(where)
            raise Died

    for _ in range(3):
        try:
            run(data, crash)
        except Died:
            deadly, left = random.choice(PLACES), random.randint(1, 5)
            # Until then no server starts, and others' histories can be read.
            with pytest.raises(StartError, match="has not finished; run `penstock history erase` without an entity"):
                open_journal(data / "journal", config_of(data))
            history = History(data / "journal", data / "lake")
            assert list(history.events(OTHERS[1])) == [event for event in made.others if event.entity == OTHERS[1]]
        else:
            break
    else:
        run(data)
    assert died[0] == place
    check_erased(made, data)


@pytest.mark.parametrize("place", KILLED)
def test_a_killed_process_is_finished_by_the_next(place: str, made: Data, data: Path) -> None:
    for words, code in (((place,), -signal.SIGKILL), ((), 0)):
        command = [sys.executable, "-m", "tests.erasure.driver", str(data), *words]
        assert subprocess.run(command, check=False, timeout=300).returncode == code
    assert leftovers(data) == []
    assert verify(DirectoryDisk(data / "journal")).damages == []
    assert events_in(JournalReader(data / "journal")) == made.others
    assert len(list(past_erasures(config_of(data)))) == len(PERSON)


# -- refusals -----------------------------------------------------------------------------------------------------


def test_it_is_refused_while_a_server_or_a_job_uses_the_directory(made: Data, data: Path) -> None:
    with (
        erasure_in(config_of(data)),
        pytest.raises(StartError, match="in use by another penstock process"),
        erasure_in(config_of(data)),
    ):
        pass
    lake = Lake(data / "lake")
    lake.lock()
    with pytest.raises(LakeInUse, match="another job writes the lake"), erasure_in(config_of(data)):
        pass
    lake.unlock()
    with erasure_in(config_of(data)) as erasure:
        assert isinstance(erasure, Erasure)


def test_a_hash_is_of_one_name_only_and_never_the_same_twice() -> None:
    one, two = hashed(PERSON[0]), hashed(PERSON[0])
    assert one != two
    assert [is_of(PERSON[0], each) for each in (one, two)] == [True, True]
    assert not is_of(PERSON[1], one)
    assert not any(word in one for word in WORDS)


def test_checkpoints_are_told_and_deleted_on_demand(made: Data, data: Path) -> None:
    for name in ("history", "candles"):
        (data / "checkpoints" / name / "state").mkdir(parents=True)
    with erasure_in(config_of(data)) as erasure:
        assert [path.name for path in erasure.checkpoints()] == ["candles"]
        erasure.delete_checkpoints()
        assert erasure.checkpoints() == []
    assert (data / "checkpoints" / "history").exists()


def test_checkpoints_elsewhere_are_told_and_deleted_too_if_they_are_in_a_directory(
    made: Data, data: Path, tmp_path: Path
) -> None:
    for name in ("history", "heat"):
        (tmp_path / "elsewhere" / name / "state").mkdir(parents=True)
    with erasure_in(config_of(data, {"pipeline.checkpoints": str(tmp_path / "elsewhere")})) as erasure:
        assert erasure.checkpoints() == [tmp_path / "elsewhere" / "heat"]
        assert erasure.remote_checkpoints == ""
        erasure.delete_checkpoints()
        assert erasure.checkpoints() == []
    with erasure_in(config_of(data, {"pipeline.checkpoints": "s3a://bucket/jobs"})) as erasure:
        assert (erasure.checkpoints(), erasure.remote_checkpoints) == ([], "s3a://bucket/jobs")


def test_rows_that_spark_has_left_on_the_disk_go_with_every_erasure(made: Data, data: Path) -> None:
    left = data / "pipeline" / "cache" / "spark" / "blockmgr-1" / "shuffle_0_0_0.data"
    left.parent.mkdir(parents=True)
    left.write_text(WORDS[0])
    with erasure_in(config_of(data)) as erasure:
        erasure.finish(erasure.begin(erasure.count([PERSON[1]]), "test", ""))
    assert not left.exists()


def test_the_record_is_json_that_tells_no_name(made: Data, data: Path) -> None:
    run(data)
    (first, _) = History(data / "journal", data / "lake").events("admin")
    value = json.loads(first.value or "")
    assert (first.kind, value["action"], value["by"], value["events"], value["reference"]) == (
        "action", "erase", "ann", 30, "request 1",
    )  # fmt: skip
    assert value["entity"].startswith("scrypt:")
