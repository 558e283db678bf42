from __future__ import annotations

import contextlib
import threading
import time

import pytest

from penstock.doors.tlex import listener
from penstock.exchange.receiver import Receiver
from penstock.wire.tlex.datagrams import IdentifiedPayload, Token
from penstock.wire.tlex.frames import PREAMBLE
from tests.doors.tlex.site import PATIENCE, Site, named, plain

FAST = {
    "tlex.tlc.payloads_per_second": 1_000_000,
    "tlex.tlc.kilobytes_per_second": 1_000_000,
    "tlex.broker.keep_alive_millis": 60_000,
    "tlex.tlc.keep_alive_millis": 60_000,
}


def until(condition: object) -> None:
    """Until a condition on the server's thread holds, which it must soon."""
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"


@pytest.mark.config({**FAST, "tlex.queue_frames": 500})
def test_a_receiver_that_does_not_read_is_dropped_from_and_counted_while_others_have_everything_in_order(
    site: Site,
) -> None:
    (a,) = site.tlcs(1)
    slow, quick, controller = site.join("Broker", a), site.join("Broker", a, account="others"), site.controller(a)
    count, filling = 20_000, "x" * 500
    read: list[int] = []

    def take() -> None:
        for _ in range(count):
            read.append(int(quick.payload().data[:6]))

    reader = threading.Thread(target=take)
    reader.start()
    for number in range(count):
        controller.send(plain(f"{number:06}{filling}"))
    controller.synchronize()
    reader.join(PATIENCE)
    assert read == list(range(count))

    # What the slow one gets in the end is in order, and together with what was dropped it is everything.
    counters = site.door.hub.sessions[slow.token].counters
    assert counters.dropped > 0
    got: list[int] = []
    while not got or got[-1] < count - 1:
        got.append(int(slow.payload().data[:6]))
    assert got == sorted(got)
    assert len(got) + counters.dropped == counters.routed == count
    assert counters.sent == len(got)


@pytest.mark.config({"tlex.max_strangers": 3})
def test_who_only_holds_connections_open_does_not_keep_others_out(site: Site) -> None:
    (a,) = site.tlcs(1)
    silent = [site.dial() for _ in range(6)]
    peer = site.join("Broker", a)
    # The oldest had to go: three of the silent, and one more for the broker until it had shown its token.
    assert [each.rest() for each in silent[:4]] == [[]] * 4
    (family,) = site.door.listeners.figures()
    assert [sample.value for sample in family.samples] == [4]
    peer.synchronize()
    assert silent[5].version() == b"\x01"


@pytest.mark.config(FAST)
def test_a_peer_that_does_not_take_its_bye_is_broken_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CLOSE_PATIENCE", 0.2)
    (a,) = site.tlcs(1)
    stuck, controller = site.join("Broker", a), site.controller(a)
    receiver = site.door.hub.sessions[stuck.token].receiver
    assert isinstance(receiver, Receiver)
    while receiver.writable:
        controller.send(*[plain("x" * 10_000)] * 10)
        controller.synchronize()
    from penstock.exchange.authorization import Role

    site.ask("DELETE", f"/sessions/{stuck.token}", Role.BROKER_ADMIN)
    # Of two connections one is left, though nothing has been read from the other.
    until(lambda: site.background.call(lambda: len(site.door.listeners._links)) == 1)


def test_a_hostile_peer_affects_nobody_else(site: Site) -> None:
    (a,) = site.tlcs(1)
    broker, controller = site.join("Broker", a), site.controller(a)
    for nonsense in (b"", b"\x01", b"\x00" * 100_000, PREAMBLE + b"\xaa\xbb\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
        peer = site.dial()
        # It may be closed before all of it was sent.
        with contextlib.suppress(OSError):
            peer.send_bytes(nonsense)
        peer.break_off()
    controller.send(plain("undisturbed"))
    assert broker.payload() == named(a, "undisturbed")
    until(lambda: site.background.call(lambda: site.door.hub.turned_away) == 5)


def test_an_accepted_connection_may_show_its_token_in_the_last_moment(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.dial()
    session = site.session("Broker", a)
    for byte in PREAMBLE + Token(session["token"]).encode():
        peer.send_bytes(bytes([byte]))
    peer.synchronize()


@pytest.mark.config(FAST)
def test_a_hundred_controllers_at_once_lose_nothing(site: Site) -> None:
    identifiers = site.tlcs(100)
    broker = site.join("Broker", *identifiers)
    controllers = [site.controller(each) for each in identifiers]
    for number in range(20):
        for controller in controllers:
            controller.send(plain(str(number)))
    found: dict[str, list[int]] = {}
    for _ in range(20 * 100):
        payload = broker.payload()
        assert isinstance(payload, IdentifiedPayload)
        found.setdefault(payload.identifier, []).append(int(payload.data))
    assert found == {each: list(range(20)) for each in identifiers}


def test_listeners_of_addresses_that_cannot_be_had_are_named(site: Site) -> None:
    import asyncio

    from penstock.doors.tlex.listener import Listeners
    from penstock.transport.listener import ListenError

    async def listen() -> None:
        await Listeners(site.door.hub, 10, 1.0).listen("127.0.0.1", site.door.ports.port, None)

    with pytest.raises(ListenError, match=rf"cannot listen on 127\.0\.0\.1:{site.door.ports.port}: "):
        asyncio.run(listen())


def test_bye_reaches_a_peer_that_is_still_sending(site: Site) -> None:
    """To close with unread bytes would break the connection, and Bye with it."""
    (a,) = site.tlcs(1)
    peer = site.controller(a)
    for _ in range(50):
        peer.send(*[plain("x" * 1_000)] * 500)
    assert (peer.bye() or "").startswith("payload rate limit exceeded")
