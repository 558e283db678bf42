"""Sessions of one hub at several nodes: they exchange payloads as at one, and end with their node or their hub."""

from __future__ import annotations

import pytest

from penstock.doors.tlex.annex import HUB_SILENCE
from penstock.doors.tlex.messages import TlexMessages
from penstock.exchange.outpost import Outpost
from penstock.exchange.outposts import Outposts
from penstock.exchange.places import Places, TlexPlace
from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.exchange.session import SessionState
from penstock.exchange.settings import HubLimits, HubSettings
from penstock.wire.fabric.tlex import (
    TlexDelivered,
    TlexDismissed,
    TlexLeft,
    TlexMeasured,
    TlexOffered,
    TlexPublished,
    TlexWithdrawn,
)
from penstock.wire.tlex.datagrams import Bye, KeepAlive, Reconnect, TimestampsRequest, Token
from penstock.wire.tlex.forms import PayloadForms
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.monitor import decode_monitor_payload
from penstock.wire.tlex.vocabulary import EndReason, SecurityMode
from tests.exchange.nodes import NODE_SILENCE, NodesWorld
from tests.exchange.world import BROKER, MONITOR, NOON, SINGLEPLEX, TLC, A, B, answer, named, plain


@pytest.fixture
def world() -> NodesWorld:
    found = NodesWorld("x", "y")
    found.register(A, B)
    return found


def test_sessions_at_different_nodes_exchange_payloads_in_order(world: NodesWorld) -> None:
    controller = world.join_at("x", TLC, A, protocol=SINGLEPLEX)
    brokers = [world.join_at(node, BROKER, A, B, account=f"at {node}") for node in "xy"]
    monitor = world.join_at("y", MONITOR, A)
    controller.send(*[plain(f"up {number}") for number in range(3)])
    world.settle()
    for broker in brokers:
        assert broker.texts() == ["up 0", "up 1", "up 2"]
    brokers[1].send(named(A, "down"), named(B, "for nobody"))
    world.settle()
    assert controller.texts() == ["down"]
    assert not brokers[0].texts()
    assert len(monitor.payloads()) == 4
    assert world.session_of(brokers[1]).counters.unrouted == 1
    assert world.session_of(controller).counters.received == 3
    assert world.session_of(controller).counters.received_bytes == len("up 0" * 3)
    assert world.session_of(brokers[1]).counters.received == 2
    assert world.session_of(brokers[1]).counters.received_bytes == len("down" + "for nobody")


def test_payloads_cross_once_to_a_node_whatever_the_number_of_its_sessions(world: NodesWorld) -> None:
    controller = world.join_at("x", TLC, A)
    brokers = [world.join_at("y", BROKER, A, account=f"account {number}") for number in range(3)]
    frames = [named(A, "once").encode()]
    world.outposts.hear("x", [TlexPublished(world.session_of(controller).id, frames)], world.now)
    told = dict(world.outposts.take())
    assert told == {"y": [TlexDelivered([world.session_of(each).id for each in brokers], frames)]}


def test_a_token_is_good_at_any_node_and_only_once(world: NodesWorld) -> None:
    session = world.open(TLC, A)
    first, second = world.nodes["x"].show(session.token), world.nodes["y"].show(session.token)
    world.settle()
    assert [first.closed, second.closed] == [False, True]
    assert session.state is SessionState.LIVE
    again = world.nodes["x"].show(session.token)
    world.settle()
    assert again.closed
    # It is not told why.
    assert again.take() == []
    assert [node.outpost.turned_away for node in world.nodes.values()] == [1, 1]
    assert [node.outpost.sessions for node in world.nodes.values()] == [1, 0]


def test_a_controller_has_one_session_whichever_node_it_is_at(world: NodesWorld) -> None:
    world.join_at("x", TLC, A)
    with pytest.raises(HubRefusal) as caught:
        world.open(TLC, A)
    assert caught.value.reason is HubReason.IN_USE


def test_what_follows_a_token_waits_for_the_hub(world: NodesWorld) -> None:
    broker = world.join_at("y", BROKER, A)
    session = world.open(TLC, A)
    peer = world.nodes["x"].accept()
    peer.send_bytes(PREAMBLE + Token(session.token).encode() + named(A, "at once").encode())
    peer.send(named(A, "and again"))
    assert peer.conversation.session is None
    world.settle()
    assert broker.texts() == ["at once", "and again"]


def test_a_peer_that_is_gone_before_the_hub_has_answered_leaves_no_claim(world: NodesWorld) -> None:
    session = world.open(TLC, A)
    peer = world.nodes["x"].show(session.token)
    peer.conversation.lost(False, world.now)
    world.settle()
    assert session.end_reason is EndReason.CLIENT_DISCONNECT
    world.join_at("y", TLC, A)


def test_a_token_needs_the_security_that_was_asked_for_and_must_come_in_time(world: NodesWorld) -> None:
    session = world.open(TLC, A, security=SecurityMode.TLS)
    plain_one = world.nodes["x"].show(session.token)
    world.settle()
    assert plain_one.closed
    late = world.open(TLC, B)
    silent = world.nodes["x"].accept()
    world.move(4.75)
    in_time = world.nodes["x"].accept()
    world.move(0.5)
    world.hub.tick(world.now)
    world.nodes["x"].outpost.tick(world.now)
    # It has connected before the end, and shows its token after it.
    in_time.send_bytes(PREAMBLE + Token(late.token).encode())
    world.settle()
    assert not in_time.closed
    assert late.state is SessionState.LIVE
    assert silent.closed
    too_late = world.open(BROKER, B)
    world.move(5.25)
    world.hub.tick(world.now)
    refused = world.nodes["x"].show(too_late.token)
    world.settle()
    assert refused.closed


def test_limits_are_those_of_the_hub_and_kept_by_the_node() -> None:
    world = NodesWorld("x", settings=HubSettings(tlc=HubLimits(payloads_per_second=1, payloads_window_seconds=2.0)))
    world.register(A)
    controller = world.join_at("x", TLC, A)
    controller.send(*[named(A, "x")] * 3)
    assert controller.bye() == "payload rate limit exceeded: at most 1 a second over 2 s"
    session = world.session_of(controller)
    world.settle()
    assert (session.end_reason, session.counters.received) == (EndReason.PROTOCOL_ERROR, 2)


def test_a_slow_peer_loses_its_oldest_payloads_and_delays_nobody() -> None:
    world = NodesWorld("x", "y", settings=HubSettings(queue_frames=2))
    world.register(A)
    controller = world.join_at("x", TLC, A)
    slow, quick = [world.join_at("y", BROKER, A, account=name) for name in ("slow", "quick")]
    slow.conversation.set_writable(False)
    for number in range(5):
        controller.send(named(A, str(number)))
        world.settle()
    assert quick.texts() == ["0", "1", "2", "3", "4"]
    slow.conversation.set_writable(True)
    world.settle()
    assert slow.texts() == ["3", "4"]
    session = world.session_of(slow)
    world.wait(1.0)
    assert (session.counters.routed, session.counters.sent, session.counters.dropped) == (5, 2, 3)


def test_the_hub_knows_the_clocks_of_peers_and_when_they_were_heard(world: NodesWorld) -> None:
    session = world.open(TLC, A)
    peer = world.nodes["x"].show(session.token)
    world.settle()
    (request,) = [each for each in peer.take() if isinstance(each, TimestampsRequest)]
    peer.send(answer(request, ahead=250))
    world.wait(1.25)
    controller = world.hub.registry.find("test", A)
    assert controller is not None
    assert controller.clock is not None
    assert controller.clock.difference == 250
    assert controller.last_seen > NOON
    assert world.hub.clock_error() == 250


def test_monitors_are_told_when_their_node_has_sent(world: NodesWorld) -> None:
    controller, monitor = world.join_at("x", TLC, A), world.join_at("y", MONITOR, A)
    controller.send(named(A, "x"))
    world.nodes["x"].flush()
    world.round()
    published = world.now.utc
    world.move(0.5)
    world.settle()
    (got,) = monitor.payloads()
    found = decode_monitor_payload(got.data)
    assert (found.published, found.sent) == (published, published + 500)


def test_the_hub_ends_sessions_of_nodes(world: NodesWorld) -> None:
    peer = world.join_at("x", TLC, A)
    session = world.session_of(peer)
    world.hub.delete(world.authorization(TLC), session.token, world.now)
    # Nobody has to wait for the node.
    world.open(TLC, A)
    peer.send(named(A, "too late"))
    world.settle()
    assert peer.bye() == "session deleted"
    assert session.counters.received == 0


def test_a_peer_that_is_asked_to_reconnect_may_have_its_controllers_at_another_node(world: NodesWorld) -> None:
    peer, broker = world.join_at("x", TLC, A), world.join_at("y", BROKER, A)
    session = world.session_of(peer)
    world.hub.reconnect(session, world.now)
    world.settle()
    assert peer.count(Reconnect) == 1
    peer.send(named(A, "still there"))
    world.settle()
    successor = world.join_at("y", TLC, A)
    peer.send(named(A, "not any more"))
    successor.send(named(A, "successor"))
    world.settle()
    assert broker.texts() == ["still there", "successor"]
    world.wait(10.0)
    assert peer.bye() == "system maintenance"
    assert session.end_reason is EndReason.ADMIN_TERMINATION


def test_a_peer_that_leaves_while_it_is_asked_to_reconnect_is_not_asked_any_more(world: NodesWorld) -> None:
    peer, other = world.join_at("x", TLC, A), world.join_at("x", TLC, B)
    session = world.session_of(peer)
    world.hub.reconnect(session, world.now)
    peer.conversation.lost(False, world.now)
    world.settle()
    assert peer.count(Reconnect) == 0
    assert session.end_reason is EndReason.CLIENT_DISCONNECT
    assert other.bye() is None


def test_a_peer_that_both_hub_and_node_ask_to_reconnect_is_asked_once(world: NodesWorld) -> None:
    peer = world.join_at("x", TLC, A)
    world.hub.reconnect(world.session_of(peer), world.now)
    world.nodes["x"].outpost.go_down(world.now)
    world.settle()
    assert peer.count(Reconnect) == 1


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_node_that_dies_takes_its_sessions_with_it_and_no_others(world: NodesWorld, is_noticed: bool) -> None:
    lost, kept = world.join_at("x", TLC, A), world.join_at("y", BROKER, A, B)
    other = world.join_at("y", TLC, B)
    session = world.session_of(lost)
    world.kill("x", is_noticed)
    world.wait(NODE_SILENCE + 0.5)
    assert session.end_reason is EndReason.CONNECTION_ERROR
    other.send(named(B, "on"))
    world.settle()
    assert kept.texts() == ["on"]
    again = world.join_at("y", TLC, A)
    again.send(named(A, "again"))
    world.settle()
    assert kept.texts() == ["again"]


def test_a_session_that_waits_for_its_peer_at_a_node_that_dies_is_over(world: NodesWorld) -> None:
    place = world.places.choose(SecurityMode.NONE)
    assert place == TlexPlace("x", 1)
    session = world.hub.create(world.authorization(TLC), world.request(TLC, A), world.now, place)
    world.kill("x")
    assert session.state is SessionState.ENDED
    assert world.places.choose(SecurityMode.NONE) == TlexPlace("y", 1)
    world.kill("y")
    assert world.places.choose(SecurityMode.NONE) is None
    assert world.places.are_none


def test_sessions_are_spread_over_places_and_go_where_their_security_is(world: NodesWorld) -> None:
    world.nodes["y"].outpost.offer(TlexPlace("y", 1, 2))
    world.settle()
    hosts = []
    for account in range(4):
        place = world.places.choose(SecurityMode.NONE)
        assert place is not None
        world.hub.create(world.authorization(BROKER, str(account)), world.request(BROKER, A), world.now, place)
        hosts.append(place.host)
    assert hosts == ["x", "y", "x", "y"]
    assert world.places.choose(SecurityMode.TLS) == TlexPlace("y", 1, 2)
    world.wait(7.0)
    assert not world.hub.sessions


def test_a_short_interruption_of_the_fabric_loses_nothing(world: NodesWorld) -> None:
    controller, broker = world.join_at("x", TLC, A), world.join_at("y", BROKER, A)
    world.cut("x")
    controller.send(named(A, "1"))
    world.wait(HUB_SILENCE - 0.5, controller)
    controller.send(named(A, "2"))
    assert not broker.texts()
    world.mend("x")
    world.wait(3.0)
    assert broker.texts() == ["1", "2"]


def test_a_node_without_a_hub_tells_its_peers_to_come_again(world: NodesWorld) -> None:
    controller = world.join_at("x", TLC, A)
    session = world.session_of(controller)
    world.cut("x")
    world.wait(HUB_SILENCE + 0.5)
    # Before the hub gives the controller to another.
    assert session.state is SessionState.LIVE
    *_, asked, last = controller.take()
    assert isinstance(asked, Reconnect)
    assert last == Bye("node cut off")
    assert controller.closed
    world.mend("x")
    world.settle()
    assert session.end_reason is EndReason.CONNECTION_ERROR
    world.join_at("x", TLC, A)


def test_a_node_that_the_hub_has_given_up_ends_the_sessions_that_it_still_has(world: NodesWorld) -> None:
    """The hub hears nothing, though the node does: one direction is broken."""
    controller = world.join_at("x", TLC, A)
    world.outposts.lost("x", world.now)
    successor = world.join_at("y", TLC, A)
    broker = world.join_at("y", BROKER, A)
    world.mend("x")
    controller.send(named(A, "old"))
    successor.send(named(A, "new"))
    world.settle()
    assert controller.closed
    assert broker.texts() == ["new"]


def test_a_session_that_only_the_node_knows_ends(world: NodesWorld) -> None:
    """What the hub has said when it gave up the node is forgotten after a while."""
    controller = world.join_at("x", TLC, A)
    world.outposts.lost("x", world.now)
    world.outposts.take()
    world.mend("x")
    world.settle()
    assert not controller.closed
    controller.send(named(A, "still there?"))
    world.settle()
    assert controller.bye() == "node cut off"


def test_a_new_hub_knows_no_session_and_peers_come_again(world: NodesWorld) -> None:
    controller, broker = world.join_at("x", TLC, A), world.join_at("y", BROKER, A)
    world.begin_hub()
    world.settle()
    for peer in (controller, broker):
        assert peer.bye() == "node cut off"
    assert not world.hub.sessions
    controller, broker = world.join_at("x", TLC, A), world.join_at("y", BROKER, A)
    controller.send(named(A, "on"))
    world.settle()
    assert broker.texts() == ["on"]


def test_a_token_of_a_new_hub_that_is_shown_before_the_node_knows_that_hub_is_good(world: NodesWorld) -> None:
    node = world.nodes["x"]
    world.cut("x")
    world.nodes.pop("x")
    world.begin_hub()
    world.nodes["x"] = node
    session = world.open(TLC, A)
    peer = node.show(session.token)
    world.meet(node)
    world.settle()
    assert not peer.closed
    assert session.state is SessionState.LIVE


def test_a_node_that_goes_down_sends_its_peers_elsewhere(world: NodesWorld) -> None:
    controller = world.join_at("x", TLC, A)
    node = world.nodes["x"]
    node.outpost.go_down(world.now)
    world.settle()
    assert controller.count(Reconnect) == 1
    assert world.places.choose(SecurityMode.NONE) == TlexPlace("y", 1)
    # The controller can be had, although its session is still connected.
    world.join_at("y", TLC, A)
    refused = node.show(world.open(TLC, B).token)
    world.settle()
    assert refused.closed
    node.outpost.shut(world.now)
    world.settle()
    assert controller.bye() == "normal shutdown"
    assert node.outpost.is_empty
    assert len(world.hub.sessions) == 1


def test_a_hub_that_goes_down_asks_the_peers_of_nodes_to_reconnect(world: NodesWorld) -> None:
    controller = world.join_at("x", TLC, A)
    world.hub.go_down(world.now)
    world.settle()
    assert controller.count(Reconnect) == 1
    world.hub.shut(world.now)
    world.settle()
    assert controller.bye() == "normal shutdown"


def test_a_node_asks_to_be_emptied_once_until_its_words_are_taken() -> None:
    woken: list[bool] = []
    outpost = Outpost(HubSettings(), PayloadForms(), TlexMessages(), lambda: woken.append(True))
    outpost.offer(TlexPlace("x", 1))
    outpost.welcome()
    assert len(woken) == 1
    assert outpost.take() == [TlexOffered("x", 1, None)] * 2
    assert outpost.take() == []
    outpost.welcome()
    assert len(woken) == 2


def test_a_node_that_goes_down_offers_no_place_when_it_is_greeted_again(world: NodesWorld) -> None:
    outpost = world.nodes["x"].outpost
    outpost.go_down(world.now)
    outpost.welcome()
    assert outpost.take() == [TlexWithdrawn()]


def test_the_hub_asks_to_be_emptied_once_until_the_words_for_all_nodes_are_taken(world: NodesWorld) -> None:
    woken: list[bool] = []
    outposts = Outposts(world.hub, Places(), lambda: woken.append(True))
    for node in "xy":
        outposts.came(node, "run 1", world.now)
    assert not woken
    unknown = [TlexPublished("nobody", [])]
    cut_off = TlexDismissed("nobody", "CUT_OFF", "")
    outposts.hear("x", unknown, world.now)
    outposts.hear("y", unknown, world.now)
    outposts.hear("y", unknown, world.now)
    assert len(woken) == 1
    assert outposts.take() == [("x", [cut_off]), ("y", [cut_off, cut_off])]
    assert outposts.take() == []
    outposts.hear("y", unknown, world.now)
    assert len(woken) == 2


def test_a_node_that_is_lost_and_there_again_before_the_turn_is_still_known(world: NodesWorld) -> None:
    woken: list[bool] = []
    outposts = Outposts(world.hub, Places(), lambda: woken.append(True))
    outposts.lost("x", world.now)
    assert not woken
    outposts.came("x", "run 1", world.now)
    outposts.lost("x", world.now)
    assert len(woken) == 1
    outposts.came("x", "run 1", world.now)
    outposts.take()
    assert list(outposts.posts) == ["x"]
    outposts.lost("x", world.now)
    outposts.take()
    assert not outposts.posts
    # What it says then is not heard.
    outposts.hear("x", [TlexPublished("nobody", [])], world.now)
    assert outposts.take() == []


def test_a_node_tells_once_a_second_what_it_has_counted_of_those_for_whom_something_is_new(world: NodesWorld) -> None:
    world.join_at("x", TLC, A)
    broker = world.join_at("x", BROKER, A)
    node = world.nodes["x"]
    node.outpost.tick(world.now)
    assert len(node.outpost.take()) == 1
    world.move(0.75)
    broker.interpreter.received(KeepAlive().encode(), world.now)
    node.outpost.tick(world.now)
    assert node.outpost.take() == []
    world.move(0.25)
    node.outpost.tick(world.now)
    (told,) = node.outpost.take()
    assert isinstance(told, TlexMeasured)
    assert list(told.figures) == [world.session_of(broker).id]
    world.move(1.0)
    node.outpost.tick(world.now)
    assert node.outpost.take() == []


def test_a_node_tells_what_it_has_counted_of_a_session_that_ends(world: NodesWorld) -> None:
    controller, broker = world.join_at("x", TLC, A), world.join_at("y", BROKER, A)
    session = world.session_of(broker)
    controller.send(named(A, "x"))
    world.settle()
    broker.conversation.leave(world.now)
    world.settle()
    assert session.ended is not None
    assert (session.counters.routed, session.counters.sent, session.counters.discarded) == (1, 1, 0)
    # What still comes for it from the node, which is not told the same again, changes nothing.
    world.outposts.hear("y", [TlexLeft(session.id, EndReason.CONNECTION_ERROR, None)], world.now)
    assert session.end_reason is EndReason.CLIENT_DISCONNECT
    assert world.outposts.take() == []


def test_what_a_node_has_not_told_of_a_session_when_it_dies_is_discarded(world: NodesWorld) -> None:
    controller, broker = world.join_at("x", TLC, A), world.join_at("y", BROKER, A)
    session = world.session_of(broker)
    controller.send(named(A, "1"))
    world.wait(1.25)
    controller.send(named(A, "2"), named(A, "3"))
    world.settle()
    world.kill("y")
    assert (session.counters.routed, session.counters.sent, session.counters.discarded) == (3, 1, 2)


def test_a_payload_that_is_too_long_for_the_form_of_a_peer_at_a_node_is_counted(world: NodesWorld) -> None:
    controller, broker = world.join_at("x", TLC, A, protocol=SINGLEPLEX), world.join_at("y", BROKER, A)
    controller.send(plain("x" * 65_518), plain("next"))
    world.settle()
    assert broker.texts() == ["next"]
    session = world.session_of(broker)
    assert (session.counters.routed, session.counters.oversized) == (2, 1)
    broker.conversation.leave(world.now)
    world.settle()
    assert (session.counters.sent, session.counters.discarded) == (1, 0)
