"""From data adapters through a whole server into the journal, and out of it again with a reader."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.api import Journaling
from penstock.adapters.inside import InsideAdapter
from penstock.adapters.loading import Loader
from penstock.config import Config, ConfigError, load
from penstock.journal.entity import parts_of
from penstock.journal.journal import Journal, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.server import Server
from penstock.services.errors import StartError
from penstock.services.journal import drop_expired, open_journal, past_retention
from tests.adapters.stage import SetServer
from tests.support.effort import tries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.journal.recorder import JournalItemRecorder

# Item, kind, fields.
Record = tuple[str, str, dict[str, str | None] | None]


class Noted(InsideAdapter):
    """Notes what it is asked for; sends a state as snapshot when it has one."""

    quick = True

    def __init__(self, state: Mapping[str, dict[str, str | None]] | None = None) -> None:
        self.calls: list[Any] = []
        self.state = state or {}
        self.recorder: JournalItemRecorder | None = None

    def journal_to(self, recorder: JournalItemRecorder | None, directory: Path | None) -> None:
        self.recorder = recorder
        self.calls.append(("journal_to", recorder is not None, directory))

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def subscribe(self, item: str) -> None:
        self.calls.append(("subscribe", item))
        if item in self.state:
            self.update(item, self.state[item], snapshot=True)

    def unsubscribe(self, item: str) -> None:
        self.calls.append(("unsubscribe", item))


def config(**overrides: object) -> Config:
    return load(None, {"stream.port": 0, "api.port": 0, "log.level": "error", **overrides}).config


def adapter_set(data: Mapping[str, DataAdapter], journal: Mapping[str, Journaling]) -> AdapterSet:
    return AdapterSet("SET", MetadataAdapter(), data, journal=journal)


@asynccontextmanager
async def serving(directory: Path, *sets: AdapterSet, **overrides: object) -> AsyncIterator[Server]:
    server = Server(config(**overrides), list(sets), data_dir=directory)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def records(directory: Path) -> dict[str, list[Record]]:
    """What the journal holds, by adapter, in its order."""
    found: dict[str, list[Record]] = defaultdict(list)
    for batch in JournalReader(directory / "journal").read():
        columns = (batch.column(name).to_pylist() for name in ("entity", "kind", "value", "path"))
        for entity, kind, value, path in zip(*columns, strict=True):
            parts = parts_of(entity)
            assert parts is not None
            assert (parts[0], path) == ("SET", "")
            found[parts[1]].append((parts[2], kind, None if value is None else json.loads(value)))
    return dict(found)


# -- with real sockets --------------------------------------------------------------------------------------------


class JournalServer(SetServer):
    def __init__(self, sets: Sequence[AdapterSet], directory: Path) -> None:
        super().__init__(sets)
        self._directory = directory

    def __enter__(self) -> JournalServer:
        super().__enter__()
        return self

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = Server(self.config, self._sets, data_dir=self._directory)
        await self.server.start()
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    def commit(self) -> None:
        """Returns when all that was published is on the disk."""
        assert self.server.gatherer is not None
        asyncio.run_coroutine_threadsafe(self.server.gatherer.committed(), self._loop).result(20)


def test_what_a_client_sees_is_in_the_journal_while_the_server_runs(tmp_path: Path) -> None:
    adapter = Noted({"item1": {"x": "0"}})
    journaled = adapter_set({"ADAPTER": adapter}, {"ADAPTER": Journaling(("*",))})
    with JournalServer([journaled], tmp_path) as server, server.open() as stream:
        server.subscribe(stream, "item1 item2", "x")
        for number in range(1, 4):
            server.call(adapter.update, "item1", {"x": str(number)})
            server.call(adapter.update, "item2", {"x": str(number)})
        seen: list[str] = []
        while len(seen) < 7:
            line = stream.read_line()
            seen += [line] if line.startswith("U,") else []
        assert seen[0] == "U,1,1,0"
        server.commit()
        found = records(tmp_path)["ADAPTER"]
    assert found == [
        ("item1", "snapshot", {"x": "0"}),
        *((f"item{item}", "update", {"x": str(number)}) for number in range(1, 4) for item in (1, 2)),
    ]
    assert [f"U,1,{item[4:]},{event and event['x']}" for item, _, event in found] == seen


def test_a_pinned_item_is_journaled_before_the_first_client_who_gets_its_snapshot_all_the_same(tmp_path: Path) -> None:
    adapter = Noted({"item1": {"x": "0"}})
    journaled = adapter_set({"ADAPTER": adapter}, {"ADAPTER": Journaling(("item1",), "ack")})
    with JournalServer([journaled], tmp_path) as server:
        server.call(adapter.update, "item1", {"x": "1"})
        with server.open() as stream:
            server.subscribe(stream, "item1", "x")
            assert stream.read_until("U")[-1] == "U,1,1,1"
        server.commit()
        assert records(tmp_path)["ADAPTER"] == [("item1", "snapshot", {"x": "0"}), ("item1", "update", {"x": "1"})]


# -- what adapters are told ---------------------------------------------------------------------------------------


def test_an_adapter_hears_of_its_recorder_before_it_starts_and_of_its_pinned_items_after(tmp_path: Path) -> None:
    adapter, other = Noted(), Noted()
    journaled = adapter_set({"ADAPTER": adapter, "OTHER": other}, {"ADAPTER": Journaling(("b", "x*", "a"))})

    async def main() -> None:
        async with serving(tmp_path, journaled) as server:
            assert adapter.recorder is not None
            assert adapter.recorder.gatherer is server.gatherer
            assert (adapter.recorder.adapter_set, adapter.recorder.adapter) == ("SET", "ADAPTER")
            assert adapter.recorder.policy is Policy.INTERVAL

    asyncio.run(main())
    items = tmp_path / "items"
    assert adapter.calls == [
        ("journal_to", True, items),
        "start",
        ("subscribe", "b"),
        ("subscribe", "a"),
        ("unsubscribe", "b"),
        ("unsubscribe", "a"),
        "stop",
    ]
    assert other.calls == [("journal_to", False, items), "start", "stop"]


def test_without_a_data_directory_nothing_is_journaled_or_kept(tmp_path: Path) -> None:
    adapter = Noted()
    journaled = adapter_set({"ADAPTER": adapter}, {"ADAPTER": Journaling(("a",))})

    async def main() -> None:
        server = Server(config(**{"server.data_dir": str(tmp_path / "unused")}), [journaled])
        await server.start()
        assert server.gatherer is None
        await server.stop()

    asyncio.run(main())
    assert adapter.calls == [("journal_to", False, None), "start", "stop"]
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_not_enabled_is_not_opened(tmp_path: Path) -> None:
    adapter = Noted()
    journaled = adapter_set({"ADAPTER": adapter}, {"ADAPTER": Journaling(("a",))})

    async def main() -> None:
        async with serving(tmp_path, journaled, **{"journal.enabled": False}):
            adapter.update("b", {"x": "1"})

    asyncio.run(main())
    assert adapter.calls[0] == ("journal_to", False, tmp_path / "items")
    assert not (tmp_path / "journal").exists()


# -- everything that happens --------------------------------------------------------------------------------------

ADAPTERS = {
    "ALL": Journaling(("*",), "ack"),
    "SOME": Journaling(("a", "b*"), "interval"),
    "LAZY": Journaling(("*c",), "off"),
    "NONE": Journaling(()),
}
WANTED = {"ALL": {"a", "ab", "bc", "c"}, "SOME": {"a", "bc"}, "LAZY": {"bc", "c"}, "NONE": set()}

FIELDS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=3),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=8),
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(sorted(ADAPTERS)),
            st.sampled_from(["a", "ab", "bc", "c"]),
            st.sampled_from(["update", "snapshot", "many", "clear"]),
            FIELDS,
        ),
        # The end of a loop turn.
        st.none(),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=tries(20))
def test_what_is_published_is_what_the_journal_holds(steps: list[tuple[str, str, str, Any] | None]) -> None:
    adapters = {name: Noted() for name in ADAPTERS}
    expected: dict[str, list[Record]] = defaultdict(list)

    async def main(directory: Path) -> None:
        async with serving(directory, adapter_set(adapters, ADAPTERS)) as server:
            for step in steps:
                if step is None:
                    await asyncio.sleep(0)
                    continue
                name, item, kind, event = step
                adapter = adapters[name]
                if kind == "clear":
                    adapter.clear_snapshot(item)
                elif kind == "many":
                    adapter.updates([(item, event), (item, event)])
                else:
                    adapter.update(item, event, snapshot=kind == "snapshot")
                if item in WANTED[name]:
                    made: Record = (item, "update" if kind == "many" else kind, None if kind == "clear" else event)
                    expected[name] += [made, made] if kind == "many" else [made]
            assert server.gatherer is not None
            await server.gatherer.committed()
            assert records(directory) == expected
        assert records(directory) == expected

    with TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


def test_a_second_run_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    for run in range(3):
        adapter = Noted()

        async def main(adapter: Noted, run: int) -> None:
            async with serving(tmp_path, adapter_set({"ADAPTER": adapter}, {"ADAPTER": Journaling(("*",))})):
                adapter.update("a", {"run": str(run)})

        asyncio.run(main(adapter, run))
    assert records(tmp_path)["ADAPTER"] == [("a", "update", {"run": str(run)}) for run in range(3)]


# -- configuration and reload -------------------------------------------------------------------------------------

ADAPTER_CODE = """
from penstock.adapters import DataAdapter

class Ticker(DataAdapter):
    quick = True
    def subscribe(self, item):
        self.update(item, {"x": "snapshot of " + item}, snapshot=True)
"""


def test_a_reload_gives_changed_sets_new_recorders(tmp_path: Path) -> None:
    reload(tmp_path, 'journal.items = ["a"]', 'journal.items = ["b", "c"]\njournal.policy = "ack"', "")
    assert records(tmp_path / "data")["ADAPTER"] == [
        (item, "snapshot", {"x": f"snapshot of {item}"}) for item in ("a", "b", "c")
    ]


def test_what_was_recorded_before_a_reload_is_not_overtaken_under_another_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Records that nobody waits for gather for as long as the server runs.
    monkeypatch.setattr("penstock.services.journal.GATHERING", 3600)
    recorded = 'journal.items = ["a", "only {}"]\njournal.policy = "{}"'
    reload(tmp_path, recorded.format("before", "interval"), recorded.format("after", "ack"))
    items = [item for item, _, _ in records(tmp_path / "data")["ADAPTER"]]
    assert items == ["a", "only before", "a", "only after"]


def reload(tmp_path: Path, *journals: str) -> None:
    """Run a server with each of these configurations of the journal in turn."""
    (tmp_path / "journaled_ticker.py").write_text(ADAPTER_CODE)
    path = tmp_path / "penstock.toml"
    head = '[stream]\nport = 0\n[api]\nport = 0\n[adapters.SET.data.ADAPTER]\nadapter = "journaled_ticker:Ticker"\n'

    def written(journal: str) -> Config:
        path.write_text(head + journal)
        return load(path, {}).config

    async def main() -> None:
        server = Server(written(journals[0]), [], Loader(tmp_path, str(path)), tmp_path / "data")
        await server.start()
        for journal in journals[1:]:
            await server.reload(written(journal))
            await asyncio.gather(*server.sets.coming.values())
        await server.stop()

    asyncio.run(main())


def test_a_journal_that_is_off_and_asked_for_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[journal]\nenabled = false\n[adapters.S.data.D]\nadapter = "a:A"\njournal.items = ["*"]\n')
    with pytest.raises(
        ConfigError, match=r"journal.enabled = false: expected true, because adapters.S.data.D.journal.items"
    ):
        load(path, {})


# -- the journal as the server opens it ---------------------------------------------------------------------------


def test_a_journal_that_cannot_be_opened_stops_the_start_with_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path):
            raise AssertionError("it has started")

    (tmp_path / "journal").write_text("a file")
    with pytest.raises(StartError, match=r"the journal .*/journal cannot be opened: "):
        asyncio.run(main())
    (tmp_path / "journal").unlink()
    journal = Journal(tmp_path / "journal")
    with pytest.raises(StartError, match="is being written by another process"):
        asyncio.run(main())
    journal.close()


def test_the_journal_is_let_go_when_the_start_fails_later(tmp_path: Path) -> None:
    class Broken(DataAdapter):
        def start(self) -> None:
            raise RuntimeError("no source")

    async def main() -> None:
        async with serving(tmp_path, adapter_set({"ADAPTER": Broken()}, {})):
            raise AssertionError("it has started")

    with pytest.raises(StartError, match="no source"):
        asyncio.run(main())
    Journal(tmp_path / "journal").close()


def test_settings_reach_the_journal(tmp_path: Path) -> None:
    changed = {"journal.interval_millis": 7, "journal.segment_bytes": 70_000, "journal.queue_bytes": 2_000_000}
    journal = open_journal(tmp_path / "journal", config(**changed, **{"journal.segment_seconds": 9}))
    found = journal.settings
    assert (found.interval_millis, found.segment_bytes) == (7, 70_000)
    assert (found.queue_bytes, found.segment_seconds) == (2_000_000, 9)
    journal.close()


@pytest.mark.parametrize(
    ("overrides", "lake", "dropped"),
    [
        ({"journal.max_bytes": 1}, 0, 0),
        ({"journal.max_bytes": 1}, 1, 1),
        ({"journal.max_bytes": 1}, 2, 2),
        ({"journal.max_bytes": 1}, 100, 2),
        ({}, 100, 0),
        ({"journal.max_age_hours": 0}, 100, 0),
        ({"journal.max_bytes": 1, "journal.keep_until_in_lake": False}, 0, 2),
        ({"journal.keep_until_in_lake": False}, 0, 0),
        # The first was sealed when the second was begun, two days ago; the second just now.
        ({"journal.max_age_hours": 47, "journal.keep_until_in_lake": False}, 0, 1),
        ({"journal.max_age_hours": 47}, 0, 0),
        ({"journal.max_age_hours": 49, "journal.keep_until_in_lake": False}, 0, 0),
    ],
)
def test_files_past_retention_go_when_the_lake_has_them_and_not_before_unless_there_is_none(
    tmp_path: Path, overrides: dict[str, object], lake: int, dropped: int
) -> None:
    for number in range(2):
        one = Columns()
        one.add("a", number, "update", "", "{}")
        journal = Journal(tmp_path / "journal", now=lambda: time.time_ns() // 1000 - 48 * 3600 * 10**6)
        journal.append(one, Policy.OFF)
        journal.close()
    journal = open_journal(tmp_path / "journal", config(**overrides))
    assert len(past_retention(journal, lake, config(**overrides))) == dropped
    assert len(drop_expired(journal, lake, config(**overrides))) == dropped
    assert past_retention(journal, lake, config(**overrides)) == []
    journal.close()


def test_files_stay_until_every_adapter_has_kept_what_it_would_read_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest adapter whose state is older than the journal would not know a batch that comes again."""
    monkeypatch.setattr("penstock.services.journal.RETENTION_PAUSE", 0.01)
    for _ in range(3):
        one = Columns()
        one.add("a", 0, "update", "", "{}")
        journal = Journal(tmp_path / "journal")
        journal.append(one, Policy.OFF)
        journal.close()

    class Keeper(Noted):
        def __init__(self) -> None:
            super().__init__()
            self.refuses = True
            self.asked = 0
            self.often = asyncio.Event()

        async def keep_state(self) -> None:
            self.asked += 1
            if self.asked == 3:
                self.often.set()
            if self.refuses:
                raise OSError("the disk is full")

    async def main() -> None:
        dropped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def drop(journal: Journal, lake: int, config: Config) -> list[int]:
            found = drop_expired(journal, lake, config)
            loop.call_soon_threadsafe(dropped.set)
            return found

        monkeypatch.setattr("penstock.services.journal.drop_expired", drop)
        keeper = Keeper()
        given = {"journal.max_bytes": 1, "journal.keep_until_in_lake": False}
        async with serving(tmp_path, adapter_set({"ADAPTER": keeper}, {}), **given):
            reader = JournalReader(tmp_path / "journal")
            await keeper.often.wait()
            assert (reader.earliest(), dropped.is_set()) == (1, False)
            keeper.refuses = False
            await dropped.wait()
            assert reader.earliest() == 4

    asyncio.run(asyncio.wait_for(main(), 60))
