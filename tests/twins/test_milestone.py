"""Milestones: what was at some moment is found from a few records, and is the same as by folding all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from penstock.doors.ditto.answers import error_of
from penstock.doors.ditto.change_log import JournalChangeLog
from penstock.doors.ditto.saved_state import records_after
from penstock.history.reader import History
from penstock.journal.disk import DirectoryDisk
from penstock.journal.reader import JournalReader
from penstock.testing.disk import FakeDisk
from penstock.twins import lines, milestone
from penstock.twins.history import PastMoment, last_state
from penstock.twins.milestone import HEADER, milestone_in, places, with_milestone
from penstock.twins.names import policy_key, thing_key
from penstock.twins.reasons import TwinRefusal
from penstock.twins.record import Record
from penstock.twins.registry import Twins
from penstock.twins.state import TwinsState
from penstock.twins.twin import Change, Twin, change_of
from penstock.wire.ditto.document import text_of
from penstock.wire.ditto.kinds import EntityGroup
from tests.twins.world import NOON, POLICY, POLICY_DOCUMENT, SECOND, THING, World, command, policy_command

KEY = thing_key(THING)
TWIN = Twin({"thingId": THING, "attributes": {"ü": [1, None, 2.5]}}, 7, NOON, NOON + 1)


@pytest.fixture
def every(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(milestone, "EVERY", 4)
    return 4


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """On a real disk: histories are read from files."""
    made = World(cast(FakeDisk, DirectoryDisk(tmp_path / "journal", make=True)), kept=("kept",))
    made.ask(policy_command("create", value=POLICY_DOCUMENT))
    yield made
    made.close()


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "journal", tmp_path / "lake")


def records(world: World, group: EntityGroup = EntityGroup.THINGS, id: str = THING) -> list[Record]:
    entity = world.entity(id, group)
    return [record for record in world.records() if record.entity == entity]


def test_only_some_records_carry_one(every: int) -> None:
    for revision in range(1, 20):
        told = with_milestone({"a": 1}, revision, TWIN)
        assert (HEADER in told) is (revision % every == 0)
        assert milestone_in(text_of(told)) == (TWIN if HEADER in told else None)
        assert with_milestone({"a": 1}, revision, None) == {"a": 1}
    assert list(places(3)) == []
    assert list(places(4)) == [4]
    assert list(places(47)) == [44, 40, 32, 16]
    assert list(places(28)) == [28, 24, 16]


BROKEN = [f'"{HEADER}"', f'{{"{HEADER}":{{"revision":1}}}}', f'{{"{HEADER}']


@pytest.mark.parametrize("headers", [None, "{}", "[]", *BROKEN])
def test_headers_without_one_or_with_a_broken_one_have_none(headers: str | None) -> None:
    assert milestone_in(headers) is None


def test_a_milestone_stands_beside_headers_that_are_kept(world: World, every: int) -> None:
    world.ask(command("create", value={"policyId": POLICY}))
    for number in range(2, 6):
        world.ask(command("modify", "/attributes/n", number, headers={"kept": "yes", "other": "no"}))
    kept = [record.headers for record in records(world)]
    document = {"thingId": THING, "policyId": POLICY, "attributes": {"n": 3}}
    told = text_of({"kept": "yes", HEADER: Twin(document, 3, NOON + 2 * SECOND, NOON + 4 * SECOND)})
    assert kept == [None, '{"kept":"yes"}', '{"kept":"yes"}', told, '{"kept":"yes"}']


def random_command(random: Random, is_there: bool) -> Any:
    if not is_there:
        return command("create", value={"policyId": POLICY, "attributes": {"n": random.randrange(9)}})
    kind = random.randrange(8)
    if kind == 0:
        return command("delete")
    if kind == 1:
        return command("merge", "/", {"attributes": {random.choice("nmo"): random.choice((None, 1, {"a": 2}))}})
    return command("modify", f"/attributes/{random.choice('nmo')}", random.randrange(9))


@pytest.mark.parametrize("seed", range(3))
def test_every_moment_is_what_all_records_say(world: World, history: History, every: int, seed: int) -> None:
    random = Random(seed)
    for _ in range(16):
        # Some at once: then a milestone tells of a state before those that are not on the disk yet.
        waiting = []
        for _ in range(random.randrange(1, 7)):
            waiting.append(world.begin(random_command(random, world.twins.lines.head(KEY) is not None)))
            if random.random() < 0.1:
                # A clock that is set back.
                world.now -= random.randrange(9) * SECOND
        while any(not answer.results for answer in waiting):
            world.turn()
    whole = records(world)
    entity = world.entity(THING)
    assert sum(milestone_in(record.headers) is not None for record in whole) > 5
    moments = [PastMoment(revision=record.revision) for record in whole]
    moments += [PastMoment(before=(record.timestamp + step) * 1000) for record in whole for step in (-1, 0, 1)]
    for moment in moments:
        assert found(moment.find, history, KEY, entity) == found(moment.twin, KEY, whole), moment
    last = last_state(history, KEY, entity, whole[-1].revision)
    assert last == (world.twins.thing(THING), True)


def found(look: Callable[..., Twin], *arguments: Any) -> Twin | int:
    try:
        return look(*arguments)
    except TwinRefusal as refusal:
        return error_of(refusal).status


def test_the_past_of_a_policy_is_found_as_well(world: World, history: History, every: int) -> None:
    for number in range(9):
        subject = {"type": str(number)}
        world.ask(policy_command("modify", f"/entries/OWNER/subjects/nginx:s{number}", subject))
    whole = records(world, EntityGroup.POLICIES, POLICY)
    assert milestone_in(whole[7].headers) is not None
    for record in whole:
        moment = PastMoment(revision=record.revision)
        key = policy_key(POLICY)
        assert moment.find(history, key, world.entity(POLICY, EntityGroup.POLICIES)) == moment.twin(key, whole)


def test_few_records_are_read_of_a_long_history(
    world: World, history: History, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ask(command("create", value={"policyId": POLICY}))
    for number in range(200):
        world.ask(command("modify", "/attributes/n", number))
    read = 0
    reading = history.read

    def counting(*arguments: Any, **more: Any) -> Iterator[Any]:
        nonlocal read
        for table in reading(*arguments, **more):
            read += table.num_rows
            yield table

    monkeypatch.setattr(history, "read", counting)
    twin = PastMoment(revision=199).find(history, KEY, world.entity(THING))
    assert twin.document["attributes"] == {"n": 197}
    assert 0 < read <= 2 * every
    read = 0
    assert PastMoment(before=twin.modified * 1000 + 1).find(history, KEY, world.entity(THING)) == twin
    assert 0 < read <= 2 * every


def test_a_journal_without_milestones_is_read_from_its_beginning(
    world: World, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ask(command("create", value={"policyId": POLICY}))
    for number in range(20):
        world.ask(command("modify", "/attributes/n", number))
    monkeypatch.setattr(milestone, "EVERY", 2)
    assert PastMoment(revision=19).find(history, KEY, world.entity(THING)).document["attributes"] == {"n": 17}


@pytest.mark.parametrize("most", [1, 3, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_a_start_that_folds_from_milestones_finds_what_there_was(
    world: World, every: int, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(lines, "MAX_WAITING_RECORDS", most)
    random = Random(seed)
    states: list[TwinsState] = []
    for _ in range(12):
        waiting = []
        for _ in range(random.randrange(1, 7)):
            waiting.append(world.begin(random_command(random, world.twins.lines.head(KEY) is not None)))
        while any(not answer.results for answer in waiting):
            # Also while some of them wait: a milestone may be older than that.
            states.append(world.twins.capture())
            world.turn()
    expected = world.twins.capture()
    change_log = JournalChangeLog(world.journal, world.calls.put)
    for state in (TwinsState(), *states):
        other = Twins(change_log, lambda: world.now, world.faults.append, world.settings)
        other.restore(state, records_after(JournalReader(world.disk), world.settings.names, state.sequence))
        assert other.capture() == expected


def test_a_start_after_many_changes_folds_few(world: World, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ask(command("create", value={"policyId": POLICY}))
    for number in range(200):
        world.ask(command("modify", "/attributes/n", number))
    folded: list[Record] = []

    def counting(group: EntityGroup, record: Record) -> Change | None:
        folded.append(record)
        return change_of(group, record)

    monkeypatch.setattr(lines, "change_of", counting)
    before = world.twins.thing(THING)
    world.restart()
    assert world.twins.thing(THING) == before
    assert 0 < len(folded) <= 2 * every
