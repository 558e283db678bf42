"""The fabric over NATS: hub and edges on any machines that reach a NATS server; core subjects, at most once.

Subjects begin with `<prefix>.<cluster>`: `.hub` has what edges send, `.news` what hubs say of themselves, `.standby`
what those say that stand by (`standby`),
`.edge.<node>.<run>` what is for one edge, `.aud.<epoch>.<n>` what is for a set of edges (`audiences`), so that NATS
copies it and no edge gets what it does not want. Connections are in `nats_link`. Read next: docs/cluster.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from penstock import __version__
from penstock.cluster.audiences import Audience, Audiences
from penstock.cluster.envelope import (
    HEAD_SIZE,
    MAX_WHOLE,
    EnvelopeError,
    HubNews,
    Joiner,
    Sort,
    decode_audience,
    decode_envelope,
    decode_news,
    encode_audience,
    encode_envelope,
    encode_news,
    split,
)
from penstock.cluster.nats_link import NatsLink
from penstock.cluster.ports import EdgeListener, HubListener
from penstock.cluster.standby import StandbyRoll, standby_subject
from penstock.config.schema.cluster import ClusterSection
from penstock.log import get
from penstock.monitor.figures import Family, counter
from penstock.wire.fabric.messages import VERSION

log = get(__name__)

MALFORMED = "Invalid messages received over NATS."

# How often a hub says that it is there, and looks after its audiences; how often an edge asks whether one is.
NEWS_SECONDS = 1.0

# A hub that has said nothing for this long is not there.
SILENCE_SECONDS = 5.0

# Seconds for the first connection to NATS; a hub without one does not start, unless it has a lease.
OPEN_SECONDS = 10.0


def _always() -> bool:
    return True


class NatsHub:
    """The hub's end: a `HubFabric`."""

    def __init__(
        self,
        section: ClusterSection,
        node: str,
        run: str,
        *,
        is_owner: Callable[[], bool] = _always,
        superseded: Callable[[str, int], None] | None = None,
        is_leased: bool = False,
    ) -> None:
        """`run` is different for each process. While `is_owner` says no, nothing is sent and nothing is heard.

        With a lease it waits for NATS as long as it takes: a standby has waited for this moment, perhaps for days, and
        must not be gone when NATS is back.

        `superseded` is told once of another hub, by its node and epoch, that has come after this one: there can be only
        one, and this one has to stop.
        """
        self._news = HubNews(VERSION, __version__, node, run)
        self._is_owner = is_owner
        self._superseded = superseded
        self._is_leased = is_leased
        self._base = f"{section.prefix}.{section.name}"
        self._edge_base = f"{self._base}.edge."
        self._link = NatsLink(section, f"penstock hub {node}", self)
        self._listener: HubListener | None = None
        self._epoch = 0
        self._audiences = Audiences()
        # Of those that have the same lease.
        self._standby_subject = standby_subject(section)
        self.standbys = StandbyRoll()
        self._joiner = Joiner()
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._first = asyncio.Event()
        self._rivals: set[tuple[str, int]] = set()
        # A figure: what came and could not be understood.
        self.malformed = 0

    @property
    def link(self) -> NatsLink:
        return self._link

    def figures(self) -> Iterable[Family]:
        return (*self._link.figures(), counter("penstock_fabric_malformed", MALFORMED, self.malformed))

    async def open(self, listener: HubListener, epoch: int) -> None:
        self._listener, self._epoch = listener, epoch
        self._link.subscribe(f"{self._base}.hub")
        self._link.subscribe(f"{self._base}.news")
        if self._is_leased:
            self._link.subscribe(self._standby_subject)
        self._link.open()
        try:
            async with asyncio.timeout(None if self._is_leased else OPEN_SECONDS):
                await self._first.wait()
        except BaseException as error:
            await self._link.close()
            if isinstance(error, TimeoutError):
                raise OSError(f"no NATS server answers within {OPEN_SECONDS:.0f} s; the log has the reason") from None
            raise
        self._tick()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._listener = None
        self._link.send(f"{self._base}.news", encode_envelope(Sort.GOODBYE, self._epoch))
        await self._link.close()

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, edge: str, payload: bytes) -> None:
        self._send(self._edge_base + edge, payload)

    def spread(self, edges: frozenset[str], payload: bytes) -> None:
        if len(edges) > 1:
            audience, is_new = self._audiences.of(edges, self._now())
            if audience is not None and not audience.missing:
                self._send(self._audience_subject(audience.number), payload)
                return
            if audience is not None and is_new:
                self._invite(audience)
        for edge in edges:
            self.send(edge, payload)

    def cut(self, edge: str) -> None:
        self._forget(edge)
        self._say(edge, encode_envelope(Sort.AGAIN, self._epoch))

    def _send(self, subject: str, payload: bytes) -> None:
        if not self._is_owner():
            return
        if len(payload) > MAX_WHOLE:
            log.error("a payload is too large for the fabric, and is dropped", bytes=len(payload), most=MAX_WHOLE)
            return
        self._number += 1
        for data in split(self._epoch, self._number, payload, self._link.max_payload):
            self._link.send(subject, data)

    def _say(self, edge: str, data: bytes) -> None:
        if self._is_owner():
            self._link.send(self._edge_base + edge, data)

    def _audience_subject(self, number: int) -> str:
        return f"{self._base}.aud.{self._epoch}.{number}"

    def _invite(self, audience: Audience) -> None:
        data = encode_audience(Sort.JOIN, self._epoch, audience.number)
        for edge in audience.missing:
            self._say(edge, data)

    def _dismiss(self, gone: list[Audience]) -> None:
        for audience in gone:
            data = encode_audience(Sort.LEAVE, self._epoch, audience.number)
            for edge in audience.members:
                self._say(edge, data)

    def _forget(self, edge: str) -> None:
        self._dismiss(self._audiences.without(edge))

    # -- once a second ---------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(NEWS_SECONDS, self._tick)
        now = self._now()
        self._joiner.expire(now)
        self._dismiss(self._audiences.expire(now))
        # What was lost on the way is said again.
        for audience in self._audiences.waiting():
            self._invite(audience)
        self._announce(f"{self._base}.news")

    def _announce(self, subject: str) -> None:
        if self._is_owner():
            self._link.send(subject, encode_news(self._epoch, self._news))

    # -- what comes ------------------------------------------------------------------------------------------------

    def linked(self) -> None:
        self._first.set()
        if self._timer is not None:
            self._announce(f"{self._base}.news")

    def unlinked(self) -> None:
        """Edges find out by themselves, and so does who counts their silence."""

    def arrived(self, subject: str, reply: str, data: bytes) -> None:
        # What was sent to this hub while it was the owner is not done after that: it may have been asleep.
        if self._listener is None or not self._is_owner():
            return
        try:
            kind, epoch = decode_envelope(data)
            if subject == self._standby_subject:
                self.standbys.received(kind, data)
            elif not subject.endswith(".hub"):
                self._heard_of_hub(kind, epoch, data)
            elif reply.startswith(self._edge_base):
                self._heard_of_edge(self._listener, reply.removeprefix(self._edge_base), kind, epoch, data)
            else:
                raise EnvelopeError("an edge without a subject")
        except EnvelopeError as error:
            self.malformed += 1
            log.warning("an edge or a hub sends invalid messages", reason=str(error))

    def _heard_of_edge(self, listener: HubListener, edge: str, kind: Sort, epoch: int, data: bytes) -> None:
        if kind is Sort.ASK:
            self._announce(self._edge_base + edge)
        elif epoch != self._epoch:
            # It follows another hub: an older one, or one that has come after this one, which will say so itself.
            self._announce(self._edge_base + edge)
        elif kind is Sort.WHOLE:
            listener.received(edge, data[HEAD_SIZE:])
        elif kind is Sort.PART:
            whole = self._joiner.add(edge, data, self._now())
            if whole is not None:
                listener.received(edge, whole)
        elif kind is Sort.JOINED:
            number = decode_audience(data)
            if not self._audiences.confirm(edge, number):
                self._say(edge, encode_audience(Sort.LEAVE, self._epoch, number))
        elif kind is Sort.GOODBYE:
            self._forget(edge)
            listener.lost(edge)
        else:
            raise EnvelopeError(f"{kind.name} from an edge")

    def _heard_of_hub(self, kind: Sort, epoch: int, data: bytes) -> None:
        if kind is not Sort.NEWS:
            return
        news = decode_news(data)
        rival = (news.run, epoch)
        if news.run == self._news.run or rival in self._rivals:
            return
        self._rivals.add(rival)
        # The same epoch twice is next to impossible; one of them goes even so, and both know which.
        if (epoch, news.run) > (self._epoch, self._news.run):
            log.error("another hub of this cluster was started after this one", node=news.node, release=news.release)
            if self._superseded is not None:
                self._superseded(news.node, epoch)
        else:
            log.warning("another hub of this cluster was active before, and has to stop", node=news.node)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class NatsEdge:
    """An edge's end: an `EdgeFabric`."""

    def __init__(self, section: ClusterSection, node: str, run: str) -> None:
        """`run` is different for each process."""
        self._base = f"{section.prefix}.{section.name}"
        self._own = f"{self._base}.edge.{node}.{run}"
        self._link = NatsLink(section, f"penstock edge {node}", self)
        self._listener: EdgeListener | None = None
        # The highest epoch that was ever heard of: of the hub that this edge follows.
        self._epoch = 0
        self._is_connected = False
        self._heard = 0.0
        self._audiences: set[str] = set()
        self._joiner = Joiner()
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._foreign: set[tuple[int, str]] = set()
        # Figures: what came and could not be understood, and what came from a hub that is not the owner any more.
        self.malformed = 0
        self.outdated = 0

    @property
    def link(self) -> NatsLink:
        return self._link

    def figures(self) -> Iterable[Family]:
        return (
            *self._link.figures(),
            counter("penstock_fabric_malformed", MALFORMED, self.malformed),
            counter("penstock_fabric_outdated", "Messages dropped because they came from a former hub.", self.outdated),
        )

    async def open(self, listener: EdgeListener) -> None:
        self._listener = listener
        self._link.subscribe(self._own)
        self._link.subscribe(f"{self._base}.news")
        self._link.open()
        self._tick()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._listener = None
        self._link.send(f"{self._base}.hub", encode_envelope(Sort.GOODBYE, self._epoch), self._own)
        await self._link.close()

    def send(self, payload: bytes) -> None:
        if not self._is_connected:
            return
        if len(payload) > MAX_WHOLE:
            log.error("a payload is too large for the fabric, and is dropped", bytes=len(payload), most=MAX_WHOLE)
            return
        self._number += 1
        for data in split(self._epoch, self._number, payload, self._link.max_payload):
            self._link.send(f"{self._base}.hub", data, self._own)

    # -- whether a hub is there ------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(NEWS_SECONDS, self._tick)
        self._joiner.expire(self._now())
        if self._is_connected and self._now() - self._heard > SILENCE_SECONDS:
            log.warning("no message from the hub", seconds=SILENCE_SECONDS)
            self._disconnect()
        if not self._is_connected:
            self._ask()

    def _ask(self) -> None:
        self._link.send(f"{self._base}.hub", encode_envelope(Sort.ASK, self._epoch), self._own)

    def linked(self) -> None:
        self._ask()

    def unlinked(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        if self._is_connected:
            self._is_connected = False
            if self._listener is not None:
                self._listener.lost()

    def _heard_news(self, epoch: int, news: HubNews) -> None:
        if news.version != VERSION:
            if (epoch, news.run) not in self._foreign:
                self._foreign.add((epoch, news.run))
                log.error(
                    "the hub runs an incompatible version",
                    node=news.node,
                    release=news.release,
                    version=news.version,
                    expected=VERSION,
                )
            return
        self._heard = self._now()
        if epoch > self._epoch:
            self._disconnect()
            for subject in self._audiences:
                self._link.unsubscribe(subject)
            self._audiences.clear()
            self._epoch = epoch
        if not self._is_connected and self._listener is not None:
            self._is_connected = True
            log.info("connected to the hub", node=news.node, release=news.release)
            self._listener.connected()

    # -- what comes ------------------------------------------------------------------------------------------------

    def arrived(self, subject: str, reply: str, data: bytes) -> None:
        if self._listener is None:
            return
        try:
            kind, epoch = decode_envelope(data)
            if epoch < self._epoch:
                self.outdated += 1
            elif kind is Sort.NEWS:
                self._heard_news(epoch, decode_news(data))
            elif epoch == self._epoch and self._is_connected:
                self._heard_of_hub(self._listener, kind, data)
            # Else: a hub that this edge has not heard of yet, and will in a second.
        except EnvelopeError as error:
            self.malformed += 1
            log.warning("a hub sends invalid messages", reason=str(error))

    def _heard_of_hub(self, listener: EdgeListener, kind: Sort, data: bytes) -> None:
        # Its news may come late, behind all that waits.
        self._heard = self._now()
        if kind is Sort.WHOLE:
            listener.received(data[HEAD_SIZE:])
        elif kind is Sort.PART:
            whole = self._joiner.add("hub", data, self._now())
            if whole is not None:
                listener.received(whole)
        elif kind is Sort.JOIN:
            number = decode_audience(data)
            subject = f"{self._base}.aud.{self._epoch}.{number}"
            self._audiences.add(subject)
            # In this order on the same connection, so that the hub sends nothing that would not come.
            self._link.subscribe(subject)
            self._link.send(f"{self._base}.hub", encode_audience(Sort.JOINED, self._epoch, number), self._own)
        elif kind is Sort.LEAVE:
            subject = f"{self._base}.aud.{self._epoch}.{decode_audience(data)}"
            self._audiences.discard(subject)
            self._link.unsubscribe(subject)
        elif kind is Sort.AGAIN:
            self._disconnect()
            self._ask()
        elif kind is Sort.GOODBYE:
            log.info("the hub has shut down")
            self._disconnect()
        else:
            raise EnvelopeError(f"{kind.name} from a hub")

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
