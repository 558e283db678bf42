"""The lake in an object store: as safe as on a disk, whatever the store does to a request."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from penstock.history import lake_sequence
from penstock.history.lake_root import open_table
from penstock.history.lake_url import LakeUnavailable, LakeUrl
from penstock.history.layout import SUMMARY_FOLDER
from penstock.history.reader import History
from penstock.history.scan import TableScan
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EVERYTHING
from penstock.pipeline.errors import LakeConflict, LakeFailed, PipelineError
from penstock.pipeline.files import write_task
from penstock.pipeline.forgetting import begin_anew, erase
from penstock.pipeline.lake import Lake, nowhere
from penstock.pipeline.maintenance import clean_up, compact, maintain, retain, summarize
from tests.history.world import NOON, World, events_of, random_rows, whole_lake, written
from tests.support.lake_store import HASTY, LIMITS, lake_in, options
from tests.support.object_store import SECRET, WRONG_KEY, ObjectStore

# Each commit is a dozen requests through two processes; the machine may be busy.
pytestmark = pytest.mark.timeout(300)

COMMITS = "_delta_log/"


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


@pytest.fixture
def store(running: ObjectStore) -> Iterator[ObjectStore]:
    yield running
    running.forget()
    running.expire()


@pytest.fixture
def world(store: ObjectStore, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, segment_bytes=4_000, lake=lake_in(store))
    yield made
    made.close()


def said(error: pytest.ExceptionInfo[BaseException]) -> str:
    """What people are told: one sentence, on one line, without a secret."""
    text = str(error.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert SECRET not in text
    return text


# -- as on a disk ---------------------------------------------------------------------------------------------------


def test_every_event_is_in_the_lake_once_and_is_found_there(world: World) -> None:
    for _ in range(4):
        world.fill(50)
    assert [world.move(stop) for stop in (71, 71, 40, 121, None, None)] == [70, 0, 0, 50, 80, 0]
    assert whole_lake(world.lake) == world.events
    assert lake_sequence(world.root) == 200
    # What the lake has may go from the journal; the rest is read there.
    assert world.drop()
    world.fill(30)
    for entity in ("item-0", "item-1", "item-2"):
        assert events_of(world.history.read(entity)) == world.of(entity)
        assert world.history.last(entity) == world.of(entity)[-1]
    assert events_of(world.history.read("item-1", first=10, last=75)) == world.of("item-1", first=10, last=75)
    assert world.history.summary().column("events").to_pylist() == [77, 77, 76]


def test_tables_are_read_across_the_seam_whatever_was_moved(store: ObjectStore, tmp_path: Path) -> None:
    random = Random(20)
    for number in range(3):
        world = World(tmp_path / str(number), segment_bytes=3_000, lake=lake_in(store))
        try:
            for _ in range(4):
                world.append(random_rows(random, ["a", "b", "c"], random.randrange(1, 60)))
                if random.random() < 0.7:
                    world.move(random.choice((None, len(world.events) // 2 + 1)))
                if random.random() < 0.5:
                    compact(world.lake, 2)
                if random.random() < 0.5:
                    world.drop()
                scan = TableScan(world.path, world.root, EVERYTHING)
                found = [row for share in scan.plan(parts=2) for batch in scan.read(share) for row in batch.to_pylist()]
                assert sorted(row["sequence"] for row in found) == [event.sequence for event in world.events]
        finally:
            world.close()


def test_files_are_merged_summed_up_dropped_and_removed(world: World) -> None:
    for _ in range(6):
        world.fill(10)
        world.move()
    maintain(world.lake, 2, 0)
    assert whole_lake(world.lake) == world.events
    assert summarize(world.lake) == 60
    assert History(world.path, world.root).summary().column("events").to_pylist() == [20, 20, 20]
    now = NOON + 86_400_000_000
    assert retain(world.lake, 1 - 29 / 86_400, now + 9_000_000_000) == 60
    assert whole_lake(world.lake) == []
    # Nothing is old enough yet.
    assert clean_up(world.lake) == 0


def test_an_older_version_can_be_read(world: World) -> None:
    world.fill(20)
    world.move()
    before = world.root.open_table()
    assert before is not None
    world.fill(20)
    world.move()
    table = world.root.open_table()
    assert table is not None
    # By its number: an object store has the times of its objects in whole seconds.
    table.load_as_version(before.version())
    assert (table.transaction_version("penstock.sequence"), table.to_pyarrow_table().num_rows) == (20, 20)


def test_an_entity_that_is_erased_is_in_no_object(world: World) -> None:
    world.append([(f"person-{number % 2}", NOON + number, f"secret-{number % 2}") for number in range(40)])
    world.move(21)
    world.move()
    summarize(world.lake)
    assert erase(world.lake, ["person-1"], nowhere) == 20
    assert [event.entity for event in whole_lake(world.lake)] == ["person-0"] * 20
    for root in (world.root, world.root / SUMMARY_FOLDER):
        for name in root.names():
            assert b"person-1" not in root.open(name).read(), name
    assert History(world.path, world.root).summary().column("entity").to_pylist() == ["person-0"]
    begin_anew(world.root, nowhere)
    assert len(whole_lake(Lake(world.root))) == 20


def test_a_lake_goes_to_tasks_with_the_credentials_of_now(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text('access_key_id = "one"\nsecret_access_key = "two"\n')
    lake = lake_in(store, credentials_file=file)
    sent = pickle.loads(pickle.dumps(lake))
    file.unlink()
    assert sent.options()["aws_access_key_id"] == "one"
    assert sent.options()["allow_http"] == "true"
    assert (str(sent), repr(sent)) == (lake.url, f"LakeUrl({lake.url!r})")
    with pytest.raises(LakeUnavailable) as missing:
        lake.options()
    assert said(missing) == f"lake.credentials_file = {file}: No such file or directory"


# -- two writers ----------------------------------------------------------------------------------------------------


def test_of_two_writers_that_began_alike_one_is_refused_and_nothing_is_doubled(world: World) -> None:
    world.fill(40)
    other = Lake(world.root)
    told = [written(write_task(world.root, 0)(JournalReader(world.path).read())) for _ in range(2)]
    assert world.lake.sequence() == other.sequence() == 0
    assert other.adopt(world.path, 0, told[0]) == 40
    with pytest.raises(LakeConflict, match=r"was written by another process in the meantime"):
        world.lake.adopt(world.path, 0, told[1])
    # Also if it has heard of the other by then.
    world.lake.sequence()
    with pytest.raises(LakeConflict, match=r"was written by another process in the meantime$"):
        world.lake.adopt(world.path, 0, told[1])
    assert whole_lake(world.lake) == world.events
    assert world.move() == 0


def test_files_that_another_has_merged_are_not_merged_again(world: World) -> None:
    for _ in range(4):
        world.fill(12)
        world.move()
    files = world.lake.files()
    bucket = [file for file in files if file.bucket == files[0].bucket]
    assert compact(Lake(world.root), 1) > 0
    world.lake.sequence()
    with pytest.raises(LakeConflict, match="was written by another process"):
        world.lake.replace(bucket, [], dropped=0)
    assert whole_lake(world.lake) == world.events


# -- what the store does --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "POST", "GET"])
@pytest.mark.parametrize("how", ["503", "lost"])
def test_a_request_that_fails_once_is_not_noticed(world: World, store: ObjectStore, method: str, how: str) -> None:
    world.fill(30)
    store.fail(method, how)
    assert world.move() == 30
    assert not store.failures
    assert whole_lake(world.lake) == world.events


def test_a_commit_whose_answer_was_lost_counts_once(world: World, store: ObjectStore) -> None:
    world.fill(30)
    world.move(11)
    # It is repeated, and then refused because it is there.
    store.fail("PUT", "lost", path=COMMITS)
    assert world.move(21) == 10
    # The same for every attempt, and for a merge.
    store.fail("PUT", "lost", 4, path=COMMITS)
    assert world.move() == 10
    store.forget()
    store.fail("PUT", "lost", path=COMMITS)
    assert compact(world.lake, 1) > 0
    assert not store.failures
    assert whole_lake(world.lake) == world.events
    assert world.move() == 0


def test_a_commit_of_which_nobody_can_say_whether_it_is_there_is_found_by_the_next(
    world: World, store: ObjectStore
) -> None:
    world.fill(30)
    world.move(11)
    store.fail("PUT", "lost", 4, path=COMMITS)
    told = written(write_task(world.root, 10)(JournalReader(world.path).read(11, 21)))
    # The commit that it makes, to be read.
    store.fail("GET", "503", 100, path=f"{COMMITS}{2:020}.json")
    with pytest.raises(LakeFailed) as failed:
        world.lake.adopt(world.path, 10, told)
    assert said(failed) == f"the lake in {world.root} cannot be read: the object store answered 503 Service Unavailable"
    store.forget()
    # The batch is run again, and finds that it is there.
    assert world.move(21) == 0
    assert world.move() == 10
    assert whole_lake(world.lake) == world.events


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("503", "the object store answered 503 Service Unavailable"),
        ("silent", "the object store did not answer in time"),
    ],
)
def test_a_store_that_fails_for_long_is_told_in_one_sentence_and_nothing_is_lost(
    store: ObjectStore, tmp_path: Path, how: str, reason: str
) -> None:
    world = World(tmp_path, lake=lake_in(store, limits=HASTY if how == "silent" else LIMITS))
    with closing(world):
        _fail_for_long(world, store, how, reason)


def _fail_for_long(world: World, store: ObjectStore, how: str, reason: str) -> None:
    world.fill(30)
    world.move(11)
    told = written(write_task(world.root, 10)(JournalReader(world.path).read(11)))
    store.fail("PUT", how, 50, path=COMMITS)
    with pytest.raises(LakeFailed) as failed:
        world.lake.adopt(world.path, 10, told)
    assert said(failed) == f"the lake in {world.root} cannot be written: {reason}; nothing of this batch is in it"
    store.forget()
    for method in ("PUT", "POST"):
        store.fail(method, how, 50, path=".parquet")
    with pytest.raises(LakeFailed) as failed:
        world.move()
    assert said(failed) == f"the lake in {world.root} cannot be written: {reason}; nothing of this batch is in it"
    store.forget()
    store.fail("GET", how, 50)
    with pytest.raises(LakeFailed) as failed:
        Lake(world.root)
    assert said(failed) == f"the lake in {world.root} cannot be opened: {reason}"
    with pytest.raises(LakeUnavailable) as unavailable:
        lake_sequence(world.root)
    assert said(unavailable) == f"the lake in {world.root} cannot be opened: {reason}"
    store.forget()
    assert world.move() == 20
    assert whole_lake(world.lake) == world.events


def test_what_the_journal_has_is_read_while_the_store_is_away(world: World, store: ObjectStore) -> None:
    world.fill(30)
    world.move()
    world.drop()
    world.fill(30)
    clock = 0.0
    history = History(world.path, world.root)
    history._snapshots.clock = lambda: clock
    assert events_of(history.read("item-0")) == world.of("item-0")
    world.append([("new", NOON, "1")])
    store.kill()
    try:
        clock = 100.0
        assert history.last("item-1") == world.of("item-1")[-1]
        assert [event.value for event in history.events("new")] == ["1"]
        with pytest.raises(LakeUnavailable) as gone:
            list(History(world.path, world.root).events("item-0"))
        assert said(gone) == (
            f"the lake in {world.root} cannot be opened: the object store cannot be reached: client error (Connect) "
            "tcp connect error Connection refused (os error 111)"
        )
        with pytest.raises(LakeFailed, match="the object store cannot be reached"):
            world.move()
    finally:
        store.start()
    assert world.move() == 31
    assert events_of(history.read("item-0")) == world.of("item-0")
    assert whole_lake(world.lake) == world.events


def test_a_store_that_goes_away_between_two_requests_for_the_log_is_told_and_an_older_version_is_read(
    world: World, store: ObjectStore
) -> None:
    clock = 0.0
    world.fill(30)
    world.move()
    summarize(world.lake)
    for table in (open_table(world.root), open_table(world.root / SUMMARY_FOLDER)):
        assert table is not None
        table.create_checkpoint()
    history = History(world.path, world.root)
    history._snapshots.clock = lambda: clock
    assert events_of(history.read("item-0")) == world.of("item-0")
    world.fill(30)
    world.move()
    said_so = f"the lake in {world.root} cannot be read: the object store answered 503 Service Unavailable"
    # The newest commit is to be had, and what was before it is not.
    store.fail("GET", "503", 1_000, path="checkpoint.parquet")
    try:
        clock = 100.0
        assert events_of(history.read("item-0")) == world.of("item-0")
        with pytest.raises(LakeUnavailable) as unavailable:
            history._snapshots.refresh()
        assert said(unavailable) == said_so
        with pytest.raises(LakeUnavailable) as unavailable:
            list(history.summary())
        assert said(unavailable) == said_so
    finally:
        store.forget()
    assert events_of(history.read("item-0")) == world.of("item-0")
    assert history._snapshots.refresh().sequence == 60


# -- credentials ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (WRONG_KEY, "the object store refused the credentials (InvalidAccessKeyId)"),
        ("old", "the credentials have expired (ExpiredToken)"),
    ],
)
def test_credentials_that_are_wrong_or_have_expired_are_told(store: ObjectStore, key: str, reason: str) -> None:
    store.expire("old")
    lake = lake_in(store, key)
    with pytest.raises(LakeFailed) as failed:
        Lake(lake)
    assert said(failed) == f"the lake in {lake} cannot be opened: {reason}"


def test_a_bucket_that_is_not_there_is_told(store: ObjectStore) -> None:
    with pytest.raises(LakeFailed, match=r"^the lake in s3://nowhere/lake cannot be opened: there is no such bucket$"):
        Lake(LakeUrl("s3://nowhere/lake", options(store)))


def test_credentials_that_expire_in_the_middle_are_replaced_and_nothing_is_lost(
    store: ObjectStore, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.toml"

    def renew(key: str) -> None:
        file.write_text(f'access_key_id = "{key}"\nsecret_access_key = "{SECRET}"\n')

    renew("first")
    world = World(tmp_path, lake=lake_in(store, credentials_file=file))
    try:
        world.fill(30)
        world.move(11)
        assert len(events_of(world.history.read("item-0"))) == 10
        # Between the files and the commit.
        told = written(write_task(world.root, 10)(JournalReader(world.path).read(11)))
        store.expire("first")
        with pytest.raises(PipelineError) as expired:
            world.lake.adopt(world.path, 10, told)
        reason = "the credentials have expired (ExpiredToken)"
        assert re.fullmatch(rf"the lake in {world.root} cannot be (read|written): {re.escape(reason)}.*", said(expired))
        with pytest.raises(LakeFailed, match=re.escape(reason)):
            world.move()
        renew("second")
        # The same objects go on with what the file has now.
        assert world.move() == 20
        assert whole_lake(world.lake) == world.events
        world.drop()
        assert events_of(world.history.read("item-0")) == world.of("item-0")
        file.write_text("access_key_id = 'unclosed")
        with pytest.raises(LakeFailed) as wrong:
            world.move()
        assert said(wrong).endswith(f"lake.credentials_file = {file}: expected TOML")
    finally:
        world.close()
