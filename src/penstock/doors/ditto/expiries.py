"""Wakes up when a subject of a policy expires, and when its holders are to be told before; tells them when it is gone.

What is due when is in `twins.expiry`. An announcement that asks for acknowledgements is repeated until it gets them. A
restart repeats announcements, because who was told is not stored. Read next: docs/ditto.md, "Policies".
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from functools import partial
from uuid import uuid4

from penstock.doors.ditto.live_channel import LiveChannel
from penstock.log import get
from penstock.twins.decision import Result
from penstock.twins.expiry import deleted_with_notice, expiring
from penstock.twins.reasons import TwinRefusal
from penstock.twins.registry import Twins
from penstock.twins.told import Told
from penstock.twins.twin import Document
from penstock.wire.ditto.acks import Gathering
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import JSON_TYPE, Envelope
from penstock.wire.ditto.instant import NANOS_PER_MICRO, print_instant
from penstock.wire.ditto.subject import micros_of
from penstock.wire.ditto.topic import Criterion, Topic, policy_topic

log = get(__name__)

_SECOND = 1_000_000

# Seconds of the longest sleep: a clock that was set is noticed after that.
LONGEST_SLEEP = 600.0

# Seconds until a deletion that could not be written is tried again.
PAUSE = 1.0

# How often an announcement is sent to those who do not acknowledge it.
MAX_ATTEMPTS = 100


class Expiries:
    """On the event loop. `now` returns microseconds since 1970."""

    def __init__(self, twins: Twins, live: LiveChannel, now: Callable[[], int]) -> None:
        self._twins = twins
        self._live = live
        self._now = now
        self._due: list[tuple[int, str]] = []
        # Who was told already: policy, subject and expiry.
        self._announced: set[tuple[str, str, int]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._repeats: set[asyncio.TimerHandle] = set()
        self._end: Callable[[], None] | None = None

    def start(self) -> None:
        """The policies have been restored."""
        self._end = self._twins.listen(self._hear)
        for id in list(self._twins.policies()):
            self._plan(id)
        self._sleep()

    def close(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None
        for timer in (*self._repeats, self._timer):
            if timer is not None:
                timer.cancel()
        self._repeats.clear()

    # -- time ------------------------------------------------------------------------------------------------------

    def _plan(self, policy_id: str) -> None:
        policy = self._twins.policy(policy_id)
        if policy is None:
            return
        for each in expiring(policy.document):
            heapq.heappush(self._due, (each.expiry, policy_id))
            if each.announce_at is not None and (policy_id, each.subject, each.expiry) not in self._announced:
                heapq.heappush(self._due, (each.announce_at, policy_id))

    def _sleep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due:
            seconds = min(LONGEST_SLEEP, max(0.0, (self._due[0][0] - self._now()) / _SECOND))
            self._timer = asyncio.get_running_loop().call_later(seconds, self._wake)

    def _wake(self) -> None:
        now = self._now()
        policies: dict[str, None] = {}
        while self._due and self._due[0][0] <= now:
            policies[heapq.heappop(self._due)[1]] = None
        for id in policies:
            self._announce_due(id, now)
            self._twins.expire(id, partial(self._deleted, id))
        self._sleep()

    def _deleted(self, policy_id: str, result: Result | TwinRefusal) -> None:
        if isinstance(result, TwinRefusal):
            log.error("an expired subject could not be deleted; tried again", policy=policy_id, reason=str(result))
            heapq.heappush(self._due, (self._now() + int(PAUSE * _SECOND), policy_id))
            self._sleep()

    # -- announcements ---------------------------------------------------------------------------------------------

    def _announce_due(self, policy_id: str, now: int) -> None:
        policy = self._twins.policy(policy_id)
        if policy is None:
            return
        for each in expiring(policy.document):
            mark = (policy_id, each.subject, each.expiry)
            if each.announce_at is not None and each.announce_at <= now < each.expiry and mark not in self._announced:
                self._announced.add(mark)
                self._announce(policy_id, each.expiry, [each.subject], _acks(policy.document, each.subject))

    def _hear(self, told: Told) -> None:
        if not told.key.is_policy:
            return
        before = None if told.before is None else told.before.document
        gone = deleted_with_notice(before, None if told.after is None else told.after.document)
        for subject in sorted(gone):
            self._announce(told.key.id, told.timestamp, [subject], _acks(before or {}, subject))
        self._announced = {mark for mark in self._announced if mark[0] != told.key.id or mark[2] > self._now()}
        self._plan(told.key.id)
        self._sleep()

    def _announce(self, policy_id: str, at: int, subjects: Iterable[str], acks: tuple[tuple[str, ...], float]) -> None:
        namespace, _, name = policy_id.partition(":")
        topic = policy_topic(namespace, name, Criterion.ANNOUNCEMENTS)
        topic = Topic(namespace, name, topic.group, None, topic.criterion, None, "subjectDeletion")
        value = {"deleteAt": print_instant(at * NANOS_PER_MICRO), "subjectIds": list(subjects)}
        self._send(topic, value, acks, 1)

    def _send(self, topic: Topic, value: Json, acks: tuple[tuple[str, ...], float], attempt: int) -> None:
        labels = acks[0]
        headers: dict[str, Json] = {"correlation-id": str(uuid4()), "content-type": JSON_TYPE}
        if labels:
            headers["requested-acks"] = list(labels)
            self._repeat_unless_acknowledged(topic, headers, value, acks, attempt)
        self._live.announce(Envelope(topic, "/", headers, value), frozenset(value["subjectIds"]))

    def _repeat_unless_acknowledged(
        self, topic: Topic, headers: dict[str, Json], value: Json, acks: tuple[tuple[str, ...], float], attempt: int
    ) -> None:
        gathering = Gathering(topic, headers, acks[0])
        end = self._live.wait((topic.entity, headers["correlation-id"]), gathering, None, lambda: None)
        handle: asyncio.TimerHandle

        def expire() -> None:
            self._repeats.discard(handle)
            end()
            if not (gathering.is_complete and 200 <= gathering.status < 300) and attempt < MAX_ATTEMPTS:
                self._send(topic, value, acks, attempt + 1)

        handle = asyncio.get_running_loop().call_later(acks[1], expire)
        self._repeats.add(handle)


def _acks(policy: Document, subject: str) -> tuple[tuple[str, ...], float]:
    """The labels of the acknowledgements that are wanted, and within how many seconds."""
    for entry in policy.get("entries", {}).values():
        wanted = (entry["subjects"].get(subject, {}).get("announcement") or {}).get("requestedAcks")
        if wanted:
            return tuple(wanted.get("labels", ())), micros_of(wanted.get("timeout", "10s")) / _SECOND
    return (), 0.0
