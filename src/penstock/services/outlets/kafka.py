"""The journal into a topic, on a thread, each event once.

Events and the position behind them are written in one transaction: the position is the offset of a consumer group of
the outlet's own, so that Kafka keeps both or none. An outlet that starts under the same name ends the one before it.
Not here: which outlets there are (service.py). Importing this needs the extra `kafka`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock.adapters.kafka.settings import OutletSettings
from penstock.journal.disk import Disk
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EventSelection
from penstock.log import get
from penstock.services.outlets.events import topic_records

log = get(__name__)

# Sequences of the journal that one transaction covers.
STEP = 5_000

# Seconds between two looks at the journal.
PAUSE = 0.05

# Seconds for each answer, and between two attempts; the latter doubles up to the last.
TIMEOUT = 30.0
FIRST_RETRY = 0.5
LONGEST_RETRY = 10.0


class OutletProblem(Exception):
    """What is wrong, in one sentence, and trying again does not help."""


class KafkaOutlet:
    """One topic. `begin` starts its thread, `close` ends it."""

    def __init__(self, name: str, settings: OutletSettings, disk: Callable[[], Disk]) -> None:
        self.name = name
        self._settings = settings
        self._disk = disk
        self._closing = Event()
        self._thread: Thread | None = None
        # Figures: events in the topic, and sequences of the journal that are still to be looked at.
        self.events = 0
        self.lag = 0
        self.trouble: str | None = None

    def begin(self) -> None:
        self._thread = Thread(target=self._run, name=f"outlet-{self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Blocks until the transaction under way is committed or given up."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        retry = FIRST_RETRY
        while not self._closing.is_set():
            before = self.events
            try:
                self._write()
            except OutletProblem as problem:
                self.trouble = str(problem)
                log.error("outlet has stopped", outlet=self.name, reason=str(problem))
                return
            except KafkaException as error:
                words = error.args[0].str()
                if self.trouble is None:
                    log.warning("outlet cannot write", outlet=self.name, topic=self._settings.topic, reason=words)
                self.trouble = words
            retry = FIRST_RETRY if self.events > before else min(2 * retry, LONGEST_RETRY)
            self._closing.wait(retry)

    def _write(self) -> None:
        """Until it is closed, or something fails."""
        settings = self._settings
        common = {**settings.config, "logger": logging.getLogger(f"{__name__}.librdkafka")}
        consumer = Consumer({**common, "group.id": self._group})
        producer = Producer({**common, "transactional.id": self._group, "enable.idempotence": True})
        try:
            # It ends transactions of a process that was killed, and the process if it still lives.
            producer.init_transactions(TIMEOUT)
            reader = JournalReader(self._disk())
            following = self._position(consumer, reader)
            selection = EventSelection(settings.entities)
            metadata = consumer.consumer_group_metadata()
            if self.trouble is not None:
                log.info("outlet can write again", outlet=self.name)
            self.trouble = None
            while not self._closing.is_set():
                latest = reader.poll()
                self.lag = max(0, latest - following + 1)
                if not self.lag:
                    self._closing.wait(PAUSE)
                    continue
                stop = min(latest, following + STEP - 1) + 1
                count = self._transact(producer, reader, selection, following, stop, metadata)
                self.events += count
                following = stop
        finally:
            consumer.close()

    def _transact(
        self, producer: Producer, reader: JournalReader, selection: EventSelection, first: int, stop: int, group: object
    ) -> int:
        topic = self._settings.topic
        count = 0
        producer.begin_transaction()
        try:
            for batch in reader.read(first, stop, selection):
                for key, value in topic_records(batch):
                    while True:
                        try:
                            producer.produce(topic, value, key)
                            break
                        except BufferError:
                            producer.poll(1.0)
                    count += 1
            position = TopicPartition(topic, 0, stop, metadata=str(reader.salt_at(stop - 1)))
            producer.send_offsets_to_transaction([position], group, TIMEOUT)
            producer.commit_transaction(TIMEOUT)
        except KafkaException as error:
            cause = error.args[0]
            if cause.fatal():
                raise OutletProblem(f"another process writes this outlet: {cause.str()}") from None
            if cause.txn_requires_abort():
                producer.abort_transaction(TIMEOUT)
            raise
        except Expired as expired:
            producer.abort_transaction(TIMEOUT)
            raise OutletProblem(
                f"{expired}: the outlet was away for too long, and its topic would have a gap"
            ) from None
        return count

    # -- where it stands ------------------------------------------------------------------------------------------

    @property
    def _group(self) -> str:
        return f"penstock-outlet-{self.name}"

    def _position(self, consumer: Consumer, reader: JournalReader) -> int:
        """The first sequence that the topic does not have."""
        (found,) = consumer.committed([TopicPartition(self._settings.topic, 0)], TIMEOUT)
        if found.error is not None:
            raise KafkaException(found.error)
        latest = reader.poll()
        if found.offset < 0:
            return latest + 1 if self._settings.start == "latest" else reader.earliest()
        salt = reader.salt_at(found.offset - 1)
        if found.offset > latest + 1 or (salt is not None and found.metadata not in ("", "None", str(salt))):
            raise OutletProblem(
                f"the topic {self._settings.topic} was written from another journal; to begin anew, rename the outlet"
            )
        return int(found.offset)
