from __future__ import annotations

import pytest

from penstock.wire.tlex.datagrams import TimestampsRequest, TimestampsResponse
from tests.doors.tlex.site import Peer, Site, plain


@pytest.mark.conformance("tlex.limit.keepAliveTimeout")
def test_a_session_that_is_silent_for_too_long_is_ended(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    assert (strict.controller(a).bye() or "").startswith("keep alive timeout")


@pytest.mark.conformance("tlex.limit.payloadRateLimit")
def test_as_many_payloads_as_allowed_are_passed_on_and_one_more_ends_the_session(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    broker, controller = strict.join("Broker", a), strict.controller(a)
    controller.send(*[plain(str(number)) for number in range(30)])
    controller.synchronize()
    assert [broker.payload().data for _ in range(30)] == [str(number).encode() for number in range(30)]
    controller.send(plain("one too many"))
    assert controller.bye() == "payload rate limit exceeded: allowed are 10 a second over 3 s"
    broker.synchronize()
    assert not [each for each in broker._datagrams if not isinstance(each, TimestampsRequest)]


@pytest.mark.conformance("tlex.limit.payloadThroughputLimit")
def test_as_many_bytes_as_allowed_are_passed_on_and_one_more_ends_the_session(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    broker, controller = strict.join("Broker", a), strict.controller(a)
    controller.send(plain("x" * 3 * 1024))
    assert len(broker.payload().data) == 3 * 1024
    controller.send(plain(""))
    assert broker.payload().data == b""
    controller.send(plain("x"))
    assert controller.bye() == "payload throughput limit exceeded: allowed are 1 KB a second over 3 s"


def answer(peer: Peer, ahead: int) -> None:
    request = peer.expect(TimestampsRequest)
    peer.send(TimestampsResponse(request.sent, request.sent + ahead, request.sent + ahead))


@pytest.mark.conformance("tlex.limit.clockDiffLimit")
def test_a_peer_whose_clock_is_too_far_off_is_sent_away(strict: Site) -> None:
    a, b = strict.tlcs(2)
    for peer, ahead in ((strict.join("Broker", a), 5_000), (strict.join("Broker", b), -5_000)):
        answer(peer, ahead)
        assert (peer.bye() or "").startswith("time sync failure: ")


@pytest.mark.conformance("tlex.limit.clockDiffLimitDuration")
def test_the_clock_difference_is_averaged(strict: Site) -> None:
    (a,) = strict.tlcs(1)
    peer = strict.join("Broker", a)
    # On average up to 925, of the 1,000 that are allowed.
    for ahead in (0, 0, 1_800, 1_900):
        answer(peer, ahead)
    peer.synchronize()
    answer(peer, 1_900)
    assert (peer.bye() or "").startswith("time sync failure: ")
