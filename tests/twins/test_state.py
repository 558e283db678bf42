"""A saved state that is lost, or too old for the journal, is made again from the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from penstock.doors.ditto.change_log import JournalChangeLog
from penstock.doors.ditto.saved_state import records_after
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader
from penstock.journal.retention import Retention
from penstock.pipeline.maintenance import retain
from penstock.twins import milestone
from penstock.twins.decision import Result
from penstock.twins.names import EntityKey, TwinNames, policy_key, thing_key
from penstock.twins.reasons import TwinRefusal
from penstock.twins.registry import Twins
from penstock.twins.state import Rebuilt, TwinsState, rebuilt
from penstock.wire.ditto.twin import Command
from tests.history.world import World as Storage
from tests.twins.world import LONG, NOON, OWNER, POLICY, POLICY_DOCUMENT, SECOND, asked, command, policy_command

NAMES = TwinNames()
DAY = 86_400 * SECOND
# Everything that may be dropped.
_ALL = Retention(max_bytes=0)


class Server:
    """Twins on a journal of small segments, and its lake."""

    def __init__(self, directory: Path) -> None:
        self.storage = Storage(directory, segment_bytes=4_000)
        self.now = NOON
        self.faults: list[EntityKey] = []
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.twins = self.made()
        self.ask(policy_command("create", value=POLICY_DOCUMENT))

    def made(self) -> Twins:
        change_log = JournalChangeLog(self.storage.journal, self._calls.put)
        return Twins(change_log, lambda: self.now, self.faults.append)

    def ask(self, given: Command) -> None:
        self.now += SECOND
        results: list[Result | TwinRefusal] = []
        self.twins.submit(asked(given), OWNER, results.append)
        while not results:
            self._calls.get(timeout=LONG)()
        assert isinstance(results[0], Result), results

    def change(self, id: str, count: int) -> None:
        if self.twins.thing(id) is None:
            self.ask(command("create", value={"policyId": POLICY}, id=id))
        for number in range(count):
            self.ask(command("modify", f"/attributes/{number % 3}", {"number": number}, id=id))

    def forget(self) -> None:
        """What the job `history` and retention do."""
        self.storage.move()
        assert self.storage.drop()

    def rebuilt(self, old: TwinsState | None = None) -> Rebuilt:
        return rebuilt(self.storage.history, NAMES, old or TwinsState(), self.storage.journal.committed)

    def thing(self, id: str) -> Any:
        return self.twins.thing(id)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(milestone, "EVERY", 16)
    made = Server(tmp_path)
    yield made
    made.storage.close()


def test_a_lost_state_is_made_again_from_lake_and_journal(server: Server) -> None:
    server.change("ns:one", 40)
    server.change("ns:gone", 20)
    server.ask(command("delete", id="ns:gone"))
    server.change("ns:again", 20)
    server.ask(command("delete", id="ns:again"))
    server.forget()
    server.change("ns:again", 2)
    server.change("ns:one", 3)
    server.change("ns:new", 1)
    server.storage.append([("SET/ADAPTER/item", NOON, "{}"), ("DITTO/THINGS/no identifier", NOON, "{}")])
    with pytest.raises(Expired):
        list(records_after(JournalReader(server.storage.path), NAMES, 0))
    found = server.rebuilt()
    assert found == Rebuilt(server.twins.capture(), {})
    assert set(found.state.twins) == {
        NAMES.entity(policy_key(POLICY)),
        *(NAMES.entity(thing_key(id)) for id in ("ns:one", "ns:again", "ns:new")),
    }
    other = server.made()
    other.restore(found.state, ())
    assert other.thing("ns:one") == server.thing("ns:one")
    assert other.thing("ns:gone") is None


def test_an_old_state_is_where_it_begins(server: Server) -> None:
    server.change("ns:one", 5)
    server.change("ns:gone", 5)
    server.change("ns:quiet", 1)
    old = server.twins.capture()
    server.change("ns:one", 5)
    server.ask(command("delete", id="ns:gone"))
    server.forget()
    assert server.rebuilt(old) == Rebuilt(server.twins.capture(), {})


def test_a_registry_that_was_begun_with_an_old_state_forgets_it(server: Server) -> None:
    server.change("ns:gone", 1)
    old = server.twins.capture()
    server.ask(command("delete", id="ns:gone"))
    server.change("ns:one", 40)
    server.forget()
    other = server.made()
    with pytest.raises(Expired):
        other.restore(old, records_after(JournalReader(server.storage.path), NAMES, old.sequence))
    other.restore(server.rebuilt(old).state, ())
    assert other.thing("ns:gone") is None
    assert other.capture() == server.twins.capture()


def test_without_the_lake_it_is_refused(server: Server) -> None:
    server.change("ns:one", 40)
    server.change("ns:one", 40)
    assert server.storage.journal.retain(_ALL, server.storage.journal.committed)
    with pytest.raises(Expired):
        server.rebuilt()


def test_a_beginning_that_the_lake_has_dropped_needs_a_milestone(server: Server) -> None:
    server.change("ns:long", 20)
    server.change("ns:short", 5)
    server.now += 30 * DAY
    server.change("ns:long", 20)
    server.change("ns:short", 5)
    server.ask(policy_command("modify", "/entries/OWNER/subjects/nginx:x", {"type": "x"}))
    server.forget()
    assert retain(server.storage.lake, 10, server.now)
    found = server.rebuilt()
    expected = server.twins.capture().twins
    long = NAMES.entity(thing_key("ns:long"))
    assert found.state.twins == {long: expected[long]}
    # Of the others it is told how far they had come.
    assert found.unknown == {NAMES.entity(thing_key("ns:short")): 11, NAMES.entity(policy_key(POLICY)): 2}
