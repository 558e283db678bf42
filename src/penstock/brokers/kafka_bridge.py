"""A connection to Kafka: a consumer on a thread, and a producer. Needs the extra `kafka`.

Where to go on reading is what the journal says (`connections.offsets`), or the group's offset, if that is further:
it is committed for what is settled, also for records that changed nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from functools import partial
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.brokers.bridge import Bridge, BridgeLost, Ledgers, PublishRefused, TakeInbound, addresses
from penstock.brokers.kafka_contact import KafkaContact, kafka_words
from penstock.connections.document import ConnectionDocument
from penstock.connections.message import InboundMessage, LogPlace, OutboundMessage, Settlement
from penstock.connections.offsets import MAX_UNDER_WAY, OffsetLedger
from penstock.log import get

log = get(__name__)

# Seconds for an answer.
TIMEOUT = 10.0

# Records read at once, and seconds to wait for the first of them.
BATCH = 500
PATIENCE = 0.1

# What only this bridge decides; everything else in `specificConfig` that has a dot is an option of librdkafka.
_OURS = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "group.instance.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
    }
)

# Options that load libraries, run commands or read files of the machine: a document must not.
_DANGEROUS = re.compile(r"plugin\..*|ssl\.engine\..*|ssl\.providers|sasl\.kerberos\.kinit\.cmd|.*\.location")

_FINAL = (KafkaError._AUTHENTICATION, KafkaError._INVALID_ARG, KafkaError.SASL_AUTHENTICATION_FAILED)


class KafkaBridge(Bridge):
    """`specificConfig` has bootstrapServers, groupId, saslMechanism, and options of librdkafka."""

    def __init__(self, document: ConnectionDocument, take: TakeInbound, ledgers: Ledgers) -> None:
        super().__init__(document)
        self._take = take
        self._find = ledgers
        self._loop = asyncio.get_running_loop()
        self._common = options_of(document)
        self._sources = {address: number for number, address in addresses(document)}
        self._ledgers: dict[tuple[str, int], OffsetLedger] = {}
        self._closing = Event()
        self._paused = Event()
        self._room = Event()
        self._room.set()
        # Counted on the thread, and on the loop.
        self._read = 0
        self._finished = 0
        self._thread: Thread | None = None
        self._poller: Thread | None = None
        self._assigned: asyncio.Future[None] = self._loop.create_future()
        self._producer: Producer | None = None
        # While it is not met, errors are only reasons why not.
        self._contact = KafkaContact()
        self._is_met = False

    # -- its life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        try:
            if self._sources:
                await self._open_consumer()
            if not self._sources or self.document.targets or any(each.reply_target for each in self.document.sources):
                contact = KafkaContact()
                options = {**self._common, "enable.idempotence": True, "error_cb": contact.told}
                self._producer = Producer(options)
                await asyncio.to_thread(contact.metadata, self._producer, TIMEOUT)
                self._poller = Thread(target=self._poll, name=f"kafka-out-{self.document.id}", daemon=True)
                self._poller.start()
        except KafkaException as error:
            raise _lost(error) from None

    async def _open_consumer(self) -> None:
        options = {
            **self._common,
            "group.id": self.document.specific_config.get("groupId", f"penstock-{self.document.id}"),
            # Else the group would wait for a server that was killed, and give its partitions to nobody for that long.
            "group.instance.id": f"penstock-{self.document.id}",
            "enable.auto.commit": True,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "error_cb": self._went_wrong,
        }
        consumer = Consumer(options)
        try:
            known = await asyncio.to_thread(self._contact.metadata, consumer, TIMEOUT)
        except KafkaException:
            consumer.close()
            raise
        self._is_met = True
        missing = [topic for topic in self._sources if topic not in known.topics or known.topics[topic].error]
        if missing:
            consumer.close()
            raise BridgeLost(f"there is no topic {missing[0]}", is_final=True)
        self._thread = Thread(target=self._run, args=(consumer,), name=f"kafka-in-{self.document.id}", daemon=True)
        self._thread.start()
        try:
            async with asyncio.timeout(6 * TIMEOUT):
                await asyncio.shield(self._assigned)
        except TimeoutError:
            raise BridgeLost("the group has not assigned any partition in time") from None

    async def close(self) -> None:
        self._closing.set()
        self._room.set()
        self.end("it was closed")
        for thread in (self._thread, self._poller):
            if thread is not None:
                await asyncio.to_thread(thread.join)
        if self._producer is not None:
            await asyncio.to_thread(self._producer.flush, 1.0)
            self._producer = None
        if not self._assigned.done():
            self._assigned.cancel()

    def hold(self, held: bool) -> None:
        (self._room.clear if held else self._room.set)()

    # -- in: on the thread ------------------------------------------------------------------------------------------

    def _run(self, consumer: Consumer) -> None:
        reason = "it was closed"
        try:
            consumer.subscribe(list(self._sources), on_assign=self._on_assign, on_revoke=self._on_revoke)
            while not self._closing.is_set():
                # Polled also while nothing is wanted, because the group drops members that do not.
                self._pause(consumer)
                records = consumer.consume(BATCH, PATIENCE)
                if records:
                    self._handle(records)
                self._commit(consumer)
        except KafkaException as error:
            reason = str(_lost(error))
        except Exception as error:
            log.exception("records could not be handled", connection=self.document.id)
            reason = type(error).__name__
        finally:
            consumer.close()
            self._tell(self.end, reason)

    def _pause(self, consumer: Consumer) -> None:
        wanted = self._room.is_set() and self._read - self._finished < MAX_UNDER_WAY
        if wanted is self._paused.is_set():
            partitions = consumer.assignment()
            if not partitions:
                return
            if wanted:
                consumer.resume(partitions)
                self._paused.clear()
            else:
                consumer.pause(partitions)
                self._paused.set()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        committed = consumer.committed(partitions, timeout=TIMEOUT)
        for partition, kept in zip(partitions, committed, strict=True):
            first, end = consumer.get_watermark_offsets(partition, timeout=TIMEOUT)
            ledger = self._find(partition.topic, partition.partition)
            ledger.restart()
            read = max(ledger.low or 0, kept.offset, 0)
            place = {"connection": self.document.id, "topic": partition.topic, "partition": partition.partition}
            if max(read, ledger.end) > end:
                log.warning(
                    "the topic ends before the last offset read, reading it from the beginning", end=end, **place
                )
                ledger.forget()
                read = first
            elif 0 < read < first:
                log.warning("records were deleted before they were read", lost=first - read, **place)
            partition.offset = max(read, first)
            self._ledgers[partition.topic, partition.partition] = ledger
        consumer.assign(partitions)
        self._paused.clear()
        self._tell(self._opened)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What is under way must be settled before anything is read again, so this bridge ends."""
        if not self._closing.is_set():
            self._closing.set()
            self._tell(self.end, "the group has revoked partitions")

    def _handle(self, records: Sequence[Message]) -> None:
        found: list[InboundMessage] = []
        for record in records:
            error = record.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    continue
                raise KafkaException(error)
            found.append(self._message(record))
        if found:
            self._read += len(found)
            self._tell(self._begin, found)

    def _message(self, record: Message) -> InboundMessage:
        topic, partition, offset = record.topic() or "", record.partition() or 0, record.offset() or 0
        headers = {"kafka.topic": topic}
        given: Any = record.headers() or ()
        for name, value in given:
            headers[name.lower()] = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
        kind, millis = record.timestamp()
        if kind:
            headers["kafka.timestamp"] = str(millis)
        key = record.key()
        if key is not None:
            headers["kafka.key"] = key.decode("utf-8", "replace")
        payload = record.value() or b""
        place = LogPlace(topic, partition, offset)
        settle = partial(self._settled, place)
        return InboundMessage(self._sources.get(topic, 0), topic, topic, payload, headers, settle, key, place)

    def _commit(self, consumer: Consumer) -> None:
        """For those who look at the group: how far it has come."""
        for (topic, number), ledger in list(self._ledgers.items()):
            if ledger.low is not None:
                try:
                    consumer.store_offsets(offsets=[TopicPartition(topic, number, ledger.low)])
                except KafkaException as error:
                    # The partition belongs to another member by now.
                    log.debug("offsets not stored", reason=str(_lost(error)))

    def _went_wrong(self, error: KafkaError) -> None:
        """Called by librdkafka within other calls."""
        if not self._is_met:
            self._contact.told(error)
            return
        serious = (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE)
        if error.fatal() or error.code() in serious:
            self._tell(self.end, kafka_words(error))
            self._closing.set()

    def _tell(self, call: Any, *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            log.debug("the loop is closed", connection=self.document.id)

    # -- in: on the loop --------------------------------------------------------------------------------------------

    def _opened(self) -> None:
        if not self._assigned.done():
            self._assigned.set_result(None)

    def _begin(self, found: list[InboundMessage]) -> None:
        new = []
        for message in found:
            place = message.place
            assert place is not None
            ledger = self._ledgers.get((place.topic, place.partition))
            if ledger is not None and not self.ended.done() and ledger.begin(place.offset):
                new.append(message)
            else:
                # Known from before, or of a partition that is not ours any more.
                self._finished += 1
        if new:
            self._take(new)

    def _settled(self, place: LogPlace, settlement: Settlement) -> None:
        self._finished += 1
        ledger = self._ledgers.get((place.topic, place.partition))
        if ledger is None:
            return
        if settlement is Settlement.AGAIN:
            self._closing.set()
            self.end("a record could not be processed yet; reconnecting to read it again")
        else:
            ledger.settle(place.offset)

    # -- out --------------------------------------------------------------------------------------------------------

    async def publish(self, message: OutboundMessage) -> int:
        producer = self._producer
        if producer is None or self.ended.done():
            raise BridgeLost("it is not open")
        topic, _, key = message.address.partition("/")
        key = message.headers.get("kafka.key", key)
        done: asyncio.Future[None] = self._loop.create_future()

        def delivered(error: KafkaError | None, _: Message) -> None:
            self._tell(_finish, done, error)

        headers: list[tuple[str, str | bytes | None]] = [
            (name, value) for name, value in message.headers.items() if not name.startswith("kafka.")
        ]
        while True:
            try:
                producer.produce(topic, message.payload, key or None, on_delivery=delivered, headers=headers)
                break
            except BufferError:
                await asyncio.sleep(0.01)
            except (KafkaException, TypeError, ValueError) as error:
                raise PublishRefused(str(error)) from None
        await done
        return 200

    def _poll(self) -> None:
        producer = self._producer
        while not self._closing.is_set() and producer is not None:
            producer.poll(PATIENCE)
            time.sleep(0)


def _finish(done: asyncio.Future[None], error: KafkaError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    elif error.retriable() or error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
        done.set_exception(BridgeLost(kafka_words(error)))
    else:
        done.set_exception(PublishRefused(error.str()))


def _lost(error: KafkaException) -> BridgeLost:
    cause = error.args[0]
    if isinstance(cause, KafkaError):
        return BridgeLost(kafka_words(cause), cause.code() in _FINAL)
    return BridgeLost(str(error), is_final=True)


def options_of(document: ConnectionDocument) -> dict[str, Any]:
    given = document.specific_config
    servers = given.get("bootstrapServers") or f"{document.host}:{document.port}"
    options: dict[str, Any] = {
        "reconnect.backoff.max.ms": 2_000,
        "logger": logging.getLogger(f"{__name__}.librdkafka"),
        **{name: value for name, value in given.items() if "." in name},
        "bootstrap.servers": servers,
    }
    for name in given:
        if name in _OURS:
            raise BridgeLost(f"specificConfig.{name} is set by the connection itself", is_final=True)
        if _DANGEROUS.fullmatch(name):
            reason = "it would run code or read files of the server; certificates belong into ca and credentials"
            raise BridgeLost(f"specificConfig.{name} is not allowed: {reason}", is_final=True)
    if document.is_encrypted:
        options["security.protocol"] = "SSL"
        if document.ca:
            options["ssl.ca.pem"] = document.ca
        if not document.validate_certificates:
            options["enable.ssl.certificate.verification"] = False
        if document.credentials is not None and document.credentials.type == "client-cert":
            options["ssl.certificate.pem"] = document.credentials.cert
            options["ssl.key.pem"] = document.credentials.key
    if document.user is not None:
        options["security.protocol"] = "SASL_SSL" if document.is_encrypted else "SASL_PLAINTEXT"
        options["sasl.mechanism"] = given.get("saslMechanism", "PLAIN").upper()
        options["sasl.username"] = document.user
        options["sasl.password"] = document.password or ""
    return options
