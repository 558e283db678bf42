"""Histories of which the lake has a part: in order, each event once, while more of them is moved there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.journal.journal import JournalSettings
from penstock.pipeline.lake import Lake
from tests.doors.ditto.world import THING, World, command, kind, revisions, running
from tests.history import world as history


class Mover(history.World):
    """The job that moves events to the lake, and the retention that drops them, on the journal of another world."""

    def __init__(self, directory: Path, world: World) -> None:
        self.path, self.root = directory / "journal", directory / "lake"
        self.journal, self.lake = world.journal, Lake(directory / "lake")

    def all(self) -> None:
        self.move()
        assert self.drop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path, JournalSettings(segment_bytes=20_000, interval_millis=1)) as found:
        yield found


def grow(world: World, events: int) -> None:
    """Events of the thing, the last of which the registry has seen."""
    world.journaled(events - 1)
    assert world.connect().command("modify", "/attributes/counter", -1)["status"] == 204


def test_a_history_goes_on_from_the_lake_into_the_journal_while_it_is_being_moved(tmp_path: Path, world: World) -> None:
    mover = Mover(tmp_path, world)
    world.make()
    grow(world, 700)
    mover.all()
    grow(world, 700)
    peer = world.connect()
    number = peer.subscribe()
    seen = revisions(peer.request(number, 300))
    mover.all()
    seen += revisions(peer.request(number, 500))
    # No longer of this history, but it makes the journal drop what is.
    grow(world, 700)
    mover.all()
    *items, end = peer.request(number, 9_999)
    assert seen + revisions(items) == list(range(1, 1_402))
    assert kind(end) == "complete"


def test_ranges_filters_and_the_past_are_answered_from_the_lake(tmp_path: Path, world: World) -> None:
    world.make()
    grow(world, 900)
    Mover(tmp_path, world).all()
    grow(world, 100)
    peer = world.connect()
    assert peer.read(fromHistoricalRevision=40, toHistoricalRevision=44) == [40, 41, 42, 43, 44]
    assert peer.read(fromHistoricalRevision=-3) == [999, 1000, 1001]
    assert peer.read(filter="eq(attributes/counter,7)") == [9, 909]
    was = peer.ask(command("retrieve", "/attributes/counter", headers={"at-historical-revision": 12}))
    assert was["value"] == 10


def test_the_history_of_a_policy_is_in_the_lake_too(tmp_path: Path, world: World) -> None:
    world.make()
    peer = world.connect()
    entry = peer.command("retrieve", "/entries/DEFAULT", id=THING, group="policies")["value"]
    for _ in range(4):
        assert peer.command("modify", "/entries/MORE", entry, THING, "policies")["status"] in (201, 204)
    grow(world, 900)
    Mover(tmp_path, world).all()
    assert peer.command("modify", "/entries/MORE", entry, THING, "policies")["status"] == 204
    assert peer.read(id=f"policy {THING}") == [1, 2, 3, 4, 5, 6]
