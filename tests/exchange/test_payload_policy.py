from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.exchange.administration import require_grant
from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.payload_policy import EVERYTHING, PayloadPolicy
from penstock.exchange.refusals import HubReason, HubRefusal
from tests.exchange.world import BROKER, MONITOR, MULTIPLEX, SINGLEPLEX, TLC, A, Peer, World, named, plain

ONE, TWO = frozenset({1}), frozenset({1, 2})


def test_a_policy_includes_those_that_allow_nothing_more() -> None:
    assert EVERYTHING.includes(EVERYTHING)
    assert EVERYTHING.includes(PayloadPolicy(ONE, TWO))
    assert PayloadPolicy(TWO, TWO).includes(PayloadPolicy(ONE, frozenset()))
    assert not PayloadPolicy(send=ONE).includes(EVERYTHING)
    assert not PayloadPolicy(send=ONE).includes(PayloadPolicy(send=TWO))
    assert not PayloadPolicy(receive=ONE).includes(PayloadPolicy(receive=TWO))


def test_who_is_restricted_to_payload_types_grants_no_others() -> None:
    admin = Authorization("1", "ours", "test", Role.BROKER_ADMIN, policy=PayloadPolicy(send=ONE))
    require_grant(admin, replace(admin, role=Role.BROKER_SYSTEM), ())
    with pytest.raises(HubRefusal) as refused:
        require_grant(admin, replace(admin, policy=EVERYTHING), ())
    assert refused.value.reason is HubReason.GRANTED_POLICY


def joined(world: World, type: object, policy: PayloadPolicy, singleplex: bool = False) -> Peer:
    kind = {"TLC": TLC, "Broker": BROKER, "Monitor": MONITOR}[str(type)]
    order = world.request(kind, A, protocol=SINGLEPLEX if singleplex else MULTIPLEX)
    return world.connect(world.hub.create(replace(world.authorization(kind), policy=policy), order, world.now))


@pytest.mark.parametrize("singleplex", [True, False])
def test_what_may_not_be_sent_is_dropped_and_counted(singleplex: bool) -> None:
    world = World()
    world.register(A)
    broker = world.join(BROKER, A)
    controller = joined(world, "TLC", PayloadPolicy(send=ONE), singleplex)
    if singleplex:
        controller.send(plain("yes", 1), plain("no", 2))
    else:
        controller.send(named(A, "yes", 1), named(A, "no", 2))
    assert broker.texts() == ["yes"]
    assert controller.session.counters.forbidden == 1


@pytest.mark.parametrize("singleplex", [True, False])
def test_what_may_not_be_received_is_withheld_and_counted(singleplex: bool) -> None:
    world = World()
    world.register(A)
    controller = joined(world, "TLC", PayloadPolicy(receive=ONE), singleplex)
    broker = world.join(BROKER, A)
    broker.send(named(A, "yes", 1), named(A, "no", 2))
    broker.send(named(A, "no", 2))
    broker.send(named(A, "all", 1))
    assert controller.texts() == ["yes", "all"]
    assert (controller.session.counters.withheld, controller.session.counters.routed) == (2, 2)


def test_the_policy_of_a_monitor_is_about_original_types() -> None:
    world = World()
    world.register(A)
    monitor = joined(world, "Monitor", PayloadPolicy(receive=ONE))
    world.join(TLC, A).send(named(A, "yes", 1), named(A, "no", 2))
    (only,) = monitor.payloads()
    assert only.data.endswith(b"\x01yes")


def test_a_payload_that_is_too_long_is_counted_whatever_may_be_received() -> None:
    world = World()
    world.register(A)
    broker = joined(world, "Broker", PayloadPolicy(receive=ONE))
    controller = world.join(TLC, A, protocol=SINGLEPLEX)
    controller.send(plain("x" * 65_518, 1), plain("no", 2), plain("no", 3), plain("yes", 1))
    assert broker.texts() == ["yes"]
    counters = broker.session.counters
    assert (counters.oversized, counters.withheld, counters.routed) == (1, 2, 2)
