"""Hubs that are active one after the other, in processes that are killed and frozen, with a journal that both reach."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

import msgspec
import pytest
from sqlalchemy import create_engine, text

from penstock.cluster.tenure import Tenure, patient_url
from penstock.config.schema.cluster import ClusterSection
from penstock.journal.reader import JournalReader
from penstock.store.hub_lease import HubHolder
from tests.journal.world import rows_of
from tests.store.postgres import Postgres

pytestmark = pytest.mark.timeout(300)

# Short, and long enough for a machine that is busy with other tests.
LEASE_MILLIS = 4_000

# Seconds for what takes a few, on such a machine.
PATIENCE = 90.0


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class HubProcess:
    """A process of `tests.cluster.hub_process`; its lines are read on a thread."""

    def __init__(self, url: str, node: str, journal: Path, lease_millis: int) -> None:
        arguments = [url, node, str(journal), str(lease_millis)]
        command = [sys.executable, "-m", "tests.cluster.hub_process", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: Queue[str] = Queue()
        # Sequences that the journal has acknowledged, and entries that the database has.
        self.wrote: list[int] = []
        self.stored: list[str] = []
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "wrote" and line.endswith("\n"):
                self.wrote.append(int(rest))
            elif word == "stored" and line.endswith("\n"):
                self.stored.append(rest)
            else:
                self.lines.put(line.strip())

    def until(self, word: str) -> str:
        """What follows that word."""
        while True:
            found, _, rest = self.lines.get(timeout=PATIENCE).partition(" ")
            if found == word:
                return rest

    def until_written(self) -> None:
        """Something more than now."""
        before = len(self.wrote)
        wait_for(lambda: len(self.wrote) > before)

    def until_stored(self) -> None:
        """Something more than now."""
        before = len(self.stored)
        wait_for(lambda: len(self.stored) > before)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def hubs(
    postgres: Postgres, journal: Path, *names: str, lease_millis: int = LEASE_MILLIS
) -> Iterator[list[HubProcess]]:
    made = []
    try:
        for name in names:
            made.append(HubProcess(postgres.url, name, journal, lease_millis))
            # One after the other: the first is active.
            if len(made) == 1:
                made[0].until_written()
        yield made
    finally:
        for each in made:
            each.kill()


def check(postgres: Postgres, journal: Path, *made: HubProcess) -> None:
    """Everything that was acknowledged is there once, in order, and nobody wrote in another's time."""
    engine = create_engine(postgres.url)
    with engine.connect() as connection:
        # In the order in which they were written.
        entries = connection.execute(text("SELECT id, ended FROM session_logs ORDER BY ctid")).all()
    engine.dispose()
    written = [entry.ended for entry in entries]
    assert written == sorted(written)
    for each in made:
        assert set(each.stored) <= {entry.id for entry in entries}
    reader = JournalReader(journal)
    found = rows_of(reader.read())
    assert reader.damages == []
    numbers = [row[0] for row in found]
    assert numbers == sorted(set(numbers))
    for each in made:
        assert set(each.wrote) <= set(numbers)
    epochs = [int(row[3] or 0) for row in found]
    assert epochs == sorted(epochs)


def test_a_standby_takes_over_from_a_hub_that_was_killed(postgres: Postgres, tmp_path: Path) -> None:
    with hubs(postgres, tmp_path / "journal", "one", "two") as (first, second):
        epoch = int(first.until("active"))
        first.kill()
        began = time.monotonic()
        assert int(second.until("active")) > epoch
        assert time.monotonic() - began < LEASE_MILLIS / 1000 + 10
        second.until_written()
    check(postgres, tmp_path / "journal", first, second)


def test_an_old_owner_that_wakes_up_writes_nothing_more_and_stands_by(postgres: Postgres, tmp_path: Path) -> None:
    with hubs(postgres, tmp_path / "journal", "one", "two") as (first, second):
        epoch = int(first.until("active"))
        for _ in range(2):
            first.send(signal.SIGSTOP)
            epoch, before = int(second.until("active")), epoch
            assert epoch > before
            second.until_written()
            second.until_stored()
            first.send(signal.SIGCONT)
            first.until("ended")
            second.until_written()
            # The one that woke up is the standby now.
            first, second = second, first
    check(postgres, tmp_path / "journal", first, second)


def test_two_hubs_of_the_same_name_are_one_after_the_other(postgres: Postgres, tmp_path: Path) -> None:
    with hubs(postgres, tmp_path / "journal", "same", "same") as (first, second):
        first.until("active")
        first.until_written()
        assert second.lines.empty()
        first.kill()
        second.until("active")
    check(postgres, tmp_path / "journal", first, second)


def test_a_database_that_is_restarted_costs_nobody_the_lease(postgres: Postgres, tmp_path: Path) -> None:
    # To start a database takes seconds on a busy machine.
    lease_millis = 4 * LEASE_MILLIS
    with hubs(postgres, tmp_path / "journal", "one", "two", lease_millis=lease_millis) as (first, second):
        first.until("active")
        postgres.stop()
        postgres.start()
        deadline = time.monotonic() + 1.2 * lease_millis / 1000
        while time.monotonic() < deadline:
            first.until_written()
        assert first.lines.empty()
        assert second.lines.empty()
    check(postgres, tmp_path / "journal", first, second)


def test_without_its_database_a_hub_ends_in_time_and_one_is_active_when_it_is_back(
    postgres: Postgres, tmp_path: Path
) -> None:
    with hubs(postgres, tmp_path / "journal", "one", "two") as made:
        made[0].until("active")
        postgres.stop()
        began = time.monotonic()
        made[0].until("ended")
        assert time.monotonic() - began < LEASE_MILLIS / 1000 + 10
        postgres.start()
        wait_for(lambda: any(each.lines.queue and each.lines.queue[-1].startswith("active") for each in made))
    check(postgres, tmp_path / "journal", *made)


def section(postgres: Postgres) -> ClusterSection:
    return ClusterSection(role="hub", nats=("nats://h:1",), store=postgres.url, lease_millis=LEASE_MILLIS)


def test_a_hub_that_stops_in_good_order_is_followed_at_once(postgres: Postgres) -> None:
    async def scenario() -> None:
        ended: list[str] = []
        first, second = (Tenure(section(postgres), "hub", run, ended.append) for run in ("1", "2"))
        epoch = await first.take()
        assert first.is_owner()
        waiting = asyncio.ensure_future(second.take())
        done, _ = await asyncio.wait([waiting], timeout=1.5)
        assert not done
        began = time.monotonic()
        await first.close()
        assert await waiting > epoch
        assert time.monotonic() - began < LEASE_MILLIS / 1000
        assert (first.is_owner(), second.is_owner()) == (False, True)
        await second.close()
        assert ended == []

    asyncio.run(scenario())


class CountedTenure(Tenure):
    """Knows how often it has asked the database."""

    attempts = 0

    def _take(self) -> HubHolder | None:
        self.attempts += 1
        return super()._take()


def test_a_database_that_is_not_there_yet_is_waited_for_and_told_of_once(
    postgres: Postgres, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.tenure.LONGEST_LOOK", 0.05)
    caplog.set_level("INFO")
    postgres.stop()

    async def scenario() -> None:
        tenure = CountedTenure(section(postgres), "hub", "1", lambda why: None)
        waiting = asyncio.ensure_future(tenure.take())
        await asyncio.to_thread(wait_for, lambda: tenure.attempts > 5)
        assert caplog.messages.count("the database of the hub's lease does not answer") == 1
        await asyncio.to_thread(postgres.start)
        await waiting
        assert caplog.messages.count("the database of the hub's lease answers again") == 1
        await tenure.close()

    asyncio.run(scenario())


def test_a_lease_that_is_not_renewed_is_told_of_once_and_again_when_it_is(
    postgres: Postgres, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.tenure.RENEWED_AFTER", 0.001)
    monkeypatch.setattr("penstock.cluster.tenure.RETRY_SECONDS", 0.05)
    caplog.set_level("INFO")
    lost = "the hub's lease is not renewed"

    async def scenario() -> None:
        ended: list[str] = []
        # Longer than a database takes to start on a busy machine.
        patient = msgspec.structs.replace(section(postgres), lease_millis=120_000)
        tenure = Tenure(patient, "hub", "1", ended.append)
        await tenure.take()
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(wait_for, lambda: lost in caplog.messages)
        await asyncio.to_thread(postgres.start)
        await asyncio.to_thread(wait_for, lambda: "the hub's lease is renewed again" in caplog.messages)
        told = [record.fields["reason"] for record in caplog.records if record.getMessage() == lost]  # type: ignore[attr-defined]
        assert len(told) == len(set(told))
        assert ended == []
        await tenure.close()

    asyncio.run(scenario())


def test_no_call_of_the_database_lasts_for_ever_and_what_the_url_says_comes_first() -> None:
    made = ClusterSection(store="postgresql+psycopg://me:pw@host/name?connect_timeout=1", lease_millis=10_000)
    url = patient_url(made)
    assert url.startswith("postgresql+psycopg://me:pw@host/name?")
    assert "connect_timeout=1&" in url
    assert "statement_timeout" in url
