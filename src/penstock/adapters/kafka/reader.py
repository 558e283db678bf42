"""One thread that reads topics: all partitions of them, or its share of a group. librdkafka has the connection.

Not here: what becomes of records (brokers/adapter.py). Records are handed on in the order of their partition, each of
them once as long as the process lives, whatever brokers repeat; except in a group, when its partitions move.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from threading import Event, Thread

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from penstock.adapters.kafka.settings import TIMEOUT, KafkaSettings
from penstock.brokers.kafka_contact import KafkaContact, kafka_words
from penstock.log import get
from penstock.wire.records.record import BrokerRecord

log = get(__name__)

# Records taken at a time, and how long a call waits for the first of them, in seconds: stopping waits as long.
BATCH = 1_000
PATIENCE = 0.2

# Seconds after which new partitions, and new topics of patterns, are looked for.
REFRESH = 30.0

# Seconds after which brokers that did not answer are asked whether they are back.
RECHECK = 2.0

# A group is a must for librdkafka; where there is none, nothing is stored under this name.
NO_GROUP = "penstock"

Partition = tuple[str, int]

assert TIMESTAMP_NOT_AVAILABLE == 0, "what brokers/record.py says of the kind of a timestamp"


class KafkaProblem(Exception):
    """What is wrong with the brokers or topics, in one sentence."""


class KafkaReader:
    """Opened by `open`, which may block; then `begin` starts the thread, and `close` ends it."""

    def __init__(self, settings: KafkaSettings, take: Callable[[Sequence[BrokerRecord]], None]) -> None:
        self._settings = settings
        self._take = take
        self._consumer: Consumer | None = None
        self._thread: Thread | None = None
        self._closing = Event()
        # The next offset that is new, for each partition that is read without a group.
        self._next: dict[Partition, int] = {}
        # Partitions of which not all is read that was there at the start.
        self._behind: set[Partition] = set()
        self.caught_up = Event()
        # Why nothing can be read at present.
        self.trouble: str | None = None
        self._checked = 0.0
        self._refreshed = 0.0
        # Until the brokers have answered for the first time.
        self._contact: KafkaContact | None = KafkaContact()

    # -- beginning and end ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect, find the topics and decide where to begin; raises KafkaProblem."""
        config = {
            **self._settings.config,
            "group.id": self._settings.group or NO_GROUP,
            "enable.partition.eof": True,
            "error_cb": self._went_wrong,
            # Without a logger librdkafka writes to standard error.
            "logger": logging.getLogger(f"{__name__}.librdkafka"),
        }
        try:
            self._consumer = Consumer(config)
        except (KafkaException, ValueError, TypeError) as error:
            raise KafkaProblem(f"options: {_words(error)}") from None
        try:
            found = self._partitions()
            missing = [one for one in self._settings.topics if not one.startswith("^") and one not in found]
            if missing:
                raise KafkaProblem(f"there is no topic {', '.join(missing)} at {self._settings.servers}")
            if self._settings.group:
                self._consumer.subscribe(list(self._settings.topics))
                self.caught_up.set()
            else:
                self._assign([(topic, number) for topic, numbers in found.items() for number in numbers])
        except BaseException:
            self._consumer.close()
            raise
        self._refreshed = time.monotonic()

    def begin(self, name: str) -> None:
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Blocks until the thread has ended; what was handed on is committed where there is a group."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._consumer is not None:
            self._consumer.close()

    # -- where to read --------------------------------------------------------------------------------------------

    def _partitions(self) -> dict[str, list[int]]:
        """Those of our topics."""
        assert self._consumer is not None
        try:
            if self._contact is not None:
                listed = self._contact.metadata(self._consumer, TIMEOUT)
                self._contact = None
            else:
                listed = self._consumer.list_topics(timeout=TIMEOUT)
        except KafkaException as error:
            raise KafkaProblem(f"no broker answers at {self._settings.servers}: {_words(error)}") from None
        return {
            name: sorted(topic.partitions)
            for name, topic in listed.topics.items()
            if topic.error is None and self._is_ours(name)
        }

    def _is_ours(self, topic: str) -> bool:
        return any(
            re.match(wanted, topic) is not None if wanted.startswith("^") else wanted == topic
            for wanted in self._settings.topics
        )

    def _assign(self, places: Sequence[Partition]) -> None:
        """At the start: from where the configuration says."""
        assert self._consumer is not None
        start = self._settings.start
        begins = [TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in places]
        try:
            if isinstance(start, int):
                wanted = [TopicPartition(topic, number, start) for topic, number in places]
                begins = self._consumer.offsets_for_times(wanted, timeout=TIMEOUT) if wanted else []
            elif start == "latest":
                # What comes from now on, also where nothing has come yet: the end is looked up once.
                for begin in begins:
                    begin.offset = self._consumer.get_watermark_offsets(begin, timeout=TIMEOUT)[1]
        except KafkaException as error:
            raise KafkaProblem(f"the beginning of {self._settings.topics} cannot be found: {_words(error)}") from None
        for begin in begins:
            # A time behind the last record.
            if begin.offset == OFFSET_END:
                begin.offset = self._consumer.get_watermark_offsets(begin, timeout=TIMEOUT)[1]
        self._behind = set() if start == "latest" else set(places)
        if not self._behind:
            self.caught_up.set()
        self._next = dict.fromkeys(places, 0)
        self._consumer.assign(begins)

    def _refresh(self) -> None:
        """New partitions and topics are read from their beginning, because all of it is new; others are gone."""
        assert self._consumer is not None
        try:
            found = {(topic, number) for topic, numbers in self._partitions().items() for number in numbers}
        except KafkaProblem as problem:
            self._lost(str(problem))
            return
        new, gone = found - self._next.keys(), self._next.keys() - found
        if new:
            log.info("new partitions", partitions=_shown(new))
            self._consumer.incremental_assign([TopicPartition(*place, OFFSET_BEGINNING) for place in sorted(new)])
            self._next.update(dict.fromkeys(new, 0))
        if gone:
            log.warning("partitions no longer exist", partitions=_shown(gone))
            self._consumer.incremental_unassign([TopicPartition(*place) for place in sorted(gone)])
            for place in gone:
                del self._next[place]
                self._reached_end(place)

    # -- reading --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        assert self._consumer is not None
        while not self._closing.is_set():
            try:
                records = self._consumer.consume(BATCH, PATIENCE)
                if records:
                    self._handle(records)
                self._look_around(time.monotonic())
            except KafkaException as error:
                self._lost(_words(error))
            except Exception:
                # Of the adapter or of this class: the records are lost, those behind them need not be.
                log.exception("records could not be handled", topics=",".join(self._settings.topics))

    def _handle(self, records: Sequence[Message]) -> None:
        good: list[Message] = []
        ends: list[Partition] = []
        for record in records:
            error = record.error()
            if error is None:
                good.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.append((record.topic() or "", record.partition() or 0))
            else:
                self._lost(_words(error))
        if good:
            if self.trouble is not None:
                self._found()
            if self._settings.group:
                self._take(good)
                self._store(good)
            else:
                self._take(self._new_ones(good))
        for place in ends:
            self._reached_end(place)

    def _new_ones(self, records: Sequence[Message]) -> list[Message]:
        """Without those that have been handed on: a broker may go back to an earlier offset."""
        known, new = self._next, []
        for record in records:
            place = (record.topic() or "", record.partition() or 0)
            offset = record.offset() or 0
            if offset >= known.get(place, 0):
                known[place] = offset + 1
                new.append(record)
        return new

    def _store(self, records: Sequence[Message]) -> None:
        """Only what has been handed on is committed, so that nothing is skipped after a crash."""
        assert self._consumer is not None
        last = {(record.topic() or "", record.partition() or 0): record.offset() or 0 for record in records}
        offsets = [TopicPartition(topic, number, offset + 1) for (topic, number), offset in last.items()]
        try:
            self._consumer.store_offsets(offsets=offsets)
        except KafkaException as error:
            # The partition belongs to another member of the group by now, which reads the same records again.
            log.info("offsets not stored", reason=_words(error))

    def _reached_end(self, place: Partition) -> None:
        self._behind.discard(place)
        if not self._behind:
            self.caught_up.set()

    # -- trouble --------------------------------------------------------------------------------------------------

    def _look_around(self, now: float) -> None:
        if self.trouble is not None and now >= self._checked + RECHECK:
            self._checked = now
            assert self._consumer is not None
            try:
                self._consumer.list_topics(timeout=1.0)
            except KafkaException:
                return
            self._found()
        elif self.trouble is None and not self._settings.group and now >= self._refreshed + REFRESH:
            self._refreshed = now
            self._refresh()

    def _went_wrong(self, error: KafkaError) -> None:
        """Called by librdkafka within other calls. A single broker that is gone is its own business."""
        if self._contact is not None:
            self._contact.told(error)
            return
        serious = (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE)
        if error.fatal() or error.code() in serious:
            self._lost(_words(error))

    def _lost(self, reason: str) -> None:
        if self.trouble is None:
            log.warning("Kafka cannot be read", servers=self._settings.servers, reason=reason)
        self.trouble = reason

    def _found(self) -> None:
        log.info("Kafka can be read again", servers=self._settings.servers)
        self.trouble = None


def _words(error: object) -> str:
    """What librdkafka says, without the number of its own catalogue."""
    if isinstance(error, KafkaException) and error.args:
        error = error.args[0]
    return kafka_words(error) if isinstance(error, KafkaError) else str(error)


def _shown(places: set[Partition]) -> str:
    return ", ".join(f"{topic}/{number}" for topic, number in sorted(places))
