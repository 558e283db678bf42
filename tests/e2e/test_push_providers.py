"""A server process whose provider misbehaves: devices of other applications do not wait, and what fired arrives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from penstock.testing.http2_peer import Fault, PeerAnswer
from tests.support.apple import AppleStandIn, SentToApple, apple_token
from tests.support.push_process import PushProcess, follow

GOOD, BAD = "com.example.good", "com.example.bad"
# Of the bad application; more than its provider may have on their way.
TOKENS = [apple_token(number) for number in range(1, 6)]
MAX_SENDS = 3
WITNESS = apple_token(9)
UPDATES = [str(number) for number in range(10)]
GONE = PeerAnswer(410, b'{"reason":"Unregistered","timestamp":1}')

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True, slots=True)
class World:
    server: PushProcess
    good: AppleStandIn
    bad: AppleStandIn

    def register_all(self) -> None:
        """Devices of the bad application with a trigger each, and one of the good one that gets every update."""
        with self.server.client() as client:
            for token in TOKENS:
                client.register(token, PN_appId=BAD)
                follow(client, PN_trigger="Double.parseDouble(${x}) >= 0")
            client.register(WITNESS, PN_appId=GOOD)
            follow(client)

    def publish_all(self) -> None:
        """Each update, when the one before has arrived at the good application."""
        for value in UPDATES:
            self.server.publish(value)
            self.good.wait(partial(is_last, value))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        good, bad = stack.enter_context(AppleStandIn()), stack.enter_context(AppleStandIn())
        keys = good.settings(GOOD, tmp_path / "good.p8") | bad.settings(BAD, tmp_path / "bad.p8")
        server = PushProcess(tmp_path, keys | {"push.max_sends": MAX_SENDS, "push.send_timeout_millis": 60_000})
        yield World(stack.enter_context(server), good, bad)


def is_last(alert: str, sent: list[SentToApple]) -> bool:
    return bool(sent) and sent[-1].alert == alert


def arrived(sent: list[SentToApple]) -> bool:
    return {each.token for each in sent} == set(TOKENS)


def test_a_provider_that_hangs_delays_its_own_application_only(world: World) -> None:
    world.bad.answer = lambda sent: Fault.HANG
    world.register_all()
    world.publish_all()
    assert [each.alert for each in world.good.sent] == UPDATES
    assert len(world.bad.sent) == MAX_SENDS
    # It is killed in the middle: nothing has been accepted, so all are sent.
    world.server.kill()
    before = len(world.bad.sent)
    world.bad.answer = lambda sent: PeerAnswer()
    world.server.start()
    world.bad.wait(lambda sent: arrived(sent[before:]))
    assert [each.alert for each in world.bad.sent[before:]] == ["0"] * len(TOKENS)


def test_a_provider_that_hangs_for_one_device_does_not_keep_the_others_of_its_application_waiting(world: World) -> None:
    world.bad.answer = lambda sent: Fault.HANG if sent.token == TOKENS[0] else PeerAnswer()
    world.register_all()
    world.publish_all()
    world.bad.wait(arrived)


@pytest.mark.parametrize("fault", [Fault.NONSENSE, Fault.WRONG_FRAME, Fault.CLOSE_IN_THE_MIDDLE, Fault.RESET])
def test_a_provider_that_misbehaves_gets_everything_when_it_has_recovered(world: World, fault: Fault) -> None:
    world.bad.answer = lambda sent: fault
    world.register_all()
    world.publish_all()
    world.bad.wait(lambda sent: len(sent) >= MAX_SENDS)
    accepted: list[SentToApple] = []

    def recovered(sent: SentToApple) -> PeerAnswer:
        accepted.append(sent)
        return PeerAnswer()

    world.bad.answer = recovered
    world.bad.wait(lambda sent: arrived(accepted))
    assert sorted(each.token for each in accepted) == TOKENS
    assert "Traceback" not in world.server.log


def test_a_provider_that_knows_no_device_any_more_suspends_all_of_them_and_what_fired_is_kept(world: World) -> None:
    world.bad.answer = lambda sent: GONE
    world.register_all()
    with ExitStack() as stack:
        # One for each, because a session has one device.
        clients = [stack.enter_context(world.server.client()) for _ in TOKENS]
        devices = [client.register(token, PN_appId=BAD) for client, token in zip(clients, TOKENS, strict=True)]
        for client, device in zip(clients, devices, strict=True):
            client.subscribe(f"DEV-{device}", "status")
            assert client.told("U")[2] == "ACTIVE"
        world.publish_all()
        assert [client.told("U")[2] for client in clients] == ["SUSPENDED"] * len(TOKENS)
    assert len(world.bad.sent) == len(TOKENS)
    world.bad.answer = lambda sent: PeerAnswer()
    with world.server.client() as client:
        assert [client.register(token, PN_appId=BAD) for token in TOKENS] == devices
    world.bad.wait(lambda sent: arrived(sent[len(TOKENS) :]))
    assert len(world.bad.sent) == 2 * len(TOKENS)
