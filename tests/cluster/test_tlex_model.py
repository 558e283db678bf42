"""TLEX sessions at several nodes at random: nodes and hubs that die, ways that break, a fabric that loses, repeats and
reorders, against what a naive person would demand of every payload and every token.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest

from penstock.exchange.instant import Instant
from penstock.exchange.refusals import HubRefusal
from penstock.exchange.session import HubSession, SessionState
from penstock.wire.tlex.datagrams import Bye, Reconnect
from penstock.wire.tlex.monitor import decode_monitor_payload
from penstock.wire.tlex.vocabulary import SessionType
from tests.exchange.nodes import NodesWorld
from tests.exchange.world import BROKER, MONITOR, MULTIPLEX, SINGLEPLEX, TLC, Peer, named, plain
from tests.support.effort import tries

pytestmark = pytest.mark.timeout(300)

NODES = "xyz"
IDENTIFIERS = [f"NLZH{number:04}" for number in range(6)]
ACCOUNTS = ["one", "two"]
STEPS = 20_000 if os.environ.get("PENSTOCK_PROFILE") == "long" else tries(1_000)


@dataclass(eq=False)
class Member:
    """A client: what it has asked for, sent and received."""

    session: HubSession
    peer: Peer
    identifiers: list[str]
    singleplex: bool
    # Identifier and number of what it has sent while it knew of no trouble.
    sent: list[tuple[str, int]] = field(default_factory=list)
    # Sender and number of what it got, by identifier.
    got: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    # When it was connected, in payloads that everybody has sent.
    since: int = 0
    asked_to_leave: bool = False

    @property
    def type(self) -> SessionType:
        return self.session.type

    @property
    def is_there(self) -> bool:
        return self.peer.conversation.session is not None and self.peer.conversation.open

    def read(self) -> None:
        for each in self.peer.take():
            if isinstance(each, Bye | Reconnect):
                self.asked_to_leave = True
            data = getattr(each, "data", None)
            if data is None:
                continue
            if self.type is MONITOR:
                data = decode_monitor_payload(data).data
            sender, identifier, number = data.decode().split()
            self.got.setdefault(identifier, []).append((sender, int(number)))


class Run:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.world = NodesWorld(*NODES, chance=0.15, seed=seed)
        self.world.register(*IDENTIFIERS)
        self.members: list[Member] = []
        self.number = 0
        self.done: Counter[str] = Counter()
        self.attached: Counter[str] = Counter()

    def step(self) -> None:
        actions = [
            (self.post, 14),
            (self.publish, 50),
            (self.rounds, 25),
            (self.wait, 6),
            (self.leave, 2),
            (self.delete, 1),
            (self.reconnect, 1),
            (self.kill, 0.4),
            (self.start, 2),
            (self.cut, 0.6),
            (self.mend, 1.5),
            (self.replace_hub, 0.15),
            (self.calm, 2),
        ]
        (action,) = self.chance.choices([each for each, _ in actions], [weight for _, weight in actions])
        action()
        for member in self.members:
            member.read()

    def some(self) -> Member | None:
        found = [each for each in self.members if each.is_there]
        return self.chance.choice(found) if found else None

    # -- what happens ---------------------------------------------------------------------------------------------

    def post(self) -> None:
        chance, world = self.chance, self.world
        type = chance.choice([TLC, TLC, BROKER, MONITOR])
        singleplex = type is TLC and chance.random() < 0.5
        identifiers = chance.sample(IDENTIFIERS, 1 if singleplex else chance.randint(1, 3))
        protocol = SINGLEPLEX if singleplex else MULTIPLEX
        account = chance.choice(ACCOUNTS)
        taken = {
            identifier
            for each in world.hub.sessions.values()
            if each.state in (SessionState.PENDING, SessionState.LIVE)
            and each.type is type
            and (type is TLC or each.account == account)
            for identifier in each.identifiers
        }
        try:
            session = world.open(type, *identifiers, account=account, protocol=protocol)
        except HubRefusal:
            assert taken & set(identifiers)
            self.done["refused"] += 1
            return
        assert not taken & set(identifiers)
        # At any node; some show their token twice, and one of them is refused.
        for _ in range(2 if chance.random() < 0.2 else 1):
            if world.nodes:
                node = world.nodes[chance.choice(sorted(world.nodes))]
                member = Member(session, node.show(session.token), identifiers, singleplex)
                member.peer.conversation.resumed = partial(self.connected, member)
                self.members.append(member)
        self.done["post"] += 1

    def connected(self, member: Member, now: Instant) -> None:
        assert member.peer.conversation.session is not None
        assert member.peer.conversation.session.id == member.session.id
        self.attached[member.session.token] += 1
        member.since = self.number
        member.peer.interpreter.resume(now)
        self.done["connect"] += 1

    def publish(self) -> None:
        member = self.some()
        if member is None or member.type is MONITOR:
            return
        payloads = []
        for _ in range(self.chance.randint(1, 2)):
            self.number += 1
            identifier = self.chance.choice(member.identifiers)
            text = f"{member.session.id} {identifier} {self.number}"
            payloads.append(plain(text) if member.singleplex else named(identifier, text))
            member.sent.append((identifier, self.number))
        member.peer.send(*payloads)
        self.done["publish"] += 1

    def rounds(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            self.world.round()
        self.done["rounds"] += 1

    def wait(self) -> None:
        self.world.wait(self.chance.choice([0.25, 0.25, 0.5, 1.0, 3.0]))
        self.done["wait"] += 1

    def leave(self) -> None:
        member = self.some()
        if member is not None:
            member.peer.conversation.lost(False, self.world.now)
            self.done["leave"] += 1

    def delete(self) -> None:
        if self.world.hub.sessions:
            session = self.chance.choice(list(self.world.hub.sessions.values()))
            self.world.hub.end(session, self.world.now)
            self.done["delete"] += 1

    def reconnect(self) -> None:
        live = [each for each in self.world.hub.sessions.values() if each.state is SessionState.LIVE]
        if live:
            self.world.hub.reconnect(self.chance.choice(live), self.world.now)
            self.done["reconnect"] += 1

    def kill(self) -> None:
        if self.world.nodes:
            peers = self.world.kill(self.chance.choice(sorted(self.world.nodes)), self.chance.random() < 0.5)
            for member in self.members:
                if member.peer in peers:
                    # As its client sees it.
                    member.peer.conversation.open = False
                    member.asked_to_leave = True
            self.done["kill"] += 1

    def start(self) -> None:
        missing = [name for name in NODES if name not in self.world.nodes]
        if missing:
            self.world.start(self.chance.choice(missing))
            self.done["start"] += 1

    def cut(self) -> None:
        up = [name for name in self.world.nodes if self.world.ways[name].is_up]
        if up:
            self.world.cut(self.chance.choice(sorted(up)))
            self.done["cut"] += 1

    def mend(self) -> None:
        down = [name for name in self.world.nodes if not self.world.ways[name].is_up]
        if down:
            self.world.mend(self.chance.choice(sorted(down)))
            self.done["mend"] += 1

    def replace_hub(self) -> None:
        self.world.begin_hub()
        self.done["replace hub"] += 1

    def calm(self) -> None:
        """For a while nothing is lost."""
        if all(self.world.ways[name].is_up for name in self.world.nodes):
            self.world.chance, chance = 0.0, self.world.chance
            self.world.wait(3.0)
            self.world.settle()
            for member in self.members:
                member.read()
            self.check_complete()
            self.world.chance = chance
            self.done["calm"] += 1

    # -- what is demanded -----------------------------------------------------------------------------------------

    def check_always(self) -> None:
        """Of everybody, whatever has happened."""
        assert set(self.attached.values()) <= {1}, "a token was used twice"
        by_id = {member.session.id: member for member in self.members if member.sent}
        for member in self.members:
            for identifier, got in member.got.items():
                assert identifier in member.identifiers
                numbers: dict[str, int] = {}
                owners: list[str] = []
                for sender, number in got:
                    assert number > numbers.get(sender, 0), "twice, or in another order"
                    numbers[sender] = number
                    other = by_id[sender]
                    assert (identifier, number) in other.sent
                    assert member.type is MONITOR or {member.type, other.type} == {TLC, BROKER}
                    if other.type is TLC and owners[-1:] != [sender]:
                        assert sender not in owners, "a controller had two sessions at a time"
                        owners.append(sender)

    def finish(self) -> None:
        """All is well again: hub and nodes agree."""
        world = self.world
        world.chance = 0.0
        for name in NODES:
            if name not in world.nodes:
                world.start(name)
            elif not world.ways[name].is_up:
                world.mend(name)
        world.wait(20.0)
        world.settle()
        for member in self.members:
            member.read()
        self.check_always()
        there = {member.session.id for member in self.members if member.is_there}
        assert there == {each.id for each in world.hub.sessions.values()}
        assert sum(node.outpost.sessions for node in world.nodes.values()) == len(there)
        for controller in world.hub.registry:
            assert {each.id for each in controller.live.values()} <= there
        self.check_complete()

    def check_complete(self) -> None:
        """Nobody who stayed has missed anything."""
        stayed = [member for member in self.members if member.is_there and not member.asked_to_leave]
        for receiver in stayed:
            for sender in stayed:
                if receiver.type is not MONITOR and {receiver.type, sender.type} != {TLC, BROKER}:
                    continue
                expected = [
                    (identifier, number)
                    for identifier, number in sender.sent
                    if identifier in receiver.identifiers and number > receiver.since
                ]
                got = {
                    (identifier, number)
                    for identifier, all in receiver.got.items()
                    for name, number in all
                    if name == sender.session.id
                }
                assert set(expected) <= got, "a payload was lost silently"
                self.done["complete"] += len(expected)


@pytest.mark.parametrize("seed", range(6))
def test_every_payload_comes_once_in_order_or_its_sessions_end(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.check_always()
    run.finish()
    # Enough has happened that something could have gone wrong.
    assert run.done["complete"] > STEPS / 100, run.done
    assert run.done["connect"] > STEPS / 50, run.done
