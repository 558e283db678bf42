"""Two hundred sessions that come, change, go and are cut off at random, against a naive model of the whole hub."""

from __future__ import annotations

import random

import pytest

from penstock.exchange.receiver import Receiver
from penstock.exchange.refusals import HubRefusal
from penstock.exchange.session import HubSession, SessionState
from penstock.exchange.settings import HubLimits, HubSettings
from penstock.wire.tlex.datagrams import Bye, IdentifiedPayload, KeepAlive, Payload
from tests.exchange.model import AnyPayload, Model, ModelPeer
from tests.exchange.world import BROKER, MONITOR, MULTIPLEX, NOON, SINGLEPLEX, TLC, Peer, World
from tests.support.effort import tries

LIMITS = HubLimits(payloads_per_second=10, payloads_window_seconds=5, kilobytes_per_second=1)
QUEUE_FRAMES = 7
IDENTIFIERS = [f"NLZH{number:04}" for number in range(40)]
DOMAINS = ["amsterdam", "breda", "delft"]
ACCOUNTS = ["one", "two", "three", "four"]
SESSIONS = 200
STEPS = 2_500

STATES = {
    SessionState.PENDING: "pending",
    SessionState.LIVE: "live",
    SessionState.LEAVING: "leaving",
    SessionState.ENDED: "ended",
}


class Run:
    """One run: every step is done to both, then both are compared."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        settings = HubSettings(tlc=LIMITS, broker=LIMITS, monitor=LIMITS, queue_frames=QUEUE_FRAMES)
        self.world = World(settings)
        self.model = Model(LIMITS, QUEUE_FRAMES, silence=5.5, grace=settings.reconnect_grace_seconds)
        self.sessions: dict[ModelPeer, HubSession] = {}
        self.peers: dict[ModelPeer, Peer] = {}
        self.number = 0
        self.done: dict[str, int] = {}
        for domain in DOMAINS:
            self.world.register(*IDENTIFIERS, domain=domain)
            self.model.registered |= {(domain, each) for each in IDENTIFIERS}

    # -- what happens ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        alive = [each for each in self.model.peers if each.state != "ended"]
        if len(alive) < SESSIONS and self.chance.random() < 0.3:
            self.post()
            return
        actions = [
            (self.connect, 15),
            (self.publish, 40),
            (self.put, 8),
            (self.wait, 4),
            (self.block, 3),
            (self.free, 3),
            (self.fall_silent, 0.3),
            (self.cut, 1),
            (self.bye, 1),
            (self.delete, 1),
            (self.reconnect, 1),
            (self.unregister, 0.3),
            (self.register, 0.3),
        ]
        (action,) = self.chance.choices([each for each, _ in actions], [weight for _, weight in actions])
        action()

    def count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def some(self, *states: str) -> ModelPeer | None:
        found = [each for each in self.model.peers if each.state in states]
        return self.chance.choice(found) if found else None

    def post(self) -> None:
        chance, world = self.chance, self.world
        type = chance.choice([TLC, TLC, BROKER, MONITOR])
        singleplex = type is TLC and chance.random() < 0.5
        most = 1 if singleplex else 3 if type is TLC else 10
        asks = ModelPeer(
            type,
            singleplex,
            chance.choice(ACCOUNTS),
            chance.choice(DOMAINS),
            chance.sample(IDENTIFIERS, chance.randint(1, most)),
            token="",
            expires=world.now.elapsed + 5.0,
        )
        # Only as many as the others leave: with all taken at random few would be granted.
        if chance.random() < 0.8:
            asks.identifiers = [
                each for each in asks.identifiers if self.model.may_have(asks, [each])
            ] or asks.identifiers
        allowed = self.model.may_have(asks, asks.identifiers)
        protocol = SINGLEPLEX if singleplex else MULTIPLEX
        try:
            session = world.open(type, *asks.identifiers, account=asks.account, domain=asks.domain, protocol=protocol)
        except HubRefusal:
            assert not allowed
            self.count("refused POST")
            return
        assert allowed
        asks.token = session.token
        self.model.peers.append(asks)
        self.sessions[asks] = session
        self.count("POST")

    def connect(self) -> None:
        peer = self.some("pending")
        if peer is not None:
            self.peers[peer] = self.world.connect(self.sessions[peer])
            self.model.connect(peer, self.world.now.elapsed)
            self.count("connect")

    def publish(self) -> None:
        peer = self.some("live", "leaving")
        if peer is None:
            return
        payloads = [self.payload(peer) for _ in range(self.chance.randint(1, 10))]
        if self.chance.random() < 0.98 and peer.type is MONITOR:
            return
        self.peers[peer].send(*payloads)
        self.model.publish(peer, payloads, self.world.now.elapsed, self.world.now.utc)
        self.count("publish")
        if peer.state == "ended":
            self.count("violation or limit")

    def payload(self, peer: ModelPeer) -> AnyPayload:
        chance = self.chance
        self.number += 1
        type = 0xF0 + chance.randrange(16) if chance.random() < 0.05 else chance.randrange(0xF0)
        data = str(self.number).encode() + b"x" * chance.randrange(60)
        if peer.singleplex != (chance.random() < 0.002):
            return Payload(type, self.number, data)
        foreign = not peer.identifiers or chance.random() < 0.1
        identifier = chance.choice(IDENTIFIERS if foreign else peer.identifiers)
        return IdentifiedPayload(identifier, type, self.number, data)

    def put(self) -> None:
        peer = self.some("pending", "live", "leaving")
        if peer is None:
            return
        kept = self.chance.sample(peer.identifiers, self.chance.randint(0, len(peer.identifiers)))
        added = self.chance.sample(IDENTIFIERS, self.chance.randint(0, 3))
        if self.chance.random() < 0.7:
            added = [each for each in added if self.model.may_have(peer, [each])]
        wanted = list(dict.fromkeys([*kept, *added]))
        if not wanted:
            return
        allowed = not peer.singleplex and peer.state != "leaving" and self.model.may_have(peer, wanted)
        try:
            self.world.put(self.sessions[peer], *wanted)
        except HubRefusal:
            assert not allowed
            self.count("refused PUT")
            return
        assert allowed
        peer.identifiers = wanted
        if peer.state == "live":
            self.model.replace(peer)
        self.count("PUT")

    def wait(self) -> None:
        world = self.world
        for _ in range(self.chance.randint(1, 3)):
            world.move(0.25)
            for peer, real in self.peers.items():
                if peer.connected and not peer.silent:
                    real.interpreter.received(KeepAlive().encode(), world.now)
            world.hub.tick(world.now)
            world.turn()
            self.model.tick(world.now.elapsed)
        self.count("wait")

    def block(self) -> None:
        peer = self.some("live", "leaving")
        if peer is not None:
            peer.blocked = True
            self.peers[peer].conversation.set_writable(False)
            self.count("block")

    def free(self) -> None:
        blocked = [each for each in self.model.peers if each.connected and each.blocked]
        if blocked:
            peer = self.chance.choice(blocked)
            self.peers[peer].free()
            self.model.free(peer, self.world.now.utc)
            self.count("free")

    def fall_silent(self) -> None:
        peer = self.some("live", "leaving")
        if peer is not None:
            peer.silent = True
            self.count("silent")

    def cut(self) -> None:
        peer = self.some("live", "leaving")
        if peer is not None:
            self.peers[peer].conversation.lost(self.chance.random() < 0.5, self.world.now)
            self.model.end(peer)
            self.count("cut")

    def bye(self) -> None:
        peer = self.some("live", "leaving")
        if peer is not None:
            self.peers[peer].send(Bye())
            self.model.end(peer)
            self.count("bye")

    def delete(self) -> None:
        peer = self.some("pending", "live", "leaving")
        if peer is not None:
            authorization = self.world.authorization(peer.type, peer.account, peer.domain)
            self.world.hub.delete(authorization, peer.token, self.world.now)
            self.model.end(peer)
            self.count("delete")

    def reconnect(self) -> None:
        peer = self.some("live")
        if peer is not None:
            self.world.hub.reconnect(self.sessions[peer], self.world.now)
            self.world.turn()
            peer.state = "leaving"
            peer.leaves = self.world.now.elapsed + self.model.grace
            self.count("reconnect")

    def unregister(self) -> None:
        domain, identifier = self.chance.choice(sorted(self.model.registered))
        self.world.hub.unregister(f"{domain}-{identifier}", self.world.now)
        self.model.unregister(domain, identifier)
        self.count("unregister")

    def register(self) -> None:
        missing = sorted({(domain, each) for domain in DOMAINS for each in IDENTIFIERS} - self.model.registered)
        if missing:
            domain, identifier = self.chance.choice(missing)
            self.world.register(identifier, domain=domain)
            self.model.registered.add((domain, identifier))
            self.count("register")

    # -- comparing ------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        for peer, session in list(self.sessions.items()):
            assert STATES[session.state] == peer.state
            real = self.peers.get(peer)
            if real is not None:
                if peer.expected or real.writes:
                    assert real.payloads() == peer.expected
                    peer.expected.clear()
                assert real.closed == (peer.state == "ended")
            if peer.state == "ended":
                self.compare_counters(peer, session)
                del self.sessions[peer]
                self.peers.pop(peer, None)
                self.model.peers.remove(peer)
            else:
                assert [each.decode() for each in session.scope] == peer.identifiers
                assert set(peer.identifiers) <= set(session.identifiers)

    def compare_counters(self, peer: ModelPeer, session: HubSession) -> None:
        count = session.counters
        waiting = session.receiver.waiting if isinstance(session.receiver, Receiver) else 0
        assert count.dropped == peer.dropped
        assert count.received == peer.received
        assert count.routed == count.sent + count.dropped + count.oversized + count.discarded + waiting


@pytest.mark.parametrize("seed", range(tries(4)))
def test_two_hundred_sessions_get_exactly_what_a_naive_model_says(seed: int) -> None:
    run = Run(seed)
    most = 0
    for _ in range(STEPS):
        run.step()
        run.compare()
        most = max(most, len(run.sessions))
    for peer, session in run.sessions.items():
        run.compare_counters(peer, session)
    assert most > SESSIONS / 2
    # Everything that can happen did.
    assert len(run.done) == 17, sorted(run.done)
    # And when all are gone nothing is left of them.
    run.world.hub.shut(run.world.now)
    assert not run.world.hub.sessions
    for controller in run.world.hub.registry:
        assert not controller.claims
        assert not controller.live
        assert controller.owners == controller.brokers == controller.monitors == ()
    assert run.world.now.utc > NOON
