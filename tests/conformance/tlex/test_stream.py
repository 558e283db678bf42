from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from penstock.wire.tlex.datagrams import (
    Bye,
    IdentifiedPayload,
    KeepAlive,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    Unknown,
)
from penstock.wire.tlex.frames import PREAMBLE, frame
from tests.doors.tlex.site import NOON, Peer, Site, named, plain
from tests.doors.tlex.tls import trusting

# -- TLS ----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("tlex.tls")
def test_a_session_with_tls_is_served_on_the_tls_port_with_a_certificate_that_can_be_checked(
    site: Site, certificates: Path
) -> None:
    (a,) = site.tlcs(1)
    session = site.session("Broker", a, security="TLSv1.2")
    assert session["details"]["listener"]["port"] == site.door.ports.tls_port
    broker, controller = site.connect(session, trusting(certificates)), site.controller(a)
    controller.send(plain("hello"))
    assert broker.payload() == named(a, "hello")


def s_client(site: Site, *options: str) -> str:
    program = shutil.which("openssl")
    assert program is not None, "openssl is needed for this test"
    command = [program, "s_client", "-connect", f"127.0.0.1:{site.door.ports.tls_port}", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.mark.conformance("tlex.tls.cipher")
def test_openssl_agrees_on_the_one_cipher_suite_and_is_asked_for_no_certificate(site: Site) -> None:
    said = s_client(site)
    assert "New, TLSv1.2, Cipher is ECDHE-RSA-AES128-GCM-SHA256" in said
    assert "No client certificate CA names sent" in said


# What openssl is told to insist on.
REFUSED = {
    "TLSv1.3": ("-tls1_3",),
    "TLSv1.1": ("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
    "AES256": ("-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"),
    "RSA": ("-tls1_2", "-cipher", "AES128-GCM-SHA256"),
}

# Its offer has left: it was not openssl that gave up.
OFFERED = re.compile(r"SSL handshake has read \d+ bytes and written [1-9]\d* bytes")


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.conformance(f"tlex.tls.not.{name}"), id=name) for name in REFUSED]
)
def test_openssl_is_refused_any_other_version_or_cipher_suite(site: Site, case: str) -> None:
    said = s_client(site, *REFUSED[case])
    assert "Cipher is (NONE)" in said
    assert OFFERED.search(said), said


@pytest.mark.conformance("tlex.tls.only")
def test_of_all_cipher_suites_that_openssl_knows_one_is_accepted(site: Site) -> None:
    # Without those that need a key that both sides have beforehand: openssl itself would not offer them.
    known = "ALL:COMPLEMENTOFALL:!PSK:!SRP:@SECLEVEL=0"
    suites = subprocess.run(
        ["openssl", "ciphers", "-tls1_2", "-s", known], capture_output=True, text=True, timeout=20, check=True
    ).stdout.strip()
    answers = {suite: s_client(site, "-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0") for suite in suites.split(":")}
    assert [suite for suite, said in answers.items() if not OFFERED.search(said)] == []
    assert [suite for suite, said in answers.items() if "Cipher is (NONE)" not in said] == [
        "ECDHE-RSA-AES128-GCM-SHA256"
    ]
    assert len(answers) > 20


@pytest.mark.conformance("tlex.tls.port")
def test_a_token_is_of_no_use_at_the_port_of_the_other_security_mode(site: Site, certificates: Path) -> None:
    a, b = site.tlcs(2)
    plain_session, tls_session = site.session("Broker", a), site.session("Broker", b, security="TLSv1.2")
    for session, peer in (
        (plain_session, site.dial(site.door.ports.tls_port, trusting(certificates))),
        (tls_session, site.dial(site.door.ports.port)),
    ):
        peer.send_bytes(PREAMBLE + Token(session["token"]).encode())
        assert peer.rest() == []


@pytest.mark.conformance("tlex.tls.none")
def test_a_server_without_a_certificate_offers_no_tls(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    answer = strict.post("Broker", a, security="TLSv1.2")
    assert (answer.status_code, "details.securityMode: 'TLSv1.2' is not offered" in answer.text) == (400, True)


# -- version and token --------------------------------------------------------------------------------------------


@pytest.mark.conformance("tlex.version")
def test_the_hub_sends_its_version_before_the_client_has_said_anything(site: Site) -> None:
    assert site.dial().version() == b"\x01"


@pytest.mark.conformance("tlex.version.other")
def test_another_version_is_refused_without_a_word(site: Site) -> None:
    peer = site.dial()
    peer.send_bytes(b"\x02" + Token("x").encode())
    assert peer.rest() == []


@pytest.mark.conformance("tlex.token.first")
def test_whoever_does_not_begin_with_a_token_is_refused_without_a_word(site: Site) -> None:
    for first in (KeepAlive(), plain("hello"), Bye("hello"), TimestampsRequest(1), Unknown(0x77, b"")):
        peer = site.dial()
        peer.send_bytes(PREAMBLE + first.encode())
        assert peer.rest() == []


@pytest.mark.conformance("tlex.size.0x01")
def test_a_token_without_a_token_is_refused_without_a_word(site: Site) -> None:
    peer = site.dial()
    peer.send_bytes(PREAMBLE + frame(b"\x01"))
    assert peer.rest() == []


@pytest.mark.conformance("tlex.token.unknown")
def test_an_unknown_token_is_refused_without_a_word(site: Site) -> None:
    for token in ("x", "x" * 43, "x" * 65_534):
        peer = site.dial()
        peer.send_bytes(PREAMBLE + Token(token).encode())
        assert peer.rest() == []


@pytest.mark.conformance("tlex.token.once")
def test_a_token_is_good_for_one_connection_which_a_second_one_does_not_disturb(site: Site) -> None:
    (a,) = site.tlcs(1)
    first = site.join("Broker", a)
    second = site.dial()
    second.send_bytes(PREAMBLE + Token(first.token).encode())
    assert second.rest() == []
    first.synchronize()


@pytest.mark.conformance("tlex.token.ended")
def test_the_token_of_a_session_that_has_ended_is_of_no_use(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send(Bye())
    assert peer.bye() is None
    again = site.dial()
    again.send_bytes(PREAMBLE + Token(peer.token).encode())
    assert again.rest() == []


@pytest.mark.conformance("tlex.token.expired")
def test_a_token_expires_and_its_controllers_are_free_again(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    session = strict.session("Broker", a)
    path = f"/sessions/{session['token']}"
    # The hub has the last word on what time it is.
    while strict.http.get(path, headers={"X-Authorization": _broker(strict)}).status_code == 200:
        pass
    peer = strict.dial()
    peer.send_bytes(PREAMBLE + Token(session["token"]).encode())
    assert peer.rest() == []
    assert strict.post("Broker", a).status_code == 200


def _broker(site: Site) -> str:
    from penstock.exchange.authorization import Role

    return site.token(Role.BROKER_ADMIN)


@pytest.mark.conformance("tlex.token.late")
def test_whoever_says_nothing_is_sent_away(strict: Site) -> None:
    silent, half = strict.dial(), strict.dial()
    half.send_bytes(PREAMBLE + Token("x" * 43).encode()[:-1])
    assert silent.rest() == half.rest() == []


@pytest.mark.conformance("tlex.token.again")
def test_a_second_token_is_a_violation(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send(Token(peer.token))
    assert (peer.bye() or "").startswith("protocol violation: Token (0x01)")


@pytest.mark.conformance("tlex.token.together")
def test_what_comes_together_with_the_token_is_served(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker = site.join("Broker", a)
    session = site.session("TLC", a, protocol="TCPStreaming_Singleplex")
    controller = site.dial()
    controller.send_bytes(PREAMBLE + Token(session["token"]).encode() + plain("at once").encode())
    assert broker.payload() == named(a, "at once")


# -- frames -------------------------------------------------------------------------------------------------------


BROKEN = {
    "prefix": b"\xaa\xbc\x00\x01\x00",
    "prefix.first": b"\xab",
    "size_zero": b"\xaa\xbb\x00\x00",
}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.conformance(f"tlex.frame.{name}"), id=name) for name in BROKEN]
)
def test_what_is_no_frame_ends_the_connection_at_once_and_without_bye(site: Site, case: str) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send_bytes(BROKEN[case])
    assert not [each for each in peer.rest() if isinstance(each, Bye)]


@pytest.mark.conformance("tlex.frame.cut")
def test_a_frame_that_is_cut_off_by_the_end_of_the_connection_is_nobodys(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller = site.join("Broker", a), site.controller(a)
    controller.send_bytes(plain("whole").encode() + plain("cut off").encode()[:-1])
    controller.socket.shutdown(socket.SHUT_WR)
    assert not [each for each in controller.rest() if isinstance(each, Bye)]
    assert broker.payload() == named(a, "whole")
    again = site.controller(a)
    again.send(plain("next"))
    assert broker.payload() == named(a, "next")


@pytest.mark.conformance("tlex.byte_order")
def test_numbers_begin_with_their_most_significant_byte(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller = site.join("Broker", a), site.controller(a)
    controller.send_bytes(bytes.fromhex("AABB 000D 04 02 0102030405060708") + b"abc")
    expected = bytes.fromhex("AABB 0015 05") + a.encode() + bytes.fromhex("02 0102030405060708") + b"abc"
    found = b""
    while expected not in found:
        data = broker.socket.recv(65_536)
        assert data, found
        found += data


@pytest.mark.conformance("tlex.frame.split")
def test_frames_may_come_byte_by_byte(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller = site.join("Broker", a), site.controller(a)
    controller.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in plain("slowly").encode():
        controller.send_bytes(bytes([byte]))
    assert broker.payload() == named(a, "slowly")


@pytest.mark.conformance("tlex.frame.many")
def test_many_frames_may_come_at_once(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller = site.join("Broker", a), site.controller(a)
    sent = [f"number {number}" for number in range(50)]
    controller.send(*[plain(each) for each in sent])
    assert [broker.payload() for _ in sent] == [named(a, each) for each in sent]


@pytest.mark.conformance("tlex.frame.largest")
def test_the_largest_payload_that_fits_everybody_arrives(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, monitor, controller = site.join("Broker", a), site.join("Monitor", a), site.controller(a)
    controller.send(plain("x" * 65_453))
    assert len(broker.payload().data) == 65_453
    assert monitor.payload().data.endswith(b"x" * 65_453)


@pytest.mark.conformance("tlex.frame.nodelay")
def test_the_hub_does_not_hold_small_frames_back(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)

    def delays() -> set[int]:
        links = list(site.door.listeners._links)
        found = [link._transport.get_extra_info("socket") for link in links]
        return {each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in found}

    assert site.background.call(delays) == {1}
    peer.synchronize()


# -- datagrams ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("tlex.0x00")
def test_keep_alives_keep_a_session_alive(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    peer = strict.controller(a)
    # The hub asks for timestamps each 0.3 s: after 8 of them the time that it waits has passed twice.
    for _ in range(8):
        peer.expect(TimestampsRequest)
        peer.keep_alive()
    peer.synchronize()


@pytest.mark.conformance("tlex.0x00.theirs")
def test_the_hub_sends_keep_alives_when_it_has_nothing_else_to_send(site: Site) -> None:
    (a,) = site.tlcs(1)
    assert site.join("Broker", a).expect(KeepAlive) == KeepAlive()


@pytest.mark.conformance("tlex.0x02")
def test_a_client_that_says_bye_is_gone(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("TLC", a)
    peer.send(Bye("good night"), plain("this is not looked at"))
    assert peer.bye() is None
    assert site.post("TLC", a).status_code == 200


@pytest.mark.conformance("tlex.0x02.reason")
def test_a_client_need_not_say_why_it_goes(site: Site) -> None:
    a, b, c = site.tlcs(3)
    for identifier, last in ((a, frame(b"\x02")), (b, frame(b"\x02" + b"x" * 65_534)), (c, frame(b"\x02\xff"))):
        peer = site.join("TLC", identifier)
        peer.send_bytes(last)
        assert peer.bye() is None
        assert site.post("TLC", identifier).status_code == 200


@pytest.mark.conformance("tlex.0x02.close")
def test_a_client_that_closes_its_side_is_gone(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("TLC", a)
    peer.socket.shutdown(socket.SHUT_WR)
    peer.rest()
    assert site.post("TLC", a).status_code == 200


@pytest.mark.conformance("tlex.0x03")
def test_when_the_server_goes_down_clients_are_asked_to_reconnect_and_later_sent_away(tmp_path: Path) -> None:
    with Site(tmp_path, {"tlex.reconnect_millis": 300}) as own:
        a, b = own.tlcs(2)
        leaving, staying = own.join("Broker", a), own.join("Broker", b)
        own.background._loop.call_soon_threadsafe(own.background._stop.set)
        leaving.expect(Reconnect)
        leaving.send(Bye())
        staying.expect(Reconnect)
        assert leaving.bye() is None
        assert staying.bye() == "normal shutdown"


@pytest.mark.conformance("tlex.0x03.claims")
def test_the_controllers_of_a_session_that_is_to_reconnect_can_be_had_at_once(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, old = site.join("Broker", a), site.controller(a)

    def reconnect() -> None:
        from penstock.doors.tlex.listener import instant

        site.door.hub.reconnect(site.door.hub.sessions[old.token], instant())

    site.background.call(reconnect)
    old.expect(Reconnect)
    old.send(plain("still here"))
    assert broker.payload() == named(a, "still here")
    new = site.controller(a)
    new.send(plain("here again"))
    assert broker.payload() == named(a, "here again")


@pytest.mark.conformance("tlex.0x03.client")
def test_a_client_must_not_send_reconnect(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send(Reconnect())
    assert (peer.bye() or "").startswith("protocol violation: Reconnect (0x03)")


@pytest.mark.conformance("tlex.0x04.multiplex")
def test_a_payload_without_identifier_ends_a_multiplex_session(site: Site) -> None:
    a, b = site.tlcs(2)
    for peer in (site.join("TLC", a), site.join("Broker", b)):
        peer.send(plain("hello"))
        assert (peer.bye() or "").startswith("protocol violation: Payload without TLC identifier (0x04)")


@pytest.mark.conformance("tlex.0x05.singleplex")
def test_a_payload_with_identifier_ends_a_singleplex_session(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.controller(a)
    peer.send(named(a, "hello"))
    assert (peer.bye() or "").startswith("protocol violation: Payload with TLC identifier (0x05)")


@pytest.mark.conformance("tlex.0x06")
def test_the_hub_asks_for_timestamps_as_soon_as_a_session_is_connected_and_then_regularly(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    session = strict.session("Broker", a)
    peer = strict.dial()
    peer.send_bytes(PREAMBLE + Token(session["token"]).encode())
    first = peer.next()
    assert isinstance(first, TimestampsRequest)
    assert first.sent < peer.expect(TimestampsRequest).sent < peer.expect(TimestampsRequest).sent


@pytest.mark.conformance("tlex.0x06.client")
def test_a_client_that_asks_for_timestamps_is_answered(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send(TimestampsRequest(2**64 - 1))
    answer = peer.expect(TimestampsResponse)
    assert answer.request_sent == 2**64 - 1
    assert NOON < answer.request_received <= answer.response_sent


@pytest.mark.conformance("tlex.0x07")
def test_an_answer_tells_the_hub_latency_and_clock_difference(site: Site) -> None:
    (a,) = site.tlcs(1)
    session = site.session("Broker", a)
    peer = site.dial()
    peer.send_bytes(PREAMBLE + Token(session["token"]).encode())
    request = peer.expect(TimestampsRequest)
    # A clock that is 700 ms ahead, of somebody who answers at once.
    peer.send(TimestampsResponse(request.sent, request.sent + 700, request.sent + 700))
    peer.synchronize()
    connection = site.door.hub.sessions[session["token"]].conversation
    assert connection is not None
    latency = connection.clock.latency
    assert latency is not None
    assert connection.clock.difference == 700 - latency / 2


@pytest.mark.conformance("tlex.0x07.unknown")
def test_an_answer_that_nobody_has_asked_for_is_ignored(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send(TimestampsResponse(1, 1, 1))
    peer.synchronize()


@pytest.mark.conformance("tlex.datagram.unknown")
def test_datagrams_that_do_not_exist_are_ignored(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send(*[Unknown(number, b"anything") for number in range(0x08, 0x100)])
    peer.synchronize()


SIZES = {
    "0x00": b"\x00\x00",
    "0x03": b"\x03\x00",
    "0x05": b"\x05" + b"x" * 16,
    "0x06.short": b"\x06" + b"x" * 7,
    "0x06.long": b"\x06" + b"x" * 9,
    "0x07.short": b"\x07" + b"x" * 23,
    "0x07.long": b"\x07" + b"x" * 25,
}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.conformance(f"tlex.size.{name}"), id=name) for name in SIZES]
)
def test_a_datagram_of_a_size_that_it_cannot_have_is_a_violation(site: Site, case: str) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    peer.send_bytes(frame(SIZES[case]))
    assert (peer.bye() or "").startswith("protocol violation: ")


@pytest.mark.conformance("tlex.size.0x04")
def test_a_payload_shorter_than_its_head_is_a_violation(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.controller(a)
    peer.send_bytes(frame(b"\x04\x01\x03\x23"))
    assert (peer.bye() or "").startswith("protocol violation: Payload without TLC identifier (0x04): 4 bytes")


def is_identified(peer: Peer) -> bool:
    return isinstance(peer.payload(), IdentifiedPayload)


@pytest.mark.conformance("tlex.0x05.received")
def test_multiplex_sessions_receive_payloads_with_identifier_only(site: Site) -> None:
    a, b = site.tlcs(2)
    tlc, broker, controller = site.join("TLC", a), site.join("Broker", a, b), site.controller(b)
    controller.send(plain("up"))
    assert is_identified(broker)
    broker.send(named(a, "down"))
    assert is_identified(tlc)
