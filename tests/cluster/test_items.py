"""Items over a fabric, rule by rule: what a client of an edge is told when something is late, lost or another's."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest

from penstock.cluster import owner as owner_rules
from penstock.cluster import reader as reader_rules
from penstock.kernel.item import Mode
from penstock.kernel.ports import Event, ItemGrant
from penstock.testing import Peer
from penstock.wire.fabric.messages import (
    Alive,
    Happened,
    Happening,
    HubBeat,
    Interest,
    NoItem,
    Picture,
    Release,
    decode,
)
from tests.cluster.plant import EdgeNode, Parcel, Plant

# How many bytes a test has looked at.
_READ: WeakKeyDictionary[Peer, int] = WeakKeyDictionary()

MODES = {"m": Mode.MERGE, "d": Mode.DISTINCT, "c": Mode.COMMAND}


@pytest.fixture
def plant() -> Plant:
    plant = Plant(MODES)
    plant.add_edge("e1")
    plant.settle()
    return plant


@pytest.fixture
def edge(plant: Plant) -> EdgeNode:
    return plant.edges["e1"]


@pytest.fixture
def peer(edge: EdgeNode) -> Peer:
    return edge.client()


def told(peer: Peer) -> list[str]:
    """Lines about items since the last time."""
    lines = peer.channel.data[_READ.get(peer, 0) :].decode().split("\r\n")
    _READ[peer] = len(peer.channel.data)
    return [line for line in lines if line.split(",")[0] in ("U", "EOS", "CS", "OV", "UNSUB")]


def beat(plant: Plant, count: int = 1) -> None:
    for _ in range(count):
        plant.tick()
        plant.settle()


def lose(plant: Plant, *kinds: type) -> int:
    """Drop what is under way of these kinds."""
    plant.turn()
    before = len(plant.fabric.parcels)
    plant.fabric.parcels = [each for each in plant.fabric.parcels if not isinstance(decode(each.payload), kinds)]
    return before - len(plant.fabric.parcels)


def row(key: str, command: str, x: str) -> dict[str, str | None]:
    return {"key": key, "command": command, "x": x}


# -- joining -----------------------------------------------------------------------------------------------------------


def test_the_first_client_has_the_item_subscribed_at_the_hub_and_the_last_ends_it(plant: Plant, peer: Peer) -> None:
    first = peer.subscribe("m", "x")
    second = peer.subscribe("m", "x y")
    plant.settle()
    assert plant.hub.source.unsent == {"m": None}
    assert plant.hub.owner.edges == {"e1": 1}
    peer.unsubscribe(first)
    plant.settle()
    assert plant.hub.owner.items == 1
    peer.unsubscribe(second)
    plant.settle()
    assert plant.hub.source.unsent == {}
    assert plant.hub.owner.items == 0


@pytest.mark.parametrize(
    ("item", "mode", "fields", "lines"),
    [
        ("m", Mode.MERGE, "x y", ["U,1,1,2|b"]),
        ("d", Mode.DISTINCT, "x y", ["U,1,1,1|a", "U,1,1,2|b", "EOS,1,1"]),
        ("c", Mode.COMMAND, "key command x", ["U,1,1,k|ADD|2", "U,1,1,l||3", "EOS,1,1"]),
        ("m", Mode.RAW, "x y", []),
    ],
)
def test_a_newcomer_gets_what_the_mode_keeps(
    plant: Plant, peer: Peer, item: str, mode: Mode, fields: str, lines: list[str]
) -> None:
    if item == "c":
        plant.publish("c", row("k", "ADD", "1"))
        plant.publish("c", row("k", "UPDATE", "2"))
        plant.publish("c", row("l", "ADD", "3"))
    else:
        plant.publish(item, {"x": "1", "y": "a"})
        plant.publish(item, {"x": "2", "y": "b"})
    peer.subscribe(item, fields, mode, snapshot=True)
    plant.settle()
    assert told(peer) == lines


def test_a_second_edge_joins_what_the_first_has(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", snapshot=True)
    plant.settle()
    plant.publish("m", {"x": "1"})
    other = plant.add_edge("e2")
    late = other.client()
    late.subscribe("m", "x", snapshot=True)
    plant.settle()
    plant.publish("m", {"x": "2"})
    plant.settle()
    assert told(peer) == ["U,1,1,1", "U,1,1,2"]
    assert told(late) == ["U,1,1,1", "U,1,1,2"]


def test_a_snapshot_that_takes_long_ends_when_the_adapter_says_so(peer: Peer, plant: Plant) -> None:
    plant.hub.source.slow = True
    for x in "1234":
        plant.publish("d", {"x": x})
    peer.subscribe("d", "x", Mode.DISTINCT, snapshot=True)
    plant.settle()
    plant.hub.source.begin("d")
    plant.settle()
    assert told(peer) == []
    plant.hub.source.finish("d")
    plant.settle()
    assert told(peer) == ["U,1,1,1", "U,1,1,2", "U,1,1,3", "U,1,1,4", "EOS,1,1"]


def test_what_overtakes_the_picture_is_held(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x y", snapshot=True)
    plant.deliver()
    plant.turn()
    plant.publish("m", {"y": "1"})
    plant.publish("m", {"x": "2"})
    plant.turn()
    kinds = [type(decode(parcel.payload)) for parcel in plant.fabric.parcels]
    assert kinds == [Picture, Happened]
    plant.deliver(1)
    assert told(peer) == []
    plant.settle()
    assert told(peer) == ["U,1,1,#|1", "U,1,1,2|"]


def test_a_picture_that_is_lost_is_asked_for_again(plant: Plant, peer: Peer) -> None:
    plant.publish("m", {"x": "1"})
    peer.subscribe("m", "x", snapshot=True)
    plant.deliver()
    assert lose(plant, Picture) == 1
    beat(plant, 3)
    assert told(peer) == ["U,1,1,1"]


def test_an_item_known_in_raw_mode_has_its_snapshot_asked_for_when_another_mode_is_wanted(
    plant: Plant, peer: Peer
) -> None:
    plant.publish("d", {"x": "1"})
    peer.subscribe("d", "x", Mode.RAW)
    plant.settle()
    plant.publish("d", {"x": "2"})
    plant.settle()
    peer.subscribe("d", "x", Mode.DISTINCT, snapshot=True)
    # Held until the picture is there, and in it.
    plant.publish("d", {"x": "3"})
    plant.settle()
    plant.publish("d", {"x": "4"})
    plant.settle()
    lines = told(peer)
    assert [line for line in lines if line.startswith("U,1")] == ["U,1,1,2", "U,1,1,3", "U,1,1,4"]
    assert [line for line in lines if line[:3] in ("U,2", "EOS")] == [
        *("U,2,1,1", "U,2,1,2", "U,2,1,3"),
        "EOS,2,1",
        "U,2,1,4",
    ]


# -- what happens ------------------------------------------------------------------------------------------------------


def test_an_item_that_is_cleared_is_cleared_at_edges(plant: Plant, peer: Peer) -> None:
    plant.publish("m", {"x": "1"})
    plant.publish("d", {"x": "1"})
    peer.subscribe("m", "x", snapshot=True)
    peer.subscribe("d", "x", Mode.DISTINCT, snapshot=True)
    plant.settle()
    told(peer)
    plant.clear("m")
    plant.clear("d")
    plant.settle()
    assert told(peer) == ["U,1,1,#", "CS,2,1"]


def test_an_adapter_that_was_away_repairs_all_but_raw_mode(plant: Plant, peer: Peer) -> None:
    plant.publish("c", row("k", "ADD", "1"))
    plant.publish("c", row("l", "ADD", "1"))
    peer.subscribe("c", "key command x", Mode.COMMAND, snapshot=True)
    peer.subscribe("c", "key command x", Mode.RAW)
    plant.settle()
    told(peer)
    plant.leave()
    plant.publish("c", row("k", "DELETE", ""))
    plant.publish("c", row("l", "UPDATE", "2"))
    plant.come_back()
    plant.settle()
    assert told(peer) == ["U,1,1,k|DELETE|#", "U,1,1,l|UPDATE|2"]


def test_difference_formats_reach_clients_of_edges(plant: Plant, peer: Peer) -> None:
    plant.publish("m", {"x": "a text of more than fifty characters that has hardly changed, 1"})
    peer.subscribe("m", "x", snapshot=True)
    plant.settle()
    told(peer)
    plant.hub.harness.feed.declare_differences("m", {"x": "T"})
    plant.publish("m", {"x": "a text of more than fifty characters that has hardly changed, 2"})
    plant.settle()
    (line,) = told(peer)
    assert line.startswith("U,1,1,^T")
    late = plant.add_edge("e2").client()
    late.subscribe("m", "x", snapshot=True)
    plant.settle()
    told(late)
    plant.publish("m", {"x": "a text of more than fifty characters that has hardly changed, 3"})
    plant.settle()
    (line,) = told(late)
    assert line.startswith("U,1,1,^T")


# -- what does not come ------------------------------------------------------------------------------------------------


def test_an_event_that_is_lost_is_noticed_with_the_next_one(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x y", snapshot=True)
    peer.subscribe("m", "x y", Mode.RAW)
    plant.settle()
    plant.publish("m", {"x": "1"})
    assert lose(plant, Happened) == 1
    plant.publish("m", {"y": "2"})
    plant.settle()
    assert told(peer) == ["OV,2,1,1", "U,2,1,#|2", "U,1,1,1|2"]


def test_the_last_event_before_silence_is_noticed_by_beats(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", snapshot=True)
    peer.subscribe("c", "key command x", Mode.COMMAND, snapshot=True)
    plant.settle()
    told(peer)
    plant.publish("m", {"x": "1"})
    plant.publish("c", row("k", "ADD", "1"))
    assert lose(plant, Happened) == 1
    beat(plant, 3)
    assert told(peer) == ["U,1,1,1", "U,2,1,k|ADD|1"]


def test_what_has_been_made_up_for_is_not_asked_for_again(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", snapshot=True)
    plant.settle()
    plant.publish("m", {"x": "1"})
    assert lose(plant, Happened) == 1
    beat(plant, 3)
    pictures = plant.hub.owner.pictures
    beat(plant, 5)
    assert plant.hub.owner.pictures == pictures


def test_the_last_message_of_a_stream_that_ends_is_not_forgotten(plant: Plant, peer: Peer) -> None:
    """Its item goes on in another, because another edge has left."""
    peer.subscribe("m", "x", snapshot=True)
    other = plant.add_edge("e2")
    leaver = other.client()
    number = leaver.subscribe("m", "x")
    plant.settle()
    plant.publish("m", {"x": "1"})
    assert lose(plant, Happened) == 2
    leaver.unsubscribe(number)
    beat(plant, 3)
    assert told(peer) == ["U,1,1,1"]


def test_events_in_the_wrong_order_are_put_right_without_a_loss(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    peer.subscribe("m", "x", Mode.RAW)
    plant.settle()
    for x in "123":
        plant.publish("m", {"x": x})
        plant.turn()
    for place in (2, 1, 0):
        plant.deliver(place)
    plant.settle()
    assert told(peer) == ["U,1,1,1", "U,1,1,2", "U,1,1,3"]
    beat(plant, 3)
    assert told(peer) == []
    assert edge.reader.repairs == 0
    assert edge.reader.unanswered == 0


def test_what_comes_twice_counts_once(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", Mode.RAW)
    plant.settle()
    plant.publish("m", {"x": "1"})
    plant.turn()
    plant.fabric.parcels *= 2
    plant.settle()
    assert told(peer) == ["U,1,1,1"]


def test_the_answer_to_an_earlier_question_is_not_taken_for_the_latest(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", snapshot=True)
    plant.deliver()
    plant.turn()
    (early,) = plant.fabric.parcels
    plant.settle()
    plant.publish("m", {"x": "1"})
    lose(plant, Happened)
    plant.tick()
    plant.settle()
    plant.tick()
    plant.fabric.parcels.insert(0, Parcel(early.epoch, early.edge, False, early.payload))
    while plant.fabric.parcels:
        # Repeated before each message.
        plant.edges["e1"].received(early.payload)
        plant.deliver()
        plant.turn()
    assert told(peer) == ["U,1,1,1"]


def test_a_question_that_comes_late_does_not_change_what_is_wanted(plant: Plant, peer: Peer) -> None:
    plant.publish("m", {"x": "1"})
    peer.subscribe("m", "x", Mode.RAW)
    (early,) = plant.fabric.parcels
    plant.settle()
    peer.subscribe("m", "x", snapshot=True)
    plant.fabric.parcels.append(early)
    plant.settle()
    assert told(peer) == ["U,2,1,1"]


def test_a_release_that_is_lost_is_made_up_for(plant: Plant, peer: Peer) -> None:
    number = peer.subscribe("m", "x")
    peer.subscribe("d", "x", Mode.DISTINCT)
    plant.settle()
    peer.unsubscribe(number)
    assert lose(plant, Release) == 1
    beat(plant, owner_rules.MAX_DISAGREEMENTS + 2)
    assert plant.hub.source.unsent == {"d": None}


def test_an_interest_that_comes_after_its_release_is_not_kept(plant: Plant, peer: Peer) -> None:
    number = peer.subscribe("m", "x")
    peer.unsubscribe(number)
    plant.fabric.parcels.reverse()
    assert [type(decode(parcel.payload)) for parcel in plant.fabric.parcels] == [Release, Interest]
    beat(plant, owner_rules.MAX_DISAGREEMENTS + 2)
    assert plant.hub.owner.items == 0


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_an_edge_that_says_nothing_is_lost_and_comes_back_by_itself(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", snapshot=True)
    plant.settle()
    for _ in range(owner_rules.MAX_SILENCE + 1):
        plant.hub.owner.beat()
    assert plant.hub.owner.edges == {}
    assert plant.hub.source.unsent == {}
    plant.publish("m", {"x": "1"})
    beat(plant, 3)
    assert plant.hub.owner.edges == {"e1": 1}
    assert told(peer) == ["U,1,1,1"]


def test_a_connection_that_is_made_again_loses_nothing_if_nothing_happened(plant: Plant, peer: Peer) -> None:
    other = plant.add_edge("e2").client()
    for client in (peer, other):
        client.subscribe("m", "x", Mode.RAW)
    plant.settle()
    # The other edge keeps the hub's numbers alive; only the way is lost, and the hub does not know.
    plant.edges["e1"].hello()
    plant.settle()
    plant.publish("m", {"x": "1"})
    plant.settle()
    assert told(peer) == ["U,1,1,1"]


def test_a_new_hub_shows_clients_the_difference(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    plant.publish("m", {"x": "1", "y": "a"})
    plant.publish("d", {"x": "1"})
    plant.publish("c", row("k", "ADD", "1"))
    plant.publish("c", row("l", "ADD", "1"))
    peer.subscribe("m", "x y", snapshot=True)
    peer.subscribe("d", "x", Mode.DISTINCT, snapshot=True)
    peer.subscribe("c", "key command x", Mode.COMMAND, snapshot=True)
    peer.subscribe("m", "x", Mode.RAW)
    plant.settle()
    told(peer)
    plant.hubs.clear()
    plant.add_hub(slow=False)
    plant.publish("m", {"x": "2"})
    plant.publish("d", {"x": "2"})
    plant.publish("c", row("k", "DELETE", ""))
    plant.publish("c", row("l", "UPDATE", "2"))
    beat(plant, 2)
    lines = told(peer)
    assert sorted(lines) == ["OV,4,1,1", "U,1,1,2|", "U,2,1,2", "U,3,1,k|DELETE|#", "U,3,1,l|UPDATE|2"]


def test_clients_keep_what_they_have_until_the_new_hub_may_serve_their_edge(plant: Plant, peer: Peer) -> None:
    plant.publish("m", {"x": "1", "y": "a"})
    peer.subscribe("m", "x y", snapshot=True)
    plant.settle()
    told(peer)
    plant.hubs.clear()
    owner = plant.add_hub(slow=False).owner
    asked: set[tuple[str, str]] = set()
    waiting = [True]

    def serves(edge: str, adapter_set: str) -> bool:
        asked.add((edge, adapter_set))
        return not waiting

    owner.serves = serves
    plant.publish("m", {"x": "2"})
    beat(plant, 6)
    assert told(peer) == []
    assert len(asked) == 1
    # It is waited for, and not forgotten.
    assert list(owner.edges.values()) == [1]
    waiting.clear()
    owner.settled("nobody")
    owner.settled(next(iter(owner.edges)))
    plant.settle()
    assert told(peer) == ["U,1,1,2|"]


def test_clients_keep_what_they_have_until_the_new_hubs_adapter_has_sent_its_snapshot(plant: Plant, peer: Peer) -> None:
    for key in "abcd":
        plant.publish("c", row(key, "ADD", "1"))
    peer.subscribe("c", "key command x", Mode.COMMAND, snapshot=True)
    plant.settle()
    told(peer)
    plant.hubs.clear()
    plant.add_hub(slow=True)
    plant.publish("c", row("a", "UPDATE", "2"))
    beat(plant, 2)
    plant.hub.source.begin("c")
    beat(plant, 1)
    assert told(peer) == []
    plant.hub.source.finish("c")
    plant.settle()
    assert told(peer) == ["U,1,1,a|UPDATE|2"]


def test_a_snapshot_that_never_ends_is_shown_as_far_as_it_is_known(plant: Plant, peer: Peer) -> None:
    for key in "abcd":
        plant.publish("c", row(key, "ADD", "1"))
    peer.subscribe("c", "key command x", Mode.COMMAND, snapshot=True)
    plant.settle()
    told(peer)
    plant.hubs.clear()
    plant.add_hub(slow=True)
    beat(plant, 1)
    plant.hub.source.begin("c")
    beat(plant, int(reader_rules.SNAPSHOT_PATIENCE) + 3)
    assert told(peer) == ["U,1,1,c|DELETE|#", "U,1,1,d||"]
    plant.hub.source.finish("c")
    plant.settle()
    assert told(peer) == ["U,1,1,c|ADD|1", "U,1,1,d||"]


def test_a_hub_that_is_owner_no_more_is_not_listened_to(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    peer.subscribe("m", "x", snapshot=True)
    plant.settle()
    old = plant.hub
    plant.add_hub(slow=False)
    beat(plant, 2)
    assert edge.reader.epoch == plant.hub.epoch
    old.harness.feed.update("m", {"x": "wrong"})
    plant.settle()
    assert told(peer) == []
    assert edge.reader.dropped > 0


def test_an_edge_that_was_restarted_is_another(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x")
    plant.settle()
    plant.add_edge("e1").client().subscribe("d", "x", Mode.DISTINCT)
    plant.settle()
    assert plant.hub.source.unsent == {"d": None}


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_mode_that_conflicts_with_another_edges_ends_the_subscription(plant: Plant, peer: Peer) -> None:
    other = plant.add_edge("e2")
    late = other.client()
    peer.subscribe("m", "x")
    plant.settle()
    late.subscribe("m", "x", Mode.DISTINCT)
    plant.settle()
    assert told(late) == ["UNSUB,1"]
    assert other.refusals == [("m", "Item m is subscribed in MERGE mode; DISTINCT conflicts with it")]
    assert plant.hub.owner.edges == {"e1": 1, "e2": 0}
    beat(plant, 6)
    assert told(peer) == []


def test_raw_clients_of_the_edge_stay_when_a_mode_is_refused(plant: Plant, peer: Peer) -> None:
    other = plant.add_edge("e2")
    late = other.client()
    late.subscribe("m", "x", Mode.RAW)
    peer.subscribe("m", "x")
    plant.settle()
    late.subscribe("m", "x", Mode.DISTINCT)
    plant.settle()
    plant.publish("m", {"x": "1"})
    plant.settle()
    assert told(late) == ["UNSUB,2", "U,1,1,1"]


def test_an_item_of_a_data_adapter_that_is_gone_is_refused(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    peer.subscribe("m", "x")
    plant.settle()
    plant.hub.owner.withdraw(plant.hub.harness.feed)
    assert plant.hub.source.unsent == {}
    plant.hub.harness.kernel.withdraw("TEST", "HAND")
    beat(plant, owner_rules.MAX_DISAGREEMENTS + 2)
    assert told(peer) == ["UNSUB,1"]


def test_clients_keep_what_they_have_until_a_data_adapter_that_is_late_at_the_new_hub_is_there(
    plant: Plant, peer: Peer
) -> None:
    plant.publish("m", {"x": "1", "y": "a"})
    peer.subscribe("m", "x y", snapshot=True)
    plant.settle()
    told(peer)
    plant.hubs.clear()
    hub = plant.add_hub(slow=False)
    hub.harness.kernel.withdraw("TEST", "HAND")
    awaited = {("TEST", "HAND")}
    hub.owner.awaits = lambda adapter_set, data_adapter: (adapter_set, data_adapter) in awaited
    beat(plant, 6)
    assert told(peer) == []
    assert list(hub.owner.edges.values()) == [1]
    hub.harness.kernel.serve(hub.harness.feed)
    plant.publish("m", {"x": "2"})
    beat(plant, 4)
    assert told(peer) == ["U,1,1,2|"]


def test_a_data_adapter_that_will_never_be_there_is_not_waited_for(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x")
    plant.settle()
    plant.hubs.clear()
    hub = plant.add_hub(slow=False)
    hub.harness.kernel.withdraw("TEST", "HAND")
    hub.owner.awaits = lambda adapter_set, data_adapter: False
    beat(plant, 2)
    assert told(peer) == ["UNSUB,1"]


# -- derived items -----------------------------------------------------------------------------------------------------


def _loud(event: Event) -> Event | None:
    return None if event.get("x") == "quiet" else {**event, "x": f"{event.get('x')}!"}


def _is_even(event: Event) -> bool:
    return int(event.get("x") or 0) % 2 == 0


def test_selectors_and_customizers_work_at_the_hub(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    plant.publish("d", {"x": "1"})
    plant.publish("d", {"x": "2"})
    name = plant.derive("e1", 1, Mode.DISTINCT, "d", _loud, _is_even)
    edge.harness.subscribe(peer.session, 1, "d", "x", Mode.DISTINCT, True, granted=(ItemGrant(name),))
    plant.settle()
    plant.publish("d", {"x": "3"})
    plant.publish("d", {"x": "4"})
    plant.settle()
    assert told(peer) == ["U,1,1,2!", "EOS,1,1", "U,1,1,4!"]
    peer.session.unsubscribe(1)
    plant.settle()
    assert plant.hub.source.unsent == {}


def test_fields_that_a_customizer_leaves_out_become_null(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    name = plant.derive("e1", 1, Mode.MERGE, "m", lambda event: {} if event.get("x") == "2" else event, None)
    edge.harness.subscribe(peer.session, 1, "m", "x y", Mode.MERGE, True, granted=(ItemGrant(name),))
    plant.settle()
    plant.publish("m", {"x": "1", "y": "a"})
    plant.publish("m", {"x": "2"})
    plant.settle()
    assert told(peer) == ["U,1,1,1|a", "U,1,1,#|#"]


def test_a_derived_item_that_is_not_known_is_waited_for_and_then_refused(plant: Plant, edge: EdgeNode) -> None:
    peer = edge.client()
    edge.harness.subscribe(peer.session, 1, "m", "x", granted=(ItemGrant("\x01gone\x01m"),))
    beat(plant, owner_rules.ADOPTION - 2)
    assert edge.refusals == []
    assert edge.reader.unanswered == 1
    beat(plant, 6)
    assert edge.refusals == [("m", "The hub does not know what the subscription chooses")]


def test_what_was_asked_by_the_process_before_is_not_taken_for_an_answer(plant: Plant, peer: Peer) -> None:
    """Both have the same name, and count what they ask for from one on."""

    def picture() -> list[Parcel]:
        """Let everything arrive before one is under way."""
        plant.turn()
        while not (found := [each for each in plant.fabric.parcels if isinstance(decode(each.payload), Picture)]):
            plant.deliver()
            plant.turn()
        return found

    peer.subscribe("m", "x", Mode.RAW)
    late = picture()
    plant.fabric.parcels.clear()
    edge = plant.add_edge("e1")
    plant.settle()
    after = edge.client()
    after.subscribe("d", "x", Mode.RAW)
    plant.fabric.parcels = late + picture()
    plant.settle()
    plant.publish("m", {"x": "still of m"})
    plant.publish("d", {"x": "of d"})
    plant.settle()
    assert [line for line in told(after) if line.startswith("U,")] == ["U,1,1,of d"]


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_messages_that_make_no_sense_are_dropped(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    owner, reader = plant.hub.owner, edge.reader
    owner.received("nobody", Release("run1", 7))
    owner.received("nobody", Interest("run1", 1, 1, "TEST", "HAND", "m", "MERGE"))
    owner.received("e1", Release("run1", 7))
    owner.received("e1", Interest("run1", 9, 1, "TEST", "HAND", "m", "SIDEWAYS"))
    owner.received("e1", Interest("run1", 10, 1, "NO", "HAND", "m", "MERGE"))
    owner.received("e1", Alive(plant.hub.epoch + 1, "run1", {}, 0, 0))
    owner.received("e1", Alive(plant.hub.epoch, "run1", {77: 1}, 0, 0))
    reader.received(Picture(reader.epoch, "run1", 55, 1, 1, 1, "MERGE", (), False, {}))
    reader.received(NoItem(reader.epoch, "run1", 55, 1, "MODE", ""))
    reader.received(HubBeat(reader.epoch, {}))
    peer.subscribe("m", "x", snapshot=True)
    reader.received(Happened(reader.epoch, 500, 1, [Happening(999, 1, 0, {"x": "stray"})]))
    plant.settle()
    before = reader.dropped
    reader.received(Happened(reader.epoch, 500, 2, [Happening(999, 2, 0, {"x": "stray"})]))
    assert reader.dropped == before + 1
    for _ in range(reader_rules.STRAY_TICKS + 1):
        plant.tick()
    plant.settle()
    plant.publish("m", {"x": "1"})
    plant.settle()
    assert told(peer) == ["U,1,1,1"]


def test_what_a_former_process_of_an_edge_wanted_comes_too_late(plant: Plant, edge: EdgeNode, peer: Peer) -> None:
    """It would keep the new one, whose tickets begin at 1 again, from ever getting the item."""
    plant.hub.owner.received("e1", Interest("another run", 7, 1, "TEST", "HAND", "m", "MERGE"))
    assert plant.hub.owner.edges["e1"] == 0
    peer.subscribe("m", "x", snapshot=True)
    beat(plant, 3)
    assert edge.reader.unanswered == 0
    plant.hub.owner.received("e1", Release("another run", 1))
    assert plant.hub.owner.edges["e1"] == 1


def test_what_an_adapter_sends_that_makes_no_table_is_dropped_at_edges_too(plant: Plant, peer: Peer) -> None:
    peer.subscribe("c", "key command x", Mode.COMMAND, snapshot=True)
    plant.settle()
    plant.hub.harness.feed.update("c", {"x": "no key"})
    plant.hub.harness.feed.update("c", row("k", "DELETE", ""))
    plant.hub.harness.feed.update("c", row("k", "ADD", "1"))
    plant.settle()
    assert told(peer) == ["EOS,1,1", "U,1,1,k|ADD|1"]
    assert plant.edges["e1"].harness.feed.bad_events == 2


def test_a_turn_of_very_many_or_very_large_events_is_several_messages(plant: Plant, peer: Peer) -> None:
    peer.subscribe("m", "x", Mode.RAW)
    plant.settle()
    feed = plant.hub.harness.feed
    feed.updates(("m", {"x": str(number)}) for number in range(owner_rules.MAX_HAPPENINGS + 1))
    feed.updates(("m", {"x": "y" * 200_000}) for _ in range(5))
    plant.turn()
    sizes = [len(parcel.payload) for parcel in plant.fabric.parcels]
    assert len(sizes) == 4
    assert max(sizes) <= owner_rules.MAX_PAYLOAD
    plant.settle()
    assert len(told(peer)) == owner_rules.MAX_HAPPENINGS + 6
