from __future__ import annotations

import contextlib
from random import Random

import pytest

from penstock.doors.ditto.saved_state import BATCH_TWINS, NAME, PREVIOUS, VERSION, load_state, records_after, save_state
from penstock.journal.errors import Expired
from penstock.journal.journal import Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.testing.disk import FakeDisk, PowerCut
from penstock.twins.names import TwinNames, policy_key, thing_key
from penstock.twins.state import TwinsState
from penstock.twins.twin import Twin
from tests.twins.world import NOON, POLICY, POLICY_DOCUMENT, THING, Gate, World, command, policy_command

NAMES = TwinNames()


def state(sequence: int, count: int = 3) -> TwinsState:
    twins = {
        NAMES.entity(thing_key(f"ns:t{n}")): Twin({"thingId": f"ns:t{n}", "attributes": {"ü": [n, None, 1.5]}}, n, 1, 2)
        for n in range(count)
    }
    return TwinsState(sequence, twins)


def test_a_state_is_read_as_it_was_written() -> None:
    disk = FakeDisk()
    assert load_state(disk) == TwinsState()
    for given in (TwinsState(), state(7), state(9, BATCH_TWINS), state(9, BATCH_TWINS + 1)):
        save_state(disk, given)
        assert load_state(disk) == given


def test_a_state_of_another_version_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FakeDisk()
    save_state(disk, state(1))
    monkeypatch.setattr("penstock.doors.ditto.saved_state.VERSION", VERSION + 1)
    assert load_state(disk) == TwinsState()


@pytest.mark.parametrize("bit", [0, 8 * 20, -9])
def test_a_damaged_state_is_the_one_before(bit: int) -> None:
    disk = FakeDisk()
    save_state(disk, state(1))
    save_state(disk, state(2))
    disk.flip(NAME, bit if bit >= 0 else 8 * disk.size(NAME) + bit)
    assert load_state(disk) == state(1)
    disk.cut(PREVIOUS, 10)
    assert load_state(disk) == TwinsState()


def test_a_power_cut_while_it_is_written_leaves_an_old_or_the_new_one() -> None:
    def operations() -> FakeDisk:
        disk = FakeDisk()
        save_state(disk, state(1))
        save_state(disk, state(2))
        return disk

    first = len(operations().operations)
    seen = set()
    for cut_at in range(first, first + 12):
        for seed in range(6):
            disk = operations()
            disk.power_cut_at = cut_at
            with contextlib.suppress(PowerCut):
                save_state(disk, state(3))
            found = load_state(disk.cut_power(Random(seed)))
            assert found in (state(1), state(2), state(3))
            seen.add(found.sequence)
    assert {2, 3} <= seen


def test_a_start_reads_only_what_came_after_the_state() -> None:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 1}}))
    # What others journal is stepped over, and so is what nobody knows.
    others = Columns()
    others.add("SET/ADAPTER/item", NOON, "update", "", '{"a":"1"}')
    others.add(NAMES.entity(thing_key("ns:odd")), NOON, "created", "/", "{not json")
    others.add(NAMES.entity(thing_key("ns:odd")), NOON, "modified", "/nonsense", "1")
    others.add(NAMES.entity(thing_key("ns:odd")), NOON, "modified", "/attributes/x", "1")
    others.add(NAMES.entity(thing_key("ns:odd")), NOON, "deleted", "/", "1")
    others.add("DITTO/THINGS/no identifier", NOON, "created", "/", "{}")
    receipt = world.journal.append(others, Policy.ACK)
    assert receipt.done is not None
    receipt.done.result(30)
    world.save()
    saved = load_state(world.disk)
    assert saved.sequence == 8
    assert set(saved.twins) == {NAMES.entity(thing_key(THING)), NAMES.entity(policy_key(POLICY))}
    world.ask(command("modify", "/attributes/n", 2))
    after = list(records_after(JournalReader(world.disk), NAMES, saved.sequence))
    assert [(record.sequence, record.revision, record.value) for record in after] == [(9, 2, "2")]
    whole = list(records_after(JournalReader(world.disk), NAMES, 0))
    assert [record.sequence for record in whole] == [1, 2, 4, 5, 6, 7, 8, 9]
    before = world.twins.thing(THING)
    world.restart()
    assert world.twins.thing(THING) == before
    assert world.twins.lines.skipped_records == 0
    world.disk.remove(NAME)
    world.restart()
    assert world.twins.thing(THING) == before
    assert world.twins.thing("ns:odd") is None
    assert world.twins.lines.skipped_records == 4
    world.close()


def test_a_state_that_is_taken_while_something_waits_is_that_of_the_disk() -> None:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 1}}))
    gate = Gate(world.disk)
    waiting = world.begin(command("modify", "/attributes/n", 2))
    taken = world.twins.capture()
    assert taken.sequence == 2
    assert taken.twins[NAMES.entity(thing_key(THING))].document["attributes"] == {"n": 1}
    gate.open()
    # The journal has it, and the registry has not heard of it yet.
    world.journal.flush().result(30)
    assert world.journal.committed == 3
    assert world.twins.capture() == taken
    world.turn()
    assert waiting.status == 204
    save_state(world.disk, taken)
    world.restart()
    assert world.ask(command("retrieve", "/attributes/n")).value == 2
    world.close()


def test_a_state_that_is_saved_right_after_a_start_misses_nothing() -> None:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"n": 1}}))
    world.restart()
    world.save()
    world.ask(command("modify", "/attributes/n", 2))
    world.restart()
    assert world.ask(command("retrieve", "/attributes/n")).value == 2
    world.close()


def test_what_retention_has_dropped_is_missed_and_not_forgotten() -> None:
    disk = FakeDisk()
    world = World(disk)
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.restart()
    world.ask(policy_command("delete"))
    world.close()
    first = min(name for name in disk.names() if name.endswith(".segment"))
    disk.remove(first)
    with pytest.raises(Expired):
        list(records_after(JournalReader(disk), NAMES, 0))
