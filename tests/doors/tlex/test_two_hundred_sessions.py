"""Two hundred sessions over REST and real sockets that join, change, send, stall and are cut off at random.

What each receives, is refused or is told at the end must be what the naive model says. No action waits for time: each
is over when the hub has answered. The same without sockets, with a clock that is moved, is `test_model`.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from penstock.doors.tlex.messages import BYES
from penstock.exchange.farewells import Farewell
from penstock.exchange.receiver import Receiver
from penstock.exchange.settings import KILOBYTE, HubLimits
from penstock.wire.tlex.datagrams import (
    Bye,
    IdentifiedPayload,
    Payload,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
)
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vocabulary import SessionType
from tests.doors.tlex.crowd import Member, sorted_by, timeless
from tests.doors.tlex.site import PATIENCE, ROLES, Site
from tests.doors.tlex.tls import certified, trusting
from tests.exchange.model import AnyPayload, Model, ModelPeer
from tests.exchange.world import BROKER, MONITOR, TLC

SEEDS = range(12) if os.environ.get("PENSTOCK_PROFILE") == "long" else range(1)

SESSIONS = 200
STEPS = 800
DOMAINS = ("amsterdam", "breda", "delft")
IDENTIFIERS = [f"NLZH{number:04}" for number in range(40)]
ACCOUNTS = ("one", "two", "three", "four")
# Monitors that say nothing, and their account.
HERMITS = 5
HERMIT = "hermit"
# Sessions that nobody connects.
FORGOTTEN = 5

# Windows that are longer than the test, so that nothing leaves them.
LIMITS = HubLimits(
    payloads_per_second=1, payloads_window_seconds=150, kilobytes_per_second=40, kilobytes_window_seconds=100
)
MOST_PAYLOADS = 150
MOST_BYTES = 4_000 * KILOBYTE
# The model needs no time, then.
NEVER = 0.0

# Payloads that wait in the hub for one that does not read. How many more its sockets swallow is not known, but few.
QUEUE_FRAMES = 30
RECEIVE_BYTES = 65_536
MOST_STALLED = 4
# Payloads that fill sockets and queues soon; so few are sent before the others read that these lose none.
LARGE = 32_768
LARGE_AT_A_TIME = 4

# Publishers whose payloads are under way at the same time.
AT_ONCE = 12

# Only monitors have a keep-alive timeout that is shorter than the test.
PULSE_SECONDS = 1.0
KEEP_ALIVE_MILLIS = {"tlc": 300_000, "broker": 300_000, "monitor": 6_000}

SETTINGS: dict[str, object] = {
    "tlex.queue_frames": QUEUE_FRAMES,
    "tlex.token_millis": 4_000,
    "tlex.reconnect_millis": 300,
}
for _type, _millis in KEEP_ALIVE_MILLIS.items():
    SETTINGS |= {
        f"tlex.{_type}.keep_alive_millis": _millis,
        f"tlex.{_type}.payloads_per_second": LIMITS.payloads_per_second,
        f"tlex.{_type}.payloads_seconds": LIMITS.payloads_window_seconds,
        f"tlex.{_type}.kilobytes_per_second": LIMITS.kilobytes_per_second,
        f"tlex.{_type}.kilobytes_seconds": LIMITS.kilobytes_window_seconds,
    }


class Crowd:
    """One run: every action is done to the hub and to the model, then both are compared."""

    def __init__(self, site: Site, context: ssl.SSLContext, seed: int) -> None:
        self.site = site
        self.context = context
        self.chance = random.Random(seed)
        self.model = Model(LIMITS, QUEUE_FRAMES, silence=0, grace=0)
        self.members: list[Member] = []
        # Who sent the payload of each number: which of the sessions that ever were.
        self.publishers: list[str] = []
        # Tokens that were used, of sessions that are there and of others.
        self.used: list[str] = []
        self.done: Counter[str] = Counter()
        self.pulsed = time.monotonic()
        for domain in DOMAINS:
            for identifier in IDENTIFIERS:
                site.register(identifier, domain)
                self.model.registered.add((domain, identifier))

    def step(self) -> None:
        actions: list[tuple[Callable[[], None], float]] = [
            (self.join, 6 if len(self.members) == SESSIONS else 120),
            (self.publish, 40),
            (self.put, 20),
            (self.reuse_a_token, 3),
            (self.stall, 4),
            (self.resume, 2),
            (self.flood, 3),
            (self.exceed_the_rate, 2),
            (self.exceed_the_throughput, 1),
            (self.send_what_is_not_allowed, 1),
            (self.have_a_wrong_clock, 1),
            (self.cut, 3),
            (self.delete, 2),
        ]
        (action,) = self.chance.choices([each for each, _ in actions], [weight for _, weight in actions])
        action()
        self.compare()
        self.pulse()

    def some(self, *types: SessionType) -> Member | None:
        """Any of them that can act, of these types; of all types if none is named."""
        found = [each for each in self.members if each.can_act and (not types or each.twin.type in types)]
        return self.chance.choice(found) if found else None

    # -- who is there ---------------------------------------------------------------------------------------------

    def join(self) -> None:
        """A new session, or a refusal, if it would not be the only one."""
        chance = self.chance
        type = chance.choice([TLC, TLC, BROKER, MONITOR])
        singleplex = type is TLC and chance.random() < 0.5
        most = 1 if singleplex else 3 if type is TLC else 10
        twin = self.twin(type, chance.choice(ACCOUNTS), chance.sample(IDENTIFIERS, chance.randint(1, most)), singleplex)
        # Mostly those that the others leave: with all taken at random few would be granted.
        if chance.random() < 0.8:
            free = [each for each in IDENTIFIERS if self.model.may_have(twin, [each])]
            twin.identifiers = chance.sample(free, min(len(free), len(twin.identifiers))) or twin.identifiers
        if not self.model.may_have(twin, twin.identifiers):
            assert self.post(twin).status_code == 400
            self.done["refused POST"] += 1
        elif len(self.members) < SESSIONS:
            self.admit(twin)

    def twin(self, type: SessionType, account: str, identifiers: list[str], singleplex: bool = False) -> ModelPeer:
        return ModelPeer(type, singleplex, account, self.chance.choice(DOMAINS), identifiers, token="", expires=0.0)

    def post(self, twin: ModelPeer, security: str = "NONE") -> httpx.Response:
        protocol = "TCPStreaming_Singleplex" if twin.singleplex else "TCPStreaming_Multiplex"
        return self.site.post(
            twin.type.value,
            *twin.identifiers,
            protocol=protocol,
            security=security,
            account=twin.account,
            domain=twin.domain,
        )

    def admit(self, twin: ModelPeer) -> Member:
        security = "TLSv1.2" if self.chance.random() < 0.1 else "NONE"
        answer = self.post(twin, security)
        assert answer.status_code == 200, answer.text
        session = answer.json()
        twin.token = session["token"]
        self.model.peers.append(twin)
        if self.chance.random() < 0.2:
            # Its scope is changed before it is there.
            self.change(twin, security)
        peer = self.site.connect(session, self.context if security != "NONE" else None)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        request = peer.expect(TimestampsRequest)
        member = Member(twin, peer, self.site.door.hub.sessions[twin.token], security, request)
        self.model.connect(twin, NEVER)
        self.members.append(member)
        self.used.append(twin.token)
        self.done[f"join {security}"] += 1
        return member

    def put(self) -> None:
        """Other controllers for a session; also for one that does not read."""
        members = [each for each in self.members if not each.twin.silent]
        if members:
            member = self.chance.choice(members)
            self.change(member.twin, member.security)

    def change(self, twin: ModelPeer, security: str) -> None:
        kept = self.chance.sample(twin.identifiers, self.chance.randint(0, len(twin.identifiers)))
        added = self.chance.sample(IDENTIFIERS, self.chance.randint(0, 3))
        if self.chance.random() < 0.7:
            added = [each for each in added if self.model.may_have(twin, [each])]
        wanted = list(dict.fromkeys([*kept, *added]))
        if not wanted:
            return
        body = {"securityMode": security, "tlcIdentifiers": wanted}
        answer = self.ask("PUT", twin, body)
        if twin.singleplex or not self.model.may_have(twin, wanted):
            assert answer.status_code == 400
            self.done["refused PUT"] += 1
        else:
            assert answer.status_code == 200, answer.text
            assert answer.json()["details"]["tlcIdentifiers"] == wanted
            twin.identifiers = wanted
            self.done["PUT"] += 1

    def ask(self, method: str, twin: ModelPeer, body: object = None) -> httpx.Response:
        """Something about its session, as its account."""
        path = f"/sessions/{twin.token}"
        return self.site.ask(method, path, ROLES[twin.type.value], body, twin.account, twin.domain)

    def reuse_a_token(self) -> None:
        """It was good once; now nobody is told anything, and whoever has the session keeps it."""
        if self.used:
            self.is_turned_away(self.chance.choice(self.used))
            self.done["token reused"] += 1

    def is_turned_away(self, token: str) -> None:
        stranger = self.site.dial()
        stranger.send_bytes(PREAMBLE + Token(token).encode())
        assert stranger.rest() == []

    # -- payloads -------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Several at once, in pieces, so that their payloads mix on the way."""
        found = [each for each in self.members if each.can_act and each.twin.type is not MONITOR and self.room(each)]
        # What is dropped for one that does not read is only known if all come one after the other.
        most = 1 if any(each.stalled for each in self.members) else AT_ONCE
        members = self.chance.sample(found, min(len(found), self.chance.randint(1, most)))
        payloads = {each: self.payloads(each, self.chance.randint(1, min(10, self.room(each)))) for each in members}
        pieces = {each: self.pieces(payloads[each]) for each in members}
        for turn in range(max(map(len, pieces.values()), default=0)):
            for member in members:
                member.peer.send_bytes(b"".join(pieces[member][turn : turn + 1]))
        for member in members:
            self.model.publish(member.twin, payloads[member], NEVER, 0)
            member.peer.synchronize()
        self.done["publish"] += 1

    def room(self, member: Member) -> int:
        """Payloads that it may still send."""
        small = sum([size for _, size in member.twin.published]) < MOST_BYTES - LARGE
        return MOST_PAYLOADS - len(member.twin.published) if small else 0

    def payloads(self, member: Member, count: int, least: int = 0) -> list[AnyPayload]:
        return [self.payload(member.twin, least) for _ in range(count)]

    def payload(self, twin: ModelPeer, least: int = 0) -> AnyPayload:
        """With its number as its time, for somebody else now and then, or of a type that is not allowed."""
        chance = self.chance
        number = len(self.publishers)
        self.publishers.append(twin.token)
        type = chance.randrange(0xF0) if chance.random() < 0.95 else 0xF0 + chance.randrange(16)
        data = chance.randbytes(least + chance.randrange(100))
        if twin.singleplex:
            return Payload(type, number, data)
        return IdentifiedPayload(
            chance.choice(twin.identifiers if chance.random() < 0.9 else IDENTIFIERS), type, number, data
        )

    def pieces(self, payloads: list[AnyPayload]) -> list[bytes]:
        """Cut anywhere."""
        data = b"".join([each.encode() for each in payloads])
        cuts = sorted([0, len(data), *[self.chance.randrange(len(data)) for _ in range(self.chance.randrange(4))]])
        return [data[start:stop] for start, stop in pairwise(cuts)]

    def stall(self) -> None:
        """One stops to read; what is for it fills sockets, then its queue."""
        member = self.some()
        if member is not None and sum([each.stalled for each in self.members]) < MOST_STALLED:
            member.stalled = True
            self.done["stall"] += 1

    def resume(self) -> None:
        stalled = [each for each in self.members if each.stalled]
        if stalled:
            self.read_again(self.chance.choice(stalled))

    def read_again(self, member: Member) -> None:
        receiver = member.session.receiver
        assert isinstance(receiver, Receiver)
        before = member.dropped
        member.check_resumed(self.site.background.call(lambda: receiver.waiting))
        self.done["resume after drops" if member.dropped > before else "resume"] += 1

    def flood(self) -> None:
        """Large payloads for one that does not read, until some had to be dropped."""
        stalled = [each for each in self.members if each.stalled]
        if not stalled:
            return
        target = self.chance.choice(stalled)
        before = target.session.counters.dropped
        for member in self.publishers_for(target.twin):
            identifier = self.chance.choice(sorted(set(member.twin.identifiers) & set(target.twin.identifiers)))
            while member.twin.connected and target.session.counters.dropped == before:
                self.send_large(member, identifier)
            if not member.twin.connected:
                self.is_sent_away(member, self.limit_of(member))

    def exceed_the_throughput(self) -> None:
        member = self.some(TLC, BROKER)
        if member is not None:
            while member.twin.connected:
                self.send_large(member, member.twin.identifiers[0])
            self.is_sent_away(member, self.limit_of(member))

    def publishers_for(self, twin: ModelPeer) -> list[Member]:
        """Those whose payloads it receives."""
        return [
            each
            for each in self.members
            if each.can_act
            and each.twin.domain == twin.domain
            and set(each.twin.identifiers) & set(twin.identifiers)
            and {each.twin.type, twin.type} in ({TLC, BROKER}, {TLC, MONITOR}, {BROKER, MONITOR})
            and each.twin.type is not MONITOR
        ]

    def send_large(self, member: Member, identifier: str) -> None:
        """So few that everybody else can take them."""
        self.send(member, [self.large(member.twin, identifier) for _ in range(LARGE_AT_A_TIME)])
        self.compare()

    def limit_of(self, member: Member) -> Farewell:
        """Which one it has exceeded."""
        return Farewell.PAYLOAD_RATE if len(member.twin.published) == MOST_PAYLOADS else Farewell.PAYLOAD_THROUGHPUT

    def large(self, twin: ModelPeer, identifier: str) -> AnyPayload:
        number = len(self.publishers)
        self.publishers.append(twin.token)
        data = self.chance.randbytes(LARGE)
        return Payload(1, number, data) if twin.singleplex else IdentifiedPayload(identifier, 1, number, data)

    def send(self, member: Member, payloads: list[AnyPayload]) -> None:
        member.peer.send(*payloads)
        self.model.publish(member.twin, payloads, NEVER, 0)
        if member.twin.connected:
            member.peer.synchronize()

    # -- the end of sessions --------------------------------------------------------------------------------------

    def exceed_the_rate(self) -> None:
        member = self.some(TLC, BROKER)
        if member is not None and self.room(member):
            self.send(member, self.payloads(member, self.room(member) + self.chance.randint(1, 9)))
            self.is_sent_away(member, Farewell.PAYLOAD_RATE)

    def send_what_is_not_allowed(self) -> None:
        """A monitor that publishes, or the payload of another kind of session."""
        member = self.some()
        if member is not None:
            self.publishers.append(member.twin.token)
            number = len(self.publishers) - 1
            right = IdentifiedPayload(member.twin.identifiers[0], 1, number, b"")
            other = Payload(1, number, b"") if not member.twin.singleplex else right
            self.send(member, [right if member.twin.type is MONITOR else other])
            self.is_sent_away(member, Farewell.PROTOCOL_VIOLATION)

    def have_a_wrong_clock(self) -> None:
        member = self.some()
        if member is not None:
            asked = member.request.sent
            member.peer.send(TimestampsResponse(asked, asked + 3_600_000, asked + 3_600_000))
            self.model.end(member.twin)
            self.is_sent_away(member, Farewell.CLOCK_DIFFERENCE)

    def delete(self) -> None:
        member = self.some()
        if member is not None:
            assert self.ask("DELETE", member.twin).status_code == 204
            self.model.end(member.twin)
            self.is_sent_away(member, Farewell.DELETED)

    def cut(self) -> None:
        """The client goes, in one of the ways of clients; also one that does not read."""
        members = [each for each in self.members if not each.twin.silent]
        if not members:
            return
        member = self.chance.choice(members)
        how = self.chance.choice(["close", "reset", "bye"])
        if how == "bye":
            member.peer.send(Bye("enough"))
        if how == "reset":
            member.peer.break_off()
        else:
            member.peer.close()
        self.model.end(member.twin)
        self.is_gone(member)
        self.done[f"cut by {how}"] += 1

    def is_sent_away(self, member: Member, farewell: Farewell) -> None:
        assert member.twin.state == "ended"
        said = member.end()
        assert said is not None
        assert said.startswith(BYES[farewell])
        member.peer.close()
        self.is_gone(member)
        self.done[farewell.name] += 1

    def is_gone(self, member: Member) -> None:
        """Nothing is left of its session but the numbers."""
        until(lambda: self.ask("GET", member.twin).status_code == 404)
        self.members.remove(member)
        self.model.peers.remove(member.twin)
        member.check_counters()

    # -- comparing ------------------------------------------------------------------------------------------------

    def publisher_of(self, payload: AnyPayload) -> str:
        return self.publishers[payload.origin]

    def compare(self) -> None:
        for member in self.members:
            if member.twin.silent:
                member.listen()
            elif member.twin.expected and not member.stalled:
                member.check(self.publisher_of)

    def compare_all(self) -> None:
        for member in self.members:
            if member.can_act:
                member.check_nothing_more()

    def pulse(self) -> None:
        """Monitors have nothing to say, and must all the same; also those that do not read."""
        if time.monotonic() > self.pulsed + PULSE_SECONDS:
            self.pulsed = time.monotonic()
            for member in self.members:
                if member.twin.type is MONITOR and not member.twin.silent:
                    member.peer.keep_alive()


def until(condition: Callable[[], bool]) -> None:
    """Until it holds, which it must soon."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"


class Forgotten:
    """Sessions that nobody connects: their tokens expire, and others can have the controllers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._identifiers = site.tlcs(FORGOTTEN)
        self._tokens = [site.session("TLC", each)["token"] for each in self._identifiers]
        assert site.post("TLC", self._identifiers[-1]).status_code == 400

    def check(self, crowd: Crowd) -> None:
        for identifier, token in zip(self._identifiers, self._tokens, strict=True):
            path = f"/sessions/{token}"
            until(lambda path=path: self._site.ask("GET", path, ROLES["TLC"]).status_code == 404)  # type: ignore[misc]
            crowd.is_turned_away(token)
            self._site.session("TLC", identifier)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_hundred_sessions_on_sockets_get_exactly_what_a_naive_model_says(tmp_path: Path, seed: int) -> None:
    begin = time.monotonic()
    with Site(tmp_path, {**SETTINGS, **certified(tmp_path)}) as site:
        crowd = Crowd(site, trusting(tmp_path), seed)
        forgotten = Forgotten(site)
        hermits = [crowd.admit(crowd.twin(MONITOR, HERMIT, [each])) for each in IDENTIFIERS[:HERMITS]]
        for hermit in hermits:
            hermit.twin.silent = True
        most = 0
        for number in range(STEPS):
            crowd.step()
            most = max(most, len(crowd.members))
            if number % 50 == 0:
                crowd.compare_all()
        for member in [each for each in crowd.members if each.stalled]:
            crowd.read_again(member)
        crowd.compare_all()
        assert most == SESSIONS
        for hermit in hermits:
            fell_silent(crowd, hermit)
        forgotten.check(crowd)
        goes_down(crowd)
    # Nothing has left the windows of the limits.
    assert time.monotonic() - begin < LIMITS.kilobytes_window_seconds
    # Everything that can happen did.
    assert len(crowd.done) == 18, sorted(crowd.done)


def fell_silent(crowd: Crowd, hermit: Member) -> None:
    """It has everything up to its end, and is told why that came."""
    until(lambda: not hermit.listen())
    *before, last = hermit.heard
    assert isinstance(last, Bye)
    assert last.reason.startswith(BYES[Farewell.KEEP_ALIVE])
    got = sorted_by(crowd.publisher_of, [timeless(each) for each in before if isinstance(each, IdentifiedPayload)])
    expected = sorted_by(crowd.publisher_of, hermit.twin.expected)
    for publisher, payloads in got.items():
        assert payloads == expected[publisher][: len(payloads)]
    crowd.model.end(hermit.twin)
    crowd.members.remove(hermit)
    count = hermit.session.counters
    assert count.sent == sum(map(len, got.values()))
    assert count.routed == count.sent + count.dropped + count.discarded


def goes_down(crowd: Crowd) -> None:
    """All are asked to come again, and who stays is sent away; then nothing is left of anybody."""
    site = crowd.site
    hub = site.door.hub
    stopping = threading.Thread(target=site.background.stop)
    stopping.start()
    for member in crowd.members:
        *_, asked, last = [each for each in member.peer.rest() if isinstance(each, Reconnect | Bye)]
        assert isinstance(asked, Reconnect)
        assert last == Bye(BYES[Farewell.SHUTDOWN])
        member.peer.close()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    for member in crowd.members:
        member.check_counters()
    assert not hub.sessions
    for controller in hub.registry:
        assert not controller.claims
        assert not controller.live
        assert controller.owners == controller.brokers == controller.monitors == ()
