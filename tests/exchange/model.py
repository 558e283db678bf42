"""The hub as a naive person would write it: a list of peers, full scans, no indexes.

Compared with the real one in `test_model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.exchange.settings import HubLimits
from penstock.wire.tlex.datagrams import IdentifiedPayload, Payload
from penstock.wire.tlex.monitor import MonitorPayload
from penstock.wire.tlex.vocabulary import SessionType
from tests.exchange.world import BROKER, MONITOR, TLC

AnyPayload = Payload | IdentifiedPayload


@dataclass(eq=False)
class Routed:
    """A payload on its way to somebody."""

    identifier: str
    payload: AnyPayload
    token: str
    published: int

    def shape(self, receiver: ModelPeer, sent: int) -> AnyPayload:
        type, origin, data = self.payload.type, self.payload.origin, self.payload.data
        if receiver.type is MONITOR:
            return IdentifiedPayload(
                self.identifier, 0xF0, origin, MonitorPayload(self.token, self.published, sent, type, data).encode()
            )
        if receiver.singleplex:
            return Payload(type, origin, data)
        return IdentifiedPayload(self.identifier, type, origin, data)


@dataclass(eq=False)
class ModelPeer:
    type: SessionType
    singleplex: bool
    account: str
    domain: str
    identifiers: list[str]
    token: str
    expires: float
    # pending, live, leaving, ended
    state: str = "pending"
    last_read: float = 0.0
    leaves: float = 0.0
    blocked: bool = False
    silent: bool = False
    queue: list[Routed] = field(default_factory=list)
    # What it must have received and has not been compared yet.
    expected: list[AnyPayload] = field(default_factory=list)
    published: list[tuple[float, int]] = field(default_factory=list)
    received: int = 0
    dropped: int = 0

    @property
    def connected(self) -> bool:
        return self.state in ("live", "leaving")


class Model:
    def __init__(self, limits: HubLimits, queue_frames: int, silence: float, grace: float) -> None:
        self.limits = limits
        self.queue_frames = queue_frames
        self.silence = silence
        self.grace = grace
        self.peers: list[ModelPeer] = []
        self.registered: set[tuple[str, str]] = set()

    def may_have(self, asks: ModelPeer, identifiers: list[str]) -> bool:
        for identifier in identifiers:
            if (asks.domain, identifier) not in self.registered:
                return False
            for other in self.peers:
                if other is asks or other.state not in ("pending", "live") or other.domain != asks.domain:
                    continue
                same = other.type is asks.type and (asks.type is TLC or other.account == asks.account)
                if same and identifier in other.identifiers:
                    return False
        return True

    def connect(self, peer: ModelPeer, now: float) -> None:
        peer.state = "live"
        peer.last_read = now
        self.replace(peer)

    def replace(self, peer: ModelPeer) -> None:
        """Those who were to go lose what a live one has."""
        for other in self.peers:
            same = other.type is peer.type and (peer.type is TLC or other.account == peer.account)
            if other.state == "leaving" and other.domain == peer.domain and same:
                other.identifiers = [each for each in other.identifiers if each not in peer.identifiers]

    def publish(self, sender: ModelPeer, payloads: list[AnyPayload], now: float, utc: int) -> None:
        sender.last_read = now
        for payload in payloads:
            wrong = isinstance(payload, Payload) != sender.singleplex
            if sender.type is MONITOR or wrong or self.is_too_much(sender, payload, now):
                self.end(sender)
                return
            sender.published.append((now, len(payload.data)))
            sender.received += 1
            if isinstance(payload, IdentifiedPayload):
                identifier = payload.identifier
            elif sender.identifiers:
                identifier = sender.identifiers[0]
            else:
                continue
            if identifier in sender.identifiers and payload.type < 0xF0:
                self.route(sender, Routed(identifier, payload, sender.token, utc), utc)

    def is_too_much(self, sender: ModelPeer, payload: AnyPayload, now: float) -> bool:
        limits = self.limits
        count = [each for each in sender.published if each[0] > now - limits.payloads_window_seconds]
        size = sum([each[1] for each in sender.published if each[0] > now - limits.kilobytes_window_seconds])
        return (
            len(count) + 1 > limits.payloads_per_second * limits.payloads_window_seconds
            or size + len(payload.data) > limits.kilobytes_per_second * 1024 * limits.kilobytes_window_seconds
        )

    def route(self, sender: ModelPeer, routed: Routed, utc: int) -> None:
        for peer in self.peers:
            if not peer.connected or peer.domain != sender.domain or routed.identifier not in peer.identifiers:
                continue
            if peer.type is MONITOR or {peer.type, sender.type} == {TLC, BROKER}:
                if peer.blocked:
                    peer.queue.append(routed)
                    if len(peer.queue) > self.queue_frames:
                        peer.queue.pop(0)
                        peer.dropped += 1
                else:
                    peer.expected.append(routed.shape(peer, utc))

    def free(self, peer: ModelPeer, utc: int) -> None:
        peer.blocked = False
        peer.expected += [each.shape(peer, utc) for each in peer.queue]
        peer.queue.clear()

    def unregister(self, domain: str, identifier: str) -> None:
        self.registered.discard((domain, identifier))
        for peer in self.peers:
            if peer.state != "ended" and peer.domain == domain and identifier in peer.identifiers:
                peer.identifiers.remove(identifier)
                if not peer.identifiers:
                    self.end(peer)

    def end(self, peer: ModelPeer) -> None:
        peer.state = "ended"
        peer.queue.clear()

    def tick(self, now: float) -> None:
        for peer in self.peers:
            if peer.state == "pending" and now >= peer.expires:
                self.end(peer)
            if peer.connected and not peer.silent:
                peer.last_read = now
            if peer.connected and now >= peer.last_read + self.silence:
                self.end(peer)
            if peer.state == "leaving" and now >= peer.leaves:
                self.end(peer)
