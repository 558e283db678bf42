"""The streaming subscriptions of one connection: who may send what, and when. Time and history are arguments.

The states, with what leads from one to the next:

    WAITING --request--> FLOWING --last item, fault--> ENDED --10 s--> (forgotten)
    WAITING, FLOWING --cancel, demand below one, 60 s of silence--> ENDED

The caller reads the history and asks `wanted` how many items it may send. Specification: "Interaction pattern";
rules 1.1, 1.5, 1.7, 1.8, 3.7, 3.8 and 3.9 of reactive streams.
"""

from __future__ import annotations

from enum import Enum

from penstock.wire.ditto.document import MAX_LONG, Json
from penstock.wire.ditto.envelope import Headers
from penstock.wire.ditto.errors import HISTORY_ERRORS, TOO_MANY_REQUESTS, DittoError, SubscriptionErrors
from penstock.wire.ditto.ranges import HistoryRange
from penstock.wire.ditto.search import SearchSubscribe, Selection
from penstock.wire.ditto.streaming import (
    Cancel,
    Complete,
    Created,
    DemandRequest,
    Next,
    NextFrames,
    StreamFailed,
    SubscribeForPersistedEvents,
)
from penstock.wire.ditto.topic import Topic

# Seconds without a message in either direction after which a subscription fails, so that forgotten ones go away.
IDLE_SECONDS = 60.0

# Seconds for which an ended subscription is remembered, so that a request that was on its way gets a proper answer.
REMEMBERED_SECONDS = 10.0

# Ended subscriptions of one connection that are remembered; beyond it the oldest are forgotten early.
MAX_REMEMBERED = 1000

# Active subscriptions of one connection. Each may hold a file open; one more is error 429.
MAX_SUBSCRIPTIONS = 100

# What begins a subscription: to a history, or to the results of a search.
SubscribeCommand = SubscribeForPersistedEvents | SearchSubscribe


class HistorySubscriptionState(Enum):
    WAITING = "waiting"  # Created; nothing has been looked up, and only the client or a timeout can end it
    FLOWING = "flowing"  # Items go out as the client asks for them
    ENDED = "ended"  # Completed, failed or cancelled


class HistorySubscription:
    """One subscription. It is made by `Subscriptions.subscribe`."""

    def __init__(self, owner: Subscriptions, number: str, command: SubscribeCommand, now: float) -> None:
        self._owner = owner
        self.id = number
        self.topic: Topic = command.topic
        self.selection: HistoryRange | Selection = command.selection
        # Headers of the last command: they tell the client what an event answers.
        self.headers: Headers = command.headers
        # Headers of the subscription itself, which the items carry.
        self.origin: Headers = command.headers
        self.state = HistorySubscriptionState.WAITING
        self.demand = 0
        # When a message was last exchanged; once it has ended, when that was.
        self.since = now
        self._frames: NextFrames | None = None

    @property
    def wanted(self) -> int:
        """How many items may be sent now."""
        return self.demand if self.state is HistorySubscriptionState.FLOWING else 0

    def next(self, item: Json, now: float) -> Next:
        """Send one item. Only as many as are wanted."""
        self._take(1, now)
        return Next(self.topic, self.headers, self.id, item)

    def next_frames(self, items: list[bytes], now: float) -> list[bytes]:
        """Send some items, which are already JSON; returns the messages. Only as many as are wanted."""
        self._take(len(items), now)
        frames = self._frames
        if frames is None:
            frames = self._frames = NextFrames(self.topic, self.headers, self.id)
        return [frames.frame(item) for item in items]

    def complete(self, now: float) -> Complete | None:
        """There are no more items; it needs no demand. None if the subscription has already ended."""
        if not self._end(now):
            return None
        return Complete(self.topic, self.headers, self.id)

    def fail(self, error: DittoError, now: float) -> StreamFailed | None:
        """The history cannot be read, or not by this client. None if the subscription has already ended."""
        if not self._end(now):
            return None
        return StreamFailed(self.topic, self.headers, self.id, error)

    def _take(self, count: int, now: float) -> None:
        if count > self.wanted:
            raise ValueError(f"subscription {self.id} ({self.state.value}): {count} items, wanted: {self.wanted}")
        self.demand -= count
        self.since = now

    def _end(self, now: float) -> bool:
        if self.state is HistorySubscriptionState.WAITING:
            raise ValueError(f"subscription {self.id}: it cannot end before the first request")
        if self.state is HistorySubscriptionState.ENDED:
            return False
        self._over(now)
        return True

    # -- for Subscriptions --------------------------------------------------------------------------------------------

    def _heard(self, headers: Headers, now: float) -> None:
        self.headers = headers
        self._frames = None
        self.since = now

    def _over(self, now: float) -> None:
        self.state = HistorySubscriptionState.ENDED
        self.demand = 0
        self.since = now
        self._frames = None
        self._owner._bury(self)


class Subscriptions:
    """All subscriptions of one connection. When the connection closes, drop this."""

    def __init__(
        self,
        idle_seconds: float = IDLE_SECONDS,
        remembered_seconds: float = REMEMBERED_SECONDS,
        limit: int = MAX_SUBSCRIPTIONS,
        errors: SubscriptionErrors = HISTORY_ERRORS,
    ) -> None:
        self._errors = errors
        self._idle_seconds = idle_seconds
        self._remembered_seconds = remembered_seconds
        self._limit = limit
        self._alive: dict[str, HistorySubscription] = {}
        self._ended: dict[str, HistorySubscription] = {}  # In the order in which they ended
        self._count = 0  # Numbers are never reused on a connection

    def subscribe(self, command: SubscribeCommand, now: float) -> Created:
        """Send the answer. Raises error 429 when there are too many, which is an error response."""
        if len(self._alive) >= self._limit:
            raise TOO_MANY_REQUESTS.of(
                f"No more than {self._limit} streaming subscriptions are allowed on one connection."
            )
        subscription = HistorySubscription(self, str(self._count), command, now)
        self._count += 1
        self._alive[subscription.id] = subscription
        return Created(subscription.topic, subscription.headers, subscription.id)

    def request(self, command: DemandRequest, now: float) -> HistorySubscription | StreamFailed:
        """The subscription that may send more, or what to send instead.

        If it has no source of items yet, this is the first request: check now whether the client may read the history,
        and how long it is.
        """
        found = self._alive.get(command.subscription)
        if found is None:
            return self._refuse(command, now)
        found._heard(command.headers, now)
        if command.demand <= 0:
            found._over(now)
            return StreamFailed(found.topic, command.headers, found.id, self._errors.not_positive.of())
        found.state = HistorySubscriptionState.FLOWING
        found.demand = min(MAX_LONG, found.demand + command.demand)
        return found

    def cancel(self, command: Cancel, now: float) -> HistorySubscription | StreamFailed | None:
        """The subscription whose source can be closed, or what to send; None if it had already ended.

        Nothing is sent to confirm a cancellation.
        """
        found = self._alive.get(command.subscription)
        if found is None:
            self._forget(now)
            return None if command.subscription in self._ended else self._unknown(command)
        found._heard(command.headers, now)
        found._over(now)
        return found

    def expire(self, now: float) -> list[tuple[HistorySubscription, StreamFailed]]:
        """The subscriptions that have been silent for too long, whose sources can be closed, each with what to send."""
        self._forget(now)
        silent = [each for each in self._alive.values() if now >= each.since + self._idle_seconds]
        expired = []
        for each in silent:
            each._over(now)
            expired.append((each, StreamFailed(each.topic, each.headers, each.id, self._errors.timeout.of(each.id))))
        return expired

    def deadline(self) -> float | None:
        """When to call `expire` next; None if there is nothing to wait for."""
        times = [each.since + self._idle_seconds for each in self._alive.values()]
        times.extend([each.since + self._remembered_seconds for each in self._oldest()])
        return min(times, default=None)

    def _refuse(self, command: DemandRequest, now: float) -> StreamFailed:
        self._forget(now)
        ended = self._ended.get(command.subscription)
        if ended is None:
            return self._unknown(command)
        return StreamFailed(ended.topic, command.headers, ended.id, self._errors.ended.of())

    def _bury(self, subscription: HistorySubscription) -> None:
        del self._alive[subscription.id]
        self._ended[subscription.id] = subscription
        if len(self._ended) > MAX_REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _oldest(self) -> list[HistorySubscription]:
        """Of the ended ones, the one that ended first, if there is one."""
        return [next(iter(self._ended.values()))] if self._ended else []

    def _forget(self, now: float) -> None:
        """Forget those that ended long enough ago."""
        while any(now >= each.since + self._remembered_seconds for each in self._oldest()):
            del self._ended[next(iter(self._ended))]

    def _unknown(self, command: DemandRequest | Cancel) -> StreamFailed:
        error = self._errors.not_found.of(command.subscription)
        return StreamFailed(command.topic, command.headers, command.subscription, error)
