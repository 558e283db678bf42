"""What waits to be persisted: decisions that somebody waits for, and subscriptions that have fired.

Which of them can go into one transaction is found here; who writes it is `engine`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.log import get
from penstock.push.flows import Fired, FlowBook
from penstock.push.records import PushChange
from penstock.push.refusals import PushRefusal
from penstock.push.registry import DeviceRegistry, PushDecision

log = get(__name__)

# How many are persisted in one transaction: requests, and subscriptions that have fired.
MAX_JOBS = 500
MAX_FIRED = 1_000


@dataclass(slots=True)
class PushJob:
    """A decision that waits for its turn: no two about the same subject are made at the same time."""

    subjects: frozenset[Hashable]
    decide: Callable[[], PushDecision[Any]]
    done: asyncio.Future[Any]
    # Whoever has asked is answered by this, before others are told of what has been decided.
    answer: Callable[[Any], None] | None = None

    def refuse(self, refusal: Exception) -> None:
        """Unless whoever asked has gone meanwhile."""
        if not self.done.done():
            self.done.set_exception(refusal)


@dataclass(slots=True)
class PushPart:
    """A part of a transaction that can be persisted without the others."""

    changes: tuple[PushChange, ...]
    job: PushJob | None = None
    result: Any = None
    fired: list[Fired] = field(default_factory=list)

    def answer(self) -> None:
        """Never raises."""
        job = self.job
        if job is None or job.answer is None or job.done.done():
            return
        try:
            job.answer(self.result)
        except Exception:
            log.exception("a request about push notifications could not be answered")


class Agenda:
    """In the order in which it came."""

    def __init__(self) -> None:
        self._jobs: deque[PushJob] = deque()
        self._fired: deque[Fired] = deque()

    def __bool__(self) -> bool:
        return bool(self._jobs or self._fired)

    def ask(
        self,
        subjects: Iterable[Hashable],
        decide: Callable[[], PushDecision[Any]],
        answer: Callable[[Any], None] | None = None,
    ) -> asyncio.Future[Any]:
        """A decision that is to be made; its result when it is persisted and applied, or why it is not."""
        job = PushJob(frozenset(subjects), decide, asyncio.get_running_loop().create_future(), answer)
        self._jobs.append(job)
        return job.done

    def fire(self, fired: Iterable[Fired]) -> None:
        self._fired.extend(fired)

    def fire_again(self, fired: Sequence[Fired]) -> None:
        """What was taken and could not be persisted: before all that came later."""
        self._fired.extendleft(reversed(fired))

    def refuse(self, refusal: PushRefusal) -> None:
        """All decisions that wait."""
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.refuse(refusal)

    def triggered(self) -> set[str]:
        """Devices with a trigger that has fired, which the database does not know yet."""
        return {each.subscription.device for each in self._fired if each.subscription.trigger is not None}

    def renew(self, registry: DeviceRegistry) -> None:
        """Subscriptions that have been read again are those that have fired, if they are as they were."""
        self._fired = deque(_renewed(each, registry) for each in self._fired)

    def take(self, book: FlowBook) -> list[PushPart]:
        """Decisions that can be made together, because no two are about the same."""
        parts: list[PushPart] = []
        taken: set[Hashable] = set()
        later: deque[PushJob] = deque()
        while self._jobs and len(parts) < MAX_JOBS:
            job = self._jobs.popleft()
            if not taken.isdisjoint(job.subjects):
                later.append(job)
            elif not job.done.done():
                part = _decided(job)
                if part is not None:
                    parts.append(part)
            # Also of those that wait: the next about the same comes after them.
            taken |= job.subjects
        self._jobs.extendleft(reversed(later))
        fired = self._free_fired(taken)
        if fired:
            notified = book.notify(fired)
            for subscription, reason in notified.unusable:
                log.warning("push subscription cannot send notifications", subscription=subscription.id, reason=reason)
            parts.append(PushPart(notified.changes, None, notified.passing, fired))
        return parts

    def _free_fired(self, taken: set[Hashable]) -> list[Fired]:
        free: list[Fired] = []
        later: list[Fired] = []
        while self._fired and len(free) < MAX_FIRED:
            each = self._fired.popleft()
            (later if each.subscription.device in taken else free).append(each)
        self._fired.extendleft(reversed(later))
        return free


def _decided(job: PushJob) -> PushPart | None:
    try:
        decision = job.decide()
    except PushRefusal as refusal:
        job.refuse(refusal)
    except Exception as error:
        log.exception("a decision about push notifications has failed")
        job.refuse(error)
    else:
        return PushPart(decision.changes, job, decision.result)
    return None


def _renewed(fired: Fired, registry: DeviceRegistry) -> Fired:
    current = registry.subscription(fired.subscription.id)
    return replace(fired, subscription=current) if current == fired.subscription else fired
