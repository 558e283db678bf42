from __future__ import annotations

from pathlib import Path

import pytest

from penstock.wire.tlex.datagrams import IdentifiedPayload, Payload
from penstock.wire.tlex.monitor import decode_monitor_payload
from tests.doors.tlex.site import NOON, Peer, Site, named, plain
from tests.doors.tlex.tls import trusting


def nothing_came(*peers: Peer) -> bool:
    """Whether no payload is there, once the hub has done all that it was sent before."""
    for peer in peers:
        peer.synchronize()
    return not any(isinstance(each, Payload | IdentifiedPayload) for peer in peers for each in peer._datagrams)


@pytest.mark.conformance("tlex.mode.singleplex")
def test_a_controllers_payload_gets_its_identifier_and_reaches_brokers_of_every_account(site: Site) -> None:
    (a,) = site.tlcs(1)
    ours, theirs = site.join("Broker", a), site.join("Broker", a, account="others")
    site.controller(a).send(plain("hello", type=7, origin=123))
    assert ours.payload() == theirs.payload() == named(a, "hello", type=7, origin=123)


@pytest.mark.conformance("tlex.mode.singleplex.down")
def test_a_brokers_payload_loses_its_identifier_and_reaches_the_controller(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller = site.join("Broker", a), site.controller(a)
    broker.send(named(a, "hello", type=7, origin=123))
    assert controller.payload() == plain("hello", type=7, origin=123)


@pytest.mark.conformance("tlex.mode.multiplex")
def test_one_session_of_several_controllers_sends_and_receives_for_each(site: Site) -> None:
    a, b = site.tlcs(2)
    tlc, broker = site.join("TLC", a, b), site.join("Broker", a, b)
    tlc.send(named(a, "of a"), named(b, "of b"))
    assert [broker.payload(), broker.payload()] == [named(a, "of a"), named(b, "of b")]
    broker.send(named(b, "for b"))
    assert tlc.payload() == named(b, "for b")


@pytest.mark.conformance("tlex.mode.broker.scope")
def test_a_broker_receives_what_is_in_its_scope_only(site: Site) -> None:
    a, b = site.tlcs(2)
    broker, tlc = site.join("Broker", b), site.join("TLC", a, b)
    tlc.send(named(a, "not for it"), named(b, "for it"))
    assert broker.payload() == named(b, "for it")


@pytest.mark.conformance("tlex.mode.broker.broker")
def test_brokers_do_not_receive_from_brokers(site: Site) -> None:
    (a,) = site.tlcs(1)
    ours, theirs = site.join("Broker", a), site.join("Broker", a, account="others")
    ours.send(named(a, "hello"))
    ours.synchronize()
    assert nothing_came(theirs, ours)


@pytest.mark.conformance("tlex.mode.monitor")
def test_a_monitor_receives_from_both_sides(site: Site) -> None:
    (a,) = site.tlcs(1)
    monitor, broker, controller = site.join("Monitor", a), site.join("Broker", a), site.controller(a)
    controller.send(plain("up"))
    assert decode_monitor_payload(monitor.payload().data).data == b"up"
    broker.send(named(a, "down"))
    assert decode_monitor_payload(monitor.payload().data).data == b"down"


@pytest.mark.conformance("tlex.mode.monitor.silent")
def test_a_monitor_that_sends_payloads_is_sent_away_and_nobody_receives_them(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller, monitor = site.join("Broker", a), site.controller(a), site.join("Monitor", a)
    monitor.send(named(a, "hello"))
    assert (monitor.bye() or "").startswith("protocol violation")
    assert nothing_came(broker, controller)


@pytest.mark.conformance("tlex.0xF0")
def test_a_monitor_is_told_who_published_when_and_what(site: Site) -> None:
    (a,) = site.tlcs(1)
    monitor, controller = site.join("Monitor", a), site.controller(a)
    controller.send(plain("hello", type=7, origin=123))
    found = monitor.payload()
    assert isinstance(found, IdentifiedPayload)
    assert (found.identifier, found.type, found.origin) == (a, 0xF0, 123)
    inner = decode_monitor_payload(found.data)
    assert (inner.token, inner.type, inner.data) == (controller.token, 7, b"hello")
    assert NOON < inner.published <= inner.sent


@pytest.mark.conformance("tlex.domain")
def test_domains_never_mix_even_with_the_same_identifiers(site: Site) -> None:
    for domain in ("test", "other"):
        site.register("BOTH0001", domain)
    here, there = site.join("Broker", "BOTH0001"), site.join("Broker", "BOTH0001", domain="other")
    site.controller("BOTH0001", domain="other").send(plain("there"))
    assert there.payload() == named("BOTH0001", "there")
    assert nothing_came(here)


@pytest.mark.conformance("tlex.0x05.scope")
def test_a_payload_for_a_controller_that_was_not_asked_for_is_dropped_and_the_session_goes_on(site: Site) -> None:
    a, b = site.tlcs(2)
    tlc, broker = site.join("TLC", a), site.join("Broker", a, b)
    tlc.send(named(b, "not mine"), named("NOTTHERE", "nobody's"), named(a, "mine"))
    assert broker.payload() == named(a, "mine")


@pytest.mark.conformance("tlex.0x05.ascii")
def test_an_identifier_that_is_not_ascii_is_in_nobodys_scope(site: Site) -> None:
    (a,) = site.tlcs(1)
    tlc, broker = site.join("TLC", a), site.join("Broker", a)
    strange = named(a, "strange").encode().replace(a.encode(), b"\xff" * 8)
    tlc.send_bytes(strange + named(a, "good").encode())
    assert broker.payload() == named(a, "good")


@pytest.mark.conformance("tlex.reserved")
def test_payload_types_of_the_protocol_itself_are_dropped(site: Site) -> None:
    (a,) = site.tlcs(1)
    controller, broker = site.controller(a), site.join("Broker", a)
    controller.send(plain("", type=0xF0), plain("", type=0xFF), plain("last", type=0xEF))
    assert broker.payload() == named(a, "last", type=0xEF)


@pytest.mark.conformance("tlex.origin")
def test_origin_timestamps_are_passed_on_as_they_are(site: Site) -> None:
    (a,) = site.tlcs(1)
    controller, broker = site.controller(a), site.join("Broker", a)
    controller.send(plain("", origin=0), plain("", origin=2**64 - 1))
    assert [broker.payload().origin, broker.payload().origin] == [0, 2**64 - 1]


@pytest.mark.conformance("tlex.payload.empty")
def test_a_payload_may_be_empty(site: Site) -> None:
    (a,) = site.tlcs(1)
    controller, broker = site.controller(a), site.join("Broker", a)
    controller.send(plain(""))
    assert broker.payload() == named(a, "")


@pytest.mark.conformance("tlex.payload.large")
def test_a_payload_that_no_frame_of_a_receiver_can_hold_is_dropped_for_that_one(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, monitor, controller = site.join("Broker", a), site.join("Monitor", a), site.controller(a)
    for size in (65_525, 65_517, 1):
        controller.send(plain("x" * size))
    assert [len(broker.payload().data), len(broker.payload().data)] == [65_517, 1]
    assert decode_monitor_payload(monitor.payload().data).data == b"x"


@pytest.mark.conformance("tlex.payload.nobody")
def test_a_payload_for_nobody_is_not_kept_for_those_who_come_later(site: Site) -> None:
    (a,) = site.tlcs(1)
    controller = site.controller(a)
    controller.send(plain("too early"))
    controller.synchronize()
    broker = site.join("Broker", a)
    controller.send(plain("in time"))
    assert broker.payload() == named(a, "in time")


@pytest.mark.conformance("tlex.order")
def test_the_payloads_of_a_publisher_stay_in_order(site: Site) -> None:
    a, b = site.tlcs(2)
    tlc, broker = site.join("TLC", a, b), site.join("Broker", a, b)
    sent = [named(b if number % 3 else a, str(number)) for number in range(60)]
    for each in sent:
        tlc.send(each)
    assert [broker.payload() for _ in sent] == sent


@pytest.mark.conformance("tlex.mode.VLOG")
def test_lines_of_v_log_reach_brokers_and_monitors(site: Site) -> None:
    site.register("VLOG0003", type="VLOG")
    broker, monitor = site.join("Broker", "VLOG0003"), site.join("Monitor", "VLOG0003")
    session = site.session("TLC", "VLOG0003", protocol="VLOG")
    controller = site.dial(session["details"]["listener"]["port"])
    controller.send_bytes(f"{session['token']}\r\n0600610201\r\n".encode())
    received = broker.payload()
    assert isinstance(received, IdentifiedPayload)
    assert (received.identifier, received.type, received.data) == ("VLOG0003", 0x56, b"0600610201")
    assert decode_monitor_payload(monitor.payload().data).data == b"0600610201"
    broker.send(named("VLOG0003", "nothing for it"))
    broker.synchronize()
    assert controller.version() == b"\x01"
    controller.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        controller.socket.recv(1)


@pytest.mark.conformance("tlex.mode.VLOG.TLS")
def test_lines_of_v_log_can_be_sent_with_tls(site: Site, certificates: Path) -> None:
    site.register("VLOG0004", type="VLOG")
    broker = site.join("Broker", "VLOG0004")
    session = site.session("TLC", "VLOG0004", protocol="VLOG", security="TLSv1.2")
    controller = site.dial(session["details"]["listener"]["port"], trusting(certificates))
    controller.send_bytes(f"{session['token']}\r0E00310102\r".encode())
    assert broker.payload().data == b"0E00310102"
