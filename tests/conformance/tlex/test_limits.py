from __future__ import annotations

from pathlib import Path

import pytest

from penstock.wire.tlex.datagrams import Bye, IdentifiedPayload, TimestampsRequest, TimestampsResponse
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
    assert controller.bye() == "payload rate limit exceeded: at most 10 a second over 3 s"
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
    assert controller.bye() == "payload throughput limit exceeded: at most 1 KB a second over 3 s"


@pytest.mark.conformance("tlex.limit.payloadRateLimitDuration", "tlex.limit.payloadThroughputLimitDuration")
def test_what_is_older_than_the_duration_does_not_count(strict: Site) -> None:
    a, b = strict.tlcs(2)
    often, much = strict.controller(a), strict.controller(b)
    all_that_is_allowed = ((often, [plain("")] * 30), (much, [plain("x" * 3 * 1024)]))
    for peer, payloads in all_that_is_allowed:
        peer.send(*payloads)
    # The hub asks for timestamps each 0.3 s, for the first time at once: then 3 s have passed and more.
    for _ in range(13):
        for peer in (often, much):
            peer.expect(TimestampsRequest)
            peer.keep_alive()
    for peer, payloads in all_that_is_allowed:
        peer.send(*payloads)
        peer.synchronize()
        peer.send(plain("x"))
        assert (peer.bye() or "").startswith("payload ")


@pytest.mark.conformance("tlex.limit.type")
def test_each_type_of_session_has_limits_of_its_own(site: Site) -> None:
    (a,) = site.tlcs(1)
    found = {type_: site.session(type_, a)["details"] for type_ in ("TLC", "Broker", "Monitor")}
    assert {type_: each["payloadRateLimit"] for type_, each in found.items()} == {
        "TLC": 12,
        "Broker": 1_200,
        "Monitor": 1_200,
    }
    assert {type_: each["payloadThroughputLimit"] for type_, each in found.items()} == {
        "TLC": 60,
        "Broker": 120,
        "Monitor": 120,
    }


@pytest.mark.conformance("tlex.slow", "tlex.slow.counted")
def test_a_receiver_that_does_not_read_loses_payloads_which_are_counted_and_nobody_waits_for_it(tmp_path: Path) -> None:
    fast = {"tlex.tlc.payloads_per_second": 1_000_000, "tlex.tlc.kilobytes_per_second": 1_000_000}
    with Site(tmp_path, {**fast, "tlex.queue_frames": 20, "tlex.broker.keep_alive_millis": 60_000}) as own:
        (a,) = own.tlcs(1)
        slow, quick, controller = own.join("Broker", a), own.join("Broker", a, account="others"), own.controller(a)
        counters = own.door.hub.sessions[slow.token].counters
        count = 0
        while not counters.dropped:
            controller.send(plain(f"{count:06}" + "x" * 50_000))
            assert quick.payload().data[:6] == b"%06d" % count
            count += 1
        slow.send(Bye())
        got = [int(each.data[:6]) for each in slow.rest() if isinstance(each, IdentifiedPayload)]
        assert got == sorted(got)
        assert counters.routed == count
        assert len(got) + counters.dropped + counters.discarded == count


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
