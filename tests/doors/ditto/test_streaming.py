"""How histories are read for subscriptions: in batches, ahead by one, and no further than the socket takes them."""

from __future__ import annotations

import pytest

from penstock.doors.ditto import streaming as door
from penstock.doors.ditto.past import PastRow
from penstock.wire.ditto.subscriptions import IDLE_SECONDS
from tests.doors.ditto.world import THING, failure, kinds, revisions
from tests.doors.ditto.world_memory import Batches, MemoryWorld, event


@pytest.fixture
def world() -> MemoryWorld:
    found = MemoryWorld()
    found.port.lengths[THING] = 10
    return found


def test_nothing_is_read_before_the_first_request(world: MemoryWorld) -> None:
    world.connect().subscribe()
    assert world.port.opened == []


def test_no_more_is_read_than_one_batch_ahead(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    peer.request(number, 1)
    (history,) = world.port.opened
    assert history.read == 1
    peer.request(number, 1)
    assert history.read == 1
    peer.request(number, 1)
    assert history.read == 2
    assert peer.hear() == []


def test_a_demand_that_ends_within_a_batch_goes_on_within_it(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    found = [revisions(peer.request(number, demand)) for demand in (2, 2, 3)]
    assert found == [[1, 2], [3, 4], [5, 6, 7]]


@pytest.mark.parametrize("size", [1, 2, 3, 9, 10, 11])
def test_the_end_is_known_with_the_last_item_wherever_batches_end(size: int) -> None:
    world = MemoryWorld(size)
    world.port.lengths[THING] = 10
    peer = world.connect()
    assert kinds(peer.request(peer.subscribe(), 10)) == ["next"] * 10 + ["complete"]


def test_while_the_socket_is_full_nothing_is_sent_or_read_and_then_it_goes_on(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    peer.request(number, 1)
    (history,) = world.port.opened
    peer.connection.set_writable(False)
    assert peer.request(number, 9) == []
    assert history.read == 1
    peer.connection.set_writable(True)
    assert kinds(peer.hear()) == ["next"] * 9 + ["complete"]


def test_a_full_socket_is_no_history_that_cannot_be_found(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    peer.connection.set_writable(False)
    peer.request(number, 1)
    world.advance(door.FIRST_SECONDS * 2)
    assert peer.hear() == []
    peer.connection.set_writable(True)
    assert revisions(peer.hear()) == [1]


def test_items_are_sent_in_parts_so_that_others_have_their_turn(
    world: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "SOME_BYTES", 1)
    world.port.size = 10
    peer = world.connect()
    one, other = peer.subscribe(), peer.subscribe()
    world.work.turns = 0
    peer.request(one, 10)
    peer.request(other, 10)
    world.work.turns = None
    senders = [message["value"]["subscriptionId"] for message in peer.hear()]
    assert senders[:6] == [one, other] * 3


def test_items_are_sent_at_most_so_many_at_once(world: MemoryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "SOME_ITEMS", 4)
    world.port.size = 10
    peer = world.connect()
    number = peer.subscribe()
    world.work.turns = 2
    assert revisions(peer.request(number, 10)) == [1, 2, 3, 4]
    world.work.turns = None
    assert kinds(peer.hear()) == ["next"] * 6 + ["complete"]


def test_a_search_that_takes_long_is_no_silence(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe(filter="exists(attributes/rare)")
    world.work.turns = 1
    peer.request(number, 1)
    world.work.turns = 0
    for _ in range(3):
        world.advance(IDLE_SECONDS)
    assert peer.hear() == []
    world.work.turns = None
    assert revisions(peer.hear()) == [1]


def test_a_history_whose_first_events_do_not_come_fails(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    world.work.turns = 1
    peer.request(number, 1)
    world.work.turns = 0
    world.advance(door.FIRST_SECONDS)
    assert failure(peer.hear()) == (500, "internalerror")
    (history,) = world.port.opened
    assert history.closed
    world.work.turns = None
    assert peer.hear() == []


def test_what_goes_wrong_when_a_history_is_looked_for_is_told_by_a_number(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    world.port.fault = RuntimeError("the disk is gone")
    (failed,) = peer.request(number, 1)
    assert failure([failed]) == (500, "internalerror")
    assert "the disk" not in str(failed)
    assert failed["value"]["error"]["description"]
    world.port.fault = None
    assert revisions(peer.request(peer.subscribe(), 1)) == [1]


class Torn(Batches):
    """A history of which only the first batch can be read."""

    async def next(self) -> list[PastRow] | None:
        if self.read:
            raise RuntimeError("the file is damaged")
        return await super().next()


def test_what_goes_wrong_in_the_midst_of_a_history_ends_it(world: MemoryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    torn = Torn([event(number) for number in range(1, 7)], 3)

    async def history_of(*_: object) -> Batches:
        return torn

    monkeypatch.setattr(world.port, "history_of", history_of)
    peer = world.connect()
    *items, failed = peer.request(peer.subscribe(), 5)
    assert revisions(items) == [1, 2, 3]
    assert failure([failed]) == (500, "internalerror")
    assert torn.closed


def test_a_history_is_let_go_when_it_is_over_cancelled_or_its_socket_gone(world: MemoryWorld) -> None:
    peer = world.connect()
    over, cancelled, gone = (peer.subscribe() for _ in range(3))
    peer.request(over, 99)
    peer.request(cancelled, 1)
    peer.cancel(cancelled)
    peer.request(gone, 1)
    assert [history.closed for history in world.port.opened] == [True, True, False]
    peer.connection.lost()
    assert world.port.opened[2].closed


def test_a_history_that_is_found_after_its_socket_has_gone_is_let_go(world: MemoryWorld) -> None:
    peer = world.connect()
    number = peer.subscribe()
    world.work.turns = 0
    peer.request(number, 1)
    peer.connection.lost()
    world.work.turns = None
    assert peer.hear() == []
    (history,) = world.port.opened
    assert history.closed
