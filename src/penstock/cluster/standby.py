"""Hubs that stand by, over NATS: each says that it does, once it has looked at the lease, and the active one listens.

So a hub that is shown has reached both, NATS and the database, as it must to take over. Subject: `….standby`. Who
becomes active is up to the lease alone (`tenure`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock import __version__
from penstock.cluster.envelope import HubNews, Sort, decode_news, encode_news
from penstock.cluster.nats_link import NatsLink
from penstock.cluster.ports import Bystander
from penstock.config.schema.cluster import ClusterSection
from penstock.wire.fabric.messages import VERSION

# Seconds after which a hub that has said nothing does not stand by as far as is known, and after which it is forgotten.
SILENCE_SECONDS = 5.0
FORGOTTEN_SECONDS = 600.0

# Hubs that are remembered; those that were heard of first go.
MAX_STANDBYS = 100


def standby_subject(section: ClusterSection) -> str:
    return f"{section.prefix}.{section.name}.standby"


class StandbyVoice:
    """That of one hub. There is no connection before it says something."""

    def __init__(self, section: ClusterSection, node: str, run: str) -> None:
        self._news = HubNews(VERSION, __version__, node, run)
        self._subject = standby_subject(section)
        self._link = NatsLink(section, f"penstock standby {node}", self)
        self._is_open = False

    def say(self) -> None:
        """Called once a second or more often."""
        if not self._is_open:
            self._is_open = True
            self._link.open()
        self._link.send(self._subject, encode_news(0, self._news))

    async def close(self) -> None:
        """It stands by no more."""
        if self._is_open:
            self._link.send(self._subject, encode_news(0, self._news, Sort.GOODBYE))
            await self._link.close()

    def linked(self) -> None:
        self._link.send(self._subject, encode_news(0, self._news))

    def unlinked(self) -> None:
        """It says it again when there is a connection."""

    def arrived(self, subject: str, reply: str, data: bytes) -> None:
        """Nothing is subscribed to."""


class _Heard:
    def __init__(self, news: HubNews, now: float, since: float) -> None:
        self.news = news
        self.last = now
        # Seconds since 1970.
        self.since = since


class StandbyRoll:
    """What the active hub has heard."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        # By the runs of hubs.
        self._heard: dict[str, _Heard] = {}

    def received(self, kind: Sort, data: bytes) -> None:
        """Raises EnvelopeError."""
        news = decode_news(data)
        if kind is Sort.GOODBYE:
            self._heard.pop(news.run, None)
            return
        now = self._clock()
        found = self._heard.setdefault(news.run, _Heard(news, now, self._wall()))
        found.last = now
        if len(self._heard) > MAX_STANDBYS:
            del self._heard[next(iter(self._heard))]

    def bystanders(self) -> list[Bystander]:
        now = self._clock()
        self._heard = {run: each for run, each in self._heard.items() if now - each.last < FORGOTTEN_SECONDS}
        # A hub that was started anew is another run of the same node, and the only one that counts.
        latest = {each.news.node: each for each in sorted(self._heard.values(), key=lambda each: each.last)}
        return [
            Bystander(
                node,
                node,
                "standby",
                "up" if now - each.last < SILENCE_SECONDS else "silent",
                each.news.release,
                each.since,
            )
            for node, each in sorted(latest.items())
        ]
