"""One connection at work: connects, comes back after a pause that grows, and ends when it is closed.

Before it reads again after a loss, all that was under way is settled, so that nothing is carried out twice at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.brokers.bridge import Bridge, BridgeLost, Ledgers, TakeInbound
from penstock.connections.document import ConnectionDocument
from penstock.connections.machine import BackOff, ConnectionState, StateChange, after
from penstock.connections.message import InboundMessage
from penstock.connections.offsets import OffsetLedger
from penstock.connections.source import SourceRules
from penstock.connections.target import TargetRules
from penstock.doors.ditto.identity import Login, ShownCredentials
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.service import TwinService
from penstock.journal.entity import batch_entity
from penstock.kernel.ports import ClientFacts
from penstock.log import get
from penstock.loop import is_stopping
from penstock.services.connections.outflow import Outflow
from penstock.services.connections.tally import ConnectionTally, instant
from penstock.services.connections.traffic import SourceTraffic, TargetTraffic
from penstock.twins.command import Caller

log = get(__name__)

# Seconds that messages have to leave when a connection is closed.
LEAVING_SECONDS = 2.0

# Seconds that commands under way have.
SETTLING_SECONDS = 30.0


# Marks of an entity of the journal, in their order: blocks.
Marks = Callable[[str], list[str]]


def make_bridge(document: ConnectionDocument, take: TakeInbound, ledgers: Ledgers) -> Bridge:
    """Of the document's kind; raises BridgeLost."""
    kind = document.connection_type
    try:
        if kind == "kafka":
            from penstock.brokers.kafka_bridge import KafkaBridge

            return KafkaBridge(document, take, ledgers)
        if kind == "nats":
            from penstock.brokers.nats_bridge import NatsBridge

            return NatsBridge(document, take)
    except ImportError:
        raise BridgeLost(f"it needs the extra {kind}: pip install 'penstock[{kind}]'", is_final=True) from None
    if kind == "http-push":
        from penstock.brokers.http_bridge import HttpBridge

        return HttpBridge(document)
    from penstock.brokers.mqtt_bridge import MqttBridge

    return MqttBridge(document, take)


async def try_out(document: ConnectionDocument) -> None:
    """Connect and leave again, without reading; raises BridgeLost."""
    alone = make_bridge(_without_sources(document), lambda messages: None, lambda topic, number: OffsetLedger())
    try:
        await alone.open()
    finally:
        await alone.close()


def _without_sources(document: ConnectionDocument) -> ConnectionDocument:
    import msgspec

    # Else the broker would take the test for the connection itself, and end one of them.
    config = {**document.specific_config}
    if document.connection_type.startswith("mqtt"):
        config["clientId"] = f"penstock-test-{document.id}"
    return msgspec.structs.replace(document, sources=[], specific_config=config)


class ConnectionRunner:
    """`check` is part of making it: raises the error that says what is wrong with the document."""

    def __init__(
        self, document: ConnectionDocument, service: TwinService, edition: Edition, marks: Marks, set_name: str
    ) -> None:
        self.document = document
        self._service = service
        self._edition = edition
        self._marks = marks
        self._set_name = set_name
        self._sources_rules = [SourceRules(document, number) for number in range(len(document.sources))]
        self._targets_rules = [TargetRules(document, number) for number in range(len(document.targets))]
        self.tally = ConnectionTally(service.now)
        self.state = ConnectionState.CLOSED
        self.reason = ""
        self.since = service.now()
        self._ledgers: dict[tuple[str, int], OffsetLedger] = {}
        self._sources: list[SourceTraffic] = []
        self._targets: list[TargetTraffic] = []
        self._outflow: Outflow | None = None
        self._outflow_full = False
        self._bridge: Bridge | None = None
        self._task: asyncio.Task[None] | None = None
        self._held = False

    # -- its life ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin; it goes on by itself. Raises DittoError if a label of acknowledgements is taken."""
        if self._task is not None:
            return
        loop = asyncio.get_running_loop()
        outflow = self._outflow = Outflow(self._full)
        # Events that it causes itself are not sent to it.
        origin = object()
        try:
            for source in self._sources_rules:
                login = _login(source.subjects, origin)
                self._sources.append(
                    SourceTraffic(
                        source,
                        self._service,
                        self._edition,
                        login,
                        self.tally,
                        outflow,
                        self._hold_or_not,
                        lambda topic, number: (self._known(topic, number), self._entity(topic, number)),
                    )
                )
            for target in self._targets_rules:
                login = _login(target.subjects, origin)
                self._targets.append(TargetTraffic(target, self._service, self._edition, login, self.tally, outflow))
        except BaseException:
            self._end_traffic()
            raise
        outflow.start()
        for each in self._targets:
            each.start()
        self._go(StateChange.OPEN)
        self._task = loop.create_task(self._run())

    async def close(self) -> None:
        """Nothing new comes in; what is under way is settled, what waits to leave has a moment."""
        if self._task is None:
            return
        self._go(StateChange.CLOSE)
        for target in self._targets:
            target.conversation.received("STOP-SEND-EVENTS")
        self._held = True
        if self._bridge is not None:
            self._bridge.hold(True)
        await self._settle()
        assert self._outflow is not None
        left = await self._outflow.close(LEAVING_SECONDS)
        if left:
            log.warning("messages were not sent", connection=self.document.id, messages=left)
            self.tally.note("failure", "connection", f"{left} messages were not sent before it was closed")
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None
        self._end_traffic()
        self._held = False
        self._go(StateChange.ENDED)

    def _end_traffic(self) -> None:
        for each in (*self._sources, *self._targets):
            each.close()
        self._sources, self._targets = [], []

    async def _run(self) -> None:
        back_off = BackOff()
        loop = asyncio.get_running_loop()
        while not is_stopping():
            began = loop.time()
            try:
                reason, is_final = await self._connected()
            except BridgeLost as lost:
                reason, is_final = str(lost), lost.is_final
            except Exception as error:
                log.exception("connection failed", connection=self.document.id)
                reason, is_final = type(error).__name__, False
            opened = self.state is ConnectionState.OPEN
            pause = back_off.pause(loop.time() - began if opened else 0.0)
            if reason != self.reason or opened:
                log.warning("connection lost", connection=self.document.id, reason=reason, again_seconds=pause)
            self.reason = reason
            self.tally.note("failure", "connection", reason)
            self._go(StateChange.REFUSED if is_final else StateChange.LOST)
            if not is_stopping():
                await asyncio.sleep(pause)
            self._go(StateChange.PAUSE_OVER)

    async def _connected(self) -> tuple[str, bool]:
        """Until it ends: why."""
        bridge = make_bridge(self.document, self._take, self._known)
        assert self._outflow is not None
        try:
            self._bridge = bridge
            self._hold_or_not()
            await bridge.open()
            self._go(StateChange.CONNECTED)
            self.reason = ""
            log.info("connection open", connection=self.document.id, kind=self.document.connection_type)
            self.tally.note("success", "connection", "connected")
            self._outflow.use(bridge)
            return await asyncio.shield(bridge.ended), False
        finally:
            self._outflow.use(None)
            self._bridge = None
            for source in self._sources:
                source.forget()
            await bridge.close()
            await self._settle()
            # What the journal has is what has happened, also of commands whose answers were errors.
            self._ledgers.clear()

    async def _settle(self) -> None:
        try:
            async with asyncio.timeout(SETTLING_SECONDS):
                for source in self._sources:
                    await source.settled()
        except TimeoutError:
            log.warning("commands are still under way", connection=self.document.id)

    def _go(self, happening: StateChange) -> None:
        state = after(self.state, happening)
        if state is not self.state:
            self.state = state
            self.since = self._service.now()

    # -- messages ---------------------------------------------------------------------------------------------------

    def _take(self, messages: list[InboundMessage]) -> None:
        by_source: dict[int, list[InboundMessage]] = {}
        for message in messages:
            by_source.setdefault(message.source, []).append(message)
        for number, some in by_source.items():
            self._sources[number].take(some)

    def _hold_or_not(self) -> None:
        held = self._held or self._outflow_full or any(not source.wants_more for source in self._sources)
        if self._bridge is not None:
            self._bridge.hold(held)

    def _full(self, full: bool) -> None:
        self._outflow_full = full
        for target in self._targets:
            target.conversation.set_writable(not full)
        self._hold_or_not()

    # -- where logs are read on -------------------------------------------------------------------------------------

    def _entity(self, topic: str, partition: int) -> str:
        return batch_entity(self._set_name, "CONNECTIONS", f"{self.document.id}:{topic}:{partition}")

    def _known(self, topic: str, partition: int) -> OffsetLedger:
        """Blocks where it is not known yet; called by the thread of a consumer then."""
        found = self._ledgers.get((topic, partition))
        if found is None:
            found = OffsetLedger.of_marks(self._marks(self._entity(topic, partition)))
            self._ledgers[topic, partition] = found
        return found

    # -- for those who look -----------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        is_open = self.state is ConnectionState.OPEN
        found: dict[str, Any] = {
            "connectionId": self.document.id,
            "connectionStatus": self.document.connection_status,
            "liveStatus": str(self.state),
            "since": instant(self.since),
            "sourceStatus": [
                {"address": address, "status": "open" if is_open else "closed"}
                for source in self.document.sources
                for address in source.addresses
            ],
            "targetStatus": [
                {"address": target.address, "status": "open" if is_open else "closed"}
                for target in self.document.targets
            ],
            "waitingMessages": 0 if self._outflow is None else len(self._outflow),
            "unsettledMessages": sum(source.under_way for source in self._sources),
        }
        if is_open:
            found["connectedSince"] = instant(self.since)
        if self.reason:
            found["reason"] = self.reason
        return found


def _login(subjects: tuple[str, ...], origin: object) -> Login:
    """A connection has no password: policies decide by its subjects. Items of adapters are not for it."""
    return Login(Caller(subjects, origin), ShownCredentials(None, "", ClientFacts("", True, {})))
